// RUN: tfm-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{that is an activation stands in a program}}
%a = sched.buffer activation "a" : memref<64xi8>

// -----

sched.program @f {
  // expected-error @+1 {{stands in the module}}
  %a = sched.buffer parameter "a" : memref<64xi8>
}

// -----

// expected-error @+1 {{has a value where it is a constant, and only there}}
%a = sched.buffer constant "a" : memref<64xi8>

// -----

// expected-error @+1 {{has not the size of its value}}
%a = sched.buffer constant "a" value dense<0.0> : tensor<4xf32> : memref<64xi8>

// -----

// expected-error @+1 {{has an offset that is no multiple of 64}}
%a = sched.buffer parameter "a" at 32 : memref<64xi8>

// -----

sched.program @f {
  // expected-error @+1 {{has no first and last step to live in}}
  %a = sched.buffer activation "a" live [3, 2] : memref<64xi8>
}

// -----

// expected-error @+1 {{must be memref of bytes}}
%a = sched.buffer parameter "a" : memref<64xf32>

// -----

sched.program @f {
  %a = sched.buffer activation "a" : memref<64xi8>
  // expected-error @+1 {{goes from byte 32 to 96 of a buffer of 64}}
  %v = sched.view %a at 32 : memref<64xi8> to memref<16xf32, strided<[1]>>
}

// -----

sched.program @f {
  %a = sched.buffer activation "a" : memref<128xi8>
  sched.loop 3 {
  ^bb0(%i: index):
    // expected-error @+1 {{goes from byte 0 to 192 of a buffer of 128}}
    %v = sched.view %a at 0 layers(%i) by [64] : memref<128xi8> to memref<16xf32, strided<[1]>>
  }
}

// -----

sched.program @f {
  %a = sched.buffer activation "a" : memref<128xi8>
  sched.loop 3 {
  ^bb0(%i: index):
    // expected-error @+1 {{has not one step for each layer}}
    %v = sched.view %a at 0 layers(%i) by [] : memref<128xi8> to memref<16xf32, strided<[1]>>
  }
}

// -----

func.func @f(%i: index, %a: memref<128xi8>) {
  // expected-error @+1 {{advances with what is no layer of a loop}}
  %v = sched.view %a at 0 layers(%i) by [4] : memref<128xi8> to memref<16xf32, strided<[1]>>
  return
}

// -----

sched.program @f {
  // expected-error @+1 {{runs for at least one layer}}
  sched.loop 0 {
  ^bb0(%i: index):
  }
}

// -----

sched.program @f {
  // expected-error @+1 {{has one argument of type index, the layer}}
  sched.loop 2 {
  ^bb0(%i: index, %j: index):
  }
}

// -----

func.func @f(%a: memref<4xf32, strided<[1]>>, %b: memref<5xf32, strided<[1]>>) {
  // expected-error @+1 {{copies between views of different shapes or types}}
  sched.copy %a, %b : memref<4xf32, strided<[1]>> to memref<5xf32, strided<[1]>>
  return
}

// -----

func.func @f(%a: memref<4xf32, strided<[1]>>) {
  // expected-error @+1 {{fills with a value of another type than the elements}}
  sched.fill 0 : i32, %a : memref<4xf32, strided<[1]>>
  return
}

// -----

func.func @f(%a: memref<4xf32, strided<[1]>>) {
  // expected-error @+1 {{'sched.input' op expects parent op 'sched.program'}}
  sched.input "x" %a : memref<4xf32, strided<[1]>>
  return
}

// -----

func.func @f(%a: memref<4xf32, strided<[1]>>) {
  // expected-error @+1 {{writes argument 0 0 times}}
  sched.launch row 1 by 4 reads() writes(%a : memref<4xf32, strided<[1]>>) [point] {
  ^bb0(%y: memref<4xf32, strided<[1]>>):
    %b = tfm.constant dense<0.0> : tensor<4xf32>
  }
  return
}

// -----

