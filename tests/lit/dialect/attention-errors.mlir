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

// A position of its own for every row, and only where it says what is seen.
func.func @f(%q: tensor<2x4x1x16xf32>, %k: tensor<2x4x8x16xf32>, %at: tensor<1xi32>) {
  // expected-error@+1 {{start is not [B]}}
  %o, %l = tfm.attention %q, %k, %k start(%at : tensor<1xi32>) {causal, scale = 1.0 : f64} : tensor<2x4x1x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
  return
}

// -----

func.func @f(%q: tensor<2x4x1x16xf32>, %k: tensor<2x4x8x16xf32>, %at: tensor<2xi32>) {
  // expected-error@+1 {{has a start, but is not causal}}
  %o, %l = tfm.attention %q, %k, %k start(%at : tensor<2xi32>) {scale = 1.0 : f64} : tensor<2x4x1x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
  return
}

// -----

// Positions that are no longer there must not be seen.
func.func @f(%q: tensor<2x4x3x16xf32>, %k: tensor<2x4x8x16xf32>, %at: tensor<2xi32>) {
  // expected-error@+1 {{a ring of 8 rows is too small: its queries see 9}}
  %o, %l = tfm.attention %q, %k, %k start(%at : tensor<2xi32>) {causal, ring, scale = 1.0 : f64, window = 7} : tensor<2x4x3x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
  return
}

// -----

func.func @f(%q: tensor<2x4x3x16xf32>, %k: tensor<2x4x8x16xf32>, %at: tensor<2xi32>) {
  // expected-error@+1 {{a ring needs a start and a window, and no mask}}
  %o, %l = tfm.attention %q, %k, %k start(%at : tensor<2xi32>) {causal, ring, scale = 1.0 : f64} : tensor<2x4x3x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
  return
}

// -----

func.func @f(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x8x16xi8>) {
  // expected-error@+1 {{keys and values of i8, and no others, have scales [B, kv_heads, S, 1] of 'f32'}}
  %o, %l = tfm.attention %q, %k, %k {causal, scale = 1.0 : f64} : tensor<2x4x8x16xf32>, tensor<2x4x8x16xi8>, tensor<2x4x8x16xi8>
  return
}

// -----

func.func @f(%q: tensor<2x4x8x16xf32>, %s: tensor<2x4x8x1xf32>) {
  // expected-error@+1 {{keys and values of i8, and no others, have scales [B, kv_heads, S, 1] of 'f32'}}
  %o, %l = tfm.attention %q, %q, %q scales(%s, %s : tensor<2x4x8x1xf32>, tensor<2x4x8x1xf32>) {causal, scale = 1.0 : f64} : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
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

// A counter has 16 bits for the site.
func.func @f(%x: tensor<2x4x8x16xf32>) {
  // expected-error@+1 {{site is not in 0 <= site < 32768}}
  %y = tfm.dropout %x {rate = 0.1 : f64, site = 32768 : i64} : tensor<2x4x8x16xf32>
  return
}

// -----

func.func @f(%q: tensor<2x4x8x16xf32>) {
  // expected-error@+1 {{site is not in 0 <= site < 32768}}
  %o, %l = tfm.attention %q, %q, %q {scale = 1.0 : f64, dropout = 0.1 : f64, site = -1 : i64} : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
  return
}

// -----

func.func @f(%q: tensor<2x4x8x16xf32>) {
  // expected-error@+1 {{dropout is not in 0 <= dropout < 1}}
  %o, %l = tfm.attention %q, %q, %q {scale = 1.0 : f64, dropout = 3.0 : f64, site = 1 : i64} : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
  return
}

// -----

// Only a repeat has layers, and its own index tells them apart.
func.func @f(%x: tensor<8xf32>, %l: index) {
  // expected-error@+1 {{layer is not the index of the enclosing repeat}}
  %y = tfm.dropout %x layer %l {rate = 0.1 : f64, site = 0 : i64} : tensor<8xf32>
  return
}

// -----

func.func @f(%q: tensor<2x4x8x16xf32>, %i: index) {
  // expected-error@+1 {{layer is not the index of the enclosing repeat}}
  %o, %l = tfm.attention %q, %q, %q layer %i {scale = 1.0 : f64} : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
  return
}

// -----

func.func @f(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x8x16xf64>) {
  // expected-error@+1 {{q, k and v differ in their element type}}
  %o, %l = tfm.attention %q, %k, %q {scale = 1.0 : f64} : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf64>, tensor<2x4x8x16xf32>
  return
}

// -----

func.func @f(%q: tensor<2x4x8x16xf32>, %m: tensor<1x1x8x8xi32>) {
  // expected-error@+1 {{the mask's elements are neither i1 nor 'f32'}}
  %o, %l = tfm.attention %q, %q, %q mask %m {scale = 1.0 : f64} : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<1x1x8x8xi32>
  return
}

// -----

func.func @f(%q: tensor<2x4x8x16xf32>) {
  // expected-error@+1 {{scale is not finite}}
  %o, %l = tfm.attention %q, %q, %q {scale = 0x7FF0000000000000 : f64} : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
  return
}

// -----

// A window of 0 would see nothing.
func.func @f(%q: tensor<2x4x8x16xf32>) {
  // expected-error@+1 {{window is not positive}}
  %o, %l = tfm.attention %q, %q, %q {scale = 1.0 : f64, window = 0 : i64} : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
  return
}

// -----

// Scores are divided by the cap.
func.func @f(%q: tensor<2x4x8x16xf32>) {
  // expected-error@+1 {{softcap is not a positive number}}
  %o, %l = tfm.attention %q, %q, %q {scale = 1.0 : f64, softcap = 0.0 : f64} : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
  return
}

// -----

func.func @f(%x: tensor<2x4x8x16xf32>, %p: tensor<2x8xi32>) {
  // expected-error@+1 {{base is not a positive number}}
  %y = tfm.rope %x, %p {base = -1.0 : f64, dims = 8 : i64} : tensor<2x4x8x16xf32>, tensor<2x8xi32>
  return
}

// -----

// A column for every distance, of each head.
func.func @f(%q: tensor<2x4x8x16xf32>, %b: tensor<2x8xf32>) {
  // expected-error@+1 {{the distance bias is not [heads, n]}}
  %o, %l = tfm.attention %q, %q, %q distance(%b : tensor<2x8xf32>) {causal, scale = 1.0 : f64} : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
  return
}

// -----

func.func @f(%q: tensor<2x4x8x16xf32>, %b: tensor<4x16xf32>) {
  // expected-error@+1 {{the distance bias has no column in its middle}}
  %o, %l = tfm.attention %q, %q, %q distance(%b : tensor<4x16xf32>) {scale = 1.0 : f64} : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
  return
}

// -----

func.func @f(%q: tensor<2x4x8x16xf32>, %l: tensor<2x4x8xf32>) {
  // expected-error@+1 {{ddistance does not have the type of a distance bias}}
  %a, %b, %c, %d = tfm.attention_backward %q, %q, %q, %q, %l, %q {scale = 1.0 : f64}
      : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>, tensor<2x4x8x16xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>) distance tensor<4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<2x4x8x16xf32>, %p: tensor<2x8xi32>) {
  // expected-error@+1 {{frequencies are not dims / 2 finite numbers}}
  %y = tfm.rope %x, %p {base = 1.0 : f64, dims = 4 : i64, frequencies = array<f64: 1.0>} : tensor<2x4x8x16xf32>, tensor<2x8xi32>
  return
}
