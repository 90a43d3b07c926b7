// RUN: tfm-opt %s --split-input-file --sched-group-launches=target=cuda | FileCheck %s

// What the blocks of one kernel do, they do in any order: which launches may
// not be in a group with the one before.

// Neither needs the other.
// CHECK-LABEL: sched.program @apart
// CHECK: sched.group {
// CHECK-NEXT: sched.launch row 1 by 8
// CHECK: sched.launch row 1 by 8
!x = memref<1x8xf32, strided<[8, 1]>>
!n = memref<1xi32, strided<[1]>>
sched.program @apart {
  %a_ = sched.buffer activation "a" : memref<32xi8>
  %b_ = sched.buffer activation "b" : memref<32xi8>
  %c_ = sched.buffer activation "c" : memref<32xi8>
  %d_ = sched.buffer activation "d" : memref<32xi8>
  %a = sched.view %a_ at 0 : memref<32xi8> to !x
  %b = sched.view %b_ at 0 : memref<32xi8> to !x
  %c = sched.view %c_ at 0 : memref<32xi8> to !x
  %d = sched.view %d_ at 0 : memref<32xi8> to !x
  sched.launch row 1 by 8 reads(%a : !x) writes(%b : !x) [point, point] {
  ^bb0(%from: !x, %to: !x):
    %0 = sched.read %from : !x to tensor<1x8xf32>
    %1 = tfm.neg %0 : tensor<1x8xf32>
    sched.write %1, %to : tensor<1x8xf32> to !x
  }
  sched.launch row 1 by 8 reads(%c : !x) writes(%d : !x) [point, point] {
  ^bb0(%from: !x, %to: !x):
    %0 = sched.read %from : !x to tensor<1x8xf32>
    %1 = tfm.neg %0 : tensor<1x8xf32>
    sched.write %1, %to : tensor<1x8xf32> to !x
  }
}

// -----

// The second writes what the first reads.
// CHECK-LABEL: sched.program @write_after_read
// CHECK-NOT: sched.group
!x = memref<1x8xf32, strided<[8, 1]>>
!n = memref<1xi32, strided<[1]>>
sched.program @write_after_read {
  %a_ = sched.buffer activation "a" : memref<32xi8>
  %b_ = sched.buffer activation "b" : memref<32xi8>
  %c_ = sched.buffer activation "c" : memref<32xi8>
  %a = sched.view %a_ at 0 : memref<32xi8> to !x
  %b = sched.view %b_ at 0 : memref<32xi8> to !x
  %c = sched.view %c_ at 0 : memref<32xi8> to !x
  sched.launch row 1 by 8 reads(%a : !x) writes(%b : !x) [point, point] {
  ^bb0(%from: !x, %to: !x):
    %0 = sched.read %from : !x to tensor<1x8xf32>
    %1 = tfm.neg %0 : tensor<1x8xf32>
    sched.write %1, %to : tensor<1x8xf32> to !x
  }
  sched.launch row 1 by 8 reads(%c : !x) writes(%a : !x) [point, point] {
  ^bb0(%from: !x, %to: !x):
    %0 = sched.read %from : !x to tensor<1x8xf32>
    %1 = tfm.neg %0 : tensor<1x8xf32>
    sched.write %1, %to : tensor<1x8xf32> to !x
  }
}

// -----

// Both write the same.
// CHECK-LABEL: sched.program @write_after_write
// CHECK-NOT: sched.group
!x = memref<1x8xf32, strided<[8, 1]>>
!n = memref<1xi32, strided<[1]>>
sched.program @write_after_write {
  %a_ = sched.buffer activation "a" : memref<32xi8>
  %b_ = sched.buffer activation "b" : memref<32xi8>
  %c_ = sched.buffer activation "c" : memref<32xi8>
  %a = sched.view %a_ at 0 : memref<32xi8> to !x
  %b = sched.view %b_ at 0 : memref<32xi8> to !x
  %c = sched.view %c_ at 0 : memref<32xi8> to !x
  sched.launch row 1 by 8 reads(%a : !x) writes(%b : !x) [point, point] {
  ^bb0(%from: !x, %to: !x):
    %0 = sched.read %from : !x to tensor<1x8xf32>
    %1 = tfm.neg %0 : tensor<1x8xf32>
    sched.write %1, %to : tensor<1x8xf32> to !x
  }
  sched.launch row 1 by 8 reads(%c : !x) writes(%b : !x) [point, point] {
  ^bb0(%from: !x, %to: !x):
    %0 = sched.read %from : !x to tensor<1x8xf32>
    %1 = tfm.neg %0 : tensor<1x8xf32>
    sched.write %1, %to : tensor<1x8xf32> to !x
  }
}

