//===- cli.cpp - the commands of a compiled model -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/commands/cli.h"

#include "runtime/chat/chat_template.h"
#include "runtime/comm/witness.h"
#include "runtime/commands/commands.h"
#include "runtime/commands/crash.h"
#include "runtime/commands/usage.h"
#include "runtime/device/choose_device.h"
#include "runtime/device/gpus.h"
#include "runtime/device/variant.h"
#include "runtime/files/run_folder.h"
#include "runtime/recipe.h"
#include "runtime/support/error.h"
#include "runtime/support/memory.h"
#include "runtime/support/progress.h"
#include "runtime/support/signals.h"
#include "runtime/support/temporaries.h"
#include "runtime/support/utf8.h"

#include <CLI/CLI.hpp>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <fmt/format.h>
#include <limits>
#include <new>
#include <set>
#include <sstream>
#include <unistd.h>

namespace tfm {

namespace {

/// Set by Ctrl-C; a signal handler can reach nothing but a global.
std::atomic<bool> interrupted{false};

/// A step may take a while; who waits should know.
void answerInterrupt(int signal, std::string_view note) {
  // The second Ctrl-C ends the program at once. That a terminal is gone is said
  // twice, by the shell and by the system, and that time is up every second.
  Came came = noteSignal(signal);
  if (came == Came::Before && signal != SIGHUP && signal != SIGXCPU)
    endBySignal(signal);
  if (came != Came::First)
    return;
  interrupted.store(true);
  int before = errno;
  (void)!write(STDERR_FILENO, note.data(), note.size());
  errno = before;
}

extern "C" void onQuietInterrupt(int signal) { answerInterrupt(signal, ""); }

extern "C" void onInterrupt(int signal) {
  answerInterrupt(signal, "\ninterrupted: what is trained is saved after this "
                          "step; once more ends at once\n");
}

/// Launchers also do it where another process has failed.
extern "C" void onInterruptOfMany(int signal) {
  answerInterrupt(signal, "\nasked to end: unless a process has failed, what "
                          "is trained is saved after this step; once more ends "
                          "at once\n");
}

/// Training ends with a checkpoint, whoever ends it, and says so where this
/// process `speaks`, for itself or for `many`; a reader of its samples that
/// goes away does not end it.
void handleSignalsOfTraining(bool speaks, bool many) {
  auto *handler = !speaks ? onQuietInterrupt
                  : many  ? onInterruptOfMany
                          : onInterrupt;
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGXCPU})
    handleSignal(signal, handler);
  std::signal(SIGPIPE, SIG_IGN);
}

/// A file must not become the standard output of a program that was started
/// without one: each that is closed is opened so that using it fails.
void occupyStandardStreams() {
  for (int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) < 0)
      // Some have no such device, but all have a root, which fails as well.
      if (open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
        (void)!open("/", O_RDONLY | O_DIRECTORY);
}

/// Steps, tokens and texts are counted in 32 bits by the random numbers.
constexpr uint64_t maxCount = std::numeric_limits<uint32_t>::max();
constexpr uint64_t maxSeed = std::numeric_limits<uint64_t>::max();

struct Commands {
  CommonOptions evaluation, information;
  BenchCommand benchmark;
  ExportCommand exportation;
  TrainCommand training;
  GenerateCommand generation, logits;
  PredictCommand prediction;
  DataCommand data;
  std::string logitsPath;
};

void addDevice(CLI::App *command, CommonOptions &options) {
  command
      ->add_option("--device", options.device,
                   "auto (default: a GPU where one runs this build), cpu, "
                   "cuda, or cuda:1 for the second GPU")
      ->check(CLI::Validator(
          [](const std::string &text) {
            return isDeviceName(text)
                       ? std::string()
                       : "there is no device '" + text +
                             "': auto, cpu, cuda (an NVIDIA GPU), or cuda:1";
          },
          ""));
}

