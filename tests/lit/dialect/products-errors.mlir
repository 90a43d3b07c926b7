// RUN: tfm-opt %s --split-input-file --verify-diagnostics

// The inner axes of a product are equal, after transposition.
func.func @f(%a: tensor<4x8xf32>, %b: tensor<16x8xf32>) {
  // expected-error@+1 {{inner axes differ: 8 and 16}}
  %y = tfm.matmul %a, %b : tensor<4x8xf32>, tensor<16x8xf32>
  return
}

// -----

// A weight is not repeated over a batch.
func.func @f(%a: tensor<2x4x8xf32>, %b: tensor<8x8xf32>) {
  // expected-error@+1 {{operands of ranks 3 and 2: expected equal ranks of 2 or more}}
  %y = tfm.matmul %a, %b : tensor<2x4x8xf32>, tensor<8x8xf32>
  return
}

// -----

func.func @f(%a: tensor<2x4x8xf32>, %b: tensor<3x8x8xf32>) {
  // expected-error@+1 {{batch axes differ}}
  %y = tfm.matmul %a, %b : tensor<2x4x8xf32>, tensor<3x8x8xf32>
  return
}

// -----

func.func @f(%a: tensor<4x8xf32>, %b: tensor<8x8xf64>) {
  // expected-error@+1 {{element types differ}}
  %y = tfm.matmul %a, %b : tensor<4x8xf32>, tensor<8x8xf64>
  return
}

// -----

func.func @f(%a: tensor<f32>, %i: tensor<3xi32>) {
  // expected-error@+1 {{the table has no axis}}
  %y = tfm.gather %a, %i : tensor<f32>, tensor<3xi32>
  return
}

// -----

func.func @f(%a: tensor<5x2xf32>, %i: tensor<3xi32>, %u: tensor<3x3xf32>) {
  // expected-error@+1 {{updates are not [ids..., table dimensions...]}}
  %y = tfm.scatter_add %a, %i, %u : tensor<5x2xf32>, tensor<3xi32>, tensor<3x3xf32>
  return
}

// -----

func.func @f(%a: tensor<f32>, %i: tensor<3xi32>, %u: tensor<3xf32>) {
  // expected-error@+1 {{the table has no axis}}
  %y = tfm.scatter_add %a, %i, %u : tensor<f32>, tensor<3xi32>, tensor<3xf32>
  return
}

// -----

func.func @f(%a: tensor<5x2xf32>, %i: tensor<3xi32>, %u: tensor<3x2xf64>) {
  // expected-error@+1 {{base and updates differ in their element type}}
  %y = tfm.scatter_add %a, %i, %u : tensor<5x2xf32>, tensor<3xi32>, tensor<3x2xf64>
  return
}

// -----

func.func @f(%base: tensor<2x4x64x16xf32>, %new: tensor<2x3x1x16xf32>, %at: tensor<2xi32>) {
  // expected-error@+1 {{expected base [B or 1, heads, S, d], updates [B, heads, T, d], positions [B]}}
  %y = tfm.cache_update %base, %new, %at : tensor<2x4x64x16xf32>, tensor<2x3x1x16xf32>, tensor<2xi32>
  return
}

// -----

func.func @f(%base: tensor<2x4x64x16xf32>, %new: tensor<2x4x1x16xf64>, %at: tensor<2xi32>) {
  // expected-error@+1 {{base and updates differ in their element type}}
  %y = tfm.cache_update %base, %new, %at : tensor<2x4x64x16xf32>, tensor<2x4x1x16xf64>, tensor<2xi32>
  return
}

// -----

func.func @f(%base: tensor<2x4x3x16xf32>, %new: tensor<2x4x4x16xf32>, %at: tensor<2xi32>) {
  // expected-error@+1 {{has more updates than its ring has rows}}
  %y = tfm.cache_update %base, %new, %at {ring} : tensor<2x4x3x16xf32>, tensor<2x4x4x16xf32>, tensor<2xi32>
  return
}

// -----

func.func @matmul_accumulator(%a: tensor<4x8xf64>, %b: tensor<8x8xf64>) {
  // expected-error @+1 {{'tfm.matmul' op adds up terms of 'f64' in 'f32': expected a type that is no narrower}}
  %y = tfm.matmul %a, %b : tensor<4x8xf64>, tensor<8x8xf64> accumulate f32
  return
}

// -----

// 33 terms are two groups of 32.
func.func @f(%q: tensor<4x16xi8>, %s: tensor<4x2xbf16>) {
  // expected-error@+1 {{has integers of type 'tensor<4x16xi8>': expected 'tensor<4x32xi8>'}}
  %w = tfm.dequantise %q, %s, %s : tensor<4x16xi8>, tensor<4x2xbf16> to tensor<4x33xf32>
  return
}

// -----

func.func @f(%q: tensor<4x32xi8>, %s: tensor<4x1xbf16>) {
  // expected-error@+1 {{has scales and minima of type 'tensor<4x1xbf16>': expected 'tensor<4x2xbf16>'}}
  %w = tfm.dequantise %q, %s, %s : tensor<4x32xi8>, tensor<4x1xbf16> to tensor<4x33xf32>
  return
}

// -----

func.func @panels(%p: tensor<2x10x32x4xi8>) -> tensor<65x40xi8> {
  // expected-error@+1 {{has panels of type 'tensor<2x10x32x4xi8>': expected 'tensor<3x10x32x4xi8>'}}
  %w = tfm.unpack %p : tensor<2x10x32x4xi8> to tensor<65x40xi8>
  return %w : tensor<65x40xi8>
}
