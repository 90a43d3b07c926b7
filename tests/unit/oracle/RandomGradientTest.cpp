//===- RandomGradientTest.cpp - every derivative, over random shapes ------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One function per kind of op draws shapes and attributes and writes a program
// around the op; its derivative is compared with differences. The results of
// ops that are linear go through a sine, so that their cotangents differ from
// element to element.
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/TfmDialect.h"
#include "tests/unit/oracle/Draw.h"
#include "tests/unit/transforms/RandomProgram.h"

#include "gtest/gtest.h"

#include <map>
#include <numeric>

using namespace tfm;
using namespace tfm::oracle;

namespace {

/// Shapes and attributes of every op are drawn from these seeds.
constexpr unsigned seeds = 16;

/// `%y`, the sine of `%z`.
std::string sineOfZ(const std::string &type) {
  return "\n  %y = tfm.sin %z : " + type;
}

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

/// Of one operand, which is positive where `attributes` say so.
std::string unary(Draw &draw, const char *op, const char *attributes) {
  std::string type = tensor(draw.shape(0, 3));
  return program("%x: " + type + attributes,
                 format("%y = tfm.{0} %x : {1}", op, type), type);
}
std::string anySign(Draw &draw, const char *op) { return unary(draw, op, ""); }
std::string positive(Draw &draw, const char *op) {
  return unary(draw, op, " {test.positive}");
}

/// Of two operands, the last of them positive; or of one operand twice.
std::string binary(Draw &draw, const char *op) {
  std::string type = tensor(draw.shape(0, 3)), name = op;
  // Equal operands of min and max are a kink.
  bool twice = draw.below(4) == 0 && name != "min" && name != "max";
  if (twice)
    return program("%b: " + type + " {test.positive}",
                   format("%y = tfm.{0} %b, %b : {1}", op, type), type);
  return program(format("%a: {0}, %b: {0} {{test.positive}", type),
                 format("%y = tfm.{0} %a, %b : {1}", op, type), type);
}

std::string fma(Draw &draw, const char *) {
  std::string type = tensor(draw.shape(0, 3));
  return program(format("%a: {0}, %b: {0}, %c: {0}", type),
                 format("%z = tfm.fma %a, %b, %c : {0}", type) + sineOfZ(type),
                 type);
}

std::string power(Draw &draw, const char *) {
  std::string type = tensor(draw.shape(0, 3));
  return program(format("%a: {0} {{test.positive}, %b: {0}", type),
                 format("%y = tfm.pow %a, %b : {0}", type), type);
}

std::string cast(Draw &draw, const char *) {
  Shape shape = draw.shape(0, 3);
  std::string from = tensor(shape, draw.coin() ? "f32" : "f64"),
              to = tensor(shape, draw.coin() ? "f32" : "f64");
  return program(
      "%x: " + from,
      format("%z = tfm.cast %x : {0} to {1}", from, to) + sineOfZ(to), to);
}

std::string select(Draw &draw, const char *) {
  Shape shape = draw.shape(0, 3);
  std::string type = tensor(shape), condition = tensor(shape, "i1");
  return program(format("%c: {0}, %a: {1}, %b: {1}", condition, type),
                 format("%z = tfm.select %c, %a, %b : {0}, {1}\n"
                        "%y = tfm.mul %z, %a : {1}",
                        condition, type),
                 type);
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

std::string broadcast(Draw &draw, const char *) {
  Shape to = draw.shape(0, 4);
  // Leading axes are left out, others have size 1.
  Shape from(to.begin() + draw.below(static_cast<int64_t>(to.size()) + 1),
             to.end());
  for (int64_t &size : from)
    if (draw.coin())
      size = 1;
  return program(
      "%x: " + tensor(from),
      format("%z = tfm.broadcast %x : {0} to {1}", tensor(from), tensor(to)) +
          sineOfZ(tensor(to)),
      tensor(to));
}

std::string reshape(Draw &draw, const char *) {
  Shape from = draw.shape(0, 4), to;
  int64_t left = numElements(from);
  // Factors in random order, now and then with an axis of size 1.
  while (left > 1 || draw.below(3) == 0) {
    int64_t factor = draw.oneOf<int64_t>({1, 2, 3, 5, 6, 7, left});
    if (left % factor == 0) {
      to.push_back(factor);
      left /= factor;
    }
  }
  return program(
      "%x: " + tensor(from),
      format("%z = tfm.reshape %x : {0} to {1}", tensor(from), tensor(to)) +
          sineOfZ(tensor(to)),
      tensor(to));
}

std::string transpose(Draw &draw, const char *) {
  Shape from = draw.shape(0, 4), order(from.size()), to;
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), draw.random);
  std::string list;
  for (int64_t axis : order) {
    to.push_back(from[axis]);
    list += (list.empty() ? "" : ", ") + std::to_string(axis);
  }
  return program(
      "%x: " + tensor(from),
      format("%z = tfm.transpose %x [{0}] : {1}", list, tensor(from)) +
          sineOfZ(tensor(to)),
      tensor(to));
}