void addCommon(CLI::App *command, CommonOptions &options, bool withJson = true,
               const std::string &json = "answer as one JSON object") {
  command
      ->add_option("--threads", options.threads,
                   "threads to use (default: all processors, or as many "
                   "as pay: see info)")
      ->transform(usage::wholeNumber(1, 1024));
  addDevice(command, options);
  if (withJson)
    command->add_flag("--json", options.json, json);
}

/// Of commands that share their work with other processes.
void addSharing(CLI::App *command, ProcessesOptions &options) {
  command
      ->add_option("--processes", options.wanted,
                   "share the work: auto (default: with those that a launcher "
                   "started), mpi, or none")
      ->check(CLI::IsMember({"auto", "mpi", "none"}));
  command
      ->add_option("--timeout", options.timeout,
                   "seconds after which a process that does not answer ends "
                   "all (default: 600)")
      ->check(usage::positive());
}

CLI::Option *addWeights(CLI::App *command, CommonOptions &options) {
  CLI::Option *weights =
      command
          ->add_option("--weights", options.weights,
                       "a safetensors or .gguf file, a run directory, or a "
                       "Hugging Face folder")
          ->required()
          ->transform(usage::folder());
  command->add_flag("--partial", options.partial,
                    "leave out what the model has not, such as another head");
  return weights;
}

void addTokenizer(CLI::App *command, CommonOptions &options) {
  command
      ->add_option(
          "--tokenizer", options.tokenizer,
          "a tokenizer.json, a SentencePiece .model, a .gguf file, or a "
          "folder with one or with vocab.json and merges.txt")
      ->transform(usage::folder());
}

/// What an option that sets a key takes: the key's range.
CLI::Validator rangeOf(const recipe::Range &range) {
  return range.most < recipe::unbounded
             ? usage::between(static_cast<int>(range.least),
                              static_cast<int>(range.most))
             : usage::nonNegative();
}

/// What the command line needs of a key of the recipe that an option sets.
struct KeyOption {
  const char *option;
  const char *help;
  recipe::Range range;
};

consteval KeyOption keyOption(std::string_view path) {
  recipe::Field field = recipe::field(path);
  // Both are literals, and so end in a zero.
  return {field.option.data(), field.help.data(), field.range};
}

/// `words`, with blanks between them, one by one.
std::vector<std::string> wordsOf(std::string_view words) {
  std::vector<std::string> all;
  while (!words.empty()) {
    all.emplace_back(words.substr(0, words.find(' ')));
    words.remove_prefix(std::min(words.size(), all.back().size() + 1));
  }
  return all;
}

template <typename T>
CLI::Option *addNumber(CLI::App *command, const KeyOption &key, T &value) {
  return command->add_option(key.option, value, key.help)
      ->check(rangeOf(key.range));
}

template <typename T>
CLI::Option *addWhole(CLI::App *command, const KeyOption &key, T &value,
                      uint64_t most = maxCount) {
  return command->add_option(key.option, value, key.help)
      ->transform(
          usage::wholeNumber(static_cast<uint64_t>(key.range.least), most));
}

CLI::Option *addChatVariables(CLI::App *command, CommonOptions &options) {
  return command
      ->add_option("--chat-template-kwargs", options.chatVariables,
                   "a JSON object with further variables for the chat "
                   "template: '{\"enable_thinking\": false}'")
      ->check(CLI::Validator(faultOfVariables, "JSON"))
      ->allow_extra_args(false); // brackets are text
}

