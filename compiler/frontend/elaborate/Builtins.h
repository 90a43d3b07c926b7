//===- Builtins.h - a call of a function of the language --------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_BUILTINS_H
#define TFM_FRONTEND_ELABORATE_BUILTINS_H

#include "compiler/frontend/elaborate/Elaborator.h"

namespace tfm {

/// A call with its arguments bound to names. Each method is one function (or
/// one family) of the language: it checks the arguments, infers the shape,
/// emits the ops, and returns the result or poison.
class BuiltinCall {
public:
  Elaborator &e;
  llvm::StringRef name;
  llvm::ArrayRef<llvm::StringRef> names;
  llvm::ArrayRef<CallArg *> bound;
  /// What `..` takes.
  llvm::ArrayRef<CallArg> rest;
  Range range;
  Env &env;

  Value elementwise();
  Value elementwiseNumber(const Value &x);
  Value minMax();
  Value where();
  Value cast();
  /// A number as another type.
  Value castNumber(const Value &x, llvm::StringRef type);
  Value reduction();
  /// What an op of the same name does along an axis, without changing the
  /// shape.
  Value alongAxis();
  Value softmax();
  Value normalize();
  Value rearrange();
  Value split();
  Value concat();
  Value gather();
  Value positions();
  Value oneHot();
  Value dropout();
  Value attention();
  Value rope();
  Value crossEntropy();
  Value mse();
  Value init();
  /// `range(count)`, named for the language's function.
  Value rangeTensor();

  // What functions take, checked.
  const CallArg *arg(llvm::StringRef which) const;
  /// Whether it is there and not `none`.
  bool given(llvm::StringRef which) const;
  std::optional<Tensor> tensor(llvm::StringRef which);
  std::optional<Tensor> floats(llvm::StringRef which);
  std::optional<Tensor> ints(llvm::StringRef which);
  std::optional<double> number(llvm::StringRef which, double absent);
  std::optional<int64_t> integer(llvm::StringRef which, int64_t absent);
  std::optional<bool> flag(llvm::StringRef which);
  std::optional<int64_t> axis(const Tensor &x);
  /// `count`: how many numbers or classes there are.
  std::optional<Dim> count();
  /// Floats and the axis that is meant: of a reduction, for example.
  struct Along {
    Tensor x;
    int64_t axis;
  };
  std::optional<Along> along(llvm::StringRef which);
  void wrong(const CallArg &a, llvm::StringRef which, llvm::StringRef expected);
  /// An argument that is out of its range; poison.
  Value refuse(llvm::StringRef which, const llvm::Twine &message);
  /// The results, of `elems`, of the op of this name, which works on rows,
  /// along an axis, of which they have `size`.
  std::vector<Value> alongRows(const Along &all, Emitter::Integers attributes,
                               llvm::ArrayRef<Elem> elems, const Dim &size);

private:
  std::optional<Tensor> attentionMask(const Dims &scores);
};

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_BUILTINS_H
