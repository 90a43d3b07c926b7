//===- ProgramTest.cpp - compiled functions against the oracle ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tests/unit/codegen/CompiledModel.h"
#include "tests/unit/codegen/EmulatedGpu.h"
#include "tests/unit/oracle/Gradients.h"

#include "compiler/driver/Compile.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "runtime/device/variant.h"
#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest-spi.h"
#include "gtest/gtest.h"

#include <set>

using namespace tfm;
using oracle::Tensor;

namespace {

/// Compiles `@f` of `text` and its derivative, and expects what the oracle says
/// within `tolerance` of the largest element, on one and on three threads, with
/// the same bits.
void expectCompiles(llvm::StringRef text, double tolerance = 2e-6,
                    bool derivative = true) {
  oracle::TestModule module(text);
  mlir::func::FuncOp f = module.function("f");
  ASSERT_TRUE(f);
  if (derivative)
    oracle::addVJP(f, "vjp");
  // The oracle evaluates what the compiler was given, not what it made of it.
  mlir::OwningOpRef<mlir::ModuleOp> original = module.module->clone();
  ASSERT_TRUE(mlir::succeeded(prepare(*module.module, testedTarget())));
  CompiledModel compiled(*module.module);
  std::mt19937 random(7);
  for (auto function : original->getOps<mlir::func::FuncOp>()) {
    std::vector<Tensor> inputs = oracle::randomInputs(function, random);
    for (Tensor &input : inputs)
      for (double &value : input.data)
        value = static_cast<float>(value);
    std::vector<Tensor> expected = oracle::evaluateOrFail(function, inputs);
    std::vector<Tensor> got = compiled.run(function.getSymName(), inputs);
    ASSERT_EQ(expected.size(), got.size());
    std::string printed;
    llvm::raw_string_ostream os(printed);
    compiled.schedule->print(os);
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(expected[i].shape, got[i].shape);
      double scale = 0, error = 0;
      for (size_t j = 0; j < got[i].data.size(); ++j) {
        scale = std::max(scale, std::abs(expected[i].data[j]));
        double difference = std::abs(expected[i].data[j] - got[i].data[j]);
        error = std::isnan(difference) ? INFINITY : std::max(error, difference);
      }
      EXPECT_LE(error, tolerance * std::max(scale, 1e-3))
          << "result " << i << " of " << function.getSymName().str() << "\n"
          << printed;
    }
    std::vector<Tensor> again = compiled.run(function.getSymName(), inputs, 3);
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_EQ(got[i].data, again[i].data)
          << "result " << i << " with three threads";
  }
}

/// One file with code for several CPUs, those that need more first: a variant
/// gives the bits that a file of its own gives.
void expectVariantAlone(size_t number, const char *cpu) {
  if (testsGpu())
    GTEST_SKIP() << "of CPUs";
  oracle::TestModule module(R"(
    func.func @f(%a: tensor<37x64xf32>, %b: tensor<64x48xf32>) -> tensor<37x48xf32> {
      %0 = tfm.matmul %a, %b : tensor<37x64xf32>, tensor<64x48xf32>
      %1 = tfm.gelu_tanh %0 : tensor<37x48xf32>
      return %1 : tensor<37x48xf32>
    })");
  std::mt19937 random(7);
  std::vector<Tensor> inputs =
      oracle::randomInputs(module.function("f"), random);
  ASSERT_TRUE(mlir::succeeded(prepare(*module.module, testedTarget())));
  CompiledModel both(*module.module, "x86-64-v3,x86-64-v4", number);
  ASSERT_EQ(both.model->variant_count, 2);
  EXPECT_STREQ(both.variant->machine, cpu);
  if (std::string missing = missingFeatures(both.variant->features);
      !missing.empty())
    // Compiled here, but only a processor that has them can run it.
    GTEST_SKIP() << "this machine has no " << missing;
  CompiledModel alone(*module.module, cpu, 0);
  EXPECT_EQ(both.run("f", inputs)[0].data, alone.run("f", inputs)[0].data);
}

TEST(Program, TheVariantWithAvx512ComputesWhatItDoesAlone) {
  expectVariantAlone(0, "x86-64-v4");
}

TEST(Program, TheVariantWithAvx2ComputesWhatItDoesAlone) {
  expectVariantAlone(1, "x86-64-v3");
}

TEST(Program, Elementwise) {
  expectCompiles(R"(
    func.func @f(%a: tensor<3x37xf32>, %b: tensor<3x37xf32>) -> tensor<3x37xf32> {
      %0 = tfm.mul %a, %b : tensor<3x37xf32>
      %1 = tfm.gelu_tanh %0 : tensor<3x37xf32>
      %2 = tfm.add %1, %a : tensor<3x37xf32>
      %3 = tfm.exp %2 : tensor<3x37xf32>
      return %3 : tensor<3x37xf32>
    })");
}

// Rows too long for the registers of a block of a GPU, whose sums over columns
// lie in memory: who adds to one need not be who began it.
TEST(Program, SumsOverColumnsOfLongRows) {
  expectCompiles(R"(
    func.func @f(%x: tensor<3x16900xf32>) -> (tensor<3x1xf32>, tensor<1x16900xf32>) {
      %0 = tfm.reduce_max %x axis 1 : tensor<3x16900xf32>
      %1 = tfm.reduce_sum %x axis 0 : tensor<3x16900xf32>
      return %0, %1 : tensor<3x1xf32>, tensor<1x16900xf32>
    })");
}

