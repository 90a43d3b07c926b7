// RUN: tfm-opt %s --tfm-differentiate --split-input-file | FileCheck %s

// The gradients follow the results of @loss, one per trainable parameter in
// the order of their declarations, each marked with its parameter. One that the
// loss does not depend on has the gradient zero; a frozen one has none.
// CHECK-LABEL: func.func @loss
// CHECK-LABEL: func.func @train(
// CHECK-SAME: %[[X:.*]]: tensor<2x3xf32> {tfm.name = "x"}
// CHECK-SAME: -> (tensor<f32> {tfm.name = "loss"},
// CHECK-SAME: tensor<3x2xf32> {tfm.gradient = @w}, tensor<5xf32> {tfm.gradient = @unused})
tfm.param @w : tensor<3x2xf32> {init = {kind = "zeros"}}
tfm.param @frozen : tensor<2x2xf32> {init = {kind = "zeros"}, trainable = false}
tfm.param @unused : tensor<5xf32> {init = {kind = "zeros"}}
func.func @loss(%x: tensor<2x3xf32> {tfm.name = "x"}) -> (tensor<f32> {tfm.name = "loss"}) {
  // CHECK: %[[W:.*]] = tfm.get_param @w
  // CHECK: %[[FROZEN:.*]] = tfm.get_param @frozen
  // CHECK: %[[Y:.*]] = tfm.matmul %[[X]], %[[W]]
  // CHECK: %[[S:.*]] = tfm.reduce_sum
  // CHECK: %[[LOSS:.*]] = tfm.reshape %[[S]]
  %w = tfm.get_param @w : tensor<3x2xf32>
  %f = tfm.get_param @frozen : tensor<2x2xf32>
  %y = tfm.matmul %x, %w : tensor<2x3xf32>, tensor<3x2xf32>
  %z = tfm.mul %y, %f : tensor<2x2xf32>
  %r = tfm.reshape %z : tensor<2x2xf32> to tensor<4xf32>
  %s = tfm.reduce_sum %r axis 0 : tensor<4xf32>
  %loss = tfm.reshape %s : tensor<1xf32> to tensor<f32>
  // The backward sweep: from one, the derivative of the loss by itself, back to
  // the parameters. Nothing is computed for %x or for @frozen.
  // CHECK: %[[ONE:.*]] = tfm.constant dense<1.000000e+00> : tensor<f32>
  // CHECK: %[[A:.*]] = tfm.reshape %[[ONE]] : tensor<f32> to tensor<1xf32>
  // CHECK: %[[B:.*]] = tfm.broadcast %[[A]] : tensor<1xf32> to tensor<4xf32>
  // CHECK: %[[C:.*]] = tfm.reshape %[[B]] : tensor<4xf32> to tensor<2x2xf32>
  // CHECK: %[[D:.*]] = tfm.mul %[[C]], %[[FROZEN]]
  // CHECK-NEXT: %[[DW:.*]] = tfm.matmul %[[X]], %[[D]] transpose_a
  // CHECK-NEXT: %[[ZERO:.*]] = tfm.constant dense<0.000000e+00> : tensor<5xf32>
  // CHECK-NEXT: return %[[LOSS]], %[[DW]], %[[ZERO]]
  return %loss : tensor<f32>
}

// -----

