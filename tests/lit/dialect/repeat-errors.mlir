// RUN: tfm-opt %s --split-input-file --verify-diagnostics

// One argument per operand, after the index of the layer.
func.func @f(%x: tensor<8xf32>, %w: tensor<2x8xf32>) {
  // expected-error@+1 {{expected a body with the layer's index and one argument per operand}}
  %y = tfm.repeat 2 carried(%x : tensor<8xf32>) stacked(%w : tensor<2x8xf32>) shared() -> (tensor<8xf32>) {
  ^bb0(%l: index, %a: tensor<8xf32>):
    tfm.yield %a : tensor<8xf32>
  }
  return
}

// -----

// A stacked operand has one slice per layer.
func.func @f(%x: tensor<8xf32>, %w: tensor<2x8xf32>) {
  // expected-error@+1 {{a stacked operand is not [count, ...] of its argument}}
  %y = tfm.repeat 3 carried(%x : tensor<8xf32>) stacked(%w : tensor<2x8xf32>) shared() -> (tensor<8xf32>) {
  ^bb0(%l: index, %a: tensor<8xf32>, %b: tensor<8xf32>):
    tfm.yield %a : tensor<8xf32>
  }
  return
}

// -----

// With an order there may be any number of slices, but all as many axes as their argument and one more.
func.func @f(%x: tensor<8xf32>, %w: tensor<5x4xf32>, %o: tensor<3xi32>) {
  // expected-error@+1 {{a stacked operand is not [count, ...] of its argument}}
  %y = tfm.repeat 3 carried(%x : tensor<8xf32>) stacked(%w : tensor<5x4xf32>) shared() order(%o : tensor<3xi32>) chosen 1 -> (tensor<8xf32>) {
  ^bb0(%l: index, %a: tensor<8xf32>, %b: tensor<8xf32>):
    tfm.yield %a : tensor<8xf32>
  }
  return
}

// -----

// An order has a number for each turn.
func.func @f(%x: tensor<8xf32>, %w: tensor<5x8xf32>, %o: tensor<2xi32>) {
  // expected-error@+1 {{has an order that is not [count]}}
  %y = tfm.repeat 3 carried(%x : tensor<8xf32>) stacked(%w : tensor<5x8xf32>) shared() order(%o : tensor<2xi32>) chosen 1 -> (tensor<8xf32>) {
  ^bb0(%l: index, %a: tensor<8xf32>, %b: tensor<8xf32>):
    tfm.yield %a : tensor<8xf32>
  }
  return
}

// -----

// Turns of the same layer would have the same random numbers.
func.func @f(%x: tensor<8xf32>, %w: tensor<5x8xf32>, %o: tensor<3xi32>) {
  // expected-error@+1 {{has an order, and so uses no index of a layer}}
  %y = tfm.repeat 3 carried(%x : tensor<8xf32>) stacked(%w : tensor<5x8xf32>) shared() order(%o : tensor<3xi32>) chosen 1 -> (tensor<8xf32>) {
  ^bb0(%l: index, %a: tensor<8xf32>, %b: tensor<8xf32>):
    %d = tfm.dropout %a layer %l {rate = 0.1 : f64, site = 3 : i64} : tensor<8xf32>
    tfm.yield %d : tensor<8xf32>
  }
  return
}

// -----

func.func @f(%x: tensor<8xf32>, %w: tensor<3x8xf32>) {
  // expected-error@+1 {{chooses slices without an order}}
  %y = tfm.repeat 3 carried(%x : tensor<8xf32>) stacked(%w : tensor<3x8xf32>) shared() chosen 1 -> (tensor<8xf32>) {
  ^bb0(%l: index, %a: tensor<8xf32>, %b: tensor<8xf32>):
    tfm.yield %a : tensor<8xf32>
  }
  return
}

// -----

// Only what is chosen may be updated.
func.func @f(%w: tensor<3x8xf32>, %o: tensor<3xi32>) {
  // expected-error@+1 {{chooses 0 and updates 1 of 1 stacked operands}}
  %y = tfm.repeat 3 carried() stacked(%w : tensor<3x8xf32>) shared() order(%o : tensor<3xi32>) updated 1 -> (tensor<3x8xf32>) {
  ^bb0(%l: index, %a: tensor<8xf32>):
    tfm.yield %a : tensor<8xf32>
  }
  return
}