// Many rows, which warps of a GPU have to themselves, with sums of a row and
// over columns that stay in registers.
TEST(Program, SumsOfManyRows) {
  for (const char *cols : {"100", "768"})
    expectCompiles(llvm::formatv(R"(
      func.func @f(%x: tensor<900x{0}xf32>)
          -> (tensor<900x{0}xf32>, tensor<1x{0}xf32>, tensor<900x1xf32>) {{
        %0 = tfm.reduce_max %x axis 1 : tensor<900x{0}xf32>
        %1 = tfm.broadcast %0 : tensor<900x1xf32> to tensor<900x{0}xf32>
        %2 = tfm.sub %x, %1 : tensor<900x{0}xf32>
        %3 = tfm.reduce_sum %2 axis 0 : tensor<900x{0}xf32>
        %4 = tfm.reduce_sum %2 axis 1 : tensor<900x{0}xf32>
        return %2, %3, %4 : tensor<900x{0}xf32>, tensor<1x{0}xf32>, tensor<900x1xf32>
      })",
                                 cols)
                       .str());
}

// Rows of few columns, several of which a warp of a GPU has.
TEST(Program, SumsOfShortRows) {
  for (const char *shape : {"24x12", "23x12", "24x5", "24x1"})
    expectCompiles(llvm::formatv(R"(
      func.func @f(%x: tensor<{0}xf32>) -> (tensor<{0}xf32>, tensor<{1}x1xf32>) {{
        %0 = tfm.reduce_sum %x axis 1 : tensor<{0}xf32>
        %1 = tfm.broadcast %0 : tensor<{1}x1xf32> to tensor<{0}xf32>
        %2 = tfm.mul %x, %1 : tensor<{0}xf32>
        %3 = tfm.reduce_sum %2 axis 1 : tensor<{0}xf32>
        return %2, %3 : tensor<{0}xf32>, tensor<{1}x1xf32>
      })",
                                 shape, llvm::StringRef(shape).split('x').first)
                       .str());
}

// A sum of which a row's number chooses one element, as a loss does with its
// target: also where the row has no such element, and others write there.
TEST(Program, SumsThatPickAnElement) {
  for (const char *cols : {"16", "600"})
    expectCompiles(llvm::formatv(R"(
      func.func @f(%a: tensor<20x8xf32>, %b: tensor<8x{0}xf32>)
          -> (tensor<20x8xf32>, tensor<20x1xf32>) {{
        %x = tfm.matmul %a, %b : tensor<20x8xf32>, tensor<8x{0}xf32>
        %rows = tfm.iota 0 : tensor<20x1xi32>
        %two = tfm.constant dense<2> : tensor<20x1xi32>
        %id = tfm.sub %rows, %two : tensor<20x1xi32>
        %ids = tfm.broadcast %id : tensor<20x1xi32> to tensor<20x{0}xi32>
        %columns = tfm.iota 1 : tensor<20x{0}xi32>
        %is = tfm.compare eq %columns, %ids : tensor<20x{0}xi32>
        %none = tfm.constant dense<0.0> : tensor<20x{0}xf32>
        %chosen = tfm.select %is, %x, %none : tensor<20x{0}xi1>, tensor<20x{0}xf32>
        %sum = tfm.reduce_sum %chosen axis 1 : tensor<20x{0}xf32>
        %all = tfm.broadcast %sum : tensor<20x1xf32> to tensor<20x{0}xf32>
        %y = tfm.add %x, %all : tensor<20x{0}xf32>
        %z = tfm.matmul %y, %b transpose_b : tensor<20x{0}xf32>, tensor<8x{0}xf32>
        return %z, %sum : tensor<20x8xf32>, tensor<20x1xf32>
      })",
                                 cols)
                       .str());
}

// The tails too, where what is left of x is small, and where the power that it
// is divided by overflows. An exponent is off by its own rounding.
TEST(Program, GeluIsAccurateEverywhere) {
  oracle::TestModule module(R"(
    func.func @f(%x: tensor<65536xf32>) -> tensor<65536xf32> {
      %y = tfm.gelu_tanh %x : tensor<65536xf32>
      return %y : tensor<65536xf32>
    })");
  ASSERT_TRUE(mlir::succeeded(prepare(*module.module, testedTarget())));
  CompiledModel compiled(*module.module);
  Tensor x;
  x.shape = {65536};
  x.data.resize(65536);
  for (size_t i = 0; i < x.data.size(); ++i)
    x.data[i] = static_cast<float>(
        -9.5 + 19.0 * (static_cast<double>(i) + 0.5) / 65536.0);
  const double special[] = {0.0,   -0.0,   100.0, -100.0,   1e30f,    -1e30f,
                            3e38f, -3e38f, NAN,   INFINITY, -INFINITY};
  llvm::copy(special, x.data.begin());
  Tensor y = compiled.run("f", {x})[0];
  const double expected[] = {0.0, 0.0, 100.0, 0.0, 1e30f, 0.0, 3e38f, 0.0};
  for (size_t i = 0; i < std::size(expected); ++i)
    EXPECT_EQ(y.data[i], expected[i]) << x.data[i];
  EXPECT_TRUE(std::isnan(y.data[8]));
  EXPECT_EQ(y.data[9], INFINITY);
  double worst = 0;
  for (size_t i = std::size(special); i < x.data.size(); ++i) {
    double v = x.data[i];
    double exponent = 2 * std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v);
    double right = v / (1 + std::exp(-exponent));
    double error = std::abs(y.data[i] - right) / std::abs(right);
    double allowed = 1 + std::max(0.0, -exponent);
    worst = std::isnan(error) ? INFINITY : std::max(worst, error / allowed);
  }
  EXPECT_LT(worst, 2e-7);
}

