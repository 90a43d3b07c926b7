//===- Sweep.h - how a model grows with its hyperparameters ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_REPORT_SWEEP_H
#define TFM_REPORT_SWEEP_H

#include "compiler/report/Writers.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/raw_ostream.h"

namespace tfm {

/// `layers=2,4,8`.
struct SweepAxis {
  std::string name;
  std::vector<std::string> values;
};

/// One point of the grid: a value for each axis, in their order.
struct SweepPoint {
  std::vector<std::string> values;
  /// Nothing where the model cannot be built with these values; `problem` says
  /// why.
  std::optional<ModelReport> report;
  std::string problem;
};

/// Reads `name=v1,v2,...`.
llvm::Expected<SweepAxis> parseSweepAxis(llvm::StringRef text);

/// Every point of the grid, the last axis fastest.
std::vector<SweepPoint> gridOf(llvm::ArrayRef<SweepAxis> axes);

/// The values of a point by their names, as `-D` gives them.
std::vector<std::pair<std::string, std::string>>
definesOf(llvm::ArrayRef<SweepAxis> axes, const SweepPoint &point);

/// A point that is not possible, and why: `layers = x: ...`.
std::string pointText(llvm::ArrayRef<SweepAxis> axes, const SweepPoint &point);

/// The grid as a table, and which hyperparameter moves the total of `base`
/// most. Of the view, `depth` adds the parameters of the modules down to this
/// level (of all layers together), and `flops` the columns of FLOPs, which JSON
/// and CSV always have.
void writeSweepText(const ModelReport &base, llvm::ArrayRef<SweepAxis> axes,
                    llvm::ArrayRef<SweepPoint> points, const ReportView &view,
                    llvm::raw_ostream &os);
void writeSweepJson(const ModelReport &base, llvm::ArrayRef<SweepAxis> axes,
                    llvm::ArrayRef<SweepPoint> points, const ReportView &view,
                    llvm::raw_ostream &os);
void writeSweepCsv(llvm::ArrayRef<SweepAxis> axes,
                   llvm::ArrayRef<SweepPoint> points, const ReportView &view,
                   llvm::raw_ostream &os);

} // namespace tfm

#endif // TFM_REPORT_SWEEP_H
