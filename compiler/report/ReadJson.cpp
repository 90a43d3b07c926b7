//===- ReadJson.cpp - JSON that others wrote ------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/report/ReadJson.h"

#include "runtime/support/read_json.h"

using namespace tfm;

llvm::Expected<llvm::json::Value> tfm::readJson(llvm::StringRef text) {
  if (isNestedDeeply(text))
    return llvm::createStringError("the JSON is nested too deeply");
  return llvm::json::parse(text);
}
