//===- ExpectCompiled.h - machine code against the oracle -------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TESTS_UNIT_CODEGEN_EXPECTCOMPILED_H
#define TFM_TESTS_UNIT_CODEGEN_EXPECTCOMPILED_H

#include "tests/unit/oracle/Gradients.h"

namespace tfm {

/// The counter of dropout that programs run under, for the oracle and as the
/// runtime would hand it over.
extern const oracle::Environment dropoutEnvironment;
extern const oracle::Tensor dropoutCounter;

/// Random inputs as an f32 holds them.
std::vector<oracle::Tensor> roundedInputs(mlir::func::FuncOp function,
                                          unsigned seed);

/// Compiles the module's only function, `@train`: what has a counter of
/// dropout. Returns its results, and expects the same bits from three threads.
std::vector<oracle::Tensor> runCompiled(oracle::TestModule &module,
                                        std::vector<oracle::Tensor> inputs);

/// Expects of the module's `@train` what the oracle says of `function`. How far
/// rounding may carry a result is measured: the oracle is run on inputs that
/// are off by half a unit in the last place of an f32, and every op of a chain
/// may do as much again.
void expectCompiled(oracle::TestModule &module, mlir::func::FuncOp function,
                    unsigned seed);

/// The same of `@f` in `text`, and of its derivative.
void expectCompiled(llvm::StringRef text, unsigned seed = 1);
void expectDerivativeCompiled(llvm::StringRef text, unsigned seed = 1);

} // namespace tfm

#endif // TFM_TESTS_UNIT_CODEGEN_EXPECTCOMPILED_H
