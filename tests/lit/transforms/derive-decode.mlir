// RUN: tfm-opt %s -split-input-file -tfm-derive-decode="chunk=2" | FileCheck %s

// The head sees one token of the chunk. What pads a chunk may lie behind the
// last position, which it then has.
// CHECK-LABEL: func.func @prefill
// CHECK-SAME: tensor<1x2xi32>
// CHECK: %[[LAST:.*]] = tfm.constant dense<7> : tensor<1x2xi32>
// CHECK: tfm.min %{{.*}}, %[[LAST]]
// CHECK: tfm.attention
// CHECK: tfm.matmul %{{.*}} : tensor<1x8xf32>, tensor<8x8xf32>
// CHECK-LABEL: func.func @decode
// CHECK-SAME: %[[TOKENS:.*]]: tensor<1x1xi32>
// CHECK-SAME: %[[AT:.*]]: tensor<1xi32> {tfm.name = "position"}
// CHECK-SAME: %[[K:.*]]: tensor<1x2x8x4xf32> {tfm.region = "cache.0"}
// CHECK-SAME: %[[V:.*]]: tensor<1x2x8x4xf32> {tfm.region = "cache.1"}
// CHECK: %[[KEYS:.*]] = tfm.cache_update %[[K]], %{{.*}}, %[[AT]]
// CHECK: %[[VALUES:.*]] = tfm.cache_update %[[V]], %{{.*}}, %[[AT]]
// CHECK: tfm.attention %{{.*}}, %[[KEYS]], %[[VALUES]] start(%[[AT]] : tensor<1xi32>) {causal{{.*}} : tensor<1x2x1x4xf32>
// CHECK: return %{{.*}}, %[[KEYS]], %[[VALUES]] : tensor<1x8xf32>
func.func @forward(%tokens: tensor<1x8xi32> {tfm.name = "tokens"}) -> tensor<1x8x8xf32> {
  %table = tfm.get_param @"t" : tensor<8x8xf32>
  %x = tfm.gather %table, %tokens : tensor<8x8xf32>, tensor<1x8xi32>
  %r = tfm.reshape %x : tensor<1x8x8xf32> to tensor<1x8x2x4xf32>
  %q = tfm.transpose %r [0, 2, 1, 3] : tensor<1x8x2x4xf32>
  %o, %lse = tfm.attention %q, %q, %q {causal, scale = 0.5 : f64}
      : tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>
  %t = tfm.transpose %o [0, 2, 1, 3] : tensor<1x2x8x4xf32>
  %y = tfm.reshape %t : tensor<1x8x2x4xf32> to tensor<8x8xf32>
  %h = tfm.matmul %y, %table : tensor<8x8xf32>, tensor<8x8xf32>
  %l = tfm.reshape %h : tensor<8x8xf32> to tensor<1x8x8xf32>
  return %l : tensor<1x8x8xf32>
}
tfm.param @"t" : tensor<8x8xf32> {init = {kind = "zeros"}}

// -----

// CHECK: tfm.whole_sequence = "{{.*}}a reduction over the positions"
// CHECK-NOT: @decode
func.func @forward(%tokens: tensor<1x8xi32> {tfm.name = "tokens"}) -> tensor<1x8x4xf32> {
  %table = tfm.get_param @"t" : tensor<8x4xf32>
  %x = tfm.gather %table, %tokens : tensor<8x4xf32>, tensor<1x8xi32>
  %s = tfm.reduce_sum %x axis 1 : tensor<1x8x4xf32>
  %b = tfm.broadcast %s : tensor<1x1x4xf32> to tensor<1x8x4xf32>
  return %b : tensor<1x8x4xf32>
}
tfm.param @"t" : tensor<8x4xf32> {init = {kind = "zeros"}}

// -----

// CHECK: tfm.whole_sequence = "{{.*}}a shift from positions that are to come"
// CHECK-NOT: @decode
func.func @forward(%tokens: tensor<1x8xi32> {tfm.name = "tokens"}) -> tensor<1x8x8xf32> {
  %table = tfm.get_param @"t" : tensor<8x8xf32>
  %x = tfm.gather %table, %tokens : tensor<8x8xf32>, tensor<1x8xi32>
  %s = tfm.shift %x axis 1 by -1 : tensor<1x8x8xf32>
  return %s : tensor<1x8x8xf32>
}
tfm.param @"t" : tensor<8x8xf32> {init = {kind = "zeros"}}

// -----

