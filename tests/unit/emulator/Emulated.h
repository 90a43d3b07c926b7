//===- Emulated.h - hand-written kernels in the emulator --------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TESTS_UNIT_EMULATOR_EMULATED_H
#define TFM_TESTS_UNIT_EMULATOR_EMULATED_H

#include "tests/emulator/Program.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "gtest/gtest.h"

#include <string>
#include <utility>
#include <vector>

namespace tfm::emulator {

/// A file of `kernels/`, changed by replacing texts that stand in it, and
/// compiled for the emulator.
class Emulated {
public:
  using Changes = std::vector<std::pair<std::string, std::string>>;
  explicit Emulated(const std::string &file, const Changes &changes = {});

  /// Memory that the kernels may use, with its elements.
  template <typename T>
  void give(llvm::StringRef name, std::vector<T> &elements) {
    machine.addBuffer(name, elements.data(), elements.size() * sizeof(T));
  }
  /// Launches a kernel with pointers and 64-bit numbers.
  template <typename... Arguments>
  std::optional<Fault> launch(llvm::StringRef kernel, Arguments... arguments) {
    const Kernel *found = program ? program->find(kernel) : nullptr;
    EXPECT_NE(found, nullptr) << kernel.str() << ": " << error;
    if (!found)
      return Fault{Fault::Kind::Misuse, "no kernel"};
    void *addresses[] = {&arguments...};
    return machine.launch(*found, addresses);
  }

  Machine machine;
  /// None where the emulator refused a kernel, with why.
  std::optional<Program> program;
  std::string error;

private:
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

/// What a kernel of `kernels/` came to: a fault, or values that are right or
/// not.
struct Outcome {
  std::optional<Fault> fault;
  bool right = false;
};
Outcome runRowSum(Emulated &kernels);
Outcome runGemm(Emulated &kernels);
Outcome runPipeline(Emulated &kernels);
Outcome runHandOver(Emulated &kernels);
Outcome runTranspose(Emulated &kernels);

} // namespace tfm::emulator

#endif // TFM_TESTS_UNIT_EMULATOR_EMULATED_H
