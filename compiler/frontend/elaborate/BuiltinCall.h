//===- BuiltinCall.h - a call of a function of the language -----*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_BUILTINCALL_H
#define TFM_FRONTEND_ELABORATE_BUILTINCALL_H

#include "compiler/frontend/elaborate/Builtins.h"

namespace tfm {

/// A call with its arguments bound to names. Each method is one function (or
/// one family) of the language: it checks the arguments, infers the shape,
/// emits the ops, and returns the result or poison.
class BuiltinCall : public BuiltinContext {
public:
  llvm::StringRef name;
  llvm::ArrayRef<llvm::StringRef> parameters;
  llvm::ArrayRef<CallArg *> bound;
  /// What `..` takes.
  llvm::ArrayRef<CallArg> rest;
  Range range;
  Scope &scope;

  SymbolicValue elementwise();
  SymbolicValue elementwiseNumber(const SymbolicValue &x);
  SymbolicValue minMax();
  SymbolicValue where();
  SymbolicValue cast();
  /// A number as another type.
  SymbolicValue castNumber(const SymbolicValue &x, llvm::StringRef type);
  SymbolicValue reduction();
  /// The square root, which at 0 has the derivative 0, so that a deviation of
  /// 0 has a derivative.
  Emitter::Handle rootOrZero(const SymbolicTensor &x);
  /// What an op of the same name does along an axis, without changing the
  /// shape.
  SymbolicValue alongAxis();
  SymbolicValue softmax();
  SymbolicValue normalize();
  SymbolicValue rearrange();
  SymbolicValue split();
  SymbolicValue concat();
  SymbolicValue gather();
  SymbolicValue positions();
  SymbolicValue oneHot();
  SymbolicValue dropout();
  SymbolicValue attention();
  SymbolicValue rope();
  SymbolicValue crossEntropy();
  SymbolicValue mse();
  SymbolicValue init();
  /// `range(count)`, named for the language's function.
  SymbolicValue rangeTensor();

  // What functions take, checked.
  const CallArg *arg(llvm::StringRef which) const;
  /// Whether it is there and not `none`.
  bool given(llvm::StringRef which) const;
  std::optional<SymbolicTensor> tensor(llvm::StringRef which);
  std::optional<SymbolicTensor> floats(llvm::StringRef which);
  std::optional<SymbolicTensor> ints(llvm::StringRef which);
  std::optional<double> number(llvm::StringRef which, double absent);
  std::optional<int64_t> integer(llvm::StringRef which, int64_t absent);
  std::optional<bool> flag(llvm::StringRef which);
  std::optional<int64_t> axis(const SymbolicTensor &x);
  /// `count`: how many numbers or classes there are.
  std::optional<Dim> count();
  /// Floats and the axis that is meant: of a reduction, for example.
  struct Along {
    SymbolicTensor x;
    int64_t axis;
  };
  std::optional<Along> along(llvm::StringRef which);
  Diagnostic &wrong(const CallArg &a, llvm::StringRef which,
                    llvm::StringRef expected);
  /// An argument that is out of its range; poison.
  SymbolicValue refuse(llvm::StringRef which, const llvm::Twine &message);
  /// The results, of `elems`, of the op of this name, which works on rows,
  /// along an axis, of which they have `size`.
  std::vector<SymbolicValue> alongRows(const Along &all,
                                       Emitter::Integers attributes,
                                       llvm::ArrayRef<Elem> elems,
                                       const Dim &size);

private:
  // Of attention, whose scores are [B, heads, T, S]; false after an error.
  /// Whether queries, keys and values go together.
  bool attentionFits(const SymbolicTensor &q, const SymbolicTensor &k,
                     const SymbolicTensor &v);
  /// Fills in scale, window and softcap; `width` is that of a head.
  bool attentionNumbers(Emitter::Attention &options, const Dim &width);
  /// Fills in what is added to the scores.
  bool attentionTensors(Emitter::Attention &options, const Dims &scores);
  /// Remembers attention that sees what is to come of the model's sequence.
  void noteLookingAhead(const Emitter::Attention &options, const Dims &scores);
  /// `mask` and `bias` as one.
  std::optional<SymbolicTensor> attentionMask(const Dims &scores);
  /// `distance_bias` as [heads, n], with a column for every distance.
  std::optional<SymbolicTensor> distanceBias(const Dims &scores, bool causal,
                                             std::optional<int64_t> window);
};

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_BUILTINCALL_H
