//===- Frame.h - the values of one running block ----------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_ORACLE_FRAME_H
#define TFM_ORACLE_FRAME_H

#include "compiler/dialect/TfmDialect.h"
#include "compiler/oracle/Interpreter.h"

#include "llvm/ADT/DenseMap.h"

#include <cmath>
#include <limits>

namespace tfm::oracle {

/// The larger number, or the smaller; NaN if one of them is.
inline double maximum(double a, double b) {
  return std::isnan(a) || a >= b ? a : b;
}
inline double minimum(double a, double b) {
  return std::isnan(a) || a <= b ? a : b;
}

/// The logarithm of the sum of e to some numbers, in two parts, whose sum has
/// none of the digits of the second where the first is large.
struct LogSum {
  explicit LogSum(llvm::ArrayRef<double> numbers) {
    for (double x : numbers)
      largest = maximum(largest, x);
    for (double x : numbers)
      rest += std::exp(x - largest);
    rest = std::log(rest);
  }
  /// Whether e to each number is 0.
  bool ofNothing() const {
    return largest == -std::numeric_limits<double>::infinity();
  }
  double whole() const { return ofNothing() ? largest : largest + rest; }
  /// x minus the logarithm; NaN where that is one of nothing.
  double below(double x) const { return x - largest - rest; }

private:
  double largest = -std::numeric_limits<double>::infinity(), rest = 0.0;
};

/// The values of one running block.
struct Frame {
  explicit Frame(const Environment &environment) : environment(environment) {}

  const Environment &environment;
  llvm::DenseMap<mlir::Value, Tensor> values;

  const Tensor &get(mlir::Value value) const {
    return values.find(value)->second;
  }
  void set(mlir::Value value, Tensor tensor) {
    values[value] = std::move(tensor);
  }
  /// A tensor of zeros with the shape of `value`.
  static Tensor like(mlir::Value value) {
    return Tensor(tensorType(value).getShape());
  }
};

/// How an op is evaluated: reads its operands and sets its results.
using Rule = void (*)(Frame &, mlir::Operation *);
using Rules = llvm::StringMap<Rule>;

/// Registers `function` as the rule of `Op`.
template <typename Op, void (*function)(Frame &, Op)>
void addRule(Rules &rules) {
  rules[Op::getOperationName()] = [](Frame &frame, mlir::Operation *op) {
    function(frame, llvm::cast<Op>(op));
  };
}

void addShapeRules(Rules &rules);
void addRowRules(Rules &rules);
void addAttentionRules(Rules &rules);

/// Whether dropout at `site` keeps element (`row`, `column`) of a tensor of
/// `shape`, whose last axis has `column`.
bool keeps(const Environment &environment, double rate, int64_t site,
           int64_t layer, llvm::ArrayRef<int64_t> shape, int64_t row,
           int64_t column);

} // namespace tfm::oracle

#endif // TFM_ORACLE_FRAME_H
