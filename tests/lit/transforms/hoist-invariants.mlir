// RUN: tfm-opt %s --tfm-hoist-invariants | FileCheck %s

// Cosines of positions are computed once, with the constants that they are made of, also beyond an outer repeat. What is
// cheap, or larger than what layers hand on, or depends on the layer stays.

// CHECK-LABEL: func.func @rotations(
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>, %[[AT:.*]]: tensor<4x1xf32>
// CHECK-DAG: %[[RATE:.*]] = tfm.constant dense<5.000000e-01>
// CHECK: %[[ANGLE:.*]] = tfm.mul %[[AT]], %[[RATE]]
// CHECK: %[[COS:.*]] = tfm.cos %[[ANGLE]]
// CHECK: tfm.repeat 2 carried(%[[X]] : {{.*}} shared(%[[AT]], %[[COS]] :
// CHECK: ^bb0(%{{.*}}: index, %{{.*}}: tensor<4x8xf32>, %[[AT2:.*]]: tensor<4x1xf32>, %[[COS2:.*]]: tensor<4x1xf32>):
// CHECK-NOT: tfm.cos
// CHECK: tfm.repeat 3 {{.*}} shared(%[[AT2]], %[[COS2]] :
// CHECK: ^bb0(%[[LAYER:.*]]: index, %[[H:.*]]: tensor<4x8xf32>, %[[AT3:.*]]: tensor<4x1xf32>, %[[COS3:.*]]: tensor<4x1xf32>):
// CHECK-NOT: tfm.cos
// CHECK: tfm.neg %[[AT3]]
// CHECK: %[[WIDE:.*]] = tfm.broadcast %[[COS3]]
// CHECK: tfm.mul %[[H]], %[[WIDE]]
// CHECK: tfm.exp %{{.*}} : tensor<4x4x4xf32>
// CHECK: tfm.tanh
func.func @rotations(%x: tensor<4x8xf32>, %at: tensor<4x1xf32>) -> (tensor<4x8xf32>, tensor<2x3x4x4x4xf32>, tensor<2x3x4x1xf32>) {
  %y:3 = tfm.repeat 2 carried(%x : tensor<4x8xf32>) stacked() shared(%at : tensor<4x1xf32>)
      -> (tensor<4x8xf32>, tensor<2x3x4x4x4xf32>, tensor<2x3x4x1xf32>) {
  ^bb0(%outer: index, %a: tensor<4x8xf32>, %shared: tensor<4x1xf32>):
    %z:3 = tfm.repeat 3 carried(%a : tensor<4x8xf32>) stacked() shared(%shared : tensor<4x1xf32>)
        -> (tensor<4x8xf32>, tensor<3x4x4x4xf32>, tensor<3x4x1xf32>) {
    ^bb0(%layer: index, %h: tensor<4x8xf32>, %p: tensor<4x1xf32>):
      %rate = tfm.constant dense<0.5> : tensor<4x1xf32>
      %angle = tfm.mul %p, %rate : tensor<4x1xf32>
      %cos = tfm.cos %angle : tensor<4x1xf32>
      %cheap = tfm.neg %p : tensor<4x1xf32>
      %wide = tfm.broadcast %cos : tensor<4x1xf32> to tensor<4x8xf32>
      %next = tfm.mul %h, %wide : tensor<4x8xf32>
      %grid = tfm.broadcast %cheap : tensor<4x1xf32> to tensor<4x4x4xf32>
      %large = tfm.exp %grid : tensor<4x4x4xf32>
      %row = tfm.reduce_sum %next axis 1 : tensor<4x8xf32>
      %own = tfm.tanh %row : tensor<4x1xf32>
      tfm.yield %next, %large, %own : tensor<4x8xf32>, tensor<4x4x4xf32>, tensor<4x1xf32>
    }
    tfm.yield %z#0, %z#1, %z#2 : tensor<4x8xf32>, tensor<3x4x4x4xf32>, tensor<3x4x1xf32>
  }
  return %y#0, %y#1, %y#2 : tensor<4x8xf32>, tensor<2x3x4x4x4xf32>, tensor<2x3x4x1xf32>
}
