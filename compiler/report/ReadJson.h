//===- ReadJson.h - JSON that others wrote ----------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_REPORT_READJSON_H
#define TFM_REPORT_READJSON_H

#include "llvm/Support/JSON.h"

namespace tfm {

/// Parses JSON from a file or a command line. LLVM's parser calls itself for
/// every bracket and would run out of stack, so a text that is nested deeper
/// than anything read here is an error.
llvm::Expected<llvm::json::Value> readJson(llvm::StringRef text);

} // namespace tfm

#endif // TFM_REPORT_READJSON_H
