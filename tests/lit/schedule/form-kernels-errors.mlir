// RUN: tfm-opt %s --sched-form-kernels --split-input-file --verify-diagnostics

// What is to be replaced before is no row kernel by default.
func.func @composite(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{no kernel computes tfm.softmax}}
  %y = tfm.softmax %x : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// In a layer, too.
func.func @layer(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = tfm.repeat 2 carried(%x : tensor<4x8xf32>) stacked() shared() -> (tensor<4x8xf32>) {
  ^bb0(%layer: index, %h: tensor<4x8xf32>):
    // expected-error @+1 {{no kernel computes tfm.rms_normalize}}
    %z = tfm.rms_normalize %h eps 1.0e-6 : tensor<4x8xf32>
    tfm.yield %z : tensor<4x8xf32>
  }
  return %y : tensor<4x8xf32>
}

// -----

// Neither is an op that is not ours.
func.func @call(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{no kernel computes builtin.unrealized_conversion_cast}}
  %y = builtin.unrealized_conversion_cast %x : tensor<4x8xf32> to tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
