// RUN: tfm-opt %s --sched-form-kernels --sched-split-sums --sched-place-values --split-input-file | FileCheck %s

// Where a kernel writes over what it reads.

// Nobody reads the product any more: the weights take its place.
// CHECK-LABEL: sched.program @over
// CHECK: %[[A:.*]] = sched.buffer activation "matmul.0" : memref<208xi8>
// CHECK-NOT: sched.buffer
// CHECK: sched.launch matmul 4 by 13
// CHECK: %[[READ:.*]] = sched.view %[[A]] at 0
// CHECK: %[[WRITTEN:.*]] = sched.view %[[A]] at 0
// CHECK: sched.launch row 4 by 13 reads(%[[READ]] : {{.*}}) writes(%[[WRITTEN]] :
func.func @over(%x: tensor<4x8xf32>, %w: tensor<8x13xf32>, %v: tensor<13x8xf32>) -> tensor<4x8xf32> {
  %a = tfm.matmul %x, %w : tensor<4x8xf32>, tensor<8x13xf32>
  %m = tfm.reduce_max %a axis 1 : tensor<4x13xf32>
  %b = tfm.broadcast %m : tensor<4x1xf32> to tensor<4x13xf32>
  %d = tfm.sub %a, %b : tensor<4x13xf32>
  %e = tfm.exp %d : tensor<4x13xf32>
  %y = tfm.matmul %e, %v : tensor<4x13xf32>, tensor<13x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// Here somebody does.
// CHECK-LABEL: sched.program @read_later
// CHECK: sched.buffer activation "matmul.0" : memref<208xi8>
// CHECK: sched.buffer activation "exp.1" : memref<208xi8>
func.func @read_later(%x: tensor<4x8xf32>, %w: tensor<8x13xf32>, %v: tensor<13x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %a = tfm.matmul %x, %w : tensor<4x8xf32>, tensor<8x13xf32>
  %m = tfm.reduce_max %a axis 1 : tensor<4x13xf32>
  %b = tfm.broadcast %m : tensor<4x1xf32> to tensor<4x13xf32>
  %d = tfm.sub %a, %b : tensor<4x13xf32>
  %e = tfm.exp %d : tensor<4x13xf32>
  %y = tfm.matmul %e, %v : tensor<4x13xf32>, tensor<13x8xf32>
  %z = tfm.matmul %a, %v : tensor<4x13xf32>, tensor<13x8xf32>
  return %y, %z : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// Numbers of another size do not go there.
// CHECK-LABEL: sched.program @narrower
// CHECK: sched.buffer activation "matmul.0" : memref<208xi8>
// CHECK: sched.buffer activation "cast.1" : memref<104xi8>
func.func @narrower(%x: tensor<4x8xf32>, %w: tensor<8x13xf32>, %v: tensor<13x8xbf16>) -> tensor<4x8xf32> {
  %a = tfm.matmul %x, %w : tensor<4x8xf32>, tensor<8x13xf32>
  %m = tfm.reduce_max %a axis 1 : tensor<4x13xf32>
  %b = tfm.broadcast %m : tensor<4x1xf32> to tensor<4x13xf32>
  %d = tfm.sub %a, %b : tensor<4x13xf32>
  %e = tfm.cast %d : tensor<4x13xf32> to tensor<4x13xbf16>
  %y = tfm.matmul %e, %v : tensor<4x13xbf16>, tensor<13x8xbf16>
  return %y : tensor<4x8xf32>
}

// -----

// Of two results one takes the place, and the other has a buffer.
// CHECK-LABEL: sched.program @two
// CHECK: %[[A:.*]] = sched.buffer activation "matmul.0" : memref<208xi8>
// CHECK: %[[B:.*]] = sched.buffer activation "{{sin|cos}}.1" : memref<208xi8>
// CHECK-NOT: sched.buffer
// CHECK: sched.launch row 4 by 13
func.func @two(%x: tensor<4x8xf32>, %w: tensor<8x13xf32>, %v: tensor<13x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %a = tfm.matmul %x, %w : tensor<4x8xf32>, tensor<8x13xf32>
  %m = tfm.reduce_max %a axis 1 : tensor<4x13xf32>
  %b = tfm.broadcast %m : tensor<4x1xf32> to tensor<4x13xf32>
  %d = tfm.sub %a, %b : tensor<4x13xf32>
  %e = tfm.sin %d : tensor<4x13xf32>
  %f = tfm.cos %d : tensor<4x13xf32>
  %y = tfm.matmul %e, %v : tensor<4x13xf32>, tensor<13x8xf32>
  %z = tfm.matmul %f, %v : tensor<4x13xf32>, tensor<13x8xf32>
  return %y, %z : tensor<4x8xf32>, tensor<4x8xf32>
}
