//===- FmtCommand.cpp - tfmc fmt ------------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "ModelInput.h"
#include "Output.h"

#include "compiler/frontend/format/Format.h"
#include "runtime/commands/usage.h"

#include "llvm/Support/raw_ostream.h"

using namespace tfm;

/// Formats one file; false where that is not possible, or where `check` finds
/// it in another formatting.
static bool formatOne(const std::string &path, bool check) {
  SourceManager sources;
  Diagnostics diagnostics(sources);
  llvm::Expected<uint32_t> file = sources.load(path);
  if (!file) {
    messages() << "tfmc: error: cannot read " << path << ": "
               << llvm::toString(file.takeError()) << "\n";
    return false;
  }
  std::optional<std::string> text = formatFile(sources, *file, diagnostics);
  if (!text) {
    printDiagnostics(diagnostics);
    return false;
  }
  bool changed = *text != sources.file(*file).text();
  if (check) {
    if (changed)
      messages() << "tfmc: error: " << sources.file(*file).name()
                 << " is not formatted; `tfmc fmt` does it\n";
    return !changed;
  }
  return (!changed && path != "-") || writeOutput(path, *text);
}

void tfm::addFmtCommand(CLI::App &app, int &status) {
  struct Arguments {
    std::vector<std::string> files;
    bool check = false;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App *command = app.add_subcommand(
      "fmt", "Write files in the one formatting, in place; comments stay");
  command
      ->add_option("FILE", arguments->files,
                   "Files to format; - from standard input to standard output")
      ->required()
      ->check(usage::path());
  command->add_flag("--check", arguments->check,
                    "Change nothing; exit status 1 where a file is not "
                    "formatted");
  command->callback([arguments, &status] {
    status = 0;
    for (const std::string &file : arguments->files)
      if (!formatOne(file, arguments->check))
        status = 1;
  });
}