// What the descriptor says of products: each variant what its instructions
// multiply, f32 where there are no products.
TEST(Program, LaunchesSayWhatTheirProductsAreMadeOf) {
  if (testsGpu())
    GTEST_SKIP() << "of CPUs";
  oracle::TestModule module(R"(
    func.func @f(%a: tensor<64x64xf32>, %b: tensor<64x48xf32>, %c: tensor<64x48xf32>) -> (tensor<64x48xf32>, tensor<64x64xf32>, tensor<64x64xf32>) {
      %na = tfm.cast %a : tensor<64x64xf32> to tensor<64x64xbf16>
      %nb = tfm.cast %b : tensor<64x48xf32> to tensor<64x48xbf16>
      %0 = tfm.matmul %na, %nb : tensor<64x64xbf16>, tensor<64x48xbf16>
      %1 = tfm.matmul %c, %c transpose_b : tensor<64x48xf32>, tensor<64x48xf32>
      %2 = tfm.exp %1 : tensor<64x64xf32>
      %3 = tfm.reduce_sum %2 axis 1 : tensor<64x64xf32>
      %4 = tfm.broadcast %3 : tensor<64x1xf32> to tensor<64x64xf32>
      return %0, %1, %4 : tensor<64x48xf32>, tensor<64x64xf32>, tensor<64x64xf32>
    })");
  ASSERT_TRUE(mlir::succeeded(prepare(*module.module, testedTarget())));
  const std::pair<const char *, std::string> ofBf16[] = {
      {"sapphirerapids+amx", TFM_PRODUCTS_BF16_TILES},
      {"znver4", TFM_PRODUCTS_BF16_PAIRS},
      {"x86-64-v3", TFM_PRODUCTS_F32}};
  for (auto [cpu, products] : ofBf16) {
    CompiledModel compiled(*module.module, cpu, 0);
    const tfm_function &f = compiled.variant->functions[0];
    std::vector<std::string> found, others;
    for (int64_t i = 0; i < f.launch_count; ++i)
      (llvm::StringRef(f.launches[i].name).starts_with("matmul 64x48x64")
           ? found
           : others)
          .push_back(f.launches[i].products);
    EXPECT_EQ(found, std::vector<std::string>{products}) << cpu;
    EXPECT_GE(others.size(), 2u);
    EXPECT_EQ(others, std::vector<std::string>(others.size(), TFM_PRODUCTS_F32))
        << cpu;
  }
}

// The same of integers with weights in panels, which tiles take where there are
// more than a few rows and terms fill them.
TEST(Program, LaunchesSayWhatMultipliesIntegers) {
  if (testsGpu())
    GTEST_SKIP() << "of CPUs";
  oracle::TestModule module(R"(
    func.func @f(%a: tensor<64x64xi8>, %b: tensor<1x8192xi8>, %c: tensor<64x68xi8>, %p: tensor<2x16x32x4xi8>, %r: tensor<2x2048x32x4xi8>, %q: tensor<2x17x32x4xi8>,
                 %g: tensor<48x32xi8>, %s: tensor<48x2xbf16>) -> (tensor<64x48xi32>, tensor<1x48xi32>, tensor<64x48xi32>, tensor<64x48xf32>) {
      %u = tfm.unpack %p : tensor<2x16x32x4xi8> to tensor<48x64xi8>
      %v = tfm.unpack %r : tensor<2x2048x32x4xi8> to tensor<48x8192xi8>
      %w = tfm.unpack %q : tensor<2x17x32x4xi8> to tensor<48x68xi8>
      %0 = tfm.matmul %a, %u transpose_b : tensor<64x64xi8>, tensor<48x64xi8> accumulate i32
      %1 = tfm.matmul %b, %v transpose_b : tensor<1x8192xi8>, tensor<48x8192xi8> accumulate i32
      %d = tfm.dequantise %g, %s, %s : tensor<48x32xi8>, tensor<48x2xbf16> to tensor<48x64xf32>
      %2 = tfm.matmul %c, %w transpose_b : tensor<64x68xi8>, tensor<48x68xi8> accumulate i32
      %3 = tfm.matmul %a, %d transpose_b : tensor<64x64xi8>, tensor<48x64xf32> accumulate f32
      return %0, %1, %2, %3 : tensor<64x48xi32>, tensor<1x48xi32>, tensor<64x48xi32>, tensor<64x48xf32>
    })");
  ASSERT_TRUE(mlir::succeeded(prepare(*module.module, testedTarget())));
  for (bool tiles : {false, true}) {
    CompiledModel compiled(*module.module,
                           tiles ? "sapphirerapids+amx" : "sapphirerapids", 0);
    const tfm_function &f = compiled.variant->functions[0];
    std::vector<std::string> found;
    for (int64_t i = 0; i < f.launch_count; ++i)
      found.push_back(f.launches[i].products);
    EXPECT_EQ(found,
              (std::vector<std::string>{
                  tiles ? TFM_PRODUCTS_INT8_TILES : TFM_PRODUCTS_INT8_QUADS,
                  TFM_PRODUCTS_INT8_QUADS, TFM_PRODUCTS_INT8_QUADS,
                  TFM_PRODUCTS_INT8_QUADS}));
  }
}

