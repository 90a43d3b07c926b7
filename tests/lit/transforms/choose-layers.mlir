// RUN: tfm-opt %s --tfm-choose-layers | FileCheck %s

// Of five layers the two that a token chooses run, in the order of their numbers: `top_k` of zeros and ones. What a
// layer does is the same.
// CHECK-LABEL: @few
// CHECK: %[[NUMBERS:.*]] = tfm.constant dense<[0, 1, 2, 3, 4]>
// CHECK: %[[IDS:.*]] = tfm.reshape %arg2 : tensor<1x1x2xi32> to tensor<1x2xi32>
// CHECK: %[[PAIRS:.*]] = tfm.broadcast %[[IDS]] : tensor<1x2xi32> to tensor<5x2xi32>
// CHECK: %[[IS_IT:.*]] = tfm.compare eq %[[PAIRS]], %{{.*}} : tensor<5x2xi32>
// CHECK: tfm.reduce_max %{{.*}} axis 1 : tensor<5x2xf32>
// CHECK: %{{.*}}, %[[INDICES:.*]] = tfm.top_k %{{.*}}, 2 : tensor<1x5xf32>
// CHECK: %[[ORDER:.*]] = tfm.reshape %[[INDICES]] : tensor<1x2xi32> to tensor<2xi32>
// CHECK: tfm.repeat 2 carried(%arg0 : tensor<1x1x8xf32>) stacked(%arg1, %[[NUMBERS]] : tensor<5x8xf32>, tensor<5xi32>) shared(%arg2 : tensor<1x1x2xi32>) order(%[[ORDER]] : tensor<2xi32>) chosen 2
// CHECK: tfm.select
func.func @few(%x: tensor<1x1x8xf32>, %w: tensor<5x8xf32>, %ids: tensor<1x1x2xi32>) -> tensor<1x1x8xf32> {
  %numbers = tfm.constant dense<[0, 1, 2, 3, 4]> : tensor<5xi32>
  %y = tfm.repeat 5 carried(%x : tensor<1x1x8xf32>) stacked(%w, %numbers : tensor<5x8xf32>, tensor<5xi32>)
      shared(%ids : tensor<1x1x2xi32>) -> (tensor<1x1x8xf32>) {
  ^bb0(%layer: index, %h: tensor<1x1x8xf32>, %v: tensor<8xf32>, %number: tensor<i32>, %i: tensor<1x1x2xi32>):
    %vb = tfm.broadcast %v : tensor<8xf32> to tensor<1x1x8xf32>
    %z = tfm.mul %h, %vb : tensor<1x1x8xf32>
    %n = tfm.broadcast %number : tensor<i32> to tensor<1x1x2xi32>
    %is_it = tfm.compare eq %i, %n : tensor<1x1x2xi32>
    %f = tfm.cast %is_it : tensor<1x1x2xi1> to tensor<1x1x2xf32>
    %m = tfm.reduce_max %f axis 2 : tensor<1x1x2xf32>
    %zero = tfm.constant dense<0.0> : tensor<1x1x1xf32>
    %any = tfm.compare gt %m, %zero : tensor<1x1x1xf32>
    %c = tfm.broadcast %any : tensor<1x1x1xi1> to tensor<1x1x8xi1>
    %r = tfm.select %c, %z, %h : tensor<1x1x8xi1>, tensor<1x1x8xf32>
    tfm.yield %r : tensor<1x1x8xf32>
  }
  return %y : tensor<1x1x8xf32>
}

// Three tokens may choose as many as there are.
// CHECK-LABEL: @many
// CHECK: tfm.repeat 5
// CHECK-NOT: order
func.func @many(%x: tensor<1x3x8xf32>, %w: tensor<5x8xf32>, %ids: tensor<1x3x2xi32>) -> tensor<1x3x8xf32> {
  %numbers = tfm.constant dense<[0, 1, 2, 3, 4]> : tensor<5xi32>
  %y = tfm.repeat 5 carried(%x : tensor<1x3x8xf32>) stacked(%w, %numbers : tensor<5x8xf32>, tensor<5xi32>)
      shared(%ids : tensor<1x3x2xi32>) -> (tensor<1x3x8xf32>) {
  ^bb0(%layer: index, %h: tensor<1x3x8xf32>, %v: tensor<8xf32>, %number: tensor<i32>, %i: tensor<1x3x2xi32>):
    %vb = tfm.broadcast %v : tensor<8xf32> to tensor<1x3x8xf32>
    %z = tfm.mul %h, %vb : tensor<1x3x8xf32>
    %n = tfm.broadcast %number : tensor<i32> to tensor<1x3x2xi32>
    %is_it = tfm.compare eq %i, %n : tensor<1x3x2xi32>
    %f = tfm.cast %is_it : tensor<1x3x2xi1> to tensor<1x3x2xf32>
    %m = tfm.reduce_max %f axis 2 : tensor<1x3x2xf32>
    %zero = tfm.constant dense<0.0> : tensor<1x3x1xf32>
    %any = tfm.compare gt %m, %zero : tensor<1x3x1xf32>
    %c = tfm.broadcast %any : tensor<1x3x1xi1> to tensor<1x3x8xi1>
    %r = tfm.select %c, %z, %h : tensor<1x3x8xi1>, tensor<1x3x8xf32>
    tfm.yield %r : tensor<1x3x8xf32>
  }
  return %y : tensor<1x3x8xf32>
}

