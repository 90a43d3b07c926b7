// RUN: tfm-opt %s --tfm-add-update --tfm-combine-update | FileCheck %s

// Nothing to train: the update has a gradient's norm all the same, 0.
module attributes {tfm.recipe = "{\"train\": {\"accumulate\": 1, \"optimizer\": {\"kind\": \"adamw\", \"betas\": [0.9, 0.95], \"eps\": 1e-8, \"weight_decay\": 0.5, \"decay_min_rank\": 2, \"eps_placement\": \"torch\", \"momentum\": 0.0, \"nesterov\": false}}}"} {
  tfm.param @frozen : tensor<7x7xf32> {init = {kind = "zeros"}, trainable = false}
}
// CHECK-LABEL: func.func @update(
// CHECK-SAME: tensor<4xf32> {tfm.name = "hyper"}) -> (tensor<f32> {tfm.name = "grad_norm"})
// CHECK: %[[NORM:.*]] = tfm.constant dense<0.000000e+00>
// CHECK: return %[[NORM]] : tensor<f32>
