//===- KeptValues.h - what passes over rows keep for later ones -*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CPU_KEPTVALUES_H
#define TFM_TARGET_CPU_KEPTVALUES_H

#include "compiler/dialect/TfmDialect.h"
#include "compiler/schedule/SchedDialect.h"
#include "compiler/target/emit/KernelBuilder.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include <map>

namespace tfm {

/// What takes long to compute and is needed in more than one pass over a row,
/// or must be the same to the bit in all of them: the first keeps it in scratch
/// for the others, a row at a time, or a block of them.
class KeptValues {
public:
  KeptValues() = default;
  /// Room for `elements` of each value; 0: none is kept.
  KeptValues(sched::LaunchOp launch, int64_t elements);

  int64_t bytes() const {
    return static_cast<int64_t>(firstPass.size()) * elements * 4;
  }

  /// Calls `what(value, where its first element is in scratch)` for each that
  /// `pass` is the first to compute, or for each that an earlier one kept.
  void forEach(KernelBuilder &k, mlir::Value scratch, int pass, bool isFirst,
               llvm::function_ref<void(mlir::Value, mlir::Value)> what) const {
    int64_t at = 0;
    for (auto [value, first] : firstPass) {
      if (isFirst ? first == pass : first < pass)
        what(value, k.at(scratch, at));
      at += elements;
    }
  }

private:
  void visit(mlir::Value value, int pass);

  int64_t elements = 0;
  llvm::MapVector<mlir::Value, int> firstPass;
  llvm::DenseSet<mlir::Value> again;
  llvm::DenseSet<std::pair<mlir::Value, int>> seen;
};

} // namespace tfm

#endif // TFM_TARGET_CPU_KEPTVALUES_H
