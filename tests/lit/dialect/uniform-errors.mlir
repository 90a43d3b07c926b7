// RUN: tfm-opt %s -split-input-file -verify-diagnostics

func.func @f() {
  // expected-error@+1 {{site is not in 0 <= site < 32768}}
  %y = tfm.uniform {site = 32768 : i64} : tensor<8xf32>
  return
}

// -----

func.func @f(%l: index) {
  // expected-error@+1 {{layer is not the index of the enclosing repeat}}
  %y = tfm.uniform layer %l {site = 0 : i64} : tensor<8xf32>
  return
}

// -----

func.func @f() {
  // expected-error@+1 {{result #0 must be}}
  %y = tfm.uniform {site = 0 : i64} : tensor<8xi32>
  return
}
