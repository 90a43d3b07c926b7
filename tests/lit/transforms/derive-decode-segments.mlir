// RUN: tfm-opt %s -tfm-derive-decode="chunk=12 segment=3 segments=2" | FileCheck %s
// RUN: tfm-opt %s -tfm-derive-decode="chunk=11 segment=3 segments=2" | FileCheck %s --check-prefix=LONG

// Segments that are more than half of a chunk together are none.
// LONG-NOT: @prefill_short
// LONG: func.func @prefill(
// LONG-NOT: @prefill_short

// Two segments of three tokens stand beside each other in everything that works
// position by position. Each has its positions, its row of the caches and its
// attention, which begins when all segments have written their keys and values.
// CHECK-LABEL: func.func @prefill_short
// CHECK-SAME: %[[TOKENS:.*]]: tensor<2x3xi32> {tfm.name = "tokens"}
// CHECK-SAME: %[[AT:.*]]: tensor<2xi32> {tfm.name = "position"}
// CHECK-SAME: tensor<2xi32> {tfm.name = "length"}
// CHECK-SAME: tensor<2xi32> {tfm.name = "row", tfm.row}
// CHECK-SAME: %[[K0:.*]]: tensor<1x2x16x4xf32> {tfm.region = "cache.0", tfm.segment = 0 : i64}
// CHECK-SAME: %[[V0:.*]]: tensor<1x2x16x4xf32> {tfm.region = "cache.1", tfm.segment = 0 : i64}
// CHECK-SAME: %[[K1:.*]]: tensor<1x2x16x4xf32> {tfm.region = "cache.0", tfm.segment = 1 : i64}
// CHECK-SAME: %[[V1:.*]]: tensor<1x2x16x4xf32> {tfm.region = "cache.1", tfm.segment = 1 : i64}
// CHECK: %[[ONE:.*]] = tfm.reshape %[[TOKENS]] : tensor<2x3xi32> to tensor<1x6xi32>
// CHECK: tfm.gather %{{.*}}, %[[ONE]]
// CHECK: %[[NEW0:.*]] = tfm.cache_update %[[K0]]
// CHECK: tfm.cache_update %[[V0]]
// CHECK: %[[OTHER:.*]] = tfm.slice %{{.*}} axis 2 start 3 size 3
// CHECK: %[[START:.*]] = tfm.slice %[[AT]] axis 0 start 1 size 1
// CHECK: %[[NEW1:.*]] = tfm.cache_update %[[K1]], %[[OTHER]], %[[START]]
// CHECK: tfm.cache_update %[[V1]]
// CHECK: %[[OUT0:.*]], %{{.*}} = tfm.attention %{{.*}}, %[[NEW0]]
// CHECK: %[[OUT1:.*]], %{{.*}} = tfm.attention %{{.*}}, %[[NEW1]]
// CHECK: %[[T0:.*]] = tfm.transpose %[[OUT0]] [0, 2, 1, 3]
// CHECK: %[[T1:.*]] = tfm.transpose %[[OUT1]] [0, 2, 1, 3]
// CHECK: tfm.concat %[[T0]], %[[T1]] axis 1
// CHECK: return %{{.*}} : tensor<2x8xf32>,
// CHECK-LABEL: func.func @decode
func.func @forward(%tokens: tensor<1x16xi32> {tfm.name = "tokens"}) -> tensor<1x16x8xf32> {
  %table = tfm.get_param @"t" : tensor<8x8xf32>
  %x = tfm.gather %table, %tokens : tensor<8x8xf32>, tensor<1x16xi32>
  %r = tfm.reshape %x : tensor<1x16x8xf32> to tensor<1x16x2x4xf32>
  %q = tfm.transpose %r [0, 2, 1, 3] : tensor<1x16x2x4xf32>
  %o, %lse = tfm.attention %q, %q, %q {causal, scale = 0.5 : f64}
      : tensor<1x2x16x4xf32>, tensor<1x2x16x4xf32>, tensor<1x2x16x4xf32>
  %t = tfm.transpose %o [0, 2, 1, 3] : tensor<1x2x16x4xf32>
  %y = tfm.reshape %t : tensor<1x16x2x4xf32> to tensor<1x16x8xf32>
  return %y : tensor<1x16x8xf32>
}
func.func @forward_batch(%tokens: tensor<3x16xi32> {tfm.name = "tokens"}) -> tensor<3x16x8xf32> {
  %table = tfm.get_param @"t" : tensor<8x8xf32>
  %x = tfm.gather %table, %tokens : tensor<8x8xf32>, tensor<3x16xi32>
  %r = tfm.reshape %x : tensor<3x16x8xf32> to tensor<3x16x2x4xf32>
  %q = tfm.transpose %r [0, 2, 1, 3] : tensor<3x16x2x4xf32>
  %o, %lse = tfm.attention %q, %q, %q {causal, scale = 0.5 : f64}
      : tensor<3x2x16x4xf32>, tensor<3x2x16x4xf32>, tensor<3x2x16x4xf32>
  %t = tfm.transpose %o [0, 2, 1, 3] : tensor<3x2x16x4xf32>
  %y = tfm.reshape %t : tensor<3x16x2x4xf32> to tensor<3x16x8xf32>
  return %y : tensor<3x16x8xf32>
}
tfm.param @"t" : tensor<8x8xf32> {init = {kind = "zeros"}}
