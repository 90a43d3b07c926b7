//===- GroupedRows.h - products with weights of 4 bits ----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rows of weights in groups, each with a scale and a minimum (`tfm.dequantise`
// says how their integers lie in bytes). The numbers that they stand for are
// made in registers, where they are multiplied, or in packed panels.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CPU_GROUPEDROWS_H
#define TFM_TARGET_CPU_GROUPEDROWS_H

#include "compiler/target/cpu/StreamedRows.h"
#include "compiler/target/emit/GroupedTerms.h"

namespace tfm {

/// Groups of a row of so many terms.
int64_t groupsOf(int64_t terms);

/// Rows of B: bytes, and scales and minima, with strides in bytes and in bf16.
struct GroupedRows {
  mlir::Value bytes, scale, minimum;
  int64_t byteStride, tableStride;
};

/// Rows of A as integers of 8 bits (where they are multiplied), copied in the
/// order in which the halves of bytes of B come, and for each the sums of its
/// groups: with those minima are multiplied.
struct GroupedIntegers {
  mlir::Value packed, sums;

  /// Bytes of a row of `k` terms, filled up with zeros to whole vectors, and
  /// its sums.
  static int64_t rowBytes(int64_t k);
  static int64_t rowSums(int64_t k);
};

/// Packs the row of `k` integers at `a`.
void packIntegers(KernelBuilder &kb, const CpuMachine &target, mlir::Value a,
                  int64_t k, const GroupedIntegers &to);

/// The dot products of `rows` rows of `k` terms of A, f32, with the first
/// `count` rows of B, at most `lanes` of them, in lanes as `dotProducts` leaves
/// them in `sums`. Their terms are added in the same order whatever their
/// number.
void groupedProducts(KernelBuilder &kb, const CpuMachine &target, int64_t rows,
                     mlir::Value a, int64_t aStride, const GroupedRows &b,
                     mlir::Value count, int64_t k, mlir::Value sums);
/// The same of integers.
void groupedProducts(KernelBuilder &kb, const CpuMachine &target, int64_t rows,
                     const GroupedIntegers &a, const GroupedRows &b,
                     mlir::Value count, int64_t k, mlir::Value sums);

/// The function that packs the transpose of `rows` <= lanes rows of B, from the
/// beginning of a group on:
///
///   (bytes, byte stride, scale, minimum, table stride, k, rows, panel,
///    panel stride)
///   panel[i * panel stride + row] = term i of the row, below k
///
/// It writes as `packTransposed` does.
mlir::func::FuncOp packGroups(KernelBuilder &kb);

/// The function that packs the transpose of `rows` <= lanes rows of B as quads
/// of their integers, without scales and minima:
///
///   (bytes, byte stride, groups, rows, panel, panel stride)
///   panel[(8 * group + i) * panel stride + row]
///       = terms 4 i to 4 i + 3 of the group of the row
///
/// Lanes past `rows` repeat the last row. Of groups it writes as many as
/// `packedGroups` says.
mlir::func::FuncOp packGroupQuads(KernelBuilder &kb);
int64_t packedGroups(int64_t groups, int64_t lanes);

} // namespace tfm

#endif // TFM_TARGET_CPU_GROUPEDROWS_H
