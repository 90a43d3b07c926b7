//===- WriteFile.cpp - files that are written whole or not at all ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/driver/WriteFile.h"

#include "runtime/files/run_folder.h"
#include "runtime/support/atomic_file.h"
#include "runtime/support/error.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

using namespace tfm;

bool tfm::isDevice(llvm::StringRef path) {
  llvm::sys::fs::file_status status;
  return !llvm::sys::fs::status(path, status) &&
         !llvm::sys::fs::is_regular_file(status);
}

/// Not a file of ours: what LLVM's streams have still to write comes first.
static llvm::Error writeOut(llvm::StringRef bytes) {
  llvm::outs() << bytes;
  llvm::outs().flush();
  std::error_code error = llvm::outs().error();
  llvm::outs().clear_error();
  if (!error)
    return llvm::Error::success();
  return llvm::createStringError("cannot write to standard output: " +
                                 error.message());
}

llvm::Error tfm::writeWhole(llvm::StringRef path, llvm::StringRef bytes) {
  // What standard output was redirected to is not ours to replace either.
  if (path == "-" || path == "/dev/stdout")
    return writeOut(bytes);
  // The runtime throws.
  try {
    requireNoRunFile(path.str());
    AtomicFile file(path.str());
    file.write(bytes);
    file.commit();
    return llvm::Error::success();
  } catch (const InputError &error) {
    return llvm::createStringError(error.what());
  }
}
