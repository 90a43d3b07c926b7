// RUN: tfm-opt %s --sched-share-exponentials --split-input-file | FileCheck %s

// Softmax from the logarithm of its sum, beside that sum: its terms are divided
// by it, and there is one exponential.
// CHECK-LABEL: func.func @softmax_beside_its_sum
// CHECK: %[[E:.*]] = tfm.exp
// CHECK: %[[S:.*]] = tfm.reduce_sum %[[E]] axis 1
// CHECK-NOT: tfm.exp
// CHECK: %[[F:.*]] = tfm.div %{{.*}}, %[[S]] : tensor<4x1xf32>
// CHECK: %[[B:.*]] = tfm.broadcast %[[F]]
// CHECK: %[[P:.*]] = tfm.mul %[[E]], %[[B]]
// CHECK: sched.yield %{{.*}}, %[[P]]
func.func @softmax_beside_its_sum(%x: tensor<4x300xf32>) -> (tensor<4x1xf32>, tensor<4x300xf32>) {
  %l, %y = sched.kernel row 4 by 300 (%x : tensor<4x300xf32>) [point] -> (tensor<4x1xf32>, tensor<4x300xf32>) [row, point] {
  ^bb0(%a: tensor<4x300xf32>):
    %m = tfm.reduce_max %a axis 1 : tensor<4x300xf32>
    %mb = tfm.broadcast %m : tensor<4x1xf32> to tensor<4x300xf32>
    %d = tfm.sub %a, %mb : tensor<4x300xf32>
    %e = tfm.exp %d : tensor<4x300xf32>
    %s = tfm.reduce_sum %e axis 1 : tensor<4x300xf32>
    %g = tfm.log %s : tensor<4x1xf32>
    %lse = tfm.add %m, %g : tensor<4x1xf32>
    %lb = tfm.broadcast %lse : tensor<4x1xf32> to tensor<4x300xf32>
    %t = tfm.sub %a, %lb : tensor<4x300xf32>
    %p = tfm.exp %t : tensor<4x300xf32>
    sched.yield %lse, %p : tensor<4x1xf32>, tensor<4x300xf32>
  }
  return %l, %y : tensor<4x1xf32>, tensor<4x300xf32>
}

// -----

// Of another tensor than the sum's.
// CHECK-LABEL: func.func @of_something_else
// CHECK: tfm.exp
// CHECK: tfm.exp
// CHECK-NOT: tfm.div
func.func @of_something_else(%x: tensor<4x300xf32>, %z: tensor<4x300xf32>) -> (tensor<4x1xf32>, tensor<4x300xf32>) {
  %l, %y = sched.kernel row 4 by 300 (%x, %z : tensor<4x300xf32>, tensor<4x300xf32>) [point, point] -> (tensor<4x1xf32>, tensor<4x300xf32>) [row, point] {
  ^bb0(%a: tensor<4x300xf32>, %b: tensor<4x300xf32>):
    %m = tfm.reduce_max %a axis 1 : tensor<4x300xf32>
    %mb = tfm.broadcast %m : tensor<4x1xf32> to tensor<4x300xf32>
    %d = tfm.sub %a, %mb : tensor<4x300xf32>
    %e = tfm.exp %d : tensor<4x300xf32>
    %s = tfm.reduce_sum %e axis 1 : tensor<4x300xf32>
    %g = tfm.log %s : tensor<4x1xf32>
    %lse = tfm.add %m, %g : tensor<4x1xf32>
    %lb = tfm.broadcast %lse : tensor<4x1xf32> to tensor<4x300xf32>
    %t = tfm.sub %b, %lb : tensor<4x300xf32>
    %p = tfm.exp %t : tensor<4x300xf32>
    sched.yield %lse, %p : tensor<4x1xf32>, tensor<4x300xf32>
  }
  return %l, %y : tensor<4x1xf32>, tensor<4x300xf32>
}

// -----

