// RUN: tfm-opt %s -split-input-file -tfm-derive-decode="chunk=2 few=3 ring-multiple=1" | FileCheck %s
// RUN: tfm-opt %s -split-input-file -tfm-derive-decode="chunk=2 few=17 ring-multiple=1" | FileCheck %s --check-prefix=MANY

// A ring keeps a window of two, and what the function that writes the most
// writes at once: three tokens that are verified. What keeps fewer positions
// than those verifies nothing.
// CHECK-LABEL: func.func @prefill(
// CHECK-SAME: tensor<1x2x5x4xf32> {tfm.region = "cache.0"}
// CHECK-LABEL: func.func @verify(
// CHECK: tfm.cache_update {{.*}}ring
// MANY-NOT: func.func @verify
// MANY: func.func @prefill(
// MANY-SAME: tensor<1x2x4x4xf32> {tfm.region = "cache.0"}
// MANY-NOT: func.func @verify
func.func @forward(%tokens: tensor<1x16xi32> {tfm.name = "tokens"}) -> tensor<1x16x8xf32> {
  %table = tfm.get_param @"t" : tensor<8x8xf32>
  %x = tfm.gather %table, %tokens : tensor<8x8xf32>, tensor<1x16xi32>
  %r = tfm.reshape %x : tensor<1x16x8xf32> to tensor<1x16x2x4xf32>
  %q = tfm.transpose %r [0, 2, 1, 3] : tensor<1x16x2x4xf32>
  %o, %lse = tfm.attention %q, %q, %q {causal, window = 2 : i64, scale = 0.5 : f64}
      : tensor<1x2x16x4xf32>, tensor<1x2x16x4xf32>, tensor<1x2x16x4xf32>
  %t = tfm.transpose %o [0, 2, 1, 3] : tensor<1x2x16x4xf32>
  %y = tfm.reshape %t : tensor<1x16x2x4xf32> to tensor<1x16x8xf32>
  return %y : tensor<1x16x8xf32>
}
tfm.param @"t" : tensor<8x8xf32> {init = {kind = "zeros"}}

// -----

// A mask has a column for each position: keys lie where they are.
// CHECK-LABEL: func.func @prefill(
// CHECK-SAME: tensor<1x2x16x4xf32> {tfm.region = "cache.0"}
// CHECK-NOT: ring
// CHECK: return
func.func @forward(%tokens: tensor<1x16xi32> {tfm.name = "tokens"}) -> tensor<1x16x8xf32> {
  %table = tfm.get_param @"t" : tensor<8x8xf32>
  %bias = tfm.get_param @"m" : tensor<1x1x16x16xf32>
  %x = tfm.gather %table, %tokens : tensor<8x8xf32>, tensor<1x16xi32>
  %r = tfm.reshape %x : tensor<1x16x8xf32> to tensor<1x16x2x4xf32>
  %q = tfm.transpose %r [0, 2, 1, 3] : tensor<1x16x2x4xf32>
  %o, %lse = tfm.attention %q, %q, %q mask %bias {causal, window = 2 : i64, scale = 0.5 : f64}
      : tensor<1x2x16x4xf32>, tensor<1x2x16x4xf32>, tensor<1x2x16x4xf32>, tensor<1x1x16x16xf32>
  %t = tfm.transpose %o [0, 2, 1, 3] : tensor<1x2x16x4xf32>
  %y = tfm.reshape %t : tensor<1x16x2x4xf32> to tensor<1x16x8xf32>
  return %y : tensor<1x16x8xf32>
}
tfm.param @"t" : tensor<8x8xf32> {init = {kind = "zeros"}}
tfm.param @"m" : tensor<1x1x16x16xf32> {init = {kind = "zeros"}}
