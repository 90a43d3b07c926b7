// RUN: tfm-opt %s --split-input-file --verify-diagnostics

// An axis is counted from 0 and exists.
func.func @f(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{axis 2 is not in 0 <= axis < 2}}
  %y = tfm.slice %x axis 2 start 0 size 1 : tensor<4x8xf32>
  return
}

// -----

// A slice lies inside of its axis.
func.func @f(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{4 elements from 6 on do not lie in an axis of size 8}}
  %y = tfm.slice %x axis 1 start 6 size 4 : tensor<4x8xf32>
  return
}

// -----

// Padding does not cut.
func.func @f(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{padding is negative}}
  %y = tfm.pad %x axis 1 low -1 high 0 : tensor<4x8xf32>
  return
}

// -----

// A permutation has every axis once.
func.func @f(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{axis 1 occurs twice}}
  %y = tfm.transpose %x [1, 1] : tensor<4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{the permutation has 3 axes, the operand 2}}
  %y = tfm.transpose %x [0, 1, 2] : tensor<4x8xf32>
  return
}

// -----

// Only axes of size 1 are repeated.
func.func @f(%x: tensor<2x8xf32>) {
  // expected-error@+1 {{cannot repeat an axis of size 2 to 4}}
  %y = tfm.broadcast %x : tensor<2x8xf32> to tensor<4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{lowers the rank}}
  %y = tfm.broadcast %x : tensor<4x8xf32> to tensor<8xf32>
  return
}

// -----

// A reshape keeps every element.
func.func @f(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{changes the number of elements}}
  %y = tfm.reshape %x : tensor<4x8xf32> to tensor<31xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{changes the element type}}
  %y = tfm.reshape %x : tensor<4x8xf32> to tensor<32xi32>
  return
}

// -----

// Operands of a concatenation differ in its axis only.
func.func @f(%x: tensor<4x8xf32>, %y: tensor<3x8xf32>) {
  // expected-error@+1 {{operands differ in more than axis 1}}
  %z = tfm.concat %x, %y axis 1 : tensor<4x8xf32>, tensor<3x8xf32>
  return
}

// -----

func.func @f() {
  // expected-error@+1 {{axis 2 is not in 0 <= axis < 2}}
  %y = tfm.iota 2 : tensor<4x8xi32>
  return
}

// -----

// Shapes are static.
func.func @f(%x: tensor<?x8xf32>) {
  // expected-error@+1 {{operand #0 must be}}
  %y = tfm.exp %x : tensor<?x8xf32>
  return
}

// -----

// Numbers so large that their sum overflows.
func.func @f(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{1 elements from 9223372036854775807 on do not lie in an axis of size 8}}
  %y = tfm.slice %x axis 1 start 9223372036854775807 size 1 : tensor<4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{the padded axis is too long}}
  %y = tfm.pad %x axis 1 low 0 high 9223372036854775807 : tensor<4x8xf32>
  return
}

// -----

// Every tensor has elements.
func.func @f(%x: tensor<0x8xf32>) {
  // expected-error@+1 {{operand #0 must be statically shaped tensor without empty axes}}
  %y = tfm.exp %x : tensor<0x8xf32>
  return
}

// -----

func.func @f(%a: tensor<2xf32>, %b: tensor<2xi32>) {
  // expected-error@+1 {{operands differ in more than axis 0}}
  %z = tfm.concat %a, %b axis 0 : tensor<2xf32>, tensor<2xi32>
  return
}

// -----

// Powers are those of numbers with a fraction.
func.func @f(%x: tensor<2xi32>) {
  // expected-error@+1 {{operand #0 must be statically shaped tensor without empty axes of 32-bit float or 64-bit float values}}
  %y = tfm.pow %x, %x : tensor<2xi32>
  return
}

// -----

func.func @f(%x: tensor<7xi32>) {
  // expected-error@+1 {{expected tokens [B, T]}}
  %p = tfm.positions %x : tensor<7xi32>
  return
}