void addTrain(CLI::App &app, TrainCommand &train) {
  CLI::App *command = app.add_subcommand("train", "train the model");
  TrainOptions &options = train.options;
  command->add_option("--data", train.data, "train on this file")
      ->check(usage::path());
  addTokenizer(command, train);
  addChatVariables(command, train);
  addWhole(command, keyOption("train.steps"), options.steps);
  addNumber(command, keyOption("train.optimizer.lr"), options.lr);
  CLI::Option *seed =
      addWhole(command, keyOption("train.seed"), options.seed, maxSeed);
  command
      ->add_option("--out", options.out, "run directory (default: runs/NAME)")
      ->transform(usage::folder());
  CLI::Option *init =
      command
          ->add_option_function<std::vector<std::string>>(
              "--init",
              [&options](const std::vector<std::string> &all) {
                for (const std::string &text : all)
                  options.init.push_back(InitialWeights::parse(text));
              },
              "begin with these weights; PART=FILE are those of a member of "
              "the model alone (repeatable)")
          ->allow_extra_args(false)
          ->transform(usage::folder() & usage::afterSign());
  command
      ->add_flag("--partial", options.partial,
                 "with --init: leave out what the model has not, and begin "
                 "fresh with what the weights have not")
      ->needs(init);
  command
      ->add_option("--resume", options.resume,
                   "continue the run in this directory, with its seed")
      ->transform(usage::folder())
      ->excludes(seed)
      ->excludes(init);
  command
      ->add_option("--log", options.log,
                   "log here instead of in the run directory")
      ->check(usage::fileOnDisk());
  command
      ->add_option("--profile", options.profile,
                   "write a trace of ten steps for chrome://tracing or "
                   "ui.perfetto.dev")
      ->check(usage::fileOnDisk());
  command->add_flag("--overwrite", options.overwrite,
                    "replace the run that --out already holds, or what --log "
                    "names");
  addCommon(command, train);
  addSharing(command, train.sharing);
}

void addPrompt(CLI::App *command, GenerateCommand &generate) {
  addWeights(command, generate);
  addTokenizer(command, generate);
  CLI::Option *prompt = command->add_option("--prompt", generate.prompt,
                                            "the text to begin with");
  command
      ->add_option("--prompt-file", generate.promptFile,
                   "file with that text, - for standard input")
      ->check(usage::path())
      ->excludes(prompt);
  command->add_flag("--ids", generate.ids,
                    "text is token ids in decimal, as in \"15 7\"");
}

void addData(CLI::App &app, DataCommand &data) {
  CLI::App *command = app.add_subcommand(
      "data", "show what the model is trained on, as text and as tokens");
  command
      ->add_option("--data", data.data, "this file instead of the model's data")
      ->check(usage::path());
  addTokenizer(command, data);
  addChatVariables(command, data);
  command
      ->add_option("--count", data.count,
                   "the first so many rows (default: 5; 0: sizes only)")
      ->transform(usage::wholeNumber(0, maxCount));
  command
      ->add_option("--part", data.part, "train or validation (default: train)")
      ->check(CLI::IsMember({"train", "validation"}));
  command->add_flag("--json", data.json, "answer as one JSON object");
}

/// `TOKEN=BIAS` with a number or -inf.
std::string checkBias(const std::string &text) {
  size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    return "expected TOKEN=BIAS, not " + text;
  char *end = nullptr;
  double bias = std::strtod(text.c_str() + equals + 1, &end);
  if (*end != '\0' || std::isnan(bias) || bias > 1e300)
    return "the bias of " + text + " is not a number or -inf";
  return "";
}

const std::map<std::string, StoredType> storedTypes = {
    {"f32", StoredType::F32},
    {"bf16", StoredType::BF16},
    {"f16", StoredType::F16},
    {"int8", StoredType::INT8},
    {"int4", StoredType::INT4}};

