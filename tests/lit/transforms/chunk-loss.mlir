// RUN: tfm-opt %s -split-input-file -tfm-simplify -tfm-chunk-loss=trained=64 | FileCheck %s
// RUN: tfm-opt %s -split-input-file -tfm-simplify -tfm-chunk-loss=trained=200 | FileCheck %s --check-prefix=FEW

// From the product that gives logits to those that their derivative goes into,
// a soft cap included: a chunk has 64 of the 256 rows. The gradient of the
// table begins with what it is added to, and ids add to it behind the loop.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[X:.*]]: tensor<256x8xf32>, %[[T:.*]]: tensor<4x64xi32>, %[[D:.*]]: tensor<4x64xf32>, %[[G:.*]]: tensor<50x8xf32> {
// CHECK-DAG: %[[XS:.*]] = tfm.reshape %[[X]] : tensor<256x8xf32> to tensor<4x64x8xf32>
// CHECK-DAG: %[[W:.*]] = tfm.get_param @w
// CHECK: %[[R:.*]]:3 = tfm.repeat 4 carried(%[[G]] : tensor<50x8xf32>) stacked(%[[XS]], %[[T]], %[[D]] : {{.*}}) shared(%[[W]] : tensor<50x8xf32>)
// CHECK: ^bb0(%{{.*}}: index, %[[SUM:.*]]: tensor<50x8xf32>, %[[X1:.*]]: tensor<64x8xf32>, %[[T1:.*]]: tensor<64xi32>, %[[D1:.*]]: tensor<64xf32>, %[[W1:.*]]: tensor<50x8xf32>):
// CHECK: %[[L:.*]] = tfm.matmul %[[X1]], %[[W1]] transpose_b : tensor<64x8xf32>
// CHECK: %[[C:.*]] = tfm.tanh %[[L]] : tensor<64x50xf32>
// CHECK: tfm.cross_entropy %[[C]], %[[T1]] {ignore = 3 : i64} : tensor<64x50xf32>, tensor<64xi32>
// CHECK: %[[DL:.*]] = tfm.cross_entropy_backward %[[C]], %[[T1]], %{{.*}}, %[[D1]]
// CHECK: %[[P:.*]] = tfm.matmul %[[DL]], %[[X1]] transpose_a
// CHECK: %[[NEXT:.*]] = tfm.add %[[SUM]], %[[P]] : tensor<50x8xf32>
// CHECK: tfm.yield %[[NEXT]], %{{.*}}, %{{.*}} : tensor<50x8xf32>, tensor<64xf32>, tensor<64x8xf32>
// CHECK: tfm.reshape %[[R]]#2 : tensor<4x64x8xf32> to tensor<256x8xf32>
// CHECK: %[[ALL:.*]] = tfm.scatter_add %[[R]]#0,
// CHECK: return %[[R]]#1, %{{.*}}, %[[ALL]]

// Fewer rows than two chunks have.
// FEW-NOT: tfm.repeat
module {
  tfm.param @w : tensor<50x8xf32> {init = {kind = "zeros"}}
  func.func @train(%x: tensor<256x8xf32>, %targets: tensor<4x64xi32>, %dlosses: tensor<4x64xf32>, %before: tensor<50x8xf32> {tfm.gradient = @w})
      -> (tensor<4x64xf32>, tensor<256x8xf32>, tensor<50x8xf32> {tfm.gradient = @w}) {
    %w = tfm.get_param @w : tensor<50x8xf32>
    %zero = tfm.constant dense<0.0> : tensor<50x8xf32>
    %l = tfm.matmul %x, %w transpose_b : tensor<256x8xf32>, tensor<50x8xf32>
    %lr = tfm.reshape %l : tensor<256x50xf32> to tensor<4x64x50xf32>
    %c = tfm.tanh %lr : tensor<4x64x50xf32>
    %losses, %lse = tfm.cross_entropy %c, %targets {ignore = 3 : i64} : tensor<4x64x50xf32>, tensor<4x64xi32>
    %d = tfm.cross_entropy_backward %c, %targets, %lse, %dlosses {ignore = 3 : i64} : tensor<4x64x50xf32>, tensor<4x64xi32>, tensor<4x64xf32>
    %dr = tfm.reshape %d : tensor<4x64x50xf32> to tensor<256x50xf32>
    %dx = tfm.matmul %dr, %w : tensor<256x50xf32>, tensor<50x8xf32>
    %dw = tfm.matmul %dr, %x transpose_a : tensor<256x50xf32>, tensor<256x8xf32>
    %ids = tfm.reshape %targets : tensor<4x64xi32> to tensor<256xi32>
    %s = tfm.scatter_add %dw, %ids, %dx : tensor<50x8xf32>, tensor<256xi32>, tensor<256x8xf32>
    %sum = tfm.add %before, %s : tensor<50x8xf32>
    return %losses, %dx, %sum : tensor<4x64xf32>, tensor<256x8xf32>, tensor<50x8xf32>
  }
}

