// RUN: sed -e 's/TYPE/int8/' %s | tfm-opt --tfm-quantise-cache | FileCheck %s
// RUN: sed -e 's/TYPE/bf16/' %s | tfm-opt --tfm-quantise-cache | FileCheck %s --check-prefix=OTHERS
// RUN: sed -e 's/TYPE/int8/' %s | tfm-opt --tfm-quantise-cache --tfm-derive-decode="chunk=2" | FileCheck %s --check-prefix=DECODE

// OTHERS-NOT: i8>
// OTHERS: return

module attributes {tfm.recipe = "{\"generate\": {\"weights\": \"f32\", \"cache\": \"TYPE\"}}"} {
  // Keys and values become rows of integers, each with its scale; queries and
  // results stay floats.
  // CHECK-LABEL: @forward
  // CHECK: %[[Q:.*]] = tfm.gather
  // CHECK: %[[A:.*]] = tfm.abs %[[X:.*]] : tensor<1x2x8x4xf32>
  // CHECK: tfm.reduce_max %[[A]] axis 3
  // CHECK: %[[KS:.*]] = tfm.mul %{{.*}} : tensor<1x2x8x1xf32>
  // CHECK: %[[K:.*]] = tfm.cast %{{.*}} : tensor<1x2x8x4xf32> to tensor<1x2x8x4xi8>
  // CHECK: %[[VS:.*]] = tfm.mul %{{.*}} : tensor<1x2x8x1xf32>
  // CHECK: %[[V:.*]] = tfm.cast %{{.*}} : tensor<1x2x8x4xf32> to tensor<1x2x8x4xi8>
  // CHECK: tfm.attention %[[X]], %[[K]], %[[V]] scales(%[[KS]], %[[VS]] : tensor<1x2x8x1xf32>, tensor<1x2x8x1xf32>)

  // The caches are of both.
  // DECODE-LABEL: @decode
  // DECODE-SAME: %[[AT:[a-z0-9]+]]: tensor<1xi32> {tfm.name = "position"}
  // DECODE-SAME: %[[K:[a-z0-9]+]]: tensor<1x2x8x4xi8> {tfm.region = "cache.0"}
  // DECODE-SAME: %[[V:[a-z0-9]+]]: tensor<1x2x8x4xi8> {tfm.region = "cache.1"}
  // DECODE-SAME: %[[KS:[a-z0-9]+]]: tensor<1x2x8x1xf32> {tfm.region = "cache.2"}
  // DECODE-SAME: %[[VS:[a-z0-9]+]]: tensor<1x2x8x1xf32> {tfm.region = "cache.3"}
  // DECODE: %[[KEYS:.*]] = tfm.cache_update %[[K]], %{{.*}}, %[[AT]] : tensor<1x2x8x4xi8>, tensor<1x2x1x4xi8>
  // DECODE: %[[VALUES:.*]] = tfm.cache_update %[[V]]
  // DECODE: %[[KEYSCALES:.*]] = tfm.cache_update %[[KS]], %{{.*}}, %[[AT]] : tensor<1x2x8x1xf32>, tensor<1x2x1x1xf32>
  // DECODE: %[[VALUESCALES:.*]] = tfm.cache_update %[[VS]]
  // DECODE: tfm.attention %{{.*}}, %[[KEYS]], %[[VALUES]] start(%[[AT]] : tensor<1xi32>) scales(%[[KEYSCALES]], %[[VALUESCALES]] : {{.*}}) {causal
  // DECODE: return %{{.*}}, %[[KEYS]], %[[VALUES]], %[[KEYSCALES]], %[[VALUESCALES]]
  func.func @forward(%tokens: tensor<1x8xi32> {tfm.name = "tokens"}) -> tensor<1x8x8xf32> {
    %t = tfm.constant dense<0.5> : tensor<9x8xf32>
    %x = tfm.gather %t, %tokens : tensor<9x8xf32>, tensor<1x8xi32>
    %r = tfm.reshape %x : tensor<1x8x8xf32> to tensor<1x8x2x4xf32>
    %q = tfm.transpose %r [0, 2, 1, 3] : tensor<1x8x2x4xf32>
    %out, %lse = tfm.attention %q, %q, %q {causal, scale = 0.5 : f64} : tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>
    %o = tfm.transpose %out [0, 2, 1, 3] : tensor<1x2x8x4xf32>
    %y = tfm.reshape %o : tensor<1x8x2x4xf32> to tensor<1x8x8xf32>
    return %y : tensor<1x8x8xf32>
  }

  // Training and evaluation know no cache.
  // CHECK-LABEL: @loss
  // CHECK-NOT: i8>
  // CHECK: return
  func.func @loss(%q: tensor<1x1x4x8xf32>) -> tensor<1x1x4x8xf32> {
    %out, %lse = tfm.attention %q, %q, %q {causal, scale = 0.5 : f64} : tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>
    return %out : tensor<1x1x4x8xf32>
  }
}
