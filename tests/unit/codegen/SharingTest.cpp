//===- SharingTest.cpp - when parameters are read and gradients done ------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/schedule/Sharing.h"

#include "compiler/dialect/TfmDialect.h"
#include "compiler/schedule/SchedDialect.h"

#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

using namespace tfm;

namespace {

/// Of the nine runs of a training step the first reads `a`, the next two the
/// copies of the first layers of `w`, the next two write the gradients of its
/// last layer and the one before, one that of `a`, one that of the first layer;
/// the last ones read `c`, and `a` once more.
/// Each layer, like `a` and `c`, has a row of a region; nothing trains `d`.
constexpr const char *schedule = R"(
  #zeros = {args = [], kind = "zeros"}
  !row = memref<1x1024xf32, strided<[1024, 1]>>
  !copy = memref<1x1024xbf16, strided<[1024, 1]>>
  !number = memref<1xi32, strided<[1]>>
  module attributes {sched.region_rows = array<i64: 4, 2>, sched.region_blocks = array<i64: 2, 1>} {
    %values = sched.buffer parameter "parameters" : memref<24576xi8>
    %copies = sched.buffer parameter_copy "copies" : memref<12288xi8>
    %gradients = sched.buffer gradient "gradients" : memref<24576xi8>
    tfm.param @a : tensor<1x1024xf32> {dims = [], init = #zeros, sched.offset = 0 : i64}
    tfm.param @"h.*.w" : tensor<3x1x1024xf32> {dims = [], init = #zeros, sched.offset = 4096 : i64}
    tfm.param @c : tensor<1x1024xf32> {dims = [], init = #zeros, sched.offset = 16384 : i64}
    tfm.param @d : tensor<1x1024xf32> {dims = [], init = #zeros, sched.offset = 20480 : i64}
    sched.program @train {
      %buffer = sched.buffer activation "x" : memref<4096xi8>
      %x = sched.view %buffer at 0 : memref<4096xi8> to !row
      %narrow = sched.view %buffer at 0 : memref<4096xi8> to !copy
      %a = sched.view %values at 0 : memref<24576xi8> to !row
      sched.copy %a, %x : !row to !row
      sched.loop 2 {
      ^bb0(%layer: index):
        %w = sched.view %copies at 2048 layers(%layer) by [2048] : memref<12288xi8> to !copy
        sched.copy %w, %narrow : !copy to !copy
      }
      sched.loop 2 reverse {
      ^bb0(%layer: index):
        %w = sched.view %gradients at 8192 layers(%layer) by [4096] : memref<24576xi8> to !row
        sched.fill 0.0 : f32, %w : !row
      }
      %of_a = sched.view %gradients at 0 : memref<24576xi8> to !row
      sched.fill 0.0 : f32, %of_a : !row
      %of_w = sched.view %gradients at 4096 : memref<24576xi8> to !row
      sched.fill 0.0 : f32, %of_w : !row
      %c = sched.view %values at 16384 : memref<24576xi8> to !row
      sched.copy %c, %x : !row to !row
      sched.copy %a, %x : !row to !row
    }
    sched.program @decode {
      %buffer = sched.buffer activation "y" : memref<4096xi8>
      %y = sched.view %buffer at 0 : memref<4096xi8> to !row
      %number = sched.view %buffer at 0 : memref<4096xi8> to !number
      %w = sched.view %values at 4096 row(%number : !number) by 4096 : memref<24576xi8> to !row
      sched.copy %w, %y : !row to !row
      %half = sched.view %buffer at 0 : memref<4096xi8> to !copy
      %v = sched.view %copies at 2048 row(%number : !number) by 2048 : memref<12288xi8> to !copy
      sched.copy %v, %half : !copy to !copy
    }
    sched.program @update {
      %buffer = sched.buffer activation "z" : memref<4096xi8>
      %z = sched.view %buffer at 0 : memref<4096xi8> to !row
      %d = sched.view %values at 20480 : memref<24576xi8> to !row
      sched.copy %d, %z : !row to !row
    }
    sched.program @refresh {
      %d = sched.view %values at 20480 : memref<24576xi8> to !row
      %buffer = sched.buffer activation "z" : memref<4096xi8>
      %z = sched.view %buffer at 0 : memref<4096xi8> to !row
      sched.copy %d, %z : !row to !row
    }
  })";

class Sharing : public ::testing::Test {
protected:
  void SetUp() override {
    context.loadDialect<TfmDialect, sched::SchedDialect>();
    module = mlir::parseSourceString<mlir::ModuleOp>(schedule, &context);
    ASSERT_TRUE(module);
  }

  static void expectUse(const ParameterUse &use, int64_t gradientDone,
                        int64_t valueUsed, bool readsValue, bool readsCopy) {
    EXPECT_EQ(use.gradientDone, gradientDone);
    EXPECT_EQ(use.valueUsed, valueUsed);
    EXPECT_EQ(use.readsValue, readsValue);
    EXPECT_EQ(use.readsCopy, readsCopy);
  }

  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

TEST_F(Sharing, ParametersByTheirLayers) {
  auto uses = parameterUses(*module);
  ASSERT_EQ(uses.size(), 6u);
  expectUse(uses[0], 6, 0, true, false);
  // A row that is chosen at run time may be that of any layer.
  expectUse(uses[4096], 7, 1, true, true);
  expectUse(uses[8192], 5, 2, true, true);
  expectUse(uses[12288], 4, 9, true, true);
  expectUse(uses[16384], 0, 7, true, false);
  // Only what updates it reads it.
  expectUse(uses[20480], 0, 9, false, false);
}

// Two rows of the first four a block, each of the others its own; in the order
// in which gradients are done.
TEST_F(Sharing, BlocksHaveWhatTheirRowsHave) {
  std::vector<SharedBlock> blocks = sharedBlocks(*module);
  ASSERT_EQ(blocks.size(), 4u);
  EXPECT_EQ(blocks[0].firstRow, 4);
  EXPECT_EQ(blocks[0].rows, 1);
  expectUse(blocks[0].use, 0, 7, true, false);
  EXPECT_EQ(blocks[1].firstRow, 5);
  expectUse(blocks[1].use, 0, 9, false, false);
  EXPECT_EQ(blocks[2].firstRow, 2);
  EXPECT_EQ(blocks[2].rows, 2);
  expectUse(blocks[2].use, 5, 2, true, true);
  EXPECT_EQ(blocks[3].firstRow, 0);
  expectUse(blocks[3].use, 7, 0, true, true);
}

// Where nothing is trained.
TEST_F(Sharing, NothingWithoutTraining) {
  module->lookupSymbol("train")->erase();
  EXPECT_TRUE(parameterUses(*module).empty());
}

} // namespace
