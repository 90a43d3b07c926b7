//===- Interpreter.h - the meaning of the tfm dialect, in f64 ---*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Evaluates functions of the tfm dialect in double precision whatever their
// types say, each op as its description in TfmOps.td reads; results of bf16
// alone are rounded, as what is stored in it is. It is what kernels
// and gradients are tested against, so it is written to be checked by eye.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_ORACLE_INTERPRETER_H
#define TFM_ORACLE_INTERPRETER_H

#include "compiler/oracle/Tensor.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"

#include <map>

namespace tfm::oracle {

/// What a function reads besides its arguments.
struct Environment {
  /// Parameters by symbol name, all layers stacked.
  llvm::StringMap<Tensor> parameters;

  /// The seed of random numbers, and their counter: update index * accumulate +
  /// micro-step.
  uint32_t seedLow = 0, seedHigh = 0, counter = 0;

  /// Masks to use in place of random ones, by site: 1 keeps, 0 drops. Of the
  /// shape of what is dropped, or with a leading axis for the layer.
  std::map<int64_t, Tensor> masks;
};

/// The results of `function` for `inputs`, or an error that says which op or
/// input does not fit.
llvm::Expected<std::vector<Tensor>> evaluate(mlir::func::FuncOp function,
                                             llvm::ArrayRef<Tensor> inputs,
                                             const Environment &environment);

} // namespace tfm::oracle

#endif // TFM_ORACLE_INTERPRETER_H