// A repeat is differentiated by a repeat in reversed order. The forward one
// saves the input of every layer, because the gradient of the weight needs it,
// and the tanh, because its derivative does; the broadcast bias is made again.
// CHECK-LABEL: func.func @train
// CHECK: %[[W:.*]] = tfm.get_param @"h.*.w"
// CHECK: %[[B:.*]] = tfm.get_param @"h.*.b"
tfm.param @"h.*.w" : tensor<4x3x3xf32> {init = {kind = "zeros"}}
tfm.param @"h.*.b" : tensor<4x3xf32> {init = {kind = "zeros"}}
func.func @loss(%x: tensor<2x3xf32>) -> tensor<f32> {
  %w = tfm.get_param @"h.*.w" : tensor<4x3x3xf32>
  %b = tfm.get_param @"h.*.b" : tensor<4x3xf32>
  // CHECK: %[[R:.*]]:3 = tfm.repeat 4 carried({{.*}}) stacked(%[[W]], %[[B]] :
  // CHECK-SAME: -> (tensor<2x3xf32>, tensor<4x2x3xf32>, tensor<4x2x3xf32>)
  // CHECK: ^bb0(%{{.*}}: index, %[[H:.*]]: tensor<2x3xf32>,
  // CHECK: %[[T:.*]] = tfm.tanh
  // CHECK-NEXT: tfm.yield %[[T]], %[[H]], %[[T]]
  %y = tfm.repeat 4 carried(%x : tensor<2x3xf32>)
      stacked(%w, %b : tensor<4x3x3xf32>, tensor<4x3xf32>) shared() -> (tensor<2x3xf32>) {
  ^bb0(%layer: index, %h: tensor<2x3xf32>, %wl: tensor<3x3xf32>, %bl: tensor<3xf32>):
    %m = tfm.matmul %h, %wl : tensor<2x3xf32>, tensor<3x3xf32>
    %bb = tfm.broadcast %bl : tensor<3xf32> to tensor<2x3xf32>
    %a = tfm.add %m, %bb : tensor<2x3xf32>
    %t = tfm.tanh %a : tensor<2x3xf32>
    tfm.yield %t : tensor<2x3xf32>
  }
  %f = tfm.reshape %y : tensor<2x3xf32> to tensor<6xf32>
  %s = tfm.reduce_sum %f axis 0 : tensor<6xf32>
  %loss = tfm.reshape %s : tensor<1xf32> to tensor<f32>
  // The cotangent of the carried value is carried, the gradients of stacked
  // parameters are stacked.
  // CHECK: %[[G:.*]]:3 = tfm.repeat 4 reverse carried({{.*}} : tensor<2x3xf32>)
  // CHECK-SAME: stacked(%[[W]], %[[R]]#1, %[[R]]#2 : {{.*}}) shared()
  // CHECK-SAME: -> (tensor<2x3xf32>, tensor<4x3x3xf32>, tensor<4x3xf32>)
  // CHECK: return %{{.*}}, %[[G]]#1, %[[G]]#2
  return %loss : tensor<f32>
}

// -----

// A parameter shared by all layers collects its gradient in a carried value
// that starts at zero.
// CHECK-LABEL: func.func @train
tfm.param @w : tensor<3xf32> {init = {kind = "zeros"}}
func.func @loss(%x: tensor<3xf32>) -> tensor<f32> {
  %w = tfm.get_param @w : tensor<3xf32>
  %y = tfm.repeat 2 carried(%x : tensor<3xf32>) stacked() shared(%w : tensor<3xf32>)
      -> (tensor<3xf32>) {
  ^bb0(%layer: index, %h: tensor<3xf32>, %wl: tensor<3xf32>):
    %p = tfm.mul %h, %wl : tensor<3xf32>
    tfm.yield %p : tensor<3xf32>
  }
  %s = tfm.reduce_sum %y axis 0 : tensor<3xf32>
  %loss = tfm.reshape %s : tensor<1xf32> to tensor<f32>
  // CHECK: %[[ZERO:.*]] = tfm.constant dense<0.000000e+00> : tensor<3xf32>
  // CHECK: %[[G:.*]]:2 = tfm.repeat 2 reverse carried(%{{.*}}, %[[ZERO]] :
  // CHECK: ^bb0(%{{.*}}: index, %[[C:.*]]: tensor<3xf32>, %[[SUM:.*]]: tensor<3xf32>, %[[H:.*]]: tensor<3xf32>,
  // CHECK: %[[TERM:.*]] = tfm.mul %[[C]], %[[H]]
  // CHECK: %[[NEXT:.*]] = tfm.add %[[SUM]], %[[TERM]]
  // CHECK: tfm.yield %{{.*}}, %[[NEXT]]
  // CHECK: return %{{.*}}, %[[G]]#1
  return %loss : tensor<f32>
}

// -----

// The gradient of a mask that no parameter is in is not computed.
// CHECK-LABEL: func.func @train
// CHECK: %{{.*}}, %{{.*}}, %{{.*}} = tfm.attention_backward
// CHECK-SAME: -> (tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>)
tfm.param @w : tensor<1x1x2x2xf32> {init = {kind = "zeros"}}
func.func @loss(%mask: tensor<1x1x2x2xf32>) -> tensor<f32> {
  %w = tfm.get_param @w : tensor<1x1x2x2xf32>
  %o, %lse = tfm.attention %w, %w, %w mask %mask {scale = 1.0 : f64}
    : tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>
  %f = tfm.reshape %o : tensor<1x1x2x2xf32> to tensor<4xf32>
  %s = tfm.reduce_sum %f axis 0 : tensor<4xf32>
  %loss = tfm.reshape %s : tensor<1xf32> to tensor<f32>
  return %loss : tensor<f32>
}

// -----

// Without a loss there is nothing to do.
// CHECK-LABEL: func.func @forward
// CHECK-NOT: @train
func.func @forward(%x: tensor<3xf32>) -> tensor<3xf32> {
  return %x : tensor<3xf32>
}
