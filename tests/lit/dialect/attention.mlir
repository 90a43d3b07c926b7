// RUN: tfm-opt %s | FileCheck %s
// RUN: tfm-opt %s --mlir-print-op-generic | tfm-opt | FileCheck %s


// Attention with and without a mask and dropout.
func.func @attention(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x8x16xf32>, %v: tensor<2x4x8x16xf32>, %mask: tensor<2x1x8x8xi1>, %dout: tensor<2x4x8x16xf32>, %bias: tensor<1x4x8x8xf32>, %at: tensor<2xi32>) {
  // CHECK: tfm.attention %{{.*}}, %{{.*}}, %{{.*}} {{.}}causal, scale = 5.000000e-01 : f64} : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
  %out, %lse = tfm.attention %q, %k, %v {causal, scale = 0.5 : f64} : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
  // CHECK: tfm.attention %{{.*}}, %{{.*}}, %{{.*}} mask %{{.*}} {{.}}scale = 5.000000e-01 : f64, softcap = 3.000000e+01 : f64, window = 4 : i64} : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x1x8x8xi1>
  %o1, %l1 = tfm.attention %q, %k, %v mask %mask {scale = 0.5 : f64, window = 4 : i64, softcap = 30.0 : f64} : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x1x8x8xi1>
  // CHECK: tfm.attention %{{.*}}, %{{.*}}, %{{.*}} {{.}}dropout = 1.000000e-01 : f64, scale = 5.000000e-01 : f64, site = 2 : i64} : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
  %o2, %l2 = tfm.attention %q, %k, %v {scale = 0.5 : f64, dropout = 0.1 : f64, site = 2 : i64} : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
  // CHECK: tfm.attention %{{.*}}, %{{.*}}, %{{.*}} mask %{{.*}} start(%{{.*}} : tensor<2xi32>) {{.}}causal, scale = 5.000000e-01 : f64} : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x1x8x8xi1>
  %o3, %l3 = tfm.attention %q, %k, %v mask %mask start(%at : tensor<2xi32>) {causal, scale = 0.5 : f64} : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x1x8x8xi1>
  // CHECK: tfm.attention_backward %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {{.}}causal, scale = 5.000000e-01 : f64} : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>, tensor<2x4x8x16xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>)
  %dq, %dk, %dv = tfm.attention_backward %q, %k, %v, %out, %lse, %dout {causal, scale = 0.5 : f64}
      : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>, tensor<2x4x8x16xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>)
  // CHECK: tfm.attention_backward {{.*}} mask %{{.*}} {{.*}} -> (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<1x4x8x8xf32>)
  %eq, %ek, %ev, %em = tfm.attention_backward %q, %k, %v, %out, %lse, %dout mask %bias {scale = 0.5 : f64}
      : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>, tensor<2x4x8x16xf32>, tensor<1x4x8x8xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<1x4x8x8xf32>)
  return
}

// Biases by distance, and their derivative beside that of a mask or alone.
func.func @distance(%q: tensor<2x4x8x16xf32>, %lse: tensor<2x4x8xf32>, %bias: tensor<1x4x8x8xf32>, %near: tensor<4x8xf32>, %around: tensor<4x15xf32>, %at: tensor<2xi32>) {
  // CHECK: tfm.attention %{{.*}}, %{{.*}}, %{{.*}} mask %{{.*}} start(%{{.*}} : tensor<2xi32>) distance(%{{.*}} : tensor<4x8xf32>) {{.}}causal, scale = 5.000000e-01 : f64} : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<1x4x8x8xf32>
  %o1, %l1 = tfm.attention %q, %q, %q mask %bias start(%at : tensor<2xi32>) distance(%near : tensor<4x8xf32>) {causal, scale = 0.5 : f64} : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<1x4x8x8xf32>
  // CHECK: tfm.attention %{{.*}}, %{{.*}}, %{{.*}} distance(%{{.*}} : tensor<4x15xf32>) {{.}}scale = 5.000000e-01 : f64} : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
  %o2, %l2 = tfm.attention %q, %q, %q distance(%around : tensor<4x15xf32>) {scale = 0.5 : f64} : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
  // CHECK: tfm.attention_backward {{.*}} mask %{{.*}} distance(%{{.*}} : tensor<4x15xf32>) {{.*}} tensor<1x4x8x8xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<1x4x8x8xf32>) distance tensor<4x15xf32>
  %eq, %ek, %ev, %em, %ed = tfm.attention_backward %q, %q, %q, %q, %lse, %q mask %bias distance(%around : tensor<4x15xf32>) {scale = 0.5 : f64}
      : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>, tensor<2x4x8x16xf32>, tensor<1x4x8x8xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<1x4x8x8xf32>) distance tensor<4x15xf32>
  // CHECK: tfm.attention_backward {{.*}} distance(%{{.*}} : tensor<4x8xf32>) {{.*}} -> (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>) distance tensor<4x8xf32>
  %fq, %fk, %fv, %fd = tfm.attention_backward %q, %q, %q, %q, %lse, %q distance(%near : tensor<4x8xf32>) {causal, scale = 0.5 : f64}
      : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>, tensor<2x4x8x16xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>) distance tensor<4x8xf32>
  return
}

// Rotary embedding and dropout.
func.func @rope(%x: tensor<2x4x8x16xf32>, %positions: tensor<2x8xi32>) {
  // CHECK: tfm.rope %{{.*}}, %{{.*}} {{.}}base = 1.000000e+04 : f64, dims = 16 : i64} : tensor<2x4x8x16xf32>, tensor<2x8xi32>
  %a = tfm.rope %x, %positions {base = 10000.0 : f64, dims = 16 : i64} : tensor<2x4x8x16xf32>, tensor<2x8xi32>
  // CHECK: tfm.rope %{{.*}}, %{{.*}} {{.}}base = 1.000000e+04 : f64, dims = 8 : i64, interleaved, inverse} : tensor<2x4x8x16xf32>, tensor<2x8xi32>
  %b = tfm.rope %x, %positions {base = 10000.0 : f64, dims = 8 : i64, interleaved, inverse} : tensor<2x4x8x16xf32>, tensor<2x8xi32>
  // CHECK: tfm.rope %{{.*}}, %{{.*}} {{.}}amplitude = 1.500000e+00 : f64, base = 1.000000e+04 : f64, dims = 4 : i64, frequencies = array<f64: 1.000000e+00, 5.000000e-01>} : tensor<2x4x8x16xf32>, tensor<2x8xi32>
  %d = tfm.rope %x, %positions {base = 10000.0 : f64, dims = 4 : i64, frequencies = array<f64: 1.0, 0.5>, amplitude = 1.5 : f64} : tensor<2x4x8x16xf32>, tensor<2x8xi32>
  // CHECK: tfm.dropout %{{.*}} {{.}}rate = 1.000000e-01 : f64, site = 3 : i64} : tensor<2x4x8x16xf32>
  %c = tfm.dropout %x {rate = 0.1 : f64, site = 3 : i64} : tensor<2x4x8x16xf32>
  return
}