// -----

// A head with a bias: its gradient is carried, too.
// CHECK-LABEL: func.func @train
// CHECK: tfm.repeat 4 carried({{.*}} : tensor<50x8xf32>, tensor<1x50xf32>) stacked({{.*}}) shared(%{{.*}}, %{{.*}} : tensor<50x8xf32>, tensor<50xf32>)
// CHECK: %[[B:.*]] = tfm.broadcast %{{.*}} : tensor<50xf32> to tensor<64x50xf32>
// CHECK: tfm.add %{{.*}}, %[[B]] : tensor<64x50xf32>
// CHECK: tfm.reduce_sum %{{.*}} axis 0 : tensor<64x50xf32>
module {
  func.func @train(%x: tensor<256x8xf32>, %w: tensor<50x8xf32>, %b: tensor<50xf32>, %targets: tensor<256xi32>, %dlosses: tensor<256xf32>)
      -> (tensor<256x8xf32>, tensor<50x8xf32>, tensor<1x50xf32>) {
    %l = tfm.matmul %x, %w transpose_b : tensor<256x8xf32>, tensor<50x8xf32>
    %bb = tfm.broadcast %b : tensor<50xf32> to tensor<256x50xf32>
    %z = tfm.add %l, %bb : tensor<256x50xf32>
    %losses, %lse = tfm.cross_entropy %z, %targets : tensor<256x50xf32>, tensor<256xi32>
    %d = tfm.cross_entropy_backward %z, %targets, %lse, %dlosses : tensor<256x50xf32>, tensor<256xi32>, tensor<256xf32>
    %dx = tfm.matmul %d, %w : tensor<256x50xf32>, tensor<50x8xf32>
    %dw = tfm.matmul %d, %x transpose_a : tensor<256x50xf32>, tensor<256x8xf32>
    %db = tfm.reduce_sum %d axis 0 : tensor<256x50xf32>
    return %dx, %dw, %db : tensor<256x8xf32>, tensor<50x8xf32>, tensor<1x50xf32>
  }
}

// -----

// Where something else reads logits all of them are there at once.
// CHECK-LABEL: func.func @train
// CHECK-NOT: tfm.repeat
module {
  func.func @train(%x: tensor<256x8xf32>, %w: tensor<50x8xf32>, %targets: tensor<256xi32>, %dlosses: tensor<256xf32>) -> (tensor<256x50xf32>, tensor<256x8xf32>) {
    %l = tfm.matmul %x, %w transpose_b : tensor<256x8xf32>, tensor<50x8xf32>
    %losses, %lse = tfm.cross_entropy %l, %targets : tensor<256x50xf32>, tensor<256xi32>
    %d = tfm.cross_entropy_backward %l, %targets, %lse, %dlosses : tensor<256x50xf32>, tensor<256xi32>, tensor<256xf32>
    %dx = tfm.matmul %d, %w : tensor<256x50xf32>, tensor<50x8xf32>
    return %l, %dx : tensor<256x50xf32>, tensor<256x8xf32>
  }
}

// -----

