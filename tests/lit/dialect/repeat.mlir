// RUN: tfm-opt %s | FileCheck %s
// RUN: tfm-opt %s --mlir-print-op-generic | tfm-opt | FileCheck %s

// Carried, stacked and shared operands; a value saved per layer; dropout that
// knows its layer.
// CHECK-LABEL: @repeat
func.func @repeat(%x: tensor<4x8xf32>, %w: tensor<12x8x8xf32>, %b: tensor<8xf32>) {
  // CHECK: tfm.repeat 12 carried(%{{.*}} : tensor<4x8xf32>) stacked(%{{.*}} : tensor<12x8x8xf32>) shared(%{{.*}} : tensor<8xf32>) -> (tensor<4x8xf32>, tensor<12x4x8xf32>) {
  // CHECK-NEXT: ^bb0(%[[LAYER:.*]]: index, %[[H:.*]]: tensor<4x8xf32>, %[[W:.*]]: tensor<8x8xf32>, %{{.*}}: tensor<8xf32>):
  %y, %saved = tfm.repeat 12 carried(%x : tensor<4x8xf32>) stacked(%w : tensor<12x8x8xf32>)
      shared(%b : tensor<8xf32>) -> (tensor<4x8xf32>, tensor<12x4x8xf32>) {
  ^bb0(%layer: index, %h: tensor<4x8xf32>, %wl: tensor<8x8xf32>, %bl: tensor<8xf32>):
    // CHECK: tfm.matmul %[[H]], %[[W]]
    %z = tfm.matmul %h, %wl : tensor<4x8xf32>, tensor<8x8xf32>
    // CHECK: tfm.dropout %{{.*}} layer %[[LAYER]]
    %d = tfm.dropout %z layer %layer {rate = 0.1 : f64, site = 3 : i64} : tensor<4x8xf32>
    // CHECK: tfm.yield %{{.*}}, %[[H]] : tensor<4x8xf32>, tensor<4x8xf32>
    tfm.yield %d, %h : tensor<4x8xf32>, tensor<4x8xf32>
  }
  return
}

// From the last layer to the first, with nothing to carry.
// CHECK-LABEL: @reverse
func.func @reverse(%w: tensor<3x8xf32>) {
  // CHECK: tfm.repeat 3 reverse carried() stacked(%{{.*}} : tensor<3x8xf32>) shared() -> (tensor<3x8xf32>)
  %y = tfm.repeat 3 reverse carried() stacked(%w : tensor<3x8xf32>) shared() -> (tensor<3x8xf32>) {
  ^bb0(%layer: index, %wl: tensor<8xf32>):
    %z = tfm.exp %wl : tensor<8xf32>
    tfm.yield %z : tensor<8xf32>
  }
  return
}

// Three of five layers, which a tensor names.
// CHECK-LABEL: @order
func.func @order(%x: tensor<8xf32>, %w: tensor<5x8xf32>, %o: tensor<3xi32>) {
  // CHECK: tfm.repeat 3 carried(%{{.*}} : tensor<8xf32>) stacked(%{{.*}} : tensor<5x8xf32>) shared() order(%{{.*}} : tensor<3xi32>) chosen 1 -> (tensor<8xf32>)
  %y = tfm.repeat 3 carried(%x : tensor<8xf32>) stacked(%w : tensor<5x8xf32>) shared()
      order(%o : tensor<3xi32>) chosen 1 -> (tensor<8xf32>) {
  ^bb0(%layer: index, %h: tensor<8xf32>, %wl: tensor<8xf32>):
    %z = tfm.mul %h, %wl : tensor<8xf32>
    tfm.yield %z : tensor<8xf32>
  }
  return
}

// A slice of each turn's own, one that it reads of those that are chosen, and one that it changes.
// CHECK-LABEL: @updated
func.func @updated(%own: tensor<3x8xf32>, %w: tensor<5x8xf32>, %sums: tensor<5x8xf32>, %o: tensor<3xi32>) {
  // CHECK: tfm.repeat 3 reverse carried() stacked({{.*}} : tensor<3x8xf32>, tensor<5x8xf32>, tensor<5x8xf32>) shared() order(%{{.*}} : tensor<3xi32>) chosen 2 updated 1 -> (tensor<5x8xf32>, tensor<3x8xf32>)
  %y, %z = tfm.repeat 3 reverse carried() stacked(%own, %w, %sums : tensor<3x8xf32>, tensor<5x8xf32>, tensor<5x8xf32>)
      shared() order(%o : tensor<3xi32>) chosen 2 updated 1 -> (tensor<5x8xf32>, tensor<3x8xf32>) {
  ^bb0(%turn: index, %a: tensor<8xf32>, %b: tensor<8xf32>, %sum: tensor<8xf32>):
    %p = tfm.mul %a, %b : tensor<8xf32>
    %next = tfm.add %sum, %p : tensor<8xf32>
    tfm.yield %next, %p : tensor<8xf32>, tensor<8xf32>
  }
  return
}
