//===- Terms.h - what sums of products are made of --------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CPU_TERMS_H
#define TFM_TARGET_CPU_TERMS_H

#include "compiler/target/emit/KernelBuilder.h"

namespace tfm {

struct CpuMachine;

/// What the terms of a sum are made of. Panels, and operands that are read as
/// if they were, are made of slots of 32 bits.
enum class Terms {
  /// A slot is an f32, of A and of B.
  F32,
  /// The same, but B is bf16 where it lies.
  F32TimesBf16,
  /// A slot is two bf16 of neighbouring k, the first in the low half, and a
  /// step adds both products to an f32: VDPBF16PS or BFDOT, which take
  /// denormals for zeros. For AVX512-BF16 and AArch64's BF16.
  Bf16Pairs,
  /// Slots are the same, and sums those of tiles (TileKernel.h). For AMX.
  Bf16Tiles,
  /// A slot is four integers of neighbouring k, the first in the lowest byte,
  /// and a step adds all four products to an i32: VPDPBUSD, which takes those
  /// of B without a sign. So 128 is added to each of them (`offsetQuads`), and
  /// what that adds to a sum, 128 times the sum of its row of A, has to be
  /// taken off. For AVX512-VNNI and AVX-VNNI.
  I8Quads,
  /// Slots are the same, but nothing has to be taken off: SDOT takes both with
  /// their signs. For AArch64's DotProd.
  I8SignedQuads,
  /// The same again: VPMADDUBSW adds two products to an i16, VPMADDWD two of
  /// those. Of the factors one has no sign: magnitudes of B meet A with B's
  /// signs. A is within -127 and 127, which keeps two products within 16 bits.
  /// For AVX2.
  I8Pairs
};

inline bool areQuads(Terms terms) {
  return terms == Terms::I8Quads || terms == Terms::I8SignedQuads ||
         terms == Terms::I8Pairs;
}
/// Elements along k in a slot.
int64_t elementsPerSlot(Terms terms);
/// Those of products of two integers of 8 bits, on a machine that multiplies
/// them (`CpuMachine::multipliesIntegers`).
Terms integerTerms(const CpuMachine &target);

/// sum + a b in each lane, of slots that are f32, pairs or quads; integers
/// travel in vectors of f32.
mlir::Value multiplyAdd(KernelBuilder &kb, Terms terms, mlir::Value a,
                        mlir::Value b, mlir::Value sum);
/// The same of a B whose integers are between 0 and 15: 128 is not added to
/// these, and nothing has to be taken off. Sums, which begin as
/// `noFourBitSums`, are integers of 32 bits, or by pairs (`Terms::I8Pairs`) of
/// 16, which have room for eight such quads; `fourBitSums` makes those integers
/// of 32 bits.
mlir::Value noFourBitSums(KernelBuilder &kb, Terms terms);
mlir::Value multiplyAddFourBits(KernelBuilder &kb, Terms terms, mlir::Value a,
                                mlir::Value b, mlir::Value sum);
mlir::Value fourBitSums(KernelBuilder &kb, Terms terms, mlir::Value sum);
/// The sums in each lane over some vectors of `a` and as many of `b`.
mlir::Value multiplyFourBits(KernelBuilder &kb, Terms terms,
                             llvm::ArrayRef<mlir::Value> a,
                             llvm::ArrayRef<mlir::Value> b);
/// x + y, sums of two parts of the terms in the type in which sums travel.
mlir::Value addSums(KernelBuilder &kb, Terms terms, mlir::Value x,
                    mlir::Value y);
/// Slots of A, of which each lane is to be multiplied by itself, in the types
/// of which LLVM finds that the instruction can do so: SDOT takes lanes of
/// integers, BFDOT those of what has been bf16 in a register, which a load is
/// only where it stays one.
mlir::Value lanesToTake(KernelBuilder &kb, Terms terms, mlir::Value slots);
/// A vector of quads as VPDPBUSD takes those of B.
mlir::Value offsetQuads(KernelBuilder &kb, mlir::Value quads);
/// What products with `offsetQuads` add to the sums of the row of `k` integers
/// at `a`: an i32.
mlir::Value offsetOfRow(KernelBuilder &kb, mlir::Value a, mlir::Value k);

/// Terms beyond which a sum of products of two integers of 8 bits, and what
/// kernels take off it at the end, could leave 32 bits.
inline constexpr int64_t mostQuadTerms = int64_t{1} << 15;

} // namespace tfm

#endif // TFM_TARGET_CPU_TERMS_H
