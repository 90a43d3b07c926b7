// RUN: tfm-opt %s --sched-form-kernels --sched-split-sums --sched-place-values --split-input-file | FileCheck %s

// Where the values of loops go.

// A carried value is changed in place, by a kernel that reads it last and at
// the same points.
// CHECK-LABEL: sched.program @in_place
// CHECK: sched.copy
// CHECK: sched.loop 3 {
// CHECK: %[[IN:.*]] = sched.view %in_place.result at 0
// CHECK: %[[OUT:.*]] = sched.view %in_place.result at 0
// CHECK: sched.launch row 4 by 8 reads(%[[IN]] : {{.*}}) writes(%[[OUT]] :
// CHECK-NOT: sched.copy
func.func @in_place(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = tfm.repeat 3 carried(%x : tensor<4x8xf32>) stacked() shared() -> (tensor<4x8xf32>) {
  ^bb0(%layer: index, %h: tensor<4x8xf32>):
    %t = tfm.tanh %h : tensor<4x8xf32>
    tfm.yield %t : tensor<4x8xf32>
  }
  return %y : tensor<4x8xf32>
}

// -----

// A product reads its operand anywhere, so what it carries on is copied back.
// CHECK-LABEL: sched.program @not_in_place
// CHECK: sched.loop 3 {
// CHECK: sched.buffer activation "matmul
// CHECK: sched.launch matmul
// CHECK: sched.copy
func.func @not_in_place(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %y = tfm.repeat 3 carried(%x : tensor<4x8xf32>) stacked() shared(%w : tensor<8x8xf32>) -> (tensor<4x8xf32>) {
  ^bb0(%layer: index, %h: tensor<4x8xf32>, %v: tensor<8x8xf32>):
    %t = tfm.matmul %h, %v : tensor<4x8xf32>, tensor<8x8xf32>
    tfm.yield %t : tensor<4x8xf32>
  }
  return %y : tensor<4x8xf32>
}

// -----

// Carried values that are saved, too, lie in slots: layer i reads slot i and
// writes slot i + 1, and nothing is copied.
// CHECK-LABEL: sched.program @slots
// CHECK: %[[S:.*]] = sched.buffer activation "repeat{{.*}}" : memref<512xi8>
// CHECK: sched.loop 3 {
// CHECK: ^bb0(%[[I:.*]]: index):
// CHECK: sched.view %[[S]] at 0 layers(%[[I]]) by [128]
// CHECK: sched.view %[[S]] at 128 layers(%[[I]]) by [128]
// CHECK: sched.launch row 4 by 8
// CHECK-NOT: sched.copy
// CHECK: }
func.func @slots(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<3x4x8xf32>) {
  %i = tfm.exp %x : tensor<4x8xf32>
  %y, %s = tfm.repeat 3 carried(%i : tensor<4x8xf32>) stacked() shared() -> (tensor<4x8xf32>, tensor<3x4x8xf32>) {
  ^bb0(%layer: index, %h: tensor<4x8xf32>):
    %t = tfm.tanh %h : tensor<4x8xf32>
    tfm.yield %t, %h : tensor<4x8xf32>, tensor<4x8xf32>
  }
  return %y, %s : tensor<4x8xf32>, tensor<3x4x8xf32>
}

// -----

// A layer's weights are a view that the loop advances.
// CHECK-LABEL: sched.program @weights
// CHECK: sched.loop 3 reverse {
// CHECK: sched.view %weights.input{{.*}} at 0 layers(%{{.*}}) by [32] : memref<96xi8> to memref<4x8xf32, strided<[0, 1]>>
func.func @weights(%w: tensor<3x8xf32>, %x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = tfm.repeat 3 reverse carried(%x : tensor<4x8xf32>) stacked(%w : tensor<3x8xf32>) shared() -> (tensor<4x8xf32>) {
  ^bb0(%layer: index, %h: tensor<4x8xf32>, %v: tensor<8xf32>):
    %b = tfm.broadcast %v : tensor<8xf32> to tensor<4x8xf32>
    %t = tfm.mul %h, %b : tensor<4x8xf32>
    tfm.yield %t : tensor<4x8xf32>
  }
  return %y : tensor<4x8xf32>
}

