// RUN: tfm-opt %s --tfm-to-kernels=target=cuda | FileCheck %s

// Queries of bf16 that go on behind others, as in a long prompt, are multiplied
// on tensor cores. What the cache has behind them is no number: of that no byte
// is copied, whose place is filled with zeros.
func.func @f(%q: tensor<1x2x32x32xbf16>, %k: tensor<1x1x128x32xbf16>, %v: tensor<1x1x128x32xbf16>, %start: tensor<1xi32>)
    -> tensor<1x2x32x32xbf16> {
  %out, %lse = tfm.attention %q, %k, %v start(%start : tensor<1xi32>) {causal, scale = 0.5 : f64}
    : tensor<1x2x32x32xbf16>, tensor<1x1x128x32xbf16>, tensor<1x1x128x32xbf16>
  return %out : tensor<1x2x32x32xbf16>
}

// CHECK: func.func @kernel0(
// CHECK-SAME: tfm.step = "attention
// CHECK: %[[START:.*]] = arith.extsi %{{.*}} : i32 to i64
// CHECK: %[[BEHIND:.*]] = arith.addi %[[START]], %c32_i64{{.*}} : i64
// CHECK: %[[END:.*]] = arith.minsi %[[BEHIND]], %c128_i64
// CHECK: arith.select %{{.*}}, %c8_i64{{.*}}, %c0_i64
// CHECK: nvvm.cp.async.shared.global %{{[^,]*}}, %{{[^,]*}}, 16, cache = cg, %
// CHECK: nvvm.mma.sync