// The sum before the new positions comes from the cache, a ring of the newest,
// and is nothing for the first of all; the new sums go into the cache.
// CHECK-LABEL: func.func @prefill
// CHECK: tfm.cumsum %{{.*}} axis 1 : tensor<1x2x8xf32>
// CHECK-LABEL: func.func @decode
// CHECK-SAME: %[[AT:[a-z0-9]+]]: tensor<1xi32> {tfm.name = "position"}
// CHECK-SAME: %[[SUMS:[a-z0-9]+]]: tensor<1x1x3x8xf32> {tfm.region = "cache.0"}
// CHECK: %[[ROUNDS:.*]] = tfm.div %{{.*}}, %[[RING:.*]] : tensor<1x1xi32>
// CHECK: tfm.mul %[[ROUNDS]], %{{.*}}
// CHECK: %[[TABLE:.*]] = tfm.reshape %[[SUMS]] : tensor<1x1x3x8xf32> to tensor<3x8xf32>
// CHECK: %[[BEFORE:.*]] = tfm.gather %[[TABLE]]
// CHECK: tfm.compare lt %{{.*}} : tensor<1x1xi32>
// CHECK: %[[KNOWN:.*]] = tfm.select
// CHECK: %[[SUM:.*]] = tfm.reshape %[[KNOWN]]
// CHECK: %[[NEW:.*]] = tfm.add %{{.*}}, %[[SUM]] : tensor<1x1x8xf32>
// CHECK: %[[ROW:.*]] = tfm.reshape %[[NEW]] : tensor<1x1x8xf32> to tensor<1x1x1x8xf32>
// CHECK: %[[UPDATED:.*]] = tfm.cache_update %[[SUMS]], %[[ROW]], %[[AT]] {ring}
// CHECK: return %{{.*}}, %[[UPDATED]]
func.func @forward(%tokens: tensor<1x8xi32> {tfm.name = "tokens"}) -> tensor<1x8x8xf32> {
  %table = tfm.get_param @"t" : tensor<8x8xf32>
  %x = tfm.gather %table, %tokens : tensor<8x8xf32>, tensor<1x8xi32>
  %s = tfm.cumsum %x axis 1 : tensor<1x8x8xf32>
  %y = tfm.tanh %s : tensor<1x8x8xf32>
  return %y : tensor<1x8x8xf32>
}
tfm.param @"t" : tensor<8x8xf32> {init = {kind = "zeros"}}

// -----

// Of a chunk the sum before, decayed, is part of the first that is added; what
// decays by positions alone does so by those of the new ones.
// CHECK-LABEL: func.func @prefill
// CHECK: %[[BEFORE:.*]] = tfm.broadcast %{{.*}} : tensor<1x1x8xf32> to tensor<1x2x8xf32>
// CHECK: %[[FIRST:.*]] = tfm.fma %[[DECAY:.*]], %[[BEFORE]], %[[X:.*]] :
// CHECK: %[[ADDED:.*]] = tfm.select %{{.*}}, %[[FIRST]], %[[X]]
// CHECK: tfm.scan %[[DECAY]], %[[ADDED]] axis 1 : tensor<1x2x8xf32>
// CHECK-LABEL: func.func @decode
// CHECK-SAME: %[[AT:[a-z0-9]+]]: tensor<1xi32> {tfm.name = "position"}
// CHECK-SAME: %[[SUMS:[a-z0-9]+]]: tensor<1x1x3x8xf32> {tfm.region = "cache.0"}
// CHECK: %[[TABLE:.*]] = tfm.reshape %[[SUMS]] : tensor<1x1x3x8xf32> to tensor<3x8xf32>
// CHECK: tfm.gather %[[TABLE]]
// CHECK: %[[KNOWN:.*]] = tfm.select
// CHECK: %[[SUM:.*]] = tfm.reshape %[[KNOWN]]
// CHECK: %[[NEW:.*]] = tfm.fma %{{.*}}, %[[SUM]], %{{.*}} : tensor<1x1x8xf32>
// CHECK: %[[ALL:.*]] = tfm.concat %[[NEW]] axis 1
// CHECK: %[[ROW:.*]] = tfm.reshape %[[ALL]] : tensor<1x1x8xf32> to tensor<1x1x1x8xf32>
// CHECK: %[[UPDATED:.*]] = tfm.cache_update %[[SUMS]], %[[ROW]], %[[AT]] {ring}
// CHECK: return %{{.*}}, %[[UPDATED]]
func.func @forward(%tokens: tensor<1x8xi32> {tfm.name = "tokens"}) -> tensor<1x8x8xf32> {
  %table = tfm.get_param @"t" : tensor<8x8xf32>
  %x = tfm.gather %table, %tokens : tensor<8x8xf32>, tensor<1x8xi32>
  %decay = tfm.reshape %table : tensor<8x8xf32> to tensor<1x8x8xf32>
  %s = tfm.scan %decay, %x axis 1 : tensor<1x8x8xf32>
  %y = tfm.tanh %s : tensor<1x8x8xf32>
  return %y : tensor<1x8x8xf32>
}
tfm.param @"t" : tensor<8x8xf32> {init = {kind = "zeros"}}

