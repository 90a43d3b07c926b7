//===- RunCommand.cpp - tfmc run and tfmc bench ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "ModelInput.h"
#include "Output.h"

#include "compiler/driver/Build.h"
#include "compiler/driver/Pipelines.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Errno.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/SHA1.h"
#include "llvm/Support/raw_ostream.h"

#include <cerrno>
#include <unistd.h>

using namespace tfm;

/// Identifies what a build would make: the elaborated model, with everything
/// that it imports, this compiler, and the CPU that it compiles for, as several
/// machines may have one home folder.
static std::string cacheKey(CompiledModel &model) {
  std::string text;
  llvm::raw_string_ostream os(text);
  model.module->print(os);
  os << "\n" << TFM_VERSION;
  llvm::sys::fs::file_status self;
  if (!llvm::sys::fs::status("/proc/self/exe", self))
    os << "\n"
       << self.getSize() << " "
       << self.getLastModificationTime().time_since_epoch().count();
  registerTargets();
  if (llvm::Expected<const KernelTarget *> target = KernelTarget::named("cpu"))
    os << "\n" << (*target)->identity();
  else
    llvm::consumeError(target.takeError()); // the build will tell of it
  return llvm::toHex(llvm::SHA1::hash(llvm::arrayRefFromStringRef(text)),
                     /*LowerCase=*/true);
}

/// `~/.cache/tfm/KEY`, or below $XDG_CACHE_HOME.
static llvm::SmallString<128> cacheFolder(const std::string &key) {
  llvm::SmallString<128> folder;
  if (!llvm::sys::path::cache_directory(folder))
    llvm::sys::path::system_temp_directory(/*erasedOnReboot=*/true, folder);
  llvm::sys::path::append(folder, "tfm", key);
  return folder;
}

/// Wrong usage where an override stands among the binary's own arguments.
static void refuseDefines(const std::vector<std::string> &command) {
  for (size_t i = 0; i != command.size(); ++i) {
    llvm::StringRef define = command[i];
    if (!define.consume_front("-D"))
      continue;
    if (define.empty() && i + 1 != command.size())
      define = command[i + 1];
    if (define.contains('='))
      throw CLI::ValidationError("-D",
                                 "what follows `" + command.front() +
                                     "` belongs to the binary: write -D " +
                                     define.str() + " before it");
  }
}

static int runModel(const std::string &file,
                    const std::vector<std::string> &defineTexts,
                    const std::vector<std::string> &command) {
  if (file == "-") {
    messages() << "tfmc: error: a model from standard input can be built "
                  "but not run; save it in a file\n";
    return 1;
  }
  Defines defines = parseDefines(defineTexts);
  CompiledModel model = loadModel(file, defines);
  if (!model.module)
    return 1;
  llvm::SmallString<128> folder = cacheFolder(cacheKey(model));
  std::string name = llvm::sys::path::stem(file).str();
  llvm::SmallString<128> binary(folder);
  llvm::sys::path::append(binary, name);
  if (!llvm::sys::fs::exists(binary)) {
    if (std::error_code error = llvm::sys::fs::create_directories(folder)) {
      messages() << "tfmc: cannot create " << folder << ": " << error.message()
                 << "\n";
      return 1;
    }
    BuildOptions options;
    options.source = file;
    options.output = binary.str().str();
    options.defines = defines;
    // The model above has told of them.
    options.warn = false;
    switch (build(options)) {
    case BuildStatus::Ok:
      break;
    case BuildStatus::InputError:
      return 1;
    case BuildStatus::Bug:
      return 70;
    }
  }
  std::string path = binary.str().str();
  // What the binary calls itself: what the user typed.
  std::string called = "tfmc run " + file;
  std::vector<char *> arguments = {called.data()};
  for (const std::string &argument : command)
    arguments.push_back(const_cast<char *>(argument.c_str()));
  arguments.push_back(nullptr);
  execv(path.c_str(), arguments.data());
  messages() << "tfmc: cannot run " << path << ": "
             << llvm::sys::StrError(errno) << "\n";
  return 1;
}

void tfm::addRunCommand(CLI::App &app, int &status) {
  struct Options {
    std::string file;
    std::vector<std::string> defines;
  };
  auto options = std::make_shared<Options>();
  CLI::App *command = app.add_subcommand(
      "run", "Build a model if that is needed, then run the binary: "
             "tfmc run FILE train --steps 100");
  command->add_option("FILE", options->file, "The model")->required();
  addDefineOption(*command, options->defines);
  // What follows the file belongs to the binary.
  command->prefix_command();
  command->callback([options, command, &status] {
    refuseDefines(command->remaining());
    status = runModel(options->file, options->defines, command->remaining());
  });
}

void tfm::addBenchCommand(CLI::App &app, int &status) {
  struct Options {
    std::string file;
    std::vector<std::string> defines;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App *command =
      app.add_subcommand("bench", "Build a model and time its functions");
  command->add_option("FILE", options->file, "The model")->required();
  addDefineOption(*command, options->defines);
  command->add_flag("--json", options->json, "For programs");
  command->callback([options, &status] {
    std::vector<std::string> arguments = {"bench"};
    if (options->json)
      arguments.push_back("--json");
    status = runModel(options->file, options->defines, arguments);
  });
}