void addGenerate(CLI::App &app, GenerateCommand &generate) {
  CLI::App *command = app.add_subcommand("generate", "continue a prompt");
  addPrompt(command, generate);
  addWhole(command, keyOption("generate.tokens"), generate.tokens);
  addNumber(command, keyOption("generate.temperature"), generate.temperature);
  addWhole(command, keyOption("generate.top_k"), generate.topK);
  addNumber(command, keyOption("generate.top_p"), generate.topP);
  addNumber(command, keyOption("generate.min_p"), generate.minP);
  addNumber(command, keyOption("generate.typical_p"), generate.typicalP);
  constexpr KeyOption penalty = keyOption("generate.repeat_penalty");
  command->add_option(penalty.option, generate.repeatPenalty, penalty.help)
      ->check(usage::number(penalty.range.least, true, usage::unbounded,
                            "0.001 or more"));
  command
      ->add_option("--logit-bias", generate.logitBias,
                   "TOKEN=BIAS: adds to the logit of a token, given by its id "
                   "or text; -inf forbids it (repeatable)")
      ->check(CLI::Validator(checkBias, "TOKEN=BIAS"))
      ->allow_extra_args(false); // one each, and brackets are text
  constexpr KeyOption greedy = keyOption("generate.greedy");
  command->add_flag(greedy.option, generate.greedy, greedy.help);
  command->add_option("--seed", generate.seed, "seed of the draws")
      ->transform(usage::wholeNumber(0, maxSeed));
  constexpr KeyOption stop = keyOption("generate.stop");
  command
      ->add_option(stop.option, generate.stop,
                   std::string(stop.help) + " (repeatable)")
      ->check(CLI::Validator(
          [](const std::string &text) {
            return isUtf8(text) ? std::string()
                                : "'" + printable(text) +
                                      "' is not UTF-8, as all that is "
                                      "generated is";
          },
          ""))
      ->allow_extra_args(false);
  command->add_flag("--ignore-eos", generate.ignoreEos,
                    "go on behind tokens that end a text");
  constexpr KeyOption overflow = keyOption("generate.overflow");
  constexpr std::string_view overflowWords =
      recipe::field("generate.overflow").words;
  command->add_option(overflow.option, generate.overflow, overflow.help)
      ->check(CLI::IsMember(wordsOf(overflowWords)));
  command
      ->add_option("--lookahead", generate.lookahead,
                   "verify at most K tokens at once that the text so far "
                   "proposes: the same text, faster where it repeats itself")
      ->transform(usage::wholeNumber(0, maxCount));
  command
      ->add_option("--prompts", generate.prompts,
                   "file with prompts to continue, one a line, or JSON objects "
                   "with `prompt`; - for standard input")
      ->check(usage::path())
      ->excludes(command->get_option("--prompt"))
      ->excludes(command->get_option("--prompt-file"));
  CLI::Option *count =
      command
          ->add_option("--count", generate.count, "this many texts of a prompt")
          ->transform(usage::wholeNumber(1, maxCount));
  addCommon(command, generate, /*withJson=*/true,
            "print a JSON object for each text, as it ends");
  command
      ->add_option("--logprobs", generate.logprobs,
                   "with --json: of each token its log-probability and the K "
                   "best")
      ->transform(usage::wholeNumber(0, maxCount))
      ->needs(command->get_option("--json"));
  command
      ->add_flag("-i,--interactive", generate.interactive,
                 "continue what is typed, line by line")
      ->excludes(count)
      ->excludes(command->get_option("--prompt"))
      ->excludes(command->get_option("--prompt-file"))
      ->excludes(command->get_option("--prompts"))
      ->excludes(command->get_option("--json"));
  command
      ->add_flag("--chat", generate.chat,
                 "prompts are messages to answer, or JSON lists of them, put "
                 "into the chat template beside the tokenizer")
      ->excludes(command->get_option("--ids"));
  addChatVariables(command, generate)->needs(command->get_option("--chat"));
  addSharing(command, generate.sharing);
}

/// As `usage::failure`, and where what is no option here is set.
std::string failure(const CLI::App *app, const CLI::Error &error) {
  std::string text = usage::failure(app, error);
  const std::string block =
      app->got_subcommand("generate") ? "generate" : "train";
  // What text is generated with has the precision of training.
  auto isOf = [&](const recipe::Field &field) {
    return field.option.empty() && !field.isComputed &&
           (field.parent() == block || field.path == "train.precision");
  };
  for (const std::string &word : app->remaining(/*recurse=*/true)) {
    if (word.starts_with("-D"))
      return text + "`-D` is for the build: tfmc build FILE -D NAME=VALUE\n";
    for (const recipe::Field &field : recipe::fields)
      if (isOf(field) &&
          word.substr(0, word.find('=')) == fmt::format("--{}", field.name()))
        return text +
               fmt::format("The recipe has it: build with -D {}.{}=...\n",
                           field.parent(), field.name());
  }
  return text;
}

