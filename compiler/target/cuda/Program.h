//===- Program.h - the host's queue of a program's kernels ------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CUDA_PROGRAM_H
#define TFM_TARGET_CUDA_PROGRAM_H

#include "compiler/schedule/SchedDialect.h"

namespace llvm {
class Function;
class Module;
} // namespace llvm

namespace tfm::cuda {

/// Adds the function that queues the kernels of `program` in order
/// (`tfm_function.enqueue` of runtime/tfm_model.h) to a module of the host.
llvm::Function *emitProgram(sched::ProgramOp program, llvm::Module &module);

} // namespace tfm::cuda

#endif // TFM_TARGET_CUDA_PROGRAM_H
