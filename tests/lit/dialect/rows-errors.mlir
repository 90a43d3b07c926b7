// RUN: tfm-opt %s --split-input-file --verify-diagnostics

// Rows need a last axis.
func.func @f(%x: tensor<f32>) {
  // expected-error@+1 {{must be floats with at least one axis}}
  %y = tfm.softmax %x : tensor<f32>
  return
}

// -----

func.func @f(%x: tensor<f32>) {
  // expected-error@+1 {{must be floats with at least one axis}}
  %y = tfm.log_softmax %x : tensor<f32>
  return
}

// -----

func.func @f(%x: tensor<f32>) {
  // expected-error@+1 {{must be floats with at least one axis}}
  %y = tfm.normalize %x eps 1.0e-5 : tensor<f32>
  return
}

// -----

func.func @f(%x: tensor<f32>) {
  // expected-error@+1 {{must be floats with at least one axis}}
  %y = tfm.rms_normalize %x eps 1.0e-5 : tensor<f32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{eps is not a finite number of at least 0}}
  %y = tfm.normalize %x eps -5.0 : tensor<4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{eps is not a finite number of at least 0}}
  %y = tfm.rms_normalize %x eps 0x7FF0000000000000 : tensor<4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{axis -1 is not in 0 <= axis < 2}}
  %y = tfm.reduce_sum %x axis -1 : tensor<4x8xf32>
  return
}

// -----

// Cross entropy and its derivative are checked alike.
func.func @f(%l: tensor<4x8x50xf32>, %t: tensor<4xi32>) {
  // expected-error@+1 {{targets do not have the shape of the rows of logits}}
  %y, %z = tfm.cross_entropy %l, %t : tensor<4x8x50xf32>, tensor<4xi32>
  return
}

// -----

func.func @f(%l: tensor<f32>, %t: tensor<i32>) {
  // expected-error@+1 {{logits have no axis}}
  %y, %z = tfm.cross_entropy %l, %t : tensor<f32>, tensor<i32>
  return
}

// -----

func.func @f(%l: tensor<4x50xf32>, %t: tensor<4xi32>) {
  // expected-error@+1 {{label_smoothing is not in 0 <= label_smoothing < 1}}
  %y, %z = tfm.cross_entropy %l, %t {label_smoothing = 7.0 : f64} : tensor<4x50xf32>, tensor<4xi32>
  return
}

// -----

func.func @f(%l: tensor<4x50xf32>, %t: tensor<7xi32>, %e: tensor<4xf32>) {
  // expected-error@+1 {{targets do not have the shape of the rows of logits}}
  %g = tfm.cross_entropy_backward %l, %t, %e, %e : tensor<4x50xf32>, tensor<7xi32>, tensor<4xf32>
  return
}

// -----

func.func @f(%l: tensor<f32>, %t: tensor<i32>, %e: tensor<f32>) {
  // expected-error@+1 {{logits have no axis}}
  %g = tfm.cross_entropy_backward %l, %t, %e, %e : tensor<f32>, tensor<i32>, tensor<f32>
  return
}

// -----

func.func @f(%l: tensor<4x50xf32>, %t: tensor<4xi32>, %e: tensor<4xf32>) {
  // expected-error@+1 {{label_smoothing is not in 0 <= label_smoothing < 1}}
  %g = tfm.cross_entropy_backward %l, %t, %e, %e {label_smoothing = -0.1 : f64} : tensor<4x50xf32>, tensor<4xi32>, tensor<4xf32>
  return
}

// -----

func.func @f(%l: tensor<4x50xf32>, %t: tensor<4xi32>, %e: tensor<9xf32>) {
  // expected-error@+1 {{lse and dlosses do not have the shape of the rows of logits}}
  %g = tfm.cross_entropy_backward %l, %t, %e, %e : tensor<4x50xf32>, tensor<4xi32>, tensor<9xf32>
  return
}

// -----

func.func @f(%l: tensor<4x50xf32>, %t: tensor<4xi32>, %e: tensor<4xf64>) {
  // expected-error@+1 {{lse is not of 'f32'}}
  %g = tfm.cross_entropy_backward %l, %t, %e, %e : tensor<4x50xf32>, tensor<4xi32>, tensor<4xf64>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{the axis is one of the operand's}}
  %y = tfm.cumsum %x axis 2 : tensor<4x8xf32>
  return
}

// -----

func.func @f(%a: tensor<4x8xf32>, %x: tensor<4x8xf32>) {
  // expected-error@+1 {{the axis is one of the operand's}}
  %y = tfm.scan %a, %x axis 2 : tensor<4x8xf32>
  return
}

// -----

func.func @f(%a: tensor<4x1xf32>, %x: tensor<4x8xf32>) {
  // expected-error@+1 {{failed to verify that all of {decay, x, y} have same type}}
  %y = "tfm.scan"(%a, %x) {axis = 1 : i64} : (tensor<4x1xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{the axis is one of the operand's}}
  %y = tfm.shift %x axis 2 by 1 : tensor<4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{there are not 9 elements in an axis of size 8}}
  %v, %i = tfm.top_k %x, 9 : tensor<4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<16777217xf32>) {
  // expected-error@+1 {{the axis is too long: 16777217}}
  %v, %i = tfm.top_k %x, 1 : tensor<16777217xf32>
  return
}
