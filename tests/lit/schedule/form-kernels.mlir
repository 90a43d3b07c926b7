// RUN: tfm-opt %s --sched-form-kernels --split-input-file | FileCheck %s

// Which ops share a kernel, and what it reads.

// Elementwise ops in a row are one kernel.
// CHECK-LABEL: func.func @chain
// CHECK: sched.kernel row 4 by 8 (%arg0 : tensor<4x8xf32>) [point] -> (tensor<4x8xf32>) [point]
// CHECK: tfm.exp
// CHECK: tfm.tanh
// CHECK-NOT: sched.kernel
func.func @chain(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %a = tfm.exp %x : tensor<4x8xf32>
  %b = tfm.tanh %a : tensor<4x8xf32>
  return %b : tensor<4x8xf32>
}

// -----

// What only the kernel itself reads is never written.
// CHECK-LABEL: func.func @inner_value
// CHECK: -> (tensor<4x8xf32>) [point]
// CHECK: %[[S:.*]] = tfm.add
// CHECK: sched.yield %[[S]] : tensor<4x8xf32>
func.func @inner_value(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %a = tfm.exp %x : tensor<4x8xf32>
  %b = tfm.sin %x : tensor<4x8xf32>
  %c = tfm.add %a, %b : tensor<4x8xf32>
  return %c : tensor<4x8xf32>
}

// -----

