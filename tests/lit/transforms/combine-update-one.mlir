// RUN: tfm-opt %s --tfm-add-update --tfm-combine-update | FileCheck %s

// A range of one element has its row; a hyperparameter, which has one element as well, stays what it is.
module attributes {tfm.recipe = "{\"train\": {\"accumulate\": 1, \"optimizer\": {\"kind\": \"adamw\", \"betas\": [0.9, 0.95], \"eps\": 1e-8, \"weight_decay\": 0.5, \"decay_min_rank\": 2, \"eps_placement\": \"torch\", \"momentum\": 0.0, \"nesterov\": false}}}"} {
  tfm.param @w : tensor<3x1024xf32> {init = {kind = "zeros"}}
  tfm.param @gain : tensor<1xf32> {init = {kind = "ones"}}
}
// CHECK-LABEL: func.func @update(
// CHECK-SAME: tensor<1x1024xf32> {tfm.region = "parameters.plain"}

// Gradients are clipped as PyTorch's clip_grad_norm_ does, which adds 1e-6 to
// their norm; a clip of 0 is none.
// CHECK: %[[CLIP:.*]] = tfm.reshape %{{.*}} : tensor<1xf32> to tensor<f32>
// CHECK: %[[NORM:.*]] = tfm.sqrt
// CHECK: %[[EPS:.*]] = tfm.constant dense<9.99999997E-7>
// CHECK: %[[SUM:.*]] = tfm.add %[[NORM]], %[[EPS]]
// CHECK: %[[RATIO:.*]] = tfm.div %[[CLIP]], %[[SUM]]
// CHECK: %[[ONE:.*]] = tfm.constant dense<1.000000e+00>
// CHECK: %[[LESS:.*]] = tfm.min %[[RATIO]], %[[ONE]]
// CHECK: %[[ZERO:.*]] = tfm.constant dense<0.000000e+00>
// CHECK: %[[CLIPS:.*]] = tfm.compare gt %[[CLIP]], %[[ZERO]]
// CHECK: tfm.select %[[CLIPS]], %[[LESS]],
// CHECK: tfm.slice %{{.*}} axis 0 start 0 size 1 : tensor<4xf32>
// CHECK: tfm.mul {{.*}} : tensor<1x1024xf32>
