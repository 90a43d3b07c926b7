// RUN: tfm-opt %s --sched-place-values --split-input-file --verify-diagnostics

// Kernels are formed before their values are placed: an op that is in none
// would never be computed.
func.func @unformed(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{'tfm.exp' op is in no kernel}}
  %y = tfm.exp %x : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// In a layer, too.
func.func @layer(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = tfm.repeat 2 carried(%x : tensor<4x8xf32>) stacked() shared() -> (tensor<4x8xf32>) {
  ^bb0(%layer: index, %h: tensor<4x8xf32>):
    // expected-error @+1 {{'tfm.exp' op is in no kernel}}
    %z = tfm.exp %h : tensor<4x8xf32>
    tfm.yield %z : tensor<4x8xf32>
  }
  return %y : tensor<4x8xf32>
}
