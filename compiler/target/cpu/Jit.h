//===- Jit.h - runs kernels inside the compiler's process -------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CPU_JIT_H
#define TFM_TARGET_CPU_JIT_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <memory>
#include <vector>

namespace llvm::orc {
class LLJIT;
} // namespace llvm::orc

namespace mlir {
class ModuleOp;
} // namespace mlir

namespace tfm {

struct CpuMachine;

/// A module of kernels compiled and loaded, for tests and benchmarks. The code
/// is the one that `emitObject` writes.
class Jit {
public:
  ~Jit();
  Jit(Jit &&) noexcept;

  /// Lowers `module` (in place), compiles and loads it.
  static llvm::Expected<Jit> compile(mlir::ModuleOp module,
                                     const CpuMachine &target);

  /// The address of a kernel.
  llvm::Expected<void *> lookup(llvm::StringRef name) const;

  /// Calls a kernel of the convention of docs/design.md, "Kernels", with up to
  /// twelve buffers.
  static void call(void *kernel, const std::vector<void *> &buffers,
                   const int32_t *rng, int64_t layer, void *scratch,
                   int64_t thread, int64_t threads);

private:
  explicit Jit(std::unique_ptr<llvm::orc::LLJIT> jit);
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

} // namespace tfm

#endif // TFM_TARGET_CPU_JIT_H
