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
