// RUN: tfm-opt %s | FileCheck %s
// RUN: tfm-opt %s --mlir-print-op-generic | tfm-opt | FileCheck %s

// CHECK: tfm.param @"h.*.attn.c_attn.weight" : tensor<12x768x2304xf32>
// CHECK-SAME: dims = ["width", "3*width"]
// CHECK-SAME: init = {args = [0.000000e+00, 2.000000e-02], kind = "normal"}
tfm.param @"h.*.attn.c_attn.weight" : tensor<12x768x2304xf32>
  {dims = ["width", "3*width"], init = {kind = "normal", args = [0.0, 0.02]}, trainable = true}

// CHECK: tfm.param @wte.weight : tensor<50257x768xf32>
// CHECK-SAME: aliases = ["lm_head.weight"]
// CHECK-SAME: names = ["transformer.wte.weight"]
// CHECK-SAME: trainable = false
tfm.param @wte.weight : tensor<50257x768xf32>
  {init = {kind = "zeros"}, names = ["transformer.wte.weight"],
   aliases = ["lm_head.weight"], trainable = false}

// A parameter is read by its symbol, all layers stacked.
func.func @params() {
  // CHECK: tfm.get_param @wte.weight : tensor<50257x768xf32>
  %w = tfm.get_param @wte.weight : tensor<50257x768xf32>
  // CHECK: tfm.get_param @"h.*.attn.c_attn.weight" : tensor<12x768x2304xf32>
  %s = tfm.get_param @"h.*.attn.c_attn.weight" : tensor<12x768x2304xf32>
  return
}

// Constants are dense attributes of any element type.
func.func @constants() {
  // CHECK: tfm.constant dense<1.000000e+00> : tensor<8xf32>
  %c = tfm.constant dense<1.0> : tensor<8xf32>
  // CHECK: tfm.constant dense<[1, 2]> : tensor<2xi32>
  %i = tfm.constant dense<[1, 2]> : tensor<2xi32>
  // CHECK: tfm.constant dense<[true, false]> : tensor<2xi1>
  %b = tfm.constant dense<[true, false]> : tensor<2xi1>
  return
}

// Counting along an axis, and the positions of tokens.
func.func @positions(%tokens: tensor<4x8xi32>) {
  // CHECK: tfm.iota 1 : tensor<4x8xi32>
  %i = tfm.iota 1 : tensor<4x8xi32>
  // CHECK: tfm.positions %{{.*}} : tensor<4x8xi32>
  %p = tfm.positions %tokens : tensor<4x8xi32>
  return
}