// What something else reads, too, is a result of the kernel.
// CHECK-LABEL: func.func @read_elsewhere
// CHECK: %[[K:.*]]:2 = sched.kernel row {{.*}} -> (tensor<4x8xf32>, tensor<4x8xf32>) [point, point]
// CHECK: return %[[K]]#0, %[[K]]#1
func.func @read_elsewhere(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %a = tfm.exp %x : tensor<4x8xf32>
  %b = tfm.sin %a : tensor<4x8xf32>
  return %a, %b : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// Ops that read the same value share its loads, though neither reads the other.
// CHECK-LABEL: func.func @siblings
// CHECK-COUNT-1: sched.kernel
// CHECK-NOT: sched.kernel
func.func @siblings(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %a = tfm.exp %x : tensor<4x8xf32>
  %b = tfm.sin %x : tensor<4x8xf32>
  return %a, %b : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// Ops that have nothing in common are kernels of their own.
// CHECK-LABEL: func.func @strangers
// CHECK-COUNT-2: sched.kernel row
func.func @strangers(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %a = tfm.exp %x : tensor<4x8xf32>
  %b = tfm.sin %y : tensor<4x8xf32>
  return %a, %b : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// Other shapes, other kernels: a domain is one number of rows and columns.
// CHECK-LABEL: func.func @other_domain
// CHECK: sched.kernel row 4 by 8
// CHECK: sched.kernel row 8 by 4
func.func @other_domain(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<8x4xf32>) {
  %t = tfm.transpose %x [1, 0] : tensor<4x8xf32>
  %a = tfm.exp %x : tensor<4x8xf32>
  %b = tfm.sin %t : tensor<8x4xf32>
  return %a, %b : tensor<4x8xf32>, tensor<8x4xf32>
}

// -----

// A row's sum, what is made of it, and what it is repeated for: one kernel.
// CHECK-LABEL: func.func @softmax_like
// CHECK: sched.kernel row 4 by 8 (%arg0 : tensor<4x8xf32>) [point] -> (tensor<4x8xf32>) [point]
// CHECK: %[[S:.*]] = tfm.reduce_sum
// CHECK: %[[B:.*]] = tfm.broadcast %[[S]] : tensor<4x1xf32> to tensor<4x8xf32>
// CHECK: tfm.div %{{.*}}, %[[B]]
// CHECK-NOT: sched.kernel
func.func @softmax_like(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %e = tfm.exp %x : tensor<4x8xf32>
  %s = tfm.reduce_sum %e axis 1 : tensor<4x8xf32>
  %b = tfm.broadcast %s : tensor<4x1xf32> to tensor<4x8xf32>
  %y = tfm.div %e, %b : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// The sum of a row is written once per row.
// CHECK-LABEL: func.func @row_sum
// CHECK: -> (tensor<4x1xf32>) [row]
func.func @row_sum(%x: tensor<4x8xf32>) -> tensor<4x1xf32> {
  %s = tfm.reduce_sum %x axis 1 : tensor<4x8xf32>
  return %s : tensor<4x1xf32>
}

// -----

// A sum over rows is known when the kernel ends: what reads it is a kernel
// after it.
// CHECK-LABEL: func.func @column_sum
// CHECK: %[[S:.*]] = sched.kernel row 4 by 8 (%arg0 : tensor<4x8xf32>) [point] -> (tensor<1x8xf32>) [memory]
// CHECK: sched.kernel row 1 by 8 (%[[S]] : tensor<1x8xf32>) [point]
func.func @column_sum(%x: tensor<4x8xf32>) -> tensor<1x8xf32> {
  %s = tfm.reduce_sum %x axis 0 : tensor<4x8xf32>
  %t = tfm.tanh %s : tensor<1x8xf32>
  return %t : tensor<1x8xf32>
}

// -----

// Of a square, too, where a number for each column is as many as one for each
// row.
// CHECK-LABEL: func.func @square_column_sum
// CHECK: %[[S:.*]] = sched.kernel row 8 by 8 (%arg0 : tensor<8x8xf32>) [point] -> (tensor<1x8xf32>) [memory]
// CHECK: tfm.reduce_sum
// CHECK-NOT: tfm.tanh
// CHECK: sched.kernel row
// CHECK: tfm.tanh
func.func @square_column_sum(%x: tensor<8x8xf32>) -> tensor<1x8xf32> {
  %s = tfm.reduce_sum %x axis 0 : tensor<8x8xf32>
  %t = tfm.tanh %s : tensor<1x8xf32>
  return %t : tensor<1x8xf32>
}

// -----

// CHECK-LABEL: func.func @square_column_sum_for_rows
// CHECK: sched.kernel row 8 by 8 (%arg0 : tensor<8x8xf32>) [point] -> (tensor<1x8xf32>) [memory]
// CHECK: tfm.reduce_sum
// CHECK-NOT: tfm.mul
// CHECK: sched.kernel row 8 by 8
// CHECK: tfm.mul
func.func @square_column_sum_for_rows(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %s = tfm.reduce_sum %x axis 0 : tensor<8x8xf32>
  %r = tfm.reshape %s : tensor<1x8xf32> to tensor<8x1xf32>
  %b = tfm.broadcast %r : tensor<8x1xf32> to tensor<8x8xf32>
  %y = tfm.mul %x, %b : tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}

// -----

// What follows a product replaces it in registers: an epilogue.
// CHECK-LABEL: func.func @epilogue
// CHECK: sched.kernel matmul 4 by 16 (%arg0, %arg1, %{{.*}} : {{.*}}) [memory, memory, point] -> (tensor<4x16xf32>) [point]
// CHECK: tfm.matmul
// CHECK: tfm.add
// CHECK: tfm.gelu
// CHECK-NOT: sched.kernel
func.func @epilogue(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %b: tensor<16xf32>) -> tensor<4x16xf32> {
  %y = tfm.matmul %x, %w : tensor<4x8xf32>, tensor<8x16xf32>
  %c = tfm.broadcast %b : tensor<16xf32> to tensor<4x16xf32>
  %z = tfm.add %y, %c : tensor<4x16xf32>
  %g = tfm.gelu %z : tensor<4x16xf32>
  return %g : tensor<4x16xf32>
}

// -----

// What only the end of an epilogue wants is computed there, too, though it
// comes after the product: the derivative of GELU, of what was saved. The sum
// over rows reads what is stored anyway.
// CHECK-LABEL: func.func @derivative_epilogue
// CHECK: %[[G:.*]] = sched.kernel matmul 4 by 16 (%arg0, %arg1, %arg2 : {{.*}}) [memory, memory, point] -> (tensor<4x16xf32>) [point]
// CHECK: tfm.matmul
// CHECK: tfm.tanh
// CHECK: tfm.mul
// CHECK: sched.kernel row 4 by 16 (%[[G]] : tensor<4x16xf32>) [point] -> (tensor<1x16xf32>) [memory]
// CHECK-NOT: sched.kernel
func.func @derivative_epilogue(%d: tensor<4x8xf32>, %w: tensor<8x16xf32>, %h: tensor<4x16xf32>) -> (tensor<4x16xf32>, tensor<1x16xf32>) {
  %y = tfm.matmul %d, %w : tensor<4x8xf32>, tensor<8x16xf32>
  %t = tfm.tanh %h : tensor<4x16xf32>
  %t2 = tfm.mul %t, %t : tensor<4x16xf32>
  %g = tfm.mul %y, %t2 : tensor<4x16xf32>
  %s = tfm.reduce_sum %g axis 0 : tensor<4x16xf32>
  return %g, %s : tensor<4x16xf32>, tensor<1x16xf32>
}

// -----

// Not where somebody else reads it, either.
// CHECK-LABEL: func.func @derivative_of_several
// CHECK: sched.kernel matmul
// CHECK-NEXT: {{^}}  ^bb0
// CHECK-NOT: tfm.tanh
// CHECK: sched.kernel row
// CHECK: tfm.tanh
func.func @derivative_of_several(%d: tensor<4x8xf32>, %w: tensor<8x16xf32>, %h: tensor<4x16xf32>) -> (tensor<4x16xf32>, tensor<4x16xf32>) {
  %y = tfm.matmul %d, %w : tensor<4x8xf32>, tensor<8x16xf32>
  %t = tfm.tanh %h : tensor<4x16xf32>
  %g = tfm.mul %y, %t : tensor<4x16xf32>
  return %g, %t : tensor<4x16xf32>, tensor<4x16xf32>
}

// -----

// Nor where it reads the product at other points, which the epilogue does not
// have.
// CHECK-LABEL: func.func @derivative_of_transpose
// CHECK: sched.kernel matmul
// CHECK-NEXT: {{^}}  ^bb0
// CHECK-NOT: tfm.tanh
// CHECK: sched.kernel row
// CHECK: tfm.tanh
func.func @derivative_of_transpose(%d: tensor<8x4xf32>, %w: tensor<4x8xf32>) -> tensor<8x8xf32> {
  %y = tfm.matmul %d, %w : tensor<8x4xf32>, tensor<4x8xf32>
  %x = tfm.transpose %y [1, 0] : tensor<8x8xf32>
  %t = tfm.tanh %x : tensor<8x8xf32>
  %g = tfm.mul %y, %t : tensor<8x8xf32>
  return %g : tensor<8x8xf32>
}

// -----

// Dropout can be in an epilogue, too: it depends on where an element is alone.
// CHECK-LABEL: func.func @dropout_epilogue
// CHECK-COUNT-1: sched.kernel matmul
// CHECK: tfm.dropout
// CHECK-NOT: sched.kernel
func.func @dropout_epilogue(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>) -> tensor<4x16xf32> {
  %y = tfm.matmul %x, %w : tensor<4x8xf32>, tensor<8x16xf32>
  %d = tfm.dropout %y {rate = 0.1 : f64, site = 0 : i64} : tensor<4x16xf32>
  return %d : tensor<4x16xf32>
}

// -----

// An epilogue sees single elements, so a sum of the product's rows is no part
// of it; and as that reads the sum with the residual anyway, the addition goes
// with it.
// CHECK-LABEL: func.func @no_sums_in_epilogues
// CHECK: sched.kernel matmul 4 by 8 {{.*}} -> (tensor<4x8xf32>) [point]
// CHECK-NEXT: ^bb0
// CHECK-NEXT: tfm.matmul
// CHECK-NEXT: sched.yield
// CHECK: sched.kernel row 4 by 8
// CHECK: tfm.add
// CHECK: tfm.reduce_sum
func.func @no_sums_in_epilogues(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x1xf32>) {
  %y = tfm.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32>
  %z = tfm.add %y, %x : tensor<4x8xf32>
  %s = tfm.reduce_sum %z axis 1 : tensor<4x8xf32>
  return %y, %z, %s : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x1xf32>
}

// -----

// Whoever replaces the product joins it even where a sum follows.
// CHECK-LABEL: func.func @replaces_the_product
// CHECK: sched.kernel matmul 4 by 8
// CHECK: tfm.add
// CHECK: sched.kernel row 4 by 8 (%{{.*}} : tensor<4x8xf32>) [point] -> (tensor<4x1xf32>) [row]
func.func @replaces_the_product(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> (tensor<4x8xf32>, tensor<4x1xf32>) {
  %y = tfm.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32>
  %z = tfm.add %y, %x : tensor<4x8xf32>
  %s = tfm.reduce_sum %z axis 1 : tensor<4x8xf32>
  return %z, %s : tensor<4x8xf32>, tensor<4x1xf32>
}

// -----

// A value may be several operands: each has an input of its own.
// CHECK-LABEL: func.func @same_operand_twice
// CHECK: sched.kernel matmul 4 by 4 (%arg0, %arg0 : tensor<4x4xf32>, tensor<4x4xf32>) [memory, memory]
func.func @same_operand_twice(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %y = tfm.matmul %x, %x transpose_b : tensor<4x4xf32>, tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}

// -----

// A bias is read at every point, through a view that repeats it.
// CHECK-LABEL: func.func @bias
// CHECK: %[[B:.*]] = tfm.broadcast %arg1
// CHECK: sched.kernel row 4 by 8 (%arg0, %[[B]] : tensor<4x8xf32>, tensor<4x8xf32>) [point, point]
func.func @bias(%x: tensor<4x8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %c = tfm.broadcast %b : tensor<8xf32> to tensor<4x8xf32>
  %y = tfm.add %x, %c : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// A number of each row is read once per row and repeated in registers.
// CHECK-LABEL: func.func @row_scalar
// CHECK: sched.kernel row 4 by 8 (%arg0, %arg1 : tensor<4x8xf32>, tensor<4x1xf32>) [point, row]
// CHECK: tfm.broadcast
func.func @row_scalar(%x: tensor<4x8xf32>, %s: tensor<4x1xf32>) -> tensor<4x8xf32> {
  %c = tfm.broadcast %s : tensor<4x1xf32> to tensor<4x8xf32>
  %y = tfm.mul %x, %c : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// A reshape that keeps the rows is nothing but another name.
// CHECK-LABEL: func.func @reshape_in_registers
// CHECK: sched.kernel row 12 by 8 (%arg0 : tensor<3x4x8xf32>) [point]
// CHECK: tfm.exp
// CHECK: tfm.reshape
// CHECK: tfm.sin
// CHECK-NOT: sched.kernel
func.func @reshape_in_registers(%x: tensor<3x4x8xf32>) -> tensor<12x8xf32> {
  %a = tfm.exp %x : tensor<3x4x8xf32>
  %r = tfm.reshape %a : tensor<3x4x8xf32> to tensor<12x8xf32>
  %b = tfm.sin %r : tensor<12x8xf32>
  return %b : tensor<12x8xf32>
}

// -----

// Through a transpose elements are read at other points: from memory, by
// another kernel.
// CHECK-LABEL: func.func @transpose_through_memory
// CHECK: %[[A:.*]] = sched.kernel row 4 by 4
// CHECK: %[[T:.*]] = tfm.transpose %[[A]]
// CHECK: sched.kernel row 4 by 4 (%[[T]] : tensor<4x4xf32>) [point]
func.func @transpose_through_memory(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %a = tfm.exp %x : tensor<4x4xf32>
  %t = tfm.transpose %a [1, 0] : tensor<4x4xf32>
  %b = tfm.sin %t : tensor<4x4xf32>
  return %b : tensor<4x4xf32>
}

// -----

// Numbers are in the code: a constant that is one number throughout is no
// input.
// CHECK-LABEL: func.func @splat
// CHECK: sched.kernel row 4 by 8 (%arg0 : tensor<4x8xf32>) [point]
// CHECK: tfm.constant dense<2.000000e+00>
func.func @splat(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %c = tfm.constant dense<2.0> : tensor<4x8xf32>
  %y = tfm.mul %x, %c : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// A table of numbers lies in memory.
// CHECK-LABEL: func.func @table
// CHECK: %[[C:.*]] = tfm.constant
// CHECK: sched.kernel row 2 by 2 (%arg0, %[[C]] : tensor<2x2xf32>, tensor<2x2xf32>) [point, point]
func.func @table(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %c = tfm.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %y = tfm.mul %x, %c : tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}

// -----

// A comparison costs nothing: each of its readers computes it again.
// CHECK-LABEL: func.func @compare_is_free
// CHECK: sched.kernel row 4 by 8
// CHECK: tfm.compare
// CHECK: sched.kernel matmul 4 by 8
// CHECK: tfm.compare
func.func @compare_is_free(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %z = tfm.constant dense<0.0> : tensor<4x8xf32>
  %c = tfm.compare gt %x, %z : tensor<4x8xf32>
  %a = tfm.select %c, %x, %z : tensor<4x8xi1>, tensor<4x8xf32>
  %y = tfm.matmul %a, %w : tensor<4x8xf32>, tensor<8x8xf32>
  %b = tfm.select %c, %y, %z : tensor<4x8xi1>, tensor<4x8xf32>
  return %b : tensor<4x8xf32>
}

// -----

// A mask that attention wants in memory is written there by a kernel.
// CHECK-LABEL: func.func @mask_in_memory
// CHECK: %[[M:.*]] = sched.kernel row 8 by 8 () [] -> (tensor<1x1x8x8xi1>) [point]
// CHECK: sched.kernel attention 0 by 0 (%arg0, %arg0, %arg0, %[[M]] : {{.*}}) [memory, memory, memory, memory]
func.func @mask_in_memory(%x: tensor<2x3x8x4xf32>) -> tensor<2x3x8x4xf32> {
  %q = tfm.iota 2 : tensor<1x1x8x8xi32>
  %k = tfm.iota 3 : tensor<1x1x8x8xi32>
  %m = tfm.compare ge %q, %k : tensor<1x1x8x8xi32>
  %y, %l = tfm.attention %x, %x, %x mask %m {scale = 0.5 : f64}
      : tensor<2x3x8x4xf32>, tensor<2x3x8x4xf32>, tensor<2x3x8x4xf32>, tensor<1x1x8x8xi1>
  return %y : tensor<2x3x8x4xf32>
}

// -----

// Ids are one per row, the table they look into is anywhere.
// CHECK-LABEL: func.func @embedding
// CHECK: sched.kernel row 6 by 8 (%arg0, %arg1 : tensor<50x8xf32>, tensor<2x3xi32>) [memory, row] -> (tensor<2x3x8xf32>) [point]
func.func @embedding(%t: tensor<50x8xf32>, %ids: tensor<2x3xi32>) -> tensor<2x3x8xf32> {
  %e = tfm.gather %t, %ids : tensor<50x8xf32>, tensor<2x3xi32>
  return %e : tensor<2x3x8xf32>
}

// -----

// Ids that are looked up themselves are in memory before anything is looked up
// by them.
// CHECK-LABEL: func.func @ids_of_ids
// CHECK: %[[I:.*]] = sched.kernel row 6 by 1 (%arg0, %arg2 : tensor<50x1xi32>, tensor<6xi32>) [memory, point] -> (tensor<6x1xi32>) [point]
// CHECK: sched.kernel row 6 by 1 (%arg1, %[[I]] : tensor<40x1xf32>, tensor<6x1xi32>) [memory, point] -> (tensor<6x1xf32>) [point]
func.func @ids_of_ids(%t: tensor<50x1xi32>, %u: tensor<40x1xf32>, %ids: tensor<6xi32>) -> tensor<6x1xf32> {
  %i = tfm.gather %t, %ids : tensor<50x1xi32>, tensor<6xi32>
  %r = tfm.reshape %i : tensor<6x1xi32> to tensor<6xi32>
  %e = tfm.gather %u, %r : tensor<40x1xf32>, tensor<6xi32>
  return %e : tensor<6x1xf32>
}

// -----

// Sums so far depend on the order in which a row is walked: nothing else is in
// their kernel.
// CHECK-LABEL: func.func @sums_so_far
// CHECK: sched.kernel row
// CHECK-NEXT: ^bb0
// CHECK-NEXT: tfm.exp
// CHECK-NEXT: sched.yield
// CHECK: %[[S:.*]] = sched.kernel row
// CHECK-NEXT: ^bb0
// CHECK-NEXT: tfm.cumsum
// CHECK-NEXT: sched.yield
// CHECK: sched.kernel row 4 by 8 (%[[S]] :
// CHECK-NEXT: ^bb0
// CHECK-NEXT: tfm.tanh
// CHECK-NEXT: sched.yield
func.func @sums_so_far(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %e = tfm.exp %x : tensor<4x8xf32>
  %s = tfm.cumsum %e axis 1 : tensor<4x8xf32>
  %t = tfm.tanh %s : tensor<4x8xf32>
  return %t : tensor<4x8xf32>
}

// -----

// Weights of 4 bits are part of the product or the choice of rows that reads
// them: nowhere are they written as what they stand for.
// CHECK-LABEL: func.func @weights
// CHECK-NOT: tfm.dequantise
// CHECK: %[[X:.*]] = sched.kernel row 6 by 40 (%arg0, %arg1, %arg2, %arg3 : tensor<50x32xi8>, tensor<50x2xbf16>, tensor<50x2xbf16>, tensor<6xi32>) [memory, memory, memory, row] -> (tensor<6x40xf32>) [point]
// CHECK: %[[T:.*]] = tfm.dequantise
// CHECK: tfm.gather %[[T]]
// CHECK: sched.kernel matmul 6 by 50 (%[[X]], %arg0, %arg1, %arg2 : {{.*}}) [memory, memory, memory, memory] -> (tensor<6x50xf32>) [point]
// CHECK: %[[W:.*]] = tfm.dequantise
// CHECK: %[[Y:.*]] = tfm.matmul %{{.*}}, %[[W]] transpose_b
// CHECK: tfm.tanh %[[Y]]
func.func @weights(%q: tensor<50x32xi8>, %s: tensor<50x2xbf16>, %m: tensor<50x2xbf16>, %ids: tensor<6xi32>) -> tensor<6x50xf32> {
  %w = tfm.dequantise %q, %s, %m : tensor<50x32xi8>, tensor<50x2xbf16> to tensor<50x40xf32>
  %x = tfm.gather %w, %ids : tensor<50x40xf32>, tensor<6xi32>
  %y = tfm.matmul %x, %w transpose_b : tensor<6x40xf32>, tensor<50x40xf32>
  %z = tfm.tanh %y : tensor<6x50xf32>
  return %z : tensor<6x50xf32>
}

// -----

// Positions are no input: where a token stands follows from the shape.
// CHECK-LABEL: func.func @positions
// CHECK: sched.kernel row 6 by 8 (%arg0 : tensor<50x8xf32>) [memory]
// CHECK: %[[I:.*]] = tfm.iota 1 : tensor<2x3xi32>
// CHECK: tfm.gather %{{.*}}, %[[I]]
func.func @positions(%t: tensor<50x8xf32>, %ids: tensor<2x3xi32>) -> tensor<2x3x8xf32> {
  %p = tfm.positions %ids : tensor<2x3xi32>
  %e = tfm.gather %t, %p : tensor<50x8xf32>, tensor<2x3xi32>
  return %e : tensor<2x3x8xf32>
}

// -----

// A scatter's base is its first input: the result is to be where that is.
// CHECK-LABEL: func.func @scatter
// CHECK: sched.kernel scatter_add 0 by 0 (%arg0, %arg1, %arg2 : {{.*}}) [memory, memory, memory] -> (tensor<50x8xf32>) [memory]
func.func @scatter(%b: tensor<50x8xf32>, %ids: tensor<6xi32>, %u: tensor<6x8xf32>) -> tensor<50x8xf32> {
  %y = tfm.scatter_add %b, %ids, %u : tensor<50x8xf32>, tensor<6xi32>, tensor<6x8xf32>
  return %y : tensor<50x8xf32>
}

// -----

// The layer's index comes last: dropout's masks differ from layer to layer.
// CHECK-LABEL: func.func @layer
// CHECK: ^bb0(%[[LAYER:.*]]: index, %[[H:.*]]: tensor<4x8xf32>):
// CHECK: sched.kernel row 4 by 8 (%[[H]] : tensor<4x8xf32>) [point] layer %[[LAYER]]
// CHECK-NEXT: ^bb0(%[[X:.*]]: tensor<4x8xf32>, %[[L:.*]]: index):
// CHECK-NEXT: tfm.dropout %[[X]] layer %[[L]]
func.func @layer(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = tfm.repeat 3 carried(%x : tensor<4x8xf32>) stacked() shared() -> (tensor<4x8xf32>) {
  ^bb0(%layer: index, %h: tensor<4x8xf32>):
    %d = tfm.dropout %h layer %layer {rate = 0.1 : f64, site = 0 : i64} : tensor<4x8xf32>
    tfm.yield %d : tensor<4x8xf32>
  }
  return %y : tensor<4x8xf32>
}

// -----

// What draws is part of the kernel that wants its numbers, which reads nothing
// for them.
// CHECK-LABEL: func.func @draws
// CHECK: sched.kernel row 4 by 8 (%arg0 : tensor<4x8xf32>) [point] -> (tensor<4x8xf32>) [point] {
// CHECK-NEXT: ^bb0(%[[X:.*]]: tensor<4x8xf32>):
// CHECK-NEXT: %[[U:.*]] = tfm.uniform
// CHECK-NEXT: %[[L:.*]] = tfm.log %[[U]]
// CHECK-NEXT: tfm.mul %[[X]], %[[L]]
// CHECK-NOT: sched.kernel
// CHECK: return
func.func @draws(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %u = tfm.uniform {site = 0 : i64} : tensor<4x8xf32>
  %l = tfm.log %u : tensor<4x8xf32>
  %y = tfm.mul %x, %l : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// Loops and concatenations are no kernels; what they hold or join is.
// CHECK-LABEL: func.func @stand_alone
// CHECK: %[[S:.*]] = sched.kernel row 4 by 8
// CHECK: tfm.concat %[[S]], %arg0 axis 1
func.func @stand_alone(%x: tensor<4x8xf32>) -> tensor<4x16xf32> {
  %s = tfm.sin %x : tensor<4x8xf32>
  %c = tfm.concat %s, %x axis 1 : tensor<4x8xf32>, tensor<4x8xf32>
  return %c : tensor<4x16xf32>
}

// -----

// Of one row, too, what is one number of it is computed next to what that is
// from: the row is a kernel, not one before its sum and one behind it.
// CHECK-LABEL: func.func @one_row
// CHECK: sched.kernel row 1 by 8
// CHECK: tfm.reduce_sum
// CHECK: tfm.exp
// CHECK: tfm.mul
// CHECK-NOT: sched.kernel
func.func @one_row(%x: tensor<1x8xf32>) -> tensor<1x8xf32> {
  %s = tfm.reduce_sum %x axis 1 : tensor<1x8xf32>
  %e = tfm.exp %s : tensor<1x1xf32>
  %b = tfm.broadcast %e : tensor<1x1xf32> to tensor<1x8xf32>
  %y = tfm.mul %x, %b : tensor<1x8xf32>
  return %y : tensor<1x8xf32>
}
