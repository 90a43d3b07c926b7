//===- Program.h - kernels, compiled for the emulator -----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TESTS_EMULATOR_PROGRAM_H
#define TFM_TESTS_EMULATOR_PROGRAM_H

#include "tests/emulator/Machine.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

namespace llvm::orc {
class LLJIT;
} // namespace llvm::orc

namespace tfm::emulator {

/// The kernels of a module in the llvm dialect with nvvm ops, as they are
/// before they become PTX, in machine code of this CPU.
class Program {
public:
  /// `module` stays as it is; its constants become buffers of `machine`. Fails,
  /// with what it says of the op, where the emulator does not know one.
  static llvm::Expected<Program> load(mlir::ModuleOp module, Machine &machine);
  Program(Program &&);
  ~Program();

  llvm::ArrayRef<Kernel> kernels() const { return all; }
  /// Null where there is none of that name.
  const Kernel *find(llvm::StringRef name) const;

private:
  Program();

  Machine *machine = nullptr;
  std::vector<void *> constants;
  std::unique_ptr<llvm::orc::LLJIT> jit;
  std::vector<Kernel> all;
  std::unique_ptr<std::vector<std::string>> sites =
      std::make_unique<std::vector<std::string>>();
};

} // namespace tfm::emulator

#endif // TFM_TESTS_EMULATOR_PROGRAM_H