// -----

// And stays what it was.
func.func @f(%w: tensor<5x8xf32>, %o: tensor<3xi32>) {
  // expected-error@+1 {{updated slice 0 changes its type}}
  %y = tfm.repeat 3 carried() stacked(%w : tensor<5x8xf32>) shared() order(%o : tensor<3xi32>) chosen 1 updated 1 -> (tensor<5x8xf32>) {
  ^bb0(%l: index, %a: tensor<8xf32>):
    %b = tfm.reshape %a : tensor<8xf32> to tensor<2x4xf32>
    tfm.yield %b : tensor<2x4xf32>
  }
  return
}

// -----

// Results are what is carried, then what is stacked.
func.func @f(%x: tensor<8xf32>, %w: tensor<2x8xf32>) {
  // expected-error@+1 {{yields 2 values for 1 results}}
  %y = tfm.repeat 2 carried(%x : tensor<8xf32>) stacked(%w : tensor<2x8xf32>) shared() -> (tensor<8xf32>) {
  ^bb0(%l: index, %a: tensor<8xf32>, %b: tensor<8xf32>):
    tfm.yield %a, %b : tensor<8xf32>, tensor<8xf32>
  }
  return
}

// -----

// The next layer takes what this one yields.
func.func @f(%x: tensor<8xf32>, %w: tensor<2x8xf32>) {
  // expected-error@+1 {{carried value 0 changes its type}}
  %y = tfm.repeat 2 carried(%x : tensor<8xf32>) stacked(%w : tensor<2x8xf32>) shared() -> (tensor<1xf32>) {
  ^bb0(%l: index, %a: tensor<8xf32>, %b: tensor<8xf32>):
    %s = tfm.reduce_sum %a axis 0 : tensor<8xf32>
    tfm.yield %s : tensor<1xf32>
  }
  return
}

// -----

func.func @f(%x: tensor<8xf32>, %w: tensor<2x8xf32>) {
  // expected-error@+1 {{result 1 does not match what is yielded}}
  %y, %z = tfm.repeat 2 carried(%x : tensor<8xf32>) stacked(%w : tensor<2x8xf32>) shared() -> (tensor<8xf32>, tensor<8xf32>) {
  ^bb0(%l: index, %a: tensor<8xf32>, %b: tensor<8xf32>):
    tfm.yield %a, %b : tensor<8xf32>, tensor<8xf32>
  }
  return
}

// -----

func.func @f(%x: tensor<8xf32>, %w: tensor<2x8xf32>) {
  // expected-error@+1 {{a carried argument differs from its operand}}
  %y = tfm.repeat 2 carried(%x : tensor<8xf32>) stacked(%w : tensor<2x8xf32>) shared() -> (tensor<4xf32>) {
  ^bb0(%l: index, %a: tensor<4xf32>, %b: tensor<8xf32>):
    tfm.yield %a : tensor<4xf32>
  }
  return
}

// -----

func.func @f(%x: tensor<8xf32>, %w: tensor<2x8xf32>) {
  // expected-error@+1 {{repeats 0 times}}
  %y = tfm.repeat 0 carried(%x : tensor<8xf32>) stacked(%w : tensor<2x8xf32>) shared() -> (tensor<8xf32>) {
  ^bb0(%l: index, %a: tensor<8xf32>, %b: tensor<8xf32>):
    tfm.yield %a : tensor<8xf32>
  }
  return
}

// -----

// Layers are tensors.
func.func @f(%w: tensor<2x8xf32>) {
  // expected-error@+1 {{a stacked operand is not [count, ...] of its argument}}
  %y = tfm.repeat 2 carried() stacked(%w : tensor<2x8xf32>) shared() -> (tensor<2x8xf32>) {
  ^bb0(%l: index, %a: index):
    %c = tfm.constant dense<0.0> : tensor<8xf32>
    tfm.yield %c : tensor<8xf32>
  }
  return
}
