// RUN: tfm-opt %s | FileCheck %s
// RUN: tfm-opt %s --mlir-print-op-generic | tfm-opt | FileCheck %s


// Ops that move elements; the result type is inferred where it can be.
func.func @shapes(%v: tensor<8xf32>, %x: tensor<4x8xf32>, %y: tensor<4x8x2xf32>) {
  // CHECK: tfm.broadcast %{{.*}} : tensor<8xf32> to tensor<4x8xf32>
  %b = tfm.broadcast %v : tensor<8xf32> to tensor<4x8xf32>
  // CHECK: tfm.reshape %{{.*}} : tensor<4x8xf32> to tensor<4x2x4xf32>
  %r = tfm.reshape %x : tensor<4x8xf32> to tensor<4x2x4xf32>
  // CHECK: tfm.transpose %{{.*}} [0, 2, 1] : tensor<4x8x2xf32>
  %t = tfm.transpose %y [0, 2, 1] : tensor<4x8x2xf32>
  // CHECK: tfm.slice %{{.*}} axis 1 start 2 size 4 : tensor<4x8xf32>
  %s = tfm.slice %x axis 1 start 2 size 4 : tensor<4x8xf32>
  // CHECK: tfm.pad %{{.*}} axis 1 low 2 high 2 : tensor<4x4xf32>
  %p = tfm.pad %s axis 1 low 2 high 2 : tensor<4x4xf32>
  // CHECK: tfm.concat %{{.*}}, %{{.*}} axis 1 : tensor<4x4xf32>, tensor<4x8xf32>
  %c = tfm.concat %s, %p axis 1 : tensor<4x4xf32>, tensor<4x8xf32>
  // CHECK: tfm.neg %{{.*}} : tensor<4x12xf32>
  %z = tfm.neg %c : tensor<4x12xf32>
  return
}
