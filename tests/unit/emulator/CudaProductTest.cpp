//===- CudaProductTest.cpp - kernels of products in the emulator ----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every tile that products are cut into, for every way in which operands lie,
// with sizes that are whole tiles and others; values are integers, so that sums
// are exact in any order. Mistakes that people make in such kernels are planted
// and must be found.
//
//===----------------------------------------------------------------------===//

#include "tests/emulator/Program.h"
#include "tests/unit/emulator/Recorder.h"
#include "tests/unit/oracle/Gradients.h"

#include "compiler/driver/Compile.h"
#include "compiler/driver/Pipelines.h"
#include "compiler/schedule/Launches.h"
#include "compiler/target/KernelTarget.h"
#include "compiler/target/cuda/DeviceKernels.h"
#include "compiler/target/cuda/ProductKernel.h"
#include "compiler/target/cuda/RowProduct.h"
#include "runtime/support/float16.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

#include <ostream>
#include <random>

using namespace mlir;
using namespace tfm;
using namespace tfm::cuda;
using namespace tfm::emulator;

namespace {

struct Case {
  int64_t m, n, terms;
  bool transposeA, transposeB;
  const char *typeA = "bf16", *typeB = "bf16";
  int64_t batch = 1;
};

/// c = a b + r of a case, as a kernel that `emit` makes.
class Emulation {
public:
  using Emit = std::function<void(ModuleOp, ProductLaunch)>;
  using Change = std::function<void(LLVM::LLVMFuncOp)>;

  Emulation(const Case &of, const Emit &emit, const Change &change = {})
      : of(of), module(text(of)) {
    registerTargets();
    const KernelTarget &target = *llvm::cantFail(KernelTarget::named("cuda"));
    EXPECT_TRUE(succeeded(prepare(*module.module, target)));
    EXPECT_TRUE(succeeded(scheduleModel(*module.module, target)));
    module.module->walk([&](sched::LaunchOp launch) {
      if (launch.getKind() == sched::KernelKind::Matmul)
        found = launch;
    });
    EXPECT_TRUE(found);
    if (!found)
      return;
    DialectRegistry dialects;
    target.registerDialects(dialects);
    found.getContext()->appendDialectRegistry(dialects);
    found.getContext()->loadAllAvailableDialects();
    OpBuilder builder(found.getContext());
    kernels = ModuleOp::create(builder.getUnknownLoc(), "kernels");
    emit(*kernels, ProductLaunch(found));
    PassManager passes(found.getContext());
    target.addLoweringPasses(passes);
    EXPECT_TRUE(succeeded(passes.run(*kernels)));
    tensors = kernelsOf(*kernels).front().tensors;
    if (change)
      change(*kernels->getOps<LLVM::LLVMFuncOp>().begin());
    else
      recordLaunches();
    auto loaded = Program::load(*kernels, machine);
    if (loaded)
      program.emplace(std::move(*loaded));
    else
      refusal = toString(loaded.takeError());
    EXPECT_TRUE(program || change) << refusal;
  }

  /// Whether all of c is right.
  std::optional<Fault> run(bool &right) {
    right = false;
    if (!program)
      return Fault{Fault::Kind::Misuse, refusal};
    fill();
    ProductLaunch product(found);
    std::vector<uint64_t> arguments(found.getReads().size() + 1);
    unsigned ofA = argumentOf(product.op.getA()).getArgNumber(),
             ofB = argumentOf(product.op.getB()).getArgNumber();
    for (unsigned i = 0; i != found.getReads().size(); ++i)
      arguments[i] = i == ofA   ? address(bytesA.data())
                     : i == ofB ? address(bytesB.data())
                                : address(r.data());
    arguments.back() = address(c.data());
    arguments.insert(arguments.end(), {0, 0});
    std::vector<void *> addresses;
    for (uint64_t &argument : arguments)
      addresses.push_back(&argument);
    std::vector<TensorMap> maps(tensors.size());
    for (auto [map, tensor] : llvm::zip_equal(maps, tensors)) {
      std::vector<uint32_t> box(tensor.box, tensor.box + tensor.rank);
      EXPECT_TRUE(TensorMap::make(
          map, reinterpret_cast<void *>(arguments[tensor.argument]),
          tensor.rank, tensor.sizes, tensor.strides + 1, box.data()));
      addresses.push_back(&map);
    }
    machine.addBuffer("a", bytesA.data(), bytesA.size());
    machine.addBuffer("b", bytesB.data(), bytesB.size());
    machine.addBuffer("r", r.data(), r.size() * 4);
    machine.addBuffer("c", c.data(), c.size() * 4);
    emulator::Kernel kernel = program->kernels().front();
    if (kernel.resident)
      kernel.grid[0] = std::min(kernel.grid[0], blocks);
    auto fault = machine.launch(kernel, addresses.data());
    machine.removeBuffer(bytesA.data());
    machine.removeBuffer(bytesB.data());
    machine.removeBuffer(r.data());
    machine.removeBuffer(c.data());
    right = c == expected;
    return fault;
  }

