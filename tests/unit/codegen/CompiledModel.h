//===- CompiledModel.h - a model compiled into this process -----*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TESTS_UNIT_CODEGEN_COMPILEDMODEL_H
#define TFM_TESTS_UNIT_CODEGEN_COMPILEDMODEL_H

#include "compiler/oracle/Interpreter.h"
#include "compiler/schedule/SchedDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "runtime/tfm_model.h"

#include <functional>

namespace llvm::orc {
class LLJIT;
} // namespace llvm::orc

namespace tfm {

class EmulatedGpu;
class KernelTarget;
struct CpuMachine;

/// What tests of compiled models compile for: this CPU, the one that
/// TFM_TEST_CPU names, or the GPU that TFM_TEST_TARGET=cuda names, whose
/// kernels run in the emulator, or with cuda:sm_90a the forms of these.
const KernelTarget &testedTarget();
/// The CPU of these.
CpuMachine testedMachine();
bool testsGpu();

/// A tfm module as it comes out of the compiler, loaded and given an arena.
class CompiledModel {
public:
  /// `module` stays as it is.
  explicit CompiledModel(mlir::ModuleOp module);
  ~CompiledModel();
  /// The variant of that number of a build for several CPUs (`--cpu`).
  CompiledModel(mlir::ModuleOp module, llvm::StringRef cpus, size_t number);

  /// Fills a parameter, all layers stacked, in the order of its `tfm.param`.
  void setParameter(llvm::StringRef symbol, const oracle::Tensor &value);
  /// Runs function `name` on `inputs`, in order; the results in order, with the
  /// gradients and region results left out. A GPU has its threads in another
  /// order for another number of `threads`.
  std::vector<oracle::Tensor> run(llvm::StringRef name,
                                  llvm::ArrayRef<oracle::Tensor> inputs,
                                  int threads = 1);
  /// The gradient of a parameter, all layers stacked.
  oracle::Tensor gradient(llvm::StringRef symbol) const;
  /// The value of a parameter, all layers stacked.
  oracle::Tensor parameter(llvm::StringRef symbol) const;
  /// All parameters, or all gradients, as they lie in the arena, for bit
  /// comparison.
  llvm::ArrayRef<float> parameters() const;
  llvm::ArrayRef<float> gradients() const;
  /// What lies at an offset of the arena.
  char *bytesAt(uint64_t offset) { return arena + offset; }
  /// Called when so many launches of a call are over, and none goes on; not of
  /// a GPU.
  std::function<void(uint64_t launches)> betweenLaunches;
  /// Fills the gradients with zeros, as the runtime does before it accumulates.
  void clearGradients();

  mlir::OwningOpRef<mlir::ModuleOp> schedule;
  const tfm_model *model = nullptr;
  const tfm_variant *variant = nullptr;

private:
  CompiledModel(mlir::ModuleOp module,
                llvm::ArrayRef<const KernelTarget *> targets, size_t number);

  void runOnThreads(const tfm_function &function, int threads);
  oracle::Tensor read(const tfm_buffer &buffer) const;
  oracle::Tensor slot(llvm::StringRef symbol, sched::BufferKind kind) const;
  llvm::MutableArrayRef<float> region(sched::BufferKind kind) const;

  std::unique_ptr<llvm::orc::LLJIT> jit;
  std::vector<char> storage;
  /// Whether a parameter was set since `refresh` ran.
  bool copiesAreStale = false;
  /// The first byte of `storage` that is aligned as kernels may expect.
  char *arena = nullptr;
  /// Null of a CPU.
  std::unique_ptr<EmulatedGpu> gpu;
};

} // namespace tfm

#endif // TFM_TESTS_UNIT_CODEGEN_COMPILEDMODEL_H
