// RUN: tfm-opt %s --mlir-print-op-generic | tfm-opt | FileCheck %s
// RUN: tfm-opt %s --cse | FileCheck %s --check-prefix=CSE

// Random numbers are a function of a site and a layer: the same ones are drawn
// once.
// CHECK-LABEL: func.func @uniform
// CSE-LABEL: func.func @uniform
func.func @uniform() -> (tensor<4x8xf32>, tensor<3x8xf32>) {
  // CHECK-NEXT: tfm.uniform {site = 3 : i64} : tensor<4x8xf32>
  // CHECK-NEXT: tfm.uniform {site = 3 : i64} : tensor<4x8xf32>
  // CHECK-NEXT: tfm.uniform {site = 4 : i64} : tensor<4x8xf32>
  // CSE-NEXT: %[[A:.*]] = tfm.uniform {site = 3 : i64}
  // CSE-NEXT: %[[B:.*]] = tfm.uniform {site = 4 : i64}
  // CSE-NEXT: tfm.add %[[A]], %[[A]]
  // CSE-NEXT: tfm.add %{{.*}}, %[[B]]
  %a = tfm.uniform {site = 3 : i64} : tensor<4x8xf32>
  %b = tfm.uniform {site = 3 : i64} : tensor<4x8xf32>
  %c = tfm.uniform {site = 4 : i64} : tensor<4x8xf32>
  %d = tfm.add %a, %b : tensor<4x8xf32>
  %e = tfm.add %d, %c : tensor<4x8xf32>
  // CHECK: ^bb0(%[[LAYER:.*]]: index):
  // CHECK-NEXT: tfm.uniform layer %[[LAYER]] {site = 5 : i64} : tensor<8xf32>
  %y = tfm.repeat 3 carried() stacked() shared() -> (tensor<3x8xf32>) {
  ^bb0(%layer: index):
    %u = tfm.uniform layer %layer {site = 5 : i64} : tensor<8xf32>
    tfm.yield %u : tensor<8xf32>
  }
  return %e, %y : tensor<4x8xf32>, tensor<3x8xf32>
}
