// RUN: tfm-opt %s --split-input-file --verify-diagnostics

// Every key head serves as many query heads.
func.func @f(%q: tensor<2x4x8x16xf32>, %k: tensor<2x3x8x16xf32>) {
  // expected-error@+1 {{heads are not a multiple of kv_heads}}
  %o, %l = tfm.attention %q, %k, %k {scale = 1.0 : f64} : tensor<2x4x8x16xf32>, tensor<2x3x8x16xf32>, tensor<2x3x8x16xf32>
  return
}

// -----

func.func @f(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x8x8xf32>) {
  // expected-error@+1 {{expected q [B, heads, T, d], k [B, kv_heads, S, d], v [B, kv_heads, S, e]}}
  %o, %l = tfm.attention %q, %k, %k {scale = 1.0 : f64} : tensor<2x4x8x16xf32>, tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>
  return
}

// -----

func.func @f(%q: tensor<4x8xf32>) {
  // expected-error@+1 {{expected operands [B, heads, T, d]}}
  %o, %l = tfm.attention %q, %q, %q {scale = 1.0 : f64} : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
  return
}

// -----

func.func @f(%q: tensor<2x4x8x16xf32>, %m: tensor<8x8xi1>) {
  // expected-error@+1 {{the mask is not [B or 1, heads or 1, T, S]}}
  %o, %l = tfm.attention %q, %q, %q mask %m {scale = 1.0 : f64} : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<8x8xi1>
  return
}

// -----

// A site tells the random numbers of one dropout from those of another.
func.func @f(%q: tensor<2x4x8x16xf32>) {
  // expected-error@+1 {{dropout needs a site}}
  %o, %l = tfm.attention %q, %q, %q {scale = 1.0 : f64, dropout = 0.1 : f64} : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
  return
}

// -----

func.func @f(%x: tensor<2x4x8x16xf32>) {
  // expected-error@+1 {{rate is not in 0 <= rate < 1}}
  %y = tfm.dropout %x {rate = 1.0 : f64, site = 0 : i64} : tensor<2x4x8x16xf32>
  return
}

// -----

// Rotation takes pairs of entries.
func.func @f(%x: tensor<2x4x8x16xf32>, %p: tensor<2x8xi32>) {
  // expected-error@+1 {{dims is not an even number in 2 <= dims <= 16}}
  %y = tfm.rope %x, %p {base = 1.0 : f64, dims = 5 : i64} : tensor<2x4x8x16xf32>, tensor<2x8xi32>
  return
}

// -----

func.func @f(%x: tensor<2x4x8x16xf32>, %p: tensor<8xi32>) {
  // expected-error@+1 {{expected x [B, heads, T, d] and positions [B, T]}}
  %y = tfm.rope %x, %p {base = 1.0 : f64, dims = 4 : i64} : tensor<2x4x8x16xf32>, tensor<8xi32>
  return
}

// -----

func.func @f(%l: tensor<4x8x50xf32>, %t: tensor<4xi32>) {
  // expected-error@+1 {{targets do not have the shape of the rows of logits}}
  %y, %z = tfm.cross_entropy %l, %t : tensor<4x8x50xf32>, tensor<4xi32>
  return
}

// -----

func.func @f(%q: tensor<2x4x8x16xf32>, %m: tensor<1x1x8x8xi32>) {
  // expected-error@+1 {{the mask is neither booleans nor floats}}
  %o, %l = tfm.attention %q, %q, %q mask %m {scale = 1.0 : f64} : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<1x1x8x8xi32>
  return
}

// -----

func.func @f(%q: tensor<2x4x8x16xf32>) {
  // expected-error@+1 {{the window is not positive}}
  %o, %l = tfm.attention %q, %q, %q {causal, scale = 1.0 : f64, window = 0 : i64} : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
  return
}

// -----

func.func @f(%q: tensor<2x4x8x16xf32>) {
  // expected-error@+1 {{dropout is not in 0 <= rate < 1}}
  %o, %l = tfm.attention %q, %q, %q {scale = 1.0 : f64, dropout = 1.5 : f64, site = 1 : i64} : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
  return
}

