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

// By warpgroups two blocks that live until all is done have a head each: the
// tile of the last queries and that of the first ones. Keys and values come in
// four stages, queries in two.
func.func @g(%q: tensor<1x2x200x64xbf16>, %k: tensor<1x1x200x64xbf16>, %v: tensor<1x1x200x64xbf16>)
    -> tensor<1x2x200x64xbf16> {
  %out, %lse = tfm.attention %q, %k, %v {causal, scale = 0.5 : f64}
    : tensor<1x2x200x64xbf16>, tensor<1x1x200x64xbf16>, tensor<1x1x200x64xbf16>
  return %out : tensor<1x2x200x64xbf16>
}

// CHECK: func.func @kernel1(
// CHECK: nvvm.mma.sync
// CHECK: func.func @kernel1_sm_90a(
// CHECK-SAME: tfm.block = array<i32: 384, 1, 1>, tfm.form_of = "kernel1", tfm.grid = array<i64: 2, 1, 1>, tfm.persistent = 1 : i32, tfm.resident = 1 : i32, tfm.shared = 164000
// CHECK-SAME: tfm.tensors = [{argument = 0 : i64, box = array<i64: 64, 128, 1>, sizes = array<i64: 64, 200, 2>,
// CHECK: nvvm.setmaxregister increase 232
// The products with the first keys, of which some may not be seen.
// CHECK: nvvm.wgmma.mma_async {{.*}}D[<f32>, <zero>]
// CHECK-COUNT-3: nvvm.wgmma.mma_async {{.*}}D[<f32>, <one>]
// CHECK: "wgmma.wait_group.sync.aligned 0;"
// CHECK: arith.select
// CHECK: nvvm.mbarrier.try_wait.parity
// Then with all others: while values are added up, the weights of the next ones
// are computed, and nothing is asked about them.
// CHECK: scf.for
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK: nvvm.barrier id
// CHECK-COUNT-4: nvvm.wgmma.mma_async
// CHECK: nvvm.wgmma.commit.group.sync.aligned
// CHECK-NOT: nvvm.mbarrier.try_wait.parity
// CHECK-COUNT-8: wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16
// CHECK: nvvm.wgmma.commit.group.sync.aligned
// CHECK: nvvm.barrier.arrive
// CHECK: "wgmma.wait_group.sync.aligned 1;"
// CHECK-COUNT-66: ex2.approx
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK: "wgmma.wait_group.sync.aligned 0;"
// CHECK: scf.yield
// CHECK-COUNT-8: wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16
// CHECK: "wgmma.wait_group.sync.aligned 0;"
// CHECK-NOT: wgmma
// CHECK: nvvm.setmaxregister decrease 32

// What is drawn for dropout, and what begins in a cache, has no such form.
func.func @h(%q: tensor<1x2x200x64xbf16>, %k: tensor<1x1x200x64xbf16>, %v: tensor<1x1x200x64xbf16>, %start: tensor<1xi32>)
    -> (tensor<1x2x200x64xbf16>, tensor<1x2x200x64xbf16>) {
  %out, %lse = tfm.attention %q, %k, %v {causal, scale = 0.5 : f64, dropout = 0.25 : f64, site = 1 : i64}
    : tensor<1x2x200x64xbf16>, tensor<1x1x200x64xbf16>, tensor<1x1x200x64xbf16>
  %others, %logs = tfm.attention %q, %k, %v start(%start : tensor<1xi32>) {causal, scale = 0.5 : f64}
    : tensor<1x2x200x64xbf16>, tensor<1x1x200x64xbf16>, tensor<1x1x200x64xbf16>
  return %out, %others : tensor<1x2x200x64xbf16>, tensor<1x2x200x64xbf16>
}

// CHECK: func.func @kernel2(
// CHECK: func.func @kernel3(
// CHECK-NOT: func.func
