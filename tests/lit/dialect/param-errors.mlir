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
