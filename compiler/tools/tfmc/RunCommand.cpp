//===- RunCommand.cpp - tfmc run and tfmc bench ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Import.h"
#include "ModelInput.h"
#include "Output.h"

#include "compiler/driver/Build.h"
#include "compiler/driver/Link.h"
#include "compiler/driver/Pipelines.h"
#include "compiler/report/Writers.h"
#include "runtime/commands/usage.h"
#include "runtime/formats/gguf.h"
#include "runtime/support/shell_word.h"
#include "runtime/support/system_call.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/Errno.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/SHA1.h"
#include "llvm/Support/raw_ostream.h"

#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <optional>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace tfm;

/// Identifies what a build would make: the elaborated model, with everything
/// that it imports, this compiler and its runtime, and the CPU that it compiles
/// for, as several machines may have one home folder.
static std::string cacheKey(CompiledModel &model) {
  std::string text;
  llvm::raw_string_ostream os(text);
  model.module->print(os);
  os << "\n" << TFM_VERSION;
  auto identify = [&](const llvm::Twine &path) {
    llvm::sys::fs::file_status file;
    if (!llvm::sys::fs::status(path, file))
      os << "\n"
         << file.getSize() << " "
         << file.getLastModificationTime().time_since_epoch().count();
  };
  identify("/proc/self/exe");
  if (llvm::Expected<std::string> runtime = findRuntime())
    identify(*runtime);
  else
    llvm::consumeError(runtime.takeError()); // the build will tell of it
  registerTargets();
  if (llvm::Expected<const KernelTarget *> target = KernelTarget::named("cpu"))
    os << "\n" << (*target)->identity();
  else
    llvm::consumeError(target.takeError()); // the build will tell of it
  return llvm::toHex(llvm::SHA1::hash(llvm::arrayRefFromStringRef(text)),
                     /*LowerCase=*/true);
}

/// `~/.cache/tfm`, or below $XDG_CACHE_HOME.
static llvm::SmallString<128> cacheFolder() {
  llvm::SmallString<128> folder;
  // Empty is as good as unset; LLVM takes it for the folder that one is in.
  for (const char *name : {"XDG_CACHE_HOME", "HOME"})
    if (llvm::sys::Process::GetEnv(name) == "")
      unsetenv(name);
  if (!llvm::sys::path::cache_directory(folder))
    llvm::sys::path::system_temp_directory(/*erasedOnReboot=*/true, folder);
  llvm::sys::path::append(folder, "tfm");
  return folder;
}

/// Whether a folder of the cache is one that `tfmc` made, and neither it nor
/// any of its files was touched since `time`.
static bool isUnusedSince(const std::string &folder,
                          llvm::sys::TimePoint<> time) {
  llvm::StringRef key = llvm::sys::path::filename(folder);
  if (key.size() != 40 || !llvm::all_of(key, llvm::isHexDigit))
    return false;
  auto isOld = [&](const std::string &path) {
    llvm::sys::fs::file_status status;
    return !llvm::sys::fs::status(path, status) &&
           status.getLastModificationTime() < time;
  };
  if (!isOld(folder))
    return false;
  std::error_code error;
  for (llvm::sys::fs::directory_iterator file(folder, error), end;
       !error && file != end; file.increment(error))
    if (!isOld(file->path()))
      return false;
  return !error;
}

/// What to do where the cache is of no use.
static const char otherCache[] =
    "set XDG_CACHE_HOME to a folder where programs may be written and run, or "
    "use `tfmc build`\n";

/// Each change of a model leaves a program: those that were not used for a
/// month go.
static void removeUnused() {
  auto monthAgo = std::chrono::system_clock::now() - std::chrono::months(1);
  std::error_code error;
  for (llvm::sys::fs::directory_iterator folder(cacheFolder(), error), end;
       !error && folder != end; folder.increment(error))
    if (isUnusedSince(folder->path(), monthAgo))
      (void)llvm::sys::fs::remove_directories(folder->path());
}

/// Makes the folder of a key in the cache; returns it, or nothing after a
/// message.
static std::optional<llvm::SmallString<128>>
makeCacheFolder(const std::string &key) {
  removeUnused();
  llvm::SmallString<128> folder = cacheFolder();
  llvm::sys::path::append(folder, key);
  std::error_code error = llvm::sys::fs::create_directories(folder);
  if (!error)
    return folder;
  messages() << "tfmc: error: cannot create " << folder << ": "
             << error.message() << "; " << otherCache;
  return std::nullopt;
}

/// Notes that a file of the cache is used.
static void touch(const std::string &path) {
  (void)utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
}

