//===- FrontendFuzzer.cpp - arbitrary text to the frontend ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===--------------------------------------------------------------------===//

// Any text: a model, or errors, never a crash. What a text can ask for is
// bounded by its size here, so that a run spends its time on the frontend.
// Run by scripts/fuzz.sh.

#include "compiler/frontend/Frontend.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <cstdlib>

/// LLVM's archives are built without sanitizers: what happens to containers in
/// there is not seen.
extern "C" const char *__asan_default_options() {
  return "detect_container_overflow=0";
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  llvm::StringRef text(reinterpret_cast<const char *>(data), size);
  // Files and enormous numbers are no subject here.
  if (text.contains('"') || text.contains("99999"))
    return 0;
  unsigned digits = 0;
  for (char c : text) {
    digits = c >= '0' && c <= '9' ? digits + 1 : 0;
    if (digits > 3)
      return 0;
  }
  static mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  tfm::SourceManager sources;
  tfm::Diagnostics diags(sources);
  auto module =
      tfm::compileTextToTfm(context, sources, "fuzz.tfm", text, {}, diags);
  // Either a program or a reason; E0999 is a bug of ours.
  if (!module && !diags.hasErrors())
    abort();
  for (const tfm::Diagnostic &d : diags.errors())
    if (d.code == 999)
      abort();
  return 0;
}
