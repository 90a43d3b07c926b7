//===- Frontend.h - from a .tfm file to the tfm dialect ---------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_FRONTEND_H
#define TFM_FRONTEND_FRONTEND_H

#include "compiler/frontend/Diagnostics.h"

#include <string>
#include <utility>
#include <vector>

namespace mlir {
class MLIRContext;
class ModuleOp;
template <typename OpTy> class OwningOpRef;
} // namespace mlir

namespace tfm {

/// A function to emit, and at which batch and length.
struct FunctionRequest {
  enum Kind { Forward, Loss };
  Kind kind = Forward;
  /// 0: the default. `Forward`: batch 1 and the model's context; `Loss`: the
  /// train block's batch and sequence.
  int64_t batch = 0;
  int64_t sequence = 0;
  /// The symbol; empty: `forward` or `loss`.
  std::string name;
};

struct FrontendOptions {
  /// `-D name=value`, in order: hyperparameters of the model, entries of
  /// blocks (`train.batch`), dimensions of the caller (`S`).
  std::vector<std::pair<std::string, std::string>> defines;
  /// Empty: `@forward`, and `@loss` where the file has a `train` block.
  std::vector<FunctionRequest> functions;
  /// Open the tokenizer as a binary does, which finds every fault of its files.
  /// Otherwise those of a large one are read for its size alone.
  bool openTokenizer = true;
  /// Compute every element of the constants. Otherwise of large ones only the
  /// first are, and the module has zeros for all of such a one.
  bool wholeConstants = true;
  /// A program is built, which takes the sizes of its functions from the
  /// blocks of the file: `-D T=16` is an error where it has some.
  bool recipeDecides = false;
};

/// Parses `path` (`-`: standard input) and what it imports, elaborates its
/// model and emits the tfm dialect as docs/design.md describes. Null after
/// errors, which are in `diags`.
mlir::OwningOpRef<mlir::ModuleOp> compileToTfm(mlir::MLIRContext &context,
                                               SourceManager &sources,
                                               llvm::StringRef path,
                                               const FrontendOptions &options,
                                               Diagnostics &diags);

/// The same for a text; `name` stands in messages, and files that it mentions
/// are looked for beside it.
mlir::OwningOpRef<mlir::ModuleOp>
compileTextToTfm(mlir::MLIRContext &context, SourceManager &sources,
                 llvm::StringRef name, llvm::StringRef text,
                 const FrontendOptions &options, Diagnostics &diags);

/// Checks the file `path` without compiling it: its model, or where it has
/// none and is meant to be imported, every function and every module whose
/// hyperparameters have values, by default or by `defines`. Errors are in
/// `diags`; `unchecked` has what lacks values (`Block(width, heads)`), of which
/// no more than the syntax is known to be right.
void checkFile(mlir::MLIRContext &context, SourceManager &sources,
               llvm::StringRef path, const FrontendOptions &options,
               Diagnostics &diags, std::vector<std::string> &unchecked);

} // namespace tfm

#endif // TFM_FRONTEND_FRONTEND_H
