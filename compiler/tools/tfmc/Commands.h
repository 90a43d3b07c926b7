//===- Commands.h - the commands of tfmc ----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each command adds itself to the command line, and when it was chosen leaves
// its exit status in `status`: 0, or 1 where the user's input is at fault.
// Wrong usage (2) and bugs (70) are dealt with in tfmc.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TOOLS_TFMC_COMMANDS_H
#define TFM_TOOLS_TFMC_COMMANDS_H

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

namespace tfm {

void addCheckCommand(CLI::App &app, int &status);

void addBuildCommand(CLI::App &app, int &status);
void addRunCommand(CLI::App &app, int &status);
void addBenchCommand(CLI::App &app, int &status);
void addFmtCommand(CLI::App &app, int &status);
void addPlotCommand(CLI::App &app, int &status);
void addImportCommand(CLI::App &app, int &status);
void addReportCommand(CLI::App &app, int &status);
void addDiffCommand(CLI::App &app, int &status);
void addExplainCommand(CLI::App &app, int &status);
void addNewCommand(CLI::App &app, int &status);
void addTokenizerCommand(CLI::App &app, int &status);
void addMpiCommand(CLI::App &app, int &status);

} // namespace tfm

#endif // TFM_TOOLS_TFMC_COMMANDS_H
