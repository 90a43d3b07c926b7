// RUN: tfm-opt %s --sched-serialize-small-steps="target=cpu:x86-64-v4" | FileCheck %s
// RUN: tfm-opt %s --sched-serialize-small-steps="target=cuda:sm_80" | FileCheck %s --check-prefix=CUDA
// RUN: tfm-opt %s --tfm-emit-kernels="target=cpu:x86-64-v4" | FileCheck %s --check-prefix=KERNELS

// Small steps are one thread's, behind a large one without a hand-over of their
// own; a loop stands between them, and one alone stays as it is. Threads of a GPU
// are not these.
// CUDA-NOT: sched.serial

// CHECK-LABEL: sched.program @p
sched.program @p {
  %x = sched.buffer activation "x" at 0 live [0, 9] : memref<128xi8>
  %y = sched.buffer activation "y" at 128 live [0, 9] : memref<4194304xi8>
  %a = sched.view %x at 0 : memref<128xi8> to memref<4x8xf32, strided<[8, 1]>>
  // CHECK: %[[B:.*]] = sched.view %y at 0
  // CHECK-NEXT: sched.serial {
  // CHECK-NEXT: sched.fill 1.0
  // CHECK-NEXT: sched.copy %{{.*}}, %[[B]]
  // CHECK-NEXT: }
  // KERNELS: sched.serial {
  // KERNELS-NEXT: sched.fill 1.0{{.*}} kernel @kernels::@kernel0
  // KERNELS-NEXT: sched.copy {{.*}} kernel @kernels::@kernel1
  // KERNELS-NEXT: }
  sched.fill 1.0 : f32, %a : memref<4x8xf32, strided<[8, 1]>>
  %b = sched.view %y at 0 : memref<4194304xi8> to memref<4x8xf32, strided<[8, 1]>>
  sched.copy %a, %b : memref<4x8xf32, strided<[8, 1]>> to memref<4x8xf32, strided<[8, 1]>>
  %large = sched.view %y at 0 : memref<4194304xi8> to memref<1024x1024xf32, strided<[1024, 1]>>
  // CHECK: sched.serial behind_first {
  // CHECK-NEXT: sched.fill 2.0
  // CHECK-NEXT: sched.fill 3.0
  // CHECK-NEXT: }
  // KERNELS: sched.serial behind_first {
  // KERNELS-NEXT: sched.fill 2.0{{.*}} kernel @kernels::@kernel2
  // KERNELS-NEXT: sched.fill 3.0{{.*}} kernel @kernels::@kernel3
  sched.fill 2.0 : f32, %large : memref<1024x1024xf32, strided<[1024, 1]>>
  sched.fill 3.0 : f32, %a : memref<4x8xf32, strided<[8, 1]>>
  // CHECK-NEXT: sched.loop 3
  sched.loop 3 {
  ^bb0(%i: index):
    // CHECK: sched.serial {
    // CHECK-NEXT: sched.fill 4.0
    // CHECK-NEXT: sched.fill 5.0
    // CHECK-NEXT: }
    sched.fill 4.0 : f32, %a : memref<4x8xf32, strided<[8, 1]>>
    sched.fill 5.0 : f32, %a : memref<4x8xf32, strided<[8, 1]>>
  }
  // CHECK: sched.fill 6.0
  sched.fill 6.0 : f32, %a : memref<4x8xf32, strided<[8, 1]>>
  // CHECK-NEXT: sched.fill 7.0
  // CHECK-NOT: sched.serial
  sched.fill 7.0 : f32, %large : memref<1024x1024xf32, strided<[1024, 1]>>
}

// What one thread runs already stays, and steps stay on their sides of it.
// CUDA-LABEL: sched.program @again
// CHECK-LABEL: sched.program @again
sched.program @again {
  %x = sched.buffer activation "x" at 0 live [0, 3] : memref<128xi8>
  %a = sched.view %x at 0 : memref<128xi8> to memref<4x8xf32, strided<[8, 1]>>
  // CHECK: sched.fill 1.0
  // CHECK-NEXT: sched.serial {
  // CHECK-NEXT: sched.fill 2.0
  // CHECK-NEXT: sched.fill 3.0
  // CHECK-NEXT: }
  // CHECK-NEXT: sched.fill 4.0
  sched.fill 1.0 : f32, %a : memref<4x8xf32, strided<[8, 1]>>
  sched.serial {
    sched.fill 2.0 : f32, %a : memref<4x8xf32, strided<[8, 1]>>
    sched.fill 3.0 : f32, %a : memref<4x8xf32, strided<[8, 1]>>
  }
  sched.fill 4.0 : f32, %a : memref<4x8xf32, strided<[8, 1]>>
}
