// RUN: tfm-opt %s --tfm-simplify | FileCheck %s

// The derivative of a split: pads that tile the axis are a concatenation, in
// the order of their places.
// CHECK-LABEL: @concat_instead_of_pads(
// CHECK-SAME: %[[A:.*]]: tensor<2x2xf32>, %[[B:.*]]: tensor<2x3xf32>)
// CHECK-NEXT: %[[Y:.*]] = tfm.concat %[[B]], %[[A]] axis 1
// CHECK-NEXT: return %[[Y]]
func.func @concat_instead_of_pads(%a: tensor<2x2xf32>, %b: tensor<2x3xf32>) -> tensor<2x5xf32> {
  %p = tfm.pad %a axis 1 low 3 high 0 : tensor<2x2xf32>
  %q = tfm.pad %b axis 1 low 0 high 2 : tensor<2x3xf32>
  %y = tfm.add %p, %q : tensor<2x5xf32>
  return %y : tensor<2x5xf32>
}

// Where they leave a gap they stay as they are.
// CHECK-LABEL: @pads_with_a_gap
// CHECK-NOT: tfm.concat
// CHECK: return
func.func @pads_with_a_gap(%a: tensor<2x2xf32>, %b: tensor<2x3xf32>) -> tensor<2x6xf32> {
  %p = tfm.pad %a axis 1 low 4 high 0 : tensor<2x2xf32>
  %q = tfm.pad %b axis 1 low 0 high 3 : tensor<2x3xf32>
  %y = tfm.add %p, %q : tensor<2x6xf32>
  return %y : tensor<2x6xf32>
}

// A tied table: the embedding's gradient is added to the head's in place.
// CHECK-LABEL: @scatter_onto_term(
// CHECK-SAME: %[[IDS:.*]]: tensor<4xi32>, %[[U:.*]]: tensor<4x2xf32>, %[[M:.*]]: tensor<3x2xf32>)
// CHECK-NEXT: %[[Y:.*]] = tfm.scatter_add %[[M]], %[[IDS]], %[[U]]
// CHECK-NEXT: return %[[Y]]
func.func @scatter_onto_term(%ids: tensor<4xi32>, %u: tensor<4x2xf32>, %m: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %z = tfm.constant dense<0.0> : tensor<3x2xf32>
  %s = tfm.scatter_add %z, %ids, %u : tensor<3x2xf32>, tensor<4xi32>, tensor<4x2xf32>
  %y = tfm.add %s, %m : tensor<3x2xf32>
  return %y : tensor<3x2xf32>
}

// The sum of repeated elements is a product, their maximum the element.
// CHECK-LABEL: @reduce_of_repeated(
// CHECK-SAME: %[[X:.*]]: tensor<4x1xf32>)
// CHECK: %[[EIGHT:.*]] = tfm.constant dense<8.000000e+00> : tensor<4x1xf32>
// CHECK: %[[S:.*]] = tfm.mul %[[X]], %[[EIGHT]]
// CHECK-NEXT: return %[[S]], %[[X]]
func.func @reduce_of_repeated(%x: tensor<4x1xf32>) -> (tensor<4x1xf32>, tensor<4x1xf32>) {
  %b = tfm.broadcast %x : tensor<4x1xf32> to tensor<4x8xf32>
  %s = tfm.reduce_sum %b axis 1 : tensor<4x8xf32>
  %m = tfm.reduce_max %b axis 1 : tensor<4x8xf32>
  return %s, %m : tensor<4x1xf32>, tensor<4x1xf32>
}

// Negations are absorbed by sums, constant factors meet.
// CHECK-LABEL: @negations_and_scales(
// CHECK-SAME: %[[A:.*]]: tensor<8xf32>, %[[B:.*]]: tensor<8xf32>)
// CHECK: %[[SIX:.*]] = tfm.constant dense<6.000000e+00>
// CHECK: %[[D:.*]] = tfm.sub %[[A]], %[[B]]
// CHECK-NEXT: %[[Y:.*]] = tfm.mul %[[D]], %[[SIX]]
// CHECK-NEXT: return %[[Y]]
func.func @negations_and_scales(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
  %two = tfm.constant dense<2.0> : tensor<8xf32>
  %three = tfm.constant dense<3.0> : tensor<8xf32>
  %n = tfm.neg %b : tensor<8xf32>
  %d = tfm.add %n, %a : tensor<8xf32>
  %p = tfm.mul %d, %two : tensor<8xf32>
  %y = tfm.mul %three, %p : tensor<8xf32>
  return %y : tensor<8xf32>
}

