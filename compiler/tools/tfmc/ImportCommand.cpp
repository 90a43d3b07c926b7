//===- ImportCommand.cpp - tfmc import ------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Import.h"
#include "Output.h"

#include "runtime/commands/usage.h"
#include "runtime/error.h"
#include "runtime/files/atomic_file.h"

using namespace tfm;

/// Whether there is a file with another text, such as one with a recipe that
/// was added; says so.
static bool saysOther(const std::string &path, const std::string &text) {
  // The runtime throws.
  try {
    if (path == "-" || !isRegularFile(path) ||
        readFile(path, "the file") == text)
      return false;
    messages() << "tfmc: error: " << path
               << " exists already, and says something else, which would be "
                  "lost: choose another file (-o), or pass --overwrite\n";
  } catch (const InputError &error) {
    messages() << "tfmc: error: " << error.what() << "\n";
  }
  return true;
}

void tfm::addImportCommand(CLI::App &app, int &status) {
  auto options = std::make_shared<ImportOptions>();
  auto overwrite = std::make_shared<bool>(false);
  CLI::App *command = app.add_subcommand(
      "import", "Write the model file of a Hugging Face folder, from its "
                "config.json, and check it against the weights");
  command->add_option("FOLDER", options->folder, "The folder")
      ->required()
      ->transform(usage::folder());
  command
      ->add_option("-o,--output", options->output,
                   "The file to write instead of standard output")
      ->check(usage::path());
  command->add_flag("--overwrite", *overwrite,
                    "Replace a file that says something else");
  addImportOptions(*command, *options);
  command->callback([options, overwrite, &status] {
    std::optional<std::string> text = importModel(*options);
    bool isKept = text && !*overwrite && saysOther(options->output, *text);
    status = text && !isKept && writeOutput(options->output, *text) ? 0 : 1;
  });
}