// Of a GPU: tensor cores multiply numbers of bf16, but not where there are few
// rows.
TEST(Program, LaunchesOfAGpuSayWhereTensorCoresMultiply) {
  if (!testsGpu())
    GTEST_SKIP() << "of GPUs";
  oracle::TestModule module(R"(
    func.func @f(%a: tensor<64x64xf32>, %b: tensor<64x48xf32>, %c: tensor<4x64xf32>) -> (tensor<64x48xf32>, tensor<4x48xf32>, tensor<64x48xf32>) {
      %na = tfm.cast %a : tensor<64x64xf32> to tensor<64x64xbf16>
      %nb = tfm.cast %b : tensor<64x48xf32> to tensor<64x48xbf16>
      %nc = tfm.cast %c : tensor<4x64xf32> to tensor<4x64xbf16>
      %0 = tfm.matmul %na, %nb : tensor<64x64xbf16>, tensor<64x48xbf16>
      %1 = tfm.matmul %nc, %nb : tensor<4x64xbf16>, tensor<64x48xbf16>
      %2 = tfm.matmul %a, %b : tensor<64x64xf32>, tensor<64x48xf32>
      return %0, %1, %2 : tensor<64x48xf32>, tensor<4x48xf32>, tensor<64x48xf32>
    })");
  ASSERT_TRUE(mlir::succeeded(prepare(*module.module, testedTarget())));
  CompiledModel compiled(*module.module);
  const tfm_function &f = compiled.variant->functions[0];
  std::multiset<std::string> found;
  for (int64_t i = 0; i < f.launch_count; ++i)
    if (llvm::StringRef(f.launches[i].name).starts_with("matmul"))
      found.insert(f.launches[i].products);
  EXPECT_EQ(found,
            (std::multiset<std::string>{TFM_PRODUCTS_BF16_MMA, TFM_PRODUCTS_F32,
                                        TFM_PRODUCTS_F32}));
}

// Of a GPU: a kernel that counts on it that nothing is written where it writes
// is found, whatever it computes.
TEST(Program, AKernelThatWritesWhatItOnlyReadsIsFound) {
  if (!testsGpu())
    GTEST_SKIP() << "of GPUs";
  oracle::TestModule module(R"(
    func.func @f(%x: tensor<64xf32>) -> tensor<64xf32> {
      %y = tfm.exp %x : tensor<64xf32>
      return %y : tensor<64xf32>
    })");
  ASSERT_TRUE(mlir::succeeded(prepare(*module.module, testedTarget())));
  CompiledModel compiled(*module.module);
  constexpr unsigned written = 1;
  compiled.schedule->walk([&](mlir::LLVM::LLVMFuncOp kernel) {
    auto readonly = mlir::LLVM::LLVMDialect::getReadonlyAttrName();
    EXPECT_TRUE(kernel.getArgAttr(0, readonly));
    EXPECT_FALSE(kernel.getArgAttr(written, readonly));
    kernel.setArgAttr(written, readonly,
                      mlir::UnitAttr::get(kernel.getContext()));
  });
  EmulatedGpu gpu(*compiled.schedule, *compiled.variant,
                  {compiled.bytesAt(0), compiled.variant->arena_bytes});
  testing::TestPartResultArray failures;
  {
    testing::ScopedFakeTestPartResultReporter instead(&failures);
    gpu.run(compiled.variant->functions[0], /*order=*/1);
  }
  ASSERT_EQ(failures.size(), 1);
  EXPECT_NE(std::string(failures.GetTestPartResult(0).message())
                .find("writes behind argument 1, which it says it only reads"),
            std::string::npos);
}

// Rows longer than what is unrolled, with a tail.
TEST(Program, RowReductions) {
  for (int64_t cols : {1, 5, 16, 64, 70, 300, 1000})
    expectCompiles(llvm::formatv(R"(
    func.func @f(%x: tensor<2x3x{0}xf32>, %w: tensor<{0}xf32>) -> (tensor<2x3x{0}xf32>, tensor<2x3x1xf32>) {{
      %m = tfm.reduce_max %x axis 2 : tensor<2x3x{0}xf32>
      %mb = tfm.broadcast %m : tensor<2x3x1xf32> to tensor<2x3x{0}xf32>
      %d = tfm.sub %x, %mb : tensor<2x3x{0}xf32>
      %e = tfm.exp %d : tensor<2x3x{0}xf32>
      %s = tfm.reduce_sum %e axis 2 : tensor<2x3x{0}xf32>
      %sb = tfm.broadcast %s : tensor<2x3x1xf32> to tensor<2x3x{0}xf32>
      %y = tfm.div %e, %sb : tensor<2x3x{0}xf32>
      %wb = tfm.broadcast %w : tensor<{0}xf32> to tensor<2x3x{0}xf32>
      %z = tfm.mul %y, %wb : tensor<2x3x{0}xf32>
      return %z, %s : tensor<2x3x{0}xf32>, tensor<2x3x1xf32>
    })",
                                 cols)
                       .str(),
                   4e-6);
}