std::string slice(Draw &draw, const char *) {
  Shape from = draw.shape(1, 4), to = from;
  int64_t axis = draw.below(static_cast<int64_t>(from.size()));
  to[axis] = 1 + draw.below(from[axis]);
  int64_t start = draw.below(from[axis] - to[axis] + 1);
  return program("%x: " + tensor(from),
                 format("%z = tfm.slice %x axis {0} start {1} size {2} : {3}",
                        axis, start, to[axis], tensor(from)) +
                     sineOfZ(tensor(to)),
                 tensor(to));
}

std::string pad(Draw &draw, const char *) {
  Shape from = draw.shape(1, 4), to = from;
  int64_t axis = draw.below(static_cast<int64_t>(from.size()));
  int64_t low = draw.below(4), high = draw.below(4);
  to[axis] += low + high;
  return program("%x: " + tensor(from),
                 format("%z = tfm.pad %x axis {0} low {1} high {2} : {3}", axis,
                        low, high, tensor(from)) +
                     sineOfZ(tensor(to)),
                 tensor(to));
}

std::string concat(Draw &draw, const char *) {
  Shape to = draw.shape(1, 3);
  int64_t axis = draw.below(static_cast<int64_t>(to.size()));
  to[axis] = 0;
  std::string arguments, operands, types;
  std::vector<std::pair<std::string, int64_t>> pieces;
  for (int64_t left = 1 + draw.below(4); left > 0; --left) {
    // One operand may occur twice.
    if (!pieces.empty() && draw.below(3) == 0) {
      pieces.push_back(pieces[draw.below(static_cast<int64_t>(pieces.size()))]);
    } else {
      pieces.push_back({"%x" + std::to_string(left), draw.size()});
      Shape shape = to;
      shape[axis] = pieces.back().second;
      arguments += (arguments.empty() ? "" : ", ") + pieces.back().first +
                   ": " + tensor(shape);
    }
    Shape shape = to;
    shape[axis] = pieces.back().second;
    operands += (operands.empty() ? "" : ", ") + pieces.back().first;
    types += (types.empty() ? "" : ", ") + tensor(shape);
  }
  for (const auto &[name, size] : pieces)
    to[axis] += size;
  return program(
      arguments,
      format("%z = tfm.concat {0} axis {1} : {2}", operands, axis, types) +
          sineOfZ(tensor(to)),
      tensor(to));
}

//===----------------------------------------------------------------------===//
// Reductions, normalisations, cross entropy
//===----------------------------------------------------------------------===//

std::string reduce(Draw &draw, const char *op) {
  Shape from = draw.shape(1, 4), to = from;
  int64_t axis = draw.below(static_cast<int64_t>(from.size()));
  to[axis] = 1;
  return program(
      "%x: " + tensor(from),
      format("%z = tfm.{0} %x axis {1} : {2}", op, axis, tensor(from)) +
          sineOfZ(tensor(to)),
      tensor(to));
}

std::string rows(Draw &draw, const char *op) {
  std::string type = tensor(draw.shape(1, 4));
  return program("%x: " + type, format("%y = tfm.{0} %x : {1}", op, type),
                 type);
}

std::string cumsum(Draw &draw, const char *) {
  Shape shape = draw.shape(1, 4);
  int64_t axis = draw.below(static_cast<int64_t>(shape.size()));
  return program("%x: " + tensor(shape),
                 format("%z = tfm.cumsum %x axis {0} {1} : {2}", axis,
                        draw.coin() ? "reverse" : "", tensor(shape)) +
                     sineOfZ(tensor(shape)),
                 tensor(shape));
}