// -----

// What a layer stacks is written in its slot of the result.
// CHECK-LABEL: sched.program @stacked
// CHECK: sched.loop 3 {
// CHECK: sched.view %stacked.result{{.*}} at 0 layers(%{{.*}}) by [128]
// CHECK-NOT: sched.copy
// CHECK: }
func.func @stacked(%x: tensor<4x8xf32>) -> (tensor<3x4x8xf32>) {
  %y, %s = tfm.repeat 3 carried(%x : tensor<4x8xf32>) stacked() shared() -> (tensor<4x8xf32>, tensor<3x4x8xf32>) {
  ^bb0(%layer: index, %h: tensor<4x8xf32>):
    %t = tfm.tanh %h : tensor<4x8xf32>
    %e = tfm.exp %h : tensor<4x8xf32>
    tfm.yield %t, %e : tensor<4x8xf32>, tensor<4x8xf32>
  }
  return %s : tensor<3x4x8xf32>
}

// -----

// Two carried values that change places go through a buffer of the loop.
// CHECK-LABEL: sched.program @swap
// CHECK: sched.loop 3 {
// CHECK: sched.buffer activation
// CHECK: sched.buffer activation
// CHECK-COUNT-4: sched.copy
func.func @swap(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %a, %b = tfm.repeat 3 carried(%x, %y : tensor<8xf32>, tensor<8xf32>) stacked() shared() -> (tensor<8xf32>, tensor<8xf32>) {
  ^bb0(%layer: index, %h: tensor<8xf32>, %g: tensor<8xf32>):
    tfm.yield %g, %h : tensor<8xf32>, tensor<8xf32>
  }
  return %a, %b : tensor<8xf32>, tensor<8xf32>
}

// -----

// Gradients accumulate in place, layer by layer.
// CHECK-LABEL: sched.program @train
// CHECK: sched.loop 2 {
// CHECK: sched.view %gradients at 0 layers(%{{.*}}) by [16]
// CHECK: sched.view %gradients at 0 layers(%{{.*}}) by [16]
// CHECK: sched.launch row
// CHECK-NOT: sched.copy
// CHECK: }
module {
  tfm.param @"h.*.w" : tensor<2x4xf32> {init = {kind = "zeros"}}
  func.func @train(%x: tensor<4xf32>, %g: tensor<2x4xf32> {tfm.gradient = @"h.*.w"}) -> (tensor<2x4xf32> {tfm.gradient = @"h.*.w"}) {
    %s = tfm.repeat 2 carried() stacked(%g : tensor<2x4xf32>) shared(%x : tensor<4xf32>) -> (tensor<2x4xf32>) {
    ^bb0(%layer: index, %sum: tensor<4xf32>, %h: tensor<4xf32>):
      %d = tfm.exp %h : tensor<4xf32>
      %n = tfm.add %sum, %d : tensor<4xf32>
      tfm.yield %n : tensor<4xf32>
    }
    return %s : tensor<2x4xf32>
  }
}

// -----

// A value of one turn lives in the loop.
// CHECK-LABEL: sched.program @temporary
// CHECK: sched.loop 3 {
// CHECK-NEXT: ^bb0
// CHECK-NEXT: sched.buffer activation "exp
func.func @temporary(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %y = tfm.repeat 3 carried(%x : tensor<4x8xf32>) stacked() shared(%w : tensor<8x8xf32>) -> (tensor<4x8xf32>) {
  ^bb0(%layer: index, %h: tensor<4x8xf32>, %v: tensor<8x8xf32>):
    %e = tfm.exp %h : tensor<4x8xf32>
    %t = tfm.matmul %e, %v : tensor<4x8xf32>, tensor<8x8xf32>
    tfm.yield %t : tensor<4x8xf32>
  }
  return %y : tensor<4x8xf32>
}

// -----

