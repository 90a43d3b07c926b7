//===- crash.cpp - the end of a program that has a bug --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/commands/crash.h"

#include "runtime/comm/witness.h"

#include <csignal>
#include <cstring>
#include <initializer_list>
#include <sys/uio.h>
#include <unistd.h>

namespace tfm {

static const char *reportAdvice = "";
static const char *processorAdvice = nullptr;
/// Who it is that crashes: nothing where there is one process alone.
static const char *crashing = "";

/// Allocates nothing. At once, as other processes may write there, too.
static void tell(std::initializer_list<const char *> parts) {
  iovec words[8];
  int count = 0;
  for (const char *part : parts)
    words[count++] = {const_cast<char *>(part), strlen(part)};
  // There is nothing to be done where even this cannot be written.
  (void)!writev(STDERR_FILENO, words, count);
}

/// `other` is what may have ended it if not a bug.
[[noreturn]] static void leave(const char *what, const char *other) {
  tell({crashing, "internal error: ", what, "\n", other, reportAdvice});
  dismissWitness(/*endsAll=*/true);
  if (*crashing)
    usleep(200'000); // MPICH's launcher drops what it has not read by then
  _exit(exitBug);
}

void leaveWithBug(const char *what) { leave(what, ""); }

static void onCrash(int signal) {
  if (signal == SIGILL && processorAdvice) {
    tell({"error: ", processorAdvice});
    _exit(1);
  }
  if (signal == SIGABRT)
    leave("aborted", *crashing ? "Where another process has died, MPI may have "
                                 "done this. Where none has:\n"
                               : "");
  leaveWithBug(signal == SIGSEGV || signal == SIGBUS ? "invalid memory access"
               : signal == SIGFPE                    ? "division by zero"
                                                     : "invalid instruction");
}

static void catchCrashes() {
  struct sigaction action = {};
  action.sa_handler = onCrash;
  action.sa_flags = SA_ONSTACK;
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
    sigaction(signal, &action, nullptr);
}

void nameInCrashes(const std::string &name) {
  static std::string kept;
  kept = name + ": ";
  crashing = kept.c_str();
  // UCX, which MPICH loads, has a handler of its own, which allocates, and
  // waits for ever where the crash was within malloc.
  catchCrashes();
}

void installCrashHandlers(const char *advice, const char *otherProcessor) {
  reportAdvice = advice;
  processorAdvice = otherProcessor;
  // A stack overflow must still find a stack to say so on.
  static char stack[64 * 1024];
  stack_t alternate = {};
  alternate.ss_sp = stack;
  alternate.ss_size = sizeof(stack);
  sigaltstack(&alternate, nullptr);
  catchCrashes();
}

} // namespace tfm
