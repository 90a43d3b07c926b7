// RUN: split-file %s %t
// RUN: tfm-opt %t/values.mlir --tfm-mixed-precision --tfm-simplify | FileCheck %s
// RUN: sed -e '1s/bf16/f32/' %t/values.mlir | tfm-opt --tfm-mixed-precision | FileCheck %s --check-prefix=WIDE
// RUN: sed -e '1s/bf16/f8/' %t/values.mlir | not tfm-opt --tfm-mixed-precision 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: tfm-opt %t/no-products.mlir --tfm-mixed-precision | FileCheck %s --check-prefix=NONE

// Where the precision is f32 nothing is rounded, and another is no precision.
// WIDE-NOT: bf16
// UNKNOWN: error: the recipe's train.precision takes `f32` or `bf16`
// Nothing reads a copy that nobody asks for.
// NONE-NOT: @refresh

//--- values.mlir
module attributes {tfm.recipe = "{\"train\": {\"precision\": \"bf16\", \"optimizer\": {\"kind\": \"adamw\", \"betas\": [0.9, 0.95], \"eps\": 1e-8, \"weight_decay\": 0.5, \"decay_min_rank\": 2, \"eps_placement\": \"torch\", \"momentum\": 0.0, \"nesterov\": false}}}"} {
  tfm.param @w : tensor<8x8xf32> {init = {kind = "zeros"}}
  tfm.param @b : tensor<8xf32> {init = {kind = "zeros"}}
  tfm.param @"h.*.w" : tensor<3x8x8xf32> {init = {kind = "zeros"}}
  tfm.param @table : tensor<8x8xf32> {init = {kind = "zeros"}, trainable = false}

  // A product reads a rounded operand and the copy of a parameter; who reads
  // its sums reads f32. A parameter that is added is itself.
  // CHECK-LABEL: @product
  // CHECK-DAG: %[[X:.*]] = tfm.cast %{{.*}} : tensor<4x8xf32> to tensor<4x8xbf16>
  // CHECK-DAG: %[[W:.*]] = tfm.get_param @w : tensor<8x8xbf16>
  // CHECK: %[[Y:.*]] = tfm.matmul %[[X]], %[[W]] transpose_b : tensor<4x8xbf16>, tensor<8x8xbf16>{{$}}
  // CHECK: tfm.get_param @b : tensor<8xf32>
  // CHECK: tfm.add %[[Y]], %{{.*}} : tensor<4x8xf32>
  func.func @product(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %w = tfm.get_param @w : tensor<8x8xf32>
    %t = tfm.transpose %w [1, 0] : tensor<8x8xf32>
    %y = tfm.matmul %x, %t : tensor<4x8xf32>, tensor<8x8xf32>
    %b = tfm.get_param @b : tensor<8xf32>
    %r = tfm.broadcast %b : tensor<8xf32> to tensor<4x8xf32>
    %z = tfm.add %y, %r : tensor<4x8xf32>
    return %z : tensor<4x8xf32>
  }

  // What several read is rounded once, where it is made.
  // CHECK-LABEL: @shared
  // CHECK: %[[E:.*]] = tfm.exp
  // CHECK-NEXT: %[[R:.*]] = tfm.cast %[[E]]
  // CHECK-NOT: tfm.cast
  // CHECK: tfm.matmul %[[R]], %[[R]] transpose_b
  // CHECK: tfm.matmul %[[R]], %{{.*}}
  // CHECK: return %{{.*}}, %{{.*}}, %[[E]]
  func.func @shared(%x: tensor<4x8xf32>) -> (tensor<4x4xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
    %e = tfm.exp %x : tensor<4x8xf32>
    %y = tfm.matmul %e, %e transpose_b : tensor<4x8xf32>, tensor<4x8xf32>
    %w = tfm.get_param @w : tensor<8x8xf32>
    %z = tfm.matmul %e, %w : tensor<4x8xf32>, tensor<8x8xf32>
    return %y, %z, %e : tensor<4x4xf32>, tensor<4x8xf32>, tensor<4x8xf32>
  }

