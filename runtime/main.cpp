//===- main.cpp - the start of every compiled model ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/cli.h"

int main(int argc, char **argv) {
  return tfm::runCommandLine(tfm_model_descriptor, argc, argv);
}
