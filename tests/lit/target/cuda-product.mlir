// RUN: tfm-opt %s --sched-emit-kernels="target=cuda" | FileCheck %s
// RUN: not tfm-opt %s --sched-emit-kernels="target=cuda:pentagon" 2>&1 | FileCheck %s --check-prefix=MACHINE

// MACHINE: error: there is no GPU 'pentagon'

// A product of a GPU goes in steps of depth through shared memory, and what
// follows it has its elements from there, a row's beside each other.
sched.program @p {
  %x = sched.buffer activation "x" at 0 live [0, 6] : memref<27200xi8>
  %y = sched.buffer activation "y" at 27264 live [0, 6] : memref<27200xi8>
  %z = sched.buffer activation "z" at 54528 live [0, 6] : memref<40000xi8>
  %a = sched.view %x at 0 : memref<27200xi8> to memref<100x68xf32, strided<[68, 1]>>
  %b = sched.view %y at 0 : memref<27200xi8> to memref<68x100xf32, strided<[100, 1]>>
  %c = sched.view %z at 0 : memref<40000xi8> to memref<100x100xf32, strided<[100, 1]>>
  sched.launch matmul 100 by 100 reads(%a, %b : memref<100x68xf32, strided<[68, 1]>>, memref<68x100xf32, strided<[100, 1]>>)
      writes(%c : memref<100x100xf32, strided<[100, 1]>>) [memory, memory, point] {
  ^bb0(%p: memref<100x68xf32, strided<[68, 1]>>, %q: memref<68x100xf32, strided<[100, 1]>>, %r: memref<100x100xf32, strided<[100, 1]>>):
    %s = sched.read %p : memref<100x68xf32, strided<[68, 1]>> to tensor<100x68xf32>
    %t = sched.read %q : memref<68x100xf32, strided<[100, 1]>> to tensor<68x100xf32>
    %u = tfm.matmul %s, %t : tensor<100x68xf32>, tensor<68x100xf32>
    %v = tfm.tanh %u : tensor<100x100xf32>
    sched.write %v, %r : tensor<100x100xf32> to memref<100x100xf32, strided<[100, 1]>>
  }
}

// 4 x 4 tiles of 32 by 32, the smallest, of which each thread has 2 by 2 sums
// of 16 terms in a step. There are 5 steps, the last of 4 terms: copies fill up
// with zeros what is not there. Two steps are under way while one is multiplied.
// CHECK-LABEL: func.func @kernel0(
// CHECK-SAME: tfm.block = array<i32: 256, 1, 1>, tfm.grid = array<i64: 16, 1, 1>, tfm.resident = 3 : i32, {{.*}}tfm.shared = 13824
// CHECK-COUNT-4: nvvm.cp.async.shared.global
// CHECK: nvvm.cp.async.commit.group
// CHECK-COUNT-4: nvvm.cp.async.shared.global
// CHECK: nvvm.cp.async.commit.group
// CHECK: scf.for {{.*}} iter_args({{.*}}) -> (f32, f32, f32, f32, i64, i64)
// CHECK: nvvm.cp.async.wait.group 1
// CHECK-NEXT: nvvm.barrier0
// CHECK-COUNT-4: nvvm.cp.async.shared.global
// CHECK: nvvm.cp.async.commit.group
// CHECK-COUNT-64: llvm.intr.fma
// CHECK-NOT: llvm.intr.fma
// CHECK: scf.yield
// CHECK: nvvm.cp.async.wait.group 0
// CHECK-NEXT: nvvm.barrier0
// What follows is there for four rows at once, where all rows of the tile are,
// and for one that may not be, in loops that nobody unrolls.
// CHECK-COUNT-4: math.tanh
// CHECK: } else {
// CHECK: math.tanh
// CHECK-NOT: math.tanh
// CHECK: llvm.loop_annotation
