// RUN: not tfm-opt %s --sched-emit-kernels="target=cpu:pentagon" 2>&1 | FileCheck %s --check-prefix=MACHINE
// RUN: not tfm-opt %s --sched-emit-kernels="target=abacus" 2>&1 | FileCheck %s --check-prefix=KIND
// RUN: tfm-opt %s --sched-emit-kernels="target=cpu:x86-64-v3" --split-input-file --verify-diagnostics

// A machine that LLVM does not know, and a kind of target that there is not.
// MACHINE: error: unknown CPU 'pentagon'
// KIND: error: there is no target 'abacus'

// What no kernel adds up in.
module {
  sched.program @p {
    %x = sched.buffer activation "x" at 0 live [0, 0] : memref<64xi8>
    %y = sched.buffer activation "y" at 64 live [0, 0] : memref<128xi8>
    %a = sched.view %x at 0 : memref<64xi8> to memref<4x4xf32, strided<[4, 1]>>
    %b = sched.view %y at 0 : memref<128xi8> to memref<4x4xf64, strided<[4, 1]>>
    // expected-error @+1 {{no kernel adds up a matrix product in 'f64'}}
    sched.launch matmul 4 by 4 reads(%a, %a : memref<4x4xf32, strided<[4, 1]>>, memref<4x4xf32, strided<[4, 1]>>)
        writes(%b : memref<4x4xf64, strided<[4, 1]>>) [memory, memory, point] {
    ^bb0(%p: memref<4x4xf32, strided<[4, 1]>>, %q: memref<4x4xf32, strided<[4, 1]>>, %r: memref<4x4xf64, strided<[4, 1]>>):
      %s = sched.read %p : memref<4x4xf32, strided<[4, 1]>> to tensor<4x4xf32>
      %t = sched.read %q : memref<4x4xf32, strided<[4, 1]>> to tensor<4x4xf32>
      %u = tfm.matmul %s, %t : tensor<4x4xf32>, tensor<4x4xf32> accumulate f64
      sched.write %u, %r : tensor<4x4xf64> to memref<4x4xf64, strided<[4, 1]>>
    }
  }
}

// -----

// Elements that no kernel takes: what moves them, and what only computes with
// them.
sched.program @elements {
  %x = sched.buffer activation "x" at 0 live [0, 2] : memref<64xi8>
  %y = sched.buffer activation "y" at 64 live [0, 2] : memref<64xi8>
  %a = sched.view %x at 0 : memref<64xi8> to memref<8xf64, strided<[1]>>
  %b = sched.view %y at 0 : memref<64xi8> to memref<8xf64, strided<[1]>>
  // expected-error @+1 {{no kernel takes elements of type 'f64'}}
  sched.copy %a, %b : memref<8xf64, strided<[1]>> to memref<8xf64, strided<[1]>>
  // expected-error @+1 {{no kernel takes elements of type 'f64'}}
  sched.fill 0.0 : f64, %a : memref<8xf64, strided<[1]>>
  %c = sched.view %x at 0 : memref<64xi8> to memref<8xf32, strided<[1]>>
  %d = sched.view %y at 0 : memref<64xi8> to memref<8xf32, strided<[1]>>
  // expected-error @+1 {{no kernel takes elements of type 'f64'}}
  sched.launch row 1 by 8 reads(%c : memref<8xf32, strided<[1]>>) writes(%d : memref<8xf32, strided<[1]>>) [point, point] {
  ^bb0(%p: memref<8xf32, strided<[1]>>, %q: memref<8xf32, strided<[1]>>):
    %s = sched.read %p : memref<8xf32, strided<[1]>> to tensor<8xf32>
    %t = tfm.cast %s : tensor<8xf32> to tensor<8xf64>
    %u = tfm.exp %t : tensor<8xf64>
    %v = tfm.cast %u : tensor<8xf64> to tensor<8xf32>
    sched.write %v, %q : tensor<8xf32> to memref<8xf32, strided<[1]>>
  }
}

// -----

// What is only made for targets that have a kernel for it.
module {
  sched.program @p {
    %x = sched.buffer activation "x" at 0 live [0, 0] : memref<64xi8>
    %y = sched.buffer activation "y" at 64 live [0, 0] : memref<16xi8>
    %z = sched.buffer activation "z" at 128 live [0, 0] : memref<16xi8>
    %a = sched.view %x at 0 : memref<64xi8> to memref<2x8xf32, strided<[8, 1]>>
    %b = sched.view %y at 0 : memref<16xi8> to memref<2x2xf32, strided<[2, 1]>>
    %c = sched.view %z at 0 : memref<16xi8> to memref<2x2xi32, strided<[2, 1]>>
    // expected-error @+1 {{a CPU has no kernel for it but what tfm-decompose makes}}
    sched.launch top_k 0 by 0 reads(%a : memref<2x8xf32, strided<[8, 1]>>)
        writes(%b, %c : memref<2x2xf32, strided<[2, 1]>>, memref<2x2xi32, strided<[2, 1]>>) [memory, memory, memory] {
    ^bb0(%p: memref<2x8xf32, strided<[8, 1]>>, %q: memref<2x2xf32, strided<[2, 1]>>, %r: memref<2x2xi32, strided<[2, 1]>>):
      %s = sched.read %p : memref<2x8xf32, strided<[8, 1]>> to tensor<2x8xf32>
      %t, %u = tfm.top_k %s, 2 : tensor<2x8xf32>
      sched.write %t, %q : tensor<2x2xf32> to memref<2x2xf32, strided<[2, 1]>>
      sched.write %u, %r : tensor<2x2xi32> to memref<2x2xi32, strided<[2, 1]>>
    }
  }
}
