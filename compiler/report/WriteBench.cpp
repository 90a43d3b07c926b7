//===- WriteBench.cpp - a page with a roofline ----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/report/Page.h"
#include "compiler/report/ReadJson.h"
#include "compiler/report/Writers.h"

using namespace tfm;

llvm::Error tfm::writeBench(llvm::StringRef run, llvm::raw_ostream &os) {
  llvm::Expected<llvm::json::Value> parsed = readJson(run);
  if (!parsed)
    return parsed.takeError();
  llvm::json::Object *object = parsed->getAsObject();
  std::optional<llvm::StringRef> model, source;
  if (object) {
    model = object->getString("model");
    source = object->getString("source");
  }
  if (!model || !source || !object->getObject("functions"))
    return llvm::createStringError("this is no run of bench");
  std::string title = (*model + ": roofline").str();
  (*object)["source"] = nameOnPage(*source);
  std::string data;
  llvm::raw_string_ostream(data) << *parsed;
  writePage(title, "bench.js", data, os);
  return llvm::Error::success();
}
