// RUN: tfm-opt %s -split-input-file -tfm-derive-decode="chunk=2" | FileCheck %s

// What depends on the source alone is computed once, of each layer, too: here
// the sum of its own number and the source's. The mask is copied anew.
// CHECK-LABEL: func.func @decode
// CHECK-SAME: %{{.*}}: tensor<1x1xi32> {tfm.name = "tokens"}
// CHECK-SAME: tensor<1xi32> {tfm.name = "position"}
// CHECK-SAME: %[[MASK:.*]]: tensor<1x1x1x3xf32> {tfm.region = "cache.0"}
// CHECK-SAME: %[[SUMS:.*]]: tensor<2x1x1x1x3xf32> {tfm.region = "cache.1"}
// CHECK-NOT: tfm.matmul
// CHECK: tfm.repeat 2 carried({{.*}}) stacked({{.*}}%[[SUMS]]
// CHECK: tfm.attention
// CHECK-LABEL: func.func @encode
// CHECK-SAME: %[[SOURCE:.*]]: tensor<1x3xi32> {tfm.name = "source"}
// CHECK-SAME: %[[PRESENT:.*]]: tensor<1x3xi1> {tfm.name = "present"}
// CHECK-SAME: -> (tensor<1x1x1x3xf32> {tfm.region = "cache.0"}, tensor<2x1x1x1x3xf32> {tfm.region = "cache.1"})
// CHECK: tfm.cast
// CHECK: %[[LAYERS:.*]] = tfm.repeat 2 carried() stacked({{.*}}) shared(
// CHECK: tfm.add
// CHECK-NOT: tfm.attention
// CHECK: return %{{.*}}, %[[LAYERS]]
// CHECK-NOT: @forward_encoded
func.func @forward(%source: tensor<1x3xi32> {tfm.name = "source"}, %present: tensor<1x3xi1> {tfm.name = "present"},
                   %tokens: tensor<1x4xi32> {tfm.name = "tokens"}) -> tensor<1x4x1xf32> {
  %m = tfm.reshape %present : tensor<1x3xi1> to tensor<1x1x1x3xi1>
  %s = tfm.cast %source : tensor<1x3xi32> to tensor<1x3xf32>
  %t = tfm.cast %tokens : tensor<1x4xi32> to tensor<1x4xf32>
  %x = tfm.reshape %t : tensor<1x4xf32> to tensor<1x1x4x1xf32>
  %w = tfm.get_param @"w" : tensor<2xf32>
  %y = tfm.repeat 2 carried(%x : tensor<1x1x4x1xf32>) stacked(%w : tensor<2xf32>)
      shared(%s, %m : tensor<1x3xf32>, tensor<1x1x1x3xi1>) -> (tensor<1x1x4x1xf32>) {
  ^bb0(%layer: index, %q: tensor<1x1x4x1xf32>, %own: tensor<f32>, %of: tensor<1x3xf32>, %there: tensor<1x1x1x3xi1>):
    %own3 = tfm.broadcast %own : tensor<f32> to tensor<1x3xf32>
    %sum = tfm.add %of, %own3 : tensor<1x3xf32>
    %k = tfm.reshape %sum : tensor<1x3xf32> to tensor<1x1x3x1xf32>
    %mask = tfm.broadcast %there : tensor<1x1x1x3xi1> to tensor<1x1x4x3xi1>
    %o, %lse = tfm.attention %q, %k, %k mask %mask {scale = 1.0 : f64}
        : tensor<1x1x4x1xf32>, tensor<1x1x3x1xf32>, tensor<1x1x3x1xf32>, tensor<1x1x4x3xi1>
    tfm.yield %o : tensor<1x1x4x1xf32>
  }
  %l = tfm.reshape %y : tensor<1x1x4x1xf32> to tensor<1x4x1xf32>
  return %l : tensor<1x4x1xf32>
}
tfm.param @"w" : tensor<2xf32> {init = {kind = "zeros"}}

// -----

// Without a source `present` is an input like others.
// CHECK: tfm.whole_sequence = "{{.*}}an input other than tokens [B, T]"
// CHECK-NOT: @encode
func.func @forward(%tokens: tensor<1x4xi32> {tfm.name = "tokens"}, %present: tensor<1x4xi1> {tfm.name = "present"}) -> tensor<1x4x1xf32> {
  %t = tfm.cast %tokens : tensor<1x4xi32> to tensor<1x4xf32>
  %l = tfm.reshape %t : tensor<1x4xf32> to tensor<1x4x1xf32>
  return %l : tensor<1x4x1xf32>
}
