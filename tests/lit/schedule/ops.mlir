// RUN: tfm-opt %s | tfm-opt | FileCheck %s
// RUN: tfm-opt %s --mlir-print-op-generic | tfm-opt | FileCheck %s

// Every op of the dialect, written and read again.

// CHECK: %[[P:.*]] = sched.buffer parameter "parameters" at 0 : memref<256xi8>
%p = sched.buffer parameter "parameters" at 0 : memref<256xi8>
// CHECK: sched.buffer constant "table" value dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32> : memref<8xi8>
%t = sched.buffer constant "table" value dense<[1.0, 2.0]> : tensor<2xf32> : memref<8xi8>

// CHECK-LABEL: func.func @kernels
func.func @kernels(%x: tensor<4x8xf32>, %y: tensor<256x8xf32>) -> (tensor<4x8xf32>, tensor<16x8xf32>) {
  // CHECK: %[[C:.*]] = sched.contiguous %arg0 : tensor<4x8xf32>
  %c = sched.contiguous %x : tensor<4x8xf32>
  // CHECK: sched.kernel row 4 by 8 (%[[C]] : tensor<4x8xf32>) [point] -> (tensor<4x8xf32>) [point] layouts {{\[}}array<i64: 1, 0>] {
  // CHECK: sched.yield %{{.*}} : tensor<4x8xf32>
  %k = sched.kernel row 4 by 8 (%c : tensor<4x8xf32>) [point] -> (tensor<4x8xf32>) [point] layouts [array<i64: 1, 0>] {
  ^bb0(%a: tensor<4x8xf32>):
    %b = tfm.exp %a : tensor<4x8xf32>
    sched.yield %b : tensor<4x8xf32>
  }
  %l = sched.kernel row 256 by 8 (%y : tensor<256x8xf32>) [point] -> (tensor<16x8xf32>) [memory] {
  ^bb0(%a: tensor<256x8xf32>):
    // CHECK: sched.reduce_chunks maximum %{{.*}} : tensor<256x8xf32> to tensor<16x8xf32>
    %b = sched.reduce_chunks maximum %a : tensor<256x8xf32> to tensor<16x8xf32>
    sched.yield %b : tensor<16x8xf32>
  }
  return %k, %l : tensor<4x8xf32>, tensor<16x8xf32>
}