/// Wrong usage where an override stands among the binary's own arguments.
static void refuseDefines(const std::vector<std::string> &command) {
  for (size_t i = 0; i != command.size(); ++i) {
    llvm::StringRef define = command[i];
    // A text may begin so.
    if (llvm::is_contained({"--prompt", "--stop", "--logit-bias"}, define))
      ++i;
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

/// A disk that was full, or a crash of the machine, leaves parts of files.
static bool isWholeProgram(const std::string &path) {
  auto file = llvm::object::ObjectFile::createObjectFile(path);
  if (!file)
    llvm::consumeError(file.takeError());
  return static_cast<bool>(file);
}

/// Sets `binary` to that of a model, which is built into the cache where that
/// is needed; else returns an exit status after a message, also where `output`
/// is what the model reads.
static int findBinary(const std::string &file,
                      const std::vector<std::string> &defineTexts,
                      std::string &binary, const std::string &output = "") {
  if (file == "-") {
    messages() << "tfmc: error: a model from standard input can be built "
                  "but not run; save it in a file\n";
    return 1;
  }
  Defines defines = parseDefines(defineTexts);
  CompiledModel model = loadModel(file, defines);
  if (!model.module || isInput(output, model.files) || isModelFile(output))
    return 1;
  std::string key = cacheKey(model);
  llvm::SmallString<128> path = cacheFolder();
  llvm::sys::path::append(path, key, llvm::sys::path::stem(file));
  binary = path.str().str();
  if (isWholeProgram(binary)) {
    touch(binary);
    return 0;
  }
  if (!makeCacheFolder(key))
    return 1;
  BuildOptions options;
  options.source = file;
  options.output = binary;
  options.defines = defines;
  // The model above has told of them.
  options.warn = false;
  return static_cast<int>(build(options));
}

/// The arguments of a binary as the system takes them; the binary calls itself
/// what the user typed. They point into what is given.
static std::vector<char *>
argumentsOf(std::string &called, const std::vector<std::string> &command) {
  std::vector<char *> arguments = {called.data()};
  for (const std::string &argument : command)
    arguments.push_back(const_cast<char *>(argument.c_str()));
  arguments.push_back(nullptr);
  return arguments;
}

static int cannotRun(const std::string &binary, int error) {
  messages() << "tfmc: error: cannot run " << binary << ": "
             << llvm::sys::StrError(error) << "; " << otherCache;
  return 1;
}

/// Writes the model file of a folder of the hub into the cache; returns its
/// path, or nothing after a message.
static std::optional<std::string> importIntoCache(ImportOptions options) {
  std::optional<std::string> text = importModel(options);
  if (!text)
    return std::nullopt;
  std::optional<llvm::SmallString<128>> path =
      makeCacheFolder(llvm::toHex(llvm::SHA1::hash(llvm::arrayRefFromStringRef(
                                      *text + "\n" + options.folder)),
                                  /*LowerCase=*/true));
  if (!path)
    return std::nullopt;
  llvm::sys::path::append(*path, "model.tfm");
  if (!llvm::sys::fs::exists(*path) && !writeOutput(*path, *text))
    return std::nullopt;
  touch(path->str().str());
  return path->str().str();
}

static bool asksForHelp(llvm::StringRef word) {
  return word == "--help" || word == "-h";
}

/// Whether a command needs a `train` block, which no folder has. The file in
/// the cache is nothing to edit.
static bool needsTrainBlock(const std::vector<std::string> &command) {
  return !command.empty() && llvm::none_of(command, asksForHelp) &&
         llvm::is_contained({"train", "data", "eval"}, command.front());
}

/// The command with the folder as its weights, where it says nothing of any.
static std::vector<std::string> withWeights(std::vector<std::string> command,
                                            const std::string &folder) {
  if (command.empty())
    return command;
  bool takesWeights =
      llvm::is_contained({"generate", "logits", "export"}, command.front());
  bool isGiven = llvm::any_of(command, [&](llvm::StringRef word) {
    llvm::StringRef option = word.split('=').first;
    // What `--seed` draws takes the place of weights.
    return option == "--weights" || asksForHelp(word) ||
           (option == "--seed" && command.front() == "export");
  });
  if (takesWeights && !isGiven)
    command.insert(command.begin() + 1, {"--weights", folder});
  return command;
}

/// `typed` is what the user calls the file.
static int runModel(const std::string &file, const std::string &typed,
                    const std::vector<std::string> &defines,
                    const std::vector<std::string> &command) {
  std::string binary, called = "tfmc run " + shellWord(typed);
  if (int status = findBinary(file, defines, binary))
    return status;
  execv(binary.c_str(), argumentsOf(called, command).data());
  return cannotRun(binary, errno);
}

/// The same, but what the binary writes to standard output is in `text` when it
/// has ended, for the file `output`.
static int runModelInto(std::string &text, const std::string &output,
                        const std::string &file,
                        const std::vector<std::string> &defines,
                        const std::vector<std::string> &command) {
  std::string binary, called = "tfmc run " + shellWord(file);
  if (int status = findBinary(file, defines, binary, output))
    return status;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return cannotRun(binary, errno);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  pid_t child = 0;
  int error = posix_spawn(&child, binary.c_str(), &actions, nullptr,
                          argumentsOf(called, command).data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  char part[4096];
  while (error == 0) {
    ssize_t size =
        uninterrupted([&] { return read(ends[0], part, sizeof part); });
    if (size < 0)
      error = errno;
    if (size <= 0)
      break;
    text.append(part, static_cast<size_t>(size));
  }
  close(ends[0]);
  int status = 0;
  if (child != 0 &&
      uninterrupted([&] { return waitpid(child, &status, 0); }) < 0)
    error = errno;
  if (error != 0)
    return cannotRun(binary, error);
  // As shells have it.
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void tfm::addRunCommand(CLI::App &app, int &status) {
  struct Options {
    std::string file;
    std::vector<std::string> defines;
    ImportOptions import;
  };
  auto options = std::make_shared<Options>();
  CLI::App *command = app.add_subcommand(
      "run", "Build a model if that is needed, then run the binary: "
             "tfmc run FILE train --steps 100");
  command
      ->add_option("FILE", options->file,
                   "The model, or a Hugging Face folder or gguf file, which is "
                   "imported")
      ->required()
      ->transform(usage::folder());
  addDefineOption(*command, options->defines);
  addImportOptions(*command, options->import);
  // What follows the file belongs to the binary.
  command->prefix_command();
  command->callback([options, command, &status] {
    refuseDefines(command->remaining());
    std::vector<std::string> words = command->remaining();
    std::string file = options->file;
    // An option that there is not: what stands behind it is then the file.
    if (!words.empty() && llvm::StringRef(words.front()).starts_with("-") &&
        !llvm::sys::fs::exists(file))
      throw CLI::ValidationError(words.front(),
                                 "what stands before the file is -D, "
                                 "--families or --ignore-key");
    if (llvm::sys::fs::is_directory(file) || isGguf(file)) {
      if (needsTrainBlock(words)) {
        messages() << "tfmc: error: `" << words.front()
                   << "` needs a `train` block, which the model of a folder "
                      "has not: write its file with `tfmc import "
                   << shellWord(file)
                   << " -o FILE`, add the block, and run that\n";
        status = 1;
        return;
      }
      options->import.folder = file;
      options->import.wholePaths = true;
      std::optional<std::string> imported = importIntoCache(options->import);
      if (!imported) {
        status = 1;
        return;
      }
      words = withWeights(std::move(words), file);
      file = *imported;
    }
    status = runModel(file, options->file, options->defines, words);
  });
}

namespace {

struct BenchOptions {
  std::string file;
  std::vector<std::string> defines;
  bool json = false;
  std::string format = "text";
  std::string output;
};

} // namespace

static int bench(const BenchOptions &options) {
  bool isPage = options.format == "html";
  std::vector<std::string> arguments = {"bench"};
  if (options.json || options.format != "text")
    arguments.push_back("--json");
  if (!isPage && options.output.empty())
    return runModel(options.file, options.file, options.defines, arguments);
  std::string text;
  if (int status = runModelInto(text, options.output, options.file,
                                options.defines, arguments))
    return status;
  // Of the processes that a launcher has started the first speaks for all.
  if (text.empty())
    return 0;
  if (isPage) {
    std::string page;
    llvm::raw_string_ostream os(page);
    if (llvm::Error error = writeBench(text, os))
      llvm::report_fatal_error(std::move(error));
    text = std::move(page);
  }
  return writeOutput(options.output, text) ? 0 : 1;
}

void tfm::addBenchCommand(CLI::App &app, int &status) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App *command =
      app.add_subcommand("bench", "Build a model and time its functions");
  command->add_option("FILE", options->file, "The model")
      ->required()
      ->check(usage::path());
  addDefineOption(*command, options->defines);
  CLI::Option *json =
      command->add_flag("--json", options->json, "For programs");
  command
      ->add_option("--format", options->format,
                   "text, json (as --json) or html: a page with the roofline "
                   "of all kernels")
      ->check(CLI::IsMember({"text", "json", "html"}).description(""))
      ->excludes(json);
  command
      ->add_option("-o,--output", options->output,
                   "Write to a file instead of standard output")
      ->check(usage::path());
  command->callback([options, &status] { status = bench(*options); });
}
