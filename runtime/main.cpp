//===- main.cpp - the start of every compiled model ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/commands/cli.h"
#include "runtime/commands/crash.h"
#include "runtime/device/variant.h"

#include <string>

int main(int argc, char **argv) {
  const tfm_variant *chosen = tfm::findVariant(tfm_model_descriptor);
  static const std::string otherProcessor =
      std::string("this processor lacks an instruction that the program was "
                  "compiled for (") +
      (chosen ? chosen->machine : "none of its variants runs here") +
      "); build it on this machine, or for others of its kind with `tfmc build "
      "--cpu portable`\n";
  tfm::installCrashHandlers(
      "This is a bug in tfm, not in your data. Please report it with the "
      "command, the .tfm file, and what the command `info --json` prints.\n",
      otherProcessor.c_str());
  return tfm::runCommandLine(tfm_model_descriptor, argc, argv);
}