// Nor where the derivative depends on the losses of all rows.
// CHECK-LABEL: func.func @train
// CHECK-NOT: tfm.repeat
module {
  func.func @train(%x: tensor<256x8xf32>, %w: tensor<50x8xf32>, %targets: tensor<256xi32>) -> tensor<256x8xf32> {
    %l = tfm.matmul %x, %w transpose_b : tensor<256x8xf32>, tensor<50x8xf32>
    %losses, %lse = tfm.cross_entropy %l, %targets : tensor<256x50xf32>, tensor<256xi32>
    %sum = tfm.reduce_sum %losses axis 0 : tensor<256xf32>
    %all = tfm.broadcast %sum : tensor<1xf32> to tensor<256xf32>
    %d = tfm.cross_entropy_backward %l, %targets, %lse, %all : tensor<256x50xf32>, tensor<256xi32>, tensor<256xf32>
    %dx = tfm.matmul %d, %w : tensor<256x50xf32>, tensor<50x8xf32>
    return %dx : tensor<256x8xf32>
  }
}

// -----

// Nor where rows meet each other: all of them are wanted for each.
// CHECK-LABEL: func.func @train
// CHECK-NOT: tfm.repeat
module {
  func.func @train(%x: tensor<256x8xf32>, %targets: tensor<256xi32>, %dlosses: tensor<256xf32>) -> tensor<256x8xf32> {
    %l = tfm.matmul %x, %x transpose_b : tensor<256x8xf32>, tensor<256x8xf32>
    %losses, %lse = tfm.cross_entropy %l, %targets : tensor<256x256xf32>, tensor<256xi32>
    %d = tfm.cross_entropy_backward %l, %targets, %lse, %dlosses : tensor<256x256xf32>, tensor<256xi32>, tensor<256xf32>
    %dx = tfm.matmul %d, %x : tensor<256x256xf32>, tensor<256x8xf32>
    return %dx : tensor<256x8xf32>
  }
}

// -----

// Rows of one number.
// CHECK-LABEL: func.func @train
// CHECK: tfm.repeat 4 carried() stacked(%{{.*}} : tensor<4x64x1xf32>, tensor<4x64xi32>, tensor<4x64xf32>)
// CHECK: tfm.yield %{{.*}} : tensor<64x1xf32>
module {
  func.func @train(%x: tensor<256x1xf32>, %w: tensor<50x1xf32>, %targets: tensor<256x1xi32>, %dlosses: tensor<256x1xf32>) -> tensor<256x1xf32> {
    %l = tfm.matmul %x, %w transpose_b : tensor<256x1xf32>, tensor<50x1xf32>
    %lr = tfm.reshape %l : tensor<256x50xf32> to tensor<256x1x50xf32>
    %losses, %lse = tfm.cross_entropy %lr, %targets : tensor<256x1x50xf32>, tensor<256x1xi32>
    %d = tfm.cross_entropy_backward %lr, %targets, %lse, %dlosses : tensor<256x1x50xf32>, tensor<256x1xi32>, tensor<256x1xf32>
    %dr = tfm.reshape %d : tensor<256x1x50xf32> to tensor<256x50xf32>
    %dx = tfm.matmul %dr, %w : tensor<256x50xf32>, tensor<50x1xf32>
    return %dx : tensor<256x1xf32>
  }
}

// -----

// All logits are there at once where those of a row are added up, ...
// CHECK-LABEL: func.func @train
// CHECK-NOT: tfm.repeat
module {
  func.func @train(%x: tensor<256x8xf32>, %w: tensor<50x8xf32>, %targets: tensor<256xi32>, %dlosses: tensor<256xf32>) -> (tensor<256x1xf32>, tensor<256x8xf32>) {
    %l = tfm.matmul %x, %w transpose_b : tensor<256x8xf32>, tensor<50x8xf32>
    %s = tfm.reduce_sum %l axis 1 : tensor<256x50xf32>
    %losses, %lse = tfm.cross_entropy %l, %targets : tensor<256x50xf32>, tensor<256xi32>
    %d = tfm.cross_entropy_backward %l, %targets, %lse, %dlosses : tensor<256x50xf32>, tensor<256xi32>, tensor<256xf32>
    %dx = tfm.matmul %d, %w : tensor<256x50xf32>, tensor<50x8xf32>
    return %s, %dx : tensor<256x1xf32>, tensor<256x8xf32>
  }
}

// -----

