//===- TrainingLogFuzzer.cpp - any bytes as a training log --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// The input is a log.jsonl. It has an error, or can be drawn.
//
//===----------------------------------------------------------------------===//

#include "compiler/report/TrainingLog.h"
#include "tests/fuzz/support/TimeLimit.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tfm::fuzz::TimeLimit limit(2);
  tfm::TrainingLog log;
  log.name = log.path = "fuzz";
  llvm::StringRef text(reinterpret_cast<const char *>(data), size);
  if (llvm::Error error = tfm::readLogLines(text, log)) {
    llvm::consumeError(std::move(error));
    return 0;
  }
  llvm::raw_null_ostream os;
  tfm::writePlot(log, os);
  return 0;
}
