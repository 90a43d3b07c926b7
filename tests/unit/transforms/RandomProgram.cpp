//===- RandomProgram.cpp - random programs for tests ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tests/unit/transforms/RandomProgram.h"

#include <random>
#include <vector>

namespace {

/// Writes one random program. Every value that `values` holds is [R, C], of
/// moderate size, and a smooth function of the arguments.
class Generator {
public:
  explicit Generator(unsigned seed) : random(seed) {}

  std::string program() {
    std::vector<std::string> values = {"%a", "%b"};
    std::string body = block(values, 2, "");
    return "func.func @f(%a: T, %b: T) -> (T, T) {\n" + body + "return " +
           pick(values) + ", " + values.back() + " : T, T\n}\n";
  }

private:
  unsigned below(unsigned limit) { return random() % limit; }
  std::string name() { return "%v" + std::to_string(next++); }
  const std::string &pick(const std::vector<std::string> &values) {
    return values[below(values.size())];
  }

  /// Ops appended to `values`, with repeats nested `depth` deep; `layer` is the
  /// clause that names the layer's index, or empty.
  std::string block(std::vector<std::string> &values, int depth,
                    const std::string &layer) {
    std::string text;
    for (unsigned left = 3 + below(5); left > 0; --left)
      text += depth > 0 && below(4) == 0 ? repeat(values, depth)
                                         : op(values, layer);
    return text;
  }

  std::string op(std::vector<std::string> &values, const std::string &layer) {
    std::string x = pick(values), y = pick(values), v = name();
    std::string p = name(), q = name();
    std::string text;
    switch (below(14)) {
    case 0:
      text = v + " = tfm.tanh " + x + " : T\n";
      break;
    case 1:
      text = v + " = tfm.sin " + x + " : T\n";
      break;
    case 2:
      text = v + " = tfm.gelu_tanh " + x + " : T\n";
      break;
    case 3: // Kept small by the tanh.
      text = p + " = tfm.add " + x + ", " + y + " : T\n" + v + " = tfm.tanh " +
             p + " : T\n";
      break;
    case 4:
      text = p + " = tfm.mul " + x + ", " + y + " : T\n" + v + " = tfm.sin " +
             p + " : T\n";
      break;
    case 5:
      text = p + " = tfm.neg " + x + " : T\n" + q + " = tfm.sub " + y + ", " +
             p + " : T\n" + v + " = tfm.cos " + q + " : T\n";
      break;
    case 6:
      text = v + " = tfm.softmax " + x + " : T\n";
      break;
    case 7:
      text = p + " = tfm.normalize " + x + " eps 1.0e-1 : T\n" + v +
             " = tfm.sin " + p + " : T\n";
      break;
    case 8: // x @ y.T @ y
      text = p + " = tfm.matmul " + x + ", " + y + " transpose_b : T, T\n" + q +
             " = tfm.matmul " + p + ", " + y + " : tensor<RxRxF>, T\n" + v +
             " = tfm.tanh " + q + " : T\n";
      break;
    case 9: // Split, and put together the other way round.
      text = p + " = tfm.slice " + x + " axis 1 start 0 size 1 : T\n" + q +
             " = tfm.slice " + x + " axis 1 start 1 size D : T\n" + v +
             " = tfm.concat " + q + ", " + p +
             " axis 1 : tensor<RxDxF>, tensor<Rx1xF>\n";
      break;
    case 10:
      text = p + " = tfm.reduce_sum " + x + " axis 0 : T\n" + q +
             " = tfm.broadcast " + p + " : tensor<1xCxF> to T\n" + v +
             " = tfm.sin " + q + " : T\n";
      break;
    case 11:
      text = p + " = tfm.transpose " + x + " [1, 0] : T\n" + v +
             " = tfm.reshape " + p + " : tensor<CxRxF> to T\n";
      break;
    case 12:
      text = p + " = tfm.uniform" + layer + " {site = " + std::to_string(next) +
             " : i64} : T\n" + v + " = tfm.mul " + x + ", " + p + " : T\n";
      break;
    default:
      text = v + " = tfm.dropout " + x + layer +
             " {rate = 0.25 : f64, site = " + std::to_string(next) +
             " : i64} : T\n";
      break;
    }
    values.push_back(v);
    return text;
  }

