//===- CheckCommand.cpp - tfmc check --------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "ModelInput.h"
#include "Output.h"

#include "runtime/commands/usage.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace tfm;

/// Checks a file; says what of it could not be checked. Whether it is right.
static bool check(const std::string &file, const Defines &defines) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  SourceManager sources;
  Diagnostics diagnostics(sources);
  FrontendOptions options;
  options.defines = defines;
  // `build` does both: they take longer than the rest.
  options.openTokenizer = false;
  options.wholeConstants = false;
  std::vector<std::string> unchecked;
  checkFile(context, sources, file, options, diagnostics, unchecked);
  printDiagnostics(diagnostics);
  if (diagnostics.hasErrors())
    return false;
  if (!unchecked.empty())
    messages() << "tfmc: note: there is no model in " << file
               << ", and without values only the syntax of "
               << llvm::join(unchecked, ", ")
               << " could be checked: give values to all modules with -D "
                  "name=value, or check a model that imports them\n";
  return true;
}

void tfm::addCheckCommand(CLI::App &app, int &status) {
  struct Options {
    std::string file;
    std::vector<std::string> defines;
  };
  auto options = std::make_shared<Options>();
  CLI::App *command = app.add_subcommand(
      "check", "Check a file: syntax, names, every shape. Prints nothing when "
               "all is well");
  command->add_option("FILE", options->file, "The model, - for standard input")
      ->required()
      ->check(usage::path());
  addDefineOption(*command, options->defines);
  command->callback([options, &status] {
    status = check(options->file, parseDefines(options->defines)) ? 0 : 1;
  });
}
