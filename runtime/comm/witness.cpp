//===- witness.cpp - who tells that a process has been killed -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/witness.h"

#include "runtime/support/signals.h"
#include "runtime/support/temporaries.h"

#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <string_view>
#include <unistd.h>

namespace tfm {

/// A pipe to the shell: a line dismisses it, an empty one without more, and its
/// end is that of the process.
static int toWitness = -1;

void startWitness(const std::string &name, bool isStep) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return;
  // Launchers drop what they have not read when all ends.
  const char *script =
      "if read -r line; then [ \"$line\" ] || exit; else echo \"error: $0 has "
      "died without a word, as processes do that the system kills where memory "
      "is short\" >&2; fi; sleep 0.2; [ \"$1\" ] || exit; "
      "if command -v scancel >/dev/null; then scancel --signal=KILL "
      "\"$SLURM_JOB_ID.$SLURM_STEP_ID\"; "
      "else echo \"note: there is no scancel here that ends the other "
      "processes, which may wait until --timeout: srun --kill-on-bad-exit=1 "
      "ends them\" >&2; fi";
  pid_t shell = fork();
  if (shell == 0) {
    // What ends all processes in order reaches the shell, too.
    sigset_t signals;
    sigfillset(&signals);
    sigprocmask(SIG_SETMASK, &signals, nullptr);
    dup2(ends[0], STDIN_FILENO);
    execl("/bin/sh", "sh", "-c", script, name.c_str(), isStep ? "step" : "",
          nullptr);
    _exit(1);
  }
  if (shell < 0)
    return;
  // Both ends stay open here: so what is written to a shell that is gone is no
  // error.
  toWitness = ends[1];
  for (int signal : {SIGINT, SIGTERM, SIGHUP})
    handleSignal(signal, endBySignal);
  // An MPI that cannot begin says why, and exits.
  std::atexit([] { dismissWitness(/*endsAll=*/true); });
}

void dismissWitness(bool endsAll) {
  std::string_view line = endsAll ? "all\n" : "\n";
  // Where this fails it says too much.
  if (toWitness >= 0 && write(toWitness, line.data(), line.size()) > 0)
    toWitness = -1;
}

extern "C" void endBySignal(int signal) {
  dismissWitness(/*endsAll=*/true);
  removeTemporaries();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

} // namespace tfm
