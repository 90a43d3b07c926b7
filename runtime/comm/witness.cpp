//===- witness.cpp - who tells that a process has been killed -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/witness.h"

#include "runtime/files/temporaries.h"

#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <spawn.h>
#include <string_view>
#include <unistd.h>

namespace tfm {

/// A pipe to the shell: a line dismisses it, an empty one without more, and its
/// end is that of the process.
static int toWitness = -1;

void startWitness(const std::string &name, const std::string &step) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return;
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, ends[0], STDIN_FILENO);
  // What ends all processes in order reaches the shell, too.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t signals;
  sigfillset(&signals);
  posix_spawnattr_setsigmask(&attributes, &signals);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  // Launchers drop what they have not read when all ends.
  const char *script =
      "if read -r line; then [ \"$line\" ] || exit; else echo \"error: $0 has "
      "died without a word, as processes do that the system kills where memory "
      "is short\" >&2; fi; sleep 0.2; [ \"$1\" ] && scancel --signal=KILL "
      "\"$1\"";
  const char *words[] = {"sh",         "-c",         script,
                         name.c_str(), step.c_str(), nullptr};
  pid_t shell = 0;
  // Both ends stay open here: so what is written to a shell that is gone is no
  // error.
  if (posix_spawn(&shell, "/bin/sh", &files, &attributes,
                  const_cast<char **>(words), environ) == 0) {
    toWitness = ends[1];
    for (int signal : {SIGINT, SIGTERM, SIGHUP})
      if (std::signal(signal, endBySignal) == SIG_IGN)
        std::signal(signal, SIG_IGN);
    // An MPI that cannot begin says why, and exits.
    std::atexit([] { dismissWitness(/*endsAll=*/true); });
  }
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
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