  std::string repeat(std::vector<std::string> &values, int depth) {
    std::string count = std::to_string(1 + below(3)),
                all = "tensor<" + count + "xRxCxF>";
    unsigned carried = below(3), stacked = below(3), shared = below(3),
             saved = carried == 0 ? 1 : below(2);
    std::string text, layer = name(), arguments = "^bb0(" + layer + ": index";
    std::vector<std::string> inner, operands;
    auto argument = [&] {
      inner.push_back(name());
      arguments += ", " + inner.back() + ": T";
    };
    for (unsigned i = 0; i < carried; ++i, argument())
      operands.push_back(pick(values));
    for (unsigned i = 0; i < stacked; ++i, argument()) {
      std::string from = name(), each = name(), own = pick(values);
      text += from + " = tfm.broadcast " + own + " : T to " + all + "\n" +
              each + " = tfm.sin " + from + " : " + all + "\n";
      operands.push_back(each);
    }
    for (unsigned i = 0; i < shared; ++i, argument())
      operands.push_back(pick(values));
    if (inner.empty())
      return op(values, "");

    std::string body = block(inner, depth - 1, " layer " + layer);
    std::string yields, yieldTypes, results, types;
    std::vector<std::string> names;
    for (unsigned i = 0; i < carried + saved; ++i) {
      std::string separator = i ? ", " : "";
      names.push_back(name());
      yields += separator + pick(inner);
      yieldTypes += separator + "T";
      results += separator + names.back();
      types += separator + (i < carried ? "T" : all);
    }
    auto list = [&](size_t first, size_t size, const std::string &type) {
      std::string left, right;
      for (size_t i = first; i < first + size; ++i) {
        left += (i > first ? ", " : "") + operands[i];
        right += (i > first ? ", " : "") + type;
      }
      return "(" + (size ? left + " : " + right : "") + ")";
    };
    text += results + " = tfm.repeat " + count + (below(2) ? " reverse" : "") +
            " carried" + list(0, carried, "T") + " stacked" +
            list(carried, stacked, all) + " shared" +
            list(carried + stacked, shared, "T") + " -> (" + types + ") {\n" +
            arguments + "):\n" + body + "tfm.yield " + yields + " : " +
            yieldTypes + "\n}\n";
    for (unsigned i = 0; i < carried + saved; ++i) {
      if (i < carried) {
        values.push_back(names[i]);
        continue;
      }
      std::string sum = name(), flat = name();
      text += sum + " = tfm.reduce_sum " + names[i] + " axis 0 : " + all +
              "\n" + flat + " = tfm.reshape " + sum +
              " : tensor<1xRxCxF> to T\n";
      values.push_back(flat);
    }
    return text;
  }

  std::mt19937 random;
  int next = 0;
};

std::string replaceAll(std::string text, const std::string &from,
                       const std::string &to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos;
       at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

} // namespace

// `T` stands for tensor<RxCxF>, `R`, `C` and `D` for the sizes of rows, columns
// and columns less one, and `F` for f32 in what Generator writes.
std::string randomProgram(unsigned seed, int rows, int columns) {
  std::string text = Generator(seed).program();
  for (const char *before : {" ", "("})
    for (const char *after : {"\n", ",", ")", " "})
      for (int twice = 0; twice < 2; ++twice)
        text = replaceAll(text, std::string(before) + "T" + after,
                          std::string(before) + "tensor<RxCxF>" + after);
  std::string r = std::to_string(rows), c = std::to_string(columns),
              d = std::to_string(columns - 1);
  for (const char *before : {"<", "x"})
    for (auto &[name, size] :
         {std::pair("R", r), std::pair("C", c), std::pair("D", d)})
      text = replaceAll(text, std::string(before) + name + "x",
                        before + size + "x");
  text = replaceAll(text, "size D", "size " + d);
  return replaceAll(text, "xF>", "xf32>");
}
