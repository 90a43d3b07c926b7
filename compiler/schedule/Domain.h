//===- Domain.h - how values sit in an iteration space ----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//
// A row kernel visits the elements of a domain: `rows` rows of `cols` columns,
// a row after another. A value takes part in it as one element per point, as
// one per row, or not directly, in which case it is read from memory through a
// view.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_SCHEDULE_DOMAIN_H
#define TFM_SCHEDULE_DOMAIN_H

#include "compiler/dialect/TfmDialect.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <optional>

namespace tfm {

/// Ops that cost nothing and are computed again wherever they are used: views,
/// indices, splats, comparisons of what is at hand, widening it, and weights of
/// 4 bits, which are part of what reads them.
bool isFree(mlir::Operation *op);
/// Whether it says how weights are stored: whatever reads its result, anywhere,
/// reads its operands, and makes numbers of them in registers.
bool isPartOfReader(mlir::Operation *op);
/// Ops that only rename the elements of their operand.
bool isViewOp(mlir::Operation *op);
/// The value whose elements, in the same order, are those of `value`.
mlir::Value throughReshapes(mlir::Value value);
/// A cast from bf16 or i8: reading that costs less than what it becomes.
bool isWidening(mlir::Operation *op);
/// A constant with one value throughout.
bool isSplat(mlir::Value value);

/// Whether `op` reads an operand at the point, or row, of its kernel, rather
/// than anywhere in memory.
bool readsAtPoint(mlir::Operation *op, unsigned operand);
/// The axis that a reduction takes together; none for other ops.
std::optional<int64_t> reducedAxis(mlir::Operation *op);
/// Whether `op` reduces within rows: its result is known when the row ends.
bool isRowReduction(mlir::Operation *op);
/// Whether `op` reduces over rows: its result is known when the kernel ends.
bool isColumnReduction(mlir::Operation *op);

/// In which pass over a row each op of a kernel's body is computed: what
/// depends on a row's sum is known only in the pass after it.
llvm::DenseMap<mlir::Operation *, int> passesOf(mlir::Block &body);

/// The free ops that have to be written to memory all the same, because some
/// reader reaches them through a view.
using OpSet = llvm::DenseSet<mlir::Operation *>;

/// The value that a chain of view ops looks at.
mlir::Value viewBase(mlir::Value value, const OpSet &materialised = {});

/// How a view op passes an access of its result on to its operand: at the same
/// point, as the row's scalar, or through memory.
enum class Passage { Same, RowScalar, Memory };
Passage passageThrough(mlir::Operation *op, Role role, const Domain &domain);

/// What computing a value at a point of a domain reads.
struct Leaf {
  /// The value that is not free.
  mlir::Value base;
  /// A view of it (or itself): what is loaded, at the domain's point.
  mlir::Value point;
  Role role;
  /// Whether only the element at the same point (or row) is read, so that the
  /// value need not go through memory.
  bool inRegister;
};

/// Calls `visit` for every value that is not free and that computing `value` in
/// `domain` reads.
void forEachLeaf(mlir::Value value, Role role, const Domain &domain,
                 const OpSet &materialised,
                 llvm::function_ref<void(const Leaf &)> visit);

} // namespace tfm

#endif // TFM_SCHEDULE_DOMAIN_H