// One broadcast instead of two, and without a reshape that only adds axes.
// CHECK-LABEL: @merge_broadcasts(
// CHECK-SAME: %[[X:.*]]: tensor<8xf32>)
// CHECK-NEXT: %[[Y:.*]] = tfm.broadcast %[[X]] : tensor<8xf32> to tensor<2x4x8xf32>
// CHECK-NEXT: return %[[Y]]
func.func @merge_broadcasts(%x: tensor<8xf32>) -> tensor<2x4x8xf32> {
  %r = tfm.reshape %x : tensor<8xf32> to tensor<1x8xf32>
  %a = tfm.broadcast %r : tensor<1x8xf32> to tensor<4x8xf32>
  %y = tfm.broadcast %a : tensor<4x8xf32> to tensor<2x4x8xf32>
  return %y : tensor<2x4x8xf32>
}

// A slice reads through what the slice was cut from.
// CHECK-LABEL: @merge_slices(
// CHECK-SAME: %[[A:.*]]: tensor<2x4xf32>, %[[B:.*]]: tensor<2x4xf32>)
// CHECK-NEXT: %[[Y:.*]] = tfm.slice %[[B]] axis 1 start 2 size 1 : tensor<2x4xf32>
// CHECK-NEXT: return %[[Y]]
func.func @merge_slices(%a: tensor<2x4xf32>, %b: tensor<2x4xf32>) -> tensor<2x1xf32> {
  %c = tfm.concat %a, %b axis 1 : tensor<2x4xf32>, tensor<2x4xf32>
  %s = tfm.slice %c axis 1 start 5 size 3 : tensor<2x8xf32>
  %y = tfm.slice %s axis 1 start 1 size 1 : tensor<2x3xf32>
  return %y : tensor<2x1xf32>
}

// The transpose of a product is the product of the transposes.
// CHECK-LABEL: @transpose_of_matmul(
// CHECK-SAME: %[[A:.*]]: tensor<8x4xf32>, %[[B:.*]]: tensor<8x5xf32>)
// CHECK-NEXT: %[[Y:.*]] = tfm.matmul %[[B]], %[[A]] transpose_a : tensor<8x5xf32>, tensor<8x4xf32>
// CHECK-NEXT: return %[[Y]]
func.func @transpose_of_matmul(%a: tensor<8x4xf32>, %b: tensor<8x5xf32>) -> tensor<5x4xf32> {
  %m = tfm.matmul %a, %b transpose_a : tensor<8x4xf32>, tensor<8x5xf32>
  %y = tfm.transpose %m [1, 0] : tensor<4x5xf32>
  return %y : tensor<5x4xf32>
}

// Scales meet where their product is a float: 1e60 and 1e-60 are none.
// CHECK-LABEL: @scales_beyond_floats(
// CHECK-DAG: %[[LARGE:.*]] = tfm.constant dense<1.000000e+30>
// CHECK-DAG: %[[SMALL:.*]] = tfm.constant dense<1.000000e-30>
// CHECK: tfm.mul %{{.*}}, %[[LARGE]]
// CHECK: tfm.mul %{{.*}}, %[[LARGE]]
// CHECK: tfm.mul %{{.*}}, %[[SMALL]]
// CHECK: tfm.mul %{{.*}}, %[[SMALL]]
func.func @scales_beyond_floats(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %large = tfm.constant dense<1.0e30> : tensor<8xf32>
  %small = tfm.constant dense<1.0e-30> : tensor<8xf32>
  %a = tfm.mul %x, %large : tensor<8xf32>
  %b = tfm.mul %a, %large : tensor<8xf32>
  %c = tfm.mul %x, %small : tensor<8xf32>
  %d = tfm.mul %c, %small : tensor<8xf32>
  return %b, %d : tensor<8xf32>, tensor<8xf32>
}

// Pads that end before the axis does stay as they are.
// CHECK-LABEL: @pads_that_end_early(
// CHECK-NOT: tfm.concat
// CHECK: return
func.func @pads_that_end_early(%a: tensor<2x2xf32>, %b: tensor<2x3xf32>) -> tensor<2x6xf32> {
  %p = tfm.pad %a axis 1 low 0 high 4 : tensor<2x2xf32>
  %q = tfm.pad %b axis 1 low 2 high 1 : tensor<2x3xf32>
  %y = tfm.add %p, %q : tensor<2x6xf32>
  return %y : tensor<2x6xf32>
}

