// RUN: tfm-opt %s --tfm-simplify | FileCheck %s

// A carried value, stacked results and operands that no used result depends on
// are removed, with the ops that made them.
// CHECK-LABEL: @prune(
// CHECK-SAME: %[[X:.*]]: tensor<3xf32>, %[[W:.*]]: tensor<4x3xf32>, %{{.*}}: tensor<4x3xf32>)
// CHECK-NEXT: %[[Y:.*]] = tfm.repeat 4 carried(%[[X]] : tensor<3xf32>) stacked(%[[W]] : tensor<4x3xf32>) shared() -> (tensor<3xf32>) {
// CHECK-NEXT: ^bb0(%{{.*}}: index, %[[A:.*]]: tensor<3xf32>, %[[U:.*]]: tensor<3xf32>):
// CHECK-NEXT: %[[P:.*]] = tfm.mul %[[A]], %[[U]]
// CHECK-NEXT: tfm.yield %[[P]]
// CHECK: return %[[Y]]
func.func @prune(%x: tensor<3xf32>, %w: tensor<4x3xf32>, %v: tensor<4x3xf32>) -> tensor<3xf32> {
  %y:3 = tfm.repeat 4 carried(%x, %x : tensor<3xf32>, tensor<3xf32>)
      stacked(%w, %v : tensor<4x3xf32>, tensor<4x3xf32>) shared(%x : tensor<3xf32>)
      -> (tensor<3xf32>, tensor<3xf32>, tensor<4x3xf32>) {
  ^bb0(%l: index, %a: tensor<3xf32>, %dead: tensor<3xf32>, %u: tensor<3xf32>,
       %t: tensor<3xf32>, %s: tensor<3xf32>):
    %p = tfm.mul %a, %u : tensor<3xf32>
    %q = tfm.mul %dead, %t : tensor<3xf32>
    %r = tfm.add %q, %s : tensor<3xf32>
    tfm.yield %p, %r, %r : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
  }
  return %y#0 : tensor<3xf32>
}

// A carried value whose result nobody reads stays when another depends on it.
// CHECK-LABEL: @keep
// CHECK: tfm.repeat 2 carried(%{{.*}}, %{{.*}} : tensor<3xf32>, tensor<3xf32>)
func.func @keep(%x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
  %r:2 = tfm.repeat 2 carried(%x, %y : tensor<3xf32>, tensor<3xf32>) stacked() shared()
      -> (tensor<3xf32>, tensor<3xf32>) {
  ^bb0(%l: index, %a: tensor<3xf32>, %b: tensor<3xf32>):
    %p = tfm.mul %a, %b : tensor<3xf32>
    tfm.yield %b, %p : tensor<3xf32>, tensor<3xf32>
  }
  return %r#0 : tensor<3xf32>
}

// Equal operands are one; constants are made inside.
// CHECK-LABEL: @merge(
// CHECK-SAME: %[[X:.*]]: tensor<3xf32>, %[[W:.*]]: tensor<4x3xf32>)
// CHECK: tfm.repeat 4 carried(%[[X]] : tensor<3xf32>) stacked(%[[W]] : tensor<4x3xf32>) shared() ->
// CHECK-NEXT: ^bb0(%{{.*}}: index, %[[A:.*]]: tensor<3xf32>, %[[U:.*]]: tensor<3xf32>):
// CHECK: tfm.constant dense<2.000000e+00> : tensor<3xf32>
// CHECK: tfm.mul %[[A]], %[[U]]
// CHECK: tfm.add %{{.*}}, %[[U]]
func.func @merge(%x: tensor<3xf32>, %w: tensor<4x3xf32>) -> tensor<3xf32> {
  %two = tfm.constant dense<2.0> : tensor<3xf32>
  %y = tfm.repeat 4 carried(%x : tensor<3xf32>) stacked(%w, %w : tensor<4x3xf32>, tensor<4x3xf32>)
      shared(%two : tensor<3xf32>) -> (tensor<3xf32>) {
  ^bb0(%l: index, %a: tensor<3xf32>, %u: tensor<3xf32>, %v: tensor<3xf32>, %c: tensor<3xf32>):
    %p = tfm.mul %a, %u : tensor<3xf32>
    %q = tfm.add %p, %v : tensor<3xf32>
    %e = tfm.pow %q, %c : tensor<3xf32>
    tfm.yield %e : tensor<3xf32>
  }
  return %y : tensor<3xf32>
}

// Rewrites reach into layers.
// CHECK-LABEL: @inside
// CHECK: ^bb0(%{{.*}}: index, %[[A:.*]]: tensor<3xf32>):
// CHECK-NEXT: %[[S:.*]] = tfm.sub %[[A]], %[[A]]
// CHECK-NEXT: tfm.yield %[[S]]
func.func @inside(%x: tensor<3xf32>) -> tensor<3xf32> {
  %y = tfm.repeat 4 carried(%x : tensor<3xf32>) stacked() shared() -> (tensor<3xf32>) {
  ^bb0(%l: index, %a: tensor<3xf32>):
    %n = tfm.neg %a : tensor<3xf32>
    %s = tfm.add %a, %n : tensor<3xf32>
    tfm.yield %s : tensor<3xf32>
  }
  return %y : tensor<3xf32>
}

// What a turn reads of slices that turns change is what the turns before left
// there, whether anybody reads them afterwards or not.
// CHECK-LABEL: @keep_updated(
// CHECK: %[[Y:.*]]:2 = tfm.repeat 4
// CHECK: updated 1
// CHECK: %[[N:.*]] = tfm.add
// CHECK: tfm.yield %[[N]],
// CHECK: return %[[Y]]#1
func.func @keep_updated(%x: tensor<5x3xf32>, %w: tensor<4x3xf32>, %o: tensor<4xi32>) -> tensor<4x3xf32> {
  %y:2 = tfm.repeat 4 carried() stacked(%w, %x : tensor<4x3xf32>, tensor<5x3xf32>) shared()
      order(%o : tensor<4xi32>) chosen 1 updated 1 -> (tensor<5x3xf32>, tensor<4x3xf32>) {
  ^bb0(%l: index, %u: tensor<3xf32>, %a: tensor<3xf32>):
    %n = tfm.add %a, %u : tensor<3xf32>
    %e = tfm.exp %a : tensor<3xf32>
    tfm.yield %n, %e : tensor<3xf32>, tensor<3xf32>
  }
  return %y#1 : tensor<4x3xf32>
}
