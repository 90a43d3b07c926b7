//===- EmulatedGpu.h - a model's kernels in the emulator --------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TESTS_UNIT_CODEGEN_EMULATEDGPU_H
#define TFM_TESTS_UNIT_CODEGEN_EMULATEDGPU_H

#include "tests/emulator/Program.h"

#include "mlir/IR/BuiltinOps.h"
#include "runtime/tfm_model.h"
#include "llvm/ADT/ArrayRef.h"

#include <optional>

namespace tfm {

/// The kernels of a variant for a GPU. A launch may read and write the views
/// that its step in the schedule names, and nothing else of the arena.
class EmulatedGpu {
public:
  /// `schedule` has the kernels that the variant's images were made of.
  /// `hasForms`: it runs forms for sm_90a, where there are any.
  EmulatedGpu(mlir::ModuleOp schedule, const tfm_variant &variant,
              llvm::MutableArrayRef<char> arena, bool hasForms = false);
  EmulatedGpu(const EmulatedGpu &) = delete;
  EmulatedGpu &operator=(const EmulatedGpu &) = delete;

  /// Runs what a function queues, threads in an order of that number, and with
  /// as many multiprocessors; a test failure where a kernel has a fault.
  void run(const tfm_function &function, unsigned order);

private:
  std::optional<emulator::Fault> launch(mlir::Operation *step,
                                        emulator::Kernel kernel,
                                        const tfm_kernel &record,
                                        const uint64_t *arguments);

  mlir::ModuleOp schedule;
  const tfm_variant &variant;
  llvm::MutableArrayRef<char> arena;
  const bool hasForms;
  unsigned multiprocessors = 1;
  std::optional<emulator::Program> program;
};

} // namespace tfm

#endif // TFM_TESTS_UNIT_CODEGEN_EMULATEDGPU_H
