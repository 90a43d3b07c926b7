// RUN: sed -e 's/TOPK/3/' %s | tfm-opt --tfm-add-candidates="least=2 most=8 least-logits=20" | FileCheck %s
// RUN: sed -e 's/TOPK/0/' %s | tfm-opt --tfm-add-candidates="least=2 most=8 least-logits=20" | FileCheck %s --check-prefix=LEAST
// RUN: sed -e 's/TOPK/8/' %s | tfm-opt --tfm-add-candidates="least=2 most=8 least-logits=20" | FileCheck %s --check-prefix=LEAST
// RUN: sed -e 's/TOPK/7/' %s | tfm-opt --tfm-add-candidates="least=2 most=8 least-logits=20" | FileCheck %s --check-prefix=MOST
// RUN: sed -e 's/TOPK/3/' %s | tfm-opt --tfm-add-candidates="least=2 most=8 least-logits=21" | FileCheck %s --check-prefix=NONE
// RUN: sed -e 's/TOPK/3/' %s | tfm-opt --tfm-add-candidates | FileCheck %s --check-prefix=NONE
// RUN: sed -e 's/TOPK/-1/' %s | not tfm-opt --tfm-add-candidates="least=2 most=8" 2>&1 | FileCheck %s --check-prefix=WRONG

// One more than texts are drawn from, so that a tie with the last is seen; of
// more than there may be, the least, with which greedy texts can be drawn.
// LEAST: tfm.top_k %{{.*}}, 2 :
// MOST: tfm.top_k %{{.*}}, 8 :
// Rows of few logits have none.
// NONE-NOT: tfm.top_k
// WRONG: error: the recipe's generate.top_k takes

module attributes {tfm.recipe = "{\"generate\": {\"top_k\": TOPK}}"} {
  // What follows the logits stays where it is.
  // CHECK-LABEL: @decode
  // CHECK-SAME: -> (tensor<3x20xf32> {tfm.name = "logits"}, tensor<1x2x8x4xf32> {tfm.region = "cache.0"},
  // CHECK-SAME: tensor<3x4xf32> {tfm.name = "candidates"}, tensor<3x4xi32> {tfm.name = "candidate_ids"})
  // CHECK: %[[X:.*]] = tfm.neg
  // CHECK: %[[VALUES:.*]], %[[INDICES:.*]] = tfm.top_k %[[X]], 4 : tensor<3x20xf32>
  // CHECK: return %[[X]], %{{.*}}, %[[VALUES]], %[[INDICES]]
  func.func @decode(%x: tensor<3x20xf32>, %cache: tensor<1x2x8x4xf32> {tfm.region = "cache.0"})
      -> (tensor<3x20xf32> {tfm.name = "logits"}, tensor<1x2x8x4xf32> {tfm.region = "cache.0"}) {
    %y = tfm.neg %x : tensor<3x20xf32>
    return %y, %cache : tensor<3x20xf32>, tensor<1x2x8x4xf32>
  }

  // After each token.
  // CHECK-LABEL: @verify
  // CHECK-SAME: tensor<3x2x4xf32> {tfm.name = "candidates"}, tensor<3x2x4xi32> {tfm.name = "candidate_ids"})
  // CHECK: tfm.top_k %{{.*}}, 4 : tensor<3x2x20xf32>
  func.func @verify(%x: tensor<3x2x20xf32>) -> (tensor<3x2x20xf32> {tfm.name = "logits"}) {
    %y = tfm.neg %x : tensor<3x2x20xf32>
    return %y : tensor<3x2x20xf32>
  }
}
