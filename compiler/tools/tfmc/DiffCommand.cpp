//===- DiffCommand.cpp - tfmc diff ----------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "ModelInput.h"
#include "Output.h"

#include "compiler/driver/MemoryPlan.h"
#include "compiler/report/Diff.h"
#include "runtime/commands/usage.h"

#include "llvm/Support/raw_ostream.h"

using namespace tfm;

static std::optional<ModelReport> reportOf(const std::string &file,
                                           const Defines &defines) {
  CompiledModel model = loadModel(file, defines);
  if (!model.module)
    return std::nullopt;
  differentiate(model);
  llvm::Expected<ModelReport> report = makeReport(*model.module);
  if (!report)
    llvm::report_fatal_error(report.takeError());
  const KernelTarget *target = findTarget("cpu", "native");
  if (!target)
    return std::nullopt;
  report->memory =
      planModelMemory(*model.module, *fastestOf(target, *model.module));
  return std::move(*report);
}

void tfm::addDiffCommand(CLI::App &app, int &status) {
  struct Arguments {
    std::string before, after;
    std::vector<std::string> defines;
    bool json = false;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App *command = app.add_subcommand(
      "diff", "What changed between two models: hyperparameters, parameters, "
              "shapes, FLOPs, memory");
  command->add_option("A", arguments->before, "The model before")
      ->required()
      ->check(usage::path());
  command->add_option("B", arguments->after, "The model after")
      ->required()
      ->check(usage::path());
  addDefineOption(*command, arguments->defines);
  command->add_flag("--json", arguments->json, "For programs");
  command->callback([arguments, &status] {
    status = 1;
    Defines defines = parseDefines(arguments->defines);
    std::optional<ModelReport> a = reportOf(arguments->before, defines);
    if (!a)
      return;
    std::optional<ModelReport> b = reportOf(arguments->after, defines);
    if (!b)
      return;
    std::vector<Difference> differences = diffReports(*a, *b);
    std::string text;
    llvm::raw_string_ostream os(text);
    if (arguments->json)
      writeDiffJson(*a, *b, differences, os);
    else
      writeDiffText(differences, os);
    status = writeOutput("", text) ? 0 : 1;
  });
}