  // Attention gives what it takes, but its statistics; a product takes that as
  // it is.
  // CHECK-LABEL: @attention
  // CHECK: %[[O:.*]], %[[L:.*]] = tfm.attention %{{.*}} : tensor<1x1x4x8xbf16>, tensor<1x1x4x8xbf16>, tensor<1x1x4x8xbf16>
  // CHECK: %[[V:.*]] = tfm.reshape %[[O]] : tensor<1x1x4x8xbf16> to tensor<4x8xbf16>
  // CHECK: tfm.matmul %[[V]], %{{.*}}
  // CHECK: return %{{.*}}, %[[L]] : tensor<4x8xf32>, tensor<1x1x4xf32>
  func.func @attention(%q: tensor<1x1x4x8xf32>) -> (tensor<4x8xf32>, tensor<1x1x4xf32>) {
    %o, %l = tfm.attention %q, %q, %q {causal, scale = 0.5 : f64} : tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>
    %v = tfm.reshape %o : tensor<1x1x4x8xf32> to tensor<4x8xf32>
    %w = tfm.get_param @w : tensor<8x8xf32>
    %y = tfm.matmul %v, %w : tensor<4x8xf32>, tensor<8x8xf32>
    return %y, %l : tensor<4x8xf32>, tensor<1x1x4xf32>
  }

  // Logits are rounded for the loss, and are f32 where they are returned.
  // CHECK-LABEL: @logits
  // CHECK: %[[Y:.*]] = tfm.matmul
  // CHECK: %[[N:.*]] = tfm.cast %[[Y]]
  // CHECK: %{{.*}}, %[[S:.*]] = tfm.cross_entropy %[[N]], %{{.*}} : tensor<4x8xbf16>, tensor<4xi32>
  // CHECK: %[[D:.*]] = tfm.cross_entropy_backward %[[N]], %{{.*}}, %[[S]], %{{.*}} : tensor<4x8xbf16>, tensor<4xi32>, tensor<4xf32>
  // CHECK: tfm.matmul %[[D]], %{{.*}} transpose_b
  // CHECK: return %[[Y]], %{{.*}} : tensor<4x8xf32>, tensor<4x8xf32>
  func.func @logits(%x: tensor<4x8xf32>, %t: tensor<4xi32>, %g: tensor<4xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
    %w = tfm.get_param @w : tensor<8x8xf32>
    %y = tfm.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32>
    %loss, %lse = tfm.cross_entropy %y, %t : tensor<4x8xf32>, tensor<4xi32>
    %d = tfm.cross_entropy_backward %y, %t, %lse, %g : tensor<4x8xf32>, tensor<4xi32>, tensor<4xf32>
    %dx = tfm.matmul %d, %w transpose_b : tensor<4x8xf32>, tensor<8x8xf32>
    return %y, %dx : tensor<4x8xf32>, tensor<4x8xf32>
  }

  // A function of a product that a product reads is there in bf16 alone: the sum
  // over its rows is of that, too.
  // CHECK-LABEL: @sum_of_stored
  // CHECK: %[[M:.*]] = tfm.mul
  // CHECK-NEXT: %[[C:.*]] = tfm.cast %[[M]] : tensor<4x8xf32> to tensor<4x8xbf16>
  // CHECK: %[[F:.*]] = tfm.cast %[[C]] : tensor<4x8xbf16> to tensor<4x8xf32>
  // CHECK: tfm.matmul %[[C]],
  // CHECK: tfm.reduce_sum %[[F]] axis 0
  func.func @sum_of_stored(%x: tensor<4x8xf32>, %h: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<1x8xf32>) {
    %w = tfm.get_param @w : tensor<8x8xf32>
    %y = tfm.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32>
    %m = tfm.mul %y, %h : tensor<4x8xf32>
    %z = tfm.matmul %m, %w : tensor<4x8xf32>, tensor<8x8xf32>
    %s = tfm.reduce_sum %m axis 0 : tensor<4x8xf32>
    return %z, %s : tensor<4x8xf32>, tensor<1x8xf32>
  }

  // Not where something else reads it in f32.
  // CHECK-LABEL: @sum_of_wide
  // CHECK: %[[M:.*]] = tfm.mul
  // CHECK: tfm.reduce_sum %[[M]] axis 0
  func.func @sum_of_wide(%x: tensor<4x8xf32>, %h: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<1x8xf32>, tensor<4x8xf32>) {
    %w = tfm.get_param @w : tensor<8x8xf32>
    %y = tfm.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32>
    %m = tfm.mul %y, %h : tensor<4x8xf32>
    %z = tfm.matmul %m, %w : tensor<4x8xf32>, tensor<8x8xf32>
    %s = tfm.reduce_sum %m axis 0 : tensor<4x8xf32>
    return %z, %s, %m : tensor<4x8xf32>, tensor<1x8xf32>, tensor<4x8xf32>
  }