// A pad along another axis is added to the concatenation.
// CHECK-LABEL: @pads_of_two_axes(
// CHECK: %[[P:.*]] = tfm.pad %{{.*}} axis 0
// CHECK: %[[C:.*]] = tfm.concat {{.*}} axis 1
// CHECK-NEXT: %[[Y:.*]] = tfm.add %[[C]], %[[P]]
// CHECK-NEXT: return %[[Y]]
func.func @pads_of_two_axes(%a: tensor<2x2xf32>, %b: tensor<2x3xf32>, %c: tensor<1x5xf32>) -> tensor<2x5xf32> {
  %p = tfm.pad %a axis 1 low 0 high 3 : tensor<2x2xf32>
  %q = tfm.pad %b axis 1 low 2 high 0 : tensor<2x3xf32>
  %r = tfm.pad %c axis 0 low 1 high 0 : tensor<1x5xf32>
  %s = tfm.add %p, %q : tensor<2x5xf32>
  %y = tfm.add %s, %r : tensor<2x5xf32>
  return %y : tensor<2x5xf32>
}

// A scatter that somebody else reads, too, is computed once.
// CHECK-LABEL: @scatter_of_several(
// CHECK-COUNT-1: tfm.scatter_add
// CHECK: tfm.add
// CHECK-NOT: tfm.scatter_add
// CHECK: return
func.func @scatter_of_several(%ids: tensor<4xi32>, %u: tensor<4x2xf32>, %m: tensor<3x2xf32>) -> (tensor<3x2xf32>, tensor<3x2xf32>) {
  %z = tfm.constant dense<0.0> : tensor<3x2xf32>
  %s = tfm.scatter_add %z, %ids, %u : tensor<3x2xf32>, tensor<4xi32>, tensor<4x2xf32>
  %y = tfm.add %s, %m : tensor<3x2xf32>
  return %y, %s : tensor<3x2xf32>, tensor<3x2xf32>
}

// Along an axis that is not repeated elements differ.
// CHECK-LABEL: @reduce_of_others(
// CHECK: %[[B:.*]] = tfm.broadcast
// CHECK: tfm.reduce_sum %[[B]] axis 0
func.func @reduce_of_others(%x: tensor<4x1xf32>) -> tensor<1x8xf32> {
  %b = tfm.broadcast %x : tensor<4x1xf32> to tensor<4x8xf32>
  %s = tfm.reduce_sum %b axis 0 : tensor<4x8xf32>
  return %s : tensor<1x8xf32>
}

// A broadcast adds axes and takes none away.
// CHECK-LABEL: @broadcast_of_fewer_axes(
// CHECK: %[[R:.*]] = tfm.reshape
// CHECK: tfm.broadcast %[[R]] : tensor<8xf32> to tensor<4x8xf32>
func.func @broadcast_of_fewer_axes(%x: tensor<1x1x8xf32>) -> tensor<4x8xf32> {
  %r = tfm.reshape %x : tensor<1x1x8xf32> to tensor<8xf32>
  %b = tfm.broadcast %r : tensor<8xf32> to tensor<4x8xf32>
  return %b : tensor<4x8xf32>
}

// A slice that has padding in it, too, is one of what was padded.
// CHECK-LABEL: @slice_beyond_the_padded(
// CHECK: %[[P:.*]] = tfm.pad
// CHECK: tfm.slice %[[P]] axis 1 start 2 size 2
func.func @slice_beyond_the_padded(%a: tensor<2x3xf32>) -> tensor<2x2xf32> {
  %p = tfm.pad %a axis 1 low 0 high 2 : tensor<2x3xf32>
  %s = tfm.slice %p axis 1 start 2 size 2 : tensor<2x5xf32>
  return %s : tensor<2x2xf32>
}

// Products of several matrices stay in their order; and one that somebody else
// reads, too, is computed once.
// CHECK-LABEL: @transposes_that_stay(
// CHECK: %[[P:.*]] = tfm.matmul
// CHECK: tfm.transpose %[[P]] [1, 0, 3, 2]
// CHECK: %[[Q:.*]] = tfm.matmul
// CHECK: tfm.transpose %[[Q]] [1, 0]
// CHECK-NOT: tfm.matmul
// CHECK: return
func.func @transposes_that_stay(%a: tensor<2x2x4x8xf32>, %b: tensor<2x2x8x5xf32>, %c: tensor<4x8xf32>, %d: tensor<8x5xf32>)
    -> (tensor<2x2x5x4xf32>, tensor<4x5xf32>, tensor<5x4xf32>) {
  %p = tfm.matmul %a, %b : tensor<2x2x4x8xf32>, tensor<2x2x8x5xf32>
  %s = tfm.transpose %p [1, 0, 3, 2] : tensor<2x2x4x5xf32>
  %q = tfm.matmul %c, %d : tensor<4x8xf32>, tensor<8x5xf32>
  %t = tfm.transpose %q [1, 0] : tensor<4x5xf32>
  return %s, %q, %t : tensor<2x2x5x4xf32>, tensor<4x5xf32>, tensor<5x4xf32>
}
