//===- ParserFuzzer.cpp - arbitrary bytes to the parser -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===--------------------------------------------------------------------===//

// Any bytes: the lexer and the parser end, report inside of the text, and never
// crash. What parses can be formatted, and the result stays as it is then. Run
// by scripts/fuzz.sh.

#include "compiler/frontend/format/Format.h"
#include "compiler/frontend/syntax/Parser.h"
#include "tests/fuzz/support/TimeLimit.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tfm::fuzz::TimeLimit limit(2);
  tfm::SourceManager sources;
  tfm::Diagnostics diags(sources);
  uint32_t file = sources.add(
      "fuzz.tfm", llvm::StringRef(reinterpret_cast<const char *>(data), size));
  auto tree = tfm::parseFile(sources, file, diags);
  for (const tfm::Diagnostic &d : diags.errors())
    if (d.range.begin > size || d.range.end > size ||
        d.range.begin > d.range.end)
      abort();
  diags.str();
  if (diags.hasErrors())
    return 0;
  std::optional<std::string> once = tfm::formatFile(sources, file, diags);
  if (!once)
    abort();
  uint32_t second = sources.add("formatted.tfm", *once);
  std::optional<std::string> twice = tfm::formatFile(sources, second, diags);
  if (!twice || *once != *twice)
    abort();
  return 0;
}
