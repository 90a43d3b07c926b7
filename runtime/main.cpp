//===- main.cpp - the start of every compiled model ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/commands/cli.h"
#include "runtime/commands/crash.h"

#include <string>

int main(int argc, char **argv) {
  static const std::string otherProcessor =
      std::string("this processor lacks an instruction that the program was "
                  "compiled for (") +
      tfm_model_descriptor.variants[0].machine +
      "); build it on this machine, or for any processor of the last ten years "
      "with `tfmc build --cpu x86-64-v3`\n";
  tfm::installCrashHandlers(
      "This is a bug in tfm, not in your data. Please report it with the "
      "command, the .tfm file, and what the command `info --json` prints.\n",
      otherProcessor.c_str());
  return tfm::runCommandLine(tfm_model_descriptor, argc, argv);
}
