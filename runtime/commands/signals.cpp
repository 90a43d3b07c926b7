//===- signals.cpp - what users and launchers send ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/commands/signals.h"

#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>

namespace tfm {

Came noteSignal(int signal) {
  static std::atomic<int64_t> first[NSIG]; // in milliseconds, 0: not yet
  timespec time = {};
  clock_gettime(CLOCK_MONOTONIC, &time);
  int64_t now = time.tv_sec * 1000 + time.tv_nsec / 1'000'000 + 1, none = 0;
  if (first[signal].compare_exchange_strong(none, now))
    return Came::First;
  return now - none < 500 ? Came::JustNow : Came::Before;
}

} // namespace tfm
