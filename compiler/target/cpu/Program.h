//===- Program.h - the function that runs a program -------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CPU_PROGRAM_H
#define TFM_TARGET_CPU_PROGRAM_H

#include "compiler/schedule/SchedDialect.h"

namespace llvm {
class Function;
class Module;
} // namespace llvm

namespace tfm {

/// Adds to the module of its kernels the function of a program
/// (`tfm_function.run` of runtime/tfm_model.h), which launches them in order,
/// piece by piece as threads claim them.
llvm::Function *emitProgram(sched::ProgramOp program, llvm::Module &module);

} // namespace tfm

#endif // TFM_TARGET_CPU_PROGRAM_H