// -----

// The third reads what the first writes, and is in the group of the second no more.
// CHECK-LABEL: sched.program @read_after_write
// CHECK: sched.group {
// CHECK-NEXT: sched.launch
// CHECK: sched.launch
// CHECK: sched.write
// CHECK-NEXT: }
// CHECK-NEXT: }
// CHECK-NEXT: sched.launch
!x = memref<1x8xf32, strided<[8, 1]>>
!n = memref<1xi32, strided<[1]>>
sched.program @read_after_write {
  %a_ = sched.buffer activation "a" : memref<32xi8>
  %b_ = sched.buffer activation "b" : memref<32xi8>
  %c_ = sched.buffer activation "c" : memref<32xi8>
  %d_ = sched.buffer activation "d" : memref<32xi8>
  %e_ = sched.buffer activation "e" : memref<32xi8>
  %a = sched.view %a_ at 0 : memref<32xi8> to !x
  %b = sched.view %b_ at 0 : memref<32xi8> to !x
  %c = sched.view %c_ at 0 : memref<32xi8> to !x
  %d = sched.view %d_ at 0 : memref<32xi8> to !x
  %e = sched.view %e_ at 0 : memref<32xi8> to !x
  sched.launch row 1 by 8 reads(%a : !x) writes(%b : !x) [point, point] {
  ^bb0(%from: !x, %to: !x):
    %0 = sched.read %from : !x to tensor<1x8xf32>
    %1 = tfm.neg %0 : tensor<1x8xf32>
    sched.write %1, %to : tensor<1x8xf32> to !x
  }
  sched.launch row 1 by 8 reads(%c : !x) writes(%d : !x) [point, point] {
  ^bb0(%from: !x, %to: !x):
    %0 = sched.read %from : !x to tensor<1x8xf32>
    %1 = tfm.neg %0 : tensor<1x8xf32>
    sched.write %1, %to : tensor<1x8xf32> to !x
  }
  sched.launch row 1 by 8 reads(%b : !x) writes(%e : !x) [point, point] {
  ^bb0(%from: !x, %to: !x):
    %0 = sched.read %from : !x to tensor<1x8xf32>
    %1 = tfm.neg %0 : tensor<1x8xf32>
    sched.write %1, %to : tensor<1x8xf32> to !x
  }
}

// -----

// The first computes which row the second reads.
// CHECK-LABEL: sched.program @number_of_row
// CHECK-NOT: sched.group
!x = memref<1x8xf32, strided<[8, 1]>>
!n = memref<1xi32, strided<[1]>>
sched.program @number_of_row {
  %b_ = sched.buffer activation "b" : memref<32xi8>
  %b = sched.view %b_ at 0 : memref<32xi8> to !x
  %n_ = sched.buffer activation "n" : memref<4xi8>
  %m_ = sched.buffer activation "m" : memref<4xi8>
  %n = sched.view %n_ at 0 : memref<4xi8> to !n
  %m = sched.view %m_ at 0 : memref<4xi8> to !n
  %t_ = sched.buffer activation "t" : memref<128xi8>
  %row = sched.view %t_ at 0 row(%n : !n) by 32 : memref<128xi8> to !x
  sched.launch row 1 by 1 reads(%m : !n) writes(%n : !n) [point, point] {
  ^bb0(%from: !n, %to: !n):
    %0 = sched.read %from : !n to tensor<1xi32>
    %1 = tfm.add %0, %0 : tensor<1xi32>
    sched.write %1, %to : tensor<1xi32> to !n
  }
  sched.launch row 1 by 8 reads(%row : !x) writes(%b : !x) [point, point] {
  ^bb0(%from: !x, %to: !x):
    %0 = sched.read %from : !x to tensor<1x8xf32>
    %1 = tfm.neg %0 : tensor<1x8xf32>
    sched.write %1, %to : tensor<1x8xf32> to !x
  }
}

