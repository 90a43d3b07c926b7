//===- temporaries.cpp - what goes when a signal ends the program -------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/support/temporaries.h"

#include "runtime/support/signals.h"
#include "runtime/support/system_call.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace tfm {

/// A handler of signals can reach nothing but globals.
static std::array<std::atomic<const char *>, 64> temporaries;
static std::atomic<int> waiting{0}, waited{0};

Temporary::Temporary(std::string newPath) : path(std::move(newPath)) {
  for (std::atomic<const char *> &one : temporaries) {
    const char *none = nullptr;
    if (one.compare_exchange_strong(none, path.c_str())) {
      place = &one;
      return;
    }
  }
}

Temporary::~Temporary() {
  if (place)
    place->store(nullptr);
}

void removeFolder(const char *path) noexcept {
  // `opendir` allocates, which no handler of signals may.
  int file = uninterrupted(
      [&] { return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  // As getdents64(2) has it.
  struct Entry {
    uint64_t inode;
    int64_t offset;
    uint16_t bytes;
    uint8_t type;
    char name[1];
  };
  alignas(Entry) char entries[4096];
  long got;
  while (file >= 0 &&
         (got = syscall(SYS_getdents64, file, entries, sizeof entries)) > 0)
    for (long at = 0; at < got;) {
      const auto *entry = reinterpret_cast<const Entry *>(entries + at);
      (void)uninterrupted([&] { return unlinkat(file, entry->name, 0); });
      at += entry->bytes;
    }
  if (file >= 0)
    close(file);
  (void)uninterrupted([&] { return rmdir(path); });
}

void removeTemporaries() noexcept {
  for (const std::atomic<const char *> &one : temporaries)
    if (const char *path = one.load();
        path && unlink(path) != 0 && (errno == EISDIR || errno == EPERM))
      removeFolder(path);
}

extern "C" void removeAndEnd(int signal) {
  if (waiting.load() > 0) {
    waited.store(signal);
    return;
  }
  removeTemporaries();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void removeTemporariesOnSignals() {
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT})
    handleSignal(signal, removeAndEnd);
}

SignalsWait::SignalsWait() { ++waiting; }

SignalsWait::~SignalsWait() {
  if (--waiting == 0)
    if (int signal = waited.exchange(0))
      std::raise(signal);
}

} // namespace tfm