func.func @f(%a: memref<4xf32, strided<[1]>>) {
  // expected-error @+1 {{writes argument 0 1 times}}
  sched.launch row 1 by 4 reads(%a : memref<4xf32, strided<[1]>>) writes() [point] {
  ^bb0(%y: memref<4xf32, strided<[1]>>):
    %b = tfm.constant dense<0.0> : tensor<4xf32>
    sched.write %b, %y : tensor<4xf32> to memref<4xf32, strided<[1]>>
  }
  return
}

// -----

func.func @f(%a: memref<4xf32, strided<[1]>>) {
  // expected-error @+1 {{has not one access for each read and write}}
  sched.launch row 1 by 4 reads() writes(%a : memref<4xf32, strided<[1]>>) [] {
  ^bb0(%y: memref<4xf32, strided<[1]>>):
    %b = tfm.constant dense<0.0> : tensor<4xf32>
    sched.write %b, %y : tensor<4xf32> to memref<4xf32, strided<[1]>>
  }
  return
}

// -----

func.func @f(%a: memref<4xf32, strided<[1]>>) {
  // expected-error @+1 {{argument 0 has 4 elements, and its access wants 8}}
  sched.launch row 2 by 4 reads() writes(%a : memref<4xf32, strided<[1]>>) [point] {
  ^bb0(%y: memref<4xf32, strided<[1]>>):
    %b = tfm.constant dense<0.0> : tensor<4xf32>
    sched.write %b, %y : tensor<4xf32> to memref<4xf32, strided<[1]>>
  }
  return
}

// -----

func.func @f(%a: memref<4xf32, strided<[1]>>) {
  // expected-error @+1 {{has a body with arguments of other types than its operands}}
  sched.launch row 1 by 4 reads() writes(%a : memref<4xf32, strided<[1]>>) [point] {
  ^bb0(%y: memref<4xf32, strided<[2]>>):
    %b = tfm.constant dense<0.0> : tensor<4xf32>
    sched.write %b, %y : tensor<4xf32> to memref<4xf32, strided<[2]>>
  }
  return
}

// -----

func.func @f(%a: memref<4xf32, strided<[1]>>) {
  sched.launch row 1 by 4 reads() writes(%a : memref<4xf32, strided<[1]>>) [point] {
  ^bb0(%y: memref<4xf32, strided<[1]>>):
    %b = tfm.constant dense<0.0> : tensor<2x2xf32>
    // expected-error @+1 {{has a tensor of another shape or element type than the memory}}
    sched.write %b, %y : tensor<2x2xf32> to memref<4xf32, strided<[1]>>
  }
  return
}

// -----

func.func @f(%a: memref<4xf32, strided<[1]>>) {
  sched.launch row 1 by 4 reads(%a : memref<4xf32, strided<[1]>>) writes() [point] {
  ^bb0(%y: memref<4xf32, strided<[1]>>):
    %z = tfm.constant dense<0.0> : tensor<4xf32>
    // expected-error @+1 {{has a tensor of another shape or element type than the memory}}
    %b = sched.read %y : memref<4xf32, strided<[1]>> to tensor<4xi32>
  }
  return
}

// -----

func.func @f(%a: memref<4xf32, strided<[1], offset: 4>>) {
  // expected-error @+1 {{must be memref of static shape and strides without an offset}}
  sched.copy %a, %a : memref<4xf32, strided<[1], offset: 4>> to memref<4xf32, strided<[1], offset: 4>>
  return
}

// -----

// What only brings a tensor elsewhere is a copy.
func.func @f(%a: memref<4xf32, strided<[1]>>) {
  // expected-error @+1 {{computes nothing: that is a 'sched.copy'}}
  sched.launch row 1 by 4 reads(%a : memref<4xf32, strided<[1]>>) writes(%a : memref<4xf32, strided<[1]>>) [point, point] {
  ^bb0(%x: memref<4xf32, strided<[1]>>, %y: memref<4xf32, strided<[1]>>):
    %b = sched.read %x : memref<4xf32, strided<[1]>> to tensor<4xf32>
    sched.write %b, %y : tensor<4xf32> to memref<4xf32, strided<[1]>>
  }
  return
}

// -----