// Of another row each: what is taken from an element is its column's sum.
// CHECK-LABEL: func.func @along_columns
// CHECK: tfm.exp
// CHECK: tfm.exp
// CHECK-NOT: tfm.div
func.func @along_columns(%x: tensor<300x300xf32>) -> (tensor<300x1xf32>, tensor<300x300xf32>) {
  %l, %y = sched.kernel row 300 by 300 (%x : tensor<300x300xf32>) [point] -> (tensor<300x1xf32>, tensor<300x300xf32>) [row, point] {
  ^bb0(%a: tensor<300x300xf32>):
    %m = tfm.reduce_max %a axis 1 : tensor<300x300xf32>
    %mb = tfm.broadcast %m : tensor<300x1xf32> to tensor<300x300xf32>
    %d = tfm.sub %a, %mb : tensor<300x300xf32>
    %e = tfm.exp %d : tensor<300x300xf32>
    %s = tfm.reduce_sum %e axis 1 : tensor<300x300xf32>
    %g = tfm.log %s : tensor<300x1xf32>
    %lse = tfm.add %m, %g : tensor<300x1xf32>
    %row = tfm.reshape %lse : tensor<300x1xf32> to tensor<1x300xf32>
    %lb = tfm.broadcast %row : tensor<1x300xf32> to tensor<300x300xf32>
    %t = tfm.sub %a, %lb : tensor<300x300xf32>
    %p = tfm.exp %t : tensor<300x300xf32>
    sched.yield %lse, %p : tensor<300x1xf32>, tensor<300x300xf32>
  }
  return %l, %y : tensor<300x1xf32>, tensor<300x300xf32>
}

// -----

// Where the sum is of exponentials less another number than the logarithm is
// added to.
// CHECK-LABEL: func.func @less_another_number
// CHECK: tfm.exp
// CHECK: tfm.exp
// CHECK-NOT: tfm.div
func.func @less_another_number(%x: tensor<4x300xf32>, %z: tensor<4x1xf32>) -> (tensor<4x1xf32>, tensor<4x300xf32>) {
  %l, %y = sched.kernel row 4 by 300 (%x, %z : tensor<4x300xf32>, tensor<4x1xf32>) [point, row] -> (tensor<4x1xf32>, tensor<4x300xf32>) [row, point] {
  ^bb0(%a: tensor<4x300xf32>, %o: tensor<4x1xf32>):
    %m = tfm.reduce_max %a axis 1 : tensor<4x300xf32>
    %mb = tfm.broadcast %m : tensor<4x1xf32> to tensor<4x300xf32>
    %d = tfm.sub %a, %mb : tensor<4x300xf32>
    %e = tfm.exp %d : tensor<4x300xf32>
    %s = tfm.reduce_sum %e axis 1 : tensor<4x300xf32>
    %g = tfm.log %s : tensor<4x1xf32>
    %lse = tfm.add %o, %g : tensor<4x1xf32>
    %lb = tfm.broadcast %lse : tensor<4x1xf32> to tensor<4x300xf32>
    %t = tfm.sub %a, %lb : tensor<4x300xf32>
    %p = tfm.exp %t : tensor<4x300xf32>
    sched.yield %lse, %p : tensor<4x1xf32>, tensor<4x300xf32>
  }
  return %l, %y : tensor<4x1xf32>, tensor<4x300xf32>
}

// -----

// Of a square the sums of columns are as many as rows, and none of theirs.
// CHECK-LABEL: func.func @sums_of_columns
// CHECK: tfm.exp
// CHECK: tfm.exp
// CHECK-NOT: tfm.div
func.func @sums_of_columns(%x: tensor<8x8xf32>, %m: tensor<8x1xf32>) -> (tensor<8x1xf32>, tensor<8x8xf32>) {
  %l, %y = sched.kernel row 8 by 8 (%x, %m : tensor<8x8xf32>, tensor<8x1xf32>) [point, row] -> (tensor<8x1xf32>, tensor<8x8xf32>) [row, point] {
  ^bb0(%a: tensor<8x8xf32>, %o: tensor<8x1xf32>):
    %mb = tfm.broadcast %o : tensor<8x1xf32> to tensor<8x8xf32>
    %d = tfm.sub %a, %mb : tensor<8x8xf32>
    %e = tfm.exp %d : tensor<8x8xf32>
    %s = tfm.reduce_sum %e axis 0 : tensor<8x8xf32>
    %r = tfm.reshape %s : tensor<1x8xf32> to tensor<8x1xf32>
    %g = tfm.log %r : tensor<8x1xf32>
    %lse = tfm.add %o, %g : tensor<8x1xf32>
    %lb = tfm.broadcast %lse : tensor<8x1xf32> to tensor<8x8xf32>
    %t = tfm.sub %a, %lb : tensor<8x8xf32>
    %p = tfm.exp %t : tensor<8x8xf32>
    sched.yield %lse, %p : tensor<8x1xf32>, tensor<8x8xf32>
  }
  return %l, %y : tensor<8x1xf32>, tensor<8x8xf32>
}
