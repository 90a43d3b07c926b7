//===- ShippedModel.h - models/*.tfm, ready for code generation -*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TESTS_UNIT_CODEGEN_SHIPPEDMODEL_H
#define TFM_TESTS_UNIT_CODEGEN_SHIPPEDMODEL_H

#include "compiler/driver/Compile.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>
#include <utility>
#include <vector>

namespace tfm {

/// A model below models/, prepared for code generation; a test failure and no
/// module where it does not compile.
struct ShippedModel {
  using Defines = std::vector<std::pair<std::string, std::string>>;
  /// `name` is relative to models/, with its extension.
  explicit ShippedModel(const std::string &name, const Defines &defines = {},
                        const KernelTarget &target = nativeTarget());

  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

/// All files in models/ and models/cs444 that hold a model, sorted.
std::vector<std::string> shippedModels();

/// `cs444/mlp.tfm` as the name of a test: `cs444_mlp`.
std::string testName(const std::string &model);

} // namespace tfm

#endif // TFM_TESTS_UNIT_CODEGEN_SHIPPEDMODEL_H
