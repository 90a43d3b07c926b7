// RUN: sed -e 's/TYPE/bf16/' %s | tfm-opt --tfm-mixed-precision | FileCheck %s
// RUN: sed -e 's/TYPE/f32/' %s | tfm-opt --tfm-mixed-precision | FileCheck %s --check-prefix=WIDE
// RUN: sed -e 's/TYPE/bf16/' %s | tfm-opt --tfm-mixed-precision --tfm-derive-decode | FileCheck %s --check-prefix=DECODE
// RUN: sed -e 's/TYPE/f8/' %s | not tfm-opt --tfm-mixed-precision 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// WIDE-NOT: bf16{{[^\\]}}
// UNKNOWN: error: the recipe's generate.cache takes `f32`, `bf16` or `int8`

module attributes {tfm.recipe = "{\"generate\": {\"weights\": \"f32\", \"cache\": \"TYPE\"}}"} {
  // What generation attends to is kept in half the bytes; products stay those
  // of f32.
  // CHECK-LABEL: @forward
  // CHECK: tfm.matmul %{{.*}}, %{{.*}} : tensor<4x8xf32>, tensor<8x8xf32>
  // CHECK: tfm.attention %{{.*}} : tensor<1x1x4x8xbf16>, tensor<1x1x4x8xbf16>, tensor<1x1x4x8xbf16>
  // CHECK: tfm.cast %{{.*}} : tensor<1x1x4x8xbf16> to tensor<1x1x4x8xf32>
  // DECODE-LABEL: @decode
  // DECODE-SAME: tensor<1x1x4x8xbf16> {tfm.region = "cache.0"}
  func.func @forward(%tokens: tensor<1x4xi32> {tfm.name = "tokens"}) -> tensor<1x4x8xf32> {
    %t = tfm.constant dense<0.5> : tensor<9x8xf32>
    %x = tfm.gather %t, %tokens : tensor<9x8xf32>, tensor<1x4xi32>
    %w = tfm.constant dense<0.25> : tensor<8x8xf32>
    %rows = tfm.reshape %x : tensor<1x4x8xf32> to tensor<4x8xf32>
    %p = tfm.matmul %rows, %w : tensor<4x8xf32>, tensor<8x8xf32>
    %q = tfm.reshape %p : tensor<4x8xf32> to tensor<1x1x4x8xf32>
    %out, %lse = tfm.attention %q, %q, %q {causal, scale = 0.5 : f64} : tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>
    %y = tfm.reshape %out : tensor<1x1x4x8xf32> to tensor<1x4x8xf32>
    return %y : tensor<1x4x8xf32>
  }

  // Training and evaluation know no cache.
  // CHECK-LABEL: @loss
  // CHECK-NOT: bf16
  // CHECK: return
  func.func @loss(%q: tensor<1x1x4x8xf32>) -> tensor<1x1x4x8xf32> {
    %out, %lse = tfm.attention %q, %q, %q {causal, scale = 0.5 : f64} : tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>
    return %out : tensor<1x1x4x8xf32>
  }
}
