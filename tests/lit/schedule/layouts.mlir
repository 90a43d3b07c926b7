// RUN: tfm-opt %s --sched-form-kernels --split-input-file | FileCheck %s

// In which order of axes values lie in memory, and which reshapes copy.

// Heads are merged without a copy: the kernel writes them interleaved, so that
// the reshape behind the transpose is a view.
// CHECK-LABEL: func.func @heads
// CHECK: sched.kernel {{.*}}-> (tensor<2x3x5x4xf32>) [point] layouts {{\[}}array<i64: 0, 2, 1, 3>]
// CHECK-NOT: sched.contiguous
func.func @heads(%x: tensor<2x3x5x4xf32>) -> tensor<2x5x12xf32> {
  %a = tfm.exp %x : tensor<2x3x5x4xf32>
  %t = tfm.transpose %a [0, 2, 1, 3] : tensor<2x3x5x4xf32>
  %r = tfm.reshape %t : tensor<2x5x3x4xf32> to tensor<2x5x12xf32>
  return %r : tensor<2x5x12xf32>
}

// -----

// What the caller wrote lies as it does: its transpose is copied before it can
// be reshaped.
// CHECK-LABEL: func.func @input
// CHECK: %[[T:.*]] = tfm.transpose %arg0
// CHECK: %[[C:.*]] = sched.contiguous %[[T]]
// CHECK: tfm.reshape %[[C]]
func.func @input(%x: tensor<6x9xf32>) -> tensor<54xf32> {
  %t = tfm.transpose %x [1, 0] : tensor<6x9xf32>
  %f = tfm.reshape %t : tensor<9x6xf32> to tensor<54xf32>
  %g = tfm.neg %f : tensor<54xf32>
  return %g : tensor<54xf32>
}

// -----

// Rows stay in one piece: where the transpose moves the last axis, the reshape
// copies.
// CHECK-LABEL: func.func @last_axis
// CHECK-NOT: layouts
// CHECK: sched.contiguous
func.func @last_axis(%x: tensor<6x9xf32>) -> tensor<54xf32> {
  %a = tfm.exp %x : tensor<6x9xf32>
  %t = tfm.transpose %a [1, 0] : tensor<6x9xf32>
  %f = tfm.reshape %t : tensor<9x6xf32> to tensor<54xf32>
  return %f : tensor<54xf32>
}

// -----

// What a loop saves keeps the order that its body has it in, so that the loop
// back can reshape it without a copy, too.
// CHECK-LABEL: func.func @saved
// CHECK: layouts {{\[}}array<i64: 0, 2, 1, 3>]
// CHECK-NOT: sched.contiguous
func.func @saved(%x: tensor<2x3x5x4xf32>) -> tensor<2x5x12xf32> {
  %y, %s = tfm.repeat 2 carried(%x : tensor<2x3x5x4xf32>) stacked() shared() -> (tensor<2x3x5x4xf32>, tensor<2x2x3x5x4xf32>) {
  ^bb0(%layer: index, %h: tensor<2x3x5x4xf32>):
    %a = tfm.exp %h : tensor<2x3x5x4xf32>
    %t = tfm.transpose %a [0, 2, 1, 3] : tensor<2x3x5x4xf32>
    %r = tfm.reshape %t : tensor<2x5x3x4xf32> to tensor<2x5x12xf32>
    %n = tfm.reshape %r : tensor<2x5x12xf32> to tensor<2x3x5x4xf32>
    %b = tfm.sin %n : tensor<2x3x5x4xf32>
    tfm.yield %b, %a : tensor<2x3x5x4xf32>, tensor<2x3x5x4xf32>
  }
  %z = tfm.constant dense<0.0> : tensor<2x5x12xf32>
  %back = tfm.repeat 2 reverse carried(%z : tensor<2x5x12xf32>) stacked(%s : tensor<2x2x3x5x4xf32>) shared() -> (tensor<2x5x12xf32>) {
  ^bb0(%layer: index, %d: tensor<2x5x12xf32>, %a: tensor<2x3x5x4xf32>):
    %t = tfm.transpose %a [0, 2, 1, 3] : tensor<2x3x5x4xf32>
    %r = tfm.reshape %t : tensor<2x5x3x4xf32> to tensor<2x5x12xf32>
    %e = tfm.add %d, %r : tensor<2x5x12xf32>
    tfm.yield %e : tensor<2x5x12xf32>
  }
  return %back : tensor<2x5x12xf32>
}

// -----

// A scan goes along the last axis, and is stored as its readers have its axes:
// along the positions its vectors are of channels, and so are theirs. Where one
// reads it as it is, it is stored as it is.
// CHECK-LABEL: func.func @scan
// CHECK: sched.kernel row 12 by 5 ({{.*}} : tensor<3x4x5xf32>, tensor<3x4x5xf32>) [point, point] -> (tensor<3x4x5xf32>) [point] layouts {{\[}}array<i64: 0, 2, 1>]
// CHECK: sched.kernel row 12 by 5 ({{.*}} : tensor<3x4x5xf32>) [point] -> (tensor<3x4x5xf32>) [point] {
func.func @scan(%a: tensor<3x5x4xf32>, %x: tensor<3x5x4xf32>) -> (tensor<3x5x4xf32>, tensor<3x5x4xf32>, tensor<3x4x5xf32>) {
  %at = tfm.transpose %a [0, 2, 1] : tensor<3x5x4xf32>
  %xt = tfm.transpose %x [0, 2, 1] : tensor<3x5x4xf32>
  %s = tfm.scan %at, %xt axis 2 : tensor<3x4x5xf32>
  %y = tfm.transpose %s [0, 2, 1] : tensor<3x4x5xf32>
  %t = tfm.cumsum %xt axis 2 : tensor<3x4x5xf32>
  %z = tfm.transpose %t [0, 2, 1] : tensor<3x4x5xf32>
  return %y, %z, %t : tensor<3x5x4xf32>, tensor<3x5x4xf32>, tensor<3x4x5xf32>
}
