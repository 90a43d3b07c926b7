//===- ModelInput.h - the model file that a command is about --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TOOLS_TFMC_MODELINPUT_H
#define TFM_TOOLS_TFMC_MODELINPUT_H

#include "compiler/frontend/Frontend.h"
#include "compiler/report/ModelReport.h"
#include "compiler/target/KernelTarget.h"
#include "runtime/files/hf_config.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
} // namespace CLI

namespace tfm {

using Defines = std::vector<std::pair<std::string, std::string>>;

/// `name=value` of `-D`; wrong usage otherwise (CLI::ValidationError).
Defines parseDefines(const std::vector<std::string> &texts);

/// Adds `-D name=value` to a command.
void addDefineOption(CLI::App &command, std::vector<std::string> &texts);

/// Adds `--target`, which is one of those that there are.
void addTargetOption(CLI::App &command, std::string &target,
                     const std::string &description);

/// Prints errors to standard error, in colour on a terminal.
void printDiagnostics(const Diagnostics &diagnostics);

/// A compiled file. The module lives in the context.
struct CompiledModel {
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  /// The errors of a text without one, as they were printed.
  std::string problems = {};
  /// Those that it is made of, and that its recipe names.
  std::vector<std::string> files = {};
};

/// Compiles a file (`-`: standard input) to the tfm dialect; of its tokenizer
/// no more than the size is read, for speed. On errors prints
/// the diagnostics and returns a model without module; with `firstError`,
/// leaves the first message there instead of printing.
CompiledModel loadModel(const std::string &path, const Defines &defines,
                        std::string *firstError = nullptr);

/// The same for a text; files that it names are looked for beside `path`.
CompiledModel loadText(const std::string &text, const std::string &path,
                       const Defines &defines = {},
                       std::string *firstError = nullptr);

/// What a config.json is compared with, but for what the report has: facts, the
/// family of the file, and for a file without one the tables of all.
ModelDescription describe(const CompiledModel &model);

/// Makes `@train` from `@loss` and adds the optimizer's functions, so that the
/// report can count a step's FLOPs.
void differentiate(CompiledModel &model);

/// The target that `--target` and `--cpu` name; null after a message that there
/// is none.
const KernelTarget *findTarget(const std::string &target,
                               const std::string &cpu);

/// Of a build of the model for this target the variant that runs where the
/// machine has all that it wants: with tiles, where they suit its numbers.
const KernelTarget *fastestOf(const KernelTarget *target,
                              mlir::ModuleOp module);

} // namespace tfm

#endif // TFM_TOOLS_TFMC_MODELINPUT_H
