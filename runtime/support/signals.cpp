//===- signals.cpp - what users and launchers send ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/support/signals.h"

#include <atomic>
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

void handleSignal(int signal, void (*handler)(int), int flags) {
  struct sigaction before = {}, action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler != SIG_IGN)
    sigaction(signal, &action, nullptr);
}

} // namespace tfm
