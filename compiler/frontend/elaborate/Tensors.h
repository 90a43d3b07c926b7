//===- Tensors.h - ops on tensors with their symbolic shapes ----*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_TENSORS_H
#define TFM_FRONTEND_ELABORATE_TENSORS_H

#include "compiler/frontend/elaborate/Budget.h"
#include "compiler/frontend/elaborate/CallStack.h"
#include "compiler/frontend/elaborate/Dimensions.h"
#include "compiler/frontend/elaborate/Emitter.h"

namespace tfm {

class CallerDims;
class Consts;

/// Where a list stands for one tensor.
inline constexpr llvm::StringRef severalValuesHelp =
    "`a, b = split(x, 2)` gives each of several values its name, `parts[0]` "
    "takes one";

/// Makes tensors of values, and emits the ops that bring them to a shape: what
/// operators and functions of the language have in common.
class Tensors {
public:
  Tensors(const SourceManager &sources, Emitter &emitter, Budget &budget,
          Reporter &reporter, const CallStack &callStack,
          Dimensions &dimensions, const CallerDims &callerDims, Consts &consts)
      : sources(sources), emitter(emitter), budget(budget), reporter(reporter),
        callStack(callStack), dimensions(dimensions), callerDims(callerDims),
        consts(consts) {}

  /// The ops that are made next stand at `range`.
  void locate(Range range);
  /// Reads a value as a tensor, or reports that it is none.
  std::optional<SymbolicTensor> toTensor(const SymbolicValue &value,
                                         Range range, llvm::StringRef what);
  /// The same where numbers are computed with: of a constant that has truth
  /// values these are 1 and 0.
  std::optional<SymbolicTensor> toNumbers(const SymbolicValue &value,
                                          Range range, llvm::StringRef what);
  /// Makes a scalar or per-layer number a tensor of the other's element type;
  /// `otherText` is how the source has the other.
  std::optional<SymbolicTensor> operandTensor(const SymbolicValue &value,
                                              const SymbolicTensor *other,
                                              Range range, llvm::StringRef verb,
                                              llvm::StringRef otherText = "");
  SymbolicTensor splat(double value, Elem elem, const Dims &dims);

  /// Whether an axis may be repeated: it is 1, and not just a batch of 1.
  bool isOne(const Dim &dim) const;
  /// The elements of a constant that is the same in all layers; of one that is
  /// only checked zeros where they were not computed.
  std::optional<std::vector<double>>
  elements(const SymbolicValue &value, Range range, llvm::StringRef what);
  /// The shape that both broadcast to, aligned at the last axis as in NumPy.
  std::optional<Dims> broadcastDims(const Dims &a, const Dims &b) const;
  /// Where two shapes do not broadcast: says how the one with fewer axes, all
  /// of them the other's, gets those that it lacks. Nothing where there are
  /// several ways, or none.
  void helpWithAxes(Diagnostic &d, const Dims &a, llvm::StringRef aText,
                    const Dims &b, llvm::StringRef bText) const;
  /// Which axis an argument means, by its number or by the name of a dimension
  /// that occurs once; the last one without an argument. Reports E0210.
  std::optional<int64_t> toAxis(const SymbolicValue *value,
                                const ast::Expr *expr,
                                const SymbolicTensor &tensor, Range range);

  SymbolicTensor broadcastTo(const SymbolicTensor &tensor, const Dims &dims);
  SymbolicTensor transposeAxes(const SymbolicTensor &tensor,
                               llvm::ArrayRef<int64_t> order);
  SymbolicTensor reshapeTo(const SymbolicTensor &tensor, const Dims &dims);
  /// `op` is the mnemonic; both have the same shape.
  SymbolicTensor binary(llvm::StringRef op, const SymbolicTensor &a,
                        const SymbolicTensor &b);
  /// The axis stays, with one element.
  SymbolicTensor reduceSum(const SymbolicTensor &x, int64_t axis);

private:
  const SourceManager &sources;
  Emitter &emitter;
  Budget &budget;
  Reporter &reporter;
  const CallStack &callStack;
  Dimensions &dimensions;
  const CallerDims &callerDims;
  Consts &consts;
};

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_TENSORS_H
