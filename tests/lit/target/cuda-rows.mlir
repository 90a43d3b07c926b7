// RUN: tfm-opt %s --sched-emit-kernels="target=cuda" | FileCheck %s
// RUN: tfm-opt %s --tfm-emit-kernels="target=cuda" | FileCheck %s --check-prefix=LLVM

// Row kernels of a GPU: a thread has a point, or with sums a warp or a block
// has a row.
sched.program @p {
  %x = sched.buffer activation "x" at 0 live [0, 6] : memref<36000xi8>
  %y = sched.buffer activation "y" at 36032 live [0, 6] : memref<36000xi8>
  %a = sched.view %x at 0 : memref<36000xi8> to memref<9x1000xf32, strided<[1000, 1]>>
  %b = sched.view %y at 0 : memref<36000xi8> to memref<9x1000xf32, strided<[1000, 1]>>
  %c = sched.view %x at 0 : memref<36000xi8> to memref<9x100xf32, strided<[100, 1]>>
  %d = sched.view %y at 0 : memref<36000xi8> to memref<9x1xf32, strided<[1, 1]>>
  %e = sched.view %y at 0 : memref<36000xi8> to memref<1x1000xf32, strided<[1000, 1]>>
  sched.launch row 9 by 1000 reads(%a : memref<9x1000xf32, strided<[1000, 1]>>)
      writes(%b : memref<9x1000xf32, strided<[1000, 1]>>) [point, point] {
  ^bb0(%from: memref<9x1000xf32, strided<[1000, 1]>>, %to: memref<9x1000xf32, strided<[1000, 1]>>):
    %s = sched.read %from : memref<9x1000xf32, strided<[1000, 1]>> to tensor<9x1000xf32>
    %t = tfm.neg %s : tensor<9x1000xf32>
    sched.write %t, %to : tensor<9x1000xf32> to memref<9x1000xf32, strided<[1000, 1]>>
  }
  sched.launch row 9 by 100 reads(%c : memref<9x100xf32, strided<[100, 1]>>)
      writes(%d : memref<9x1xf32, strided<[1, 1]>>) [point, row] {
  ^bb0(%from: memref<9x100xf32, strided<[100, 1]>>, %to: memref<9x1xf32, strided<[1, 1]>>):
    %s = sched.read %from : memref<9x100xf32, strided<[100, 1]>> to tensor<9x100xf32>
    %t = tfm.reduce_sum %s axis 1 : tensor<9x100xf32>
    sched.write %t, %to : tensor<9x1xf32> to memref<9x1xf32, strided<[1, 1]>>
  }
  sched.launch row 9 by 1000 reads(%a : memref<9x1000xf32, strided<[1000, 1]>>)
      writes(%d : memref<9x1xf32, strided<[1, 1]>>) [point, row] {
  ^bb0(%from: memref<9x1000xf32, strided<[1000, 1]>>, %to: memref<9x1xf32, strided<[1, 1]>>):
    %s = sched.read %from : memref<9x1000xf32, strided<[1000, 1]>> to tensor<9x1000xf32>
    %t = tfm.reduce_sum %s axis 1 : tensor<9x1000xf32>
    sched.write %t, %to : tensor<9x1xf32> to memref<9x1xf32, strided<[1, 1]>>
  }
  sched.launch row 9 by 1000 reads(%a : memref<9x1000xf32, strided<[1000, 1]>>)
      writes(%e : memref<1x1000xf32, strided<[1000, 1]>>) [point, memory] {
  ^bb0(%from: memref<9x1000xf32, strided<[1000, 1]>>, %to: memref<1x1000xf32, strided<[1000, 1]>>):
    %s = sched.read %from : memref<9x1000xf32, strided<[1000, 1]>> to tensor<9x1000xf32>
    %t = tfm.reduce_sum %s axis 0 : tensor<9x1000xf32>
    sched.write %t, %to : tensor<1x1000xf32> to memref<1x1000xf32, strided<[1000, 1]>>
  }
  sched.fill 0.0 : f32, %b : memref<9x1000xf32, strided<[1000, 1]>>
  sched.launch row 9 by 1000 reads(%a, %b : memref<9x1000xf32, strided<[1000, 1]>>, memref<9x1000xf32, strided<[1000, 1]>>)
      writes(%b : memref<9x1000xf32, strided<[1000, 1]>>) [point, point, point] {
  ^bb0(%one: memref<9x1000xf32, strided<[1000, 1]>>, %other: memref<9x1000xf32, strided<[1000, 1]>>, %to: memref<9x1000xf32, strided<[1000, 1]>>):
    %s = sched.read %one : memref<9x1000xf32, strided<[1000, 1]>> to tensor<9x1000xf32>
    %t = sched.read %other : memref<9x1000xf32, strided<[1000, 1]>> to tensor<9x1000xf32>
    %u = tfm.add %s, %t : tensor<9x1000xf32>
    sched.write %u, %to : tensor<9x1000xf32> to memref<9x1000xf32, strided<[1000, 1]>>
  }
  // What `neg` does above, in its place: a kernel of its own.
  sched.launch row 9 by 1000 reads(%a : memref<9x1000xf32, strided<[1000, 1]>>)
      writes(%a : memref<9x1000xf32, strided<[1000, 1]>>) [point, point] {
  ^bb0(%from: memref<9x1000xf32, strided<[1000, 1]>>, %to: memref<9x1000xf32, strided<[1000, 1]>>):
    %s = sched.read %from : memref<9x1000xf32, strided<[1000, 1]>> to tensor<9x1000xf32>
    %t = tfm.neg %s : tensor<9x1000xf32>
    sched.write %t, %to : tensor<9x1000xf32> to memref<9x1000xf32, strided<[1000, 1]>>
  }
  // A row of a warp, which it keeps.
  %g = sched.view %x at 0 : memref<36000xi8> to memref<9x1xf32, strided<[1, 1]>>
  %f = sched.view %y at 0 : memref<36000xi8> to memref<9x400xf32, strided<[1000, 1]>>
  sched.launch row 9 by 400 reads(%f : memref<9x400xf32, strided<[1000, 1]>>)
      writes(%f, %g : memref<9x400xf32, strided<[1000, 1]>>, memref<9x1xf32, strided<[1, 1]>>) [point, point, row] {
  ^bb0(%from: memref<9x400xf32, strided<[1000, 1]>>, %to: memref<9x400xf32, strided<[1000, 1]>>, %sum: memref<9x1xf32, strided<[1, 1]>>):
    %s = sched.read %from : memref<9x400xf32, strided<[1000, 1]>> to tensor<9x400xf32>
    %t = tfm.reduce_sum %s axis 1 : tensor<9x400xf32>
    %u = tfm.neg %s : tensor<9x400xf32>
    sched.write %u, %to : tensor<9x400xf32> to memref<9x400xf32, strided<[1000, 1]>>
    sched.write %t, %sum : tensor<9x1xf32> to memref<9x1xf32, strided<[1, 1]>>
  }
}

