//===- Observer.h - who looks on at launches --------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TESTS_EMULATOR_OBSERVER_H
#define TFM_TESTS_EMULATOR_OBSERVER_H

#include "tests/emulator/Machine.h"

#include "mlir/IR/BuiltinOps.h"

namespace tfm::emulator {

/// Told of kernels that are loaded, and of each launch.
class Observer {
public:
  /// Bytes that kernels may read and write, by where they begin.
  using Buffers = llvm::ArrayRef<std::pair<char *, size_t>>;

  virtual ~Observer() = default;
  /// What `Program::load` was given; the program's kernels have its `sites`.
  virtual void load(mlir::ModuleOp module, llvm::ArrayRef<Kernel> kernels) = 0;
  virtual void begin(const Kernel &kernel, void *const *arguments,
                     Buffers buffers) = 0;
  /// The launch that began last is over, without a fault.
  virtual void end() = 0;

  /// The one that looks on; null: nobody.
  static inline Observer *current = nullptr;
};

} // namespace tfm::emulator

#endif // TFM_TESTS_EMULATOR_OBSERVER_H
