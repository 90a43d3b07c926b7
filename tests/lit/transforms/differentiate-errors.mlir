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
tfm.param @w : tensor<1x1xbf16> {init = {kind = "ones"}}
func.func @loss(%q: tensor<1x16xi8>) -> tensor<f32> {
  %w = tfm.get_param @w : tensor<1x1xbf16>
  // expected-error@+1 {{'tfm.dequantise' op has no derivative}}
  %y = tfm.dequantise %q, %w, %w : tensor<1x16xi8>, tensor<1x1xbf16> to tensor<1x32xf32>
  %row = tfm.reshape %y : tensor<1x32xf32> to tensor<32xf32>
  %sum = tfm.reduce_sum %row axis 0 : tensor<32xf32>
  %loss = tfm.reshape %sum : tensor<1xf32> to tensor<f32>
  return %loss : tensor<f32>
}

// -----

// A ring's row is whose comes last.
tfm.param @w : tensor<1x1x4x2xf32> {init = {kind = "ones"}}
func.func @loss(%x: tensor<1x1x1x2xf32>, %at: tensor<1xi32>) -> tensor<f32> {
  %w = tfm.get_param @w : tensor<1x1x4x2xf32>
  // expected-error@+1 {{a ring has no derivative}}
  %y = tfm.cache_update %w, %x, %at {ring} : tensor<1x1x4x2xf32>, tensor<1x1x1x2xf32>, tensor<1xi32>
  %row = tfm.reshape %y : tensor<1x1x4x2xf32> to tensor<8xf32>
  %sum = tfm.reduce_sum %row axis 0 : tensor<8xf32>
  %loss = tfm.reshape %sum : tensor<1xf32> to tensor<f32>
  return %loss : tensor<f32>
}

// -----

// What turns update is a gradient already.
tfm.param @w : tensor<5x8xf32> {init = {kind = "ones"}}
func.func @loss(%o: tensor<3xi32>) -> tensor<f32> {
  %w = tfm.get_param @w : tensor<5x8xf32>
  // expected-error@+1 {{has no derivative where it updates slices}}
  %y = tfm.repeat 3 carried() stacked(%w : tensor<5x8xf32>) shared() order(%o : tensor<3xi32>) chosen 1 updated 1 -> (tensor<5x8xf32>) {
  ^bb0(%turn: index, %a: tensor<8xf32>):
    %b = tfm.tanh %a : tensor<8xf32>
    tfm.yield %b : tensor<8xf32>
  }
  %row = tfm.reshape %y : tensor<5x8xf32> to tensor<40xf32>
  %sum = tfm.reduce_sum %row axis 0 : tensor<40xf32>
  %loss = tfm.reshape %sum : tensor<1xf32> to tensor<f32>
  return %loss : tensor<f32>
}
