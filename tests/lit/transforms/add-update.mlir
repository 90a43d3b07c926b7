// RUN: tfm-opt %s --tfm-add-update --split-input-file | FileCheck %s

// Weight decay applies to parameters of rank 2 and more within a layer: @w and
// @"h.*.w" have 6 + 24 elements, @"h.*.b" has 6, and @frozen is not trained.
module attributes {tfm.recipe = "{\"train\": {\"optimizer\": {\"kind\": \"adamw\", \"betas\": [0.9, 0.95], \"eps\": 1e-8, \"weight_decay\": 0.5, \"decay_min_rank\": 2, \"eps_placement\": \"torch\", \"momentum\": 0.0, \"nesterov\": false}}}"} {
  tfm.param @w : tensor<2x3xf32> {init = {kind = "zeros"}}
  tfm.param @"h.*.w" : tensor<2x4x3xf32> {init = {kind = "zeros"}}
  tfm.param @"h.*.b" : tensor<2x3xf32> {init = {kind = "zeros"}}
  tfm.param @frozen : tensor<7x7xf32> {init = {kind = "zeros"}, trainable = false}
}
// CHECK-LABEL: func.func @update_decayed(
// CHECK-SAME: %[[P:.*]]: tensor<30xf32> {tfm.name = "p"}, %[[G:.*]]: tensor<30xf32> {tfm.name = "g"},
// CHECK-SAME: %[[M:.*]]: tensor<30xf32> {tfm.name = "m"}, %[[V:.*]]: tensor<30xf32> {tfm.name = "v"},
// CHECK-SAME: %[[HYPER:.*]]: tensor<4xf32> {tfm.name = "hyper"}, %[[SCALE:.*]]: tensor<f32> {tfm.name = "scale"})
// CHECK-SAME: -> (tensor<30xf32>, tensor<30xf32>, tensor<30xf32>)
// The gradient is scaled first; decay is decoupled from it.
// CHECK: %[[S:.*]] = tfm.broadcast %[[SCALE]]
// CHECK: tfm.mul %[[G]], %[[S]]
// CHECK: tfm.slice %[[HYPER]] axis 0 start 0 size 1
// CHECK: dense<5.000000e-01>
// CHECK: tfm.mul %[[P]]
// CHECK: return
// CHECK-LABEL: func.func @update_plain(
// CHECK-SAME: tensor<6xf32>
// CHECK-NOT: dense<5.000000e-01>
// CHECK: return

// -----

// Plain SGD keeps no state: it is returned as it came.
module attributes {tfm.recipe = "{\"train\": {\"optimizer\": {\"kind\": \"sgd\", \"betas\": [0.9, 0.999], \"eps\": 1e-8, \"weight_decay\": 0.0, \"decay_min_rank\": 0, \"eps_placement\": \"torch\", \"momentum\": 0.0, \"nesterov\": false}}}"} {
  tfm.param @w : tensor<2x3xf32> {init = {kind = "zeros"}}
}
// CHECK-LABEL: func.func @update_decayed(
// CHECK-SAME: %[[M:[^ ]*]]: tensor<6xf32> {tfm.name = "m"}, %[[V:[^ ]*]]: tensor<6xf32> {tfm.name = "v"}
// CHECK: %[[P:.*]] = tfm.sub
// CHECK-NEXT: return %[[P]], %[[M]], %[[V]]
// CHECK-NOT: @update_plain

// -----

// A model without a train block has no update.
module attributes {tfm.recipe = "{\"train\": null}"} {
  // CHECK: tfm.param @lonely
  // CHECK-NOT: func.func
  tfm.param @lonely : tensor<2x3xf32> {init = {kind = "zeros"}}
}
