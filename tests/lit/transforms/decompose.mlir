// RUN: tfm-opt %s --tfm-decompose --cse --canonicalize | FileCheck %s
// RUN: tfm-opt %s --tfm-decompose=scans=true | FileCheck %s --check-prefix=SCANS

// The maximum is made finite, and the sum at least 1, so that a row that is
// minus infinity throughout gives zeros.
// CHECK-LABEL: @softmax(
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>)
// CHECK-DAG: %[[LOWEST:.*]] = tfm.constant dense<-3.40282347E+38> : tensor<4x1xf32>
// CHECK-DAG: %[[ONE:.*]] = tfm.constant dense<1.000000e+00> : tensor<4x1xf32>
// CHECK: %[[M0:.*]] = tfm.reduce_max %[[X]] axis 1
// CHECK-NEXT: %[[M1:.*]] = tfm.max %[[M0]], %[[LOWEST]]
// CHECK-NEXT: %[[M:.*]] = tfm.broadcast %[[M1]]
// CHECK-NEXT: %[[D:.*]] = tfm.sub %[[X]], %[[M]]
// CHECK-NEXT: %[[E:.*]] = tfm.exp %[[D]]
// CHECK-NEXT: %[[S0:.*]] = tfm.reduce_sum %[[E]] axis 1
// CHECK-NEXT: %[[S1:.*]] = tfm.max %[[S0]], %[[ONE]]
// CHECK-NEXT: %[[S:.*]] = tfm.broadcast %[[S1]]
// CHECK-NEXT: %[[Y:.*]] = tfm.div %[[E]], %[[S]]
// CHECK-NEXT: return %[[Y]]
func.func @softmax(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = tfm.softmax %x : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// CHECK-LABEL: @log_softmax
// CHECK: tfm.reduce_max
// CHECK: tfm.exp
// CHECK: tfm.reduce_sum
// CHECK: tfm.log
// CHECK: tfm.sub
func.func @log_softmax(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = tfm.log_softmax %x : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// The variance is that of centred values, which loses nothing to cancellation.
// CHECK-LABEL: @normalize(
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>)
// CHECK-DAG: %[[EPS:.*]] = tfm.constant dense<9.99999974E-6>
// CHECK-DAG: %[[N:.*]] = tfm.constant dense<1.250000e-01>
// CHECK: %[[S:.*]] = tfm.reduce_sum %[[X]] axis 1
// CHECK-NEXT: %[[M0:.*]] = tfm.mul %[[S]], %[[N]]
// CHECK-NEXT: %[[M:.*]] = tfm.broadcast %[[M0]]
// CHECK-NEXT: %[[C:.*]] = tfm.sub %[[X]], %[[M]]
// CHECK-NEXT: %[[Q:.*]] = tfm.mul %[[C]], %[[C]]
// CHECK-NEXT: %[[T:.*]] = tfm.reduce_sum %[[Q]] axis 1
// CHECK-NEXT: %[[V:.*]] = tfm.mul %[[T]], %[[N]]
// CHECK-NEXT: %[[W:.*]] = tfm.add %[[V]], %[[EPS]]
// CHECK-NEXT: %[[R0:.*]] = tfm.rsqrt %[[W]]
// CHECK-NEXT: %[[R:.*]] = tfm.broadcast %[[R0]]
// CHECK-NEXT: %[[Y:.*]] = tfm.mul %[[C]], %[[R]]
// CHECK-NEXT: return %[[Y]]
func.func @normalize(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = tfm.normalize %x eps 1.0e-5 : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// CHECK-LABEL: @rms_normalize
// CHECK-NOT: tfm.sub
// CHECK: tfm.reduce_sum
// CHECK: tfm.rsqrt
func.func @rms_normalize(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = tfm.rms_normalize %x eps 1.0e-5 : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// The target's logit is picked by comparing classes, as a sum; ignored rows are
// zeroed in the loss and in its derivative.
// CHECK-LABEL: @cross_entropy(
// CHECK-SAME: %[[X:.*]]: tensor<4x50xf32>, %[[T:.*]]: tensor<4xi32>, %[[D:.*]]: tensor<4xf32>)
// CHECK: %[[LOG:.*]] = tfm.log
// CHECK: %[[CLASSES:.*]] = tfm.iota 1 : tensor<4x50xi32>
// CHECK: %[[HIT:.*]] = tfm.compare{{ *}} eq %[[CLASSES]]
// CHECK: %[[PICKED:.*]] = tfm.select %[[HIT]], %[[X]]
// CHECK: tfm.reduce_sum %[[PICKED]] axis 1
// CHECK: %[[COUNTS:.*]] = tfm.compare{{ *}} ne %[[T]]
// CHECK: tfm.select %[[COUNTS]]
// CHECK: %[[TARGET:.*]] = tfm.select %[[HIT]]
// CHECK: %[[KEPT:.*]] = tfm.select %[[COUNTS]], %[[D]]
// CHECK: tfm.sub %{{.*}}, %[[TARGET]]
// CHECK: tfm.mul
// CHECK: return
func.func @cross_entropy(%x: tensor<4x50xf32>, %t: tensor<4xi32>, %d: tensor<4xf32>)
    -> (tensor<4xf32>, tensor<4x50xf32>) {
  %l, %lse = tfm.cross_entropy %x, %t {ignore = 0 : i64} : tensor<4x50xf32>, tensor<4xi32>
  %g = tfm.cross_entropy_backward %x, %t, %lse, %d {ignore = 0 : i64}
    : tensor<4x50xf32>, tensor<4xi32>, tensor<4xf32>
  return %l, %g : tensor<4xf32>, tensor<4x50xf32>
}

// What has kernels of its own stays, and layers are reached into.
// CHECK-LABEL: @layers
// CHECK: tfm.repeat
// CHECK-NOT: tfm.softmax
// CHECK: tfm.matmul
func.func @layers(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %y = tfm.repeat 2 carried(%x : tensor<8x8xf32>) stacked() shared() -> (tensor<8x8xf32>) {
  ^bb0(%l: index, %h: tensor<8x8xf32>):
    %s = tfm.softmax %h : tensor<8x8xf32>
    %m = tfm.matmul %s, %h : tensor<8x8xf32>, tensor<8x8xf32>
    tfm.yield %m : tensor<8x8xf32>
  }
  return %y : tensor<8x8xf32>
}

// What stays, behind or before as many zeros; of less than that nothing stays.
// CHECK-LABEL: @shift(
// CHECK-SAME: %[[X:.*]]: tensor<2x5xf32>)
// CHECK: %[[NONE:.*]] = tfm.constant dense<0.0{{.*}}> : tensor<2x5xf32>
// CHECK: %[[A:.*]] = tfm.slice %[[X]] axis 1 start 0 size 3
// CHECK: %[[Y:.*]] = tfm.pad %[[A]] axis 1 low 2 high 0
// CHECK: %[[B:.*]] = tfm.slice %[[X]] axis 0 start 1 size 1
// CHECK: %[[Z:.*]] = tfm.pad %[[B]] axis 0 low 0 high 1
// CHECK: return %[[Y]], %[[Z]], %[[NONE]]
func.func @shift(%x: tensor<2x5xf32>) -> (tensor<2x5xf32>, tensor<2x5xf32>, tensor<2x5xf32>) {
  %y = tfm.shift %x axis 1 by 2 : tensor<2x5xf32>
  %z = tfm.shift %x axis 0 by -1 : tensor<2x5xf32>
  %none = tfm.shift %x axis 1 by 5 : tensor<2x5xf32>
  return %y, %z, %none : tensor<2x5xf32>, tensor<2x5xf32>, tensor<2x5xf32>
}

// Each step adds what was added up so far, twice as far away: after three of
// them eight elements are in the last sum.
// CHECK-LABEL: @cumsum(
// CHECK-SAME: %[[X:.*]]: tensor<2x5xf32>)
// CHECK: %[[A:.*]] = tfm.slice %[[X]] axis 1 start 0 size 4
// CHECK: %[[B:.*]] = tfm.slice %[[X]] axis 1 start 1 size 4
// CHECK: %[[AB:.*]] = tfm.add %[[A]], %[[B]]
// CHECK: %[[FIRST:.*]] = tfm.slice %[[X]] axis 1 start 0 size 1
// CHECK: %[[ONE:.*]] = tfm.concat %[[FIRST]], %[[AB]] axis 1
// CHECK: tfm.slice %[[ONE]] axis 1 start 2 size 3
// CHECK: %[[TWO:.*]] = tfm.concat
// CHECK: tfm.slice %[[TWO]] axis 1 start 4 size 1
// CHECK: %[[Y:.*]] = tfm.concat
// CHECK-NEXT: return %[[Y]]
func.func @cumsum(%x: tensor<2x5xf32>) -> tensor<2x5xf32> {
  %y = tfm.cumsum %x axis 1 : tensor<2x5xf32>
  return %y : tensor<2x5xf32>
}

// Where a kernel computes sums of rows, they go along the last axis; of a single
// element there is nothing to add up.
// SCANS-LABEL: @cumsum_middle(
// SCANS-SAME: %[[X:.*]]: tensor<2x1x5x3x4xf32>)
// SCANS-NEXT: %[[T:.*]] = tfm.transpose %[[X]] [0, 1, 3, 4, 2]
// SCANS-NEXT: %[[S:.*]] = tfm.cumsum %[[T]] axis 4 reverse : tensor<2x1x3x4x5xf32>
// SCANS-NEXT: %[[Y:.*]] = tfm.transpose %[[S]] [0, 1, 4, 2, 3]
// SCANS-NEXT: %[[L:.*]] = tfm.cumsum %[[Y]] axis 4 : tensor<2x1x5x3x4xf32>
// SCANS-NEXT: return %[[L]]
func.func @cumsum_middle(%x: tensor<2x1x5x3x4xf32>) -> tensor<2x1x5x3x4xf32> {
  %y = tfm.cumsum %x axis 2 reverse : tensor<2x1x5x3x4xf32>
  %z = tfm.cumsum %y axis 1 : tensor<2x1x5x3x4xf32>
  %l = tfm.cumsum %z axis 4 : tensor<2x1x5x3x4xf32>
  return %l : tensor<2x1x5x3x4xf32>
}

// CHECK-LABEL: @cumsum_reverse(
// CHECK-SAME: %[[X:.*]]: tensor<2xf32>)
// CHECK: %[[LAST:.*]] = tfm.slice %[[X]] axis 0 start 1 size 1
// CHECK: %[[SUM:.*]] = tfm.add %{{.*}}, %[[LAST]]
// CHECK: tfm.concat %[[SUM]], %[[LAST]] axis 0
func.func @cumsum_reverse(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = tfm.cumsum %x axis 0 reverse : tensor<2xf32>
  return %y : tensor<2xf32>
}

// What was added up before is multiplied by the decays of all elements since,
// of which each step has twice as many.
// CHECK-LABEL: @scan(
// CHECK-SAME: %[[D:.*]]: tensor<3xf32>, %[[X:.*]]: tensor<3xf32>)
// CHECK: %[[ONE:.*]] = tfm.slice %[[D]] axis 0 start 1 size 2
// CHECK: %[[FIRST:.*]] = tfm.slice %[[X]] axis 0 start 0 size 2
// CHECK: %[[LAST:.*]] = tfm.slice %[[X]] axis 0 start 1 size 2
// CHECK: %[[LONGER:.*]] = tfm.fma %[[ONE]], %[[FIRST]], %[[LAST]]
// CHECK: %[[SUMS:.*]] = tfm.concat %{{.*}}, %[[LONGER]] axis 0
// CHECK: %[[A:.*]] = tfm.slice %[[ONE]] axis 0 start 0 size 1
// CHECK: %[[B:.*]] = tfm.slice %[[ONE]] axis 0 start 1 size 1
// CHECK: %[[TWO:.*]] = tfm.mul %[[A]], %[[B]]
// CHECK: %[[S:.*]] = tfm.slice %[[SUMS]] axis 0 start 0 size 1
// CHECK: tfm.fma %[[TWO]], %[[S]], %{{.*}}
// CHECK: %[[Y:.*]] = tfm.concat
// CHECK-NEXT: return %[[Y]]
func.func @scan(%d: tensor<3xf32>, %x: tensor<3xf32>) -> tensor<3xf32> {
  %y = tfm.scan %d, %x axis 0 : tensor<3xf32>
  return %y : tensor<3xf32>
}

// In reverse what comes behind is multiplied, by its own decay. Where a kernel
// scans rows, decays go along the last axis, too.
// CHECK-LABEL: @scan_reverse(
// CHECK-SAME: %[[D:.*]]: tensor<2x3xf32>, %[[X:.*]]: tensor<2x3xf32>)
// CHECK-DAG: %[[ONE:.*]] = tfm.slice %[[D]] axis 0 start 1 size 1
// CHECK-DAG: %[[FIRST:.*]] = tfm.slice %[[X]] axis 0 start 0 size 1
// CHECK-DAG: %[[LAST:.*]] = tfm.slice %[[X]] axis 0 start 1 size 1
// CHECK: %[[LONGER:.*]] = tfm.fma %[[ONE]], %[[LAST]], %[[FIRST]]
// CHECK: tfm.concat %[[LONGER]], %[[LAST]] axis 0
// SCANS-LABEL: @scan_reverse(
// SCANS-SAME: %[[D:.*]]: tensor<2x3xf32>, %[[X:.*]]: tensor<2x3xf32>)
// SCANS-DAG: %[[XT:.*]] = tfm.transpose %[[X]] [1, 0]
// SCANS-DAG: %[[DT:.*]] = tfm.transpose %[[D]] [1, 0]
// SCANS: %[[S:.*]] = tfm.scan %[[DT]], %[[XT]] axis 1 reverse : tensor<3x2xf32>
// SCANS-NEXT: %[[Y:.*]] = tfm.transpose %[[S]] [1, 0]
// SCANS-NEXT: return %[[Y]]
func.func @scan_reverse(%d: tensor<2x3xf32>, %x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = tfm.scan %d, %x axis 0 reverse : tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// A scan and its derivative have products of their own, which nothing keeps for
// the other.
// CHECK-LABEL: @scan_both_ways(
// CHECK: tfm.mul {{.*}} : tensor<1xf32>
// CHECK: tfm.mul {{.*}} : tensor<2xf32>
// CHECK-NOT: tfm.mul
// CHECK: return
func.func @scan_both_ways(%d: tensor<3xf32>, %x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %y = tfm.scan %d, %x axis 0 : tensor<3xf32>
  %z = tfm.scan %d, %y axis 0 reverse : tensor<3xf32>
  return %y, %z : tensor<3xf32>, tensor<3xf32>
}

// Powers of a number are numbers.
// CHECK-LABEL: @scan_by_a_number(
// CHECK-DAG: tfm.constant dense<5.000000e-01> : tensor<4xf32>
// CHECK-DAG: tfm.constant dense<2.500000e-01> : tensor<3xf32>
// CHECK-DAG: tfm.constant dense<6.250000e-02> : tensor<1xf32>
// CHECK-NOT: tfm.mul
// CHECK: return
func.func @scan_by_a_number(%x: tensor<5xf32>) -> tensor<5xf32> {
  %d = tfm.constant dense<0.5> : tensor<5xf32>
  %y = tfm.scan %d, %x axis 0 : tensor<5xf32>
  return %y : tensor<5xf32>
}

// The largest, and the first place that has it; then the same of what comes
// after that in the order of values and places.
// CHECK-LABEL: @top_k(
// CHECK-SAME: %[[X:.*]]: tensor<2x5xf32>)
// CHECK: %[[I:.*]] = tfm.iota 1
// CHECK: %[[M0:.*]] = tfm.reduce_max %[[X]] axis 1
// CHECK: %[[B0:.*]] = tfm.broadcast %[[M0]]
// CHECK: tfm.compare eq %[[X]], %[[B0]]
// CHECK: %[[P0:.*]] = tfm.reduce_max
// CHECK: %[[I0:.*]] = tfm.cast %{{.*}} : tensor<2x1xf32> to tensor<2x1xi32>
// CHECK-DAG: tfm.compare gt %[[I]]
// CHECK-DAG: tfm.compare lt %[[X]], %[[B0]]
// CHECK: %[[M1:.*]] = tfm.reduce_max
// CHECK: %[[P1:.*]] = tfm.reduce_max
// CHECK: %[[I1:.*]] = tfm.cast
// CHECK: tfm.concat %[[M0]], %[[M1]] axis 1
// CHECK: tfm.concat %[[I0]], %[[I1]] axis 1
func.func @top_k(%x: tensor<2x5xf32>) -> (tensor<2x2xf32>, tensor<2x2xi32>) {
  %v, %i = tfm.top_k %x, 2 : tensor<2x5xf32>
  return %v, %i : tensor<2x2xf32>, tensor<2x2xi32>
}

// A rotation's angles have the type of what it turns.
// CHECK-LABEL: func.func @rope
// CHECK: tfm.constant dense<[1.000000e+00, 1.000000e-02]> : tensor<2xf64>
// CHECK-NOT: tfm.rope
func.func @rope(%x: tensor<1x1x2x4xf64>, %p: tensor<1x2xi32>) -> tensor<1x1x2x4xf64> {
  %y = tfm.rope %x, %p {base = 1.0e4 : f64, dims = 4 : i64} : tensor<1x1x2x4xf64>, tensor<1x2xi32>
  return %y : tensor<1x1x2x4xf64>
}
