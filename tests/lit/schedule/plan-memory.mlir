// RUN: tfm-opt %s --sched-plan-memory --split-input-file | FileCheck %s

// What lives always lies behind each other, each on a cache line of its own;
// the arena has them and nothing else.
// CHECK: module attributes {sched.activations = 0 : i64, sched.arena = 192 : i64, sched.lower_bound = 0 : i64}
// CHECK: sched.buffer parameter "a" at 0 : memref<4xi8>
// CHECK: sched.buffer cache "b" at 64 : memref<100xi8>
module {
  %a = sched.buffer parameter "a" : memref<4xi8>
  %b = sched.buffer cache "b" : memref<100xi8>
}

// -----

// Activations that are not live at one time share bytes.
// CHECK: sched.activations = 128 : i64, sched.arena = 128 : i64, sched.lower_bound = 128 : i64
// CHECK: sched.buffer activation "a" at [[A:[0-9]+]] live [0, 1]
// CHECK: sched.buffer activation "b" at {{[0-9]+}} live [1, 2]
// CHECK: sched.buffer activation "c" at [[A]] live [2, 2]
module {
  sched.program @f {
    %a = sched.buffer activation "a" : memref<64xi8>
    %b = sched.buffer activation "b" : memref<64xi8>
    %c = sched.buffer activation "c" : memref<64xi8>
    %x = sched.view %a at 0 : memref<64xi8> to memref<16xf32, strided<[1]>>
    %y = sched.view %b at 0 : memref<64xi8> to memref<16xf32, strided<[1]>>
    %z = sched.view %c at 0 : memref<64xi8> to memref<16xf32, strided<[1]>>
    sched.fill 0.0 : f32, %x : memref<16xf32, strided<[1]>>
    sched.copy %x, %y : memref<16xf32, strided<[1]>> to memref<16xf32, strided<[1]>>
    sched.copy %y, %z : memref<16xf32, strided<[1]>> to memref<16xf32, strided<[1]>>
  }
}

// -----

// Programs run one at a time: they share all of their bytes.
// CHECK: sched.activations = 128 : i64
// CHECK: "a" at 0 live [0, 0]
// CHECK: "b" at 0 live [0, 0]
module {
  sched.program @f {
    %a = sched.buffer activation "a" : memref<64xi8>
    %x = sched.view %a at 0 : memref<64xi8> to memref<16xf32, strided<[1]>>
    sched.fill 0.0 : f32, %x : memref<16xf32, strided<[1]>>
  }
  sched.program @g {
    %b = sched.buffer activation "b" : memref<128xi8>
    %x = sched.view %b at 0 : memref<128xi8> to memref<32xf32, strided<[1]>>
    sched.fill 0.0 : f32, %x : memref<32xf32, strided<[1]>>
  }
}

// -----

// What a loop uses and does not hold is live all through it; what it holds
// lives within a turn, and shares bytes there.
// CHECK: sched.activations = 128 : i64
// CHECK: "kept" at {{[0-9]+}} live [0, 3]
// CHECK: "a" at [[A:[0-9]+]] live [0, 0]
// CHECK: "b" at [[A]] live [2, 2]
module {
  sched.program @f {
    %kept = sched.buffer activation "kept" : memref<64xi8>
    sched.loop 3 {
    ^bb0(%i: index):
      %a = sched.buffer activation "a" : memref<64xi8>
      %b = sched.buffer activation "b" : memref<64xi8>
      %k = sched.view %kept at 0 : memref<64xi8> to memref<16xf32, strided<[1]>>
      %x = sched.view %a at 0 : memref<64xi8> to memref<16xf32, strided<[1]>>
      %y = sched.view %b at 0 : memref<64xi8> to memref<16xf32, strided<[1]>>
      sched.fill 0.0 : f32, %x : memref<16xf32, strided<[1]>>
      sched.fill 0.0 : f32, %k : memref<16xf32, strided<[1]>>
      sched.fill 0.0 : f32, %y : memref<16xf32, strided<[1]>>
      sched.fill 0.0 : f32, %k : memref<16xf32, strided<[1]>>
    }
  }
}

// -----

