// RUN: tfm-opt %s --split-input-file --verify-diagnostics

// Every * in a path is a leading axis that counts layers.
// expected-error@+1 {{has 1 repeats in its path but only 0 axes}}
tfm.param @"h.*.scale" : tensor<f32> {init = {kind = "ones"}}

// -----

// expected-error@+1 {{names 2 layers of 3}}
tfm.param @"h.*.scale" : tensor<3x8xf32> {init = {kind = "ones"}, names = ["a", "b"]}

// -----

// Dimensions are those of one layer.
// expected-error@+1 {{names 2 dimensions of 1}}
tfm.param @"h.*.scale" : tensor<3x8xf32> {init = {kind = "ones"}, dims = ["layers", "width"]}

// -----

// expected-error@+1 {{has an `init` without a `kind`}}
tfm.param @scale : tensor<8xf32> {init = {}}

// -----

// The frontend resolves `xavier` and `he`.
// expected-error@+1 {{has an `init` of no known kind: "xavier"}}
tfm.param @scale : tensor<8xf32> {init = {kind = "xavier"}}

// -----

// expected-error@+1 {{has an `init` with 1 `args`; normal takes 2}}
tfm.param @scale : tensor<8xf32> {init = {kind = "normal", args = [0.02]}}

// -----

// expected-error@+1 {{has an `init` with `args` that are no numbers}}
tfm.param @scale : tensor<8xf32> {init = {kind = "constant", args = ["one"]}}

// -----

func.func @f() {
  // expected-error@+1 {{names no parameter: missing}}
  %w = tfm.get_param @missing : tensor<8xf32>
  return
}

// -----

// A checkpoint holds each name once.
// expected-error@+1 {{names two layers "a"}}
tfm.param @"h.*.scale" : tensor<2x8xf32> {init = {kind = "ones"}, names = ["a", "a"]}

// -----

// expected-error@+1 {{has an `init` with a negative deviation}}
tfm.param @scale : tensor<8xf32> {init = {kind = "truncated_normal", args = [0.0, -1]}}

// -----

// expected-error@+1 {{has an `init` from high to low}}
tfm.param @scale : tensor<8xf32> {init = {kind = "uniform", args = [1.0, -1.0]}}

// -----

// expected-error@+1 {{has an `init` with `args` that are not finite}}
tfm.param @scale : tensor<8xf32> {init = {kind = "constant", args = [0x7FF0000000000000 : f64]}}

// -----

// expected-error@+1 {{type attribute of statically shaped tensor without empty axes}}
tfm.param @scale : tensor<8xi32> {init = {kind = "ones"}}

// -----

func.func @f() {
  // expected-error@+1 {{has elements that are not in the module}}
  %c = tfm.constant dense_resource<weights> : tensor<2xf32>
  return
}

// -----

tfm.param @scale : tensor<8xf32> {init = {kind = "ones"}}
func.func @f() {
  // expected-error@+1 {{has type 'tensor<99xf32>' but the parameter 'tensor<8xf32>'}}
  %w = tfm.get_param @scale : tensor<99xf32>
  return
}

// -----

// A body gets its layer's slice as an argument.
tfm.param @scale : tensor<8xf32> {init = {kind = "ones"}}
func.func @f(%x: tensor<8xf32>) {
  %y = tfm.repeat 2 carried(%x : tensor<8xf32>) stacked() shared() -> (tensor<8xf32>) {
  ^bb0(%l: index, %a: tensor<8xf32>):
    // expected-error@+1 {{stands inside a repeat}}
    %w = tfm.get_param @scale : tensor<8xf32>
    tfm.yield %w : tensor<8xf32>
  }
  return
}

// -----

// expected-error@+1 {{has only some of `scale`, `minimum` and `terms`}}
tfm.param @w : tensor<4x16xi8> {init = {kind = "zeros"}, minimum = @s, output_axis = 0 : i64, scale = @s}
tfm.param @s : tensor<4x1xbf16> {init = {kind = "zeros"}}

// -----

// expected-error@+1 {{has panels of 2 axes: each of the last two is two of them}}
tfm.param @w : tensor<4x16xi8> {init = {kind = "zeros"}, output_axis = 0 : i64, scale = @s, terms = 8 : i64}
tfm.param @s : tensor<4xf32> {init = {kind = "zeros"}}

// -----

// expected-error@+1 {{has panels of type 'tensor<1x2x32x4xi8>': expected 'tensor<2x2x32x4xi8>'}}
tfm.param @w : tensor<1x2x32x4xi8> {init = {kind = "zeros"}, output_axis = 0 : i64, scale = @s, terms = 8 : i64}
tfm.param @s : tensor<33xf32> {init = {kind = "zeros"}}

// -----

// expected-error@+1 {{has rows of 16 bytes: 33 terms of 4 bits take 32}}
tfm.param @w : tensor<4x16xi8> {init = {kind = "zeros"}, minimum = @s, output_axis = 0 : i64, scale = @s, terms = 33 : i64}
tfm.param @s : tensor<4x2xbf16> {init = {kind = "zeros"}}

// -----

// expected-error@+1 {{has a minimum of type 'tensor<4x1xf32>': expected 'tensor<4x1xbf16>'}}
tfm.param @w : tensor<4x16xi8> {init = {kind = "zeros"}, minimum = @m, output_axis = 0 : i64, scale = @s, terms = 8 : i64}
tfm.param @s : tensor<4x1xbf16> {init = {kind = "zeros"}}
tfm.param @m : tensor<4x1xf32> {init = {kind = "zeros"}}

// -----

// expected-error@+1 {{has a rate of 0.000000e+00: expected a positive one}}
tfm.param @w : tensor<2xf32> {init = {kind = "zeros"}, rate = 0.0}
