//===- EndsTest.cpp - where numbers of f32 end ----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Zeros, infinities, NaN, the largest and the smallest numbers, in vectors and
// what is left over of them: machine code gives what the oracle does.
//
//===----------------------------------------------------------------------===//

#include "compiler/driver/Compile.h"
#include "compiler/frontend/Diagnostics.h"
#include "compiler/frontend/Frontend.h"
#include "compiler/frontend/Source.h"
#include "tests/unit/codegen/CompiledModel.h"
#include "tests/unit/codegen/ExpectCompiled.h"
#include "tests/unit/runtime/TemporaryFolder.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

#include <cmath>
#include <limits>

using namespace tfm;
using oracle::Tensor;
using oracle::TestModule;

namespace {

using Limits = std::numeric_limits<float>;
constexpr double inf = Limits::infinity(), nan = Limits::quiet_NaN(),
                 most = Limits::max(), least = Limits::min();

/// Whether a result is the oracle's but for rounding.
bool isNear(double wanted, double got, double relative) {
  auto rounded = static_cast<float>(wanted);
  if (std::isnan(rounded) || std::isinf(rounded))
    return std::isnan(rounded) ? std::isnan(got) : got == rounded;
  return std::abs(got - rounded) <= relative * std::abs(rounded) + 1e-6;
}

/// Expects of compiled `@f` in `text` what the oracle says.
void expectEnds(const std::string &text, const std::vector<Tensor> &inputs,
                double relative = 1e-5) {
  SCOPED_TRACE(text);
  TestModule module(text);
  mlir::func::FuncOp function = module.function("f");
  ASSERT_TRUE(function) << "the test's text does not parse";
  std::vector<Tensor> wanted =
      oracle::evaluateOrFail(function, inputs, dropoutEnvironment);
  ASSERT_TRUE(mlir::succeeded(prepare(*module.module, testedTarget())));
  std::vector<Tensor> got = CompiledModel(*module.module).run("f", inputs);
  ASSERT_EQ(wanted.size(), got.size());
  for (size_t result = 0; result < wanted.size(); ++result)
    for (size_t i = 0; i < wanted[result].data.size(); ++i)
      EXPECT_TRUE(isNear(wanted[result].data[i], got[result].data[i], relative))
          << "element " << i << " of result " << result << " is "
          << got[result].data[i] << ", and not " << wanted[result].data[i];
}

TEST(Ends, OfFunctions) {
  const std::vector<double> numbers{
      0.0,   -0.0,  inf,   -inf, nan,  most, -most, least, -least, 1e-20,
      1.0,   -1.0,  0.5,   3.0,  -3.0, 10.0, -10.0, 88.0,  -88.0,  89.0,
      -89.0, 104.0, -104., 1e5,  -1e5, 1e20, -1e20, 1e38,  -1e38};
  for (const char *function :
       {"neg", "abs", "exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "erf",
        "relu", "gelu", "gelu_tanh", "silu", "softplus"})
    for (size_t count :
         {size_t{1}, size_t{7}, size_t{16}, size_t{17}, numbers.size()}) {
      Tensor x({static_cast<int64_t>(count)});
      for (size_t i = 0; i < count; ++i)
        x.data[i] = numbers[(i + count % 5) % numbers.size()];
      expectEnds(llvm::formatv(R"(
        func.func @f(%x: tensor<{0}xf32> {{tfm.name = "x"}) -> tensor<{0}xf32> {{
          %y = tfm.{1} %x : tensor<{0}xf32>
          return %y : tensor<{0}xf32>
        })",
                               count, function)
                     .str(),
                 {x});
    }
}

TEST(Ends, OfPairs) {
  const std::vector<double> numbers{0.0,  inf, -inf, nan,  most, -most, 1.0,
                                    -1.0, 0.5, 2.0,  -3.0, 1e20, 1e-20};
  auto side = static_cast<int64_t>(numbers.size());
  Tensor a({side, side}), b({side, side});
  for (int64_t i = 0; i < side * side; ++i) {
    a.data[i] = numbers[i / side];
    b.data[i] = numbers[i % side];
  }
  for (const char *function : {"add", "sub", "mul", "div", "min", "max"})
    expectEnds(llvm::formatv(R"(
      func.func @f(%a: tensor<{0}x{0}xf32> {{tfm.name = "a"}, %b: tensor<{0}x{0}xf32> {{tfm.name = "b"}) -> tensor<{0}x{0}xf32> {{
        %y = tfm.{1} %a, %b : tensor<{0}x{0}xf32>
        return %y : tensor<{0}x{0}xf32>
      })",
                             side, function)
                   .str(),
               {a, b});
}

/// A row for every way in which one ends.
Tensor endingRows(int64_t columns) {
  std::vector<std::vector<double>> rows;
  auto row = [&](double all, std::vector<double> first = {}) {
    std::vector<double> row(columns, all);
    llvm::copy(first, row.begin());
    rows.push_back(std::move(row));
  };
  for (double all : {0.0, 7.0, inf, -inf, nan, 1e20, 1e38, -1e38, most, -most})
    row(all);
  for (double first : {inf, -inf, nan, 1e20, 1e38, -1e38})
    row(0.5, {first});
  row(-inf, {0.0, 1.0});
  row(-inf, {-1e38});
  row(1e38, {-1e38});
  row(1e9, {1e9 + 64});
  Tensor x({static_cast<int64_t>(rows.size()), columns});
  for (auto [i, values] : llvm::enumerate(rows))
    llvm::copy(values, x.row(i).begin());
  return x;
}

TEST(Ends, OfRows) {
  for (int64_t columns : {5, 16, 17, 130}) {
    Tensor x = endingRows(columns);
    std::string of = llvm::formatv("tensor<{0}x{1}xf32>", x.rows(), columns),
                ofRow = llvm::formatv("tensor<{0}x1xf32>", x.rows());
    auto expect = [&](const std::string &op, const std::string &result) {
      expectEnds("func.func @f(%x: " + of + " {tfm.name = \"x\"}) -> " +
                     result + " {\n  %y = tfm." + op + " : " + of +
                     "\n  return %y : " + result + "\n}",
                 {x});
    };
    expect("softmax %x", of);
    expect("log_softmax %x", of);
    expect("reduce_sum %x axis 1", ofRow);
    expect("reduce_max %x axis 1 {keeps_nan}", ofRow);
  }
}

TEST(Ends, OfLosses) {
  for (int64_t columns : {5, 17}) {
    Tensor x = endingRows(columns), targets({x.rows()});
    llvm::fill(targets.data, 2.0);
    expectEnds(llvm::formatv(R"(
      func.func @f(%x: tensor<{0}x{1}xf32> {{tfm.name = "x"}, %t: tensor<{0}xi32> {{tfm.name = "t"}) -> tensor<{0}xf32> {{
        %losses, %lse = tfm.cross_entropy %x, %t {{ignore = -100 : i64} : tensor<{0}x{1}xf32>, tensor<{0}xi32>
        return %losses : tensor<{0}xf32>
      })",
                             x.rows(), columns)
                   .str(),
               {x, targets});
  }
}

// Scores beyond 2 ** 24, of which an f32 has no fractions, and beyond 2 ** 31,
// where what rounding adds to one is more than powers of two can have.
TEST(Ends, OfScores) {
  enum Operand { none, mask, start };
  struct Form {
    Operand operand;
    std::string element, attributes;
    int64_t queries, keys;
  };
  for (const Form &form :
       {Form{none, "f32", "causal, ", 70, 70},
        Form{none, "f32", "causal, window = 4 : i64, ", 70, 70},
        Form{none, "f32", "", 300, 300}, Form{mask, "f32", "", 40, 40},
        Form{start, "f32", "causal, ", 2, 40},
        Form{none, "bf16", "causal, ", 70, 70}})
    for (double factor : {0x1p20, 0x1p26, 0x1p31, 0x1p33, 0x1p60, -0x1p33}) {
      if (form.element == "bf16" && testsGpu())
        continue; // no finite weights there: docs/gpu.md
      int64_t width = form.element == "bf16" ? 64 : 8;
      // Products are exact, also of bf16, and some of them equal.
      Tensor q({1, 1, form.queries, width}), k({1, 1, form.keys, width}),
          v({1, 1, form.keys, width});
      for (int64_t t = 0; t < form.queries; ++t)
        q.data[width * t] = factor;
      for (int64_t s = 0; s < form.keys; ++s) {
        k.data[width * s] = 1 + 0.25 * static_cast<double>(s * 7 % 13);
        for (int64_t i = 0; i < width; ++i)
          v.data[width * s + i] =
              static_cast<double>((width * s + i) * 5 % 17) / 8 - 1;
      }
      std::vector<Tensor> inputs{q, k, v};
      auto of = [](int64_t rows, int64_t columns, llvm::StringRef element) {
        return llvm::formatv("tensor<1x1x{0}x{1}x{2}>", rows, columns, element)
            .str();
      };
      std::string arguments, casts, types, operand, separator;
      for (auto [name, rows] :
           {std::pair("q", form.queries), std::pair("k", form.keys),
            std::pair("v", form.keys)}) {
        std::string wide = of(rows, width, "f32"),
                    type = of(rows, width, form.element);
        arguments += llvm::formatv("{0}%{1}: {2} {{tfm.name = \"{1}\"}",
                                   separator, name, wide);
        casts += llvm::formatv("  %{0}0 = tfm.cast %{0} : {1} to {2}\n", name,
                               wide, type);
        types += separator + type;
        separator = ", ";
      }
      if (form.operand == mask) {
        inputs.push_back(Tensor({1, 1, form.queries, form.keys}));
        std::string type = of(form.queries, form.keys, "f32");
        arguments += ", %m: " + type + " {tfm.name = \"m\"}";
        operand = "mask %m ";
        types += ", " + type;
      } else if (form.operand == start) {
        inputs.push_back(
            Tensor({1}, static_cast<double>(form.keys - form.queries)));
        arguments += ", %s: tensor<1xi32> {tfm.name = \"s\"}";
        operand = "start(%s : tensor<1xi32>) ";
      }
      std::string wide = of(form.queries, width, "f32");
      expectEnds("func.func @f(" + arguments + ") -> " + wide + " {\n" + casts +
                     "  %o, %l = tfm.attention %q0, %k0, %v0 " + operand + "{" +
                     form.attributes + "scale = 0.35355339059327373 : f64} : " +
                     types + "\n  %y = tfm.cast %o : " +
                     of(form.queries, width, form.element) + " to " + wide +
                     "\n  return %y : " + wide + "\n}",
                 inputs, form.element == "bf16" ? 0.01 : 1e-5);
    }
}

// Torch has 0 there, too.
TEST(Ends, OfADeviation) {
  test::TemporaryFolder folder;
  std::string path = folder.write("model.tfm", R"tfm(
model Deviation(context = 2) {
  param rows: [2, 17]

  forward(tokens: int[B, T]) -> [B, T, 1] { return std(gather(rows, tokens)) }
  loss(tokens: int[B, T], targets: int[B, T]) -> [B, T] {
    return rearrange(forward(tokens), "B T one -> B (T one)")
  }
}
train { batch = 1, sequence = 2, steps = 1 }
)tfm");
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  SourceManager sources;
  Diagnostics diags(sources);
  auto module = compileToTfm(context, sources, path, {}, diags);
  ASSERT_TRUE(module);
  ASSERT_TRUE(mlir::succeeded(prepare(*module, testedTarget())));
  CompiledModel compiled(*module);
  Tensor rows({2, 17}, 3.0);
  rows.data[17] = 20.0;
  compiled.setParameter("rows", rows);
  std::vector<Tensor> loss =
      compiled.run("train", {Tensor({1, 2}, {0.0, 1.0}), Tensor({1, 2}),
                             Tensor({}, 2.0), Tensor({4})});
  EXPECT_NEAR(loss.front().data.front(), 4.0 / 2, 1e-5);
  Tensor gradient = compiled.gradient("rows");
  for (int64_t i = 0; i < 17; ++i) {
    EXPECT_EQ(gradient.data[i], 0.0);
    EXPECT_NEAR(gradient.data[17 + i], (i == 0 ? 4.0 / 17 : -0.25 / 17) / 2,
                1e-6);
  }
}

} // namespace