// -----

// What goes from one sequence to the next.
// CHECK: tfm.whole_sequence = "{{.*}}an operation that mixes examples"
// CHECK-NOT: @decode
func.func @forward(%tokens: tensor<2x8xi32> {tfm.name = "tokens"}) -> tensor<2x8x8xf32> {
  %table = tfm.get_param @"t" : tensor<8x8xf32>
  %x = tfm.gather %table, %tokens : tensor<8x8xf32>, tensor<2x8xi32>
  %s = tfm.scan %x, %x axis 0 : tensor<2x8x8xf32>
  return %s : tensor<2x8x8xf32>
}
tfm.param @"t" : tensor<8x8xf32> {init = {kind = "zeros"}}

// -----

// CHECK: tfm.whole_sequence = "{{.*}}a scan from positions that are to come"
// CHECK-NOT: @decode
func.func @forward(%tokens: tensor<1x8xi32> {tfm.name = "tokens"}) -> tensor<1x8x8xf32> {
  %table = tfm.get_param @"t" : tensor<8x8xf32>
  %x = tfm.gather %table, %tokens : tensor<8x8xf32>, tensor<1x8xi32>
  %s = tfm.scan %x, %x axis 1 reverse : tensor<1x8x8xf32>
  return %s : tensor<1x8x8xf32>
}
tfm.param @"t" : tensor<8x8xf32> {init = {kind = "zeros"}}

// -----

// What was two positions before comes from the cache, a ring of the newest,
// into which the new positions went before.
// CHECK-LABEL: func.func @decode
// CHECK-SAME: %[[AT:[a-z0-9]+]]: tensor<1xi32> {tfm.name = "position"}
// CHECK-SAME: %[[ROWS:[a-z0-9]+]]: tensor<1x1x4x8xf32> {tfm.region = "cache.0"}
// CHECK: %[[UPDATED:.*]] = tfm.cache_update %[[ROWS]], %{{.*}}, %[[AT]] {ring}
// CHECK: %[[TABLE:.*]] = tfm.reshape %[[UPDATED]] : tensor<1x1x4x8xf32> to tensor<4x8xf32>
// CHECK: %[[BEFORE:.*]] = tfm.gather %[[TABLE]]
// CHECK: tfm.compare lt
// CHECK: tfm.select %{{.*}}, %{{.*}}, %[[BEFORE]]
// CHECK: return %{{.*}}, %[[UPDATED]]
func.func @forward(%tokens: tensor<1x8xi32> {tfm.name = "tokens"}) -> tensor<1x8x8xf32> {
  %table = tfm.get_param @"t" : tensor<8x8xf32>
  %x = tfm.gather %table, %tokens : tensor<8x8xf32>, tensor<1x8xi32>
  %s = tfm.shift %x axis 1 by 2 : tensor<1x8x8xf32>
  %y = tfm.tanh %s : tensor<1x8x8xf32>
  return %y : tensor<1x8x8xf32>
}
tfm.param @"t" : tensor<8x8xf32> {init = {kind = "zeros"}}

// -----

// From the end: every sum has what is to come.
// CHECK: tfm.whole_sequence = "{{.*}}a sum over positions that are to come"
// CHECK-NOT: @decode
func.func @forward(%tokens: tensor<1x8xi32> {tfm.name = "tokens"}) -> tensor<1x8x8xf32> {
  %table = tfm.get_param @"t" : tensor<8x8xf32>
  %x = tfm.gather %table, %tokens : tensor<8x8xf32>, tensor<1x8xi32>
  %s = tfm.cumsum %x axis 1 reverse : tensor<1x8x8xf32>
  return %s : tensor<1x8x8xf32>
}
tfm.param @"t" : tensor<8x8xf32> {init = {kind = "zeros"}}

// -----

