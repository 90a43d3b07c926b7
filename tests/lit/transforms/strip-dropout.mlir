// RUN: tfm-opt %s --tfm-strip-dropout | FileCheck %s

// @forward is for inference: it loses its dropout.
// CHECK-LABEL: func.func @forward(
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>)
// CHECK-NEXT: return %[[X]]
func.func @forward(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = tfm.dropout %x {rate = 0.1 : f64, site = 0 : i64} : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// @loss is for training: it keeps it. @evaluate is @loss without, inside of
// repeats and of attention too; numbers are drawn there as well.
// CHECK-LABEL: func.func @loss
// CHECK: tfm.attention {{.*}} layer {{.*}} dropout = 1.000000e-01
// CHECK: tfm.dropout
// CHECK-LABEL: func.func @evaluate
// CHECK-NOT: dropout
// CHECK: tfm.attention %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}} {causal, scale = 5.000000e-01 : f64}
// CHECK-NOT: dropout
// CHECK: %[[U:.*]] = tfm.uniform layer %{{.*}} {site = 3 : i64}
// CHECK-NEXT: tfm.add %{{.*}}, %[[U]]
// CHECK-NOT: dropout
// CHECK: return
func.func @loss(%x: tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32> {
  %y = tfm.repeat 2 carried(%x : tensor<2x4x8x16xf32>) stacked() shared() -> (tensor<2x4x8x16xf32>) {
  ^bb0(%layer: index, %h: tensor<2x4x8x16xf32>):
    %o, %lse = tfm.attention %h, %h, %h layer %layer
      {causal, scale = 0.5 : f64, dropout = 0.1 : f64, site = 1 : i64}
      : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
    %d = tfm.dropout %o layer %layer {rate = 0.1 : f64, site = 2 : i64} : tensor<2x4x8x16xf32>
    %u = tfm.uniform layer %layer {site = 3 : i64} : tensor<2x4x8x16xf32>
    %n = tfm.add %d, %u : tensor<2x4x8x16xf32>
    tfm.yield %n : tensor<2x4x8x16xf32>
  }
  return %y : tensor<2x4x8x16xf32>
}
