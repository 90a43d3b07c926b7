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

// Rotary embedding and dropout.
func.func @rope(%x: tensor<2x4x8x16xf32>, %positions: tensor<2x8xi32>) {
  // CHECK: tfm.rope %{{.*}}, %{{.*}} {{.}}base = 1.000000e+04 : f64, dims = 16 : i64} : tensor<2x4x8x16xf32>, tensor<2x8xi32>
  %a = tfm.rope %x, %positions {base = 10000.0 : f64, dims = 16 : i64} : tensor<2x4x8x16xf32>, tensor<2x8xi32>
  // CHECK: tfm.rope %{{.*}}, %{{.*}} {{.}}base = 1.000000e+04 : f64, dims = 8 : i64, interleaved, inverse} : tensor<2x4x8x16xf32>, tensor<2x8xi32>
  %b = tfm.rope %x, %positions {base = 10000.0 : f64, dims = 8 : i64, interleaved, inverse} : tensor<2x4x8x16xf32>, tensor<2x8xi32>
  // CHECK: tfm.dropout %{{.*}} {{.}}rate = 1.000000e-01 : f64, site = 3 : i64} : tensor<2x4x8x16xf32>
  %c = tfm.dropout %x {rate = 0.1 : f64, site = 3 : i64} : tensor<2x4x8x16xf32>
  return
}