std::string scan(Draw &draw, const char *) {
  Shape shape = draw.shape(1, 4);
  int64_t axis = draw.below(static_cast<int64_t>(shape.size()));
  return program(format("%a: {0}, %x: {0}", tensor(shape)),
                 format("%z = tfm.scan %a, %x axis {0} {1} : {2}", axis,
                        draw.coin() ? "reverse" : "", tensor(shape)) +
                     sineOfZ(tensor(shape)),
                 tensor(shape));
}

std::string shift(Draw &draw, const char *) {
  Shape shape = draw.shape(1, 4);
  int64_t axis = draw.below(static_cast<int64_t>(shape.size())),
          size = shape[static_cast<size_t>(axis)];
  // Up to one more than there are elements, either way.
  return program("%x: " + tensor(shape),
                 format("%z = tfm.shift %x axis {0} by {1} : {2}", axis,
                        draw.below(2 * size + 3) - size - 1, tensor(shape)) +
                     sineOfZ(tensor(shape)),
                 tensor(shape));
}

std::string topK(Draw &draw, const char *) {
  Shape from = draw.shape(1, 4), to = from;
  to.back() = 1 + draw.below(from.back());
  return program(
      "%x: " + tensor(from),
      format("%z, %ids = tfm.top_k %x, {0} : {1}", to.back(), tensor(from)) +
          sineOfZ(tensor(to)),
      tensor(to));
}

std::string normalize(Draw &draw, const char *op) {
  std::string type = tensor(draw.shape(1, 4));
  return program("%x: " + type,
                 format("%y = tfm.{0} %x eps {1} : {2}", op,
                        draw.coin() ? "1.0e-2" : "0.3", type),
                 type);
}

std::string crossEntropy(Draw &draw, const char *) {
  Shape index = draw.shape(0, 2), logits = index;
  int64_t vocabulary = draw.size();
  logits.push_back(vocabulary);
  std::string attributes;
  // An id that occurs, or one that does not.
  if (draw.coin())
    attributes += format("ignore = {0} : i64, ",
                         draw.coin() ? draw.below(vocabulary) : -100);
  attributes += format("label_smoothing = {0} : f64",
                       draw.oneOf<const char *>({"0.0", "0.1", "0.5"}));
  // The loss alone, or both results.
  bool both = draw.coin();
  return program(
      format("%logits: {0}, %targets: {1} {{test.limit = {2}}", tensor(logits),
             tensor(index, "i32"), vocabulary),
      format("%z, %lse = tfm.cross_entropy %logits, %targets {{{0}} : {1}, "
             "{2}\n  %y = tfm.mul %z, {3} : {4}",
             attributes, tensor(logits), tensor(index, "i32"),
             both ? "%lse" : "%z", tensor(index)),
      tensor(index));
}

//===----------------------------------------------------------------------===//
// Matrix product, embedding
//===----------------------------------------------------------------------===//

std::string matmul(Draw &draw, const char *) {
  Shape batch = draw.shape(0, 2);
  int64_t m = draw.size(), n = draw.size(), depth = draw.size();
  bool ta = draw.coin(), tb = draw.coin();
  auto matrix = [&](int64_t rows, int64_t columns, bool transposed) {
    Shape shape = batch;
    shape.push_back(transposed ? columns : rows);
    shape.push_back(transposed ? rows : columns);
    return tensor(shape);
  };
  std::string a = matrix(m, depth, ta), b = matrix(depth, n, tb),
              y = matrix(m, n, false);
  return program(format("%a: {0}, %b: {1}", a, b),
                 format("%z = tfm.matmul %a, %b {0} {1} : {2}, {3}",
                        ta ? "transpose_a" : "", tb ? "transpose_b" : "", a,
                        b) +
                     sineOfZ(y),
                 y);
}

std::string gather(Draw &draw, const char *) {
  Shape table = draw.shape(1, 3), ids = draw.shape(0, 2), result = ids;
  result.insert(result.end(), table.begin() + 1, table.end());
  std::string tableType = tensor(table), idType = tensor(ids, "i32");
  return program(
      format("%table: {0}, %ids: {1} {{test.limit = {2}}", tableType, idType,
             table[0]),
      format("%z = tfm.gather %table, %ids : {0}, {1}", tableType, idType) +
          sineOfZ(tensor(result)),
      tensor(result));
}