// Of 64 tokens, of which each chooses one layer (of one id there is no maximum), a layer has about six: it computes
// those that chose it, 8 at a time, and writes them over what is carried. One that is not there has the number of
// all, 64, and is written nowhere.
// CHECK-LABEL: @together
// CHECK: %[[ROWS:.*]] = tfm.reshape %{{.*}} : tensor<17x8x1xi32> to tensor<17x8xi32>
// CHECK: %[[X:.*]] = tfm.reshape %arg0 : tensor<1x64x8xf32> to tensor<64x8xf32>
// CHECK: tfm.repeat 17 carried(%[[X]] : tensor<64x8xf32>) stacked(%[[ROWS]], %arg1, %{{.*}} : tensor<17x8xi32>, tensor<11x8xf32>, tensor<11xi32>) shared(%{{.*}} : tensor<64x1xi32>) order(%{{.*}} : tensor<17xi32>) chosen 2
// CHECK: ^bb0(%{{.*}}: index, %[[H:.*]]: tensor<64x8xf32>, %[[OWN:.*]]: tensor<8xi32>, %[[V:.*]]: tensor<8xf32>, %{{.*}}: tensor<i32>, %{{.*}}: tensor<64x1xi32>):
// CHECK: %[[IDS:.*]] = tfm.min %[[OWN]], %{{.*}} : tensor<8xi32>
// CHECK: tfm.gather %[[H]], %[[IDS]] : tensor<64x8xf32>, tensor<8xi32>
// CHECK: %[[VB:.*]] = tfm.broadcast %[[V]] : tensor<8xf32> to tensor<1x8x8xf32>
// CHECK: tfm.mul %{{.*}}, %[[VB]] : tensor<1x8x8xf32>
// CHECK: tfm.cache_update %{{.*}}, %{{.*}}, %[[OWN]] : tensor<1x1x64x8xf32>, tensor<8x1x1x8xf32>, tensor<8xi32>
// CHECK-NOT: tfm.select
func.func @together(%x: tensor<1x64x8xf32>, %w: tensor<11x8xf32>, %ids: tensor<1x64x1xi32>) -> tensor<1x64x8xf32> {
  %numbers = tfm.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]> : tensor<11xi32>
  %y = tfm.repeat 11 carried(%x : tensor<1x64x8xf32>) stacked(%w, %numbers : tensor<11x8xf32>, tensor<11xi32>)
      shared(%ids : tensor<1x64x1xi32>) -> (tensor<1x64x8xf32>) {
  ^bb0(%layer: index, %h: tensor<1x64x8xf32>, %v: tensor<8xf32>, %number: tensor<i32>, %i: tensor<1x64x1xi32>):
    %vb = tfm.broadcast %v : tensor<8xf32> to tensor<1x64x8xf32>
    %z = tfm.mul %h, %vb : tensor<1x64x8xf32>
    %n = tfm.broadcast %number : tensor<i32> to tensor<1x64x1xi32>
    %is_it = tfm.compare eq %i, %n : tensor<1x64x1xi32>
    %f = tfm.cast %is_it : tensor<1x64x1xi1> to tensor<1x64x1xf32>
    %zero = tfm.constant dense<0.0> : tensor<1x64x1xf32>
    %any = tfm.compare gt %f, %zero : tensor<1x64x1xf32>
    %c = tfm.broadcast %any : tensor<1x64x1xi1> to tensor<1x64x8xi1>
    %r = tfm.select %c, %z, %h : tensor<1x64x8xi1>, tensor<1x64x8xf32>
    tfm.yield %r : tensor<1x64x8xf32>
  }
  return %y : tensor<1x64x8xf32>
}