// The gradients of gain and bias are sums over rows, in chunks.
TEST(Program, ColumnReductions) {
  for (int64_t rows : {1, 7, 128, 300})
    expectCompiles(llvm::formatv(R"(
    func.func @f(%x: tensor<{0}x48xf32>, %w: tensor<48xf32>, %b: tensor<48xf32>) -> tensor<{0}x48xf32> {{
      %wb = tfm.broadcast %w : tensor<48xf32> to tensor<{0}x48xf32>
      %bb = tfm.broadcast %b : tensor<48xf32> to tensor<{0}x48xf32>
      %y = tfm.mul %x, %wb : tensor<{0}x48xf32>
      %z = tfm.add %y, %bb : tensor<{0}x48xf32>
      %t = tfm.tanh %z : tensor<{0}x48xf32>
      return %t : tensor<{0}x48xf32>
    })",
                                 rows)
                       .str());
}

TEST(Program, MatmulWithEpilogue) {
  expectCompiles(R"(
    func.func @f(%x: tensor<5x7xf32>, %w: tensor<7x33xf32>, %b: tensor<33xf32>, %r: tensor<5x33xf32>) -> tensor<5x33xf32> {
      %y = tfm.matmul %x, %w : tensor<5x7xf32>, tensor<7x33xf32>
      %bb = tfm.broadcast %b : tensor<33xf32> to tensor<5x33xf32>
      %z = tfm.add %y, %bb : tensor<5x33xf32>
      %g = tfm.gelu_tanh %z : tensor<5x33xf32>
      %o = tfm.add %g, %r : tensor<5x33xf32>
      return %o : tensor<5x33xf32>
    })",
                 4e-6);
}

// The heads of a projection go through slices and transposes without a copy.
TEST(Program, Views) {
  expectCompiles(R"(
    func.func @f(%x: tensor<2x5x24xf32>) -> tensor<2x5x8xf32> {
      %a = tfm.slice %x axis 2 start 0 size 8 : tensor<2x5x24xf32>
      %b = tfm.slice %x axis 2 start 8 size 8 : tensor<2x5x24xf32>
      %ar = tfm.reshape %a : tensor<2x5x8xf32> to tensor<2x5x2x4xf32>
      %br = tfm.reshape %b : tensor<2x5x8xf32> to tensor<2x5x2x4xf32>
      %at = tfm.transpose %ar [0, 2, 1, 3] : tensor<2x5x2x4xf32>
      %bt = tfm.transpose %br [0, 2, 1, 3] : tensor<2x5x2x4xf32>
      %p = tfm.mul %at, %bt : tensor<2x2x5x4xf32>
      %q = tfm.transpose %p [0, 2, 1, 3] : tensor<2x2x5x4xf32>
      %r = tfm.reshape %q : tensor<2x5x2x4xf32> to tensor<2x5x8xf32>
      %s = tfm.sin %r : tensor<2x5x8xf32>
      return %s : tensor<2x5x8xf32>
    })");
}

TEST(Program, TransposedReads) {
  expectCompiles(R"(
    func.func @f(%x: tensor<6x9xf32>, %y: tensor<9x6xf32>) -> (tensor<9x6xf32>, tensor<54xf32>) {
      %t = tfm.transpose %x [1, 0] : tensor<6x9xf32>
      %s = tfm.add %t, %y : tensor<9x6xf32>
      %f = tfm.reshape %t : tensor<9x6xf32> to tensor<54xf32>
      %g = tfm.neg %f : tensor<54xf32>
      return %s, %g : tensor<9x6xf32>, tensor<54xf32>
    })");
}

TEST(Program, BatchedMatmul) {
  expectCompiles(R"(
    func.func @f(%a: tensor<2x3x5x4xf32>, %b: tensor<2x3x6x4xf32>) -> tensor<2x3x5x6xf32> {
      %y = tfm.matmul %a, %b transpose_b : tensor<2x3x5x4xf32>, tensor<2x3x6x4xf32>
      return %y : tensor<2x3x5x6xf32>
    })");
}

TEST(Program, Embedding) {
  expectCompiles(R"(
    func.func @f(%t: tensor<11x20xf32>, %p: tensor<9x20xf32>, %ids: tensor<3x6xi32> {test.limit = 11}) -> tensor<3x6x20xf32> {
      %e = tfm.gather %t, %ids : tensor<11x20xf32>, tensor<3x6xi32>
      %n = tfm.positions %ids : tensor<3x6xi32>
      %q = tfm.gather %p, %n : tensor<9x20xf32>, tensor<3x6xi32>
      %s = tfm.add %e, %q : tensor<3x6x20xf32>
      return %s : tensor<3x6x20xf32>
    })");
}