// -----

// The second changes which row the first reads.
// CHECK-LABEL: sched.program @number_of_row_after
// CHECK-NOT: sched.group
!x = memref<1x8xf32, strided<[8, 1]>>
!n = memref<1xi32, strided<[1]>>
sched.program @number_of_row_after {
  %b_ = sched.buffer activation "b" : memref<32xi8>
  %b = sched.view %b_ at 0 : memref<32xi8> to !x
  %n_ = sched.buffer activation "n" : memref<4xi8>
  %m_ = sched.buffer activation "m" : memref<4xi8>
  %n = sched.view %n_ at 0 : memref<4xi8> to !n
  %m = sched.view %m_ at 0 : memref<4xi8> to !n
  %t_ = sched.buffer activation "t" : memref<128xi8>
  %row = sched.view %t_ at 0 row(%n : !n) by 32 : memref<128xi8> to !x
  sched.launch row 1 by 8 reads(%row : !x) writes(%b : !x) [point, point] {
  ^bb0(%from: !x, %to: !x):
    %0 = sched.read %from : !x to tensor<1x8xf32>
    %1 = tfm.neg %0 : tensor<1x8xf32>
    sched.write %1, %to : tensor<1x8xf32> to !x
  }
  sched.launch row 1 by 1 reads(%m : !n) writes(%n : !n) [point, point] {
  ^bb0(%from: !n, %to: !n):
    %0 = sched.read %from : !n to tensor<1xi32>
    %1 = tfm.add %0, %0 : tensor<1xi32>
    sched.write %1, %to : tensor<1xi32> to !n
  }
}

// -----

// Every block of the product computes the row that it multiplies.
// CHECK-LABEL: sched.program @row_in_blocks
// CHECK: sched.group behind_first {
!x = memref<1x8xf32, strided<[8, 1]>>
!n = memref<1xi32, strided<[1]>>
!w = memref<32x8xf32, strided<[8, 1]>>
!y = memref<1x32xf32, strided<[32, 1]>>
sched.program @row_in_blocks {
  %a_ = sched.buffer activation "a" : memref<32xi8>
  %b_ = sched.buffer activation "b" : memref<32xi8>
  %a = sched.view %a_ at 0 : memref<32xi8> to !x
  %b = sched.view %b_ at 0 : memref<32xi8> to !x
  %w_ = sched.buffer activation "w" : memref<1024xi8>
  %y_ = sched.buffer activation "y" : memref<128xi8>
  %w = sched.view %w_ at 0 : memref<1024xi8> to !w
  %y = sched.view %y_ at 0 : memref<128xi8> to !y
  sched.launch row 1 by 8 reads(%a : !x) writes(%b : !x) [point, point] {
  ^bb0(%from: !x, %to: !x):
    %0 = sched.read %from : !x to tensor<1x8xf32>
    %1 = tfm.reduce_sum %0 axis 1 : tensor<1x8xf32>
    %2 = tfm.broadcast %1 : tensor<1x1xf32> to tensor<1x8xf32>
    %3 = tfm.sub %0, %2 : tensor<1x8xf32>
    sched.write %3, %to : tensor<1x8xf32> to !x
  }
  sched.launch matmul 1 by 32 reads(%b, %w : !x, !w) writes(%y : !y) [memory, memory, point] {
  ^bb0(%l: !x, %r: !w, %to: !y):
    %0 = sched.read %l : !x to tensor<1x8xf32>
    %1 = sched.read %r : !w to tensor<32x8xf32>
    %2 = tfm.matmul %0, %1 transpose_b : tensor<1x8xf32>, tensor<32x8xf32>
    sched.write %2, %to : tensor<1x32xf32> to !y
  }
}

// -----

