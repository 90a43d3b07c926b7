// RUN: tfm-opt %s --split-input-file --cuda-split-attention | FileCheck %s
// RUN: tfm-opt %s --split-input-file --tfm-to-sched=target=cuda | FileCheck %s --check-prefix=SCHED

// 25 heads: four parts of 256 keys each, which are views of the cache, as 132
// multiprocessors have a block each. Where each part's first key is, the query's
// position is taken relative to.
// CHECK-LABEL: func.func @token
// CHECK: %[[CUT:.*]] = tfm.reshape %arg1 {{.*}} to tensor<25x4x256x64xbf16>
// CHECK: %[[K:.*]] = tfm.transpose %[[CUT]] [1, 0, 2, 3]
// CHECK: %[[Q:.*]] = tfm.broadcast %arg0 {{.*}} to tensor<4x25x1x64xbf16>
// CHECK: %[[FIRST:.*]] = tfm.constant dense<[0, 256, 512, 768]>
// CHECK: %[[START:.*]] = tfm.sub %{{.*}}, %[[FIRST]] : tensor<4xi32>
// CHECK: %[[OUT:.*]], %[[LSE:.*]] = tfm.attention %[[Q]], %[[K]], %{{.*}} start(%[[START]] : tensor<4xi32>) {causal, scale = 1.250000e-01 : f64}
// CHECK-COUNT-4: tfm.slice %[[LSE]]
// CHECK-COUNT-4: tfm.exp
// CHECK: %[[TOTAL:.*]] = tfm.add {{.*}} : tensor<1x25x1x64xf32>
// CHECK: %[[SUM:.*]] = tfm.add {{.*}} : tensor<1x25x1x64xf32>
// CHECK: %[[INVERSE:.*]] = tfm.div %{{.*}}, %[[TOTAL]]
// CHECK: tfm.mul %[[SUM]], %[[INVERSE]]
// CHECK: tfm.cast {{.*}} to tensor<1x25x1x64xbf16>
// What adds them up is no kernel of its own.
// SCHED-LABEL: sched.program @token
// SCHED: sched.launch attention
// SCHED: sched.group behind_first {
// SCHED: sched.launch row 25 by 64
// SCHED: sched.launch matmul 1 by 1600
// SCHED-NOT: sched.launch
func.func @token(%q: tensor<1x25x1x64xbf16>, %k: tensor<1x25x1024x64xbf16>, %v: tensor<1x25x1024x64xbf16>,
                 %p: tensor<1xi32>, %w: tensor<1600x1600xbf16>) -> tensor<1x1600xf32> {
  %out, %lse = tfm.attention %q, %k, %v start(%p : tensor<1xi32>) {causal, scale = 0.125 : f64}
    : tensor<1x25x1x64xbf16>, tensor<1x25x1024x64xbf16>, tensor<1x25x1024x64xbf16>
  %a = tfm.reshape %out : tensor<1x25x1x64xbf16> to tensor<1x1600xbf16>
  %y = tfm.matmul %a, %w transpose_b : tensor<1x1600xbf16>, tensor<1600x1600xbf16>
  return %y : tensor<1x1600xf32>
}

// -----

// Several queries, few keys, a ring, and texts that are enough by themselves stay
// as they are.
// CHECK-LABEL: func.func @others
// CHECK-NOT: tfm.slice
// SCHED-LABEL: sched.program @others
func.func @others(%q: tensor<1x4x2x16xf32>, %one: tensor<1x4x1x16xf32>, %texts: tensor<2x4x1x16xf32>, %k: tensor<1x4x256x16xf32>,
                  %few: tensor<1x4x100x16xf32>, %many: tensor<2x4x256x16xf32>, %p: tensor<1xi32>, %ps: tensor<2xi32>)
    -> (tensor<1x4x2x16xf32>, tensor<1x4x1x16xf32>, tensor<1x4x1x16xf32>, tensor<2x4x1x16xf32>) {
  %a, %0 = tfm.attention %q, %k, %k start(%p : tensor<1xi32>) {causal, scale = 0.25 : f64}
    : tensor<1x4x2x16xf32>, tensor<1x4x256x16xf32>, tensor<1x4x256x16xf32>
  %b, %1 = tfm.attention %one, %few, %few start(%p : tensor<1xi32>) {causal, scale = 0.25 : f64}
    : tensor<1x4x1x16xf32>, tensor<1x4x100x16xf32>, tensor<1x4x100x16xf32>
  %c, %2 = tfm.attention %one, %k, %k start(%p : tensor<1xi32>) {causal, ring, window = 100 : i64, scale = 0.25 : f64}
    : tensor<1x4x1x16xf32>, tensor<1x4x256x16xf32>, tensor<1x4x256x16xf32>
  %d, %3 = tfm.attention %texts, %many, %many start(%ps : tensor<2xi32>) {causal, scale = 0.25 : f64}
    : tensor<2x4x1x16xf32>, tensor<2x4x256x16xf32>, tensor<2x4x256x16xf32>
  return %a, %b, %c, %d : tensor<1x4x2x16xf32>, tensor<1x4x1x16xf32>, tensor<1x4x1x16xf32>, tensor<2x4x1x16xf32>
}