// -----

// The derivative is checked as attention is, and its own operands too.
func.func @f(%q: tensor<2x4x8x16xf32>, %k: tensor<2x3x8x16xf32>, %l: tensor<2x4x8xf32>) {
  // expected-error@+1 {{heads are not a multiple of kv_heads}}
  %dq, %dk, %dv = tfm.attention_backward %q, %k, %k, %q, %l, %q {scale = 1.0 : f64}
      : (tensor<2x4x8x16xf32>, tensor<2x3x8x16xf32>, tensor<2x3x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>, tensor<2x4x8x16xf32>)
      -> (tensor<2x4x8x16xf32>, tensor<2x3x8x16xf32>, tensor<2x3x8x16xf32>)
  return
}

// -----

func.func @f(%q: tensor<2x4x8x16xf32>, %l: tensor<2x4xf32>) {
  // expected-error@+1 {{lse is not [B, heads, T]}}
  %dq, %dk, %dv = tfm.attention_backward %q, %q, %q, %q, %l, %q {scale = 1.0 : f64}
      : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4xf32>, tensor<2x4x8x16xf32>)
      -> (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>)
  return
}

// -----

func.func @f(%q: tensor<2x4x8x16xf32>, %o: tensor<2x4x8x8xf32>, %l: tensor<2x4x8xf32>) {
  // expected-error@+1 {{out and dout are not [B, heads, T, e]}}
  %dq, %dk, %dv = tfm.attention_backward %q, %q, %q, %o, %l, %o {scale = 1.0 : f64}
      : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x8xf32>, tensor<2x4x8xf32>, tensor<2x4x8x8xf32>)
      -> (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>)
  return
}

// -----

func.func @f(%q: tensor<2x4x8x16xf32>, %l: tensor<2x4x8xf32>) {
  // expected-error@+1 {{cotangents do not have the types of q, k and v}}
  %dq, %dk, %dv = tfm.attention_backward %q, %q, %q, %q, %l, %q {scale = 1.0 : f64}
      : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>, tensor<2x4x8x16xf32>)
      -> (tensor<2x4x8x16xf32>, tensor<2x4x8x8xf32>, tensor<2x4x8x16xf32>)
  return
}

// -----

// The cotangent of a mask that is added; one of booleans has none.
func.func @f(%q: tensor<2x4x8x16xf32>, %l: tensor<2x4x8xf32>) {
  // expected-error@+1 {{dmask does not have the type of a float mask}}
  %dq, %dk, %dv, %dm = tfm.attention_backward %q, %q, %q, %q, %l, %q {scale = 1.0 : f64}
      : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>, tensor<2x4x8x16xf32>)
      -> (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<1x1x8x8xf32>)
  return
}

// -----

func.func @f(%logits: tensor<4x50xf32>, %targets: tensor<4xi32>) {
  // expected-error@+1 {{label_smoothing is not in 0 <= s <= 1}}
  %losses, %lse = tfm.cross_entropy %logits, %targets {label_smoothing = 2.0 : f64} : tensor<4x50xf32>, tensor<4xi32>
  return
}

// -----

func.func @f(%logits: tensor<4x50xf32>, %targets: tensor<4xi32>, %lse: tensor<5xf32>) {
  // expected-error@+1 {{lse does not have the shape of the rows of logits}}
  %d = tfm.cross_entropy_backward %logits, %targets, %lse, %lse : tensor<4x50xf32>, tensor<4xi32>, tensor<5xf32>
  return
}

// -----

// Rows need an axis to lie along.
func.func @f(%x: tensor<f32>) {
  // expected-error@+1 {{must be floats with at least one axis}}
  %y = tfm.softmax %x : tensor<f32>
  return
}

// -----

func.func @f(%x: tensor<8xi32>) {
  // expected-error@+1 {{expected tokens [B, T]}}
  %y = tfm.positions %x : tensor<8xi32>
  return
}
