// RUN: sed -e 's/TYPE/int8/' %s | tfm-opt --tfm-store-weights | FileCheck %s
// RUN: sed -e 's/TYPE/int8/' %s | tfm-opt --tfm-store-weights="panel-outputs=32 panel-terms=1024" | FileCheck %s --check-prefix=PANELS
// RUN: sed -e 's/TYPE/int4/' %s | tfm-opt --tfm-store-weights | FileCheck %s --check-prefix=INT4
// RUN: sed -e 's/TYPE/bf16/' %s | tfm-opt --tfm-store-weights | FileCheck %s --check-prefix=BF16
// RUN: sed -e 's/TYPE/bf16/' %s | tfm-opt --tfm-store-weights=by-outputs | FileCheck %s --check-prefix=OUTPUTS
// RUN: sed -e 's/TYPE/f32/' %s | tfm-opt --tfm-store-weights | FileCheck %s --check-prefix=F32
// RUN: sed -e 's/TYPE/int3/' %s | not tfm-opt --tfm-store-weights 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// UNKNOWN: error: the recipe's generate.weights takes `f32`, `bf16`, `int8` or `int4`

module attributes {tfm.recipe = "{\"generate\": {\"weights\": \"TYPE\"}}"} {
  // Columns are outputs: the terms of each are stored beside each other. In
  // other types nothing moves.
  // CHECK: tfm.param @"h.*.w" : tensor<3x16x8xi8>
  // CHECK-SAME: output_axis = 1 : i64
  // CHECK-SAME: scale = @"h.*.w.scale"
  // CHECK: tfm.param @"h.*.w.scale" : tensor<3x16xf32>
  // CHECK-SAME: trainable = false
  // Or in panels of so many outputs, the last of which is not full.
  // PANELS: tfm.param @"h.*.w" : tensor<3x1x2x32x4xi8>
  // PANELS-SAME: output_axis = 1 : i64
  // PANELS-SAME: terms = 8 : i64
  // PANELS: tfm.param @"h.*.w.scale" : tensor<3x16xf32>
  // Two integers are a byte, of groups of 32 terms: the others of the one group
  // here are zeros.
  // INT4: tfm.param @"h.*.w" : tensor<3x16x16xi8>
  // INT4-SAME: minimum = @"h.*.w.minimum"
  // INT4-SAME: output_axis = 1 : i64
  // INT4-SAME: scale = @"h.*.w.scale"
  // INT4-SAME: terms = 8 : i64
  // INT4: tfm.param @"h.*.w.scale" : tensor<3x16x1xbf16>
  // INT4: tfm.param @"h.*.w.minimum" : tensor<3x16x1xbf16>
  // BF16: tfm.param @"h.*.w" : tensor<3x8x16xbf16> {{.*}}output_axis = 1 : i64
  // BF16-NOT: .scale
  // But where the target reads those of bf16 by outputs, too.
  // OUTPUTS: tfm.param @"h.*.w" : tensor<3x16x8xbf16> {{.*}}output_axis = 1 : i64, transposed}
  // F32: tfm.param @"h.*.w" : tensor<3x8x16xf32> {{.*}}output_axis = 1 : i64
  // F32-NOT: scale
  tfm.param @"h.*.w" : tensor<3x8x16xf32> {init = {kind = "zeros"}}
  // CHECK: tfm.param @table : tensor<5x8xi8> {{.*}}output_axis = 0
  tfm.param @table : tensor<5x8xf32> {init = {kind = "zeros"}}
  // A bias has no terms, and what else reads, or reads along both axes, stays.
  // CHECK: tfm.param @bias : tensor<16xf32>
  // CHECK-NOT: output_axis
  // CHECK: tfm.param @normed : tensor<8x8xf32>
  // CHECK-NOT: output_axis
  // CHECK: tfm.param @both : tensor<8x8xf32>
  // CHECK-NOT: output_axis
  // CHECK: tfm.param @first : tensor<8x8xf32>
  // CHECK-NOT: output_axis
  tfm.param @bias : tensor<16xf32> {init = {kind = "zeros"}}
  tfm.param @normed : tensor<8x8xf32> {init = {kind = "zeros"}}
  tfm.param @both : tensor<8x8xf32> {init = {kind = "zeros"}}
  tfm.param @first : tensor<8x8xf32> {init = {kind = "zeros"}}
  // CHECK: tfm.param @experts : tensor<2x4x8xi8>
  // CHECK: tfm.param @experts.scale : tensor<2x4xf32>
  tfm.param @experts : tensor<2x8x4xf32> {init = {kind = "zeros"}}

