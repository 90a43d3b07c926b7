//===- Gradients.h - derivatives against finite differences -----*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TESTS_UNIT_ORACLE_GRADIENTS_H
#define TFM_TESTS_UNIT_ORACLE_GRADIENTS_H

#include "compiler/oracle/Interpreter.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <memory>
#include <random>
#include <string>

namespace tfm::oracle {

/// A parsed module with a context of its own.
struct TestModule {
  explicit TestModule(llvm::StringRef text);
  mlir::func::FuncOp function(llvm::StringRef name) const;

  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

/// Adds to the module of `function` a function `@<name>` of its arguments and
/// one cotangent per float result, which returns the cotangents of the float
/// arguments.
mlir::func::FuncOp addVJP(mlir::func::FuncOp function, llvm::StringRef name);

/// Random inputs for `function`: floats in (-1.1, 1.1) no two of which are
/// nearer than 0.004 in one tensor of up to 200 elements, none nearer to 0;
/// booleans; integers below the argument's `test.limit`. An argument with
/// `test.positive` gets positive floats.
std::vector<Tensor> randomInputs(mlir::func::FuncOp function,
                                 std::mt19937 &random);

/// Expects that the derivative of `@f` in `text` agrees with central
/// differences in f64 to 1e-6.
void expectGradients(llvm::StringRef text, unsigned seed = 0,
                     const Environment &environment = {});

/// Axis sizes worth trying: 1, odd, prime and even ones.
std::vector<int64_t> randomShape(std::mt19937 &random, int64_t rank);
/// `3x5xf32` for {3, 5}, to stand in `tensor<...>`.
std::string spell(llvm::ArrayRef<int64_t> shape, llvm::StringRef element);

/// Evaluates, or reports why not and returns nothing.
std::vector<Tensor> evaluateOrFail(mlir::func::FuncOp function,
                                   llvm::ArrayRef<Tensor> inputs,
                                   const Environment &environment = {});

/// max |a - b| / max |b|, or max |a| where b is zero.
double relativeError(const Tensor &a, const Tensor &b);

} // namespace tfm::oracle

#endif // TFM_TESTS_UNIT_ORACLE_GRADIENTS_H
