// RUN: tfm-opt %s -split-input-file -verify-diagnostics

// A name that is no part of the arena would be a buffer of its own.
// expected-error@+1 {{has no region "parameters.thawed"}}
func.func @update(%p: tensor<8xf32> {tfm.region = "parameters.thawed"}) {
  return
}

// -----

// expected-error@+1 {{has no region "cache.first"}}
func.func @decode(%c: tensor<8xf32>) -> (tensor<8xf32> {tfm.region = "cache.first"}) {
  return %c : tensor<8xf32>
}

// -----

// expected-error@+1 {{has no region 3 : i64}}
func.func @decode(%c: tensor<8xf32> {tfm.region = 3}) {
  return
}