/// Declares the whole command line; returns after parsing it.
void declare(CLI::App &app, Commands &commands) {
  app.require_subcommand(0, 1);
  app.set_version_flag("--version", "tfm model, runtime " TFM_VERSION);
  CLI::App *about = app.add_subcommand("info", "what this model is (default)");
  addDevice(about, commands.information);
  about->add_flag("--json", commands.information.json,
                  "answer as one JSON object");
  addTrain(app, commands.training);
  addGenerate(app, commands.generation);

  CLI::App *eval = app.add_subcommand(
      "eval", "loss, perplexity, accuracy; exact answers where there are any");
  addWeights(eval, commands.evaluation);
  eval->add_option("--data", commands.evaluation.data,
                   "all of this file instead of the validation part")
      ->check(usage::path());
  addTokenizer(eval, commands.evaluation);
  addChatVariables(eval, commands.evaluation);
  addCommon(eval, commands.evaluation);
  addSharing(eval, commands.evaluation.sharing);

  CLI::App *predict = app.add_subcommand(
      "predict", "write what the model makes of each example of arrays");
  addWeights(predict, commands.prediction);
  predict
      ->add_option("--data", commands.prediction.data,
                   "the safetensors file with the arrays")
      ->required()
      ->check(usage::path());
  predict
      ->add_option("-o,--out", commands.prediction.out, "the safetensors file")
      ->required()
      ->check(usage::fileOnDisk());
  addCommon(predict, commands.prediction, /*withJson=*/false);

  addData(app, commands.data);

  CLI::App *logits = app.add_subcommand(
      "logits", "write the logits after every token of a text");
  addPrompt(logits, commands.logits);
  logits->add_option("-o,--out", commands.logitsPath, "the safetensors file")
      ->required()
      ->check(usage::fileOnDisk());
  addCommon(logits, commands.logits, /*withJson=*/false);

  CLI::App *exportation =
      app.add_subcommand("export", "write the weights alone");
  CLI::Option *exported =
      addWeights(exportation, commands.exportation)->required(false);
  exportation
      ->add_option("--seed", commands.exportation.seed,
                   "instead of --weights: those that `train` begins with, "
                   "drawn from this seed")
      ->transform(usage::wholeNumber(0, maxSeed))
      ->excludes(exported)
      ->excludes(exportation->get_option("--partial"));
  exportation->callback([&commands] {
    if (commands.exportation.weights.empty() && !commands.exportation.seed)
      throw CLI::RequiredError("--weights is required, or --seed",
                               CLI::ExitCodes::RequiredError);
  });
  exportation
      ->add_option(
          "-o,--out", commands.exportation.out,
          "the safetensors file, or DIR/, a folder as the hub has them")
      ->required()
      ->check(usage::fileOnDisk());
  exportation
      ->add_option_function<std::string>(
          "--dtype",
          [&commands](const std::string &name) {
            commands.exportation.dtype = storedTypes.at(name);
            commands.exportation.dtypeName = name;
          },
          "the type of the numbers: f32 (default), bf16, f16, or int8 or int4 "
          "for weights")
      ->check(CLI::IsMember(storedTypes));
  exportation->add_flag("--merge", commands.exportation.merge,
                        "add low-rank corrections (LoRA) to the weights that "
                        "they correct, and leave them out");
  exportation
      ->add_flag("--adapter", commands.exportation.adapter,
                 "these corrections alone, into DIR/ as PEFT loads them")
      ->excludes(exportation->get_option("--merge"))
      ->excludes(exportation->get_option("--seed"));
  exportation
      ->add_option("--part", commands.exportation.part,
                   "this member of the model alone, by the names that its "
                   "tensors have within it")
      ->check(CLI::Validator(
          [](const std::string &part) {
            return std::string(part.empty()
                                   ? "must name a member of the model, "
                                     "not nothing"
                                   : "");
          },
          ""))
      ->excludes(exportation->get_option("--adapter"));
  exportation->add_flag("--overwrite", commands.exportation.overwrite,
                        "replace what -o names, or another model in DIR/");

  CLI::App *bench = app.add_subcommand("bench", "time the model's functions");
  addCommon(bench, commands.benchmark);
  addSharing(bench, commands.benchmark.sharing);
  bench
      ->add_option("--function", commands.benchmark.functions,
                   "time this one alone: train, decode, ... (repeatable)")
      ->allow_extra_args(false)
      ->check(CLI::IsMember(
          std::set<std::string>(timedFunctions.begin(), timedFunctions.end())));
}

