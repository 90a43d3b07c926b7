//===- BuildCommand.cpp - tfmc build --------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "ModelInput.h"
#include "Output.h"

#include "compiler/driver/Build.h"
#include "runtime/commands/usage.h"

using namespace tfm;

void tfm::addBuildCommand(CLI::App &app, int &status) {
  struct Options {
    BuildOptions build;
    std::vector<std::string> defines;
    std::string emit = "exe";
  };
  auto options = std::make_shared<Options>();
  CLI::App *command = app.add_subcommand(
      "build", "Compile a model to one binary that trains and generates");
  BuildOptions &build = options->build;
  command->add_option("FILE", build.source, "The model, - for standard input")
      ->required()
      ->check(usage::path());
  command->add_option("-o,--output", build.output, "The file to write")
      ->check(usage::path());
  static const std::map<std::string, Emit> kinds = {
      {"ast", Emit::Ast},           {"tfm", Emit::Tfm},
      {"schedule", Emit::Schedule}, {"llvm", Emit::Llvm},
      {"asm", Emit::Asm},           {"obj", Emit::Obj},
      {"shared", Emit::Shared},     {"exe", Emit::Exe}};
  std::vector<std::string> names;
  for (const auto &[name, kind] : kinds)
    names.push_back(name);
  command
      ->add_option(
          "--emit", options->emit,
          "What to write: ast, tfm, schedule, llvm, asm, obj, shared or "
          "exe (default)")
      ->check(CLI::IsMember(names).description(""));
  command->add_option(
      "--cpu", build.cpu,
      "The CPU to compile for, by LLVM's name (default: native), several with "
      "commas between, or portable: the best that fits is chosen at start");
  addTargetOption(*command, build.target,
                  "cpu (default), or cuda: code for NVIDIA's GPUs beside that "
                  "for CPUs, in one binary");
  command
      ->add_option("--precision", build.precision,
                   "f32 or bf16: what the recipe has to say")
      ->check(CLI::IsMember({"f32", "bf16"}).description(""));
  command->add_flag("--static", build.isStatic,
                    "Have the C library in the program, too: it then runs on "
                    "any Linux of such a CPU, without MPI and GPUs");
  command->add_flag("--time", build.time, "Say how long each stage took");
  addDefineOption(*command, options->defines);
  command->callback([options, &status] {
    options->build.defines = parseDefines(options->defines);
    options->build.emit = kinds.at(options->emit);
    if (isInput(options->build.output, options->build.source)) {
      status = 1;
      return;
    }
    status = static_cast<int>(tfm::build(options->build));
  });
}
