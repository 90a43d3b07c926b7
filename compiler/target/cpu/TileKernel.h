//===- TileKernel.h - products on AMX tiles ---------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Intel's AMX has eight registers of 16 rows of 64 bytes, and instructions that
// multiply 16 rows of 32 bf16, or of 64 integers, with 16 columns of as many
// (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1,
// chapter 18). They are named by their numbers, in the shape that
// `tileConfiguration` gives all of them once for each call of a program.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CPU_TILEKERNEL_H
#define TFM_TARGET_CPU_TILEKERNEL_H

#include "compiler/target/cpu/Packing.h"
#include "compiler/target/cpu/Terms.h"

#include <array>

namespace tfm {

/// Rows of a tile, and 32-bit slots of one of its rows.
inline constexpr int64_t tileSide = 16;
/// Elements of bf16 along k that a step of a product takes.
inline constexpr int64_t tileDepth = 2 * tileSide;

/// What LDTILECFG reads: eight tiles, each of them whole.
std::array<uint8_t, 64> tileConfiguration();

/// The instructions. Tiles are numbers, constants of the code; strides are in
/// slots.
class Tiles {
public:
  explicit Tiles(KernelBuilder &kb) : kb(kb) {}

  void zero(int64_t tile);
  void load(int64_t tile, mlir::Value ptr, mlir::Value stride);
  /// The same of what is not read again soon: it leaves the lines of the
  /// first-level cache to others.
  void stream(int64_t tile, mlir::Value ptr, mlir::Value stride);
  void store(int64_t tile, mlir::Value ptr, mlir::Value stride);
  /// sum += a b. Of integers (`Terms::I8Quads`) those of `b` have no sign.
  void multiplyAdd(Terms terms, int64_t sum, int64_t a, int64_t b);

private:
  mlir::Value number(int64_t tile);
  void call(llvm::StringRef name, mlir::ValueRange operands);
  KernelBuilder &kb;
};

/// What a product on tiles is like.
struct TileShape {
  /// Tiles below each other, of A and of the sums, and beside each other, of B
  /// and of the sums; one or two each.
  int64_t rowTiles, columnTiles;
  /// What a slot is: two bf16, or four integers (`Terms::I8Quads`), whose sums
  /// are integers, too.
  Terms terms = Terms::Bf16Tiles;
  /// Which operand is not read again soon, and leaves the first-level cache to
  /// the other one.
  enum class Passing { Neither, A, B } passing = Passing::Neither;
};

/// Where the operands of a product on tiles are; strides are in slots.
struct TileOperands {
  /// From one of the 16 `rowTiles` rows of A to the next, and from a step's
  /// slots to the next one's.
  mlir::Value a, aStride, aStep;
  /// From one row of B, of slots of 16 columns, to the next, from a step's rows
  /// to the next one's, and from 16 columns to the others.
  mlir::Value b, bStride, bStep, bColumns;
  /// Sums; whether they begin with what is there.
  mlir::Value c, cStride, accumulate;
  /// Of 16 slots.
  mlir::Value steps;
};

/// Computes 16 `rowTiles` x 16 `columnTiles` sums, as `microKernel`. What
/// `beside` emits for a step, given its number and where its B begins, has the
/// time of its multiplications, which keep none of the vectors' units busy.
void multiplyTiles(
    KernelBuilder &kb, const TileShape &shape, const TileOperands &operands,
    llvm::function_ref<void(mlir::Value step, mlir::Value b)> beside = nullptr);

/// The function that does it with bf16:
///
///   (a, b, c, c stride, steps, accumulate)
///
/// A step of B is 16 slots of 16 `columnTiles` columns (the panel of
/// `Terms::Bf16Pairs`).
mlir::func::FuncOp tileKernel(KernelBuilder &kb, int64_t rowTiles,
                              int64_t columnTiles);

/// The function that packs `rows` <= 16 rows of A, of `k` elements each, of
/// `stride` elements from one to the next, as slots of two bf16:
///
///   (source, stride, k, rows, panel, step length)
///   panel[s * step length + row * 16 + i]
///       = source[row * stride + 32 s + 2 i], and the element behind it
///
/// Behind k it writes zeros, up to the end of the last step; rows behind `rows`
/// repeat the last one.
mlir::func::FuncOp packTileRows(KernelBuilder &kb, Packing packing);

/// The same of any number of rows that lie in columns, of `stride` elements
/// from one k to the next: the tiles of a step one after the other, so that
/// what its columns have in a cache line is used while it is there.
///
///   panel[s * step length + row * 16 + i]
///       = source[(32 s + 2 i) * stride + row], and the element of the next k
///
/// Rows behind `rows`, up to whole tiles, are zeros.
mlir::func::FuncOp packTileColumns(KernelBuilder &kb, Packing packing);

/// The function that packs `panels` of 32 columns of a B that lies in rows, of
/// `stride` elements from one k to the next, as slots of two bf16, 16 columns
/// of which are `half` from the others:
///
///   (source, stride, k, columns, panel, half, panels, panel length)
///   panel[p * panel length + h * half + (i / 2) * 16 + column]
///       = source[i * stride + 32 p + 16 h + column], and the element of the
///         next k
///
/// Where there are less than 32 `columns`, of one panel, the others are zeros.
mlir::func::FuncOp packTilePairs(KernelBuilder &kb, Packing packing);

} // namespace tfm

#endif // TFM_TARGET_CPU_TILEKERNEL_H
