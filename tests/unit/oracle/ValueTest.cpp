//===- ValueTest.cpp - the meaning of ops without a derivative ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Booleans, integers, constants and caches over random shapes, each against
// its definition, written down again for one element at a time.
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/TfmDialect.h"
#include "compiler/oracle/Philox.h"
#include "tests/unit/oracle/Draw.h"

#include "gtest/gtest.h"

#include <cmath>
#include <map>

using namespace tfm;
using namespace tfm::oracle;

namespace {

/// Evaluates `@f` of `text` on `inputs`, or on random ones, and compares every
/// element of its result with `expected(inputs, index)`.
void expectValues(Draw &draw, const std::string &text,
                  llvm::function_ref<double(const std::vector<Tensor> &,
                                            llvm::ArrayRef<int64_t>)>
                      expected,
                  const Environment &environment = {}) {
  SCOPED_TRACE(text);
  TestModule test(text);
  ASSERT_TRUE(test.function("f")) << "the test's text does not parse";
  std::vector<Tensor> inputs = randomInputs(test.function("f"), draw.random);
  auto results = evaluateOrFail(test.function("f"), inputs, environment);
  ASSERT_EQ(results.size(), 1u);
  forEachIndex(results[0].shape, [&](llvm::ArrayRef<int64_t> index) {
    EXPECT_EQ(results[0].at(index), expected(inputs, index));
  });
}

void logicalNot(Draw &draw) {
  std::string type = tensor(draw.shape(0, 3), "i1");
  expectValues(draw, program("%x: " + type, "%y = tfm.not %x : " + type, type),
               [](const std::vector<Tensor> &in, llvm::ArrayRef<int64_t> at) {
                 return in[0].at(at) == 0.0 ? 1.0 : 0.0;
               });
}

void logical(Draw &draw, const char *op, bool (*meaning)(bool, bool)) {
  std::string type = tensor(draw.shape(0, 3), "i1");
  expectValues(draw,
               program(format("%a: {0}, %b: {0}", type),
                       format("%y = tfm.{0} %a, %b : {1}", op, type), type),
               [&](const std::vector<Tensor> &in, llvm::ArrayRef<int64_t> at) {
                 return meaning(in[0].at(at) != 0.0, in[1].at(at) != 0.0);
               });
}
void logicalAnd(Draw &draw) {
  logical(draw, "and", [](bool a, bool b) { return a && b; });
}
void logicalOr(Draw &draw) {
  logical(draw, "or", [](bool a, bool b) { return a || b; });
}

// Integers are often equal, floats never.
void compare(Draw &draw) {
  using Meaning = bool (*)(double, double);
  static const std::pair<const char *, Meaning> kinds[] = {
      {"eq", [](double a, double b) { return a == b; }},
      {"ne", [](double a, double b) { return a != b; }},
      {"lt", [](double a, double b) { return a < b; }},
      {"le", [](double a, double b) { return a <= b; }},
      {"gt", [](double a, double b) { return a > b; }},
      {"ge", [](double a, double b) { return a >= b; }}};
  Shape shape = draw.shape(0, 3);
  std::string type = tensor(shape, draw.coin() ? "i32" : "f32");
  for (const auto &[kind, meaning] : kinds)
    expectValues(
        draw,
        program(format("%a: {0} {{test.limit = 3}, %b: {0} {{test.limit = 3}",
                       type),
                format("%y = tfm.compare {0} %a, %b : {1}", kind, type),
                tensor(shape, "i1")),
        [&, meaning = meaning](const std::vector<Tensor> &in,
                               llvm::ArrayRef<int64_t> at) {
          return meaning(in[0].at(at), in[1].at(at));
        });
}

/// `dense` elements of `shape`, in brackets; appends the values to `values`.
std::string dense(Draw &draw, llvm::ArrayRef<int64_t> shape,
                  const std::string &element, std::vector<double> &values) {
  if (shape.empty()) {
    if (element == "i1") {
      values.push_back(draw.coin());
      return values.back() != 0.0 ? "true" : "false";
    }
    values.push_back(static_cast<double>(draw.below(200) - 100));
    return std::to_string(static_cast<int64_t>(values.back())) +
           (element == "i32" ? "" : ".0");
  }
  std::string text;
  for (int64_t i = 0; i < shape[0]; ++i)
    text += (i ? ", " : "") + dense(draw, shape.drop_front(), element, values);
  return "[" + text + "]";
}

void constant(Draw &draw) {
  Shape shape = draw.shape(0, 3);
  for (const char *element : {"f32", "f64", "i32", "i1"}) {
    std::vector<double> values;
    std::string text = dense(draw, shape, element, values),
                type = tensor(shape, element);
    Tensor expected(shape, values);
    expectValues(
        draw,
        program("", format("%y = tfm.constant dense<{0}> : {1}", text, type),
                type),
        [&](const std::vector<Tensor> &, llvm::ArrayRef<int64_t> at) {
          return expected.at(at);
        });
    // One value for all elements.
    values.clear();
    text = dense(draw, {}, element, values);
    expectValues(
        draw,
        program("", format("%y = tfm.constant dense<{0}> : {1}", text, type),
                type),
        [&](const std::vector<Tensor> &, llvm::ArrayRef<int64_t>) {
          return values[0];
        });
  }
}

void getParam(Draw &draw) {
  Shape shape = draw.shape(0, 3);
  Environment environment;
  Tensor &value = environment.parameters["w"] = Tensor(shape);
  for (double &element : value.data)
    element = static_cast<double>(draw.below(1000));
  std::string type = tensor(shape);
  expectValues(
      draw,
      "tfm.param @w : " + type + " {init = {kind = \"zeros\"}}\n" +
          program("", "%y = tfm.get_param @w : " + type, type),
      [&](const std::vector<Tensor> &, llvm::ArrayRef<int64_t> at) {
        return value.at(at);
      },
      environment);
}

void iota(Draw &draw) {
  Shape shape = draw.shape(1, 4);
  int64_t axis = draw.below(static_cast<int64_t>(shape.size()));
  std::string type = tensor(shape, "i32");
  expectValues(draw,
               program("", format("%y = tfm.iota {0} : {1}", axis, type), type),
               [&](const std::vector<Tensor> &, llvm::ArrayRef<int64_t> at) {
                 return static_cast<double>(at[axis]);
               });
}

void positions(Draw &draw) {
  std::string type = tensor(draw.shape(2), "i32");
  expectValues(
      draw,
      program("%tokens: " + type, "%y = tfm.positions %tokens : " + type, type),
      [](const std::vector<Tensor> &, llvm::ArrayRef<int64_t> at) {
        return static_cast<double>(at[1]);
      });
}

// The last positions lie partly or wholly behind the cache; in a ring they take
// the place of older ones.
void cacheUpdate(Draw &draw) {
  bool ring = draw.below(2) == 0;
  Shape base = draw.shape(4), updates = base;
  updates[2] = ring ? 1 + draw.below(base[2]) : draw.size();
  std::string types = (ring ? "{ring} : " : ": ") + tensor(base) + ", " +
                      tensor(updates) + ", " + tensor({base[0]}, "i32");
  expectValues(
      draw,
      program(format("%b: {0}, %u: {1}, %p: {2} {{test.limit = {3}}",
                     tensor(base), tensor(updates), tensor({base[0]}, "i32"),
                     ring ? 3 * base[2] : base[2] + 2),
              "%y = tfm.cache_update %b, %u, %p " + types, tensor(base)),
      [&](const std::vector<Tensor> &in, llvm::ArrayRef<int64_t> at) {
        int64_t t = at[2] - static_cast<int64_t>(in[2].at({at[0]}));
        if (ring)
          t = (t % base[2] + base[2]) % base[2];
        return t < 0 || t >= updates[2] ? in[0].at(at)
                                        : in[1].at({at[0], at[1], t, at[3]});
      });
}

// A last group may be short; bytes are without a sign.
void dequantise(Draw &draw) {
  int64_t rows = draw.size(), terms = 1 + draw.below(100);
  int64_t groups = (terms + 31) / 32;
  std::string q = tensor({rows, groups * 16}, "i8"),
              table = tensor({rows, groups}, "bf16"), y = tensor({rows, terms});
  expectValues(
      draw,
      program(format("%q: {0} {{test.limit = 256}, %s: {1}, %m: {1}", q, table),
              format("%y = tfm.dequantise %q, %s, %m : {0}, {1} to {2}", q,
                     table, y),
              y),
      [](const std::vector<Tensor> &in, llvm::ArrayRef<int64_t> at) {
        int64_t group = at[1] / 32, term = at[1] % 32;
        auto byte =
            static_cast<int64_t>(in[0].at({at[0], group * 16 + (term & 15)}));
        int64_t integer = term & 16 ? byte >> 4 : byte & 15;
        return in[2].at({at[0], group}) +
               in[1].at({at[0], group}) * static_cast<double>(integer);
      });
}

// Panels and groups of terms that are not full; 128 is added to integers.
void unpack(Draw &draw) {
  int64_t rows = 1 + draw.below(70), terms = 1 + draw.below(20);
  std::string panels = tensor({(rows + 31) / 32, (terms + 3) / 4, 32, 4}, "i8"),
              y = tensor({rows, terms}, "i8");
  expectValues(
      draw,
      program(format("%p: {0} {{test.limit = 256}", panels),
              format("%y = tfm.unpack %p : {0} to {1}", panels, y), y),
      [](const std::vector<Tensor> &in, llvm::ArrayRef<int64_t> at) {
        return in[0].at({at[0] / 32, at[1] / 4, at[0] % 32, at[1] % 4}) - 128;
      });
}

// docs/design.md, "Random numbers"; columns on both sides of the 64 that share
// a counter.
void uniform(Draw &draw) {
  Shape shape = draw.shape(0, 2);
  shape.push_back(draw.oneOf<int64_t>({1, 7, 64, 65, 131}));
  if (draw.below(8) == 0)
    shape.clear();
  auto site = static_cast<int64_t>(draw.below(32768));
  Environment environment;
  environment.seedLow = draw.random();
  environment.seedHigh = draw.random();
  environment.counter = draw.random();
  std::string type = tensor(shape);
  expectValues(
      draw,
      program("",
              format("%y = tfm.uniform {{site = {0} : i64} : {1}", site, type),
              type),
      [&](const std::vector<Tensor> &, llvm::ArrayRef<int64_t> at) {
        int64_t row = 0, column = at.empty() ? 0 : at.back();
        for (size_t axis = 0; axis + 1 < at.size(); ++axis)
          row = row * shape[axis] + at[axis];
        auto word = [](int64_t value) { return static_cast<uint32_t>(value); };
        uint32_t bits = philox(
            {word(column / 64 * 16 + column % 16), word(row),
             word(site * 65536), environment.counter},
            {environment.seedLow, environment.seedHigh})[column % 64 / 16];
        return std::floor(bits / 256.0) / 16777216.0;
      },
      environment);
}

const std::map<std::string, void (*)(Draw &)> &checks() {
  static const std::map<std::string, void (*)(Draw &)> all = {
      {"and", logicalAnd},
      {"compare", compare},
      {"constant", constant},
      {"get_param", getParam},
      {"iota", iota},
      {"not", logicalNot},
      {"or", logicalOr},
      {"positions", positions},
      {"dequantise", dequantise},
      {"uniform", uniform},
      {"unpack", unpack},
  };
  return all;
}

class OpValue : public testing::TestWithParam<std::string> {};

TEST_P(OpValue, AreThoseOfTheDefinition) {
  for (unsigned seed = 0; seed < 16; ++seed) {
    Draw draw(seed);
    checks().at(GetParam())(draw);
  }
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto &[name, check] : checks())
    all.push_back(name);
  return all;
}
INSTANTIATE_TEST_SUITE_P(Ops, OpValue, testing::ValuesIn(names()),
                         [](const auto &info) { return info.param; });

// It has a derivative, but not as a ring.
TEST(OpValues, OfACacheUpdate) {
  for (unsigned seed = 0; seed < 16; ++seed) {
    Draw draw(seed);
    cacheUpdate(draw);
  }
}

TEST(OpValues, CoverEveryOpWithoutADerivative) {
  // Derivatives themselves are tested where they are made (RandomGradients);
  // a declaration and a terminator have no value.
  std::set<std::string> covered = {"attention_backward",
                                   "cross_entropy_backward", "param", "yield"};
  for (const auto &[name, check] : checks())
    covered.insert(name);
  EXPECT_EQ(covered, registeredOps([](mlir::RegisteredOperationName name) {
              return !name.hasInterface<DifferentiableOpInterface>();
            }));
}

} // namespace
