// RUN: tfm-opt %s --split-input-file --tfm-to-kernels=target=cuda | FileCheck %s

// Every block computes the row that its product multiplies. What that is made of
// is on its way to shared memory first, and the first weights behind it to
// registers; nothing waits for any of these before both are, and then for the
// row alone.
func.func @product(%x: tensor<1x1600xf32>, %g: tensor<1x1600xf32>, %w: tensor<3072x1600xbf16>) -> tensor<1x3072xf32> {
  %s = tfm.softmax %x : tensor<1x1600xf32>
  %n = tfm.mul %s, %g : tensor<1x1600xf32>
  %c = tfm.cast %n : tensor<1x1600xf32> to tensor<1x1600xbf16>
  %y = tfm.matmul %c, %w transpose_b : tensor<1x1600xbf16>, tensor<3072x1600xbf16>
  return %y : tensor<1x3072xf32>
}

// The row, 3,200 bytes, two of 6,400, and two numbers of each warp.
// CHECK: llvm.mlir.global internal @kernel0_shared() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<{{16[0-9]+}} x i8>
// CHECK-LABEL: func.func @kernel0(
// CHECK-SAME: tfm.block = array<i32: 256, 1, 1>
// CHECK-SAME: tfm.step = "matmul 1x3072x1600 and 1 more"
// CHECK-COUNT-4: nvvm.cp.async.shared.global {{.*}}, 16
// CHECK-NOT: llvm.load
// CHECK: nvvm.cp.async.commit.group
// CHECK-COUNT-7: llvm.load %{{.*}} vector<4xi32>
// CHECK: nvvm.barrier0
// CHECK-NEXT: nvvm.cp.async.wait.group 0
// CHECK-NEXT: nvvm.barrier0
// CHECK-NOT: -> vector<4xi32>
// CHECK: nvvm.shfl.sync
// CHECK: llvm.store {{.*}} : vector<4xi16>, !llvm.ptr
// CHECK: nvvm.barrier0
// CHECK: llvm.intr.fma
// CHECK-NOT: func.func

// -----

// One row of blocks for each product, as many as the largest has.
func.func @products(%x: tensor<2x64xf32>, %w: tensor<64x64xf32>, %u: tensor<640x64xf32>)
    -> (tensor<2x64xf32>, tensor<2x640xf32>) {
  %y = tfm.matmul %x, %w transpose_b : tensor<2x64xf32>, tensor<64x64xf32>
  %z = tfm.matmul %x, %u transpose_b : tensor<2x64xf32>, tensor<640x64xf32>
  return %y, %z : tensor<2x64xf32>, tensor<2x640xf32>
}

// CHECK-LABEL: func.func @kernel0(
// CHECK-SAME: tfm.grid = array<i64: 80, 2, 1>
// CHECK: %[[PART:.*]] = nvvm.read.ptx.sreg.ctaid.y
// CHECK: %[[BLOCK:.*]] = nvvm.read.ptx.sreg.ctaid.x
// CHECK: %[[FIRST:.*]] = arith.cmpi eq, %[[PART]], %c0_i32
// CHECK: %[[ITS:.*]] = arith.cmpi ult, %[[BLOCK]], %c8_i32
// CHECK: %[[BOTH:.*]] = arith.andi %[[FIRST]], %[[ITS]]
// CHECK: scf.if %[[BOTH]]
// CHECK: %[[SECOND:.*]] = arith.cmpi eq, %[[PART]], %c1_i32
// CHECK: scf.if %[[SECOND]]

// -----

// A block has the memory of one of them, however many there are.
func.func @shared_memory(%x: tensor<8x32xf32>, %u: tensor<32x16xf32>, %v: tensor<32x16xf32>, %w: tensor<32x8xf32>)
    -> (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x8xf32>) {
  %a = tfm.matmul %x, %u : tensor<8x32xf32>, tensor<32x16xf32>
  %b = tfm.matmul %x, %v : tensor<8x32xf32>, tensor<32x16xf32>
  %c = tfm.matmul %x, %w : tensor<8x32xf32>, tensor<32x8xf32>
  return %a, %b, %c : tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x8xf32>
}

// CHECK: llvm.mlir.global internal @kernel0_shared() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<2048 x i8>
// CHECK-LABEL: func.func @kernel0(
// CHECK-SAME: tfm.grid = array<i64: 2, 3, 1>
