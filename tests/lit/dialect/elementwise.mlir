// RUN: tfm-opt %s | FileCheck %s
// RUN: tfm-opt %s --mlir-print-op-generic | tfm-opt | FileCheck %s

// Every elementwise op prints as it was written, and survives the generic form.

// One operand: the type is that of operand and result.
func.func @unary(%x: tensor<4x8xf32>) {
  // CHECK: tfm.neg %{{.*}} : tensor<4x8xf32>
  %neg = tfm.neg %x : tensor<4x8xf32>
  // CHECK: tfm.abs %{{.*}} : tensor<4x8xf32>
  %abs = tfm.abs %x : tensor<4x8xf32>
  // CHECK: tfm.exp %{{.*}} : tensor<4x8xf32>
  %exp = tfm.exp %x : tensor<4x8xf32>
  // CHECK: tfm.log %{{.*}} : tensor<4x8xf32>
  %log = tfm.log %x : tensor<4x8xf32>
  // CHECK: tfm.sqrt %{{.*}} : tensor<4x8xf32>
  %sqrt = tfm.sqrt %x : tensor<4x8xf32>
  // CHECK: tfm.rsqrt %{{.*}} : tensor<4x8xf32>
  %rsqrt = tfm.rsqrt %x : tensor<4x8xf32>
  // CHECK: tfm.tanh %{{.*}} : tensor<4x8xf32>
  %tanh = tfm.tanh %x : tensor<4x8xf32>
  // CHECK: tfm.sigmoid %{{.*}} : tensor<4x8xf32>
  %sigmoid = tfm.sigmoid %x : tensor<4x8xf32>
  // CHECK: tfm.erf %{{.*}} : tensor<4x8xf32>
  %erf = tfm.erf %x : tensor<4x8xf32>
  // CHECK: tfm.sin %{{.*}} : tensor<4x8xf32>
  %sin = tfm.sin %x : tensor<4x8xf32>
  // CHECK: tfm.cos %{{.*}} : tensor<4x8xf32>
  %cos = tfm.cos %x : tensor<4x8xf32>
  // CHECK: tfm.relu %{{.*}} : tensor<4x8xf32>
  %relu = tfm.relu %x : tensor<4x8xf32>
  // CHECK: tfm.relu_squared %{{.*}} : tensor<4x8xf32>
  %relu_squared = tfm.relu_squared %x : tensor<4x8xf32>
  // CHECK: tfm.gelu %{{.*}} : tensor<4x8xf32>
  %gelu = tfm.gelu %x : tensor<4x8xf32>
  // CHECK: tfm.gelu_tanh %{{.*}} : tensor<4x8xf32>
  %gelu_tanh = tfm.gelu_tanh %x : tensor<4x8xf32>
  // CHECK: tfm.silu %{{.*}} : tensor<4x8xf32>
  %silu = tfm.silu %x : tensor<4x8xf32>
  // CHECK: tfm.softplus %{{.*}} : tensor<4x8xf32>
  %softplus = tfm.softplus %x : tensor<4x8xf32>
  // CHECK: tfm.stop_gradient %{{.*}} : tensor<4x8xf32>
  %stop_gradient = tfm.stop_gradient %x : tensor<4x8xf32>
  return
}

// Scalars have rank 0, and f64 is allowed wherever f32 is.
func.func @scalars(%x: tensor<f32>, %y: tensor<f64>) {
  // CHECK: tfm.exp %{{.*}} : tensor<f32>
  %a = tfm.exp %x : tensor<f32>
  // CHECK: tfm.exp %{{.*}} : tensor<f64>
  %b = tfm.exp %y : tensor<f64>
  return
}

