// RUN: tfm-opt %s --tfm-legalize-for-kernels --split-input-file | FileCheck %s

// Many terms are rows of columns, whatever stands before them.
// CHECK-LABEL: func.func @rows
// CHECK: %[[Y:.*]] = tfm.reduce_sum %{{.*}} axis 1 : tensor<4x100x8xf32>
// CHECK: return %[[Y]]
func.func @rows(%x: tensor<4x100x8xf32>) -> tensor<4x1x8xf32> {
  %y = tfm.reduce_sum %x axis 1 : tensor<4x100x8xf32>
  return %y : tensor<4x1x8xf32>
}

// -----

// What follows them is one axis; views before it stay.
// CHECK-LABEL: func.func @columns
// CHECK: %[[X:.*]] = tfm.reshape %{{.*}} : tensor<2x3x100x4x8xf32> to tensor<2x3x100x32xf32>
// CHECK: tfm.reduce_max %[[X]] axis 2 {keeps_nan} : tensor<2x3x100x32xf32>
func.func @columns(%x: tensor<2x3x100x4x8xf32>) -> tensor<2x3x1x4x8xf32> {
  %y = tfm.reduce_max %x axis 2 {keeps_nan} : tensor<2x3x100x4x8xf32>
  return %y : tensor<2x3x1x4x8xf32>
}

// -----

// Few columns are not worth a row.
// CHECK-LABEL: func.func @few_columns
// CHECK: tfm.transpose %{{.*}} [0, 2, 1] : tensor<4x100x3xf32>
// CHECK: tfm.reduce_sum %{{.*}} axis 2 : tensor<4x3x100xf32>
func.func @few_columns(%x: tensor<4x100x3xf32>) -> tensor<4x1x3xf32> {
  %y = tfm.reduce_sum %x axis 1 : tensor<4x100x3xf32>
  return %y : tensor<4x1x3xf32>
}

// -----

// Few terms are written out as a tree, of what is computed for them alone.
// CHECK-LABEL: func.func @few_terms
// CHECK-SAME: %[[X:.*]]: tensor<4x3x8xf32>, %[[W:.*]]: tensor<4x3x1xf32>
// CHECK: %[[B:.*]] = tfm.broadcast %[[W]]
// CHECK: %[[X0:.*]] = tfm.slice %[[X]] axis 1 start 0 size 1
// CHECK: %[[B0:.*]] = tfm.slice %[[B]] axis 1 start 0 size 1
// CHECK: %[[P0:.*]] = tfm.mul %[[X0]], %[[B0]] : tensor<4x1x8xf32>
// CHECK: %[[P1:.*]] = tfm.mul
// CHECK: %[[P2:.*]] = tfm.mul
// CHECK: %[[S:.*]] = tfm.add %[[P0]], %[[P1]]
// CHECK: tfm.add %[[S]], %[[P2]]
// CHECK-NOT: tfm.reduce_sum
func.func @few_terms(%x: tensor<4x3x8xf32>, %w: tensor<4x3x1xf32>) -> tensor<4x1x8xf32> {
  %b = tfm.broadcast %w : tensor<4x3x1xf32> to tensor<4x3x8xf32>
  %p = tfm.mul %x, %b : tensor<4x3x8xf32>
  %y = tfm.reduce_sum %p axis 1 : tensor<4x3x8xf32>
  return %y : tensor<4x1x8xf32>
}

// -----

// What others read too is computed once; what is equal in all terms is not cut.
// CHECK-LABEL: func.func @read_elsewhere
// CHECK: %[[E:.*]] = tfm.exp
// CHECK: tfm.slice %[[E]] axis 1 start 0 size 1
// CHECK: tfm.slice %[[E]] axis 1 start 1 size 1
// CHECK: tfm.max
func.func @read_elsewhere(%x: tensor<4x2x8xf32>) -> (tensor<4x1x8xf32>, tensor<4x2x8xf32>) {
  %e = tfm.exp %x : tensor<4x2x8xf32>
  %y = tfm.reduce_max %e axis 1 {keeps_nan} : tensor<4x2x8xf32>
  return %y, %e : tensor<4x1x8xf32>, tensor<4x2x8xf32>
}
