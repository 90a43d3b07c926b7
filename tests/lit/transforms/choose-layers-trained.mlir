// RUN: tfm-opt %s --tfm-choose-layers=trained --tfm-differentiate --tfm-simplify | FileCheck %s

tfm.param @"h.*.w" : tensor<11x8xf32> {init = {kind = "ones"}}

// Of 64 tokens each layer has about 16. The loss is made of 8 rows of a layer at a time, and so is its derivative, from
// the last turn to the first: what a turn saves is its rows' own, and what it adds to the gradient goes to the slice
// that it chose.
// CHECK-LABEL: func.func @loss
// CHECK: tfm.repeat 17 carried({{.*}} : tensor<64x8xf32>) stacked({{.*}} : tensor<17x8xi32>, tensor<11x8xf32>) shared() order(%{{.*}} : tensor<17xi32>) chosen 1 -> (tensor<64x8xf32>)
// CHECK-LABEL: func.func @train
// CHECK: %[[ORDER:.*]] = tfm.reshape %{{.*}} : tensor<17x1xi32> to tensor<17xi32>
// CHECK: %[[ROWS:.*]] = tfm.reshape %{{.*}} : tensor<17x8x1xi32> to tensor<17x8xi32>
// CHECK: %[[Y:.*]]:2 = tfm.repeat 17 carried({{.*}}) stacked(%[[ROWS]], %[[W:.*]] : tensor<17x8xi32>, tensor<11x8xf32>) shared() order(%[[ORDER]] : tensor<17xi32>) chosen 1 -> (tensor<64x8xf32>, tensor<17x8x8xf32>)
// CHECK: tfm.repeat 17 reverse carried({{.*}} : tensor<64x8xf32>) stacked(%[[ROWS]], %[[Y]]#1, %[[W]], %{{.*}} : tensor<17x8xi32>, tensor<17x8x8xf32>, tensor<11x8xf32>, tensor<11x8xf32>) shared() order(%[[ORDER]] : tensor<17xi32>) chosen 2 updated 1 -> (tensor<64x8xf32>, tensor<11x8xf32>)
// CHECK-NEXT: ^bb0(%{{.*}}: index, %[[C:.*]]: tensor<64x8xf32>, %[[OWN:.*]]: tensor<8xi32>, %{{.*}}: tensor<8x8xf32>, %{{.*}}: tensor<8xf32>, %[[SUM:.*]]: tensor<8xf32>):
// CHECK: tfm.gather %[[C]], %{{.*}} : tensor<64x8xf32>, tensor<8x1x1xi32>
// CHECK: tfm.cache_update %{{.*}}, %{{.*}}, %[[OWN]]
// CHECK: %[[NEXT:.*]] = tfm.scatter_add
// CHECK: %[[ADDED:.*]] = tfm.add %[[SUM]], %{{.*}} : tensor<8xf32>
// CHECK: tfm.yield %[[NEXT]], %[[ADDED]]
func.func @loss(%x: tensor<1x64x8xf32>, %ids: tensor<1x64x1xi32>) -> tensor<f32> {
  %w = tfm.get_param @"h.*.w" : tensor<11x8xf32>
  %numbers = tfm.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]> : tensor<11xi32>
  %y = tfm.repeat 11 carried(%x : tensor<1x64x8xf32>) stacked(%w, %numbers : tensor<11x8xf32>, tensor<11xi32>)
      shared(%ids : tensor<1x64x1xi32>) -> (tensor<1x64x8xf32>) {
  ^bb0(%layer: index, %h: tensor<1x64x8xf32>, %v: tensor<8xf32>, %number: tensor<i32>, %i: tensor<1x64x1xi32>):
    %vb = tfm.broadcast %v : tensor<8xf32> to tensor<1x64x8xf32>
    %z = tfm.mul %h, %vb : tensor<1x64x8xf32>
    %n = tfm.broadcast %number : tensor<i32> to tensor<1x64x1xi32>
    %is_it = tfm.compare eq %i, %n : tensor<1x64x1xi32>
    %f = tfm.cast %is_it : tensor<1x64x1xi1> to tensor<1x64x1xf32>
    %m = tfm.reduce_max %f axis 2 : tensor<1x64x1xf32>
    %zero = tfm.constant dense<0.0> : tensor<1x64x1xf32>
    %any = tfm.compare gt %m, %zero : tensor<1x64x1xf32>
    %c = tfm.broadcast %any : tensor<1x64x1xi1> to tensor<1x64x8xi1>
    %r = tfm.select %c, %z, %h : tensor<1x64x8xi1>, tensor<1x64x8xf32>
    tfm.yield %r : tensor<1x64x8xf32>
  }
  %flat = tfm.reshape %y : tensor<1x64x8xf32> to tensor<512xf32>
  %sum = tfm.reduce_sum %flat axis 0 : tensor<512xf32>
  %loss = tfm.reshape %sum : tensor<1xf32> to tensor<f32>
  return %loss : tensor<f32>
}