/// Finishes the checkpoints that are about to be read.
void settleRuns(const Commands &commands) {
  std::vector<std::string> runs = {
      commands.generation.weights, commands.evaluation.weights,
      commands.prediction.weights, commands.logits.weights,
      commands.exportation.weights};
  for (const InitialWeights &weights : commands.training.options.init)
    runs.push_back(weights.path);
  for (const std::string &run : runs)
    if (!run.empty())
      settle(run);
}

/// Sums of gradients as a tree are made on processors alone: who asks for no
/// device gets these.
void leaveTreesToProcessors(const tfm_model &model, TrainCommand &command) {
  TrainSpec train = recipeOf(model).train;
  if (command.device != "auto" || train.sum != "tree" || train.accumulate == 1)
    return;
  if (command.speaks() &&
      chooseVariant(modelFor(model, command.device)).image_count > 0)
    say("note: no GPU is used: with train.sum = tree processors train\n");
  command.device = "cpu";
}

void execute(const tfm_model &model, const std::string &command,
             Commands &commands, std::unique_ptr<Processes> &processes) {
  // A file that would grow past `ulimit -f` is an error of writing it.
  std::signal(SIGXFSZ, SIG_IGN);
  CommonOptions *shared = nullptr;
  if (command == "train")
    shared = &commands.training;
  else if (command == "eval")
    shared = &commands.evaluation;
  else if (command == "generate" && !commands.generation.interactive)
    shared = &commands.generation;
  else if (command == "bench")
    shared = &commands.benchmark;
  if (shared) {
    processes = joinProcesses(shared->sharing);
    shared->processes = processes.get();
  }
  if (int64_t tasks = tasksOfScript(environmentVariable);
      tasks > 1 && shared == &commands.training &&
      shared->sharing.wanted == "auto")
    say(fmt::format("note: this job of Slurm has {} tasks, but one process "
                    "trains, alone: `srun` starts all of them\n",
                    tasks));
  if (processes) {
    nameInCrashes(processes->name());
    requireSameProgram(*processes, command);
  }
  if (processes && shared->data == "-")
    throw AgreedError("--data - is read by each process, but standard input "
                      "reaches the first one alone: name a file");
  if (!processes || processes->isFirst())
    settleRuns(commands);
  auto on = [&](const CommonOptions &options) {
    // Of several processes each has a GPU of its own.
    tfm_model own = modelFor(model, options.device, /*runs=*/!processes);
    return processes && tfm_gpus
               ? tfm_gpus->likeAll(own, model, options.device, *processes)
               : own;
  };
  // Nobody reads before the first process has written.
  if (processes)
    processes->meet();
  if (command == "train") {
    handleSignalsOfTraining(commands.training.speaks(), processes != nullptr);
    leaveTreesToProcessors(model, commands.training);
    tfm_model own = on(commands.training);
    train(own, std::move(commands.training), interrupted);
  } else if (command == "generate") {
    generate(on(commands.generation), commands.generation);
  } else if (command == "eval") {
    evaluate(on(commands.evaluation), commands.evaluation);
  } else if (command == "predict") {
    predict(on(commands.prediction), commands.prediction);
  } else if (command == "data") {
    showData(withoutCode(modelFor(model, "cpu")), commands.data);
  } else if (command == "logits") {
    writeLogits(on(commands.logits), commands.logits, commands.logitsPath);
  } else if (command == "export") {
    exportWeights(withoutCode(modelFor(model, "cpu")), commands.exportation);
  } else if (command == "bench") {
    bench(on(commands.benchmark), commands.benchmark);
  } else {
    info(model, commands.information);
  }
}