// Which layer's slices a turn reads is a number that is read at run time; the
// last use of those numbers is that of the weights.
// CHECK-LABEL: sched.program @order
// CHECK: %[[W:order.*]] = sched.buffer activation "order.w"
// CHECK: %[[O:order.*]] = sched.buffer activation "order.o"
// CHECK: sched.loop 3 {
// CHECK: ^bb0(%[[I:.*]]: index):
// CHECK: %[[N:.*]] = sched.view %[[O]] at 0 layers(%[[I]]) by [4]
// CHECK: sched.view %[[W]] at 0 row(%[[N]] : {{.*}}) by 32 : memref<160xi8> to memref<8xf32
func.func @order(%x: tensor<8xf32>, %w: tensor<5x8xf32> {tfm.name = "w"}, %o: tensor<3xi32> {tfm.name = "o"}) -> tensor<8xf32> {
  %y = tfm.repeat 3 carried(%x : tensor<8xf32>) stacked(%w : tensor<5x8xf32>) shared()
      order(%o : tensor<3xi32>) chosen 1 -> (tensor<8xf32>) {
  ^bb0(%layer: index, %h: tensor<8xf32>, %v: tensor<8xf32>):
    %z = tfm.mul %h, %v : tensor<8xf32>
    tfm.yield %z : tensor<8xf32>
  }
  return %y : tensor<8xf32>
}

// -----

// A product is added to the slice that its turn chose, where that is: no product is there by itself.
// CHECK-LABEL: sched.program @updated
// CHECK: %[[SUMS:.*]] = sched.view %{{.*}} at 0 : memref<640xi8> to memref<5x8x4xf32
// CHECK: sched.fill 0.000000e+00 : f32, %[[SUMS]]
// CHECK: sched.loop 3 {
// CHECK-NOT: sched.buffer
// CHECK: %[[SLICE:.*]] = sched.view %[[OUT:.*]] at 0 row(%{{.*}} : {{.*}}) by 128
// CHECK: %[[SUM:.*]] = sched.view %[[OUT]] at 0 row(%{{.*}} : {{.*}}) by 128
// CHECK: sched.launch matmul 8 by 4 reads({{.*}}, %[[SLICE]] : {{.*}}) writes(%[[SUM]] :
// CHECK-NOT: sched.copy
func.func @updated(%x: tensor<3x6x8xf32>, %c: tensor<3x6x4xf32>, %o: tensor<3xi32>) -> tensor<5x8x4xf32> {
  %zeros = tfm.constant dense<0.0> : tensor<5x8x4xf32>
  %y = tfm.repeat 3 carried() stacked(%x, %c, %zeros : tensor<3x6x8xf32>, tensor<3x6x4xf32>, tensor<5x8x4xf32>) shared()
      order(%o : tensor<3xi32>) chosen 1 updated 1 -> (tensor<5x8x4xf32>) {
  ^bb0(%turn: index, %a: tensor<6x8xf32>, %b: tensor<6x4xf32>, %sum: tensor<8x4xf32>):
    %p = tfm.matmul %a, %b transpose_a : tensor<6x8xf32>, tensor<6x4xf32>
    %next = tfm.add %sum, %p : tensor<8x4xf32>
    tfm.yield %next : tensor<8x4xf32>
  }
  return %y : tensor<5x8x4xf32>
}

// -----

// Who reads a carried value in a later pass than the next one is written in
// would read that: it goes through a buffer.
// CHECK-LABEL: sched.program @read_in_a_later_pass
// CHECK: sched.loop 3 {
// CHECK: sched.buffer activation "exp
// CHECK: sched.launch row 4 by 8
// CHECK: sched.copy
func.func @read_in_a_later_pass(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<3x4x8xf32>) {
  %y, %all = tfm.repeat 3 carried(%x : tensor<4x8xf32>) stacked() shared() -> (tensor<4x8xf32>, tensor<3x4x8xf32>) {
  ^bb0(%layer: index, %h: tensor<4x8xf32>):
    %n = tfm.exp %h : tensor<4x8xf32>
    %s = tfm.reduce_sum %h axis 1 : tensor<4x8xf32>
    %b = tfm.broadcast %s : tensor<4x1xf32> to tensor<4x8xf32>
    %d = tfm.sub %h, %b : tensor<4x8xf32>
    tfm.yield %n, %d : tensor<4x8xf32>, tensor<4x8xf32>
  }
  return %y, %all : tensor<4x8xf32>, tensor<3x4x8xf32>
}

