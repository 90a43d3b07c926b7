//===- Output.cpp - where a command writes its result ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Output.h"

#include "llvm/Support/raw_ostream.h"

bool tfm::writeOutput(llvm::StringRef path, llvm::StringRef text) {
  bool toFile = !path.empty() && path != "-";
  std::error_code error;
  llvm::raw_fd_ostream os(toFile ? path : "-", error);
  if (!error) {
    os << text;
    os.flush();
    error = os.error();
    os.clear_error();
  }
  if (!error)
    return true;
  llvm::errs() << "tfmc: cannot write "
               << (toFile ? path : "to standard output") << ": "
               << error.message() << "\n";
  return false;
}
