// RUN: tfm-opt %s -tfm-accumulate-gradients | FileCheck %s

// A stacked gradient is added to inside of the loop, any other where it is
// returned; what is no gradient stays as it is.

module attributes {tfm.recipe = "{\"train\": {\"accumulate\": 3}}"} {
  tfm.param @w : tensor<2x4xf32> {init = {kind = "zeros"}}
  tfm.param @b : tensor<4xf32> {init = {kind = "zeros"}}

  // CHECK-LABEL: func.func @train
  // CHECK-SAME: %[[X:.*]]: tensor<4xf32>, %[[W:.*]]: tensor<2x4xf32> {tfm.gradient = @w}, %[[B:.*]]: tensor<4xf32> {tfm.gradient = @b}
  // CHECK: %[[OUT:.*]]:2 = tfm.repeat 2 {{.*}}stacked(%[[W]] : tensor<2x4xf32>)
  // CHECK: ^bb0(%{{.*}}: index, %[[H:.*]]: tensor<4xf32>, %[[SUM:.*]]: tensor<4xf32>):
  // CHECK: %[[G:.*]] = tfm.exp %[[H]]
  // CHECK: %[[NEXT:.*]] = tfm.add %[[SUM]], %[[G]]
  // CHECK: tfm.yield %[[H]], %[[NEXT]]
  // CHECK: %[[BIAS:.*]] = tfm.add %[[B]], %[[OUT]]#0
  // CHECK: return %{{.*}}, %[[OUT]]#1, %[[BIAS]]
  func.func @train(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<2x4xf32> {tfm.gradient = @w}, tensor<4xf32> {tfm.gradient = @b}) {
    %y, %s = tfm.repeat 2 carried(%x : tensor<4xf32>) stacked() shared() -> (tensor<4xf32>, tensor<2x4xf32>) {
    ^bb0(%layer: index, %h: tensor<4xf32>):
      %g = tfm.exp %h : tensor<4xf32>
      tfm.yield %h, %g : tensor<4xf32>, tensor<4xf32>
    }
    return %x, %s, %y : tensor<4xf32>, tensor<2x4xf32>, tensor<4xf32>
  }
}