// -----

// Rows are not scattered onto what they are read from.
// CHECK-LABEL: sched.program @scattered_onto_itself
// CHECK: sched.loop 3 {
// CHECK: sched.buffer activation "scatter_add
// CHECK: sched.copy
// CHECK: sched.launch scatter_add
// CHECK: sched.copy
func.func @scattered_onto_itself(%x: tensor<4x8xf32>, %ids: tensor<2xi32>) -> tensor<4x8xf32> {
  %y = tfm.repeat 3 carried(%x : tensor<4x8xf32>) stacked() shared(%ids : tensor<2xi32>) -> (tensor<4x8xf32>) {
  ^bb0(%layer: index, %h: tensor<4x8xf32>, %i: tensor<2xi32>):
    %u = tfm.slice %h axis 0 start 1 size 2 : tensor<4x8xf32>
    %n = tfm.scatter_add %h, %i, %u : tensor<4x8xf32>, tensor<2xi32>, tensor<2x8xf32>
    tfm.yield %n : tensor<4x8xf32>
  }
  return %y : tensor<4x8xf32>
}

// -----

// What a loop begins with and somebody reads behind it is copied: the loop
// changes what it carries.
// CHECK-LABEL: sched.program @read_behind_the_loop
// CHECK: sched.buffer activation "exp
// CHECK: sched.launch row 4 by 8
// CHECK: sched.copy
// CHECK: sched.loop 3 {
func.func @read_behind_the_loop(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %e = tfm.exp %x : tensor<4x8xf32>
  %y = tfm.repeat 3 carried(%e : tensor<4x8xf32>) stacked() shared() -> (tensor<4x8xf32>) {
  ^bb0(%layer: index, %h: tensor<4x8xf32>):
    %n = tfm.sin %h : tensor<4x8xf32>
    tfm.yield %n : tensor<4x8xf32>
  }
  %z = tfm.matmul %e, %w : tensor<4x8xf32>, tensor<8x8xf32>
  return %y, %z : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// What layers read reshaped is not carried in a slice that strides could not
// reshape.
// CHECK-LABEL: sched.program @reshaped_in_layers
// CHECK: sched.loop 3 {
// CHECK: sched.launch matmul 1 by 32
// CHECK: }
// CHECK: sched.copy {{.*}} to memref<4x8xf32, strided<[16, 1]>>
func.func @reshaped_in_layers(%x: tensor<4x8xf32>, %w: tensor<32x32xf32>) -> tensor<4x16xf32> {
  %y = tfm.repeat 3 carried(%x : tensor<4x8xf32>) stacked() shared(%w : tensor<32x32xf32>) -> (tensor<4x8xf32>) {
  ^bb0(%layer: index, %h: tensor<4x8xf32>, %v: tensor<32x32xf32>):
    %r = tfm.reshape %h : tensor<4x8xf32> to tensor<1x32xf32>
    %m = tfm.matmul %r, %v : tensor<1x32xf32>, tensor<32x32xf32>
    %n = tfm.reshape %m : tensor<1x32xf32> to tensor<4x8xf32>
    tfm.yield %n : tensor<4x8xf32>
  }
  %z = tfm.concat %y, %x axis 1 : tensor<4x8xf32>, tensor<4x8xf32>
  return %z : tensor<4x16xf32>
}

// -----

// A gradient that something reads behind what is added to it is added to in a
// buffer.
// CHECK-LABEL: sched.program @train
// CHECK: sched.loop 2 {
// CHECK: sched.buffer activation "add
// CHECK: sched.launch matmul
// CHECK: sched.copy {{.*}} to memref<4x4xf32
// CHECK: }
module {
  tfm.param @"h.*.w" : tensor<2x4x4xf32> {init = {kind = "zeros"}}
  func.func @train(%x: tensor<4x4xf32>, %g: tensor<2x4x4xf32> {tfm.gradient = @"h.*.w"})
      -> (tensor<2x4x4xf32> {tfm.gradient = @"h.*.w"}, tensor<2x4x4xf32>) {
    %s, %p = tfm.repeat 2 carried() stacked(%g : tensor<2x4x4xf32>) shared(%x : tensor<4x4xf32>) -> (tensor<2x4x4xf32>, tensor<2x4x4xf32>) {
    ^bb0(%layer: index, %sum: tensor<4x4xf32>, %h: tensor<4x4xf32>):
      %n = tfm.add %sum, %h : tensor<4x4xf32>
      %m = tfm.matmul %sum, %h : tensor<4x4xf32>, tensor<4x4xf32>
      tfm.yield %n, %m : tensor<4x4xf32>, tensor<4x4xf32>
    }
    return %s, %p : tensor<2x4x4xf32>, tensor<2x4x4xf32>
  }
}

// -----

// Slices that a turn chose and that change places go through buffers of the loop,
// too.
// CHECK-LABEL: sched.program @swap_updated
// CHECK: sched.loop 3 {
// CHECK: sched.buffer activation
// CHECK: sched.buffer activation
// CHECK-COUNT-4: sched.copy
func.func @swap_updated(%x: tensor<5x8xf32>, %y: tensor<5x8xf32>, %o: tensor<3xi32>) -> (tensor<5x8xf32>, tensor<5x8xf32>) {
  %a, %b = tfm.repeat 3 carried() stacked(%x, %y : tensor<5x8xf32>, tensor<5x8xf32>) shared()
      order(%o : tensor<3xi32>) chosen 2 updated 2 -> (tensor<5x8xf32>, tensor<5x8xf32>) {
  ^bb0(%turn: index, %h: tensor<8xf32>, %g: tensor<8xf32>):
    tfm.yield %g, %h : tensor<8xf32>, tensor<8xf32>
  }
  return %a, %b : tensor<5x8xf32>, tensor<5x8xf32>
}

// -----

// Nor do loops within layers add to what is read behind them.
// CHECK-LABEL: sched.program @train
// CHECK: sched.loop 2 {
// CHECK: sched.buffer activation "repeat
// CHECK: sched.loop 2 {
// CHECK: sched.launch row
// CHECK: }
// CHECK: sched.launch matmul
// CHECK: sched.copy {{.*}} to memref<2x4x4xf32
// CHECK: }
module {
  tfm.param @"h.*.g.*.w" : tensor<2x2x4x4xf32> {init = {kind = "zeros"}}
  func.func @train(%x: tensor<4x4xf32>, %g: tensor<2x2x4x4xf32> {tfm.gradient = @"h.*.g.*.w"})
      -> (tensor<2x2x4x4xf32> {tfm.gradient = @"h.*.g.*.w"}, tensor<2x2x4x4xf32>) {
    %s, %p = tfm.repeat 2 carried() stacked(%g : tensor<2x2x4x4xf32>) shared(%x : tensor<4x4xf32>) -> (tensor<2x2x4x4xf32>, tensor<2x2x4x4xf32>) {
    ^bb0(%layer: index, %sums: tensor<2x4x4xf32>, %h: tensor<4x4xf32>):
      %n = tfm.repeat 2 carried() stacked(%sums : tensor<2x4x4xf32>) shared(%h : tensor<4x4xf32>) -> (tensor<2x4x4xf32>) {
      ^bb0(%inner: index, %sum: tensor<4x4xf32>, %i: tensor<4x4xf32>):
        %a = tfm.add %sum, %i : tensor<4x4xf32>
        tfm.yield %a : tensor<4x4xf32>
      }
      %m = tfm.matmul %sums, %sums : tensor<2x4x4xf32>, tensor<2x4x4xf32>
      tfm.yield %n, %m : tensor<2x4x4xf32>, tensor<2x4x4xf32>
    }
    return %s, %p : tensor<2x2x4x4xf32>, tensor<2x2x4x4xf32>
  }
}
