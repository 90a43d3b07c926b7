// RUN: tfm-opt %s --cpu-quantise-activations --canonicalize | FileCheck %s

// A row's scale is its largest magnitude by 127, and never one that kernels
// take for zero; sums of integers are multiplied by it.
// CHECK-LABEL: @product
// CHECK: %[[A:.*]] = tfm.abs %[[X:.*]] : tensor<4x8xf32>
// CHECK: %[[M:.*]] = tfm.reduce_max %[[A]] axis 1
// CHECK: %[[C:.*]] = tfm.max %[[M]], %{{.*}} : tensor<4x1xf32>
// CHECK: %[[I:.*]] = tfm.div %{{.*}}, %[[C]] : tensor<4x1xf32>
// CHECK: %[[S:.*]] = tfm.mul %[[C]], %{{.*}} : tensor<4x1xf32>
// CHECK: %[[B:.*]] = tfm.broadcast %[[I]]
// CHECK: %[[Y:.*]] = tfm.mul %[[X]], %[[B]]
// CHECK: %[[Q:.*]] = tfm.cast %[[Y]] : tensor<4x8xf32> to tensor<4x8xi8>
// CHECK: %[[P:.*]] = tfm.matmul %[[Q]], %{{.*}} transpose_b : tensor<4x8xi8>, tensor<16x8xi8>{{$}}
// CHECK: %[[F:.*]] = tfm.cast %[[P]] : tensor<4x16xi32> to tensor<4x16xf32>
// CHECK: %[[T:.*]] = tfm.broadcast %[[S]]
// CHECK: tfm.mul %[[F]], %[[T]] : tensor<4x16xf32>
func.func @product(%x: tensor<4x8xf32>, %w: tensor<16x8xi8>) -> tensor<4x16xf32> {
  %y = tfm.matmul %x, %w transpose_b : tensor<4x8xf32>, tensor<16x8xi8>
  return %y : tensor<4x16xf32>
}

// What is of bf16 is quantised as what it stands for; a batch has its rows.
// CHECK-LABEL: @batch
// CHECK: tfm.cast %{{.*}} : tensor<2x4x8xbf16> to tensor<2x4x8xf32>
// CHECK: tfm.matmul %{{.*}}, %{{.*}} transpose_b : tensor<2x4x8xi8>, tensor<2x16x8xi8>
func.func @batch(%x: tensor<2x4x8xbf16>, %w: tensor<2x16x8xi8>) -> tensor<2x4x16xf32> {
  %y = tfm.matmul %x, %w transpose_b : tensor<2x4x8xbf16>, tensor<2x16x8xi8>
  return %y : tensor<2x4x16xf32>
}

// Weights of 4 bits: sums are of f32, as each group has its scale, and there may
// be any number of terms.
// CHECK-LABEL: @groups
// CHECK: %[[W:.*]] = tfm.dequantise
// CHECK: %[[Q:.*]] = tfm.cast %{{.*}} : tensor<4x40000xf32> to tensor<4x40000xi8>
// CHECK: %[[P:.*]] = tfm.matmul %[[Q]], %[[W]] transpose_b : tensor<4x40000xi8>, tensor<16x40000xf32> accumulate f32
// CHECK: tfm.mul %[[P]], %{{.*}} : tensor<4x16xf32>
func.func @groups(%x: tensor<4x40000xf32>, %q: tensor<16x20000xi8>, %s: tensor<16x1250xbf16>) -> tensor<4x16xf32> {
  %w = tfm.dequantise %q, %s, %s : tensor<16x20000xi8>, tensor<16x1250xbf16> to tensor<16x40000xf32>
  %y = tfm.matmul %x, %w transpose_b : tensor<4x40000xf32>, tensor<16x40000xf32>
  return %y : tensor<4x16xf32>
}

// Floats meet floats, and sums that could leave 32 bits stay those of floats.
// CHECK-LABEL: @others
// CHECK-NOT: tensor<4x8xi8>
// CHECK-NOT: xi32>
// CHECK: return
func.func @others(%x: tensor<4x8xf32>, %w: tensor<16x8xf32>, %long: tensor<4x40000xf32>, %v: tensor<16x40000xi8>) -> (tensor<4x16xf32>, tensor<4x16xf32>) {
  %y = tfm.matmul %x, %w transpose_b : tensor<4x8xf32>, tensor<16x8xf32>
  %z = tfm.matmul %long, %v transpose_b : tensor<4x40000xf32>, tensor<16x40000xi8>
  return %y, %z : tensor<4x16xf32>, tensor<4x16xf32>
}
