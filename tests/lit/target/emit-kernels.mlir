// RUN: tfm-opt %s --sched-emit-kernels="target=cpu:x86-64-v3" | FileCheck %s
// RUN: tfm-opt %s --tfm-emit-kernels="target=cpu:x86-64-v3" | FileCheck %s --check-prefix=LLVM

// Steps that do the same to other bytes run one kernel, copies and fills too;
// what they do is all that counts.
// CHECK-LABEL: sched.program @p
sched.program @p {
  %x = sched.buffer activation "x" at 0 live [0, 6] : memref<128xi8>
  %y = sched.buffer activation "y" at 128 live [0, 6] : memref<128xi8>
  %a = sched.view %x at 0 : memref<128xi8> to memref<4x8xf32, strided<[8, 1]>>
  %b = sched.view %y at 0 : memref<128xi8> to memref<4x8xf32, strided<[8, 1]>>
  // CHECK: sched.launch row 4 by 8 {{.*}} kernel @kernels::@kernel0 {
  sched.launch row 4 by 8 reads(%a : memref<4x8xf32, strided<[8, 1]>>)
      writes(%b : memref<4x8xf32, strided<[8, 1]>>) [point, point] {
  ^bb0(%from: memref<4x8xf32, strided<[8, 1]>>, %to: memref<4x8xf32, strided<[8, 1]>>):
    %s = sched.read %from : memref<4x8xf32, strided<[8, 1]>> to tensor<4x8xf32>
    %t = tfm.tanh %s : tensor<4x8xf32>
    sched.write %t, %to : tensor<4x8xf32> to memref<4x8xf32, strided<[8, 1]>>
  }
  // CHECK: sched.launch row 4 by 8 {{.*}} kernel @kernels::@kernel0 {
  sched.launch row 4 by 8 reads(%b : memref<4x8xf32, strided<[8, 1]>>)
      writes(%a : memref<4x8xf32, strided<[8, 1]>>) [point, point] {
  ^bb0(%from: memref<4x8xf32, strided<[8, 1]>>, %to: memref<4x8xf32, strided<[8, 1]>>):
    %s = sched.read %from : memref<4x8xf32, strided<[8, 1]>> to tensor<4x8xf32>
    %t = tfm.tanh %s : tensor<4x8xf32>
    sched.write %t, %to : tensor<4x8xf32> to memref<4x8xf32, strided<[8, 1]>>
  }
  // CHECK: sched.launch row 4 by 8 {{.*}} kernel @kernels::@kernel1 {
  sched.launch row 4 by 8 reads(%b : memref<4x8xf32, strided<[8, 1]>>)
      writes(%a : memref<4x8xf32, strided<[8, 1]>>) [point, point] {
  ^bb0(%from: memref<4x8xf32, strided<[8, 1]>>, %to: memref<4x8xf32, strided<[8, 1]>>):
    %s = sched.read %from : memref<4x8xf32, strided<[8, 1]>> to tensor<4x8xf32>
    %t = tfm.exp %s : tensor<4x8xf32>
    sched.write %t, %to : tensor<4x8xf32> to memref<4x8xf32, strided<[8, 1]>>
  }
  // CHECK: sched.copy {{.*}} kernel @kernels::@kernel2
  sched.copy %a, %b : memref<4x8xf32, strided<[8, 1]>> to memref<4x8xf32, strided<[8, 1]>>
  // CHECK: sched.copy {{.*}} kernel @kernels::@kernel2
  sched.copy %b, %a : memref<4x8xf32, strided<[8, 1]>> to memref<4x8xf32, strided<[8, 1]>>
  // CHECK: sched.fill 0.000000e+00 : f32, {{.*}} kernel @kernels::@kernel3
  sched.fill 0.0 : f32, %a : memref<4x8xf32, strided<[8, 1]>>
  // CHECK: sched.fill 1.000000e+00 : f32, {{.*}} kernel @kernels::@kernel4
  sched.fill 1.0 : f32, %a : memref<4x8xf32, strided<[8, 1]>>
}

// A kernel's arguments are what the step reads and then what it writes; none of
// these needs scratch.
// CHECK: module @kernels attributes {sched.scratch = 0 : i64}
// CHECK: func.func @kernel0(%{{.*}}: memref<32xf32>, %{{.*}}: memref<32xf32>, %{{.*}}: memref<4xi32> {{.*}}, %{{.*}}: index, %{{.*}}: memref<1xi8>, %{{.*}}: index, %{{.*}}: index)
// CHECK: func.func @kernel4(%{{.*}}: memref<32xf32>, %{{.*}}: memref<4xi32>
// CHECK-NOT: @kernel5

// The kernels alone are lowered.
// LLVM: sched.launch
// LLVM: module @kernels
// LLVM: llvm.func @kernel0(%{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr {{.*}}, %{{.*}}: i64, %{{.*}}: !llvm.ptr, %{{.*}}: i64, %{{.*}}: i64)
