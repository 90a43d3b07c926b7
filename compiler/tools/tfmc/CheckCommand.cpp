//===- CheckCommand.cpp - tfmc check --------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "ModelInput.h"

using namespace tfm;

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
      ->required();
  addDefineOption(*command, options->defines);
  command->callback([options, &status] {
    CompiledModel model =
        loadModel(options->file, parseDefines(options->defines));
    status = model.module ? 0 : 1;
  });
}