// ... where each row has a number of its own for all of its logits, ...
// CHECK-LABEL: func.func @train
// CHECK-NOT: tfm.repeat
module {
  func.func @train(%x: tensor<256x8xf32>, %w: tensor<50x8xf32>, %b: tensor<256x1xf32>, %targets: tensor<256xi32>, %dlosses: tensor<256xf32>) -> tensor<256x8xf32> {
    %l = tfm.matmul %x, %w transpose_b : tensor<256x8xf32>, tensor<50x8xf32>
    %bb = tfm.broadcast %b : tensor<256x1xf32> to tensor<256x50xf32>
    %z = tfm.add %l, %bb : tensor<256x50xf32>
    %losses, %lse = tfm.cross_entropy %z, %targets : tensor<256x50xf32>, tensor<256xi32>
    %d = tfm.cross_entropy_backward %z, %targets, %lse, %dlosses : tensor<256x50xf32>, tensor<256xi32>, tensor<256xf32>
    %dx = tfm.matmul %d, %w : tensor<256x50xf32>, tensor<50x8xf32>
    return %dx : tensor<256x8xf32>
  }
}

// -----

// ... or where the derivative is that of another loss.
// CHECK-LABEL: func.func @train
// CHECK-NOT: tfm.repeat
module {
  func.func @train(%x: tensor<256x8xf32>, %w: tensor<50x8xf32>, %lse: tensor<256xf32>, %targets: tensor<256xi32>, %dlosses: tensor<256xf32>) -> tensor<256x8xf32> {
    %l = tfm.matmul %x, %w transpose_b : tensor<256x8xf32>, tensor<50x8xf32>
    %d = tfm.cross_entropy_backward %l, %targets, %lse, %dlosses : tensor<256x50xf32>, tensor<256xi32>, tensor<256xf32>
    %dx = tfm.matmul %d, %w : tensor<256x50xf32>, tensor<50x8xf32>
    return %dx : tensor<256x8xf32>
  }
}

// -----

// Chunks are of whole tiles: two of 100 rows are none.
// CHECK-LABEL: func.func @train
// CHECK-NOT: tfm.repeat
module {
  func.func @train(%x: tensor<200x8xf32>, %w: tensor<50x8xf32>, %targets: tensor<200xi32>, %dlosses: tensor<200xf32>) -> tensor<200x8xf32> {
    %l = tfm.matmul %x, %w transpose_b : tensor<200x8xf32>, tensor<50x8xf32>
    %losses, %lse = tfm.cross_entropy %l, %targets : tensor<200x50xf32>, tensor<200xi32>
    %d = tfm.cross_entropy_backward %l, %targets, %lse, %dlosses : tensor<200x50xf32>, tensor<200xi32>, tensor<200xf32>
    %dx = tfm.matmul %d, %w : tensor<200x50xf32>, tensor<50x8xf32>
    return %dx : tensor<200x8xf32>
  }
}

// -----

// A sum begins with a gradient that is there already, and not with what is
// made of the losses themselves.
// CHECK-LABEL: func.func @train
// CHECK: %[[R:.*]]:2 = tfm.repeat 4
// CHECK: %[[S:.*]] = tfm.reduce_sum %{{.*}} axis 0 : tensor<256xf32>
// CHECK: %[[B:.*]] = tfm.broadcast %[[S]]
// CHECK: tfm.add %[[R]]#0, %[[B]]
module {
  func.func @train(%x: tensor<256x8xf32>, %w: tensor<50x8xf32>, %targets: tensor<256xi32>, %dlosses: tensor<256xf32>) -> tensor<50x8xf32> {
    %l = tfm.matmul %x, %w transpose_b : tensor<256x8xf32>, tensor<50x8xf32>
    %losses, %lse = tfm.cross_entropy %l, %targets : tensor<256x50xf32>, tensor<256xi32>
    %d = tfm.cross_entropy_backward %l, %targets, %lse, %dlosses : tensor<256x50xf32>, tensor<256xi32>, tensor<256xf32>
    %dw = tfm.matmul %d, %x transpose_a : tensor<256x50xf32>, tensor<256x8xf32>
    %s = tfm.reduce_sum %losses axis 0 : tensor<256xf32>
    %b = tfm.broadcast %s : tensor<1xf32> to tensor<50x8xf32>
    %y = tfm.add %dw, %b : tensor<50x8xf32>
    return %y : tensor<50x8xf32>
  }
}
