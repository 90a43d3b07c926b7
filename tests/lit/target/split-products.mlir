// RUN: tfm-opt %s --cpu-split-products | FileCheck %s

// The gradient of a small weight: each half of the rows by itself.
// CHECK-LABEL: func.func @gradient
func.func @gradient(%x: tensor<96x8xf32>, %dy: tensor<96x4xf32>) -> tensor<8x4xf32> {
  // CHECK-DAG: %[[X:.*]] = tfm.reshape %arg0 : tensor<96x8xf32> to tensor<2x48x8xf32>
  // CHECK-DAG: %[[DY:.*]] = tfm.reshape %arg1 : tensor<96x4xf32> to tensor<2x48x4xf32>
  // CHECK: %[[HALVES:.*]] = tfm.matmul %[[X]], %[[DY]] transpose_a : tensor<2x48x8xf32>, tensor<2x48x4xf32>
  // CHECK-DAG: %[[LOW:.*]] = tfm.slice %[[HALVES]] axis 0 start 0 size 1
  // CHECK-DAG: %[[HIGH:.*]] = tfm.slice %[[HALVES]] axis 0 start 1 size 1
  // CHECK: tfm.add
  %dw = tfm.matmul %x, %dy transpose_a : tensor<96x8xf32>, tensor<96x4xf32>
  return %dw : tensor<8x4xf32>
}

// Too large a result, an odd number of rows, and a product along columns stay.
// CHECK-LABEL: func.func @others
func.func @others(%x: tensor<8x64xf32>, %dy: tensor<8x64xf32>,
                  %u: tensor<97x8xf32>, %v: tensor<97x4xf32>,
                  %w: tensor<64x8xf32>) -> (tensor<64x64xf32>, tensor<8x4xf32>, tensor<8x8xf32>) {
  // CHECK-NOT: tfm.slice
  %large = tfm.matmul %x, %dy transpose_a : tensor<8x64xf32>, tensor<8x64xf32>
  %odd = tfm.matmul %u, %v transpose_a : tensor<97x8xf32>, tensor<97x4xf32>
  %along = tfm.matmul %x, %w : tensor<8x64xf32>, tensor<64x8xf32>
  return %large, %odd, %along : tensor<64x64xf32>, tensor<8x4xf32>, tensor<8x8xf32>
}
