//===- PlotCommand.cpp - tfmc plot ----------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Output.h"

#include "compiler/report/TrainingLog.h"
#include "runtime/commands/usage.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace tfm;

static int plot(const std::vector<std::string> &paths,
                const std::string &output) {
  if (isInput(output, paths) || isModelFile(output))
    return 1;
  std::vector<TrainingLog> logs;
  for (const std::string &path : paths) {
    llvm::Expected<TrainingLog> log = readTrainingLog(path);
    if (!log) {
      messages() << "tfmc: error: " << llvm::toString(log.takeError()) << "\n";
      return 1;
    }
    // That of a run's folder.
    if (isInput(output, log->path))
      return 1;
    logs.push_back(std::move(*log));
  }
  std::string text;
  llvm::raw_string_ostream os(text);
  writePlot(logs, os);
  return writeOutput(output, text) ? 0 : 1;
}

/// A page under the name of a picture is opened by nothing.
static std::string noPicture(const std::string &output) {
  llvm::StringRef ending = llvm::sys::path::extension(output);
  if (llvm::is_contained({".png", ".svg", ".pdf", ".jpg", ".jpeg"}, ending))
    return output + " would be a page for a browser and no picture: end its "
                    "name with .html";
  return "";
}

void tfm::addPlotCommand(CLI::App &app, int &status) {
  struct Arguments {
    std::vector<std::string> logs;
    std::string output;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App *command = app.add_subcommand(
      "plot", "The loss curves of training runs, as one page for a browser");
  command
      ->add_option("RUN", arguments->logs,
                   "Folders of runs, or logs (log.jsonl); several are drawn "
                   "over each other")
      ->required()
      ->transform(usage::folder());
  command
      ->add_option("-o,--output", arguments->output,
                   "The page to write, such as loss.html; - for standard "
                   "output")
      ->required()
      ->check(usage::path() & CLI::Validator(noPicture, ""));
  command->callback([arguments, &status] {
    status = plot(arguments->logs, arguments->output);
  });
}
