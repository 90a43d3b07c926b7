//===- tfmc.cpp - the command line of the compiler ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Exit status: 0 success, 1 the user's input is at fault, 2 wrong usage, 70 a
// bug in tfmc itself.
//
//===----------------------------------------------------------------------===//

#include "Commands.h"

#include "runtime/usage.h"

#include "llvm/Config/llvm-config.h"
#include "llvm/Support/ErrorHandling.h"

#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <unistd.h>

static constexpr int exitUsage = 2;
static constexpr int exitBug = 70;

static const char bugReport[] =
    "tfmc: this is a bug in tfmc, not in your file. Please report it with the "
    "command, the file, and what `tfmc --version` prints: see CONTRIBUTING.md, "
    "\"Reporting a bug\".\n";

/// Says how to report a bug and leaves; nothing here allocates, so that it can
/// run after a crash.
[[noreturn]] static void leaveWithBug(const char *what) {
  for (const char *part : {"tfmc: internal error: ", what, "\n", bugReport}) {
    // There is nothing to be done where even this cannot be written.
    if (write(STDERR_FILENO, part, strlen(part)) < 0)
      break;
  }
  _exit(exitBug);
}

static void onCrash(int signal) {
  leaveWithBug(signal == SIGSEGV  ? "invalid memory access"
               : signal == SIGFPE ? "division by zero"
               : signal == SIGILL ? "invalid instruction"
               : signal == SIGBUS ? "invalid memory access"
                                  : "aborted");
}

/// A stack overflow must still find a stack to say so on.
static void installCrashHandlers() {
  static char stack[64 * 1024];
  stack_t alternate = {};
  alternate.ss_sp = stack;
  alternate.ss_size = sizeof(stack);
  sigaltstack(&alternate, nullptr);
  struct sigaction action = {};
  action.sa_handler = onCrash;
  action.sa_flags = SA_ONSTACK;
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
    sigaction(signal, &action, nullptr);
  llvm::install_fatal_error_handler(
      [](void *, const char *reason, bool) { leaveWithBug(reason); });
}

static int run(int argc, char **argv) {
  CLI::App app("tfmc compiles transformer models written in .tfm files.",
               "tfmc");
  app.set_version_flag("--version",
                       "tfmc " TFM_VERSION " (LLVM " LLVM_VERSION_STRING ")");
  app.require_subcommand(1);
  app.failure_message(tfm::usage::failure);
  int status = 0;
  tfm::addCheckCommand(app, status);
  tfm::addBuildCommand(app, status);
  tfm::addRunCommand(app, status);
  tfm::addBenchCommand(app, status);
  tfm::addReportCommand(app, status);
  tfm::addPlotCommand(app, status);
  tfm::addFmtCommand(app, status);
  tfm::addDiffCommand(app, status);
  tfm::addExplainCommand(app, status);
  tfm::addNewCommand(app, status);
  tfm::addTokenizerCommand(app, status);
  if (std::string wrong = tfm::usage::unknownCommand(app, argc, argv);
      !wrong.empty()) {
    fputs(wrong.c_str(), stderr);
    return exitUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success &success) {
    return app.exit(success);
  } catch (const CLI::ParseError &error) {
    app.exit(error);
    return exitUsage;
  }
  return status;
}

int main(int argc, char **argv) {
  installCrashHandlers();
  try {
    int status = run(argc, argv);
    // CLI11 writes help through std::cout. Nothing that is left needs its
    // destructor.
    std::cout.flush();
    if (fflush(stdout) != 0)
      status = 1;
    _exit(status);
  } catch (const std::exception &error) {
    leaveWithBug(error.what());
  }
}