  Machine machine;
  /// How many of a kernel whose blocks live until all is done are launched.
  uint32_t blocks = 1;

private:
  static std::string text(const Case &of) {
    auto shape = [&](int64_t rows, int64_t columns, bool transposed,
                     const char *type) {
      if (transposed)
        std::swap(rows, columns);
      return llvm::formatv("tensor<{0}x{1}x{2}x{3}>", of.batch, rows, columns,
                           type)
          .str();
    };
    std::string a = shape(of.m, of.terms, of.transposeA, of.typeA),
                b = shape(of.terms, of.n, of.transposeB, of.typeB),
                c = shape(of.m, of.n, false, "f32");
    std::string flags = of.transposeA ? " transpose_a" : "";
    flags += of.transposeB ? " transpose_b" : "";
    return llvm::formatv("func.func @f(%a: {0}, %b: {1}, %r: {2}) -> {2} {{\n"
                         "  %p = tfm.matmul %a, %b{3} : {0}, {1}\n"
                         "  %c = tfm.add %p, %r : {2}\n  return %c : {2}\n}",
                         a, b, c, flags)
        .str();
  }

  static uint64_t address(const void *pointer) {
    return reinterpret_cast<uint64_t>(pointer);
  }

  /// Small integers, as elements of a type.
  static std::vector<float> draw(size_t count, llvm::StringRef type,
                                 std::vector<char> &bytes,
                                 std::mt19937 &random) {
    std::vector<float> values(count);
    for (float &value : values)
      value = static_cast<float>(static_cast<int>(random() % 7) - 3);
    size_t each = type == "f32" ? 4 : type == "bf16" ? 2 : 1;
    bytes.resize(count * each);
    for (size_t i = 0; i != count; ++i) {
      uint16_t narrow = toBFloat16(values[i]);
      auto integer = static_cast<int8_t>(values[i]);
      const void *from = each == 4   ? static_cast<void *>(&values[i])
                         : each == 2 ? static_cast<void *>(&narrow)
                                     : static_cast<void *>(&integer);
      memcpy(bytes.data() + i * each, from, each);
    }
    return values;
  }

  void fill() {
    std::mt19937 random(11);
    auto [m, n, terms] = std::tuple(of.m, of.n, of.terms);
    std::vector<float> a = draw(of.batch * m * terms, of.typeA, bytesA, random),
                       b = draw(of.batch * n * terms, of.typeB, bytesB, random);
    r.resize(of.batch * m * n);
    for (float &value : r)
      value = static_cast<float>(random() % 100);
    expected = r;
    c.assign(r.size(), NAN);
    for (int64_t one = 0; one != of.batch; ++one)
      for (int64_t i = 0; i != m; ++i)
        for (int64_t t = 0; t != terms; ++t) {
          float x =
              a[one * m * terms + (of.transposeA ? t * m + i : i * terms + t)];
          float *row = &expected[(one * m + i) * n];
          const float *ofB = &b[one * n * terms];
          for (int64_t j = 0; j != n; ++j)
            row[j] += x * ofB[of.transposeB ? j * terms + t : t * n + j];
        }
  }