// Of several texts that grow together each has a prompt of its own, and a row
// of the caches that its function is told.
// CHECK-LABEL: func.func @forward(
// CHECK-LABEL: func.func @prefill
// CHECK-SAME: tensor<1x2xi32> {tfm.name = "tokens"}
// CHECK-SAME: tensor<1xi32> {tfm.name = "position"}
// CHECK-SAME: tensor<1xi32> {tfm.name = "length"}
// CHECK-SAME: tensor<1xi32> {tfm.name = "row", tfm.row}
// CHECK-SAME: tensor<1x2x8x4xf32> {tfm.region = "cache.0"}
// CHECK-NOT: @forward_batch
// CHECK-LABEL: func.func @decode
// CHECK-SAME: tensor<3x1xi32>
// CHECK-SAME: tensor<3xi32> {tfm.name = "position"}
// CHECK-SAME: tensor<3x2x8x4xf32> {tfm.region = "cache.0"}
func.func @forward(%tokens: tensor<1x8xi32> {tfm.name = "tokens"}) -> tensor<1x8x8xf32> {
  %table = tfm.get_param @"t" : tensor<8x8xf32>
  %x = tfm.gather %table, %tokens : tensor<8x8xf32>, tensor<1x8xi32>
  %r = tfm.reshape %x : tensor<1x8x8xf32> to tensor<1x8x2x4xf32>
  %q = tfm.transpose %r [0, 2, 1, 3] : tensor<1x8x2x4xf32>
  %o, %lse = tfm.attention %q, %q, %q {causal, scale = 0.5 : f64}
      : tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>
  %t = tfm.transpose %o [0, 2, 1, 3] : tensor<1x2x8x4xf32>
  %y = tfm.reshape %t : tensor<1x8x2x4xf32> to tensor<1x8x8xf32>
  return %y : tensor<1x8x8xf32>
}
func.func @forward_batch(%tokens: tensor<3x8xi32> {tfm.name = "tokens"}) -> tensor<3x8x8xf32> {
  %table = tfm.get_param @"t" : tensor<8x8xf32>
  %x = tfm.gather %table, %tokens : tensor<8x8xf32>, tensor<3x8xi32>
  %r = tfm.reshape %x : tensor<3x8x8xf32> to tensor<3x8x2x4xf32>
  %q = tfm.transpose %r [0, 2, 1, 3] : tensor<3x8x2x4xf32>
  %o, %lse = tfm.attention %q, %q, %q {causal, scale = 0.5 : f64}
      : tensor<3x2x8x4xf32>, tensor<3x2x8x4xf32>, tensor<3x2x8x4xf32>
  %t = tfm.transpose %o [0, 2, 1, 3] : tensor<3x2x8x4xf32>
  %y = tfm.reshape %t : tensor<3x8x2x4xf32> to tensor<3x8x8xf32>
  return %y : tensor<3x8x8xf32>
}
tfm.param @"t" : tensor<8x8xf32> {init = {kind = "zeros"}}

// -----

// Attention with a window keeps a ring of it, and of what a chunk writes before
// its first token looks back; a layer that sees everything keeps everything.
// CHECK-LABEL: func.func @decode
// CHECK-SAME: %[[AT:[a-z0-9]+]]: tensor<1xi32> {tfm.name = "position"}
// CHECK-SAME: %[[K:[a-z0-9]+]]: tensor<1x2x5x4xf32> {tfm.region = "cache.0"}
// CHECK-SAME: tensor<1x2x5x4xf32> {tfm.region = "cache.1"}
// CHECK-SAME: tensor<1x2x8x4xf32> {tfm.region = "cache.2"}
// CHECK-SAME: tensor<1x2x8x4xf32> {tfm.region = "cache.3"}
// CHECK: %[[KEYS:.*]] = tfm.cache_update %[[K]], %{{.*}}, %[[AT]] {ring}
// CHECK: tfm.attention %{{.*}}, %[[KEYS]], %{{.*}} start(%[[AT]] : tensor<1xi32>) {causal, ring, {{.*}}window = 3
// CHECK-NOT: ring
// CHECK: return
func.func @forward(%tokens: tensor<1x8xi32> {tfm.name = "tokens"}) -> tensor<1x8x8xf32> {
  %table = tfm.get_param @"t" : tensor<8x8xf32>
  %x = tfm.gather %table, %tokens : tensor<8x8xf32>, tensor<1x8xi32>
  %r = tfm.reshape %x : tensor<1x8x8xf32> to tensor<1x8x2x4xf32>
  %q = tfm.transpose %r [0, 2, 1, 3] : tensor<1x8x2x4xf32>
  %o, %lse = tfm.attention %q, %q, %q {causal, scale = 0.5 : f64, window = 3 : i64}
      : tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>
  %p, %lse2 = tfm.attention %o, %o, %o {causal, scale = 0.5 : f64}
      : tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>
  %t = tfm.transpose %p [0, 2, 1, 3] : tensor<1x2x8x4xf32>
  %y = tfm.reshape %t : tensor<1x8x2x4xf32> to tensor<1x8x8xf32>
  return %y : tensor<1x8x8xf32>
}
tfm.param @"t" : tensor<8x8xf32> {init = {kind = "zeros"}}