// What the row is made of is changed before the product.
// CHECK-LABEL: sched.program @changed_between
// CHECK-NOT: sched.group
!x = memref<1x8xf32, strided<[8, 1]>>
!n = memref<1xi32, strided<[1]>>
!w = memref<32x8xf32, strided<[8, 1]>>
!y = memref<1x32xf32, strided<[32, 1]>>
sched.program @changed_between {
  %a_ = sched.buffer activation "a" : memref<32xi8>
  %b_ = sched.buffer activation "b" : memref<32xi8>
  %a = sched.view %a_ at 0 : memref<32xi8> to !x
  %b = sched.view %b_ at 0 : memref<32xi8> to !x
  %w_ = sched.buffer activation "w" : memref<1024xi8>
  %y_ = sched.buffer activation "y" : memref<128xi8>
  %w = sched.view %w_ at 0 : memref<1024xi8> to !w
  %y = sched.view %y_ at 0 : memref<128xi8> to !y
  sched.launch row 1 by 8 reads(%a : !x) writes(%b : !x) [point, point] {
  ^bb0(%from: !x, %to: !x):
    %0 = sched.read %from : !x to tensor<1x8xf32>
    %1 = tfm.reduce_sum %0 axis 1 : tensor<1x8xf32>
    %2 = tfm.broadcast %1 : tensor<1x1xf32> to tensor<1x8xf32>
    %3 = tfm.sub %0, %2 : tensor<1x8xf32>
    sched.write %3, %to : tensor<1x8xf32> to !x
  }
  sched.fill 1.0 : f32, %a : !x
  sched.launch matmul 1 by 32 reads(%b, %w : !x, !w) writes(%y : !y) [memory, memory, point] {
  ^bb0(%l: !x, %r: !w, %to: !y):
    %0 = sched.read %l : !x to tensor<1x8xf32>
    %1 = sched.read %r : !w to tensor<32x8xf32>
    %2 = tfm.matmul %0, %1 transpose_b : tensor<1x8xf32>, tensor<32x8xf32>
    sched.write %2, %to : tensor<1x32xf32> to !y
  }
}

// -----

// Or may be, in a loop.
// CHECK-LABEL: sched.program @loop_between
// CHECK-NOT: sched.group
!x = memref<1x8xf32, strided<[8, 1]>>
!n = memref<1xi32, strided<[1]>>
!w = memref<32x8xf32, strided<[8, 1]>>
!y = memref<1x32xf32, strided<[32, 1]>>
sched.program @loop_between {
  %a_ = sched.buffer activation "a" : memref<32xi8>
  %b_ = sched.buffer activation "b" : memref<32xi8>
  %a = sched.view %a_ at 0 : memref<32xi8> to !x
  %b = sched.view %b_ at 0 : memref<32xi8> to !x
  %w_ = sched.buffer activation "w" : memref<1024xi8>
  %y_ = sched.buffer activation "y" : memref<128xi8>
  %w = sched.view %w_ at 0 : memref<1024xi8> to !w
  %y = sched.view %y_ at 0 : memref<128xi8> to !y
  sched.launch row 1 by 8 reads(%a : !x) writes(%b : !x) [point, point] {
  ^bb0(%from: !x, %to: !x):
    %0 = sched.read %from : !x to tensor<1x8xf32>
    %1 = tfm.reduce_sum %0 axis 1 : tensor<1x8xf32>
    %2 = tfm.broadcast %1 : tensor<1x1xf32> to tensor<1x8xf32>
    %3 = tfm.sub %0, %2 : tensor<1x8xf32>
    sched.write %3, %to : tensor<1x8xf32> to !x
  }
  sched.loop 2 {
  ^bb0(%i: index):
    sched.fill 1.0 : f32, %a : !x
  }
  sched.launch matmul 1 by 32 reads(%b, %w : !x, !w) writes(%y : !y) [memory, memory, point] {
  ^bb0(%l: !x, %r: !w, %to: !y):
    %0 = sched.read %l : !x to tensor<1x8xf32>
    %1 = sched.read %r : !w to tensor<32x8xf32>
    %2 = tfm.matmul %0, %1 transpose_b : tensor<1x8xf32>, tensor<32x8xf32>
    sched.write %2, %to : tensor<1x32xf32> to !y
  }
}

// -----

