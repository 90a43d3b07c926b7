// RUN: tfm-opt %s --sched-form-kernels --sched-split-sums --sched-place-values="target=cuda" --split-input-file | FileCheck %s
// RUN: tfm-opt %s --sched-form-kernels --sched-split-sums --sched-place-values="target=cpu:znver4" --split-input-file | FileCheck %s --check-prefix=CPU

// Where rows have gaps between them: of bf16, which products of a GPU read in
// pieces of 16 bytes.

// The gradient of 13 logits takes the place of the logits, whose rows begin
// at multiples of 16 elements: both products that read it find them there.
// CHECK-LABEL: sched.program @logits
// CHECK: %[[A:.*]] = sched.buffer activation "cast.0" : memref<122xi8>
// CHECK: sched.launch matmul 4 by 13 {{.*}} writes({{.*}} : memref<4x13xbf16, strided<[16, 1]>>)
// CHECK: %[[READ:.*]] = sched.view %[[A]] at 0
// CHECK: %[[WRITTEN:.*]] = sched.view %[[A]] at 0
// CHECK: sched.launch row 4 by 13 reads(%[[READ]] : memref<4x13xbf16, strided<[16, 1]>>) writes(%[[WRITTEN]] : memref<4x13xbf16, strided<[16, 1]>>)
// CHECK: sched.launch matmul 4 by 8 reads({{.*}} : memref<4x13xbf16, strided<[16, 1]>>,
// CHECK: sched.launch matmul 13 by 8 reads({{.*}} : memref<13x4xbf16, strided<[1, 16]>>,
// CPU-LABEL: sched.program @logits
// CPU: sched.buffer activation "cast.0" : memref<104xi8>
func.func @logits(%x: tensor<4x8xbf16>, %w: tensor<8x13xbf16>) -> (tensor<4x8xf32>, tensor<13x8xf32>) {
  %a = tfm.matmul %x, %w : tensor<4x8xbf16>, tensor<8x13xbf16>
  %l = tfm.cast %a : tensor<4x13xf32> to tensor<4x13xbf16>
  %f = tfm.cast %l : tensor<4x13xbf16> to tensor<4x13xf32>
  %m = tfm.reduce_max %f axis 1 : tensor<4x13xf32>
  %b = tfm.broadcast %m : tensor<4x1xf32> to tensor<4x13xf32>
  %d = tfm.sub %f, %b : tensor<4x13xf32>
  %g = tfm.cast %d : tensor<4x13xf32> to tensor<4x13xbf16>
  %dx = tfm.matmul %g, %w transpose_b : tensor<4x13xbf16>, tensor<8x13xbf16>
  %t = tfm.transpose %g [1, 0] : tensor<4x13xbf16>
  %dw = tfm.matmul %t, %x : tensor<13x4xbf16>, tensor<4x8xbf16>
  return %dx, %dw : tensor<4x8xf32>, tensor<13x8xf32>
}

// -----

// Long rows begin at lines of the cache, 64 elements, where that costs little.
// Those of a CPU are of 32.
// CHECK-LABEL: sched.program @long
// CHECK: sched.launch matmul 4 by 1021 {{.*}} writes({{.*}} : memref<4x1021xbf16, strided<[1024, 1]>>)
// CPU-LABEL: sched.program @long
// CPU: sched.launch matmul 4 by 1021 {{.*}} writes({{.*}} : memref<4x1021xbf16, strided<[1024, 1]>>)
func.func @long(%x: tensor<4x8xbf16>, %w: tensor<8x1021xbf16>, %v: tensor<1021x8xbf16>) -> tensor<4x8xf32> {
  %a = tfm.matmul %x, %w : tensor<4x8xbf16>, tensor<8x1021xbf16>
  %l = tfm.cast %a : tensor<4x1021xf32> to tensor<4x1021xbf16>
  %y = tfm.matmul %l, %v : tensor<4x1021xbf16>, tensor<1021x8xbf16>
  return %y : tensor<4x8xf32>
}

// -----

// The same of f32, on a CPU; but none that put rows whole pages apart.
// CHECK-LABEL: sched.program @wide
// CHECK: sched.launch matmul 4 by 1000 {{.*}} writes({{.*}} : memref<4x1000xf32, strided<[1000, 1]>>)
// CPU-LABEL: sched.program @wide
// CPU: sched.launch matmul 4 by 1000 {{.*}} writes({{.*}} : memref<4x1000xf32, strided<[1008, 1]>>)
// CPU: sched.launch matmul 4 by 1010 {{.*}} writes({{.*}} : memref<4x1010xf32, strided<[1010, 1]>>)
func.func @wide(%x: tensor<4x8xf32>, %w: tensor<8x1000xf32>, %v: tensor<1000x8xf32>, %w2: tensor<8x1010xf32>, %v2: tensor<1010x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %a = tfm.matmul %x, %w : tensor<4x8xf32>, tensor<8x1000xf32>
  %y = tfm.matmul %a, %v : tensor<4x1000xf32>, tensor<1000x8xf32>
  %b = tfm.matmul %x, %w2 : tensor<4x8xf32>, tensor<8x1010xf32>
  %z = tfm.matmul %b, %v2 : tensor<4x1010xf32>, tensor<1010x8xf32>
  return %y, %z : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// No gaps in what no product reads, and none that a reshape could not see
// through.
// CHECK-LABEL: sched.program @none
// CHECK: sched.launch matmul 4 by 13 {{.*}} writes({{.*}} : memref<4x13xbf16, strided<[13, 1]>>)
// CHECK: sched.launch matmul 4 by 14 {{.*}} writes({{.*}} : memref<4x14xbf16, strided<[14, 1]>>)
func.func @none(%x: tensor<4x8xbf16>, %w: tensor<8x13xbf16>, %w2: tensor<8x14xbf16>, %v: tensor<28x8xbf16>) -> (tensor<4x1xf32>, tensor<2x8xf32>) {
  %a = tfm.matmul %x, %w : tensor<4x8xbf16>, tensor<8x13xbf16>
  %l = tfm.cast %a : tensor<4x13xf32> to tensor<4x13xbf16>
  %f = tfm.cast %l : tensor<4x13xbf16> to tensor<4x13xf32>
  %m = tfm.reduce_max %f axis 1 : tensor<4x13xf32>
  %p = tfm.matmul %x, %w2 : tensor<4x8xbf16>, tensor<8x14xbf16>
  %q = tfm.cast %p : tensor<4x14xf32> to tensor<4x14xbf16>
  %r = tfm.reshape %q : tensor<4x14xbf16> to tensor<2x28xbf16>
  %y = tfm.matmul %r, %v : tensor<2x28xbf16>, tensor<28x8xbf16>
  return %m, %y : tensor<4x1xf32>, tensor<2x8xf32>
}
