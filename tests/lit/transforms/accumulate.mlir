// RUN: tfm-opt %s -tfm-accumulate-gradients --split-input-file | FileCheck %s

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

// -----

// Slices that a loop updates begin as what is there, in a loop around it, too.
module attributes {tfm.recipe = "{\"train\": {\"accumulate\": 3}}"} {
  tfm.param @w : tensor<2x5x4xf32> {init = {kind = "zeros"}}

  // CHECK-LABEL: func.func @train
  // CHECK-SAME: %{{.*}}: tensor<3x4xf32>, %{{.*}}: tensor<3xi32>, %[[W:.*]]: tensor<2x5x4xf32> {tfm.gradient = @w}
  // CHECK: tfm.repeat 2 {{.*}}stacked(%[[W]] : tensor<2x5x4xf32>)
  // CHECK: ^bb0(%{{.*}}: index, %[[H:.*]]: tensor<3x4xf32>, %[[SUMS:.*]]: tensor<5x4xf32>, %{{.*}}: tensor<3xi32>):
  // CHECK: %[[BEGIN:.*]] = tfm.add %[[SUMS]], %{{.*}}
  // CHECK: tfm.repeat 3 {{.*}}stacked(%[[H]], %[[BEGIN]] : tensor<3x4xf32>, tensor<5x4xf32>){{.*}} chosen 1 updated 1
  func.func @train(%x: tensor<3x4xf32>, %o: tensor<3xi32>) -> (tensor<3x4xf32>, tensor<2x5x4xf32> {tfm.gradient = @w}) {
    %y, %s = tfm.repeat 2 carried(%x : tensor<3x4xf32>) stacked() shared(%o : tensor<3xi32>) -> (tensor<3x4xf32>, tensor<2x5x4xf32>) {
    ^bb0(%layer: index, %h: tensor<3x4xf32>, %order: tensor<3xi32>):
      %zeros = tfm.constant dense<0.0> : tensor<5x4xf32>
      %sums = tfm.repeat 3 carried() stacked(%h, %zeros : tensor<3x4xf32>, tensor<5x4xf32>) shared() order(%order : tensor<3xi32>) chosen 1 updated 1 -> (tensor<5x4xf32>) {
      ^bb0(%turn: index, %a: tensor<4xf32>, %sum: tensor<4xf32>):
        %next = tfm.add %sum, %a : tensor<4xf32>
        tfm.yield %next : tensor<4xf32>
      }
      tfm.yield %h, %sums : tensor<3x4xf32>, tensor<5x4xf32>
    }
    return %y, %s : tensor<3x4xf32>, tensor<2x5x4xf32>
  }
}