std::string scatterAdd(Draw &draw, const char *) {
  Shape table = draw.shape(1, 3), ids = draw.shape(0, 2), updates = ids;
  updates.insert(updates.end(), table.begin() + 1, table.end());
  std::string types =
      tensor(table) + ", " + tensor(ids, "i32") + ", " + tensor(updates);
  return program(
      format("%base: {0}, %ids: {1} {{test.limit = {2}}, %updates: {3}",
             tensor(table), tensor(ids, "i32"), table[0], tensor(updates)),
      format("%z = tfm.scatter_add %base, %ids, %updates : {0}", types) +
          sineOfZ(tensor(table)),
      tensor(table));
}

// Some positions lie outside. Of a base that is that of all, no row is written
// twice.
std::string cacheUpdate(Draw &draw, const char *) {
  Shape base = draw.shape(4), updates = base;
  updates[2] = draw.size();
  std::string places = tensor({base[0]}, "i32"), position, arguments;
  if (draw.coin()) {
    int64_t first = draw.below(3) - 1;
    for (int64_t b = 0; b < base[0]; ++b)
      position += (b ? ", " : "") + std::to_string(first + b * updates[2]);
    position =
        format("%p = tfm.constant dense<[{0}]> : {1}\n  ", position, places);
    // All of one sequence, which may have room for all of them.
    base[2] += draw.below(2) * base[0] * updates[2];
    base[0] = 1;
  } else {
    arguments = format(", %p: {0} {{test.limit = {1}}", places, base[2] + 2);
  }
  return program(format("%b: {0}, %u: {1}", tensor(base), tensor(updates)) +
                     arguments,
                 position +
                     format("%z = tfm.cache_update %b, %u, %p : {0}, {1}, {2}",
                            tensor(base), tensor(updates), places) +
                     sineOfZ(tensor(base)),
                 tensor(base));
}

//===----------------------------------------------------------------------===//
// Attention, rotary embedding, dropout, repeats
//===----------------------------------------------------------------------===//

std::string attention(Draw &draw, const char *) {
  int64_t batch = 1 + draw.below(2), kvHeads = 1 + draw.below(2),
          heads = kvHeads * (1 + draw.below(3));
  int64_t queries = draw.smallSize(), keys = draw.smallSize(),
          width = draw.smallSize(), value = draw.smallSize();
  std::string q = tensor({batch, heads, queries, width}),
              k = tensor({batch, kvHeads, keys, width}),
              v = tensor({batch, kvHeads, keys, value}),
              y = tensor({batch, heads, queries, value});
  std::string arguments = format("%q: {0}, %k: {1}, %v: {2}", q, k, v),
              types = q + ", " + k + ", " + v, mask;
  if (const char *element = draw.oneOf<const char *>({"", "i1", "f32"});
      *element) {
    std::string type = tensor(
        {draw.coin() ? batch : 1, draw.coin() ? heads : 1, queries, keys},
        element);
    arguments += ", %m: " + type;
    types += ", " + type;
    mask = "mask %m";
  }
  std::string attributes = format(
      "scale = {0} : f64", draw.oneOf<const char *>({"0.7", "1.0", "-0.4"}));
  if (draw.coin())
    attributes += ", causal";
  if (draw.below(3) == 0)
    attributes += format(", window = {0} : i64", 1 + draw.below(keys));
  if (draw.below(3) == 0)
    attributes +=
        draw.coin() ? ", softcap = 0.5 : f64" : ", softcap = 2.0 : f64";
  if (draw.below(3) == 0)
    attributes += format(", dropout = 0.{0} : f64, site = {1} : i64",
                         1 + draw.below(8), draw.below(32768));
  // Also where distances have no column.
  std::string distance;
  if (draw.below(3) == 0) {
    std::string type = tensor({heads, 1 + 2 * draw.below(keys + 1)});
    arguments += ", %d: " + type;
    distance = "distance(%d : " + type + ")";
  }
  return program(
      arguments,
      format("%y, %lse = tfm.attention %q, %k, %v {0} {1} {{{2}} : {3}", mask,
             distance, attributes, types),
      y);
}

