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

#include "runtime/commands/crash.h"
#include "runtime/commands/usage.h"
#include "runtime/support/temporaries.h"

#include "llvm/Config/llvm-config.h"
#include "llvm/Support/ErrorHandling.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>
#include <unistd.h>

static constexpr int exitUsage = 2;
static const char bugReport[] =
    "This is a bug in tfmc, not in your file. Please report it with the "
    "command, the file, and what `tfmc --version` prints: see CONTRIBUTING.md, "
    "\"Reporting a bug\".\n";

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
  tfm::addImportCommand(app, status);
  tfm::addReportCommand(app, status);
  tfm::addPlotCommand(app, status);
  tfm::addFmtCommand(app, status);
  tfm::addDiffCommand(app, status);
  tfm::addExplainCommand(app, status);
  tfm::addNewCommand(app, status);
  tfm::addTokenizerCommand(app, status);
  tfm::addMpiCommand(app, status);
  if (std::string wrong = tfm::usage::unknownCommand(app, argc, argv);
      !wrong.empty()) {
    fputs(wrong.c_str(), stderr);
    return exitUsage;
  }
  try {
    app.parse(tfm::usage::wordsOf(app, argc, argv));
  } catch (const CLI::Success &success) {
    return app.exit(success);
  } catch (const CLI::ParseError &error) {
    app.exit(error);
    return exitUsage;
  }
  return status;
}

[[noreturn]] static void outOfMemory() {
  // There may be none to say it with.
  static constexpr char words[] = "tfmc: error: out of memory\n";
  (void)!write(STDERR_FILENO, words, sizeof words - 1);
  _exit(1);
}

int main(int argc, char **argv) {
  tfm::installCrashHandlers(bugReport);
  tfm::removeTemporariesOnSignals();
  std::signal(SIGXFSZ, SIG_IGN); // what is written then fails, and says so
  llvm::install_fatal_error_handler(
      [](void *, const char *reason, bool) { tfm::leaveWithBug(reason); });
  llvm::install_bad_alloc_error_handler(
      [](void *, const char *, bool) { outOfMemory(); });
  try {
    int status = run(argc, argv);
    // CLI11 writes help through std::cout. Nothing that is left needs its
    // destructor.
    std::cout.flush();
    if (!std::cout || fflush(stdout) != 0) {
      fprintf(stderr, "tfmc: error: cannot write to standard output: %s\n",
              strerror(errno));
      status = 1;
    }
    _exit(status);
  } catch (const std::bad_alloc &) {
    outOfMemory();
  } catch (const std::exception &error) {
    tfm::leaveWithBug(error.what());
  }
}