// What else is written between them does not matter.
// CHECK-LABEL: sched.program @other_between
// CHECK: sched.fill
// CHECK: sched.group behind_first {
!x = memref<1x8xf32, strided<[8, 1]>>
!n = memref<1xi32, strided<[1]>>
!w = memref<32x8xf32, strided<[8, 1]>>
!y = memref<1x32xf32, strided<[32, 1]>>
sched.program @other_between {
  %a_ = sched.buffer activation "a" : memref<32xi8>
  %b_ = sched.buffer activation "b" : memref<32xi8>
  %c_ = sched.buffer activation "c" : memref<32xi8>
  %a = sched.view %a_ at 0 : memref<32xi8> to !x
  %b = sched.view %b_ at 0 : memref<32xi8> to !x
  %c = sched.view %c_ at 0 : memref<32xi8> to !x
  %w_ = sched.buffer activation "w" : memref<1024xi8>
  %y_ = sched.buffer activation "y" : memref<128xi8>
  %w = sched.view %w_ at 0 : memref<1024xi8> to !w
  %y = sched.view %y_ at 0 : memref<128xi8> to !y
  sched.launch row 1 by 8 reads(%a : !x) writes(%b : !x) [point, point] {
  ^bb0(%from: !x, %to: !x):
    %0 = sched.read %from : !x to tensor<1x8xf32>
    %1 = tfm.reduce_sum %0 axis 1 : tensor<1x8xf32>
    %2 = tfm.broadcast %1 : tensor<1x1xf32> to tensor<1x8xf32>
    %3 = tfm.sub %0, %2 : tensor<1x8xf32>
    sched.write %3, %to : tensor<1x8xf32> to !x
  }
  sched.fill 1.0 : f32, %c : !x
  sched.launch matmul 1 by 32 reads(%b, %w : !x, !w) writes(%y : !y) [memory, memory, point] {
  ^bb0(%l: !x, %r: !w, %to: !y):
    %0 = sched.read %l : !x to tensor<1x8xf32>
    %1 = sched.read %r : !w to tensor<32x8xf32>
    %2 = tfm.matmul %0, %1 transpose_b : tensor<1x8xf32>, tensor<32x8xf32>
    sched.write %2, %to : tensor<1x32xf32> to !y
  }
}

// -----

// The product reads a row of the buffer that is known when it runs.
// CHECK-LABEL: sched.program @row_of_rows
// CHECK-NOT: sched.group
!x = memref<1x8xf32, strided<[8, 1]>>
!n = memref<1xi32, strided<[1]>>
!w = memref<32x8xf32, strided<[8, 1]>>
!y = memref<1x32xf32, strided<[32, 1]>>
sched.program @row_of_rows {
  %a_ = sched.buffer activation "a" : memref<32xi8>
  %b_ = sched.buffer activation "b" : memref<32xi8>
  %a = sched.view %a_ at 0 : memref<32xi8> to !x
  %b = sched.view %b_ at 0 : memref<32xi8> to !x
  %w_ = sched.buffer activation "w" : memref<1024xi8>
  %y_ = sched.buffer activation "y" : memref<128xi8>
  %w = sched.view %w_ at 0 : memref<1024xi8> to !w
  %y = sched.view %y_ at 0 : memref<128xi8> to !y
  %n_ = sched.buffer activation "n" : memref<4xi8>
  %n = sched.view %n_ at 0 : memref<4xi8> to !n
  %row = sched.view %b_ at 0 row(%n : !n) by 32 : memref<32xi8> to !x
  sched.launch row 1 by 8 reads(%a : !x) writes(%b : !x) [point, point] {
  ^bb0(%from: !x, %to: !x):
    %0 = sched.read %from : !x to tensor<1x8xf32>
    %1 = tfm.reduce_sum %0 axis 1 : tensor<1x8xf32>
    %2 = tfm.broadcast %1 : tensor<1x1xf32> to tensor<1x8xf32>
    %3 = tfm.sub %0, %2 : tensor<1x8xf32>
    sched.write %3, %to : tensor<1x8xf32> to !x
  }
  sched.launch matmul 1 by 32 reads(%row, %w : !x, !w) writes(%y : !y) [memory, memory, point] {
  ^bb0(%l: !x, %r: !w, %to: !y):
    %0 = sched.read %l : !x to tensor<1x8xf32>
    %1 = sched.read %r : !w to tensor<32x8xf32>
    %2 = tfm.matmul %0, %1 transpose_b : tensor<1x8xf32>, tensor<32x8xf32>
    sched.write %2, %to : tensor<1x32xf32> to !y
  }
}
