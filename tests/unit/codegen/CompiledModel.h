//===- CompiledModel.h - a model compiled into this process -----*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TESTS_UNIT_CODEGEN_COMPILEDMODEL_H
#define TFM_TESTS_UNIT_CODEGEN_COMPILEDMODEL_H

#include "compiler/codegen/schedule/Schedule.h"
#include "compiler/oracle/Evaluator.h"
#include "runtime/tfm_model.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"

namespace tfm {

/// A tfm module as it comes out of the compiler, loaded and given an arena.
class CompiledModel {
public:
  explicit CompiledModel(mlir::ModuleOp module);

  /// Fills a parameter, all layers stacked, in the order of its `tfm.param`.
  void setParameter(llvm::StringRef symbol, const oracle::Tensor &value);
  /// Runs function `name` on `inputs`, in order; the results in order, with the
  /// gradients and region results left out.
  std::vector<oracle::Tensor> run(llvm::StringRef name,
                                  llvm::ArrayRef<oracle::Tensor> inputs, int threads = 1);
  /// The gradient of a parameter, all layers stacked.
  oracle::Tensor gradient(llvm::StringRef symbol) const;
  /// The raw bytes of the arena.
  const std::vector<char> &bytes() const { return arena; }

  Schedule schedule;
  const tfm_model *model = nullptr;

private:
  oracle::Tensor read(const tfm_buffer &buffer) const;
  std::unique_ptr<llvm::orc::LLJIT> jit;
  std::vector<char> arena;
};

} // namespace tfm

#endif // TFM_TESTS_UNIT_CODEGEN_COMPILEDMODEL_H
