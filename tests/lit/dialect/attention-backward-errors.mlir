// RUN: tfm-opt %s --split-input-file --verify-diagnostics

// The derivative of attention is checked as attention is...
func.func @f(%q: tensor<2x4x8x16xf32>, %k: tensor<3xf32>, %l: tensor<2x4x8xf32>) {
  // expected-error@+1 {{expected q [B, heads, T, d], k [B, kv_heads, S, d], v [B, kv_heads, S, e]}}
  %dq, %dk, %dv = tfm.attention_backward %q, %k, %q, %q, %l, %q {scale = 0.5 : f64}
      : (tensor<2x4x8x16xf32>, tensor<3xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>, tensor<2x4x8x16xf32>)
      -> (tensor<2x4x8x16xf32>, tensor<3xf32>, tensor<2x4x8x16xf32>)
  return
}

// -----

func.func @f(%q: tensor<2x4x8x16xf32>, %l: tensor<2x4x8xf32>) {
  // expected-error@+1 {{dropout is not in 0 <= dropout < 1}}
  %dq, %dk, %dv = tfm.attention_backward %q, %q, %q, %q, %l, %q {scale = 0.5 : f64, dropout = 3.0 : f64, site = 0 : i64}
      : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>, tensor<2x4x8x16xf32>)
      -> (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>)
  return
}

// -----

func.func @f(%q: tensor<2x4x8x16xf32>, %l: tensor<2x4x8xf32>, %m: tensor<8x8xf32>) {
  // expected-error@+1 {{the mask is not [B or 1, heads or 1, T, S]}}
  %dq, %dk, %dv = tfm.attention_backward %q, %q, %q, %q, %l, %q mask %m {scale = 0.5 : f64}
      : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>, tensor<2x4x8x16xf32>, tensor<8x8xf32>)
      -> (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>)
  return
}

// -----

// ... and so is what the forward op gave it. The result has the width of v.
func.func @f(%q: tensor<2x4x8x16xf32>, %v: tensor<2x4x8x5xf32>, %l: tensor<2x4x8xf32>) {
  // expected-error@+1 {{expected out and dout [B, heads, T, e]}}
  %dq, %dk, %dv = tfm.attention_backward %q, %q, %v, %q, %l, %q {scale = 0.5 : f64}
      : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x5xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>, tensor<2x4x8x16xf32>)
      -> (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x5xf32>)
  return
}

// -----

func.func @f(%q: tensor<2x4x8x16xf32>, %l: tensor<2x4x7xf32>) {
  // expected-error@+1 {{expected lse [B, heads, T]}}
  %dq, %dk, %dv = tfm.attention_backward %q, %q, %q, %q, %l, %q {scale = 0.5 : f64}
      : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x7xf32>, tensor<2x4x8x16xf32>)
      -> (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>)
  return
}

// -----

func.func @f(%q: tensor<2x4x8x16xf32>, %l: tensor<2x4x8xf32>, %i: tensor<2x4x7xf32>) {
  // expected-error@+1 {{inner does not have the type of lse}}
  %dq, %dk, %dv = tfm.attention_backward %q, %q, %q, %q, %l, %q inner(%i : tensor<2x4x7xf32>) {scale = 0.5 : f64}
      : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>, tensor<2x4x8x16xf32>)
      -> (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>)
  return
}

// -----

func.func @f(%q: tensor<2x4x8x16xf32>, %l: tensor<2x4x8xf64>) {
  // expected-error@+1 {{lse is not of 'f32'}}
  %dq, %dk, %dv = tfm.attention_backward %q, %q, %q, %q, %l, %q {scale = 0.5 : f64}
      : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf64>, tensor<2x4x8x16xf32>)
      -> (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>)
  return
}

// -----

func.func @f(%q: tensor<2x4x8x16xf32>, %l: tensor<2x4x8xf32>, %d: tensor<2x4x8x1xf32>) {
  // expected-error@+1 {{failed to verify that all of {out, dout} have same type}}
  %dq, %dk, %dv = tfm.attention_backward %q, %q, %q, %q, %l, %d {scale = 0.5 : f64}
      : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>, tensor<2x4x8x1xf32>)
      -> (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>)
  return
}

// -----

// Cotangents have the types of what they are of.
func.func @f(%q: tensor<2x4x8x16xf32>, %l: tensor<2x4x8xf32>) {
  // expected-error@+1 {{failed to verify that all of {q, dq} have same type}}
  %dq, %dk, %dv = tfm.attention_backward %q, %q, %q, %q, %l, %q {scale = 0.5 : f64}
      : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>, tensor<2x4x8x16xf32>)
      -> (tensor<3xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>)
  return
}

// -----

func.func @f(%q: tensor<2x4x8x16xf32>, %l: tensor<2x4x8xf32>) {
  // expected-error@+1 {{failed to verify that all of {k, dk} have same type}}
  %dq, %dk, %dv = tfm.attention_backward %q, %q, %q, %q, %l, %q {scale = 0.5 : f64}
      : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>, tensor<2x4x8x16xf32>)
      -> (tensor<2x4x8x16xf32>, tensor<1xf32>, tensor<2x4x8x16xf32>)
  return
}

// -----

func.func @f(%q: tensor<2x4x8x16xf32>, %l: tensor<2x4x8xf32>) {
  // expected-error@+1 {{failed to verify that all of {v, dv} have same type}}
  %dq, %dk, %dv = tfm.attention_backward %q, %q, %q, %q, %l, %q {scale = 0.5 : f64}
      : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>, tensor<2x4x8x16xf32>)
      -> (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2xf32>)
  return
}

// -----

func.func @f(%q: tensor<2x4x8x16xf32>, %l: tensor<2x4x8xf32>, %m: tensor<1x1x8x8xi1>) {
  // expected-error@+1 {{has a dmask, but no mask of floats}}
  %dq, %dk, %dv, %dm = tfm.attention_backward %q, %q, %q, %q, %l, %q mask %m {scale = 0.5 : f64}
      : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>, tensor<2x4x8x16xf32>, tensor<1x1x8x8xi1>)
      -> (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<1x1x8x8xf32>)
  return
}

// -----

func.func @f(%q: tensor<2x4x8x16xf32>, %l: tensor<2x4x8xf32>, %m: tensor<1x1x8x8xf32>) {
  // expected-error@+1 {{dmask does not have the type of the mask}}
  %dq, %dk, %dv, %dm = tfm.attention_backward %q, %q, %q, %q, %l, %q mask %m {scale = 0.5 : f64}
      : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>, tensor<2x4x8x16xf32>, tensor<1x1x8x8xf32>)
      -> (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x8xf32>)
  return
}
