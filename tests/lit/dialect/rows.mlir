// RUN: tfm-opt %s | FileCheck %s
// RUN: tfm-opt %s --mlir-print-op-generic | tfm-opt | FileCheck %s


// Reductions keep their axis with size 1.
func.func @reductions(%x: tensor<4x8xf32>) {
  // CHECK: tfm.reduce_sum %{{.*}} axis 1 : tensor<4x8xf32>
  %s = tfm.reduce_sum %x axis 1 : tensor<4x8xf32>
  // CHECK: tfm.reduce_max %{{.*}} axis 0 : tensor<4x8xf32>
  %m = tfm.reduce_max %x axis 0 : tensor<4x8xf32>
  // CHECK: tfm.neg %{{.*}} : tensor<4x1xf32>
  %n = tfm.neg %s : tensor<4x1xf32>
  // CHECK: tfm.neg %{{.*}} : tensor<1x8xf32>
  %o = tfm.neg %m : tensor<1x8xf32>
  return
}

// Along an axis, either way; not at all is what there is.
func.func @shift(%x: tensor<4x8xf32>) {
  // CHECK: tfm.shift %{{.*}} axis 1 by 2 : tensor<4x8xf32>
  %a = tfm.shift %x axis 1 by 2 : tensor<4x8xf32>
  // CHECK: tfm.shift %{{.*}} axis 0 by -1 : tensor<4x8xf32>
  %b = tfm.shift %x axis 0 by -1 : tensor<4x8xf32>
  return
}

// Along an axis, from both ends.
func.func @cumsum(%x: tensor<4x8xf32>) {
  // CHECK: tfm.cumsum %{{.*}} axis 1 : tensor<4x8xf32>
  %a = tfm.cumsum %x axis 1 : tensor<4x8xf32>
  // CHECK: tfm.cumsum %{{.*}} axis 0 reverse : tensor<4x8xf32>
  %b = tfm.cumsum %x axis 0 reverse : tensor<4x8xf32>
  return
}

// The same, with what the sum before is multiplied by.
func.func @scan(%a: tensor<4x8xf32>, %x: tensor<4x8xf32>) {
  // CHECK: tfm.scan %{{.*}}, %{{.*}} axis 1 : tensor<4x8xf32>
  %y = tfm.scan %a, %x axis 1 : tensor<4x8xf32>
  // CHECK: tfm.scan %{{.*}}, %{{.*}} axis 0 reverse : tensor<4x8xf32>
  %z = tfm.scan %a, %x axis 0 reverse : tensor<4x8xf32>
  return
}

// The largest of each row, and where they are.
func.func @top_k(%x: tensor<4x8xf32>) -> tensor<4x2xi32> {
  // CHECK: %{{.*}}, %[[IDS:.*]] = tfm.top_k %{{.*}}, 2 : tensor<4x8xf32>
  %v, %i = tfm.top_k %x, 2 : tensor<4x8xf32>
  // CHECK: return %[[IDS]] : tensor<4x2xi32>
  return %i : tensor<4x2xi32>
}

// Ops over the last axis.
func.func @rows(%x: tensor<4x8xf32>) {
  // CHECK: tfm.softmax %{{.*}} : tensor<4x8xf32>
  %a = tfm.softmax %x : tensor<4x8xf32>
  // CHECK: tfm.log_softmax %{{.*}} : tensor<4x8xf32>
  %b = tfm.log_softmax %x : tensor<4x8xf32>
  // CHECK: tfm.normalize %{{.*}} eps 1.000000e-05 : tensor<4x8xf32>
  %c = tfm.normalize %x eps 1.0e-5 : tensor<4x8xf32>
  // CHECK: tfm.rms_normalize %{{.*}} eps 9.9999999999999995E-7 : tensor<4x8xf32>
  %d = tfm.rms_normalize %x eps 1.0e-6 : tensor<4x8xf32>
  return
}

// The loss of a language model and its derivative.
func.func @cross_entropy(%logits: tensor<4x8x50xf32>, %targets: tensor<4x8xi32>, %d: tensor<4x8xf32>) {
  // CHECK: tfm.cross_entropy %{{.*}}, %{{.*}} {{.}}ignore = -100 : i64} : tensor<4x8x50xf32>, tensor<4x8xi32>
  %losses, %lse = tfm.cross_entropy %logits, %targets {ignore = -100 : i64} : tensor<4x8x50xf32>, tensor<4x8xi32>
  // CHECK: tfm.cross_entropy_backward %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {{.}}label_smoothing = 1.000000e-01 : f64} : tensor<4x8x50xf32>, tensor<4x8xi32>, tensor<4x8xf32>
  %g = tfm.cross_entropy_backward %logits, %targets, %lse, %d {label_smoothing = 0.1 : f64} : tensor<4x8x50xf32>, tensor<4x8xi32>, tensor<4x8xf32>
  return
}
