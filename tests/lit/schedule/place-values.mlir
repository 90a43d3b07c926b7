// RUN: tfm-opt %s --sched-form-kernels --sched-split-sums --sched-place-values --split-input-file | FileCheck %s

// Where values go.

// Inputs and outputs have buffers of their own, named after the function.
// CHECK-LABEL: sched.program @f
// CHECK: %[[X:.*]] = sched.buffer activation "f.x" : memref<128xi8>
// CHECK: %[[Y:.*]] = sched.buffer activation "f.y" : memref<128xi8>
// CHECK: sched.input "x"
// CHECK: sched.launch row 4 by 8
// CHECK: sched.output "y"
func.func @f(%x: tensor<4x8xf32> {tfm.name = "x"}) -> (tensor<4x8xf32> {tfm.name = "y"}) {
  %a = tfm.exp %x : tensor<4x8xf32>
  return %a : tensor<4x8xf32>
}

// -----

// A result is written where it is wanted: nothing is copied to the output.
// CHECK-LABEL: sched.program @no_copy
// CHECK: %[[V:.*]] = sched.view %[[Y:no_copy.result.*]] at 0
// CHECK: sched.launch {{.*}} writes(%[[V]] :
// CHECK-NOT: sched.copy
func.func @no_copy(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %a = tfm.exp %x : tensor<4x8xf32>
  return %a : tensor<4x8xf32>
}

// -----

// What is an input, too, is copied to the output.
// CHECK-LABEL: sched.program @identity
// CHECK: sched.copy
// CHECK-NOT: sched.launch
func.func @identity(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  return %x : tensor<4x8xf32>
}

// -----

// An output of one number throughout is filled.
// CHECK-LABEL: sched.program @filled
// CHECK: sched.fill 0.000000e+00 : f32
func.func @filled() -> tensor<4x8xf32> {
  %z = tfm.constant dense<0.0> : tensor<4x8xf32>
  return %z : tensor<4x8xf32>
}

// -----

// A part of a concatenation is computed in its slice; what is there already
// is copied.
// CHECK-LABEL: sched.program @concat
// CHECK: %[[SLICE:.*]] = sched.view %concat.result at 0 : memref<256xi8> to memref<4x8xf32, strided<[16, 1]>>
// CHECK: sched.launch row 4 by 8 {{.*}} writes(%[[SLICE]] :
// CHECK: sched.view %concat.result at 32
// CHECK: sched.copy
func.func @concat(%x: tensor<4x8xf32>) -> tensor<4x16xf32> {
  %s = tfm.sin %x : tensor<4x8xf32>
  %c = tfm.concat %s, %x axis 1 : tensor<4x8xf32>, tensor<4x8xf32>
  return %c : tensor<4x16xf32>
}

// -----

// A value that is also read reshaped does not go into a slice that strides could
// not express the reshape of: it has a buffer and is copied.
// CHECK-LABEL: sched.program @concat_and_reshape
// CHECK: sched.buffer activation "sin.0" : memref<128xi8>
// CHECK: sched.launch row 4 by 8
// CHECK: sched.copy
// CHECK: sched.launch matmul 1 by 4
func.func @concat_and_reshape(%x: tensor<4x8xf32>, %w: tensor<32x4xf32>) -> (tensor<4x16xf32>, tensor<1x4xf32>) {
  %s = tfm.sin %x : tensor<4x8xf32>
  %c = tfm.concat %s, %x axis 1 : tensor<4x8xf32>, tensor<4x8xf32>
  %r = tfm.reshape %s : tensor<4x8xf32> to tensor<1x32xf32>
  %y = tfm.matmul %r, %w : tensor<1x32xf32>, tensor<32x4xf32>
  return %c, %y : tensor<4x16xf32>, tensor<1x4xf32>
}

// -----

// A transpose of the result is another way to write it.
// CHECK-LABEL: sched.program @transposed_result
// CHECK: sched.view %transposed_result.result at 0 : memref<128xi8> to memref<4x8xf32, strided<[1, 4]>>
// CHECK-NOT: sched.copy
func.func @transposed_result(%x: tensor<4x8xf32>) -> tensor<8x4xf32> {
  %a = tfm.exp %x : tensor<4x8xf32>
  %t = tfm.transpose %a [1, 0] : tensor<4x8xf32>
  return %t : tensor<8x4xf32>
}