  // A layer's weight and its scales come into the repeat, and the products are
  // scaled: no weight is made of them.
  // CHECK-LABEL: @layers
  // CHECK: %[[W:.*]] = tfm.get_param @"h.*.w" : tensor<3x16x8xi8>
  // CHECK: %[[S:.*]] = tfm.get_param @"h.*.w.scale" : tensor<3x16xf32>
  // CHECK: tfm.repeat 3 carried(%{{.*}}) stacked(%[[W]], %[[S]] : tensor<3x16x8xi8>, tensor<3x16xf32>)
  // CHECK: ^bb0(%{{.*}}: index, %[[X:.*]]: tensor<4x8xf32>, %[[Q:.*]]: tensor<16x8xi8>, %[[SCALE:.*]]: tensor<16xf32>):
  // CHECK: %[[Y:.*]] = tfm.matmul %[[X]], %[[Q]] transpose_b : tensor<4x8xf32>, tensor<16x8xi8>
  // CHECK: %[[R:.*]] = tfm.reshape %[[SCALE]] : tensor<16xf32> to tensor<1x16xf32>
  // CHECK: %[[B:.*]] = tfm.broadcast %[[R]] : tensor<1x16xf32> to tensor<4x16xf32>
  // CHECK: tfm.mul %[[Y]], %[[B]]
  // PANELS-LABEL: @layers
  // PANELS: %[[W:.*]] = tfm.unpack %{{.*}} : tensor<1x2x32x4xi8> to tensor<16x8xi8>
  // PANELS: tfm.matmul %{{.*}}, %[[W]] transpose_b : tensor<4x8xf32>, tensor<16x8xi8>
  // INT4-LABEL: @layers
  // INT4: %[[W:.*]] = tfm.get_param @"h.*.w" : tensor<3x16x16xi8>
  // INT4: %[[S:.*]] = tfm.get_param @"h.*.w.scale"
  // INT4: %[[M:.*]] = tfm.get_param @"h.*.w.minimum"
  // INT4: tfm.repeat 3 carried(%{{.*}}) stacked(%[[W]], %[[S]], %[[M]] :
  // INT4: ^bb0(%{{.*}}: index, %[[X:.*]]: tensor<4x8xf32>, %[[Q:.*]]: tensor<16x16xi8>, %[[SCALE:.*]]: tensor<16x1xbf16>, %[[MIN:.*]]: tensor<16x1xbf16>):
  // INT4: %[[D:.*]] = tfm.dequantise %[[Q]], %[[SCALE]], %[[MIN]] : tensor<16x16xi8>, tensor<16x1xbf16> to tensor<16x8xf32>
  // INT4: tfm.matmul %[[X]], %[[D]] transpose_b : tensor<4x8xf32>, tensor<16x8xf32>
  // BF16-LABEL: @layers
  // BF16: ^bb0(%{{.*}}: index, %[[X:.*]]: tensor<4x8xf32>, %[[Q:.*]]: tensor<8x16xbf16>):
  // BF16: %[[W:.*]] = tfm.cast %[[Q]] : tensor<8x16xbf16> to tensor<8x16xf32>
  // BF16: tfm.matmul %[[X]], %[[W]] : tensor<4x8xf32>, tensor<8x16xf32>
  // OUTPUTS-LABEL: @layers
  // OUTPUTS: ^bb0(%{{.*}}: index, %[[X:.*]]: tensor<4x8xf32>, %[[Q:.*]]: tensor<16x8xbf16>):
  // OUTPUTS: %[[W:.*]] = tfm.cast %[[Q]] : tensor<16x8xbf16> to tensor<16x8xf32>
  // OUTPUTS: tfm.matmul %[[X]], %[[W]] transpose_b : tensor<4x8xf32>, tensor<16x8xf32>
  func.func @layers(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %w = tfm.get_param @"h.*.w" : tensor<3x8x16xf32>
    %y = tfm.repeat 3 carried(%x : tensor<4x8xf32>) stacked(%w : tensor<3x8x16xf32>) shared() -> (tensor<4x8xf32>) {
    ^bb0(%layer: index, %in: tensor<4x8xf32>, %own: tensor<8x16xf32>):
      %p = tfm.matmul %in, %own : tensor<4x8xf32>, tensor<8x16xf32>
      %h = tfm.slice %p axis 1 start 0 size 8 : tensor<4x16xf32>
      tfm.yield %h : tensor<4x8xf32>
    }
    return %y : tensor<4x8xf32>
  }

  // Where turns choose a layer, its scales are chosen, too.
  // CHECK-LABEL: @chosen
  // CHECK: tfm.repeat 5 carried(%{{.*}}) stacked(%{{.*}} : tensor<5x8xf32>, tensor<3x16x8xi8>, tensor<3x16xf32>) shared() order(%{{.*}} : tensor<5xi32>) chosen 2
  // CHECK: ^bb0(%{{.*}}: index, %{{.*}}: tensor<4x8xf32>, %{{.*}}: tensor<8xf32>, %{{.*}}: tensor<16x8xi8>, %{{.*}}: tensor<16xf32>):
  func.func @chosen(%x: tensor<4x8xf32>, %gain: tensor<5x8xf32>, %o: tensor<5xi32>) -> tensor<4x8xf32> {
    %w = tfm.get_param @"h.*.w" : tensor<3x8x16xf32>
    %y = tfm.repeat 5 carried(%x : tensor<4x8xf32>) stacked(%gain, %w : tensor<5x8xf32>, tensor<3x8x16xf32>) shared()
        order(%o : tensor<5xi32>) chosen 1 -> (tensor<4x8xf32>) {
    ^bb0(%turn: index, %in: tensor<4x8xf32>, %g: tensor<8xf32>, %own: tensor<8x16xf32>):
      %p = tfm.matmul %in, %own : tensor<4x8xf32>, tensor<8x16xf32>
      %h = tfm.slice %p axis 1 start 0 size 8 : tensor<4x16xf32>
      %gains = tfm.broadcast %g : tensor<8xf32> to tensor<4x8xf32>
      %z = tfm.mul %h, %gains : tensor<4x8xf32>
      tfm.yield %z : tensor<4x8xf32>
    }
    return %y : tensor<4x8xf32>
  }

