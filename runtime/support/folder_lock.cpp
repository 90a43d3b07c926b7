//===- folder_lock.cpp - one training for one run directory -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/support/folder_lock.h"

#include "runtime/support/atomic_file.h"
#include "runtime/support/error.h"
#include "runtime/support/system_call.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

namespace tfm {

namespace {

/// Below 0 where there is none, or none for us to read.
int openFolder(const std::string &folder) {
  return uninterrupted(
      [&] { return open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
}

/// False where another process holds the lock. Some file systems have none, and
/// folders may be for writing alone: there everybody gets it.
bool take(int file) {
  return file < 0 || flock(file, LOCK_EX | LOCK_NB) == 0 ||
         errno != EWOULDBLOCK;
}

} // namespace

FolderLock::FolderLock(const std::string &folder) : file(openFolder(folder)) {
  if (file < 0 && errno != ENOENT && errno != ENOTDIR && errno != EACCES)
    throw InputError("cannot open the folder {}: {}", folder,
                     std::strerror(errno));
  if (take(file))
    return;
  close(file);
  throw FolderInUse("another process is training in {}: choose another --out, "
                    "or wait for its end",
                    folder);
}

FolderLock::~FolderLock() {
  if (file >= 0)
    close(file);
}

bool FolderLock::isOf(const std::string &folder) const {
  return isStill(file, folder);
}

bool isLocked(const std::string &folder) {
  int file = openFolder(folder);
  bool isFree = take(file);
  if (file >= 0)
    close(file);
  return !isFree;
}

} // namespace tfm