// Four neighbouring points a thread: 9,000 of them are 9 blocks of 256, the last
// of which has threads without any.
// CHECK-LABEL: func.func @kernel0(
// LLVM may count on what is read: nothing is written there meanwhile.
// CHECK-SAME: !llvm.ptr {llvm.noalias, llvm.readonly}, %{{[^:]*}}: !llvm.ptr, %{{.*}}: memref<4xi32> {llvm.noalias, llvm.readonly}, %{{.*}}: index)
// CHECK-SAME: tfm.block = array<i32: 256, 1, 1>, tfm.grid = array<i64: 9, 1, 1>
// CHECK: scf.if
// CHECK-NOT: scf.for
// CHECK: llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr -> vector<4xf32>
// CHECK-COUNT-4: arith.negf %{{.*}} : f32
// CHECK: llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xf32>

// A row of 100 columns is a warp's, whose lanes add up four each and then
// what the others have; 8 rows are a block's. One lane stores the sum.
// CHECK-LABEL: func.func @kernel1(
// CHECK-SAME: tfm.block = array<i32: 256, 1, 1>, tfm.grid = array<i64: 2, 1, 1>
// CHECK-NOT: nvvm.barrier0
// CHECK-COUNT-5: nvvm.shfl.sync bfly
// CHECK-NOT: nvvm.shfl.sync
// CHECK: nvvm.bar.warp.sync

// A longer one is a block's: its warps tell each other their sums in shared
// memory, at most once for each.
// CHECK: llvm.mlir.global internal @kernel2_shared() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<32 x i8>
// CHECK-LABEL: func.func @kernel2(
// CHECK-SAME: tfm.block = array<i32: 256, 1, 1>, tfm.grid = array<i64: 9, 1, 1>
// CHECK-COUNT-5: nvvm.shfl.sync bfly
// CHECK: nvvm.barrier0
// CHECK-COUNT-5: nvvm.shfl.sync bfly

// Four columns are a thread's, which adds up the rows in order.
// CHECK-LABEL: func.func @kernel3(
// CHECK-SAME: tfm.grid = array<i64: 1, 1, 1>
// CHECK: scf.for
// CHECK-NOT: nvvm.shfl.sync

// CHECK-LABEL: func.func @kernel4(
// CHECK-SAME: tfm.grid = array<i64: 36, 1, 1>

// But what one writes it reads in its place, which nobody may count on.
// CHECK-LABEL: func.func @kernel5(
// CHECK-SAME: !llvm.ptr {llvm.noalias, llvm.readonly}, %{{[^:]*}}: !llvm.ptr, %{{[^:]*}}: !llvm.ptr, %{{[^:]*}}: memref

// CHECK-LABEL: func.func @kernel6(
// CHECK-SAME: !llvm.ptr, %{{[^:]*}}: !llvm.ptr, %{{[^:]*}}: memref

// Of a row that is kept all is read before any of it is written.
// CHECK-LABEL: func.func @kernel7(
// CHECK-COUNT-4: llvm.load {{.*}} -> vector<4xf32>
// CHECK-NOT: llvm.load
// CHECK-COUNT-4: llvm.store {{.*}} : vector<4xf32>
// CHECK: nvvm.shfl.sync

// Every argument has 8 bytes, and nvvm's ops stay.
// LLVM: llvm.func @kernel0(%{{.*}}: !llvm.ptr {llvm.noalias, llvm.readonly}, %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr {llvm.noalias, llvm.readonly}, %{{.*}}: i64)
// LLVM-SAME: nvvm.kernel, nvvm.reqntid = array<i32: 256, 1, 1>, tfm.grid = array<i64: 9, 1, 1>
// LLVM: nvvm.read.ptx.sreg.ctaid.x
