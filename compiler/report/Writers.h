//===- Writers.h - reports as text, JSON and CSV --------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_REPORT_WRITERS_H
#define TFM_REPORT_WRITERS_H

#include "compiler/report/ModelReport.h"

#include "llvm/Support/raw_ostream.h"

namespace tfm {

/// What of a report to show.
struct ReportView {
  bool tensors = false;
  bool formulas = false;
  bool shapes = false;
  bool flops = false;
  bool memory = false;
  /// Levels of the tree below the model; all of them without it.
  std::optional<int> depth;
};

/// A tree with totals, and the tables that the view asks for.
void writeText(const ModelReport &report, const ReportView &view,
               llvm::raw_ostream &os);

/// Everything, in the form that docs/cli.md fixes; of the view only `depth`
/// matters.
void writeJson(const ModelReport &report, const ReportView &view,
               llvm::raw_ostream &os);

/// One table with a header row: the tensors, or the shapes, or else the
/// modules.
void writeCsv(const ModelReport &report, const ReportView &view,
              llvm::raw_ostream &os);

/// One page that needs nothing else: tree, sizes, formulas, memory, FLOPs, and
/// every constant as a picture. Shows what the report has.
void writeHtml(const ModelReport &report, llvm::raw_ostream &os);

/// A page with the roofline of a model's kernels and what limits each of them.
/// `run` is what `./m bench --json` printed; an error where it is not.
llvm::Error writeBench(llvm::StringRef run, llvm::raw_ostream &os);

/// The last part of a member's path; with the numbers of its layers where they
/// are not all alike.
std::string memberName(const ModelReport &report, const ModuleReport &member);
/// A path for people: `h.[5, 11].mlp` for `h.6*+5.mlp`.
std::string pathText(const ModelReport &report, llvm::StringRef path);
/// The name of a file that the model's text uses; empty for its own.
llvm::StringRef otherFile(const ModelReport &report, llvm::StringRef file);
/// `124439808`.
std::string digitsOf(FlopCount number);
/// `124,439,808`.
std::string withThousands(FlopCount number);
/// `474.7 MiB`; exact bytes below 1 KiB.
std::string withByteUnit(int64_t bytes);
/// `1.23 TFLOP`; exact below 1000.
std::string withFlopUnit(FlopCount flops);
/// `0.1`, `768`, `true`, `"gelu"`: a hyperparameter's value as in a model file.
std::string valueText(const Hyperparameter &parameter);
/// The same as JSON: words stand in quotes.
std::string valueJson(const Hyperparameter &parameter);
/// `[2, 3]` of numbers or words.
std::string shapeText(llvm::ArrayRef<int64_t> shape);
std::string shapeText(llvm::ArrayRef<std::string> dims);
/// `0.1 times the learning rate`.
std::string rateText(const TensorReport &tensor);

/// Columns padded to one width each: words to the left, numbers to the right.
class TextTable {
public:
  /// `rightAligned` says which columns hold numbers.
  explicit TextTable(std::vector<bool> rightAligned)
      : rightAligned(std::move(rightAligned)) {}
  void add(std::vector<std::string> row) { rows.push_back(std::move(row)); }
  /// Writes the rows, each indented, two spaces between columns.
  void write(llvm::raw_ostream &os, unsigned indent = 2) const;

private:
  std::vector<bool> rightAligned;
  std::vector<std::vector<std::string>> rows;
};

} // namespace tfm

#endif // TFM_REPORT_WRITERS_H