// Dropout needs its counter, four i32.
func.func @f(%a: memref<4xf32, strided<[1]>>) {
  // expected-error @+1 {{draws random numbers and has no 'rng'}}
  sched.launch row 1 by 4 reads(%a : memref<4xf32, strided<[1]>>) writes(%a : memref<4xf32, strided<[1]>>) [point, point] {
  ^bb0(%x: memref<4xf32, strided<[1]>>, %y: memref<4xf32, strided<[1]>>):
    %b = sched.read %x : memref<4xf32, strided<[1]>> to tensor<4xf32>
    %c = tfm.dropout %b {rate = 0.1 : f64, site = 0 : i64} : tensor<4xf32>
    sched.write %c, %y : tensor<4xf32> to memref<4xf32, strided<[1]>>
  }
  return
}

// -----

func.func @f(%a: memref<4xf32, strided<[1]>>) {
  // expected-error @+1 {{has an 'rng' that is not four i32}}
  sched.launch row 1 by 4 reads(%a : memref<4xf32, strided<[1]>>) writes(%a : memref<4xf32, strided<[1]>>) [point, point]
      rng %a : memref<4xf32, strided<[1]>> {
  ^bb0(%x: memref<4xf32, strided<[1]>>, %y: memref<4xf32, strided<[1]>>):
    %b = sched.read %x : memref<4xf32, strided<[1]>> to tensor<4xf32>
    %c = tfm.dropout %b {rate = 0.1 : f64, site = 0 : i64} : tensor<4xf32>
    sched.write %c, %y : tensor<4xf32> to memref<4xf32, strided<[1]>>
  }
  return
}

// -----

func.func @f(%a: memref<4xf32, strided<[1]>>) {
  // expected-error @+1 {{counts no micro-steps to an update}}
  sched.launch row 1 by 4 reads(%a : memref<4xf32, strided<[1]>>) writes(%a : memref<4xf32, strided<[1]>>) [point, point]
      micro_steps -3 {
  ^bb0(%x: memref<4xf32, strided<[1]>>, %y: memref<4xf32, strided<[1]>>):
    %b = sched.read %x : memref<4xf32, strided<[1]>> to tensor<4xf32>
    %c = tfm.exp %b : tensor<4xf32>
    sched.write %c, %y : tensor<4xf32> to memref<4xf32, strided<[1]>>
  }
  return
}

// -----

// Elements lie whole.
sched.program @f {
  %x = sched.buffer activation "x" : memref<128xi8>
  // expected-error @+1 {{begins or advances by a part of an element of 4 bytes}}
  %v = sched.view %x at 2 : memref<128xi8> to memref<4xf32, strided<[1]>>
}

// -----

sched.program @f {
  %x = sched.buffer activation "x" : memref<128xi8>
  %n = sched.buffer activation "n" : memref<4xi8>
  %r = sched.view %n at 0 : memref<4xi8> to memref<1xi32, strided<[1]>>
  // expected-error @+1 {{begins or advances by a part of an element of 4 bytes}}
  %w = sched.view %x at 0 row(%r : memref<1xi32, strided<[1]>>) by 3 : memref<128xi8> to memref<4xf32, strided<[1]>>
}

// -----

sched.program @f {
  %x = sched.buffer activation "x" : memref<128xi8>
  %n = sched.buffer activation "n" : memref<4xi8>
  %r = sched.view %n at 0 : memref<4xi8> to memref<1xi32, strided<[1]>>
  // expected-error @+1 {{has rows of no bytes}}
  %v = sched.view %x at 0 row(%r : memref<1xi32, strided<[1]>>) by 0 : memref<128xi8> to memref<4xf32, strided<[1]>>
}

// -----

sched.program @f {
  %x = sched.buffer activation "x" : memref<128xi8>
  %r = sched.view %x at 0 : memref<128xi8> to memref<2xi32, strided<[1]>>
  // expected-error @+1 {{has a row that is not one i32}}
  %v = sched.view %x at 0 row(%r : memref<2xi32, strided<[1]>>) by 32 : memref<128xi8> to memref<4xf32, strided<[1]>>
}

// -----

// A program is steps on views of its own, and what they need.
// expected-error @+1 {{holds tfm.constant, which is no part of a program}}
sched.program @f {
  %b = tfm.constant dense<0.0> : tensor<4xf32>
}

