// RUN: tfm-opt %s --split-input-file --verify-diagnostics

func.func @arguments(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{has a body with arguments of other types than its operands}}
  %k = sched.kernel row 4 by 8 (%x : tensor<4x8xf32>) [point] -> (tensor<4x8xf32>) [point] {
  ^bb0(%a: tensor<8x4xf32>):
    %b = tfm.constant dense<0.0> : tensor<4x8xf32>
    sched.yield %b : tensor<4x8xf32>
  }
  return %k : tensor<4x8xf32>
}

// -----

func.func @yields(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{yields other types than its results have}}
  %k = sched.kernel row 4 by 8 (%x : tensor<4x8xf32>) [point] -> (tensor<4x8xf32>) [point] {
  ^bb0(%a: tensor<4x8xf32>):
    %b = tfm.constant dense<0.0> : tensor<4xf32>
    sched.yield %b : tensor<4xf32>
  }
  return %k : tensor<4x8xf32>
}

// -----

func.func @accesses(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{has not one access for each input and result}}
  %k = sched.kernel row 4 by 8 (%x : tensor<4x8xf32>) [] -> (tensor<4x8xf32>) [point] {
  ^bb0(%a: tensor<4x8xf32>):
    %b = tfm.exp %a : tensor<4x8xf32>
    sched.yield %b : tensor<4x8xf32>
  }
  return %k : tensor<4x8xf32>
}

// -----

func.func @point(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{input 0 has 32 elements, and its access wants 64}}
  %k = sched.kernel row 8 by 8 (%x : tensor<4x8xf32>) [point] -> (tensor<4x8xf32>) [memory] {
  ^bb0(%a: tensor<4x8xf32>):
    %b = tfm.exp %a : tensor<4x8xf32>
    sched.yield %b : tensor<4x8xf32>
  }
  return %k : tensor<4x8xf32>
}

// -----

func.func @row(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{result 0 has 32 elements, and its access wants 4}}
  %k = sched.kernel row 4 by 8 (%x : tensor<4x8xf32>) [point] -> (tensor<4x8xf32>) [row] {
  ^bb0(%a: tensor<4x8xf32>):
    %b = tfm.exp %a : tensor<4x8xf32>
    sched.yield %b : tensor<4x8xf32>
  }
  return %k : tensor<4x8xf32>
}

// -----

func.func @layout(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{result 0 has a layout that is no order of its axes}}
  %k = sched.kernel row 4 by 8 (%x : tensor<4x8xf32>) [point] -> (tensor<4x8xf32>) [point] layouts [array<i64: 1, 1>] {
  ^bb0(%a: tensor<4x8xf32>):
    %b = tfm.exp %a : tensor<4x8xf32>
    sched.yield %b : tensor<4x8xf32>
  }
  return %k : tensor<4x8xf32>
}

// -----

func.func @layouts(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{has not one layout for each result}}
  %k = sched.kernel row 4 by 8 (%x : tensor<4x8xf32>) [point] -> (tensor<4x8xf32>) [point] layouts [] {
  ^bb0(%a: tensor<4x8xf32>):
    %b = tfm.exp %a : tensor<4x8xf32>
    sched.yield %b : tensor<4x8xf32>
  }
  return %k : tensor<4x8xf32>
}

// -----

func.func @kind(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{of kind 'matmul' begins with tfm.exp}}
  %k = sched.kernel matmul 4 by 8 (%x : tensor<4x8xf32>) [point] -> (tensor<4x8xf32>) [point] {
  ^bb0(%a: tensor<4x8xf32>):
    %b = tfm.exp %a : tensor<4x8xf32>
    sched.yield %b : tensor<4x8xf32>
  }
  return %k : tensor<4x8xf32>
}

// -----

func.func @isolated(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-note @+1 {{required by region isolation constraints}}
  %k = sched.kernel row 4 by 8 () [] -> (tensor<4x8xf32>) [point] {
    // expected-error @+1 {{using value defined outside the region}}
    %b = tfm.exp %x : tensor<4x8xf32>
    sched.yield %b : tensor<4x8xf32>
  }
  return %k : tensor<4x8xf32>
}

// -----

func.func @more_chunks_than_rows(%x: tensor<4x8xf32>) -> tensor<16x8xf32> {
  // expected-error @+1 {{has more chunks than rows}}
  %k = sched.reduce_chunks %x : tensor<4x8xf32> to tensor<16x8xf32>
  return %k : tensor<16x8xf32>
}

// -----

func.func @chunks_of_other_rows(%x: tensor<40x8xf32>) -> tensor<16x4xf32> {
  // expected-error @+1 {{wants rows of one length, and gives such rows}}
  %k = sched.reduce_chunks %x : tensor<40x8xf32> to tensor<16x4xf32>
  return %k : tensor<16x4xf32>
}

// -----

func.func @chunks_of_nothing(%x: tensor<40x8xf32>) -> tensor<0x8xf32> {
  // expected-error @+1 {{must be statically shaped tensor without empty axes}}
  %k = sched.reduce_chunks %x : tensor<40x8xf32> to tensor<0x8xf32>
  return %k : tensor<0x8xf32>
}

// -----

func.func @unknown_first(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{of kind 'row' begins with tfm.softmax}}
  %k = sched.kernel row 4 by 8 (%x : tensor<4x8xf32>) [point] -> (tensor<4x8xf32>) [point] {
  ^bb0(%a: tensor<4x8xf32>):
    %b = tfm.softmax %a : tensor<4x8xf32>
    sched.yield %b : tensor<4x8xf32>
  }
  return %k : tensor<4x8xf32>
}

// -----

func.func @unknown_member(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{goes on with tfm.softmax, which no row kernel computes}}
  %k = sched.kernel row 4 by 8 (%x : tensor<4x8xf32>) [point] -> (tensor<4x8xf32>) [point] {
  ^bb0(%a: tensor<4x8xf32>):
    %b = tfm.exp %a : tensor<4x8xf32>
    %c = tfm.softmax %b : tensor<4x8xf32>
    sched.yield %c : tensor<4x8xf32>
  }
  return %k : tensor<4x8xf32>
}
