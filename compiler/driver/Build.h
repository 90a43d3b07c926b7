//===- Build.h - from a source file to a binary -----------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_DRIVER_BUILD_H
#define TFM_DRIVER_BUILD_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"
#include <string>
#include <utility>
#include <vector>

namespace tfm {

/// What `tfmc build` leaves.
enum class Emit { Ast, Tfm, Schedule, Llvm, Asm, Obj, Shared, Exe };

struct BuildOptions {
  std::string source;
  /// `-o`; empty: the source's name without `.tfm`, with the kind's ending, and
  /// `.out` behind it where that is the source itself or a folder. `-` is
  /// standard output, for text.
  std::string output;
  std::vector<std::pair<std::string, std::string>> defines;
  /// `cpu` may list several, separated by commas: a variant for each. With
  /// the target `cuda` a program has code for GPUs beside these; `Emit::Asm`
  /// are then the GPU's kernels as PTX, and object files and what lies before
  /// them there are none.
  std::string target = "cpu", cpu = "native";
  /// Empty, or what the recipe's precision has to be.
  std::string precision;
  Emit emit = Emit::Exe;
  /// Link the C library into a program, too.
  bool isStatic = false;
  /// Print how long each stage took to standard error.
  bool time = false;
  /// Print warnings, too; errors are always printed.
  bool warn = true;
};

/// What to say where the recipe of a model has another precision than
/// `wanted`; empty where it has that one, or where none is wanted.
std::string wrongPrecision(mlir::ModuleOp module, llvm::StringRef wanted);

/// How a build ended, by its exit status (docs/cli.md).
enum class BuildStatus {
  Ok = 0,
  InputError = 1, ///< diagnostics have been printed
  WrongUsage = 2, ///< the options have no such machine
  Bug = 70,       ///< the compiler could not do what it should
};

/// Builds a model; what is wrong with the source is printed to standard error
/// as the frontend's diagnostics, everything else as one line.
BuildStatus build(const BuildOptions &options);

} // namespace tfm

#endif // TFM_DRIVER_BUILD_H