// What is looked up by numbers that are looked up, or are in rows of their own.
TEST(Program, LookupsInALookup) {
  for (const char *columns : {"1", "8"})
    expectCompiles(llvm::formatv(R"(
      func.func @f(%kinds: tensor<11x1xf32>, %gains: tensor<3x{0}xf32>, %ids: tensor<3x6xi32> {{test.limit = 11}) -> tensor<3x6x{0}xf32> {{
        %k = tfm.gather %kinds, %ids : tensor<11x1xf32>, tensor<3x6xi32>
        %a = tfm.abs %k : tensor<3x6x1xf32>
        %two = tfm.constant dense<2.0> : tensor<3x6x1xf32>
        %m = tfm.min %a, %two : tensor<3x6x1xf32>
        %n = tfm.cast %m : tensor<3x6x1xf32> to tensor<3x6x1xi32>
        %r = tfm.reshape %n : tensor<3x6x1xi32> to tensor<3x6xi32>
        %g = tfm.gather %gains, %r : tensor<3x{0}xf32>, tensor<3x6xi32>
        return %g : tensor<3x6x{0}xf32>
      })",
                                 columns)
                       .str());
}

TEST(Program, ConcatAndPad) {
  expectCompiles(R"(
    func.func @f(%a: tensor<3x4xf32>, %b: tensor<3x5xf32>) -> tensor<3x14xf32> {
      %s = tfm.sin %a : tensor<3x4xf32>
      %c = tfm.concat %s, %b, %b axis 1 : tensor<3x4xf32>, tensor<3x5xf32>, tensor<3x5xf32>
      return %c : tensor<3x14xf32>
    })",
                 2e-6, /*derivative=*/false);
}

TEST(Program, RowOps) {
  expectCompiles(R"(
    func.func @f(%x: tensor<3x5x20xf32>) -> tensor<3x5x20xf32> {
      %a = tfm.normalize %x eps 1.0e-5 : tensor<3x5x20xf32>
      %b = tfm.softmax %a : tensor<3x5x20xf32>
      %c = tfm.rms_normalize %b eps 1.0e-6 : tensor<3x5x20xf32>
      %d = tfm.log_softmax %c : tensor<3x5x20xf32>
      return %d : tensor<3x5x20xf32>
    })",
                 2e-5);
}

TEST(Program, CrossEntropy) {
  // Rows in registers, and longer ones, whose exponentials are kept.
  for (int64_t classes : {70, 331})
    expectCompiles(llvm::formatv(R"(
    func.func @f(%x: tensor<2x5x{0}xf32>, %t: tensor<2x5xi32> {{test.limit = {0}}) -> tensor<f32> {{
      %l, %e = tfm.cross_entropy %x, %t {{ignore = 3 : i64, label_smoothing = 0.1 : f64} : tensor<2x5x{0}xf32>, tensor<2x5xi32>
      %s = tfm.reduce_sum %l axis 1 : tensor<2x5xf32>
      %r = tfm.reduce_sum %s axis 0 : tensor<2x1xf32>
      %y = tfm.reshape %r : tensor<1x1xf32> to tensor<f32>
      return %y : tensor<f32>
    })",
                                 classes)
                       .str(),
                   4e-6);
}

// What takes long is computed in the first pass over a row that needs it, and
// kept for all of the others: two values here, up to the third pass.
TEST(Program, LongRowsKeepWhatTakesLong) {
  expectCompiles(R"(
    func.func @f(%x: tensor<7x531xf32>) -> tensor<7x531xf32> {
      %t = tfm.tanh %x : tensor<7x531xf32>
      %a = tfm.reduce_sum %t axis 1 : tensor<7x531xf32>
      %b = tfm.broadcast %a : tensor<7x1xf32> to tensor<7x531xf32>
      %c = tfm.mul %b, %x : tensor<7x531xf32>
      %s = tfm.sigmoid %c : tensor<7x531xf32>
      %d = tfm.mul %s, %t : tensor<7x531xf32>
      %e = tfm.reduce_max %d axis 1 : tensor<7x531xf32>
      %g = tfm.broadcast %e : tensor<7x1xf32> to tensor<7x531xf32>
      %h = tfm.mul %g, %s : tensor<7x531xf32>
      %y = tfm.add %h, %t : tensor<7x531xf32>
      return %y : tensor<7x531xf32>
    })",
                 2e-5, /*derivative=*/false);
  expectCompiles(R"(
    func.func @f(%x: tensor<3x531xf32>) -> tensor<3x531xf32> {
      %b = tfm.softmax %x : tensor<3x531xf32>
      return %b : tensor<3x531xf32>
    })",
                 2e-5);
}

