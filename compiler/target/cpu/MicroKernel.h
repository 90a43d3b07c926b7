//===- MicroKernel.h - tiles in registers, and packing ----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CPU_MICROKERNEL_H
#define TFM_TARGET_CPU_MICROKERNEL_H

#include "compiler/target/emit/KernelBuilder.h"

namespace tfm {

struct CpuMachine;

/// How the micro-kernel reads its rows of A.
enum class ALayout {
  /// a[k * stride + row]: a packed panel, or a transposed A where it lies.
  Columns,
  /// a[row * stride + k]: a row-major A where it lies.
  Rows
};

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
  /// The same again: VPMADDUBSW adds two
  /// products to an i16, VPMADDWD two of those. Of the factors one has no sign:
  /// magnitudes of B meet A with B's signs. A is within -127 and 127, which
  /// keeps two products within 16 bits. For AVX2.
  I8Pairs
};

inline bool areQuads(Terms terms) {
  return terms == Terms::I8Quads || terms == Terms::I8SignedQuads ||
         terms == Terms::I8Pairs;
}
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
/// A vector of quads as VPDPBUSD takes those of B.
mlir::Value offsetQuads(KernelBuilder &kb, mlir::Value quads);
/// What products with `offsetQuads` add to the sums of the row of `k` integers
/// at `a`: an i32.
mlir::Value offsetOfRow(KernelBuilder &kb, mlir::Value a, mlir::Value k);

/// What a micro-kernel is like.
struct MicroKernel {
  int64_t rows, vectors;
  ALayout layout;
  Terms terms = Terms::F32;
  /// It also writes the rows of B that it reads to a panel, as f32, for the
  /// tiles that follow.
  bool copiesB = false;
  /// It also prefetches the tile's rows in so many matrices that are read or
  /// written once it is finished, C or those of an epilogue, the tile's lines
  /// of each of `rowsAhead` rows at a time; and then what is to be packed next:
  /// so many cache lines at a time, none where that is 0.
  int64_t matricesAhead = 0, rowsAhead = 1;
  /// Where the first of those is A: so many lines of its rows instead.
  int64_t linesOfA = 0;
  int64_t linesAhead = 0;
  /// Whether what is in C is added to the tile's sums at the end, when it has
  /// been prefetched, instead of their beginning with it.
  bool addsLast = false;
};

/// Every how many slots a micro-kernel prefetches.
inline constexpr int64_t prefetchedEvery = 8;
inline constexpr int64_t cacheLine = 64;

/// The function that computes a tile of `rows` x `vectors * lanes`:
///
///   (a, a stride, b, b stride, c, c stride, k, accumulate[, panel]
///    [, first row, bytes to the next row, for each of the matrices ahead]
///    [, first line, bytes to the next of those at a time, and to the next
///    time])
///   c[row * c stride + column] = (accumulate ? c[...] : 0)
///       + sum over k of a[k, row] * b[k * b stride + column]
///
/// with k counted in slots. The accumulators stay in registers over the whole
/// of k, and the terms are added in the order of k whatever the tile's size (to
/// zero where `addsLast`), so that how a product is cut into tiles does not
/// change its bits.
mlir::func::FuncOp microKernel(KernelBuilder &kb, const MicroKernel &kernel);
mlir::func::FuncOp microKernel(KernelBuilder &kb, int64_t rows, int64_t vectors,
                               ALayout layout);

/// How elements become slots of a panel.
struct Packing {
  /// What they are in memory.
  enum class From { F32, BF16, I8 };
  From from = From::F32;
  /// They are rounded to bf16 on the way (to nearest even).
  bool rounds = false;
  /// A slot gets two neighbours along k, as bf16 (a last one beside a zero),
  /// else one, as f32.
  bool pairs = false;
  /// A slot gets four of i8 (the last ones beside zeros), those of B
  /// `offsetQuads`.
  bool quads = false;
  bool offset = false;

  /// From a memref's elements.
  static From fromType(mlir::Type element) {
    return element.isBF16()       ? From::BF16
           : element.isInteger(8) ? From::I8
                                  : From::F32;
  }
  /// In names of functions: `.bf16`, nothing for f32.
  const char *fromName() const {
    return from == From::BF16 ? ".bf16" : from == From::I8 ? ".i8" : "";
  }
  mlir::Type element(const KernelBuilder &kb) const {
    return from == From::BF16 ? kb.bf16Type
           : from == From::I8 ? kb.b.getI8Type()
                              : kb.f32Type;
  }
  /// Elements along k in a slot.
  int64_t perSlot() const { return quads ? 4 : pairs ? 2 : 1; }
};

/// The function that packs `k` rows into `panels` panels side by side, of
/// `columns` <= vectors * lanes contiguous elements each, and zeros up to
/// `vectors * lanes`:
///
///   (source, source stride, k, columns, panel, panel stride, panels,
///    panel length)
///   panel[p * panel length + i * panel stride + j]
///       = source[i * source stride + p * columns + j]
///
/// (with pairs, of rows 2 i and 2 i + 1). Strides and offsets in the source
/// count its elements, in panels slots. A row is read to its end before the
/// next, so that the hardware's prefetcher sees it. Whole vectors are written,
/// in the order of k, so a panel may be narrower than them and must be followed
/// by `vectors * lanes` slots of room.
mlir::func::FuncOp packRows(KernelBuilder &kb, int64_t vectors,
                            Packing packing = {});

/// The function that packs the transpose of `rows` <= lanes rows of `k`
/// elements:
///
///   (source, source stride, k, rows, panel, panel stride)
///   panel[k * panel stride + row] = source[row * source stride + k]
///
/// (with pairs, elements 2 k and 2 k + 1, with quads 4 k to 4 k + 3). Lanes
/// past `rows` repeat the last row. It writes whole vectors in the order of k,
/// and a multiple of `lanes` of them: see `packedLength`.
mlir::func::FuncOp packTransposed(KernelBuilder &kb, Packing packing = {});

/// Terms beyond which a sum of products of two integers of 8 bits, and what
/// kernels take off it at the end, could leave 32 bits.
inline constexpr int64_t mostQuadTerms = int64_t{1} << 15;

/// Slots to reserve for a panel of `k` times `stride` of them that a pack
/// function writes with `width` slots at a time.
int64_t packedLength(int64_t k, int64_t stride, int64_t width, int64_t lanes);

/// Transposes `lanes` vectors of `lanes` elements with shuffles.
llvm::SmallVector<mlir::Value> transpose(KernelBuilder &kb,
                                         llvm::ArrayRef<mlir::Value> rows);

} // namespace tfm

#endif // TFM_TARGET_CPU_MICROKERNEL_H
