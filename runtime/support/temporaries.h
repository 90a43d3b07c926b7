//===- temporaries.h - what goes when a signal ends the program ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_SUPPORT_TEMPORARIES_H
#define TFM_RUNTIME_SUPPORT_TEMPORARIES_H

#include <atomic>
#include <cstddef>
#include <string>

namespace tfm {

/// The name of a file, or of a folder with nothing but files, that is removed
/// where a signal ends the program while this object lives. At its end nothing
/// is removed.
class Temporary {
public:
  /// Of more than 64 at a time the others are not known.
  explicit Temporary(std::string path);
  ~Temporary();
  Temporary(const Temporary &) = delete;
  Temporary &operator=(const Temporary &) = delete;

private:
  std::string path;
  std::atomic<const char *> *place = nullptr;
};

/// While one lives Ctrl-C and the like wait: what has begun is whole or not
/// there.
class SignalsWait {
public:
  SignalsWait();
  ~SignalsWait();
  SignalsWait(const SignalsWait &) = delete;
  SignalsWait &operator=(const SignalsWait &) = delete;
};

/// Has Ctrl-C, SIGTERM, SIGHUP and SIGQUIT remove what is temporary and then
/// end the program as they do; those that are ignored stay so.
void removeTemporariesOnSignals();

/// For handlers of signals: removes what is temporary.
void removeTemporaries() noexcept;

/// Removes a folder and the files in it, of which none is a folder; for
/// handlers of signals, too.
void removeFolder(const char *path) noexcept;

} // namespace tfm

#endif // TFM_RUNTIME_SUPPORT_TEMPORARIES_H
