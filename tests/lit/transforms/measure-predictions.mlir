// RUN: tfm-opt %s -split-input-file -tfm-measure-predictions | FileCheck %s
// RUN: tfm-opt %s -split-input-file -tfm-measure-predictions -tfm-chunk-loss=evaluated=64 | FileCheck %s --check-prefix=CHUNKS

// CHECK-LABEL: func.func @evaluate
// CHECK-SAME: -> (tensor<f32>, tensor<4x64xf32>, tensor<4x64xf32> {tfm.name = "right"}) {
// CHECK: %{{.*}}, %[[I:.*]] = tfm.top_k %{{.*}}, 1 : tensor<4x64x50xf32>
// CHECK: %[[BEST:.*]] = tfm.reshape %[[I]] : tensor<4x64x1xi32> to tensor<4x64xi32>
// CHECK: %[[IS:.*]] = tfm.compare eq %[[BEST]], %[[T:.*]] : tensor<4x64xi32>
// CHECK: %[[R:.*]] = tfm.cast %[[IS]] : tensor<4x64xi1> to tensor<4x64xf32>
// CHECK: return %{{.*}}, %{{.*}}, %[[R]]

// The logits of 64 rows at a time; what is chosen is compared behind the loop.
// CHUNKS-LABEL: func.func @evaluate
// CHUNKS: %[[L:.*]]:2 = tfm.repeat 4 carried() stacked({{.*}}) shared({{.*}}) -> (tensor<4x64xf32>, tensor<4x64x1xi32>)
// CHUNKS: tfm.matmul %{{.*}} : tensor<64x8xf32>, tensor<50x8xf32>
// CHUNKS: tfm.cross_entropy %{{.*}} : tensor<64x50xf32>, tensor<64xi32>
// CHUNKS: tfm.top_k %{{.*}}, 1 : tensor<64x50xf32>
// CHUNKS: tfm.yield
// CHUNKS: tfm.compare eq
module {
  func.func @evaluate(%x: tensor<256x8xf32>, %w: tensor<50x8xf32>, %targets: tensor<4x64xi32>, %count: tensor<f32>) -> (tensor<f32>, tensor<4x64xf32>) {
    %l = tfm.matmul %x, %w transpose_b : tensor<256x8xf32>, tensor<50x8xf32>
    %logits = tfm.reshape %l : tensor<256x50xf32> to tensor<4x64x50xf32>
    %losses, %lse = tfm.cross_entropy %logits, %targets : tensor<4x64x50xf32>, tensor<4x64xi32>
    return %count, %losses : tensor<f32>, tensor<4x64xf32>
  }
}

// -----

// What the losses would be without smoothing, too.
// CHECK-LABEL: func.func @evaluate
// CHECK-SAME: tensor<8xf32> {tfm.name = "right"}, tensor<8xf32> {tfm.name = "surprisals"})
// CHECK: %[[S:.*]], %{{.*}} = tfm.cross_entropy %{{.*}} {ignore = 3 : i64} :
// CHECK: return %{{.*}}, %{{.*}}, %{{.*}}, %[[S]]
module {
  func.func @evaluate(%logits: tensor<8x50xf32>, %targets: tensor<8xi32>, %count: tensor<f32>) -> (tensor<f32>, tensor<8xf32>) {
    %losses, %lse = tfm.cross_entropy %logits, %targets {ignore = 3 : i64, label_smoothing = 0.1 : f64} : tensor<8x50xf32>, tensor<8xi32>
    return %count, %losses : tensor<f32>, tensor<8xf32>
  }
}

// -----

// A loss of the model's own may be of other logits.
// CHECK-LABEL: func.func @evaluate
// CHECK-NOT: tfm.top_k
module {
  func.func @evaluate(%logits: tensor<8x50xf32>, %targets: tensor<8xi32>, %count: tensor<f32>) -> (tensor<f32>, tensor<8xf32>) {
    %losses, %lse = tfm.cross_entropy %logits, %targets : tensor<8x50xf32>, tensor<8xi32>
    %twice = tfm.add %losses, %losses : tensor<8xf32>
    return %count, %twice : tensor<f32>, tensor<8xf32>
  }
}
