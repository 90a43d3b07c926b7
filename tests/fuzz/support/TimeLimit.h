//===- TimeLimit.h - a hang is a finding --------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TESTS_FUZZ_SUPPORT_TIMELIMIT_H
#define TFM_TESTS_FUZZ_SUPPORT_TIMELIMIT_H

#include <csignal>
#include <cstdlib>
#include <sys/time.h>
#include <unistd.h>

namespace tfm::fuzz {

/// Aborts, which libFuzzer takes for a crash at the input that it runs, where
/// the scope takes more than so many seconds of CPU time. libFuzzer's own
/// -timeout goes by the clock on the wall, and finds hangs on every busy
/// machine.
class TimeLimit {
public:
  explicit TimeLimit(int seconds) {
    [[maybe_unused]] static const auto old = std::signal(SIGPROF, overdue);
    set(seconds);
  }
  ~TimeLimit() { set(0); }
  TimeLimit(const TimeLimit &) = delete;
  TimeLimit &operator=(const TimeLimit &) = delete;

private:
  static void set(int seconds) {
    itimerval timer = {};
    timer.it_value.tv_sec = seconds;
    setitimer(ITIMER_PROF, &timer, nullptr);
  }
  static void overdue(int) {
    constexpr char message[] =
        "== the input takes more CPU time than allowed\n";
    if (write(STDERR_FILENO, message, sizeof message - 1) > 0)
      std::abort();
    std::abort();
  }
};

} // namespace tfm::fuzz

#endif // TFM_TESTS_FUZZ_SUPPORT_TIMELIMIT_H
