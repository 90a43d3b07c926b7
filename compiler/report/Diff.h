//===- Diff.h - what differs between two models ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_REPORT_DIFF_H
#define TFM_REPORT_DIFF_H

#include "compiler/report/ModelReport.h"

#include "llvm/Support/raw_ostream.h"

namespace tfm {

/// One thing that two reports say differently; empty where one has no such
/// thing.
struct Difference {
  /// `hyperparameter`, `module`, `tensor`, `value`, `total`.
  std::string kind;
  std::string name;
  /// For people, and as JSON: numbers are numbers there.
  std::string before, after;
  std::string beforeJson, afterJson;
  /// Change of the number of parameters, FLOPs or bytes, where there is one.
  std::optional<FlopCount> change;
};

/// Hyperparameters, totals, modules, tensors, named values, FLOPs and memory
/// that differ. Layers of a repeat are told once.
std::vector<Difference> diffReports(const ModelReport &a, const ModelReport &b);

void writeDiffText(llvm::ArrayRef<Difference> differences,
                   llvm::raw_ostream &os);
void writeDiffJson(const ModelReport &a, const ModelReport &b,
                   llvm::ArrayRef<Difference> differences,
                   llvm::raw_ostream &os);

} // namespace tfm

#endif // TFM_REPORT_DIFF_H
