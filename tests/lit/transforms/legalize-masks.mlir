// RUN: tfm-opt %s --tfm-legalize-for-kernels | FileCheck %s

// What a float mask adds is no less than kernels add up, but for what is
// minus infinity: that looks nowhere, and stays.
// CHECK-LABEL: func.func @mask(
// CHECK-SAME: %[[M:[a-z0-9]*]]: tensor<1x1x8x8xf32>
// CHECK: %[[INF:.*]] = tfm.constant dense<0xFF800000>
// CHECK: %[[NOTHING:.*]] = tfm.compare eq %[[M]], %[[INF]]
// CHECK: %[[LEAST:.*]] = tfm.constant dense<-1.638400e+04>
// CHECK: %[[LIMITED:.*]] = tfm.max %[[M]], %[[LEAST]]
// CHECK: %[[S:.*]] = tfm.select %[[NOTHING]], %[[M]], %[[LIMITED]]
// CHECK: tfm.attention %{{.*}} mask %[[S]]
func.func @mask(%m: tensor<1x1x8x8xf32>, %q: tensor<1x2x8x4xf32>) -> tensor<1x2x8x4xf32> {
  %o, %l = tfm.attention %q, %q, %q mask %m {scale = 0.5 : f64}
    : tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x1x8x8xf32>
  return %o : tensor<1x2x8x4xf32>
}

// A mask of bits says where to look, and is none of that.
// CHECK-LABEL: func.func @bits(
// CHECK-NOT: tfm.select
// CHECK: return
func.func @bits(%m: tensor<1x1x8x8xi1>, %q: tensor<1x2x8x4xf32>) -> tensor<1x2x8x4xf32> {
  %o, %l = tfm.attention %q, %q, %q mask %m {scale = 0.5 : f64}
    : tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x1x8x8xi1>
  return %o : tensor<1x2x8x4xf32>
}
