//===- Frontend.cpp - from a .tfm file to the tfm dialect -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/Frontend.h"

#include "compiler/frontend/Elaborator.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

using namespace tfm;
using llvm::StringRef;

static mlir::OwningOpRef<mlir::ModuleOp>
compile(mlir::MLIRContext &context, SourceManager &sources, uint32_t file,
        StringRef path, const FrontendOptions &options, Diagnostics &diags) {
  Emitter emitter(context);
  Elaborator elaborator(sources, diags, options, emitter);
  if (!elaborator.run(file, path))
    return nullptr;
  std::string problem;
  mlir::OwningOpRef<mlir::ModuleOp> module = emitter.finish(problem);
  if (!module)
    diags
        .error(999, {file, 0, 0},
               "the compiler made an invalid program of this file; please "
               "report it with the file")
        .note(problem);
  return module;
}

mlir::OwningOpRef<mlir::ModuleOp>
tfm::compileToTfm(mlir::MLIRContext &context, SourceManager &sources,
                  StringRef path, const FrontendOptions &options,
                  Diagnostics &diags) {
  llvm::Expected<uint32_t> file = sources.load(path);
  if (!file) {
    std::string why = llvm::toString(file.takeError());
    diags.error(910, {sources.add(path, ""), 0, 0},
                "cannot read `" + path + "`: " + why);
    return nullptr;
  }
  return compile(context, sources, *file, path, options, diags);
}

mlir::OwningOpRef<mlir::ModuleOp>
tfm::compileTextToTfm(mlir::MLIRContext &context, SourceManager &sources,
                      StringRef name, StringRef text,
                      const FrontendOptions &options, Diagnostics &diags) {
  return compile(context, sources, sources.add(name, text), name, options,
                 diags);
}