// Of nested loops it is the outermost one that does not hold the buffer.
// CHECK: "outer" at {{[0-9]+}} live [1, 3]
// CHECK: "inner" at {{[0-9]+}} live [2, 2]
module {
  sched.program @f {
    %outer = sched.buffer activation "outer" : memref<64xi8>
    %x = sched.view %outer at 0 : memref<64xi8> to memref<16xf32, strided<[1]>>
    %first = sched.buffer activation "first" : memref<64xi8>
    %f = sched.view %first at 0 : memref<64xi8> to memref<16xf32, strided<[1]>>
    sched.fill 0.0 : f32, %f : memref<16xf32, strided<[1]>>
    sched.loop 3 {
    ^bb0(%i: index):
      %inner = sched.buffer activation "inner" : memref<64xi8>
      %z = sched.view %inner at 0 : memref<64xi8> to memref<16xf32, strided<[1]>>
      sched.fill 0.0 : f32, %f : memref<16xf32, strided<[1]>>
      sched.loop 2 {
      ^bb0(%j: index):
        sched.copy %x, %z : memref<16xf32, strided<[1]>> to memref<16xf32, strided<[1]>>
      }
      sched.fill 0.0 : f32, %f : memref<16xf32, strided<[1]>>
    }
  }
}

// -----

// Inputs are there from the start, outputs after the end.
// CHECK: "in" at {{[0-9]+}} live [0, 1]
// CHECK: "out" at {{[0-9]+}} live [0, 2]
module {
  sched.program @f {
    %in = sched.buffer activation "in" : memref<64xi8>
    %out = sched.buffer activation "out" : memref<64xi8>
    %x = sched.view %in at 0 : memref<64xi8> to memref<16xf32, strided<[1]>>
    %y = sched.view %out at 0 : memref<64xi8> to memref<16xf32, strided<[1]>>
    sched.input "x" %x : memref<16xf32, strided<[1]>>
    sched.fill 0.0 : f32, %y : memref<16xf32, strided<[1]>>
    sched.copy %x, %y : memref<16xf32, strided<[1]>> to memref<16xf32, strided<[1]>>
    sched.output "y" %y : memref<16xf32, strided<[1]>>
  }
}

// -----

// What nothing uses gets no bytes.
// CHECK: sched.arena = 0 : i64
// CHECK: sched.buffer activation "unused" : memref<64xi8>
module {
  sched.program @f {
    %a = sched.buffer activation "unused" : memref<64xi8>
  }
}

// -----

// The number of a row is read again in every step that works on it.
// CHECK: sched.buffer activation "row" at {{.*}} live [0, 2]
%cache = sched.buffer cache "c" : memref<64xi8>
sched.program @rows {
  %row = sched.buffer activation "row" : memref<4xi8>
  %y = sched.buffer activation "y" : memref<16xi8>
  %r = sched.view %row at 0 : memref<4xi8> to memref<1xi32, strided<[1]>>
  sched.input "row" %r : memref<1xi32, strided<[1]>>
  %v = sched.view %cache at 0 row(%r : memref<1xi32, strided<[1]>>) by 16 : memref<64xi8> to memref<4xf32, strided<[1]>>
  %w = sched.view %y at 0 : memref<16xi8> to memref<4xf32, strided<[1]>>
  sched.fill 1.0 : f32, %w : memref<4xf32, strided<[1]>>
  sched.fill 0.0 : f32, %v : memref<4xf32, strided<[1]>>
  sched.copy %w, %v : memref<4xf32, strided<[1]>> to memref<4xf32, strided<[1]>>
  sched.fill 1.0 : f32, %w : memref<4xf32, strided<[1]>>
}

// -----

// What goes into an update may be written before the step before it runs, and
// what that gives be read after both: neither lies where something else of the
// two does.
// CHECK: sched.activations = 192 : i64
// CHECK-LABEL: sched.program @train
// CHECK: "loss" at 0 live
// CHECK: "inner" at 128 live
// CHECK-LABEL: sched.program @update
// CHECK: "hyper" at 64 live
// CHECK: "scale" at 128 live
module {
  sched.program @train {
    %loss = sched.buffer activation "loss" : memref<4xi8>
    %inner = sched.buffer activation "inner" : memref<4xi8>
    %l = sched.view %loss at 0 : memref<4xi8> to memref<1xf32, strided<[1]>>
    %i = sched.view %inner at 0 : memref<4xi8> to memref<1xf32, strided<[1]>>
    sched.fill 1.0 : f32, %i : memref<1xf32, strided<[1]>>
    sched.copy %i, %l : memref<1xf32, strided<[1]>> to memref<1xf32, strided<[1]>>
    sched.output "loss" %l : memref<1xf32, strided<[1]>>
  }
  sched.program @update {
    %hyper = sched.buffer activation "hyper" : memref<4xi8>
    %scale = sched.buffer activation "scale" : memref<4xi8>
    %h = sched.view %hyper at 0 : memref<4xi8> to memref<1xf32, strided<[1]>>
    %s = sched.view %scale at 0 : memref<4xi8> to memref<1xf32, strided<[1]>>
    sched.input "hyper" %h : memref<1xf32, strided<[1]>>
    sched.copy %h, %s : memref<1xf32, strided<[1]>> to memref<1xf32, strided<[1]>>
  }
}