// What mixes the tokens computes all of them.
// CHECK-LABEL: @mixed
// CHECK: tfm.repeat 11
// CHECK-NOT: order
func.func @mixed(%x: tensor<1x64x8xf32>, %w: tensor<11x8xf32>, %ids: tensor<1x64x1xi32>) -> tensor<1x64x8xf32> {
  %numbers = tfm.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]> : tensor<11xi32>
  %y = tfm.repeat 11 carried(%x : tensor<1x64x8xf32>) stacked(%w, %numbers : tensor<11x8xf32>, tensor<11xi32>)
      shared(%ids : tensor<1x64x1xi32>) -> (tensor<1x64x8xf32>) {
  ^bb0(%layer: index, %h: tensor<1x64x8xf32>, %v: tensor<8xf32>, %number: tensor<i32>, %i: tensor<1x64x1xi32>):
    %vb = tfm.broadcast %v : tensor<8xf32> to tensor<1x64x8xf32>
    %s = tfm.cumsum %h axis 1 : tensor<1x64x8xf32>
    %z = tfm.mul %s, %vb : tensor<1x64x8xf32>
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
  return %y : tensor<1x64x8xf32>
}

// What is written alike and means something else stays: all tokens pass where any of them chose the layer, ...
// CHECK-LABEL: @any_token
// CHECK: tfm.repeat 5 {{.*}}shared(%arg2 : tensor<1x2x1xi32>) ->
func.func @any_token(%x: tensor<1x2x8xf32>, %w: tensor<5x8xf32>, %ids: tensor<1x2x1xi32>) -> tensor<1x2x8xf32> {
  %numbers = tfm.constant dense<[0, 1, 2, 3, 4]> : tensor<5xi32>
  %y = tfm.repeat 5 carried(%x : tensor<1x2x8xf32>) stacked(%w, %numbers : tensor<5x8xf32>, tensor<5xi32>)
      shared(%ids : tensor<1x2x1xi32>) -> (tensor<1x2x8xf32>) {
  ^bb0(%layer: index, %h: tensor<1x2x8xf32>, %v: tensor<8xf32>, %number: tensor<i32>, %i: tensor<1x2x1xi32>):
    %vb = tfm.broadcast %v : tensor<8xf32> to tensor<1x2x8xf32>
    %z = tfm.mul %h, %vb : tensor<1x2x8xf32>
    %n = tfm.broadcast %number : tensor<i32> to tensor<1x2x1xi32>
    %is_it = tfm.compare eq %i, %n : tensor<1x2x1xi32>
    %f = tfm.cast %is_it : tensor<1x2x1xi1> to tensor<1x2x1xf32>
    %m = tfm.reduce_max %f axis 1 : tensor<1x2x1xf32>
    %zero = tfm.constant dense<0.0> : tensor<1x1x1xf32>
    %any = tfm.compare gt %m, %zero : tensor<1x1x1xf32>
    %c = tfm.broadcast %any : tensor<1x1x1xi1> to tensor<1x2x8xi1>
    %r = tfm.select %c, %z, %h : tensor<1x2x8xi1>, tensor<1x2x8xf32>
    tfm.yield %r : tensor<1x2x8xf32>
  }
  return %y : tensor<1x2x8xf32>
}

// ... and two layers have one number.
// CHECK-LABEL: @shared_numbers
// CHECK: tfm.repeat 5 {{.*}}shared(%arg2 : tensor<1x1x1xi32>) ->
func.func @shared_numbers(%x: tensor<1x1x8xf32>, %w: tensor<5x8xf32>, %ids: tensor<1x1x1xi32>) -> tensor<1x1x8xf32> {
  %numbers = tfm.constant dense<[0, 1, 2, 1, 0]> : tensor<5xi32>
  %y = tfm.repeat 5 carried(%x : tensor<1x1x8xf32>) stacked(%w, %numbers : tensor<5x8xf32>, tensor<5xi32>)
      shared(%ids : tensor<1x1x1xi32>) -> (tensor<1x1x8xf32>) {
  ^bb0(%layer: index, %h: tensor<1x1x8xf32>, %v: tensor<8xf32>, %number: tensor<i32>, %i: tensor<1x1x1xi32>):
    %vb = tfm.broadcast %v : tensor<8xf32> to tensor<1x1x8xf32>
    %z = tfm.mul %h, %vb : tensor<1x1x8xf32>
    %n = tfm.broadcast %number : tensor<i32> to tensor<1x1x1xi32>
    %is_it = tfm.compare eq %i, %n : tensor<1x1x1xi32>
    %f = tfm.cast %is_it : tensor<1x1x1xi1> to tensor<1x1x1xf32>
    %zero = tfm.constant dense<0.0> : tensor<1x1x1xf32>
    %any = tfm.compare gt %f, %zero : tensor<1x1x1xf32>
    %c = tfm.broadcast %any : tensor<1x1x1xi1> to tensor<1x1x8xi1>
    %r = tfm.select %c, %z, %h : tensor<1x1x8xi1>, tensor<1x1x8xf32>
    tfm.yield %r : tensor<1x1x8xf32>
  }
  return %y : tensor<1x1x8xf32>
}