// Two operands of one type, float or integer.
func.func @binary(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>, %i: tensor<4xi32>, %j: tensor<4xi32>) {
  // CHECK: tfm.add %{{.*}}, %{{.*}} : tensor<4x8xf32>
  %add = tfm.add %a, %b : tensor<4x8xf32>
  // CHECK: tfm.sub %{{.*}}, %{{.*}} : tensor<4x8xf32>
  %sub = tfm.sub %a, %b : tensor<4x8xf32>
  // CHECK: tfm.mul %{{.*}}, %{{.*}} : tensor<4x8xf32>
  %mul = tfm.mul %a, %b : tensor<4x8xf32>
  // CHECK: tfm.div %{{.*}}, %{{.*}} : tensor<4x8xf32>
  %div = tfm.div %a, %b : tensor<4x8xf32>
  // CHECK: tfm.pow %{{.*}}, %{{.*}} : tensor<4x8xf32>
  %pow = tfm.pow %a, %b : tensor<4x8xf32>
  // CHECK: tfm.min %{{.*}}, %{{.*}} : tensor<4x8xf32>
  %min = tfm.min %a, %b : tensor<4x8xf32>
  // CHECK: tfm.max %{{.*}}, %{{.*}} : tensor<4x8xf32>
  %max = tfm.max %a, %b : tensor<4x8xf32>
  // CHECK: tfm.add %{{.*}}, %{{.*}} : tensor<4xi32>
  %k = tfm.add %i, %j : tensor<4xi32>
  // CHECK: tfm.fma %{{.*}}, %{{.*}}, %{{.*}} : tensor<4x8xf32>
  %fma = tfm.fma %a, %b, %a : tensor<4x8xf32>
  return
}

// Booleans come from comparisons and meet in and, or and not.
func.func @logic(%a: tensor<4x8xf32>, %i: tensor<4x8xi32>, %p: tensor<4x8xi1>, %q: tensor<4x8xi1>) {
  // CHECK: tfm.compare {{ *}}eq %{{.*}}, %{{.*}} : tensor<4x8xi32>
  %eq = tfm.compare eq %i, %i : tensor<4x8xi32>
  // CHECK: tfm.compare {{ *}}ne %{{.*}}, %{{.*}} : tensor<4x8xi32>
  %ne = tfm.compare ne %i, %i : tensor<4x8xi32>
  // CHECK: tfm.compare {{ *}}lt %{{.*}}, %{{.*}} : tensor<4x8xi32>
  %lt = tfm.compare lt %i, %i : tensor<4x8xi32>
  // CHECK: tfm.compare {{ *}}le %{{.*}}, %{{.*}} : tensor<4x8xi32>
  %le = tfm.compare le %i, %i : tensor<4x8xi32>
  // CHECK: tfm.compare {{ *}}gt %{{.*}}, %{{.*}} : tensor<4x8xi32>
  %gt = tfm.compare gt %i, %i : tensor<4x8xi32>
  // CHECK: tfm.compare {{ *}}ge %{{.*}}, %{{.*}} : tensor<4x8xi32>
  %ge = tfm.compare ge %i, %i : tensor<4x8xi32>
  // CHECK: tfm.and %{{.*}}, %{{.*}} : tensor<4x8xi1>
  %and = tfm.and %p, %q : tensor<4x8xi1>
  // CHECK: tfm.or %{{.*}}, %{{.*}} : tensor<4x8xi1>
  %or = tfm.or %p, %q : tensor<4x8xi1>
  // CHECK: tfm.not %{{.*}} : tensor<4x8xi1>
  %not = tfm.not %p : tensor<4x8xi1>
  // CHECK: tfm.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<4x8xi1>, tensor<4x8xf32>
  %s = tfm.select %p, %a, %a : tensor<4x8xi1>, tensor<4x8xf32>
  return
}

// A cast names both types.
func.func @cast(%p: tensor<4xi1>) {
  // CHECK: tfm.cast %{{.*}} : tensor<4xi1> to tensor<4xf32>
  %y = tfm.cast %p : tensor<4xi1> to tensor<4xf32>
  return
}