  const Case of;
  oracle::TestModule module;
  sched::LaunchOp found;
  OwningOpRef<ModuleOp> kernels;
  std::vector<tfm_boxed_tensor> tensors;
  std::optional<Program> program;
  /// Why there is none.
  std::string refusal = "no kernel";
  std::vector<char> bytesA, bytesB;
  std::vector<float> r, c, expected;
};

Emulation::Emit tiled(Units units, ProductTile tile) {
  return [=](ModuleOp module, ProductLaunch product) {
    emitTiledProduct(module, "product", product, units,
                     fitted(tile, product.terms));
  };
}

Emulation::Emit inWarpgroups(ProductTile tile) {
  return [=](ModuleOp module, ProductLaunch product) {
    ASSERT_TRUE(canMultiplyInWarpgroups(product));
    emitWarpgroupProduct(module, "product", product,
                         fitted(tile, product.terms), h100);
  };
}

void expectRight(const Case &of, const Emulation::Emit &emit,
                 bool conflicts = false) {
  SCOPED_TRACE(llvm::formatv("{0} by {1} by {2} of {3} and {4}{5}{6}", of.m,
                             of.n, of.terms, of.typeA, of.typeB,
                             of.transposeA ? " transpose_a" : "",
                             of.transposeB ? " transpose_b" : "")
                   .str());
  Emulation emulation(of, emit);
  bool right = false;
  auto fault = emulation.run(right);
  EXPECT_FALSE(fault) << fault->text;
  EXPECT_TRUE(fault || right);
  if (!conflicts)
    EXPECT_EQ(emulation.machine.bankConflicts(), 0u);
}

struct Tiled {
  Units units;
  ProductTile tile;
  friend std::ostream &operator<<(std::ostream &os, const Tiled &one) {
    return os << one.tile.rows << " by " << one.tile.columns;
  }
};

class CudaProducts : public testing::TestWithParam<Tiled> {};

TEST_P(CudaProducts, AreRightForAllTranspositions) {
  auto [units, tile] = GetParam();
  const char *type = units == Units::F32 ? "f32" : "bf16";
  for (bool a : {false, true})
    for (bool b : {false, true}) {
      // Whole tiles, more steps than stages; and a bit of everything.
      expectRight({tile.rows, tile.columns, 6 * tile.depth, a, b, type, type},
                  tiled(units, tile));
      expectRight(
          {tile.rows + 8, tile.columns - 8, tile.depth + 8, a, b, type, type},
          tiled(units, tile));
    }
}

// Rows that are no multiples of 16 bytes, and integers, go through registers.
TEST_P(CudaProducts, AreRightForOddSizesAndMixedTypes) {
  auto [units, tile] = GetParam();
  const char *type = units == Units::F32 ? "f32" : "bf16";
  expectRight({37, 51, 2 * tile.depth + 5, true, false, type, type},
              tiled(units, tile));
  expectRight({37, 51, 2 * tile.depth + 5, false, true, type, "i8", 2},
              tiled(units, tile));
}

std::vector<Tiled> allTiles() {
  std::vector<Tiled> all;
  for (Units units : {Units::Tensor, Units::F32})
    for (const ProductTile &tile : productTiles(units))
      all.push_back({units, tile});
  return all;
}

INSTANTIATE_TEST_SUITE_P(
    Tiles, CudaProducts, testing::ValuesIn(allTiles()), [](const auto &info) {
      const ProductTile &tile = info.param.tile;
      const char *kind = info.param.units == Units::Tensor ? "Bf16Of" : "F32Of";
      return llvm::formatv("{0}{1}By{2}", kind, tile.rows, tile.columns).str();
    });

class CudaWarpgroupProducts : public testing::TestWithParam<ProductTile> {};

TEST_P(CudaWarpgroupProducts, AreRightForAllTranspositions) {
  const ProductTile &tile = GetParam();
  for (bool a : {false, true})
    for (bool b : {false, true}) {
      // More steps than stages; and three tiles, of which two have an end.
      expectRight({tile.rows, tile.columns, 6 * tile.depth, a, b},
                  inWarpgroups(tile));
      expectRight({tile.rows - 8, 2 * tile.columns + 8, tile.depth + 8, a, b},
                  inWarpgroups(tile));
    }
}

TEST_P(CudaWarpgroupProducts, AreRightForBatches) {
  const ProductTile &tile = GetParam();
  expectRight({tile.rows, 40, 2 * tile.depth + 8, false, true, "bf16", "bf16",
               /*batch=*/3},
              inWarpgroups(tile));
  expectRight({8, tile.columns, 24, true, false, "bf16", "bf16", /*batch=*/2},
              inWarpgroups(tile));
}

// However many blocks there are: one that has all tiles, some that have another
// number each, and as many as tiles.
TEST_P(CudaWarpgroupProducts, AreRightWithAnyNumberOfBlocks) {
  const ProductTile &tile = GetParam();
  Emulation emulation({tile.rows - 8, 2 * tile.columns + 8, 3 * tile.depth,
                       false, true, "bf16", "bf16", /*batch=*/2},
                      inWarpgroups(tile));
  for (uint32_t blocks : {1, 4, 6}) {
    emulation.blocks = blocks;
    bool right = false;
    auto fault = emulation.run(right);
    EXPECT_FALSE(fault) << fault->text;
    EXPECT_TRUE(right) << blocks << " blocks";
  }
}

// A load waits for the stores before it, where what it reads may lie there:
// neighbouring columns are loaded at once, and rows together, of as many
// elements as there are registers for beside the sums.
TEST_P(CudaWarpgroupProducts, LoadBeforeTheyStore) {
  const ProductTile &tile = GetParam();
  int64_t most = 0;
  Emulation({tile.rows, tile.columns, tile.depth, false, false},
            inWarpgroups(tile), [&](LLVM::LLVMFuncOp kernel) {
              for (Block &block : kernel.getBody()) {
                int64_t loads = 0;
                for (Operation &op : block) {
                  auto load = dyn_cast<LLVM::LoadOp>(op);
                  if (load && load.getAddr().getType().getAddressSpace() == 0) {
                    auto vector = dyn_cast<VectorType>(load.getType());
                    loads += vector ? vector.getNumElements() : 1;
                  }
                  auto store = dyn_cast<LLVM::StoreOp>(op);
                  if (store && store.getAddr().getType().getAddressSpace() == 0)
                    break;
                }
                most = std::max(most, loads);
              }
            });
  bool leavesRegisters = instructionColumns(tile, h100) == tile.columns;
  EXPECT_EQ(most, leavesRegisters ? 16 : 8);
}

INSTANTIATE_TEST_SUITE_P(Tiles, CudaWarpgroupProducts,
                         testing::ValuesIn(productTiles(Units::Warpgroup)),
                         [](const auto &info) {
                           return llvm::formatv("{0}By{1}", info.param.rows,
                                                info.param.columns)
                               .str();
                         });

// Small parts of threads take more loads and more counting for a product than
// the turns that they save, of the products of GPT-2's training in f32; where
// there is little of C they are enough for all multiprocessors.
TEST(ProductTiles, AreLargeWhereThereIsMuchToMultiply) {
  auto rowsFor = [](ProductShape shape) {
    return chooseTile(Units::F32, shape, h100).rows;
  };
  EXPECT_EQ(rowsFor({8, 768, 3072, 4096}), 128);
  EXPECT_EQ(rowsFor({1, 32768, 768, 3072}), 128);
  EXPECT_EQ(rowsFor({1, 8192, 768, 50257}), 128);
  EXPECT_LT(rowsFor({1, 256, 256, 256}), 128);
  EXPECT_LT(rowsFor({1, 16, 768, 768}), 128);
}

TEST(CudaRowProduct, IsRight) {
  auto emit = [](ModuleOp module, ProductLaunch product) {
    ASSERT_TRUE(isRowProduct(product));
    emitRowProduct(module, "product", product);
  };
  for (const char *type : {"bf16", "f32"})
    for (bool transposeB : {false, true})
      for (int64_t m : {1, 8})
        for (int64_t n : {40, 2000})
          expectRight({m, n, 72, false, transposeB, type, type}, emit, true);
  expectRight({1, 30, 2064, false, true, "f32", "i8", 2}, emit, true);
  expectRight({3, 64, 33, true, false, "bf16", "bf16", 2}, emit, true);
}

//===----------------------------------------------------------------------===//
// Mistakes
//===----------------------------------------------------------------------===//

/// A tile with several steps and warps, whose kernel is changed.
std::optional<Fault> planted(const Emulation::Change &change, bool &right,
                             uint64_t &conflicts) {
  ProductTile tile{64, 64, 32, 4, 32, 32};
  Emulation emulation({64, 64, 192, false, true}, tiled(Units::Tensor, tile),
                      change);
  auto fault = emulation.run(right);
  conflicts = emulation.machine.bankConflicts();
  return fault;
}

template <typename Op> std::vector<Op> allOf(LLVM::LLVMFuncOp kernel) {
  std::vector<Op> found;
  kernel.walk([&](Op op) { found.push_back(op); });
  return found;
}

void expectFault(const Emulation::Change &change, Fault::Kind kind,
                 llvm::StringRef says) {
  bool right = false;
  uint64_t conflicts = 0;
  auto fault = planted(change, right, conflicts);
  ASSERT_TRUE(fault) << "values are " << (right ? "right" : "wrong");
  EXPECT_EQ(fault->kind, kind) << fault->text;
  EXPECT_NE(fault->text.find(says), std::string::npos) << fault->text;
}

TEST(CudaProductFaults, MissingWait) {
  expectFault(
      [](LLVM::LLVMFuncOp kernel) {
        allOf<NVVM::CpAsyncWaitGroupOp>(kernel).front().erase();
      },
      Fault::Kind::CopyInFlight, "has waited for the copy");
}

TEST(CudaProductFaults, WaitGroupOffByOne) {
  expectFault(
      [](LLVM::LLVMFuncOp kernel) {
        auto wait = allOf<NVVM::CpAsyncWaitGroupOp>(kernel).front();
        wait.setN(wait.getN() + 1);
      },
      Fault::Kind::CopyInFlight, "has waited for the copy");
}

TEST(CudaProductFaults, MissingBarrierOfAStep) {
  expectFault(
      [](LLVM::LLVMFuncOp kernel) {
        allOf<NVVM::Barrier0Op>(kernel).front().erase();
      },
      Fault::Kind::Race, "of shared memory");
}

TEST(CudaProductFaults, MissingBarrierBeforeTheBand) {
  expectFault(
      [](LLVM::LLVMFuncOp kernel) {
        allOf<NVVM::Barrier0Op>(kernel)[1].erase();
      },
      Fault::Kind::Race, "of shared memory");
}

TEST(CudaProductFaults, MissingBarrierInTheBand) {
  expectFault(
      [](LLVM::LLVMFuncOp kernel) {
        allOf<NVVM::Barrier0Op>(kernel)[2].erase();
      },
      Fault::Kind::Race, "of shared memory");
}

TEST(CudaProductFaults, TooLittleSharedMemory) {
  expectFault(
      [](LLVM::LLVMFuncOp kernel) {
        auto bytes = kernel->getAttrOfType<IntegerAttr>("tfm.shared");
        kernel->setAttr("tfm.shared", OpBuilder(kernel).getI64IntegerAttr(
                                          bytes.getInt() - 1024));
      },
      Fault::Kind::OutOfBounds, "of shared memory, which is outside of it");
}

TEST(CudaProductFaults, MisalignedCopy) {
  expectFault(
      [](LLVM::LLVMFuncOp kernel) {
        auto copy = allOf<NVVM::CpAsyncOp>(kernel).front();
        OpBuilder b(copy);
        Value moved = LLVM::GEPOp::create(
            b, copy.getLoc(), copy.getSrc().getType(), b.getI8Type(),
            copy.getSrc(), ArrayRef<LLVM::GEPArg>{8});
        copy.getSrcMutable().assign(moved);
      },
      Fault::Kind::Misaligned, "no multiple of 16");
}

/// Copies and reads whose swizzles differ.
TEST(CudaProductFaults, SwizzleOfTheCopiesAlone) {
  bool right = true;
  uint64_t conflicts = 0;
  auto fault = planted(
      [](LLVM::LLVMFuncOp kernel) {
        auto change = allOf<LLVM::XOrOp>(kernel).front();
        change.replaceAllUsesWith(change.getLhs());
      },
      right, conflicts);
  EXPECT_FALSE(fault) << fault->text;
  EXPECT_FALSE(right);
}

/// No swizzle at all gives right values, slowly.
TEST(CudaProductFaults, NoSwizzle) {
  bool right = false;
  uint64_t conflicts = 0;
  auto fault = planted(
      [](LLVM::LLVMFuncOp kernel) {
        for (LLVM::XOrOp change : allOf<LLVM::XOrOp>(kernel))
          change.replaceAllUsesWith(change.getLhs());
      },
      right, conflicts);
  EXPECT_FALSE(fault) << fault->text;
  EXPECT_TRUE(right);
  EXPECT_GT(conflicts, 0u);
}

TEST(CudaProductFaults, WrongTransposition) {
  bool right = true;
  uint64_t conflicts = 0;
  auto fault = planted(
      [](LLVM::LLVMFuncOp kernel) {
        for (NVVM::LdMatrixOp load : allOf<NVVM::LdMatrixOp>(kernel))
          load.setLayout(NVVM::MMALayout::col);
      },
      right, conflicts);
  EXPECT_FALSE(fault) << fault->text;
  EXPECT_FALSE(right);
}

TEST(CudaProductFaults, OperandsOfMmaSwapped) {
  bool right = true;
  uint64_t conflicts = 0;
  auto fault = planted(
      [](LLVM::LLVMFuncOp kernel) {
        NVVM::MmaOp product = allOf<NVVM::MmaOp>(kernel).front();
        Value first = product.getOperandB()[0];
        product.getOperandBMutable().slice(0, 1).assign(
            product.getOperandB()[1]);
        product.getOperandBMutable().slice(1, 1).assign(first);
      },
      right, conflicts);
  EXPECT_FALSE(fault) << fault->text;
  EXPECT_FALSE(right);
}

// The same of products of warpgroups: two tiles of six steps each, in four
// stages, of a block each.

std::optional<Fault> plantedInWarpgroups(const Emulation::Change &change,
                                         bool &right) {
  ProductTile tile{64, 128, 64, 4, 16, 128};
  Emulation emulation({128, 128, 384, false, false}, inWarpgroups(tile),
                      change);
  emulation.blocks = 2;
  return emulation.run(right);
}

void expectFaultOfWarpgroups(const Emulation::Change &change, Fault::Kind kind,
                             llvm::StringRef says) {
  bool right = false;
  auto fault = plantedInWarpgroups(change, right);
  ASSERT_TRUE(fault) << "values are " << (right ? "right" : "wrong");
  EXPECT_EQ(fault->kind, kind) << fault->text;
  EXPECT_NE(fault->text.find(says), std::string::npos) << fault->text;
}

void expectWrongValues(const Emulation::Change &change) {
  bool right = true;
  auto fault = plantedInWarpgroups(change, right);
  EXPECT_FALSE(fault) << fault->text;
  EXPECT_FALSE(right);
}

/// The waits of who multiplies, and of who has operands brought.
enum class WaitsOf { Products, Copies };
NVVM::MBarrierTryWaitParityOp waitOf(LLVM::LLVMFuncOp kernel, WaitsOf whose) {
  return allOf<NVVM::MBarrierTryWaitParityOp>(
      kernel)[whose == WaitsOf::Products ? 0 : 1];
}

TEST(CudaWarpgroupFaults, NoneIsPlanted) {
  bool right = false;
  auto fault = plantedInWarpgroups([](LLVM::LLVMFuncOp) {}, right);
  EXPECT_FALSE(fault) << fault->text;
  EXPECT_TRUE(right);
}

TEST(CudaWarpgroupFaults, MissingFenceOfRegisters) {
  expectFaultOfWarpgroups(
      [](LLVM::LLVMFuncOp kernel) {
        allOf<NVVM::WgmmaFenceAlignedOp>(kernel).front().erase();
      },
      Fault::Kind::Misuse, "without wgmma.fence");
}

TEST(CudaWarpgroupFaults, MissingFenceOfBarriers) {
  expectFaultOfWarpgroups(
      [](LLVM::LLVMFuncOp kernel) {
        allOf<NVVM::FenceMbarrierInitOp>(kernel).front().erase();
      },
      Fault::Kind::Misuse, "whose barrier was made without a fence");
}

TEST(CudaWarpgroupFaults, MissingMeetingBehindTheMaking) {
  expectFaultOfWarpgroups(
      [](LLVM::LLVMFuncOp kernel) {
        allOf<NVVM::Barrier0Op>(kernel).front().erase();
      },
      Fault::Kind::Race, "of shared memory");
}

TEST(CudaWarpgroupFaults, MissingWaitForProducts) {
  expectFaultOfWarpgroups(
      [](LLVM::LLVMFuncOp kernel) {
        allOf<NVVM::WgmmaWaitGroupSyncOp>(kernel).front().erase();
      },
      Fault::Kind::CopyInFlight, "for which nobody has waited");
}

TEST(CudaWarpgroupFaults, WaitForProductsOffByOne) {
  expectFaultOfWarpgroups(
      [](LLVM::LLVMFuncOp kernel) {
        allOf<NVVM::WgmmaWaitGroupSyncOp>(kernel).front().setGroup(2);
      },
      Fault::Kind::CopyInFlight, "for which nobody has waited");
}

/// Takes out the wait for all products: what reads a sum behind it reads what
/// `instead` makes of that.
void takeLastWait(LLVM::LLVMFuncOp kernel,
                  llvm::function_ref<Value(OpBuilder &, Value)> instead) {
  auto wait = allOf<LLVM::InlineAsmOp>(kernel).front();
  OpBuilder b(wait);
  for (Operation *user : llvm::make_early_inc_range(wait->getUsers())) {
    auto sum = cast<LLVM::ExtractValueOp>(user);
    sum.replaceAllUsesWith(
        instead(b, wait.getOperands()[sum.getPosition().front()]));
    sum.erase();
  }
  wait.erase();
}

TEST(CudaWarpgroupFaults, MissingWaitForTheLastProducts) {
  expectFaultOfWarpgroups(
      [](LLVM::LLVMFuncOp kernel) {
        takeLastWait(kernel, [](OpBuilder &b, Value sum) -> Value {
          return LLVM::ConstantOp::create(b, sum.getLoc(),
                                          b.getF32FloatAttr(0));
        });
      },
      Fault::Kind::CopyNotAwaited, "has not waited for its products");
}

// Where nothing but the order of ops says that sums are complete, LLVM may read
// them before that: refused before it runs.
TEST(CudaWarpgroupFaults, SumsThatDoNotPassTheWait) {
  expectFaultOfWarpgroups(
      [](LLVM::LLVMFuncOp kernel) {
        OpBuilder b(allOf<LLVM::InlineAsmOp>(kernel).front());
        NVVM::WgmmaWaitGroupSyncOp::create(b, kernel.getLoc(), 0);
        takeLastWait(kernel, [](OpBuilder &, Value sum) { return sum; });
      },
      Fault::Kind::Misuse,
      "reads sums of a product of a warpgroup that nobody has waited for");
}

TEST(CudaWarpgroupFaults, MissingWaitForCopies) {
  expectFaultOfWarpgroups(
      [](LLVM::LLVMFuncOp kernel) {
        waitOf(kernel, WaitsOf::Products).erase();
      },
      Fault::Kind::Race, "of shared memory");
}

TEST(CudaWarpgroupFaults, MissingWaitForAnEmptyStage) {
  expectFaultOfWarpgroups(
      [](LLVM::LLVMFuncOp kernel) { waitOf(kernel, WaitsOf::Copies).erase(); },
      Fault::Kind::Race, "of shared memory");
}

TEST(CudaWarpgroupFaults, WaitsForTheFirstRound) {
  expectFaultOfWarpgroups(
      [](LLVM::LLVMFuncOp kernel) {
        auto wait = waitOf(kernel, WaitsOf::Copies);
        OpBuilder b(wait);
        Value one = LLVM::ConstantOp::create(b, wait.getLoc(), b.getI32Type(),
                                             b.getI32IntegerAttr(1));
        wait.getPhaseMutable().assign(
            LLVM::XOrOp::create(b, wait.getLoc(), wait.getPhase(), one));
      },
      Fault::Kind::Deadlock, "for phase 0 of the mbarrier");
}

TEST(CudaWarpgroupFaults, NobodySaysThatAStageIsEmpty) {
  expectFaultOfWarpgroups(
      [](LLVM::LLVMFuncOp kernel) {
        allOf<NVVM::MBarrierArriveOp>(kernel).front().erase();
      },
      Fault::Kind::Deadlock, "for phase 0 of the mbarrier");
}

void announce(LLVM::LLVMFuncOp kernel, int64_t more) {
  auto arrival = allOf<NVVM::MBarrierArriveExpectTxOp>(kernel).front();
  OpBuilder b(arrival);
  Value others = LLVM::ConstantOp::create(b, arrival.getLoc(), b.getI32Type(),
                                          b.getI32IntegerAttr(more));
  arrival.getTxcountMutable().assign(
      LLVM::AddOp::create(b, arrival.getLoc(), arrival.getTxcount(), others));
}

TEST(CudaWarpgroupFaults, MoreBytesThanAnnounced) {
  expectFaultOfWarpgroups(
      [](LLVM::LLVMFuncOp kernel) { announce(kernel, -16); },
      Fault::Kind::Misuse, "of more bytes than were announced");
}

TEST(CudaWarpgroupFaults, FewerBytesThanAnnounced) {
  expectFaultOfWarpgroups([](LLVM::LLVMFuncOp kernel) { announce(kernel, 16); },
                          Fault::Kind::Deadlock, "for phase 0 of the mbarrier");
}

TEST(CudaWarpgroupFaults, MisalignedBox) {
  expectFaultOfWarpgroups(
      [](LLVM::LLVMFuncOp kernel) {
        auto copy =
            allOf<NVVM::CpAsyncBulkTensorGlobalToSharedClusterOp>(kernel)
                .front();
        OpBuilder b(copy);
        copy.getDstMemMutable().assign(LLVM::GEPOp::create(
            b, copy.getLoc(), copy.getDstMem().getType(), b.getI8Type(),
            copy.getDstMem(), ArrayRef<LLVM::GEPArg>{64}));
      },
      Fault::Kind::Misaligned, "no multiple of 128");
}

TEST(CudaWarpgroupFaults, MissingBarriersOfTheBand) {
  auto without = [](size_t which) {
    return [=](LLVM::LLVMFuncOp kernel) {
      allOf<NVVM::SyncWarpOp>(kernel)[which].erase();
    };
  };
  expectFaultOfWarpgroups(without(0), Fault::Kind::Unwritten,
                          "of shared memory, which nobody has written");
  expectFaultOfWarpgroups(without(1), Fault::Kind::Race, "of shared memory");
}

/// Stages are also written by threads, before they meet.
void writeStages(LLVM::LLVMFuncOp kernel, bool fenced) {
  auto meeting = allOf<NVVM::Barrier0Op>(kernel).front();
  auto memory = allOf<LLVM::AddressOfOp>(kernel).front();
  Location loc = meeting.getLoc();
  OpBuilder b(meeting);
  Value base = b.clone(*memory)->getResult(0);
  Value thread = NVVM::ThreadIdXOp::create(b, loc, b.getI32Type());
  Value own = LLVM::GEPOp::create(b, loc, base.getType(), b.getI32Type(), base,
                                  ArrayRef<LLVM::GEPArg>{thread});
  LLVM::StoreOp::create(b, loc, thread, own);
  if (fenced)
    NVVM::FenceProxyOp::create(
        b, loc,
        NVVM::ProxyKindAttr::get(b.getContext(), NVVM::ProxyKind::async_shared),
        NVVM::SharedSpaceAttr::get(b.getContext(),
                                   NVVM::SharedSpace::shared_cta));
}

TEST(CudaWarpgroupFaults, MissingFenceOfTheProxy) {
  bool right = false;
  auto fault = plantedInWarpgroups(
      [](LLVM::LLVMFuncOp kernel) { writeStages(kernel, /*fenced=*/true); },
      right);
  EXPECT_FALSE(fault) << fault->text;
  EXPECT_TRUE(right);
  expectFaultOfWarpgroups(
      [](LLVM::LLVMFuncOp kernel) { writeStages(kernel, /*fenced=*/false); },
      Fault::Kind::Misuse, "without a fence of the async proxy");
}

TEST(CudaWarpgroupFaults, WrongMajorness) {
  expectWrongValues([](LLVM::LLVMFuncOp kernel) {
    for (NVVM::WgmmaMmaAsyncOp product : allOf<NVVM::WgmmaMmaAsyncOp>(kernel))
      product.setLayoutA(NVVM::MMALayout::col);
  });
}

TEST(CudaWarpgroupFaults, WrongStrideInADescriptor) {
  expectWrongValues([](LLVM::LLVMFuncOp kernel) {
    // Of B, whose panels are 8 KiB apart.
    for (NVVM::WgmmaMmaAsyncOp product : allOf<NVVM::WgmmaMmaAsyncOp>(kernel)) {
      OpBuilder b(product);
      Value halved = LLVM::XOrOp::create(
          b, product.getLoc(), product.getDescriptorB(),
          LLVM::ConstantOp::create(
              b, product.getLoc(), b.getI64Type(),
              b.getI64IntegerAttr((8192 ^ 4096) >> 4 << 16)));
      product.getDescriptorBMutable().assign(halved);
    }
  });
}

TEST(CudaWarpgroupFaults, NoSwizzleInADescriptor) {
  expectFaultOfWarpgroups(
      [](LLVM::LLVMFuncOp kernel) {
        auto product = allOf<NVVM::WgmmaMmaAsyncOp>(kernel).front();
        OpBuilder b(product);
        Value plain = LLVM::XOrOp::create(
            b, product.getLoc(), product.getDescriptorA(),
            LLVM::ConstantOp::create(b, product.getLoc(), b.getI64Type(),
                                     b.getI64IntegerAttr(int64_t{1} << 62)));
        product.getDescriptorAMutable().assign(plain);
      },
      Fault::Kind::Misuse, "not swizzled by 128 bytes");
}

} // namespace
