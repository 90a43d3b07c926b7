//===- Attention.h - attention and its derivative ---------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CPU_ATTENTION_H
#define TFM_TARGET_CPU_ATTENTION_H

#include "compiler/target/cpu/Terms.h"
#include "compiler/target/emit/AttentionRule.h"

namespace tfm {

struct CpuMachine;

/// `tfm.attention` over memrefs of static strides whose last axis is
/// contiguous. Heads may be interleaved, as in a [B, T, 3 * heads * d] buffer.
struct AttentionSpec : AttentionRule {
  /// [B, heads, T, d], [B, kv_heads, S, d], [B, kv_heads, S, e]; of f32 or of
  /// bf16, keys and values also of i8. Those have scales, forward only.
  mlir::MemRefType q, k, v;
  /// [B, heads, T, e] of their type, and [B, heads, T] of f32.
  mlir::MemRefType out, lse;
  /// [B or 1, heads or 1, T, S], or null. f32 is added to the scores; i8 or i1,
  /// a byte for each element, keeps where it is not 0.
  mlir::MemRefType mask;
  /// [B] of i32, or null: where query 0 of each row is among the keys. Only
  /// forward, with `causal`.
  mlir::MemRefType start;
  /// [B, kv_heads, S, 1] of f32 where keys and values are of i8, or null.
  mlir::MemRefType keyScale, valueScale;
  /// [heads, n] of f32 added to the scores by distance, or null.
  mlir::MemRefType distanceBias;
  /// Only for the derivative: cotangents, in the shapes of out, q, k, v and a
  /// float mask, and of the distance bias (null: not wanted).
  mlir::MemRefType dout, dq, dk, dv, dmask, ddistance;

  /// Whether kernels can read all of their strides.
  bool fits() const;
  /// With nothing between product and softmax but a positive scale, the
  /// largest score is that of the largest product.
  bool isPlain() const { return addsNothing() && scale > 0; }
  /// Whether scores are products times `scale`.
  bool addsNothing() const { return !softcap && !mask && !distanceBias; }
  /// Columns of the distance bias, and that of a query and a key at one place.
  int64_t distances() const { return distanceBias.getDimSize(1); }
  int64_t noDistance() const { return causal ? 0 : (distances() - 1) / 2; }
};

/// Strides of a type that `fits`.
llvm::SmallVector<int64_t> stridesOf(mlir::MemRefType type);

/// Emits attention. Buffers: q, k, v, [mask], [start], [key scales, value
/// scales], [distance bias], out, lse.
///
/// Queries are taken in blocks of about two registers, and keys in blocks whose
/// scores stay in the first-level cache: transposed, [keys, queries], with
/// queries in the lanes, so that the softmax needs no reduction across lanes.
/// What no query of a block sees is skipped. A block of keys is copied to
/// scratch, densely and in f32, for about 256 queries to read, which one thread
/// owns; short texts of f32 are read where they lie, keys all at once, and a
/// thread may own any block of queries.
///
/// Keys of a ring are always copied, each from its row. Up to `fewQueries`
/// queries of a cache are another kernel's (`emitFewQueries`).
///
/// Returns a kernel with a null `func`, after an error at the module, where
/// strides do not fit.
Kernel emitAttention(mlir::OpBuilder &builder, mlir::ModuleOp module,
                     llvm::StringRef name, const AttentionSpec &spec,
                     const CpuMachine &target);

/// New tokens for which attention to a cache is reading it and little else.
inline constexpr int64_t fewQueries = 8;
/// Keys that their kernel reads at a time. The rows of a ring are a multiple of
/// this where it is to be read so: then none of these wraps around.
inline constexpr int64_t keysTogether = 64;

/// Emits attention of up to `fewQueries` queries to a cache, whose keys and
/// then values are read once for all heads and queries that share them, as far
/// as there are any, at the speed of memory. Threads share (batch, kv head).
/// The bits of a query's result do not depend on the other queries.
Kernel emitFewQueries(mlir::OpBuilder &builder, mlir::ModuleOp module,
                      llvm::StringRef name, const AttentionSpec &spec,
                      const CpuMachine &target);

/// What the products of a kernel are made of: of pairs or tiles of bf16 where
/// the target is fast at them and queries fill a block, else of f32.
Terms termsOfAttention(const AttentionSpec &spec, const CpuMachine &target);

/// A buffer of a kernel of attention, of a null type where it has none such,
/// and where its pointer goes.
struct AttentionBuffer {
  mlir::MemRefType type;
  mlir::Value *pointer;
};

/// Begins a kernel (`beginKernel`) that is given those buffers that are there,
/// and fills in their pointers.
mlir::func::FuncOp beginAttention(KernelBuilder &kb, mlir::ModuleOp module,
                                  llvm::StringRef name,
                                  llvm::ArrayRef<AttentionBuffer> buffers,
                                  int64_t scratchBytes);

/// The error at the module that strides do not fit; a kernel with a null
/// `func`.
Kernel refuseAttention(mlir::ModuleOp module, llvm::StringRef name);

/// Emits the derivative. Buffers: q, k, v, out, lse, dout, [mask], [distance
/// bias], dq, dk, dv, [dmask], [ddistance]; gradients are overwritten.
///
/// Recomputes the weights of a block of queries and one of keys from q, k and
/// lse (Dao et al. 2022, appendix B.2), all queries for a block of keys before
/// the next. Threads share (batch, kv head), so that the sums for dq, dk and dv
/// have one owner and a fixed order; with `dmask` thread 0 does all, and with
/// `ddistance` they share kv heads.
Kernel emitAttentionBackward(mlir::OpBuilder &builder, mlir::ModuleOp module,
                             llvm::StringRef name, const AttentionSpec &spec,
                             const CpuMachine &target);

} // namespace tfm

#endif // TFM_TARGET_CPU_ATTENTION_H
