// RUN: tfm-opt %s --sched-form-kernels --sched-split-sums --split-input-file | FileCheck %s

// A sum over many rows is added up in chunks, which threads share, and folded.
// CHECK-LABEL: func.func @long
// CHECK: %[[P:.*]] = sched.kernel row 1000 by 8 {{.*}} -> (tensor<16x8xf32>) [memory]
// CHECK: %[[C:.*]] = sched.reduce_chunks %{{.*}} : tensor<1000x8xf32> to tensor<16x8xf32>
// CHECK: sched.yield %[[C]]
// CHECK: %[[S:.*]] = sched.kernel fold 1 by 8 (%[[P]] : tensor<16x8xf32>) [memory] -> (tensor<1x8xf32>) [point]
// CHECK: tfm.reduce_sum %{{.*}} axis 0 : tensor<16x8xf32>
// CHECK: return %[[S]]
func.func @long(%x: tensor<1000x8xf32>) -> tensor<1x8xf32> {
  %a = tfm.exp %x : tensor<1000x8xf32>
  %s = tfm.reduce_sum %a axis 0 : tensor<1000x8xf32>
  return %s : tensor<1x8xf32>
}

// -----

// Of one text: the axis of its rows is not the first.
// CHECK-LABEL: func.func @one_text
// CHECK: %[[R:.*]] = tfm.reshape %{{.*}} : tensor<1x1000x8xf32> to tensor<1000x8xf32>
// CHECK: sched.reduce_chunks %[[R]] : tensor<1000x8xf32> to tensor<16x8xf32>
// CHECK: %[[S:.*]] = sched.kernel fold 1 by 8 ({{.*}} : tensor<16x8xf32>) [memory] -> (tensor<1x8xf32>) [point]
// CHECK: tfm.reduce_sum %{{.*}} axis 0 : tensor<16x8xf32>
// CHECK: tfm.reshape %[[S]] : tensor<1x8xf32> to tensor<1x1x8xf32>
func.func @one_text(%x: tensor<1x1000x8xf32>) -> tensor<1x1x8xf32> {
  %a = tfm.exp %x : tensor<1x1000x8xf32>
  %s = tfm.reduce_sum %a axis 1 : tensor<1x1000x8xf32>
  return %s : tensor<1x1x8xf32>
}

// -----

// A short one is not worth a second kernel.
// CHECK-LABEL: func.func @short
// CHECK: sched.kernel row 100 by 8 {{.*}} -> (tensor<1x8xf32>) [memory]
// CHECK-NOT: sched.kernel fold
func.func @short(%x: tensor<100x8xf32>) -> tensor<1x8xf32> {
  %s = tfm.reduce_sum %x axis 0 : tensor<100x8xf32>
  return %s : tensor<1x8xf32>
}

// -----

// Sums within rows stay: each row belongs to one thread.
// CHECK-LABEL: func.func @within_rows
// CHECK-NOT: reduce_chunks
func.func @within_rows(%x: tensor<1000x8xf32>) -> tensor<1000x1xf32> {
  %s = tfm.reduce_sum %x axis 1 : tensor<1000x8xf32>
  return %s : tensor<1000x1xf32>
}

// -----

// A maximum is folded as one, and what else the kernel computes stays.
// CHECK-LABEL: func.func @maximum
// CHECK: %[[K:.*]]:2 = sched.kernel row 128 by 8 {{.*}} -> (tensor<128x8xf32>, tensor<16x8xf32>) [point, memory]
// CHECK: sched.reduce_chunks maximum
// CHECK: %[[M:.*]] = sched.kernel fold
// CHECK: tfm.reduce_max
// CHECK: return %[[K]]#0, %[[M]]
func.func @maximum(%x: tensor<128x8xf32>) -> (tensor<128x8xf32>, tensor<1x8xf32>) {
  %a = tfm.exp %x : tensor<128x8xf32>
  %s = tfm.reduce_max %a axis 0 : tensor<128x8xf32>
  return %a, %s : tensor<128x8xf32>, tensor<1x8xf32>
}

// -----

// Sums of several texts: chunks have rows of one of them, and are folded for
// each.
// CHECK-LABEL: func.func @texts
// CHECK: %[[P:.*]] = sched.kernel row 800 by 8 {{.*}} -> (tensor<16x8xf32>) [memory]
// CHECK: sched.reduce_chunks %{{.*}} : tensor<800x8xf32> to tensor<16x8xf32>
// CHECK: %[[R:.*]] = tfm.reshape %[[P]] : tensor<16x8xf32> to tensor<4x4x8xf32>
// CHECK: sched.kernel fold 4 by 8 (%[[R]] : tensor<4x4x8xf32>) [memory] -> (tensor<4x1x8xf32>) [point]
// CHECK: tfm.reduce_sum %{{.*}} axis 1 : tensor<4x4x8xf32>
func.func @texts(%x: tensor<4x200x8xf32>) -> tensor<4x1x8xf32> {
  %s = tfm.reduce_sum %x axis 1 : tensor<4x200x8xf32>
  return %s : tensor<4x1x8xf32>
}

// -----

// As many sums as chunks are wanted: nothing is left to fold.
// CHECK-LABEL: func.func @many_texts
// CHECK: %[[P:.*]] = sched.kernel row 800 by 8 {{.*}} -> (tensor<40x8xf32>) [memory]
// CHECK-NOT: sched.kernel fold
// CHECK: tfm.reshape %[[P]] : tensor<40x8xf32> to tensor<40x1x8xf32>
func.func @many_texts(%x: tensor<40x20x8xf32>) -> tensor<40x1x8xf32> {
  %s = tfm.reduce_sum %x axis 1 : tensor<40x20x8xf32>
  return %s : tensor<40x1x8xf32>
}

// -----

// Sums of different rows in one kernel: none of its chunks has rows of two.
// CHECK-LABEL: func.func @two_sums
// CHECK: sched.kernel row 60 by 8 {{.*}} -> (tensor<12x8xf32>, tensor<12x8xf32>) [memory, memory]
// CHECK-DAG: sched.kernel fold 4 by 8
// CHECK-DAG: sched.kernel fold 6 by 8
func.func @two_sums(%x: tensor<60x8xf32>) -> (tensor<4x1x8xf32>, tensor<6x1x8xf32>) {
  %a = tfm.reshape %x : tensor<60x8xf32> to tensor<4x15x8xf32>
  %b = tfm.reshape %x : tensor<60x8xf32> to tensor<6x10x8xf32>
  %s = tfm.reduce_sum %a axis 1 : tensor<4x15x8xf32>
  %t = tfm.reduce_sum %b axis 1 : tensor<6x10x8xf32>
  return %s, %t : tensor<4x1x8xf32>, tensor<6x1x8xf32>
}