// CHECK-LABEL: sched.program @program {
sched.program @program {
  // CHECK: %[[H:.*]] = sched.buffer activation "h" at 256 live [0, 3] : memref<128xi8>
  %h = sched.buffer activation "h" at 256 live [0, 3] : memref<128xi8>
  %rng = sched.buffer activation "rng" : memref<16xi8>
  %r = sched.view %rng at 0 : memref<16xi8> to memref<4xi32, strided<[1]>>
  // CHECK: %[[V:.*]] = sched.view %[[H]] at 0 : memref<128xi8> to memref<4x8xf32, strided<[8, 1]>>
  %v = sched.view %h at 0 : memref<128xi8> to memref<4x8xf32, strided<[8, 1]>>
  // CHECK: sched.input "x" %[[V]] : memref<4x8xf32, strided<[8, 1]>>
  sched.input "x" %v : memref<4x8xf32, strided<[8, 1]>>
  // CHECK: sched.loop 2 reverse {
  sched.loop 2 reverse {
  // CHECK: ^bb0(%[[I:.*]]: index):
  ^bb0(%i: index):
    // CHECK: %[[W:.*]] = sched.view %[[P]] at 0 layers(%[[I]]) by [128] : memref<256xi8> to memref<4x8xf32, strided<[8, 1]>>
    %w = sched.view %p at 0 layers(%i) by [128] : memref<256xi8> to memref<4x8xf32, strided<[8, 1]>>
    // CHECK: %[[ROW:.*]] = sched.view %{{.*}} at 4 : memref<16xi8> to memref<1xi32, strided<[1]>>
    %row = sched.view %rng at 4 : memref<16xi8> to memref<1xi32, strided<[1]>>
    // CHECK: sched.view %[[P]] at 0 layers(%[[I]]) by [32] row(%[[ROW]] : memref<1xi32, strided<[1]>>) by 64 : memref<256xi8> to memref<8xf32, strided<[1]>>
    %of = sched.view %p at 0 layers(%i) by [32] row(%row : memref<1xi32, strided<[1]>>) by 64 : memref<256xi8> to memref<8xf32, strided<[1]>>
    // CHECK: sched.serial {
    sched.serial {
      // CHECK: sched.fill 0.000000e+00 : f32, %[[V]] : memref<4x8xf32, strided<[8, 1]>>
      sched.fill 0.0 : f32, %v : memref<4x8xf32, strided<[8, 1]>>
      // CHECK: sched.copy %[[W]], %[[V]] : memref<4x8xf32, strided<[8, 1]>> to memref<4x8xf32, strided<[8, 1]>>
      sched.copy %w, %v : memref<4x8xf32, strided<[8, 1]>> to memref<4x8xf32, strided<[8, 1]>>
    }
    // CHECK: sched.serial behind_first {
    sched.serial behind_first {
      sched.fill 1.0 : f32, %v : memref<4x8xf32, strided<[8, 1]>>
    }
    // CHECK: sched.group behind_first {
    sched.group behind_first {
      // CHECK: sched.buffer activation "own" : memref<128xi8>
      %own = sched.buffer activation "own" : memref<128xi8>
      %m = sched.view %own at 0 : memref<128xi8> to memref<4x8xf32, strided<[8, 1]>>
      sched.launch row 4 by 8 reads(%w : memref<4x8xf32, strided<[8, 1]>>) writes(%m : memref<4x8xf32, strided<[8, 1]>>) [point, point] {
      ^bb0(%a: memref<4x8xf32, strided<[8, 1]>>, %b: memref<4x8xf32, strided<[8, 1]>>):
        %p0 = sched.read %a : memref<4x8xf32, strided<[8, 1]>> to tensor<4x8xf32>
        %p1 = tfm.tanh %p0 : tensor<4x8xf32>
        sched.write %p1, %b : tensor<4x8xf32> to memref<4x8xf32, strided<[8, 1]>>
      }
      sched.launch row 4 by 8 reads(%m : memref<4x8xf32, strided<[8, 1]>>) writes(%v : memref<4x8xf32, strided<[8, 1]>>) [point, point] {
      ^bb0(%a: memref<4x8xf32, strided<[8, 1]>>, %b: memref<4x8xf32, strided<[8, 1]>>):
        %p0 = sched.read %a : memref<4x8xf32, strided<[8, 1]>> to tensor<4x8xf32>
        %p1 = tfm.tanh %p0 : tensor<4x8xf32>
        sched.write %p1, %b : tensor<4x8xf32> to memref<4x8xf32, strided<[8, 1]>>
      }
    }
    // CHECK: sched.launch row 4 by 8 reads(%[[W]] : memref<4x8xf32, strided<[8, 1]>>) writes(%[[V]] : memref<4x8xf32, strided<[8, 1]>>) [point, point] layer %[[I]] rng %{{.*}} : memref<4xi32, strided<[1]>> micro_steps 2 {
    sched.launch row 4 by 8 reads(%w : memref<4x8xf32, strided<[8, 1]>>) writes(%v : memref<4x8xf32, strided<[8, 1]>>)
        [point, point] layer %i rng %r : memref<4xi32, strided<[1]>> micro_steps 2 {
    ^bb0(%a: memref<4x8xf32, strided<[8, 1]>>, %b: memref<4x8xf32, strided<[8, 1]>>, %l: index):
      // CHECK: %[[X:.*]] = sched.read %{{.*}} : memref<4x8xf32, strided<[8, 1]>> to tensor<4x8xf32>
      %x = sched.read %a : memref<4x8xf32, strided<[8, 1]>> to tensor<4x8xf32>
      %d = tfm.dropout %x layer %l {rate = 0.1 : f64, site = 0 : i64} : tensor<4x8xf32>
      // CHECK: sched.write %{{.*}}, %{{.*}} : tensor<4x8xf32> to memref<4x8xf32, strided<[8, 1]>>
      sched.write %d, %b : tensor<4x8xf32> to memref<4x8xf32, strided<[8, 1]>>
    }
    // A row kernel may hold nothing but what is free.
    // CHECK: sched.launch row 4 by 8 reads() writes(%{{.*}} : memref<4x8xi32, strided<[8, 1]>>) [point] {
    %n = sched.view %h at 0 : memref<128xi8> to memref<4x8xi32, strided<[8, 1]>>
    sched.launch row 4 by 8 reads() writes(%n : memref<4x8xi32, strided<[8, 1]>>) [point] {
    ^bb0(%b: memref<4x8xi32, strided<[8, 1]>>):
      // CHECK: %[[N:.*]] = tfm.iota 1 : tensor<4x8xi32>
      %x = tfm.iota 1 : tensor<4x8xi32>
      // CHECK: sched.write %[[N]], %{{.*}} : tensor<4x8xi32> to memref<4x8xi32, strided<[8, 1]>>
      sched.write %x, %b : tensor<4x8xi32> to memref<4x8xi32, strided<[8, 1]>>
    }
  }
  // CHECK: sched.output "y" %[[V]] : memref<4x8xf32, strided<[8, 1]>>
  sched.output "y" %v : memref<4x8xf32, strided<[8, 1]>>
}
