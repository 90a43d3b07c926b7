//===- Lower.h - kernels for a GPU in terms of the CPU ----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TESTS_EMULATOR_LOWER_H
#define TFM_TESTS_EMULATOR_LOWER_H

#include "tests/emulator/Machine.h"

#include "mlir/IR/BuiltinOps.h"

namespace tfm::emulator {

/// Rewrites a module of the llvm dialect with nvvm ops so that the CPU can run
/// it: each nvvm op becomes a call of what `hostFunctions` lists, each access
/// to memory that threads share is announced to `emulator.access`, shared
/// memory lies where `Machine` has it, and of every kernel `NAME` there is a
/// function `emulator.run.NAME` that takes the addresses of its arguments.
/// Fills in `kernels`, without code, and `sites`. Fails, after an error at the
/// op, for whatever it does not know.
mlir::LogicalResult lowerForHost(mlir::ModuleOp module,
                                 std::vector<Kernel> &kernels,
                                 std::vector<std::string> &sites);

/// What lowered kernels call.
struct HostFunction {
  llvm::StringLiteral name;
  void *address;
};
extern const llvm::ArrayRef<HostFunction> hostFunctions;

} // namespace tfm::emulator

#endif // TFM_TESTS_EMULATOR_LOWER_H