/// Parses and runs a command; returns its exit status.
int runCommand(const tfm_model &model, int argc, char **argv,
               std::unique_ptr<Processes> &processes) {
  const char *program = argc > 0 ? argv[0] : "model";
  occupyStandardStreams();
  removeTemporariesOnSignals();
  CLI::App app(std::string(model.name) + ", a compiled transformer");
  Commands commands;
  declare(app, commands);
  for (const std::string &name : refusedCommands(model))
    app.get_subcommand(name)->group(""); // no word of it in the help
  app.name(program);
  std::string wrong = usage::unknownCommand(app, argc, argv);
  try {
    if (wrong.empty())
      app.parse(usage::wordsOf(app, argc, argv));
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0) { // the help, or the version
      std::ostringstream text;
      app.exit(error, text, text);
      printText(text.str());
      return 0;
    }
    wrong = failure(&app, error);
  }
  if (!wrong.empty()) {
    if (findLaunch(environmentVariable))
      return endLaunch(wrong, 2);
    std::fputs(wrong.c_str(), stderr);
    return 2;
  }
  std::vector<CLI::App *> given = app.get_subcommands();
  execute(model, given.empty() ? "info" : given.front()->get_name(), commands,
          processes);
  return 0;
}

/// Tells what ends this process, and with `processes` all of them.
int endWithError(Processes *processes, std::string message) {
  message = printable(message);
  dismissWitness();
  if (!processes) {
    say(fmt::format("error: {}\n", message));
    return 1;
  }
  waitForTurn(processes->rank());
  say(fmt::format("error: {}: {}\n", printable(processes->name()), message));
  usleep(200'000); // MPICH's launcher drops what it has not read by then
  processes->abort(1);
  return 1;
}

} // namespace

int runCommandLine(const tfm_model &model, int argc, char **argv) {
  std::unique_ptr<Processes> processes;
  auto speaks = [&] { return !processes || processes->isFirst(); };
  auto leave = [&](int status) {
    if (processes)
      processes->leave();
    dismissWitness();
    return status;
  };
  // The one place where errors end.
  try {
    return leave(runCommand(model, argc, argv, processes));
  } catch (const AgreedError &error) {
    if (speaks())
      say(fmt::format("error: {}\n", printable(error.what())));
    return leave(1);
  } catch (const NotJoined &error) {
    return endLaunch(fmt::format("error: {}\n", printable(error.what())), 1);
  } catch (const InputError &error) {
    return endWithError(processes.get(), error.what());
  } catch (const FatalError &error) {
    return endWithError(processes.get(), error.what());
  } catch (const Interrupted &error) {
    if (speaks() && *error.what())
      std::fprintf(stderr, "%s\n", error.what());
    return leave(130);
  } catch (const std::bad_alloc &) {
    return endWithError(
        processes.get(),
        fmt::format("out of memory: {} takes up to {} (`info` shows what for), "
                    "and its data and tokenizer more, but there is {}",
                    model.name,
                    byteText(chooseVariant(withoutCode(model)).arena_bytes),
                    byteText(memoryLimit())));
  } catch (const std::exception &error) {
    leaveWithBug(error.what());
  }
}

} // namespace tfm
