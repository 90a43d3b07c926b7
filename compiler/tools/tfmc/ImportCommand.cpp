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

using namespace tfm;

void tfm::addImportCommand(CLI::App &app, int &status) {
  auto options = std::make_shared<ImportOptions>();
  auto overwrite = std::make_shared<bool>(false);
  CLI::App *command = app.add_subcommand(
      "import", "Write the model file of a Hugging Face folder, from its "
                "config.json, or of a gguf file, and check it against the "
                "weights");
  command->add_option("FOLDER", options->folder, "The folder, or a gguf file")
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
    // Such as one with a recipe that was added.
    bool isKept = text && !*overwrite && saysOther(options->output, *text);
    status = text && !isKept && writeOutput(options->output, *text) ? 0 : 1;
  });
}
