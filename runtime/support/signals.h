//===- signals.h - what users and launchers send ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_SUPPORT_SIGNALS_H
#define TFM_RUNTIME_SUPPORT_SIGNALS_H

#include <csignal>

namespace tfm {

/// For handlers of signals: whether this one came before, and not just now.
/// `timeout` and some launchers send one to a process and to its group, so the
/// second within half a second is the same.
enum class Came { First, JustNow, Before };
Came noteSignal(int signal);

/// Has `handler` answer a signal, unless that was ignored when the program
/// began: so does nohup, and a script with what it runs in the background.
void handleSignal(int signal, void (*handler)(int), int flags = SA_RESTART);

} // namespace tfm

#endif // TFM_RUNTIME_SUPPORT_SIGNALS_H
