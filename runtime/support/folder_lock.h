//===- folder_lock.h - one training for one run directory ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_SUPPORT_FOLDER_LOCK_H
#define TFM_RUNTIME_SUPPORT_FOLDER_LOCK_H

#include <string>

namespace tfm {

/// Keeps other trainings out of a run directory for as long as it lives; the
/// system lets go of it when the process ends, however it does.
class FolderLock {
public:
  /// Throws FolderInUse where another process holds it, and InputError where
  /// the folder cannot be opened, as there are too many open files.
  explicit FolderLock(const std::string &folder);
  ~FolderLock();
  FolderLock(const FolderLock &) = delete;
  FolderLock &operator=(const FolderLock &) = delete;

  /// Whether the folder of that name is the one that is locked, and no other
  /// that was put in its place.
  bool isOf(const std::string &folder) const;

private:
  int file;
};

/// Whether somebody holds a folder's lock.
bool isLocked(const std::string &folder);

} // namespace tfm

#endif // TFM_RUNTIME_SUPPORT_FOLDER_LOCK_H