  // A head that is tied to the embedding: both have the scale of a token.
  // CHECK-LABEL: @tied
  // CHECK: %[[T:.*]] = tfm.get_param @table : tensor<5x8xi8>
  // CHECK: %[[S:.*]] = tfm.get_param @table.scale : tensor<5xf32>
  // CHECK: %[[ROWS:.*]] = tfm.gather %[[T]], %[[IDS:.*]] : tensor<5x8xi8>, tensor<4xi32>
  // CHECK: %[[WIDE:.*]] = tfm.cast %[[ROWS]] : tensor<4x8xi8> to tensor<4x8xf32>
  // CHECK: %[[EACH:.*]] = tfm.gather %[[S]], %[[IDS]] : tensor<5xf32>, tensor<4xi32>
  // CHECK: %[[X:.*]] = tfm.mul %[[WIDE]], %{{.*}} : tensor<4x8xf32>
  // CHECK-NOT: tfm.transpose
  // CHECK: tfm.matmul %[[X]], %[[T]] transpose_b : tensor<4x8xf32>, tensor<5x8xi8>
  // INT4-LABEL: @tied
  // INT4: %[[D:.*]] = tfm.dequantise %[[T:.*]], %[[S:.*]], %[[M:.*]] : tensor<5x16xi8>, tensor<5x1xbf16> to tensor<5x8xf32>
  // INT4: %[[X:.*]] = tfm.gather %[[D]], %{{.*}} : tensor<5x8xf32>, tensor<4xi32>
  // INT4-NOT: tfm.transpose
  // INT4: %[[E:.*]] = tfm.dequantise %[[T]], %[[S]], %[[M]]
  // INT4: tfm.matmul %[[X]], %[[E]] transpose_b : tensor<4x8xf32>, tensor<5x8xf32>
  func.func @tied(%ids: tensor<4xi32>) -> tensor<4x5xf32> {
    %t = tfm.get_param @table : tensor<5x8xf32>
    %x = tfm.gather %t, %ids : tensor<5x8xf32>, tensor<4xi32>
    %head = tfm.transpose %t [1, 0] : tensor<5x8xf32>
    %y = tfm.matmul %x, %head : tensor<4x8xf32>, tensor<8x5xf32>
    return %y : tensor<4x5xf32>
  }

  // CHECK-LABEL: @others
  // CHECK-NOT: i8
  // CHECK: return
  func.func @others(%x: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
    %n = tfm.get_param @normed : tensor<8x8xf32>
    %a = tfm.matmul %x, %n : tensor<8x8xf32>, tensor<8x8xf32>
    %b = tfm.mul %a, %n : tensor<8x8xf32>
    %t = tfm.get_param @both : tensor<8x8xf32>
    %c = tfm.matmul %x, %t : tensor<8x8xf32>, tensor<8x8xf32>
    %d = tfm.matmul %x, %t transpose_b : tensor<8x8xf32>, tensor<8x8xf32>
    %f = tfm.get_param @first : tensor<8x8xf32>
    %e = tfm.matmul %f, %x : tensor<8x8xf32>, tensor<8x8xf32>
    return %b, %c, %d, %e : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
  }

  // A matrix for each of a batch has outputs of its own.
  // CHECK-LABEL: @batch
  // CHECK: %[[Y:.*]] = tfm.matmul %{{.*}}, %{{.*}} transpose_b : tensor<2x3x8xf32>, tensor<2x4x8xi8>
  // CHECK: tfm.reshape %{{.*}} : tensor<2x4xf32> to tensor<2x1x4xf32>
  // INT4-LABEL: @batch
  // INT4: tfm.matmul %{{.*}}, %{{.*}} transpose_b : tensor<2x3x8xf32>, tensor<2x4x8xf32>
  func.func @batch(%x: tensor<2x3x8xf32>) -> tensor<2x3x4xf32> {
    %w = tfm.get_param @experts : tensor<2x8x4xf32>
    %y = tfm.matmul %x, %w : tensor<2x3x8xf32>, tensor<2x8x4xf32>
    return %y : tensor<2x3x4xf32>
  }
}