TEST(Program, Rope) {
  for (const char *how : {"", ", interleaved"})
    for (int64_t dims : {4, 8})
      expectCompiles(llvm::formatv(R"(
    func.func @f(%x: tensor<2x3x5x8xf32>, %p: tensor<2x5xi32> {{test.limit = 9}) -> tensor<2x3x5x8xf32> {{
      %y = tfm.rope %x, %p {{base = 100.0 : f64, dims = {0} : i64{1}} : tensor<2x3x5x8xf32>, tensor<2x5xi32>
      return %y : tensor<2x3x5x8xf32>
    })",
                                   dims, how)
                         .str());
}

TEST(Program, MiddleAxis) {
  expectCompiles(R"(
    func.func @f(%x: tensor<3x5x4xf32>) -> tensor<3x1x4xf32> {
      %s = tfm.reduce_sum %x axis 1 : tensor<3x5x4xf32>
      %t = tfm.tanh %s : tensor<3x1x4xf32>
      return %t : tensor<3x1x4xf32>
    })");
}

// Terms of what is repeated along other axes than the summed one: of as many
// axes as the sum's, and of fewer.
TEST(Program, MiddleAxisOfWhatIsRepeated) {
  for (const char *shape : {"4x2x1", "4x1x1", "2x1", "1x1", "1", "2x5", "5"})
    expectCompiles(llvm::formatv(R"(
      func.func @f(%x: tensor<3x4x2x5xf32>, %w: tensor<{0}xf32>) -> tensor<3x1x2x5xf32> {{
        %r = tfm.broadcast %w : tensor<{0}xf32> to tensor<3x4x2x5xf32>
        %p = tfm.mul %x, %r : tensor<3x4x2x5xf32>
        %s = tfm.reduce_sum %p axis 1 : tensor<3x4x2x5xf32>
        return %s : tensor<3x1x2x5xf32>
      })",
                                 shape)
                       .str());
}

// Heads interleaved in one projection go in and out without a copy.
TEST(Program, SelfAttention) {
  expectCompiles(R"(
    func.func @f(%x: tensor<2x9x24xf32>) -> tensor<2x9x8xf32> {
      %q = tfm.slice %x axis 2 start 0 size 8 : tensor<2x9x24xf32>
      %k = tfm.slice %x axis 2 start 8 size 8 : tensor<2x9x24xf32>
      %v = tfm.slice %x axis 2 start 16 size 8 : tensor<2x9x24xf32>
      %qr = tfm.reshape %q : tensor<2x9x8xf32> to tensor<2x9x2x4xf32>
      %kr = tfm.reshape %k : tensor<2x9x8xf32> to tensor<2x9x2x4xf32>
      %vr = tfm.reshape %v : tensor<2x9x8xf32> to tensor<2x9x2x4xf32>
      %qt = tfm.transpose %qr [0, 2, 1, 3] : tensor<2x9x2x4xf32>
      %kt = tfm.transpose %kr [0, 2, 1, 3] : tensor<2x9x2x4xf32>
      %vt = tfm.transpose %vr [0, 2, 1, 3] : tensor<2x9x2x4xf32>
      %o, %l = tfm.attention %qt, %kt, %vt {causal, scale = 0.5 : f64}
        : tensor<2x2x9x4xf32>, tensor<2x2x9x4xf32>, tensor<2x2x9x4xf32>
      %ot = tfm.transpose %o [0, 2, 1, 3] : tensor<2x2x9x4xf32>
      %y = tfm.reshape %ot : tensor<2x9x2x4xf32> to tensor<2x9x8xf32>
      return %y : tensor<2x9x8xf32>
    })",
                 1e-5);
}

TEST(Program, OneTensorAsQueryKeyAndValue) {
  expectCompiles(R"(
    func.func @f(%x: tensor<1x3x5x4xf32>) -> tensor<1x3x5x4xf32> {
      %o, %l = tfm.attention %x, %x, %x {scale = 0.5 : f64}
        : tensor<1x3x5x4xf32>, tensor<1x3x5x4xf32>, tensor<1x3x5x4xf32>
      return %o : tensor<1x3x5x4xf32>
    })",
                 1e-5);
}

// Layers carry x, save it for the derivative, and read stacked weights.
// Positions that a loop over layers shares are written by a kernel of their
// own.
TEST(Program, RepeatSharesPositions) {
  expectCompiles(R"(
    func.func @f(%ids: tensor<2x7xi32> {test.limit = 9}, %x: tensor<2x7x8xf32>) -> tensor<2x7x8xf32> {
      %p = tfm.positions %ids : tensor<2x7xi32>
      %y = tfm.repeat 2 carried(%x : tensor<2x7x8xf32>) stacked() shared(%p : tensor<2x7xi32>)
          -> (tensor<2x7x8xf32>) {
      ^bb0(%layer: index, %h: tensor<2x7x8xf32>, %at: tensor<2x7xi32>):
        %c = tfm.reshape %at : tensor<2x7xi32> to tensor<2x7x1xi32>
        %d = tfm.cast %c : tensor<2x7x1xi32> to tensor<2x7x1xf32>
        %e = tfm.broadcast %d : tensor<2x7x1xf32> to tensor<2x7x8xf32>
        %z = tfm.add %h, %e : tensor<2x7x8xf32>
        tfm.yield %z : tensor<2x7x8xf32>
      }
      return %y : tensor<2x7x8xf32>
    })");
}

