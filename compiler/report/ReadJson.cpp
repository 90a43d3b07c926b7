//===- ReadJson.cpp - JSON that others wrote ------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/report/ReadJson.h"

using namespace tfm;

static constexpr int deepest = 100;

llvm::Expected<llvm::json::Value> tfm::readJson(llvm::StringRef text) {
  int depth = 0;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '"')
      inString = !inString;
    else if (inString)
      i += c == '\\';
    else if (c == '[' || c == '{')
      ++depth;
    else if (c == ']' || c == '}')
      --depth;
    if (depth > deepest)
      return llvm::createStringError("the JSON is nested too deeply");
  }
  return llvm::json::parse(text);
}
