//===- Elaborator.h - from the syntax tree to the emitter -------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_ELABORATOR_H
#define TFM_FRONTEND_ELABORATE_ELABORATOR_H

#include "compiler/frontend/Frontend.h"
#include "compiler/frontend/elaborate/Compilation.h"

#include <memory>

namespace tfm {

class Emitter;

/// Evaluates the model of a file: instantiates modules, checks and infers
/// shapes, and drives the emitter. Errors yield poison, which stays silent, so
/// that one mistake is reported once. The parts that do it know each other by
/// reference, as their constructors say; here they are put together.
class Elaborator {
public:
  Elaborator(SourceManager &sources, Diagnostics &diags,
             const FrontendOptions &options, Emitter &emitter,
             Compilation &compilation);
  ~Elaborator();
  /// Elaborates and emits everything. False after errors.
  bool run(uint32_t mainFile, llvm::StringRef path);
  /// Checks one module of a file without a model as if it were the model (its
  /// hyperparameters have values, from defaults or `-D`), or one function, of
  /// inputs as a model would have them. Under the empty name what the file
  /// imports and its constants.
  void check(uint32_t mainFile, llvm::StringRef path, llvm::StringRef name);

private:
  /// Reads the main file, what it imports and the overrides. False after
  /// errors.
  bool readSources(uint32_t mainFile, llvm::StringRef path);
  /// Warnings of a model without errors.
  void warn();
  /// Finds the model of the main file and makes it.
  bool instantiateModel();

  struct Parts;
  std::unique_ptr<Parts> parts;
};

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_ELABORATOR_H
