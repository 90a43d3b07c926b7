//===- crash.h - the end of a program that has a bug ------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_COMMANDS_CRASH_H
#define TFM_RUNTIME_COMMANDS_CRASH_H

#include <string>

namespace tfm {

/// Exit status of a program that has a bug.
inline constexpr int exitBug = 70;

/// Writes `internal error: WHAT` and what `installCrashHandlers` was told to
/// standard error, and exits with status 70. Allocates nothing, so that it can
/// run after a crash.
[[noreturn]] void leaveWithBug(const char *what);

/// From now on the message begins with the name of this process: there are
/// others. Crashes end as before, whatever their library has put in place.
void nameInCrashes(const std::string &name);

/// Lets crashes (bad memory accesses, division by zero, abort) end in
/// `leaveWithBug`. `advice` is a line on how to report the bug. An instruction
/// that the processor lacks is no bug of a program that was compiled for
/// another one: where `otherProcessor` is given, it is written and the status
/// is 1. Both must live as long as the program.
void installCrashHandlers(const char *advice,
                          const char *otherProcessor = nullptr);

} // namespace tfm

#endif // TFM_RUNTIME_COMMANDS_CRASH_H