std::string rope(Draw &draw, const char *) {
  int64_t batch = draw.smallSize(), heads = draw.smallSize(),
          length = draw.smallSize(), width = 2 + draw.below(6);
  std::string x = tensor({batch, heads, length, width}),
              positions = tensor({batch, length}, "i32");
  int64_t dims = 2 + 2 * draw.below(width / 2);
  std::string attributes =
      format("base = {0} : f64, dims = {1} : i64",
             draw.oneOf<const char *>({"2.0", "100.0", "10000.0"}), dims);
  if (draw.below(3) == 0) {
    attributes += ", amplitude = 1.25 : f64, frequencies = array<f64: 0.5";
    for (int64_t i = 1; i < dims / 2; ++i)
      attributes += format(", 0.{0}", 1 + draw.below(9));
    attributes += ">";
  }
  if (draw.coin())
    attributes += ", interleaved";
  if (draw.coin())
    attributes += ", inverse";
  return program(format("%x: {0}, %p: {1} {{test.limit = 50}", x, positions),
                 format("%z = tfm.rope %x, %p {{{0}} : {1}, {2}", attributes, x,
                        positions) +
                     sineOfZ(x),
                 x);
}

// Columns on both sides of the 64 that share a counter.
std::string dropout(Draw &draw, const char *) {
  Shape shape = draw.shape(0, 2);
  shape.push_back(draw.oneOf<int64_t>({1, 7, 64, 65, 131}));
  if (draw.below(8) == 0)
    shape.clear();
  std::string type = tensor(shape);
  return program(
      "%x: " + type,
      format("%z = tfm.dropout %x {{rate = 0.{0} : f64, site = {1} : i64} : "
             "{2}",
             draw.below(10), draw.below(32768), type) +
          sineOfZ(type),
      type);
}

// Nested, reversed, with carried, stacked, shared and saved values.
std::string repeat(Draw &draw, const char *) {
  while (true) {
    std::string text =
        randomProgram(static_cast<unsigned>(draw.random()),
                      static_cast<int>(draw.smallSize()),
                      static_cast<int>(draw.oneOf<int64_t>({2, 3, 5})));
    if (text.find("tfm.repeat") != std::string::npos)
      return text;
  }
}

//===----------------------------------------------------------------------===//
// All of them
//===----------------------------------------------------------------------===//

using Write = std::string (*)(Draw &, const char *);

const std::map<std::string, Write> &writers() {
  static const std::map<std::string, Write> all = {
      {"abs", anySign},
      {"add", binary},
      {"attention", attention},
      {"broadcast", broadcast},
      {"cache_update", cacheUpdate},
      {"cast", cast},
      {"concat", concat},
      {"cos", anySign},
      {"cross_entropy", crossEntropy},
      {"cumsum", cumsum},
      {"div", binary},
      {"dropout", dropout},
      {"erf", anySign},
      {"exp", anySign},
      {"fma", fma},
      {"gather", gather},
      {"gelu", anySign},
      {"gelu_tanh", anySign},
      {"log", positive},
      {"log_softmax", rows},
      {"matmul", matmul},
      {"max", binary},
      {"min", binary},
      {"mul", binary},
      {"neg", anySign},
      {"normalize", normalize},
      {"pad", pad},
      {"pow", power},
      {"reduce_max", reduce},
      {"reduce_sum", reduce},
      {"relu", anySign},
      {"relu_squared", anySign},
      {"repeat", repeat},
      {"reshape", reshape},
      {"rms_normalize", normalize},
      {"rope", rope},
      {"rsqrt", positive},
      {"scan", scan},
      {"scatter_add", scatterAdd},
      {"select", select},
      {"shift", shift},
      {"sigmoid", anySign},
      {"silu", anySign},
      {"sin", anySign},
      {"slice", slice},
      {"softmax", rows},
      {"softplus", anySign},
      {"sqrt", positive},
      {"sub", binary},
      {"tanh", anySign},
      {"top_k", topK},
      {"transpose", transpose},
  };
  return all;
}

class RandomGradient : public testing::TestWithParam<std::string> {};

TEST_P(RandomGradient, AgreesWithDifferences) {
  const std::string &op = GetParam();
  for (unsigned seed = 0; seed < seeds; ++seed) {
    Draw draw(seed);
    std::string text = writers().at(op)(draw, op.c_str());
    ASSERT_NE(text.find("tfm." + op + " "), std::string::npos) << text;
    Environment environment;
    environment.seedLow = draw.random();
    environment.seedHigh = draw.random();
    environment.counter = draw.random();
    expectGradients(text, seed, environment);
  }
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto &[name, write] : writers())
    all.push_back(name);
  return all;
}
INSTANTIATE_TEST_SUITE_P(Ops, RandomGradient, testing::ValuesIn(names()),
                         [](const auto &info) { return info.param; });