// A reversed layer computes what it took the maximum of again, in another
// kernel, which may add up the norm's squares in another order.
TEST(Program, MaximaOfWhatALayerComputesAgain) {
  expectCompiles(R"(
    func.func @f(%x: tensor<6x96xf32>, %w: tensor<2x96xf32>) -> tensor<6x96xf32> {
      %y = tfm.repeat 2 carried(%x : tensor<6x96xf32>) stacked(%w : tensor<2x96xf32>)
          shared() -> (tensor<6x96xf32>) {
      ^bb0(%layer: index, %h: tensor<6x96xf32>, %p: tensor<96xf32>):
        %n = tfm.rms_normalize %h eps 1.0e-5 : tensor<6x96xf32>
        %b = tfm.broadcast %p : tensor<96xf32> to tensor<6x96xf32>
        %z = tfm.mul %n, %b : tensor<6x96xf32>
        %m = tfm.reduce_max %z axis 1 : tensor<6x96xf32>
        %a = tfm.broadcast %m : tensor<6x1xf32> to tensor<6x96xf32>
        %s = tfm.add %h, %a : tensor<6x96xf32>
        tfm.yield %s : tensor<6x96xf32>
      }
      return %y : tensor<6x96xf32>
    })",
                 4e-6);
}

// One product wants heads before positions, the other positions first: there is
// no order in which both walk along strides.
TEST(Program, ValuesThatProductsReadInTwoOrders) {
  expectCompiles(R"(
    func.func @f(%x: tensor<1x4x16xf32>, %a: tensor<8x8xf32>, %b: tensor<16x16xf32>) -> tensor<4x16xf32> {
      %s = tfm.reshape %x : tensor<1x4x16xf32> to tensor<1x4x2x8xf32>
      %t = tfm.transpose %s [0, 2, 1, 3] : tensor<1x4x2x8xf32>
      %y = tfm.tanh %t : tensor<1x2x4x8xf32>
      %m = tfm.reshape %y : tensor<1x2x4x8xf32> to tensor<8x8xf32>
      %p = tfm.matmul %m, %a : tensor<8x8xf32>, tensor<8x8xf32>
      %q = tfm.reshape %p : tensor<8x8xf32> to tensor<1x2x4x8xf32>
      %z = tfm.transpose %q [0, 2, 1, 3] : tensor<1x2x4x8xf32>
      %w = tfm.reshape %z : tensor<1x4x2x8xf32> to tensor<4x16xf32>
      %u = tfm.transpose %y [0, 2, 1, 3] : tensor<1x2x4x8xf32>
      %v = tfm.reshape %u : tensor<1x4x2x8xf32> to tensor<4x16xf32>
      %r = tfm.matmul %v, %b : tensor<4x16xf32>, tensor<16x16xf32>
      %o = tfm.add %r, %w : tensor<4x16xf32>
      return %o : tensor<4x16xf32>
    })");
}

TEST(Program, Repeat) {
  expectCompiles(R"(
    func.func @f(%x: tensor<3x16xf32>, %w: tensor<4x16x16xf32>, %s: tensor<16xf32>) -> tensor<3x16xf32> {
      %i = tfm.tanh %x : tensor<3x16xf32>
      %y = tfm.repeat 4 carried(%i : tensor<3x16xf32>)
          stacked(%w : tensor<4x16x16xf32>) shared(%s : tensor<16xf32>) -> (tensor<3x16xf32>) {
      ^bb0(%layer: index, %h: tensor<3x16xf32>, %wl: tensor<16x16xf32>, %sl: tensor<16xf32>):
        %z = tfm.matmul %h, %wl : tensor<3x16xf32>, tensor<16x16xf32>
        %b = tfm.broadcast %sl : tensor<16xf32> to tensor<3x16xf32>
        %t = tfm.add %z, %b : tensor<3x16xf32>
        %u = tfm.tanh %t : tensor<3x16xf32>
        %v = tfm.add %h, %u : tensor<3x16xf32>
        tfm.yield %v : tensor<3x16xf32>
      }
      return %y : tensor<3x16xf32>
    })",
                 4e-6);
}

} // namespace

// A mask made by hand, `range(T) >= range(T)`: the comparison is written to
// memory for the attention, and so is what it compares.
TEST(Program, MaskOfPositions) {
  expectCompiles(R"(
    func.func @f(%x: tensor<2x3x8x4xf32>) -> tensor<2x3x8x4xf32> {
      %i = tfm.iota 0 : tensor<8xi32>
      %r = tfm.reshape %i : tensor<8xi32> to tensor<8x1xi32>
      %c = tfm.reshape %i : tensor<8xi32> to tensor<1x8xi32>
      %rb = tfm.broadcast %r : tensor<8x1xi32> to tensor<8x8xi32>
      %cb = tfm.broadcast %c : tensor<1x8xi32> to tensor<8x8xi32>
      %m = tfm.compare ge %rb, %cb : tensor<8x8xi32>
      %mb = tfm.broadcast %m : tensor<8x8xi1> to tensor<2x3x8x8xi1>
      %s = tfm.matmul %x, %x transpose_b : tensor<2x3x8x4xf32>, tensor<2x3x8x4xf32>
      %n = tfm.constant dense<-1.000000e+01> : tensor<2x3x8x8xf32>
      %w = tfm.select %mb, %s, %n : tensor<2x3x8x8xi1>, tensor<2x3x8x8xf32>
      %y = tfm.matmul %w, %x : tensor<2x3x8x8xf32>, tensor<2x3x8x4xf32>
      return %y : tensor<2x3x8x4xf32>
    })");
}
