// RUN: tfm-opt %s -split-input-file -verify-diagnostics | FileCheck %s

// CHECK-LABEL: @write
// CHECK: tfm.cache_update %{{.*}}, %{{.*}}, %{{.*}} : tensor<2x4x64x16xf32>, tensor<2x4x3x16xf32>, tensor<2xi32>
func.func @write(%base: tensor<2x4x64x16xf32>, %new: tensor<2x4x3x16xf32>, %at: tensor<2xi32>) -> tensor<2x4x64x16xf32> {
  %y = tfm.cache_update %base, %new, %at : tensor<2x4x64x16xf32>, tensor<2x4x3x16xf32>, tensor<2xi32>
  return %y : tensor<2x4x64x16xf32>
}

// -----

func.func @heads(%base: tensor<2x4x64x16xf32>, %new: tensor<2x3x1x16xf32>, %at: tensor<2xi32>) -> tensor<2x4x64x16xf32> {
  // expected-error@+1 {{expected base [B, heads, S, d], updates [B, heads, T, d], positions [B]}}
  %y = tfm.cache_update %base, %new, %at : tensor<2x4x64x16xf32>, tensor<2x3x1x16xf32>, tensor<2xi32>
  return %y : tensor<2x4x64x16xf32>
}
