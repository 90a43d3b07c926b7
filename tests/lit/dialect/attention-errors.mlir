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
