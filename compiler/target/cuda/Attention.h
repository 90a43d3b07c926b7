//===- Attention.h - attention on blocks of threads -------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CUDA_ATTENTION_H
#define TFM_TARGET_CUDA_ATTENTION_H

#include "compiler/schedule/SchedDialect.h"

#include "mlir/IR/BuiltinOps.h"

#include <optional>

namespace tfm::cuda {

/// The widest heads that a kernel has room for in shared memory, where those of
/// the launch are wider; none where it can be emitted.
std::optional<int64_t> mostWidth(sched::LaunchOp launch);

/// Emits attention: a block has a tile of queries of a head, and walks over the
/// keys that they see, with the largest score so far, the sum of the weights
/// and the row of the output of each query in registers (Milakov and
/// Gimelshein 2018). All in f32.
void emitAttentionKernel(mlir::ModuleOp module, llvm::StringRef name,
                         sched::LaunchOp launch);

/// Whether attention or its derivative can be on tensor cores: numbers of bf16
/// in pieces of 16 bytes, rows of 16 to 128 elements, a power of two, no cache,
/// and no gradients of masks and biases.
bool isOnTensorCores(sched::LaunchOp launch);

/// Emits attention on tensor cores, after Dao et al. 2022: a warp has 16
/// queries, whose scores, weights and outputs stay in its registers; keys and
/// values come through shared memory, the next ones while these are multiplied.
/// Weights are rounded to bf16, sums are of f32.
void emitTensorAttention(mlir::ModuleOp module, llvm::StringRef name,
                         sched::LaunchOp launch);

/// Whether attention that can be on tensor cores can also be by warpgroups: of
/// more than one tile of queries, in rows of whole panels, without a cache,
/// dropout, a mask or biases.
bool canAttendInWarpgroups(sched::LaunchOp launch);

/// Emits it so, for sm_90a: the hardware brings keys and values, which `wgmma`
/// multiplies while the weights of others are computed.
void emitWarpgroupAttention(mlir::ModuleOp module, llvm::StringRef name,
                            sched::LaunchOp launch);

/// Most queries of a sequence that are few.
inline constexpr int64_t fewQueries = 8;

/// Whether `emitFewQueries` can: few queries, as in decoding, of rows that lie
/// in pieces of 16 bytes.
bool isOfFewQueries(sched::LaunchOp launch);

/// Emits attention of few queries to many keys. Neighbouring lanes have a piece
/// each of a key's row and of its value's, so that both are read once, 16 bytes
/// a load; such groups of lanes have every so manieth key each, with a softmax
/// of their own, which are put together at the end, always as the same tree.
void emitFewQueries(mlir::ModuleOp module, llvm::StringRef name,
                    sched::LaunchOp launch);

/// Emits the derivative, which computes weights again (Dao et al. 2022,
/// appendix B.2): some blocks have a tile of keys and walk over the queries
/// that see it, for dk and dv, others a tile of queries, for dq, and the last
/// ones, where the mask or biases by distance have a gradient, a tile of that.
/// So every sum has one owner and one order.
void emitAttentionBackwardKernel(mlir::ModuleOp module, llvm::StringRef name,
                                 sched::LaunchOp launch);

/// Emits it on tensor cores, where a warp has 16 keys or queries, and what
/// is summed up over the others in its registers. Weights and cotangents of
/// scores are rounded to bf16, sums are of f32.
void emitTensorAttentionBackward(mlir::ModuleOp module, llvm::StringRef name,
                                 sched::LaunchOp launch);

} // namespace tfm::cuda

#endif // TFM_TARGET_CUDA_ATTENTION_H
