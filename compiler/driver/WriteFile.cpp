//===- WriteFile.cpp - files that are written whole or not at all ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/driver/WriteFile.h"

#include "runtime/atomic_file.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

using namespace tfm;

namespace {

std::error_code writeStream(llvm::raw_fd_ostream &os, llvm::StringRef bytes) {
  os << bytes;
  os.flush();
  std::error_code error = os.error();
  os.clear_error();
  return error;
}

std::error_code writeDevice(llvm::StringRef path, llvm::StringRef bytes) {
  std::error_code error;
  llvm::raw_fd_ostream os(path, error);
  return error ? error : writeStream(os, bytes);
}

std::error_code writeFile(const std::string &path, llvm::StringRef bytes) {
  namespace fs = llvm::sys::fs;
  fs::file_status old;
  std::error_code error = fs::status(path, old);
  bool isNew = error == std::errc::no_such_file_or_directory;
  if (error && !isNew)
    return error;
  // A file that nobody may write to is not ours to replace.
  if (!isNew && (error = fs::access(path, fs::AccessMode::Write)))
    return error;
  llvm::Expected<fs::TempFile> file =
      fs::TempFile::create(path + ".%%%%%%.tmp");
  if (!file)
    return llvm::errorToErrorCode(file.takeError());
  {
    llvm::raw_fd_ostream os(file->FD, /*shouldClose=*/false);
    error = writeStream(os, bytes);
  }
  if (!error && !isNew)
    error = fs::setPermissions(file->FD, old.permissions());
  if (error) {
    llvm::consumeError(file->discard());
    return error;
  }
  return llvm::errorToErrorCode(file->keep(path));
}

} // namespace

bool tfm::isDevice(llvm::StringRef path) {
  llvm::sys::fs::file_status status;
  return !llvm::sys::fs::status(path, status) &&
         !llvm::sys::fs::is_regular_file(status);
}

llvm::Error tfm::writeWhole(llvm::StringRef path, llvm::StringRef bytes) {
  std::error_code error;
  // What standard output was redirected to is not ours to replace either.
  bool isOutput = path == "-" || path == "/dev/stdout";
  if (isOutput)
    error = writeStream(llvm::outs(), bytes);
  else if (isDevice(path))
    error = writeDevice(path, bytes);
  else
    error = writeFile(throughLinks(path.str()), bytes);
  if (!error)
    return llvm::Error::success();
  return llvm::createStringError(llvm::Twine("cannot write ") +
                                 (isOutput ? "to standard output" : path) +
                                 ": " + error.message());
}
