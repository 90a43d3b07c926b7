// RUN: tfm-opt %s --cuda-inner-products | FileCheck %s

// What each query's output and its cotangent have in common is summed up once,
// in f32, for the kernel that needs it for every tile of keys.
// CHECK-LABEL: func.func @backward
// CHECK-SAME: %[[OUT:[a-z0-9]+]]: tensor<2x4x8x16xbf16>, %[[LSE:[a-z0-9]+]]: tensor<2x4x8xf32>, %[[DOUT:[a-z0-9]+]]: tensor<2x4x8x16xbf16>)
// CHECK-DAG: %[[X:.*]] = tfm.cast %[[OUT]] : tensor<2x4x8x16xbf16> to tensor<2x4x8x16xf32>
// CHECK-DAG: %[[Y:.*]] = tfm.cast %[[DOUT]] : tensor<2x4x8x16xbf16> to tensor<2x4x8x16xf32>
// CHECK: %[[PRODUCTS:.*]] = tfm.mul %[[X]], %[[Y]]
// CHECK: %[[SUMS:.*]] = tfm.reduce_sum %[[PRODUCTS]]
// CHECK: %[[INNER:.*]] = tfm.reshape %[[SUMS]]
// CHECK: tfm.attention_backward {{.*}} inner(%[[INNER]] : tensor<2x4x8xf32>)
func.func @backward(%q: tensor<2x4x8x16xbf16>, %k: tensor<2x4x8x16xbf16>, %v: tensor<2x4x8x16xbf16>,
                    %out: tensor<2x4x8x16xbf16>, %lse: tensor<2x4x8xf32>, %dout: tensor<2x4x8x16xbf16>)
    -> (tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>) {
  %dq, %dk, %dv = tfm.attention_backward %q, %k, %v, %out, %lse, %dout {causal, scale = 0.25 : f64}
      : (tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>,
         tensor<2x4x8xf32>, tensor<2x4x8x16xbf16>)
      -> (tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>)
  return %dq, %dk, %dv : tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>
}
