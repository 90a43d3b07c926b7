// RUN: tfm-opt %s --canonicalize | FileCheck %s

// Neutral elements, and negation twice.
// CHECK-LABEL: @neutral(
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>)
// CHECK-NEXT: return %[[X]]
func.func @neutral(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = tfm.constant dense<0.0> : tensor<4xf32>
  %one = tfm.constant dense<1.0> : tensor<4xf32>
  %a = tfm.add %zero, %x : tensor<4xf32>
  %b = tfm.sub %a, %zero : tensor<4xf32>
  %c = tfm.mul %one, %b : tensor<4xf32>
  %d = tfm.div %c, %one : tensor<4xf32>
  %e = tfm.neg %d : tensor<4xf32>
  %f = tfm.neg %e : tensor<4xf32>
  return %f : tensor<4xf32>
}

// What is not neutral stays: 0 - x, 1 / x, and x + 1.
// CHECK-LABEL: @not_neutral
// CHECK: tfm.sub
// CHECK: tfm.div
// CHECK: tfm.add
func.func @not_neutral(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = tfm.constant dense<0.0> : tensor<4xf32>
  %one = tfm.constant dense<1.0> : tensor<4xf32>
  %a = tfm.sub %zero, %x : tensor<4xf32>
  %b = tfm.div %one, %a : tensor<4xf32>
  %c = tfm.add %b, %one : tensor<4xf32>
  return %c : tensor<4xf32>
}

// Moves that change nothing are removed, and two of a kind are one.
// CHECK-LABEL: @moves(
// CHECK-SAME: %[[X:.*]]: tensor<2x3x4xf32>)
// CHECK-NEXT: %[[T:.*]] = tfm.transpose %[[X]] [2, 0, 1] : tensor<2x3x4xf32>
// CHECK-NEXT: %[[R:.*]] = tfm.reshape %[[T]] : tensor<4x2x3xf32> to tensor<24xf32>
// CHECK-NEXT: return %[[X]], %[[R]]
func.func @moves(%x: tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>, tensor<24xf32>) {
  %a = tfm.transpose %x [0, 1, 2] : tensor<2x3x4xf32>
  %b = tfm.reshape %a : tensor<2x3x4xf32> to tensor<2x3x4xf32>
  %c = tfm.slice %b axis 1 start 0 size 3 : tensor<2x3x4xf32>
  %d = tfm.concat %c axis 0 : tensor<2x3x4xf32>
  %e = tfm.broadcast %d : tensor<2x3x4xf32> to tensor<2x3x4xf32>
  %f = tfm.cast %e : tensor<2x3x4xf32> to tensor<2x3x4xf32>
  %g = tfm.transpose %f [0, 2, 1] : tensor<2x3x4xf32>
  %h = tfm.transpose %g [1, 0, 2] : tensor<2x4x3xf32>
  %i = tfm.reshape %h : tensor<4x2x3xf32> to tensor<8x3xf32>
  %j = tfm.reshape %i : tensor<8x3xf32> to tensor<24xf32>
  return %f, %j : tensor<2x3x4xf32>, tensor<24xf32>
}

// Constants move through broadcasts and reshapes.
// CHECK-LABEL: @constants
// CHECK-NEXT: %[[C:.*]] = tfm.constant dense<2.000000e+00> : tensor<2x2xf32>
// CHECK-NEXT: return %[[C]]
func.func @constants() -> tensor<2x2xf32> {
  %two = tfm.constant dense<2.0> : tensor<f32>
  %a = tfm.broadcast %two : tensor<f32> to tensor<4xf32>
  %b = tfm.reshape %a : tensor<4xf32> to tensor<2x2xf32>
  return %b : tensor<2x2xf32>
}

// A matmul reads its operands transposed instead of their being transposed.
// CHECK-LABEL: @matmul(
// CHECK-SAME: %[[A:.*]]: tensor<2x4x3xf32>, %[[B:.*]]: tensor<2x5x4xf32>)
// CHECK-NEXT: %[[Y:.*]] = tfm.matmul %[[A]], %[[B]] transpose_a transpose_b : tensor<2x4x3xf32>, tensor<2x5x4xf32>
// CHECK-NEXT: return %[[Y]]
func.func @matmul(%a: tensor<2x4x3xf32>, %b: tensor<2x5x4xf32>) -> tensor<2x3x5xf32> {
  %at = tfm.transpose %a [0, 2, 1] : tensor<2x4x3xf32>
  %bt = tfm.transpose %b [0, 2, 1] : tensor<2x5x4xf32>
  %y = tfm.matmul %at, %bt : tensor<2x3x4xf32>, tensor<2x4x5xf32>
  return %y : tensor<2x3x5xf32>
}

// What does not decay is a sum, either way, and what does at once is what it is
// of; a decay that is one number otherwise stays.
// CHECK-LABEL: @scan(
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>)
// CHECK: %[[HALF:.*]] = tfm.constant dense<5.000000e-01> : tensor<4x8xf32>
// CHECK-NEXT: %[[A:.*]] = tfm.cumsum %[[X]] axis 1 : tensor<4x8xf32>
// CHECK-NEXT: %[[B:.*]] = tfm.cumsum %[[A]] axis 0 reverse : tensor<4x8xf32>
// CHECK-NEXT: %[[D:.*]] = tfm.scan %[[HALF]], %[[B]] axis 1 : tensor<4x8xf32>
// CHECK-NEXT: return %[[D]]
func.func @scan(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %one = tfm.constant dense<1.0> : tensor<f32>
  %ones = tfm.broadcast %one : tensor<f32> to tensor<4x8xf32>
  %zeros = tfm.constant dense<0.0> : tensor<4x8xf32>
  %half = tfm.constant dense<0.5> : tensor<4x8xf32>
  %a = tfm.scan %ones, %x axis 1 : tensor<4x8xf32>
  %b = tfm.scan %ones, %a axis 0 reverse : tensor<4x8xf32>
  %c = tfm.scan %zeros, %b axis 1 : tensor<4x8xf32>
  %d = tfm.scan %half, %c axis 1 : tensor<4x8xf32>
  return %d : tensor<4x8xf32>
}