// -----

// A product writes whole rows: transposed, it is copied.
// CHECK-LABEL: sched.program @transposed_product
// CHECK: sched.launch matmul 4 by 8
// CHECK: sched.copy
func.func @transposed_product(%x: tensor<4x4xf32>, %w: tensor<4x8xf32>) -> tensor<8x4xf32> {
  %y = tfm.matmul %x, %w : tensor<4x4xf32>, tensor<4x8xf32>
  %t = tfm.transpose %y [1, 0] : tensor<4x8xf32>
  return %t : tensor<8x4xf32>
}

// -----

// So does a cache.
// CHECK-LABEL: sched.program @transposed_cache
// CHECK: sched.launch cache_update {{.*}} writes(%{{.*}} : memref<1x2x8x4xf32, strided<[64, 32, 4, 1]>>)
// CHECK: sched.copy {{.*}} memref<1x2x4x8xf32, strided<[64, 32, 1, 4]>> to memref<1x2x4x8xf32, strided<[64, 32, 8, 1]>>
func.func @transposed_cache(%c: tensor<1x2x8x4xf32>, %k: tensor<1x2x1x4xf32>, %at: tensor<1xi32>) -> tensor<1x2x4x8xf32> {
  %y = tfm.cache_update %c, %k, %at : tensor<1x2x8x4xf32>, tensor<1x2x1x4xf32>, tensor<1xi32>
  %t = tfm.transpose %y [0, 1, 3, 2] : tensor<1x2x8x4xf32>
  return %t : tensor<1x2x4x8xf32>
}

// -----

