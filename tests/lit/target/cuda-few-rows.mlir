// RUN: tfm-opt %s --split-input-file --tfm-to-kernels=target=cuda | FileCheck %s

// One row: all that a thread reads of B in a turn is under way before it
// multiplies anything; 1,600 terms in steps of 128 are 2 turns of 7, the last
// steps of which are behind all terms for some or all threads.
func.func @product(%x: tensor<1x1600xbf16>, %w: tensor<1600x3072xbf16>) -> tensor<1x3072xf32> {
  %y = tfm.matmul %x, %w : tensor<1x1600xbf16>, tensor<1600x3072xbf16>
  return %y : tensor<1x3072xf32>
}

// CHECK-LABEL: func.func @kernel0(
// CHECK-SAME: tfm.step = "matmul 1x3072x1600
// CHECK: scf.for
// CHECK-COUNT-7: llvm.load %{{.*}} vector<4xi32>
// CHECK-NOT: llvm.intr.fma
// CHECK: nvvm.memory.barrier <cta>
// CHECK: llvm.intr.fma

// -----

// Few queries of one text and a ring, which is not cut into parts: few blocks, so that each has one row alone, and more
// threads than those of many texts.
func.func @attention(%q: tensor<1x8x1x64xbf16>, %k: tensor<1x2x1024x64xbf16>, %v: tensor<1x2x1024x64xbf16>,
                     %start: tensor<1xi32>) -> tensor<1x8x1x64xbf16> {
  %out, %lse = tfm.attention %q, %k, %v start(%start : tensor<1xi32>) {causal, ring, window = 1000 : i64, scale = 0.125 : f64}
    : tensor<1x8x1x64xbf16>, tensor<1x2x1024x64xbf16>, tensor<1x2x1024x64xbf16>
  return %out : tensor<1x8x1x64xbf16>
}

// CHECK-LABEL: func.func @kernel0(
// CHECK-SAME: tfm.block = array<i32: 512, 1, 1>, tfm.grid = array<i64: 8, 1, 1>
// CHECK: scf.for
// CHECK-COUNT-8: llvm.load
// CHECK: nvvm.memory.barrier <cta>
// CHECK: nvvm.shfl.sync

// -----

func.func @texts(%q: tensor<64x8x1x64xbf16>, %k: tensor<64x2x1024x64xbf16>, %v: tensor<64x2x1024x64xbf16>,
                 %start: tensor<64xi32>) -> tensor<64x8x1x64xbf16> {
  %out, %lse = tfm.attention %q, %k, %v start(%start : tensor<64xi32>) {causal, scale = 0.125 : f64}
    : tensor<64x8x1x64xbf16>, tensor<64x2x1024x64xbf16>, tensor<64x2x1024x64xbf16>
  return %out : tensor<64x8x1x64xbf16>
}

// CHECK-LABEL: func.func @kernel0(
// CHECK-SAME: tfm.block = array<i32: 256, 1, 1>, tfm.grid = array<i64: 128, 1, 1>