/// The index along an axis at `place` that element `flat` of a tensor of
/// `shape` has.
int64_t indexAt(llvm::ArrayRef<int64_t> shape, AxisPlace place, int64_t size,
                int64_t flat) {
  int64_t stride = place.inner;
  for (int64_t extent : shape.drop_front(place.axis + 1))
    stride *= extent;
  return flat / stride % size;
}

/// Changes what the inputs of `@f` hold at one index along axes of one of them,
/// and expects that its results change where the axis map of `op` says.
void expectAxes(mlir::func::FuncOp f, mlir::Operation *op, Draw &draw,
                const Environment &environment) {
  std::vector<Tensor> inputs = randomInputs(f, draw.random);
  std::vector<Tensor> others = randomInputs(f, draw.random);
  std::vector<Tensor> before = evaluateOrFail(f, inputs, environment);
  for (mlir::OpOperand &operand : op->getOpOperands()) {
    auto argument = llvm::dyn_cast<mlir::BlockArgument>(operand.get());
    if (!argument)
      continue;
    llvm::ArrayRef<int64_t> shape = tensorType(argument).getShape();
    for (int64_t axis = 0; axis < static_cast<int64_t>(shape.size()); ++axis) {
      // The whole axis, or a factor of it.
      AxisPlace place{axis, draw.coin() ? 1 : shape[axis]};
      while (shape[axis] % place.inner != 0)
        --place.inner;
      int64_t size = shape[axis] / place.inner;
      if (size > 2 && size % 2 == 0 && draw.coin())
        size /= 2;
      AxisMap map = llvm::cast<AxisMapOpInterface>(op).mapAxis(
          operand.getOperandNumber(), place, size);
      if (map.isMixed()) {
        EXPECT_FALSE(map.reason.empty());
        continue;
      }
      int64_t index = draw.below(size), number = argument.getArgNumber();
      std::vector<Tensor> changed = inputs;
      for (int64_t i = 0; i < changed[number].size(); ++i)
        if (indexAt(shape, place, size, i) == index)
          changed[number].data[i] = others[number].data[i];
      std::vector<Tensor> after = evaluateOrFail(f, changed, environment);
      ASSERT_LT(map.place.axis, before[0].rank());
      for (int64_t i = 0; i < before[0].size(); ++i) {
        if (before[0].data[i] == after[0].data[i])
          continue;
        int64_t at = indexAt(before[0].shape, map.place, size, i);
        EXPECT_TRUE(map.isKept() ? at == index : at >= index)
            << "operand " << operand.getOperandNumber() << ", axis " << axis
            << ": index " << index << " of " << size << " changes " << at;
      }
    }
  }
}

TEST_P(RandomGradient, AxesGoWhereTheOpSays) {
  const std::string &op = GetParam();
  for (unsigned seed = 0; seed < 4 * seeds; ++seed) {
    Draw draw(seed);
    TestModule test(writers().at(op)(draw, op.c_str()));
    mlir::func::FuncOp f = test.function("f");
    ASSERT_TRUE(f);
    f.walk([&](AxisMapOpInterface inner) {
      if (inner->getName().stripDialect() == op &&
          inner->getParentOp() == f.getOperation())
        expectAxes(f, inner, draw, Environment());
    });
  }
}

// The derivatives of these two are ops of their own, which nothing else writes.
TEST(RandomGradients, GoThroughTheOpsThatAreDerivatives) {
  for (const char *op : {"attention", "cross_entropy"}) {
    Draw draw(0);
    TestModule test(writers().at(op)(draw, op));
    ASSERT_TRUE(test.function("f"));
    int found = 0;
    addVJP(test.function("f"), "g").walk([&](mlir::Operation *inner) {
      found += inner->getName().stripDialect() == std::string(op) + "_backward";
    });
    EXPECT_EQ(found, 1) << op;
  }
}

// But for stop_gradient, whose derivative is not that of its value (see
// ElementwiseGradient.StopGradient).
TEST(RandomGradients, CoverEveryOpThatHasADerivative) {
  std::set<std::string> covered = {"stop_gradient"};
  for (const auto &[name, write] : writers())
    covered.insert(name);
  EXPECT_EQ(covered, registeredOps([](mlir::RegisteredOperationName name) {
              return name.hasInterface<DifferentiableOpInterface>();
            }));
}

} // namespace
