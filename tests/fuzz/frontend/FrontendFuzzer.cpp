//===- FrontendFuzzer.cpp - programs to the frontend ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Any text: a model, or errors, never a crash and never a wait. What is a model
// can be counted. Run by scripts/fuzz.sh.

#include "compiler/frontend/Frontend.h"
#include "compiler/report/ModelReport.h"
#include "tests/fuzz/frontend/TokenMutator.h"
#include "tests/fuzz/support/TimeLimit.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <cstdlib>

using namespace tfm::fuzz;

/// LLVM's archives are built without sanitizers: what happens to containers and
/// to its own memory in there is not seen.
extern "C" const char *__asan_default_options() {
  return "detect_container_overflow=0:allow_user_poisoning=0";
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t limit, unsigned seed) {
  Dice dice(seed);
  std::string_view text(reinterpret_cast<const char *>(data), size);
  return handOver(mutateProgram(text, dice), data, size, limit);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *data, size_t size,
                                            const uint8_t *other,
                                            size_t otherSize, uint8_t *out,
                                            size_t limit, unsigned seed) {
  Dice dice(seed);
  std::string text =
      crossPrograms({reinterpret_cast<const char *>(data), size},
                    {reinterpret_cast<const char *>(other), otherSize}, dice);
  return handOver(text, out, 0, limit);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // 2 s without the sanitizers, which make many small allocations ten times as
  // slow.
  TimeLimit limit(20);
  llvm::StringRef text(reinterpret_cast<const char *>(data), size);
  // A context keeps every type and attribute that it has met.
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  tfm::SourceManager sources;
  tfm::Diagnostics diags(sources);
  tfm::FrontendOptions options;
  options.openTokenizer = false;
  auto module = tfm::compileTextToTfm(context, sources, TFM_MODELS "/fuzz.tfm",
                                      text, options, diags);
  // Either a program or a reason; E0999 is a bug of ours.
  if (!module && !diags.hasErrors())
    abort();
  for (const tfm::Diagnostic &d : diags.errors())
    if (d.code == 999)
      abort();
  diags.str();
  if (!module || diags.hasErrors())
    return 0;
  if (auto report = tfm::makeReport(*module); !report) {
    llvm::consumeError(report.takeError());
    abort();
  }
  return 0;
}