  // Nor within rows: statistics are of f32.
  // CHECK-LABEL: @statistics
  // CHECK: %[[M:.*]] = tfm.mul
  // CHECK: tfm.reduce_sum %[[M]] axis 1
  func.func @statistics(%x: tensor<4x8xf32>, %h: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x1xf32>) {
    %w = tfm.get_param @w : tensor<8x8xf32>
    %y = tfm.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32>
    %m = tfm.mul %y, %h : tensor<4x8xf32>
    %z = tfm.matmul %m, %w : tensor<4x8xf32>, tensor<8x8xf32>
    %s = tfm.reduce_sum %m axis 1 : tensor<4x8xf32>
    return %z, %s : tensor<4x8xf32>, tensor<4x1xf32>
  }

  // Saved: the operand of a product and a product with its bias in bf16; the
  // stream, which is added to, in f32. Weights come in as copies.
  // CHECK-LABEL: @saved
  // CHECK: %[[F:.*]]:4 = tfm.repeat 3 carried(%{{.*}} : tensor<4x8xf32>) stacked(%{{.*}} : tensor<3x8x8xbf16>) shared()
  // CHECK-SAME: -> (tensor<4x8xf32>, tensor<3x4x8xf32>, tensor<3x4x8xbf16>, tensor<3x4x8xbf16>)
  // CHECK: tfm.repeat 3 reverse
  // CHECK-SAME: stacked(%[[F]]#1, %[[F]]#2, %[[F]]#3 : tensor<3x4x8xf32>, tensor<3x4x8xbf16>, tensor<3x4x8xbf16>)
  func.func @saved(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %w = tfm.get_param @"h.*.w" : tensor<3x8x8xf32>
    %y:4 = tfm.repeat 3 carried(%x : tensor<4x8xf32>) stacked(%w : tensor<3x8x8xf32>) shared()
        -> (tensor<4x8xf32>, tensor<3x4x8xf32>, tensor<3x4x8xf32>, tensor<3x4x8xf32>) {
    ^bb0(%layer: index, %h: tensor<4x8xf32>, %wl: tensor<8x8xf32>):
      %n = tfm.tanh %h : tensor<4x8xf32>
      %p = tfm.matmul %n, %wl : tensor<4x8xf32>, tensor<8x8xf32>
      %c = tfm.constant dense<1.0> : tensor<4x8xf32>
      %a = tfm.add %p, %c : tensor<4x8xf32>
      %e = tfm.tanh %a : tensor<4x8xf32>
      %r = tfm.add %h, %e : tensor<4x8xf32>
      tfm.yield %r, %h, %n, %a : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
    }
    %z = tfm.repeat 3 reverse carried(%y#0 : tensor<4x8xf32>)
        stacked(%y#1, %y#2, %y#3 : tensor<3x4x8xf32>, tensor<3x4x8xf32>, tensor<3x4x8xf32>) shared() -> (tensor<4x8xf32>) {
    ^bb0(%layer: index, %g: tensor<4x8xf32>, %h: tensor<4x8xf32>, %n: tensor<4x8xf32>, %a: tensor<4x8xf32>):
      %1 = tfm.mul %g, %h : tensor<4x8xf32>
      %2 = tfm.mul %1, %n : tensor<4x8xf32>
      %3 = tfm.mul %2, %a : tensor<4x8xf32>
      tfm.yield %3 : tensor<4x8xf32>
    }
    return %z : tensor<4x8xf32>
  }

  // The stream behind a product is the stream, too; and a product that somebody
  // else reads than the derivative's layers is what it was.
  // CHECK-LABEL: @saved_stream
  // CHECK: tfm.repeat 3 carried(
  // CHECK-SAME: -> (tensor<4x8xf32>, tensor<3x4x8xf32>, tensor<3x4x8xf32>)
  func.func @saved_stream(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<3x4x8xf32>) {
    %w = tfm.get_param @"h.*.w" : tensor<3x8x8xf32>
    %y:3 = tfm.repeat 3 carried(%x : tensor<4x8xf32>) stacked(%w : tensor<3x8x8xf32>) shared()
        -> (tensor<4x8xf32>, tensor<3x4x8xf32>, tensor<3x4x8xf32>) {
    ^bb0(%layer: index, %h: tensor<4x8xf32>, %wl: tensor<8x8xf32>):
      %p = tfm.matmul %h, %wl : tensor<4x8xf32>, tensor<8x8xf32>
      %s = tfm.add %h, %p : tensor<4x8xf32>
      %e = tfm.tanh %s : tensor<4x8xf32>
      %r = tfm.add %s, %e : tensor<4x8xf32>
      %q = tfm.matmul %e, %wl : tensor<4x8xf32>, tensor<8x8xf32>
      tfm.yield %r, %s, %q : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
    }
    %z = tfm.repeat 3 reverse carried(%y#0 : tensor<4x8xf32>)
        stacked(%y#1, %y#2 : tensor<3x4x8xf32>, tensor<3x4x8xf32>) shared() -> (tensor<4x8xf32>) {
    ^bb0(%layer: index, %g: tensor<4x8xf32>, %h: tensor<4x8xf32>, %q: tensor<4x8xf32>):
      %1 = tfm.mul %g, %h : tensor<4x8xf32>
      %2 = tfm.mul %1, %q : tensor<4x8xf32>
      tfm.yield %2 : tensor<4x8xf32>
    }
    return %z, %y#2 : tensor<4x8xf32>, tensor<3x4x8xf32>
  }

  // Of slices that turns change there is no copy that was made before: what
  // products read is rounded in its turn.
  // CHECK-LABEL: @updated
  // CHECK: tfm.repeat 3 carried() stacked(%{{.*}} : tensor<5x8x8xf32>)
  // CHECK: ^bb0(%{{.*}}: index, %[[A:.*]]: tensor<8x8xf32>, {{.*}}):
  // CHECK: tfm.cast %[[A]] : tensor<8x8xf32> to tensor<8x8xbf16>
  func.func @updated(%x: tensor<8x8xf32>, %a: tensor<5x8x8xf32>, %o: tensor<3xi32>) -> tensor<5x8x8xf32> {
    %y = tfm.repeat 3 carried() stacked(%a : tensor<5x8x8xf32>) shared(%x : tensor<8x8xf32>)
        order(%o : tensor<3xi32>) chosen 1 updated 1 -> (tensor<5x8x8xf32>) {
    ^bb0(%turn: index, %s: tensor<8x8xf32>, %h: tensor<8x8xf32>):
      %p = tfm.matmul %h, %s : tensor<8x8xf32>, tensor<8x8xf32>
      tfm.yield %p : tensor<8x8xf32>
    }
    return %y : tensor<5x8x8xf32>
  }

  // All regions of parameters have copies.
  // CHECK-LABEL: @refresh
  // CHECK-SAME: tensor<1x1024xf32> {tfm.region = "parameters.decayed"}
  // CHECK-SAME: tensor<1x1024xf32> {tfm.region = "parameters.plain"}
  // CHECK-SAME: tensor<1x1024xf32> {tfm.region = "parameters.frozen"}
  // CHECK-SAME: tensor<1x1024xbf16> {tfm.region = "copies.decayed"}
  // CHECK-SAME: tensor<1x1024xbf16> {tfm.region = "copies.plain"}
  // CHECK-SAME: tensor<1x1024xbf16> {tfm.region = "copies.frozen"}
}

//--- no-products.mlir
module attributes {tfm.recipe = "{\"train\": {\"precision\": \"bf16\", \"optimizer\": {\"kind\": \"adamw\", \"betas\": [0.9, 0.95], \"eps\": 1e-8, \"weight_decay\": 0.5, \"decay_min_rank\": 2, \"eps_placement\": \"torch\", \"momentum\": 0.0, \"nesterov\": false}}}"} {
  tfm.param @w : tensor<8xf32> {init = {kind = "zeros"}}
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %w = tfm.get_param @w : tensor<8xf32>
    %y = tfm.mul %x, %w : tensor<8xf32>
    return %y : tensor<8xf32>
  }
}
