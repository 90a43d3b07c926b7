//===- tfm-emit.cpp - prints a model as the tfm dialect -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//
// tfm-emit FILE [-D name=value]...: the frontend alone, for tests. Prints the
// module, or the errors and exits with 1.
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/Frontend.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/raw_ostream.h"

int main(int argc, char **argv) {
  tfm::FrontendOptions options;
  std::string path;
  for (int i = 1; i < argc; ++i) {
    llvm::StringRef arg = argv[i];
    if (arg == "-D" && i + 1 < argc) {
      auto [name, value] = llvm::StringRef(argv[++i]).split('=');
      options.defines.push_back({name.str(), value.str()});
    } else {
      path = arg.str();
    }
  }
  if (path.empty()) {
    llvm::errs() << "usage: tfm-emit FILE [-D name=value]...\n";
    return 2;
  }
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  tfm::SourceManager sources;
  tfm::Diagnostics diags(sources);
  auto module = tfm::compileToTfm(context, sources, path, options, diags);
  if (!module) {
    diags.print(llvm::errs());
    return 1;
  }
  if (diags.hasWarnings())
    diags.print(llvm::errs());
  mlir::OpPrintingFlags flags;
  flags.elideLargeElementsAttrs(64);
  module->getOperation()->print(llvm::outs(), flags);
  llvm::outs() << '\n';
  return 0;
}