// -----

sched.program @f {
  %x = sched.buffer activation "x" : memref<16xi8>
  // expected-error @+1 {{takes a view that no 'sched.view' gives}}
  sched.input "x" %x : memref<16xi8>
}

// -----

// An input is found by its name.
// expected-error @+1 {{has two inputs of the name 'x'}}
sched.program @f {
  %x = sched.buffer activation "x" : memref<16xi8>
  %v = sched.view %x at 0 : memref<16xi8> to memref<4xf32, strided<[1]>>
  sched.input "x" %v : memref<4xf32, strided<[1]>>
  sched.input "x" %v : memref<4xf32, strided<[1]>>
}

// -----

sched.program @f {
  // expected-error @+1 {{runs steps alone, and not sched.buffer}}
  sched.serial {
    %x = sched.buffer activation "x" : memref<128xi8>
  }
}

// -----

sched.program @f {
  // expected-error @+1 {{has no first step}}
  sched.serial behind_first {
  }
}

// -----

sched.program @f {
  // expected-error @+1 {{runs launches alone, and not sched.fill}}
  sched.group {
    %x = sched.buffer activation "x" : memref<128xi8>
    %v = sched.view %x at 0 : memref<128xi8> to memref<4x8xf32, strided<[8, 1]>>
    sched.fill 0.0 : f32, %v : memref<4x8xf32, strided<[8, 1]>>
  }
}

// -----

sched.program @f {
  // expected-error @+1 {{has too few launches}}
  sched.group {
  }
}

// -----

sched.program @f {
  %x = sched.buffer activation "x" : memref<128xi8>
  %v = sched.view %x at 0 : memref<128xi8> to memref<4x8xi32, strided<[8, 1]>>
  // expected-error @+1 {{writes memory of its blocks in what is not the first launch, or other memory there}}
  sched.group behind_first {
    sched.launch row 4 by 8 reads() writes(%v : memref<4x8xi32, strided<[8, 1]>>) [point] {
    ^bb0(%a: memref<4x8xi32, strided<[8, 1]>>):
      %c = tfm.iota 1 : tensor<4x8xi32>
      sched.write %c, %a : tensor<4x8xi32> to memref<4x8xi32, strided<[8, 1]>>
    }
    sched.launch row 4 by 8 reads() writes(%v : memref<4x8xi32, strided<[8, 1]>>) [point] {
    ^bb0(%a: memref<4x8xi32, strided<[8, 1]>>):
      %c = tfm.iota 1 : tensor<4x8xi32>
      sched.write %c, %a : tensor<4x8xi32> to memref<4x8xi32, strided<[8, 1]>>
    }
  }
}

// -----

sched.program @f {
  // expected-error @+1 {{writes memory of its blocks in what is not the first launch, or other memory there}}
  sched.group {
    %x = sched.buffer activation "x" : memref<128xi8>
    %v = sched.view %x at 0 : memref<128xi8> to memref<4x8xi32, strided<[8, 1]>>
    sched.launch row 4 by 8 reads() writes(%v : memref<4x8xi32, strided<[8, 1]>>) [point] {
    ^bb0(%a: memref<4x8xi32, strided<[8, 1]>>):
      %c = tfm.iota 1 : tensor<4x8xi32>
      sched.write %c, %a : tensor<4x8xi32> to memref<4x8xi32, strided<[8, 1]>>
    }
  }
}

// -----

sched.program @f {
  %x = sched.buffer activation "x" : memref<128xi8>
  // expected-error @+1 {{has a view of what is no memory of its blocks}}
  sched.group {
    %v = sched.view %x at 0 : memref<128xi8> to memref<4x8xi32, strided<[8, 1]>>
    sched.launch row 4 by 8 reads() writes(%v : memref<4x8xi32, strided<[8, 1]>>) [point] {
    ^bb0(%a: memref<4x8xi32, strided<[8, 1]>>):
      %c = tfm.iota 1 : tensor<4x8xi32>
      sched.write %c, %a : tensor<4x8xi32> to memref<4x8xi32, strided<[8, 1]>>
    }
  }
}
