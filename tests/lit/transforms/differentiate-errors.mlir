// RUN: tfm-opt %s --tfm-differentiate --split-input-file --verify-diagnostics

// A loss is one number.
// expected-error@+1 {{the first result of @loss is not tensor<f32>}}
func.func @loss(%x: tensor<3xf32>) -> tensor<3xf32> {
  return %x : tensor<3xf32>
}

// -----

// expected-error@+1 {{the first result of @loss is not tensor<f32>}}
func.func @loss(%x: tensor<3xf32>) {
  return
}

// -----

// Attention gives the logarithm of its sums for its derivative alone; found in
// a layer, too.
tfm.param @"h.*.w" : tensor<2x1x1x4x8xf32> {init = {kind = "ones"}}
func.func @loss(%x: tensor<1x1x4x8xf32>, %y: tensor<1x1x4xf32>) -> tensor<f32> {
  %w = tfm.get_param @"h.*.w" : tensor<2x1x1x4x8xf32>
  %z = tfm.repeat 2 carried(%y : tensor<1x1x4xf32>)
      stacked(%w : tensor<2x1x1x4x8xf32>) shared(%x : tensor<1x1x4x8xf32>) -> (tensor<1x1x4xf32>) {
  ^bb0(%layer: index, %h: tensor<1x1x4xf32>, %q: tensor<1x1x4x8xf32>, %k: tensor<1x1x4x8xf32>):
    // expected-error@+1 {{`lse` has no derivative}}
    %out, %lse = tfm.attention %q, %k, %k {causal, scale = 0.5 : f64}
        : tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>
    %next = tfm.add %h, %lse : tensor<1x1x4xf32>
    tfm.yield %next : tensor<1x1x4xf32>
  }
  %row = tfm.reshape %z : tensor<1x1x4xf32> to tensor<4xf32>
  %sum = tfm.reduce_sum %row axis 0 : tensor<4xf32>
  %loss = tfm.reshape %sum : tensor<1xf32> to tensor<f32>
  return %loss : tensor<f32>
}

// -----

// An op that nobody gave a derivative is an error, not a gradient of zero.
tfm.param @w : tensor<1x1x4x2xf32> {init = {kind = "ones"}}
func.func @loss(%x: tensor<1x1x1x2xf32>, %at: tensor<1xi32>) -> tensor<f32> {
  %w = tfm.get_param @w : tensor<1x1x4x2xf32>
  // expected-error@+1 {{'tfm.cache_update' op has no derivative}}
  %y = tfm.cache_update %w, %x, %at : tensor<1x1x4x2xf32>, tensor<1x1x1x2xf32>, tensor<1xi32>
  %row = tfm.reshape %y : tensor<1x1x4x2xf32> to tensor<8xf32>
  %sum = tfm.reduce_sum %row axis 0 : tensor<8xf32>
  %loss = tfm.reshape %sum : tensor<1xf32> to tensor<f32>
  return %loss : tensor<f32>
}