// A product reads a transposed operand where it lies.
// CHECK-LABEL: sched.program @transposed_operand
// CHECK: memref<4x8xf32, strided<[1, 4]>>
// CHECK-NOT: sched.copy
func.func @transposed_operand(%x: tensor<8x4xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %t = tfm.transpose %x [1, 0] : tensor<8x4xf32>
  %y = tfm.matmul %t, %w : tensor<4x8xf32>, tensor<8x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// An operand of which neither of the last two axes is contiguous is copied.
// CHECK-LABEL: sched.program @strided_operand
// CHECK: sched.copy
// CHECK: sched.launch matmul
func.func @strided_operand(%x: tensor<4x8x2xf32>, %w: tensor<2x8x8xf32>) -> tensor<2x4x8xf32> {
  %t = tfm.transpose %x [2, 0, 1] : tensor<4x8x2xf32>
  %y = tfm.matmul %t, %w : tensor<2x4x8xf32>, tensor<2x8x8xf32>
  return %y : tensor<2x4x8xf32>
}

// -----

// Products want numbers in memory, too: one that is the same throughout is
// filled in.
// CHECK-LABEL: sched.program @splat_operand
// CHECK: sched.fill 2.000000e+00 : f32
// CHECK: sched.launch matmul
func.func @splat_operand(%x: tensor<4x8xf32>) -> tensor<4x4xf32> {
  %c = tfm.constant dense<2.0> : tensor<8x4xf32>
  %y = tfm.matmul %x, %c : tensor<4x8xf32>, tensor<8x4xf32>
  return %y : tensor<4x4xf32>
}

// -----

// Attention reads and writes heads where they are interleaved.
// CHECK-LABEL: sched.program @heads
// CHECK: memref<2x2x9x4xf32, strided<[216, 4, 24, 1]>>
// CHECK: memref<2x2x9x4xf32, strided<[72, 4, 8, 1]>>
// CHECK: sched.launch attention
// CHECK-NOT: sched.copy
func.func @heads(%x: tensor<2x9x24xf32>) -> tensor<2x9x8xf32> {
  %q = tfm.slice %x axis 2 start 0 size 8 : tensor<2x9x24xf32>
  %k = tfm.slice %x axis 2 start 8 size 8 : tensor<2x9x24xf32>
  %v = tfm.slice %x axis 2 start 16 size 8 : tensor<2x9x24xf32>
  %qr = tfm.reshape %q : tensor<2x9x8xf32> to tensor<2x9x2x4xf32>
  %kr = tfm.reshape %k : tensor<2x9x8xf32> to tensor<2x9x2x4xf32>
  %vr = tfm.reshape %v : tensor<2x9x8xf32> to tensor<2x9x2x4xf32>
  %qt = tfm.transpose %qr [0, 2, 1, 3] : tensor<2x9x2x4xf32>
  %kt = tfm.transpose %kr [0, 2, 1, 3] : tensor<2x9x2x4xf32>
  %vt = tfm.transpose %vr [0, 2, 1, 3] : tensor<2x9x2x4xf32>
  %o, %l = tfm.attention %qt, %kt, %vt {causal, scale = 0.5 : f64}
    : tensor<2x2x9x4xf32>, tensor<2x2x9x4xf32>, tensor<2x2x9x4xf32>
  %ot = tfm.transpose %o [0, 2, 1, 3] : tensor<2x2x9x4xf32>
  %y = tfm.reshape %ot : tensor<2x9x2x4xf32> to tensor<2x9x8xf32>
  return %y : tensor<2x9x8xf32>
}

// -----

// A scatter adds to what its base brought there: the launch reads the base
// where it writes.
// CHECK-LABEL: sched.program @scatter
// CHECK: sched.fill 0.000000e+00 : f32, %[[B:.*]] :
// CHECK: sched.launch scatter_add {{.*}} writes(%{{.*}} : memref<50x8xf32
// CHECK: ^bb0(%{{.*}}, %{{.*}}, %[[Y:.*]]: memref<50x8xf32
// CHECK: sched.read %[[Y]]
// CHECK: sched.write %{{.*}}, %[[Y]]
func.func @scatter(%ids: tensor<6xi32>, %u: tensor<6x8xf32>) -> tensor<50x8xf32> {
  %b = tfm.constant dense<0.0> : tensor<50x8xf32>
  %y = tfm.scatter_add %b, %ids, %u : tensor<50x8xf32>, tensor<6xi32>, tensor<6x8xf32>
  return %y : tensor<50x8xf32>
}

// -----

// Parameters are views of one region: those that weight decay applies to, then
// the other trained ones, then the frozen ones.
// CHECK: %[[P:.*]] = sched.buffer parameter "parameters"
// CHECK: tfm.param @w {{.*}}sched.decayed, sched.offset = 0 : i64
// CHECK: tfm.param @fixed {{.*}}sched.offset = 8192 : i64
// CHECK: tfm.param @b {{.*}}sched.offset = 4096 : i64
// CHECK-LABEL: sched.program @parameters
// CHECK: sched.view %[[P]] at 0
// CHECK: sched.view %[[P]] at 4096
module {
  tfm.param @w : tensor<8x4xf32> {init = {kind = "zeros"}}
  tfm.param @fixed : tensor<4xf32> {init = {kind = "zeros"}, trainable = false}
  tfm.param @b : tensor<4xf32> {init = {kind = "zeros"}}
  func.func @parameters(%x: tensor<2x8xf32>) -> tensor<2x4xf32> {
    %w = tfm.get_param @w : tensor<8x4xf32>
    %b = tfm.get_param @b : tensor<4xf32>
    %f = tfm.get_param @fixed : tensor<4xf32>
    %y = tfm.matmul %x, %w : tensor<2x8xf32>, tensor<8x4xf32>
    %c = tfm.broadcast %b : tensor<4xf32> to tensor<2x4xf32>
    %d = tfm.broadcast %f : tensor<4xf32> to tensor<2x4xf32>
    %z = tfm.add %y, %c : tensor<2x4xf32>
    %u = tfm.mul %z, %d : tensor<2x4xf32>
    return %u : tensor<2x4xf32>
  }
}

// -----

// The update is in place: it reads what it replaces at the same points.
// CHECK-LABEL: sched.program @update
// CHECK: sched.view %parameters at 0
// CHECK: sched.view %gradients at 0
// CHECK: sched.view %parameters at 0
// CHECK: sched.launch row 1 by 1024
// CHECK-NOT: sched.copy
module {
  tfm.param @w : tensor<32x32xf32> {init = {kind = "zeros"}}
  func.func @train() -> (tensor<32x32xf32> {tfm.gradient = @w}) {
    %z = tfm.constant dense<1.0> : tensor<32x32xf32>
    return %z : tensor<32x32xf32>
  }
  func.func @update(%p: tensor<1x1024xf32> {tfm.region = "parameters.decayed"}, %g: tensor<1x1024xf32> {tfm.region = "gradients.decayed"})
      -> (tensor<1x1024xf32> {tfm.region = "parameters.decayed"}) {
    %n = tfm.sub %p, %g : tensor<1x1024xf32>
    return %n : tensor<1x1024xf32>
  }
}

// -----

// What is read at other points while it is replaced goes through a buffer.
// CHECK-LABEL: sched.program @reversed_update
// CHECK: sched.launch row
// CHECK: sched.copy
module {
  tfm.param @w : tensor<32x32xf32> {init = {kind = "zeros"}}
  func.func @reversed_update(%p: tensor<1x1024xf32> {tfm.region = "parameters.decayed"})
      -> (tensor<1x1024xf32> {tfm.region = "parameters.decayed"}) {
    %m = tfm.reshape %p : tensor<1x1024xf32> to tensor<32x32xf32>
    %t = tfm.transpose %m [1, 0] : tensor<32x32xf32>
    %n = tfm.exp %t : tensor<32x32xf32>
    %r = tfm.reshape %n : tensor<32x32xf32> to tensor<1x1024xf32>
    return %r : tensor<1x1024xf32>
  }
}

// -----

// A cache is one buffer of the module that all functions share and change in
// place.
// CHECK: %[[C:.*]] = sched.buffer cache "cache.0"
// CHECK-LABEL: sched.program @decode
// CHECK: sched.launch cache_update {{.*}} writes(%{{.*}} : memref<2x4x64x16xf32
// CHECK-NOT: sched.copy
func.func @decode(%c: tensor<2x4x64x16xf32> {tfm.region = "cache.0"}, %k: tensor<2x4x1x16xf32>, %at: tensor<2xi32>)
    -> (tensor<2x4x64x16xf32> {tfm.region = "cache.0"}) {
  %y = tfm.cache_update %c, %k, %at : tensor<2x4x64x16xf32>, tensor<2x4x1x16xf32>, tensor<2xi32>
  return %y : tensor<2x4x64x16xf32>
}

// -----

// Of several segments each finds its text by a number of its own.
// CHECK: %[[C:.*]] = sched.buffer cache "cache.0" : memref<24576xi8>
// CHECK-LABEL: sched.program @prefill_short
// CHECK: %[[ROWS:.*]] = sched.view %[[B:prefill_short.row]] at 0 : {{.*}} to memref<2xi32
// CHECK: sched.input "row" %[[ROWS]]
// CHECK-DAG: %[[FIRST:.*]] = sched.view %[[B]] at 0 : {{.*}} to memref<1xi32
// CHECK-DAG: %[[SECOND:.*]] = sched.view %[[B]] at 4 : {{.*}} to memref<1xi32
// CHECK-DAG: %[[TO0:.*]] = sched.view %[[C]] at 0 row(%[[FIRST]]
// CHECK: cache_update {{.*}} writes(%[[TO0]]
// CHECK: %[[TO1:.*]] = sched.view %[[C]] at 0 row(%[[SECOND]]
// CHECK: cache_update {{.*}} writes(%[[TO1]]
// CHECK-NOT: sched.copy
func.func @prefill_short(%at: tensor<1xi32>, %row: tensor<2xi32> {tfm.name = "row", tfm.row},
    %c: tensor<1x2x64x16xf32> {tfm.region = "cache.0", tfm.segment = 0 : i64},
    %d: tensor<1x2x64x16xf32> {tfm.region = "cache.0", tfm.segment = 1 : i64}, %k: tensor<1x2x4x16xf32>)
    -> (tensor<1x2x64x16xf32> {tfm.region = "cache.0", tfm.segment = 0 : i64},
        tensor<1x2x64x16xf32> {tfm.region = "cache.0", tfm.segment = 1 : i64}) {
  %u = tfm.cache_update %c, %k, %at : tensor<1x2x64x16xf32>, tensor<1x2x4x16xf32>, tensor<1xi32>
  %v = tfm.cache_update %d, %k, %at : tensor<1x2x64x16xf32>, tensor<1x2x4x16xf32>, tensor<1xi32>
  return %u, %v : tensor<1x2x64x16xf32>, tensor<1x2x64x16xf32>
}
func.func @decode(%at: tensor<3xi32>, %c: tensor<3x2x64x16xf32> {tfm.region = "cache.0"},
    %k: tensor<3x2x1x16xf32>) -> (tensor<3x2x64x16xf32> {tfm.region = "cache.0"}) {
  %u = tfm.cache_update %c, %k, %at : tensor<3x2x64x16xf32>, tensor<3x2x1x16xf32>, tensor<3xi32>
  return %u : tensor<3x2x64x16xf32>
}

// -----

// A function that works on one text of a cache of several finds it by the number
// that the caller writes. Positions lie before texts in it.
// CHECK: %[[C:.*]] = sched.buffer cache "cache.0" : memref<49152xi8>
// CHECK-LABEL: sched.program @prefill
// CHECK: %[[ROW:.*]] = sched.view %prefill.row
// CHECK: sched.input "row" %[[ROW]]
// CHECK: sched.view %[[C]] at 0 layers(%{{.*}}) by [24576] row(%[[ROW]] : memref<1xi32, strided<[1]>>) by 128
// CHECK-SAME: to memref<1x2x64x16xf32, strided<[32, 16, 96, 1]>>
// CHECK-NOT: sched.copy
// CHECK-LABEL: sched.program @decode
// CHECK: sched.view %[[C]] at 0 layers(%{{.*}}) by [24576] : memref<49152xi8> to memref<3x2x64x16xf32, strided<[32, 16, 96, 1]>>
// CHECK-NOT: sched.copy
func.func @prefill(%at: tensor<1xi32>, %row: tensor<1xi32> {tfm.name = "row", tfm.row}, %c: tensor<2x1x2x64x16xf32> {tfm.region = "cache.0"},
    %k: tensor<1x2x4x16xf32>) -> (tensor<2x1x2x64x16xf32> {tfm.region = "cache.0"}) {
  %y = tfm.repeat 2 carried() stacked(%c : tensor<2x1x2x64x16xf32>) shared(%k, %at : tensor<1x2x4x16xf32>, tensor<1xi32>)
      -> (tensor<2x1x2x64x16xf32>) {
  ^bb0(%i: index, %layer: tensor<1x2x64x16xf32>, %new: tensor<1x2x4x16xf32>, %start: tensor<1xi32>):
    %u = tfm.cache_update %layer, %new, %start : tensor<1x2x64x16xf32>, tensor<1x2x4x16xf32>, tensor<1xi32>
    tfm.yield %u : tensor<1x2x64x16xf32>
  }
  return %y : tensor<2x1x2x64x16xf32>
}
func.func @decode(%at: tensor<3xi32>, %c: tensor<2x3x2x64x16xf32> {tfm.region = "cache.0"},
    %k: tensor<3x2x1x16xf32>) -> (tensor<2x3x2x64x16xf32> {tfm.region = "cache.0"}) {
  %y = tfm.repeat 2 carried() stacked(%c : tensor<2x3x2x64x16xf32>) shared(%k, %at : tensor<3x2x1x16xf32>, tensor<3xi32>)
      -> (tensor<2x3x2x64x16xf32>) {
  ^bb0(%i: index, %layer: tensor<3x2x64x16xf32>, %new: tensor<3x2x1x16xf32>, %start: tensor<3xi32>):
    %u = tfm.cache_update %layer, %new, %start : tensor<3x2x64x16xf32>, tensor<3x2x1x16xf32>, tensor<3xi32>
    tfm.yield %u : tensor<3x2x64x16xf32>
  }
  return %y : tensor<2x3x2x64x16xf32>
}

// -----

// Constants lie in the module, equal ones once.
// CHECK-COUNT-1: sched.buffer constant "constant0" value dense<{{.*}}> : tensor<2x2xf32> : memref<16xi8>
// CHECK-NOT: sched.buffer constant
// CHECK-LABEL: sched.program @constants
func.func @constants(%x: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) {
  %c = tfm.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %d = tfm.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %y = tfm.mul %x, %c : tensor<2x2xf32>
  %z = tfm.matmul %y, %d : tensor<2x2xf32>, tensor<2x2xf32>
  return %y, %z : tensor<2x2xf32>, tensor<2x2xf32>
}

// -----

// Whoever draws random numbers has their counter as an input.
// CHECK-LABEL: sched.program @draws
// CHECK: sched.input "rng" %[[RNG:.*]] :
// CHECK: sched.launch row {{.*}} rng %[[RNG]] : memref<4xi32
func.func @draws(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %d = tfm.dropout %x {rate = 0.1 : f64, site = 0 : i64} : tensor<4x8xf32>
  return %d : tensor<4x8xf32>
}

// -----

// Of an axis of one element the stride counts nothing: the result is there
// already.
// CHECK-LABEL: sched.program @one_text
// CHECK: sched.launch matmul 4 by 8
// CHECK-NOT: sched.copy
func.func @one_text(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<1x4x8xf32> {
  %a = tfm.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32>
  %y = tfm.reshape %a : tensor<4x8xf32> to tensor<1x4x8xf32>
  return %y : tensor<1x4x8xf32>
}

// -----

// A base that somebody reads later stays as it is.
// CHECK-LABEL: sched.program @scatter_base_read_later
// CHECK: sched.buffer activation "exp
// CHECK: sched.copy
// CHECK: sched.launch scatter_add
// CHECK: sched.launch matmul
func.func @scatter_base_read_later(%x: tensor<4x8xf32>, %ids: tensor<6xi32>, %u: tensor<6x8xf32>, %w: tensor<8x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %b = tfm.exp %x : tensor<4x8xf32>
  %y = tfm.scatter_add %b, %ids, %u : tensor<4x8xf32>, tensor<6xi32>, tensor<6x8xf32>
  %z = tfm.matmul %b, %w : tensor<4x8xf32>, tensor<8x8xf32>
  return %y, %z : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// Neither is a gradient added to where it is while it is read at other points,
// nor scattered onto where it is read later.
// CHECK-LABEL: sched.program @train
// CHECK: sched.launch row
// CHECK: sched.launch scatter_add {{.*}} writes(%{{.*}} : memref<4x8xf32
// CHECK: sched.launch matmul
// CHECK-COUNT-2: sched.copy
module {
  tfm.param @a : tensor<4x4xf32> {init = {kind = "zeros"}}
  tfm.param @b : tensor<4x8xf32> {init = {kind = "zeros"}}
  func.func @train(%x: tensor<4x4xf32>, %ids: tensor<6xi32>, %u: tensor<6x8xf32>, %w: tensor<8x8xf32>,
                   %ga: tensor<4x4xf32> {tfm.gradient = @a}, %gb: tensor<4x8xf32> {tfm.gradient = @b})
      -> (tensor<4x8xf32>, tensor<4x4xf32> {tfm.gradient = @a}, tensor<4x8xf32> {tfm.gradient = @b}) {
    %t = tfm.transpose %ga [1, 0] : tensor<4x4xf32>
    %a = tfm.add %t, %x : tensor<4x4xf32>
    %b = tfm.scatter_add %gb, %ids, %u : tensor<4x8xf32>, tensor<6xi32>, tensor<6x8xf32>
    %z = tfm.matmul %gb, %w : tensor<4x8xf32>, tensor<8x8xf32>
    return %z, %a, %b : tensor<4x8xf32>, tensor<4x4xf32>, tensor<4x8xf32>
  }
}
