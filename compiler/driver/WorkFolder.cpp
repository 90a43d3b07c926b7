//===- WorkFolder.cpp - where a file is made before it has its name -------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/driver/WorkFolder.h"

#include "runtime/support/atomic_file.h"
#include "runtime/support/system_call.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

using namespace tfm;

llvm::Expected<std::unique_ptr<WorkFolder>>
WorkFolder::create(llvm::StringRef output) {
  std::string target = throughLinks(output.str());
  llvm::SmallString<128> prefix(target), path;
  std::error_code error = llvm::sys::fs::make_absolute(prefix);
  llvm::sys::path::remove_filename(prefix);
  llvm::sys::path::append(prefix, ".tfm");
  if (!error)
    error = llvm::sys::fs::createUniqueDirectory(prefix, path);
  if (error)
    return llvm::createStringError(writeFailure(error.value()));
  return std::unique_ptr<WorkFolder>(
      new WorkFolder(path.str().str(), std::move(target)));
}

WorkFolder::~WorkFolder() {
  for (const std::string &file : files)
    (void)uninterrupted([&] { return unlink(file.c_str()); });
  removeFolder(folder.c_str());
}

std::string WorkFolder::file(llvm::StringRef name) const {
  return *files.insert((folder + "/" + name).str()).first;
}

llvm::Error WorkFolder::write(llvm::StringRef name,
                              llvm::StringRef bytes) const {
  std::error_code error;
  llvm::raw_fd_ostream os(file(name), error);
  if (!error) {
    os << bytes;
    os.close();
    error = os.error();
    os.clear_error(); // else LLVM ends the process
  }
  // A close that a signal interrupts has closed the file all the same.
  if (error && error != std::errc::interrupted)
    return llvm::createStringError(writeFailure(error.value()));
  return llvm::Error::success();
}

llvm::Error WorkFolder::run(llvm::ArrayRef<std::string> command) const {
  std::string said = file("said.txt");
  std::optional<llvm::StringRef> redirects[] = {std::nullopt, said, said};
  llvm::SmallVector<llvm::StringRef> arguments(command.begin(), command.end());
  std::string ownTemporaries = "TMPDIR=" + folder;
  // What lld says of its own end is of no use to who has no room on a disk.
  llvm::SmallVector<llvm::StringRef> environment = {
      ownTemporaries, "LLVM_DISABLE_SYMBOLIZATION=1",
      "LC_ALL=C"}; // below its words are looked at
  for (char **each = environ; *each; ++each)
    if (llvm::StringRef variable = *each;
        !variable.starts_with("TMPDIR=") && !variable.starts_with("LC_ALL="))
      environment.push_back(variable);
  std::string message;
  int status = llvm::sys::ExecuteAndWait(
      command.front(), arguments, llvm::ArrayRef<llvm::StringRef>(environment),
      redirects, 0, 0, &message);
  if (status == 0)
    return llvm::Error::success();
  if (auto text = llvm::MemoryBuffer::getFile(said))
    message += (*text)->getBuffer().str();
  llvm::StringRef words = message;
  // lld maps what it writes: where there is no room the kernel ends it.
  if (words.contains("Bus error") || words.contains("No space left on device"))
    return llvm::createStringError(writeFailure(ENOSPC));
  if (words.contains("File too large") || words.contains("signal 25"))
    return llvm::createStringError(writeFailure(EFBIG));
  if (words.contains("out of memory") || words.contains("signal 9") ||
      words.contains("Cannot allocate memory") ||
      words.contains("cannot allocate memory"))
    return llvm::createStringError("there is too little memory for " +
                                   command.front());
  if (words.trim().empty())
    return llvm::createStringError(
        command.front() + " has ended with exit status " + llvm::Twine(status));
  return llvm::createStringError(command.front() + " says:\n" + message);
}

llvm::Error WorkFolder::moveToTarget(llvm::StringRef name) const {
  // After a crash of the system there is the old file or the whole new one.
  int made = uninterrupted(
      [&] { return open(file(name).c_str(), O_RDONLY | O_CLOEXEC); });
  bool isSynced = made >= 0 && uninterrupted([&] { return fsync(made); }) == 0;
  int why = errno;
  if (made >= 0)
    close(made);
  if (!isSynced)
    return llvm::createStringError(writeFailure(why));
  if (std::error_code error = llvm::sys::fs::rename(file(name), target))
    return llvm::createStringError(writeFailure(error.value()));
  return llvm::Error::success();
}
