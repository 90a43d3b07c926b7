//===- train.cpp - the train command --------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/commands/commands.h"

#include "runtime/comm/micro_batches.h"
#include "runtime/device/choose_device.h"
#include "runtime/files/checkpoint.h"
#include "runtime/files/find_chat.h"
#include "runtime/files/hf_config.h"
#include "runtime/files/model_files.h"
#include "runtime/files/run_folder.h"
#include "runtime/files/run_log.h"
#include "runtime/model/memory_needed.h"
#include "runtime/support/atomic_file.h"
#include "runtime/support/error.h"
#include "runtime/support/progress.h"
#include "runtime/support/shell_word.h"
#include "runtime/support/utf8.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <span>

using nlohmann::ordered_json;

namespace tfm {

/// The run directory of a run that names none: runs/<source>, then
/// runs/<source>-2, ...
static std::string freeRunFolder(const tfm_model &model) {
  std::string stem = model.source;
  stem = stem.substr(stem.rfind('/') + 1);
  stem = stem.substr(0, stem.rfind('.'));
  bool isNamed = !stem.empty() && stem != "<stdin>";
  std::string base = "runs/" + (isNamed ? stem : model.name);
  std::string folder = base;
  for (int i = 2; !isFreeForRun(folder) || isLocked(folder); ++i)
    folder = base + "-" + std::to_string(i);
  return folder;
}

/// Tells of what `train.only` leaves as it is, where that is drawn at random.
static void noteRandomWeights(const TrainSpec &train, const tfm_model &model) {
  std::span parameters(model.parameters,
                       static_cast<size_t>(model.parameter_count));
  auto staysRandom = [](const tfm_parameter &parameter) {
    return !parameter.trainable && beginsAtRandom(parameter);
  };
  if (!train.only.empty() && std::ranges::any_of(parameters, staysRandom))
    say("note: what train.only does not name stays as it is, which is random: "
        "--init takes weights to begin with\n");
}

/// Throws InputError where parts begin with folders whose tokenizers differ:
/// there is one for all of the model.
static void requireOneTokenizer(std::span<const InitialWeights> all) {
  const InitialWeights *first = nullptr;
  std::string read;
  for (const InitialWeights &weights : all) {
    const std::string path = weights.path + "/tokenizer.json";
    if (!isFolder(weights.path) || !fileExists(path))
      continue;
    std::string text = readRegularFile(path, "the tokenizer");
    if (first && text != read)
      throw InputError(
          "{} and {} have other tokenizers, and a model has one: name that of "
          "the data with --tokenizer",
          first->path, weights.path);
    first = &weights;
    read = std::move(text);
  }
}

/// Tells of examples that are fewer than an update takes, and so in it more
/// than once.
static void noteFewExamples(const TrainSpec &train, const Dataset &data) {
  const int64_t examples = data.windows(Part::Train),
                ofUpdate = train.batch * train.accumulate;
  if (!data.isStream() && examples < ofUpdate)
    say(fmt::format(
        "note: there {} to train on, and an update takes {}, some of them more "
        "than once: build with a smaller -D train.batch{}\n",
        examples == 1 ? "is 1 example"
                      : fmt::format("are {} examples", examples),
        ofUpdate, train.accumulate > 1 ? " or train.accumulate" : ""));
}

/// Tells of what other programs put before texts, and this training does not.
static void noteMissingBegin(const tfm_function &function,
                             const Tokenizer &tokenizer, const Dataset &data) {
  std::string begin = missingBegin(function, tokenizer, data);
  if (!begin.empty())
    say(printable(fmt::format(
            "note: the tokenizer puts {} before texts, but {}. As it is, "
            "`generate` puts none before prompts of this run, but other "
            "programs do",
            begin,
            data.isStream()
                ? "windows of a text begin anywhere, without it"
                : "the examples have none: build with -D 'data.begin=" + begin +
                      "' to train with it")) +
        "\n");
}

/// Throws InputError where training would begin with what it writes over, or
/// where its weights would be taken for those of another model.
static void requireGoesTogether(const tfm_model &descriptor,
                                const TrainOptions &options) {
  for (const InitialWeights &init : options.init) {
    const std::filesystem::path path = init.path;
    const bool isWhole = isFolder(init.path);
    std::string folder = isWhole ? init.path : path.parent_path().string();
    if (folder.empty())
      folder = ".";
    const std::string run = runAround(folder);
    if ((isWhole || path.filename() == "model.safetensors") &&
        isSameFile(run.empty() ? folder : run, options.out))
      throw InputError("{} has what training begins with (--init {}), and "
                       "would be overwritten: choose another --out",
                       options.out, shellWord(init.path));
  }
  try {
    requireConfig(options.out, descriptor);
  } catch (const InputError &) {
    throw InputError("{}/config.json is of another model, and would be read "
                     "with the weights of this run: move it, or choose another "
                     "--out",
                     options.out);
  }
}

/// Chooses the run directory; throws InputError where it, or another file that
/// is to be written, holds what must not be lost.
static void requireRunFolder(const tfm_model &descriptor,
                             TrainOptions &options) {
  std::string older = options.resume.empty() ? "" : runOfOlder(options.resume);
  const std::string lowest = options.resume + "/model.safetensors";
  if (!options.resume.empty() && fileExists(lowest) &&
      isSameFile(options.resume, runAround(options.resume) + "/best"))
    throw InputError("{} has the weights of a run alone, and no checkpoint to "
                     "go on from: begin with them with --init {}",
                     options.resume, shellWord(lowest));
  bool namesNew = !options.out.empty();
  if (!namesNew && options.resume.empty())
    options.nextOut = [&descriptor] { return freeRunFolder(descriptor); };
  if (!namesNew)
    options.out = options.nextOut ? options.nextOut() : options.resume;
  // Another way to write the same folder is still the same run.
  if (!options.resume.empty() && isSameFile(options.out, options.resume))
    options.out = options.resume;
  // What an older checkpoint is of must neither be mixed with what comes of it
  // nor make way for it.
  if (!older.empty() && (!namesNew || options.out == options.resume ||
                         isSameFile(options.out, older)))
    throw InputError("{} is an older checkpoint of the run in {}: name the "
                     "folder of a new run with --out",
                     options.resume, older);
  if (std::string run = runAround(options.out); !run.empty())
    throw InputError("{} is a place for checkpoints of the run in {}: name "
                     "another folder with --out",
                     options.out, run);
  bool isNew = options.out != options.resume;
  if (isNew && holdsWeights(options.out) && !options.overwrite)
    throw InputError("{}{}, choose another --out, or pass --overwrite",
                     options.out,
                     holdsCheckpoint(options.out)
                         ? " already holds a run: continue it with --resume " +
                               shellWord(options.out)
                         : " already holds weights: begin with them with "
                           "--init " +
                               shellWord(options.out));
  if (isNew)
    requireGoesTogether(descriptor, options);

  if (!options.log.empty()) {
    requireNoRunFile(options.log);
    requireNoFileOf(options.out, options.log);
  }
  if (!options.profile.empty()) {
    requireNoRunFile(options.profile);
    requireNoFileOf(options.out, options.profile);
    requireTrace(options.profile, options.out);
    if (std::filesystem::path(options.profile).lexically_normal() ==
        std::filesystem::path(options.log).lexically_normal())
      throw InputError("{} is where this run logs: write the trace to another "
                       "file with --profile",
                       options.profile);
  }
  if (!options.overwrite && !options.log.empty())
    requireLog(options.log);
  else if (!options.overwrite && isNew)
    requireLog(options.out + "/log.jsonl");
}

void requireShares(const TrainSpec &train, const Processes &processes) {
  int64_t count = processes.count();
  MicroBatches now{train.batch, train.accumulate};
  bool canPair =
      train.sum != "tree" || std::has_single_bit(static_cast<uint64_t>(count));
  bool divides = train.accumulate % count == 0;
  if (canPair && divides)
    return;
  std::string other = now.adviceFor(count);
  if (!canPair)
    throw AgreedError(
        "{} processes cannot share a sum in pairs (train.sum = tree): {}build "
        "with -D train.sum=sequential{}",
        count,
        train.accumulate % 2 == 0
            ? fmt::format("start a power of two of them that divides "
                          "train.accumulate = {}, or ",
                          train.accumulate)
            : "",
        divides ? "" : " " + other);
  throw AgreedError(
      "{} processes cannot share the micro-batches of an update, of which "
      "there are {} (train.accumulate): start a number of them that divides "
      "it, or build with {}",
      count, train.accumulate, other);
}

/// What a run has come to, as `--json` has it.
static ordered_json answerOf(const TrainResult &result, const std::string &out,
                             const Processes *processes) {
  ordered_json answer = {
      {"steps", result.steps},
      {"loss", nullptr},
      {"validation_loss", nullptr},
      {"seconds", result.seconds},
      {"first_step_seconds", result.firstStepSeconds},
      {fmt::format("{}_per_second", result.unit.name), result.unitsPerSecond},
      {"stopped_early", result.stoppedEarly},
      {"out", out}};
  if (!result.wasComplete)
    answer["loss"] = result.loss;
  if (result.validationLoss)
    answer["validation_loss"] = *result.validationLoss;
  if (processes) {
    answer["processes"] = processes->count();
    answer["exchange_seconds"] = result.exchangeSeconds;
    answer["hidden_exchange_seconds"] = result.hiddenSeconds;
  }
  return answer;
}

/// The same in words.
static void printResult(const TrainResult &result, const std::string &out,
                        const Processes *processes) {
  std::string validation =
      result.validationLoss
          ? ", validation loss " + lossText(*result.validationLoss)
          : "";
  std::string since =
      result.firstStep == 0
          ? ""
          : fmt::format(" ({} to {})", result.firstStep, result.steps);
  int64_t steps = result.steps - result.firstStep;
  printText(fmt::format("{} {} step{}{} in {:.1f} s ({:.0f} {}/s): loss "
                        "{}{}; saved in {}\n",
                        result.stoppedEarly ? "stopped early after" : "trained",
                        steps, steps == 1 ? "" : "s", since, result.seconds,
                        result.unitsPerSecond, result.unit.name,
                        lossText(result.loss), validation, out));
  if (processes)
    printText(fmt::format(
        "{} processes: {:.1f} s of it went into exchanging gradients and "
        "parameters; {:.1f} s more were hidden behind computing\n",
        processes->count(), result.exchangeSeconds, result.hiddenSeconds));
}

void train(const tfm_model &descriptor, TrainCommand command,
           const std::atomic<bool> &interrupt) {
  Recipe recipe = recipeOf(descriptor);
  if (!recipe.hasTrain)
    throw InputError("{} has no `train` block: add one and build it again",
                     descriptor.source);
  const tfm_function *trained = findFunction(descriptor, TFM_TRAIN);
  if (!trained)
    throw Model::missing(descriptor, TFM_TRAIN);
  // What nothing fills no data would.
  if (!holdsArrays(recipe.data))
    Model::requireFilled(
        *trained, {TFM_IN_TOKENS, TFM_IN_TARGETS, TFM_IN_COUNT, TFM_IN_RNG});
  if (command.processes)
    requireShares(recipe.train, *command.processes);
  requireTrainingMemory(descriptor, recipe,
                        command.processes ? command.processes->count() : 1);
  requireMemoryOfMachine(command, descriptor, recipe, /*trains=*/true);
  TrainOptions &options = command.options;
  requireApart(descriptor, options.init);
  options.processes = command.processes;
  options.data = command.data;
  options.chatVariables = command.chatVariables;
  if (command.speaks()) {
    for (const std::string *written : {&options.log, &options.profile}) {
      if (written->empty())
        continue;
      std::vector<std::string> all = {command.data, command.tokenizer};
      for (const InitialWeights &weights : options.init)
        all.push_back(weights.path);
      for (const std::string &read : all)
        if (isReadOf(*written, read))
          throw InputError(
              "{} is a file that this training reads: write to another one",
              *written);
      requireNoneOfModel(*written, descriptor);
    }
    requireRunFolder(descriptor, options);
  } else // one writes
    options.out = options.log = options.profile = "";

  DataSpec spec = dataOf(descriptor, recipe, command.data);
  if (command.tokenizer.empty())
    requireOneTokenizer(options.init);
  const std::string begun = options.begun();
  TokenizerPtr tokenizer =
      dataTokenizer(descriptor, recipe, spec, command, begun);
  std::unique_ptr<Dataset> data = openData(
      command, recipe,
      {spec, *tokenizer, recipe.train.sequence,
       ignoredTarget(recipe.train, *tokenizer),
       [&] {
         return findChat(command.tokenizer, begun, recipe,
                         command.chatVariables, command.speaks(),
                         &options.chat);
       },
       sourceLength(descriptor, TFM_TRAIN), arrayInputsOf(*trained, recipe)});
  if (command.speaks())
    options.fileChecksums = fileChecksums(spec);
  std::unique_ptr<Device> device =
      makeDevice(descriptor, command.device, threadCount(command, descriptor),
                 command.processes);
  Model model(descriptor, *device, /*trains=*/true);
  if (command.speaks() && !holdsArrays(spec))
    noteMissingBegin(*trained, *tokenizer, *data);
  if (command.speaks())
    noteFewExamples(recipe.train, *data);
  if (command.speaks() && begun.empty())
    noteRandomWeights(recipe.train, descriptor);
  std::string resumed = options.resume;
  std::optional<int64_t> steps = options.steps;
  options.quiet = command.json || !command.speaks();
  if (std::string name = device->name(); !name.empty() && !options.quiet)
    say("training on " + printable(name) + "\n");
  Trainer trainer(model, recipe, *data, *tokenizer, std::move(options));
  TrainResult result = trainer.run(interrupt);
  if (!command.speaks())
    return;

  const std::string &out = trainer.out();
  std::string complete = fmt::format(
      "the run in {} {} after {} steps: train on with --steps {}", resumed,
      result.stoppedEarly ? "has stopped early" : "is complete", result.steps,
      2 * result.steps);
  if (steps && *steps < result.steps)
    complete = fmt::format(
        "the run in {} has {} steps already, and --steps {} are those of the "
        "whole run",
        resumed, result.steps, *steps);
  if (result.wasComplete && out != resumed)
    throw InputError("{}{}", complete,
                     holdsWeights(out)
                         ? "; what is in " + out + " stays as it is"
                         : "; there is no run in " + out + " now");
  if (command.json)
    printText(jsonText(answerOf(result, out, command.processes)) + "\n");
  else if (result.wasComplete)
    printText(complete + "\n");
  else
    printResult(result, out, command.processes);
}

} // namespace tfm
