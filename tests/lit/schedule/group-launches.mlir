// RUN: tfm-opt %s --split-input-file --tfm-to-sched=target=cuda | FileCheck %s
// RUN: tfm-opt %s --split-input-file --tfm-to-sched=target=cpu:x86-64-v3 | FileCheck %s --check-prefix=CPU

// Threads of a processor wait for each other anyway.
// CPU-NOT: sched.group

// Products of a row that nobody else reads: one kernel, every block of which
// computes the row for itself, in memory that is no part of the arena.
// CHECK-LABEL: sched.program @products
// CHECK-NOT: activation "div
// CHECK: sched.group behind_first {
// CHECK-NEXT: %[[ROW:.*]] = sched.buffer activation "div.0" : memref<256xi8>
// CHECK-COUNT-3: sched.view %[[ROW]]
// CHECK-NEXT: sched.launch row 1 by 64
// CHECK: sched.launch matmul 1 by 128
// CHECK: sched.launch matmul 1 by 32
// CHECK: sched.write
// CHECK-NEXT: }
// CHECK-NEXT: }
func.func @products(%x: tensor<1x64xf32>, %w: tensor<128x64xf32>, %u: tensor<32x64xf32>)
    -> (tensor<1x128xf32>, tensor<1x32xf32>) {
  %n = tfm.softmax %x : tensor<1x64xf32>
  %y = tfm.matmul %n, %w transpose_b : tensor<1x64xf32>, tensor<128x64xf32>
  %z = tfm.matmul %n, %u transpose_b : tensor<1x64xf32>, tensor<32x64xf32>
  return %y, %z : tensor<1x128xf32>, tensor<1x32xf32>
}

// -----

// Where the second product waits for the first, both compute the row; what that
// is made of stays as long.
// CHECK-LABEL: sched.program @chain
// CHECK: activation "chain.input" at {{.*}} live [0, 1] : memref<256xi8>
// CHECK: sched.group behind_first {
// CHECK: sched.launch row 1 by 64
// CHECK: sched.launch matmul 1 by 128
// CHECK: sched.group behind_first {
// CHECK: sched.launch row 1 by 64
// CHECK: sched.launch matmul 1 by 128
func.func @chain(%x: tensor<1x64xf32>, %w: tensor<128x64xf32>, %u: tensor<128x64xf32>) -> tensor<1x128xf32> {
  %n = tfm.softmax %x : tensor<1x64xf32>
  %y = tfm.matmul %n, %w transpose_b : tensor<1x64xf32>, tensor<128x64xf32>
  %z = tfm.matmul %n, %u transpose_b : tensor<1x64xf32>, tensor<128x64xf32>
  %s = tfm.mul %y, %z : tensor<1x128xf32>
  return %s : tensor<1x128xf32>
}

// -----

// Somebody else reads the row.
// CHECK-LABEL: sched.program @result
// CHECK-NOT: sched.group
// CHECK: sched.launch row 1 by 64
// CHECK: sched.launch matmul 1 by 128
// CHECK-NOT: sched.group
func.func @result(%x: tensor<1x64xf32>, %w: tensor<128x64xf32>) -> (tensor<1x128xf32>, tensor<1x64xf32>) {
  %n = tfm.softmax %x : tensor<1x64xf32>
  %y = tfm.matmul %n, %w transpose_b : tensor<1x64xf32>, tensor<128x64xf32>
  return %y, %n : tensor<1x128xf32>, tensor<1x64xf32>
}

// -----

// The product writes over what the row is made of, which its blocks read.
// CHECK-LABEL: sched.program @over
// CHECK-NOT: sched.group
// CHECK: sched.launch row 1 by 64
// CHECK: sched.launch matmul 1 by 64
// CHECK-NOT: sched.group
func.func @over(%x: tensor<1x64xf32>, %w: tensor<64x64xf32>) -> tensor<1x64xf32> {
  %y = tfm.repeat 3 carried(%x : tensor<1x64xf32>) stacked() shared(%w : tensor<64x64xf32>) -> (tensor<1x64xf32>) {
  ^bb0(%layer: index, %h: tensor<1x64xf32>, %v: tensor<64x64xf32>):
    %n = tfm.softmax %h : tensor<1x64xf32>
    %m = tfm.matmul %n, %v transpose_b : tensor<1x64xf32>, tensor<64x64xf32>
    %s = tfm.add %h, %m : tensor<1x64xf32>
    tfm.yield %s : tensor<1x64xf32>
  }
  return %y : tensor<1x64xf32>
}

// -----

// Of several rows each is computed once; the products of it are still one
// kernel.
// CHECK-LABEL: sched.program @rows
// CHECK: sched.launch row 2 by 64
// CHECK: sched.group {
// CHECK-NEXT: sched.launch matmul 2 by 128
// CHECK: sched.launch matmul 2 by 32
func.func @rows(%x: tensor<2x64xf32>, %w: tensor<128x64xf32>, %u: tensor<32x64xf32>)
    -> (tensor<2x128xf32>, tensor<2x32xf32>) {
  %n = tfm.softmax %x : tensor<2x64xf32>
  %y = tfm.matmul %n, %w transpose_b : tensor<2x64xf32>, tensor<128x64xf32>
  %z = tfm.matmul %n, %u transpose_b : tensor<2x64xf32>, tensor<32x64xf32>
  return %y, %z : tensor<2x128xf32>, tensor<2x32xf32>
}

// -----

// A product that reads what the one before it makes waits for it.
// CHECK-LABEL: sched.program @after
// CHECK-NOT: sched.group
func.func @after(%x: tensor<1x64xf32>, %w: tensor<64x64xf32>, %u: tensor<64x64xf32>) -> tensor<1x64xf32> {
  %y = tfm.matmul %x, %w transpose_b : tensor<1x64xf32>, tensor<64x64xf32>
  %z = tfm.matmul %y, %u transpose_b : tensor<1x64xf32>, tensor<64x64xf32>
  return %z : tensor<1x64xf32>
}

// -----

// Keys and values on their way to their caches.
// CHECK-LABEL: sched.program @caches
// CHECK: sched.group {
// CHECK-NEXT: sched.launch cache_update
// CHECK: sched.launch cache_update
func.func @caches(%keys: tensor<1x2x16x8xf32> {tfm.region = "cache.0"}, %values: tensor<1x2x16x8xf32> {tfm.region = "cache.1"},
                  %k: tensor<1x2x1x8xf32>, %v: tensor<1x2x1x8xf32>, %position: tensor<1xi32>)
    -> (tensor<1x2x16x8xf32> {tfm.region = "cache.0"}, tensor<1x2x16x8xf32> {tfm.region = "cache.1"}) {
  %0 = tfm.cache_update %keys, %k, %position : tensor<1x2x16x8xf32>, tensor<1x2x1x8xf32>, tensor<1xi32>
  %1 = tfm.cache_update %values, %v, %position : tensor<1x2x16x8xf32>, tensor<1x2x1x8xf32>, tensor<1xi32>
  return %0, %1 : tensor<1x2x16x8xf32>, tensor<1x2x16x8xf32>
}
