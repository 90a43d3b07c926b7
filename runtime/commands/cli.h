//===- cli.h - the commands of a compiled model -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_COMMANDS_CLI_H
#define TFM_RUNTIME_COMMANDS_CLI_H

#include "runtime/tfm_model.h"

namespace tfm {

/// Runs a model's command line (info, train, generate, logits, eval,
/// predict, data, export, bench) and returns the exit code: 0 success, 1 the
/// user's input is at fault, 2 wrong usage, 70 a bug of the program, 130
/// interrupted after saving.
int runCommandLine(const tfm_model &model, int argc, char **argv);

} // namespace tfm

#endif // TFM_RUNTIME_COMMANDS_CLI_H
