//===- Emulated.cpp - hand-written kernels in the emulator ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tests/unit/emulator/Emulated.h"

#include "runtime/support/float16.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Parser/Parser.h"

#include <fstream>
#include <numeric>
#include <random>
#include <sstream>

using namespace tfm;
using namespace tfm::emulator;

Emulated::Emulated(const std::string &file, const Changes &changes) {
  std::ifstream in(TFM_KERNELS "/" + file);
  EXPECT_TRUE(in) << file;
  std::stringstream read;
  read << in.rdbuf();
  std::string text = read.str();
  for (const auto &[from, to] : changes) {
    EXPECT_NE(text.find(from), std::string::npos) << from;
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos;
         at += to.size())
      text.replace(at, from.size(), to);
  }
  context.loadDialect<mlir::LLVM::LLVMDialect, mlir::NVVM::NVVMDialect>();
  module = mlir::parseSourceString<mlir::ModuleOp>(text, &context, file);
  EXPECT_TRUE(module) << text;
  if (!module)
    return;
  llvm::Expected<Program> loaded = Program::load(*module, machine);
  if (loaded)
    program.emplace(std::move(*loaded));
  else
    error = toString(loaded.takeError());
}

/// Numbers that sums and products of a few hundred are exact with.
static std::vector<float> smallIntegers(size_t count) {
  std::mt19937 random(3);
  std::vector<float> numbers(count);
  for (float &number : numbers)
    number = static_cast<float>(static_cast<int>(random() % 15) - 7);
  return numbers;
}

Outcome tfm::emulator::runRowSum(Emulated &kernels) {
  std::vector<float> x = smallIntegers(3 * 512), y(3, NAN);
  kernels.give("x", x);
  kernels.give("y", y);
  Outcome outcome{kernels.launch("row_sum", x.data(), y.data())};
  outcome.right = true;
  for (size_t row = 0; row < 3; ++row)
    outcome.right &=
        y[row] == std::accumulate(x.begin() + row * 512,
                                  x.begin() + (row + 1) * 512, 0.0f);
  return outcome;
}

Outcome tfm::emulator::runGemm(Emulated &kernels) {
  constexpr size_t M = 64, N = 32, K = 64;
  std::vector<float> numbers = smallIntegers(M * K + K * N);
  std::vector<uint16_t> a(M * K), b(K * N);
  for (size_t i = 0; i < a.size(); ++i)
    a[i] = toBFloat16(numbers[i]);
  for (size_t i = 0; i < b.size(); ++i)
    b[i] = toBFloat16(numbers[M * K + i]);
  std::vector<float> c(M * N, NAN);
  kernels.give("a", a);
  kernels.give("b", b);
  kernels.give("c", c);
  Outcome outcome{kernels.launch("gemm", a.data(), b.data(), c.data())};
  outcome.right = true;
  for (size_t i = 0; i < M; ++i)
    for (size_t j = 0; j < N; ++j) {
      float sum = 0;
      for (size_t k = 0; k < K; ++k)
        sum += numbers[i * K + k] * numbers[M * K + k * N + j];
      outcome.right &= c[i * N + j] == sum;
    }
  return outcome;
}

Outcome tfm::emulator::runPipeline(Emulated &kernels) {
  std::vector<float> x = smallIntegers(8 * 32), y(x.size(), NAN);
  kernels.give("x", x);
  kernels.give("y", y);
  Outcome outcome{kernels.launch("pipeline", x.data(), y.data())};
  outcome.right = true;
  for (size_t i = 0; i < x.size(); ++i)
    outcome.right &= y[i] == 2 * x[i];
  return outcome;
}

Outcome tfm::emulator::runHandOver(Emulated &kernels) {
  std::vector<float> x = smallIntegers(64), y(64, NAN);
  kernels.give("x", x);
  kernels.give("y", y);
  Outcome outcome{kernels.launch("hand_over", x.data(), y.data())};
  outcome.right = true;
  for (size_t i = 0; i < 32; ++i)
    outcome.right &= y[i] == x[63 - i] && y[32 + i] == 2 * x[i];
  return outcome;
}

Outcome tfm::emulator::runTranspose(Emulated &kernels) {
  alignas(16) std::array<uint16_t, 256> x, y{};
  std::iota(x.begin(), x.end(), 0);
  kernels.machine.addBuffer("x", x.data(), sizeof x);
  kernels.machine.addBuffer("y", y.data(), sizeof y);
  Outcome outcome{kernels.launch("transpose", x.data(), y.data())};
  outcome.right = true;
  for (size_t i = 0; i < 16; ++i)
    for (size_t j = 0; j < 16; ++j)
      outcome.right &= y[j * 16 + i] == x[i * 16 + j];
  return outcome;
}
