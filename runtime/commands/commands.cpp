//===- commands.cpp - train, eval, and what commands share ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/commands/commands.h"

#include "runtime/chat/find_chat.h"
#include "runtime/comm/micro_batches.h"
#include "runtime/data/texts.h"
#include "runtime/device/choose_device.h"
#include "runtime/device/variant.h"
#include "runtime/error.h"
#include "runtime/files/atomic_file.h"
#include "runtime/files/checkpoint.h"
#include "runtime/files/model_files.h"
#include "runtime/files/run_folder.h"
#include "runtime/files/run_log.h"
#include "runtime/files/weights.h"
#include "runtime/generation/generator.h"
#include "runtime/memory_needed.h"
#include "runtime/progress.h"
#include "runtime/shell_word.h"
#include "runtime/tokenizer/find_tokenizer.h"
#include "runtime/tokenizer/utf8.h"
#include "runtime/training/initialise.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

using nlohmann::ordered_json;

namespace tfm {

DataSpec dataOf(const tfm_model &model, const Recipe &recipe,
                const std::string &named) {
  DataSpec spec = recipe.data;
  if (!named.empty()) {
    // A model without data says nothing of a part to validate with.
    if (spec.kind.empty())
      spec.validation = 0.1;
    if (spec.kind.empty() || spec.kind == "sums" || spec.kind == "products")
      spec.kind = "text";
    spec.files = {named};
  }
  if (spec.kind.empty())
    throw InputError(std::string(model.name) +
                     " has no data: name a text with --data FILE, or add a "
                     "`data` block to " +
                     model.source);
  return spec;
}

/// What to do where the data has something that the tokenizer has no token for.
static std::string adviceOnTokens(const CommonOptions &options,
                                  const TokenizerSpec &tokenizer) {
  if (!options.tokenizer.empty() || tokenizer.kind.empty())
    return "Name a tokenizer that has one with --tokenizer";
  if (!tokenizer.files.empty())
    return "Add one to the vocabulary that `tokenizer` names, or name one "
           "there that has it, and build again";
  if (!options.data.empty())
    return "The model was built with another text: name this file in its "
           "`data` and build again";
  return "Build the model again if its data has changed since, else add what "
         "is missing to the alphabet in `tokenizer`";
}

std::unique_ptr<Dataset> openDataFor(const CommonOptions &options,
                                     const Recipe &recipe,
                                     const DataRequest &request) {
  try {
    return openDataset(request);
  } catch (const NoToken &error) {
    throw InputError(std::string(error.what()) + ". " +
                     adviceOnTokens(options, recipe.tokenizer));
  }
}

void requireNoneOfModel(const std::string &path, const tfm_model &model) {
  const Recipe recipe = recipeOf(model);
  const auto require = [&](const std::string &name, const std::string &what) {
    if (isReadOf(path, name))
      throw InputError(path + " is " + what +
                       ", and would be overwritten: write to another file");
  };
  // Files are looked for here, and where they were when the model was built.
  const auto requireEach = [&](const std::vector<std::string> &names,
                               const std::string &directory,
                               const std::string &what) {
    for (const std::string &name : names) {
      require(name, what);
      if (!directory.empty() && !name.starts_with('/'))
        require(directory + "/" + name, what);
    }
  };
  const std::string source = model.source;
  const std::string ofModel = std::string(" of ") + model.name;
  require("/proc/self/exe", "this program itself");
  require(source, "what this program was built from");
  for (const std::string &directory :
       {recipe.data.directory, recipe.tokenizer.directory})
    requireEach({source.substr(source.rfind('/') + 1)}, directory,
                "what this program was built from");
  DataSpec data = recipe.data;
  try {
    data = withMatches(data);
  } catch (const InputError &) { // whoever reads them says so
  }
  for (const auto *files : {&data.files, &data.validationFiles})
    requireEach(*files, data.directory, "a data file" + ofModel);
  requireEach(recipe.tokenizer.files, recipe.tokenizer.directory,
              "a file of the tokenizer" + ofModel);
}

namespace {

/// Data that is token ids needs no tokenizer.
bool holdsIds(const DataSpec &data) { return data.kind == "tokens"; }

/// The run directory of a run that names none: runs/<source>, then
/// runs/<source>-2, ...
std::string freeRunFolder(const tfm_model &model) {
  std::string stem = model.source;
  stem = stem.substr(stem.rfind('/') + 1);
  stem = stem.substr(0, stem.rfind('.'));
  bool isNamed = !stem.empty() && stem != "<stdin>";
  std::string base = "runs/" + (isNamed ? stem : model.name);
  std::string folder = base;
  for (int i = 2; holdsWeights(folder) || isLocked(folder); ++i)
    folder = base + "-" + std::to_string(i);
  return folder;
}

/// Opens the data, and says what of it is not used.
std::unique_ptr<Dataset> openData(const CommonOptions &options,
                                  const Recipe &recipe,
                                  const DataRequest &request) {
  std::unique_ptr<Dataset> data = openDataFor(options, recipe, request);
  if (options.speaks())
    for (const std::string &note : data->notes())
      say("note: " + note + "\n");
  return data;
}

/// What the tokenizer puts before texts, where the data has not.
std::string missingBegin(const Recipe &recipe, const Tokenizer &tokenizer,
                         const Dataset &data) {
  const std::vector<int32_t> begin = tokenizer.begin();
  auto length = static_cast<size_t>(recipe.train.sequence);
  std::vector<int32_t> tokens(length), targets(length);
  for (Part part : {Part::Train, Part::Validation})
    if (data.windows(part) > 0 && !data.isStream()) {
      data.read(part, data.windowStart(part, 0), tokens, targets);
      if (std::ranges::mismatch(begin, tokens).in1 == begin.end())
        return ""; // as `data.begin`, the text or a chat template has it
      break;
    }
  return tokenizer.text(begin);
}

/// Tells of what `train.only` leaves as it is, where that is drawn at random.
void noteRandomWeights(const TrainSpec &train, const tfm_model &model) {
  std::span parameters(model.parameters,
                       static_cast<size_t>(model.parameter_count));
  auto staysRandom = [](const tfm_parameter &parameter) {
    return !parameter.trainable && beginsAtRandom(parameter);
  };
  if (!train.only.empty() && std::ranges::any_of(parameters, staysRandom))
    say("note: what train.only does not name stays as it is, which is random: "
        "--init takes weights to begin with\n");
}

/// Tells of what other programs put before texts, and this training does not.
void noteMissingBegin(const Recipe &recipe, const Tokenizer &tokenizer,
                      const Dataset &data) {
  std::string begin = missingBegin(recipe, tokenizer, data);
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

} // namespace

void requireAll(const CommonOptions &options, const Unmatched &unmatched) {
  const std::string &weights = options.weights;
  if (!unmatched.fresh.empty())
    throw InputError(fmt::format("{} does not have {}, and only `train --init` "
                                 "can begin with fresh ones",
                                 weights, listed(unmatched.fresh)));
  if (!unmatched.leftOut.empty() && options.speaks())
    say(printable(fmt::format("note: left out of {}: {}", weights,
                              listed(unmatched.leftOut))) +
        "\n");
}

void loadWeights(const CommonOptions &options, Model &model) {
  Unmatched unmatched;
  std::vector<std::string> notes = loadWeights(
      options.weights, model, options.partial ? &unmatched : nullptr);
  requireAll(options, unmatched);
  if (options.speaks())
    for (const std::string &note : notes)
      say("note: " + printable(note) + "\n");
  if (options.processes)
    options.processes->requireSame("other weights", checksumOf(model).text(),
                                   "give all of them the same ones");
}

std::string jsonText(const ordered_json &value, int indent) {
  return value.dump(indent, ' ', /*ensure_ascii=*/false,
                    ordered_json::error_handler_t::replace);
}

void printText(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
      std::fflush(stdout) != 0)
    throw InputError(std::string("cannot write to standard output: ") +
                     std::strerror(errno));
}

/// Of all functions.
static int64_t mostThreads(const tfm_variant &variant) {
  int64_t most = 1;
  for (int32_t i = 0; i < variant.function_count; ++i)
    most = std::max(most, variant.functions[i].threads);
  return most;
}

int threadCount(const CommonOptions &options, const tfm_model &model) {
  if (options.threads > 0)
    return options.threads;
  int processors = availableProcessors();
  if (options.processes)
    processors = std::max(1, processors / options.processes->neighbours());
  // Beside a GPU they fill and convert parameters.
  if (chooseVariant(model).image_count > 0)
    return processors;
  return static_cast<int>(
      std::min<int64_t>(processors, mostThreads(chooseVariant(model))));
}

const tfm_function *findFunction(const tfm_model &model,
                                 std::string_view name) {
  const tfm_variant &variant = model.variants[0]; // functions are those of all
  for (int32_t i = 0; i < variant.function_count; ++i)
    if (variant.functions[i].name == name)
      return &variant.functions[i];
  return nullptr;
}

int64_t sourceLength(const tfm_model &model, std::string_view name) {
  const tfm_function *function = findFunction(model, name);
  return function ? SourceInput(*function).length() : 0;
}

/// Chooses the run directory; throws InputError where it, or another file that
/// is to be written, holds what must not be lost.
static void requireRunFolder(const tfm_model &descriptor,
                             TrainOptions &options) {
  std::string older = options.resume.empty() ? "" : runOfOlder(options.resume);
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
    throw InputError(options.resume + " is an older checkpoint of the run in " +
                     older + ": name the folder of a new run with --out");
  if (std::string run = runAround(options.out); !run.empty())
    throw InputError(options.out +
                     " is a place for checkpoints of the run in " + run +
                     ": name another folder with --out");
  bool isNew = options.out != options.resume;
  if (isNew && holdsWeights(options.out) && !options.overwrite)
    throw InputError(options.out +
                     (holdsCheckpoint(options.out)
                          ? " already holds a run: continue it with --resume " +
                                shellWord(options.out)
                          : " already holds weights: begin with them with "
                            "--init " +
                                shellWord(options.out)) +
                     ", choose another --out, or pass --overwrite");

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
      throw InputError(options.profile +
                       " is where this run logs: write the trace to another "
                       "file with --profile");
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
    throw AgreedError(fmt::format(
        "{} processes cannot share a sum in pairs (train.sum = tree): {}build "
        "with -D train.sum=sequential{}",
        count,
        train.accumulate % 2 == 0
            ? fmt::format("start a power of two of them that divides "
                          "train.accumulate = {}, or ",
                          train.accumulate)
            : "",
        divides ? "" : " " + other));
  throw AgreedError(fmt::format(
      "{} processes cannot share the micro-batches of an update, of which "
      "there are {} (train.accumulate): start a number of them that divides "
      "it, or build with {}",
      count, train.accumulate, other));
}

void train(const tfm_model &descriptor, TrainCommand command,
           const std::atomic<bool> &interrupt) {
  Recipe recipe = recipeOf(descriptor);
  if (!recipe.hasTrain)
    throw InputError(std::string(descriptor.source) +
                     " has no `train` block: add one and build it again");
  const tfm_variant &variant = descriptor.variants[0]; // functions are all's
  std::span functions(variant.functions,
                      static_cast<size_t>(variant.function_count));
  auto trained = std::ranges::find_if(functions, [](const auto &function) {
    return std::string_view(function.name) == TFM_TRAIN;
  });
  if (trained == functions.end())
    throw Model::missing(descriptor, TFM_TRAIN);
  // What nothing fills no data would.
  Model::requireFilled(*trained, {"tokens", "targets", "count", "rng"});
  if (command.processes)
    requireShares(recipe.train, *command.processes);
  requireTrainingMemory(descriptor, recipe);
  TrainOptions &options = command.options;
  options.processes = command.processes;
  options.data = command.data;
  if (command.speaks()) {
    for (const std::string *written : {&options.log, &options.profile}) {
      if (written->empty())
        continue;
      for (const std::string *read :
           {&command.data, &command.tokenizer, &options.init})
        if (isReadOf(*written, *read))
          throw InputError(*written + " is a file that this training reads: "
                                      "write to another one");
      requireNoneOfModel(*written, descriptor);
    }
    requireRunFolder(descriptor, options);
  } else // one writes
    options.out = options.log = options.profile = "";

  DataSpec spec = dataOf(descriptor, recipe, command.data);
  const std::string begun =
      options.resume.empty() ? options.init : options.resume;
  TokenizerPtr tokenizer =
      findTokenizer(descriptor, recipe,
                    {command.tokenizer, begun, /*ids=*/false, holdsIds(spec)});
  std::unique_ptr<Dataset> data =
      openData(command, recipe,
               {spec, *tokenizer, recipe.train.sequence,
                ignoredTarget(recipe.train, *tokenizer),
                [&] {
                  return findChat(command.tokenizer, begun, recipe,
                                  command.chatVariables, command.speaks());
                },
                sourceLength(descriptor, TFM_TRAIN)});
  std::unique_ptr<Device> device =
      makeDevice(descriptor, command.device, threadCount(command, descriptor),
                 command.processes);
  Model model(descriptor, *device);
  if (command.speaks())
    noteMissingBegin(recipe, *tokenizer, *data);
  if (command.speaks() && begun.empty())
    noteRandomWeights(recipe.train, descriptor);
  std::string resumed = options.resume;
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
  if (result.wasComplete && out != resumed)
    throw InputError(complete + (holdsWeights(out)
                                     ? "; what is in " + out + " stays as it is"
                                     : "; there is no run in " + out + " now"));
  if (command.json) {
    ordered_json answer = {{"steps", result.steps},
                           {"loss", nullptr},
                           {"validation_loss", nullptr},
                           {"seconds", result.seconds},
                           {"first_step_seconds", result.firstStepSeconds},
                           {"tokens_per_second", result.tokensPerSecond},
                           {"stopped_early", result.stoppedEarly},
                           {"out", out}};
    if (!result.wasComplete)
      answer["loss"] = result.loss;
    if (result.validationLoss)
      answer["validation_loss"] = *result.validationLoss;
    if (command.processes) {
      answer["processes"] = command.processes->count();
      answer["exchange_seconds"] = result.exchangeSeconds;
      answer["hidden_exchange_seconds"] = result.hiddenSeconds;
    }
    printText(jsonText(answer) + "\n");
    return;
  }
  if (result.wasComplete) {
    printText(complete + "\n");
    return;
  }
  std::string validation =
      result.validationLoss
          ? fmt::format(", validation loss {:.4f}", *result.validationLoss)
          : "";
  std::string since =
      result.firstStep == 0
          ? ""
          : fmt::format(" ({} to {})", result.firstStep, result.steps);
  int64_t steps = result.steps - result.firstStep;
  printText(fmt::format("{} {} step{}{} in {:.1f} s ({:.0f} tokens/s): loss "
                        "{:.4f}{}; saved in {}\n",
                        result.stoppedEarly ? "stopped early after" : "trained",
                        steps, steps == 1 ? "" : "s", since, result.seconds,
                        result.tokensPerSecond, result.loss, validation, out));
  if (command.processes)
    printText(fmt::format(
        "{} processes: {:.1f} s of it went into exchanging gradients and "
        "parameters; {:.1f} s more were hidden behind computing\n",
        command.processes->count(), result.exchangeSeconds,
        result.hiddenSeconds));
}

void evaluate(const tfm_model &descriptor, const CommonOptions &command) {
  if (!findFunction(descriptor, TFM_EVALUATE))
    throw Model::missing(descriptor, TFM_EVALUATE);
  Recipe recipe = recipeOf(descriptor);
  DataSpec spec = dataOf(descriptor, recipe, command.data);
  TokenizerPtr tokenizer = findTokenizer(
      descriptor, recipe,
      {command.tokenizer, command.weights, /*ids=*/false, holdsIds(spec)});
  if (!command.data.empty()) { // all of a file that the user names
    spec.validation = 1.0;
    spec.validationFiles.clear();
  }
  std::optional<int32_t> ignored = ignoredTarget(recipe.train, *tokenizer);
  std::unique_ptr<Dataset> data =
      openData(command, recipe,
               {spec, *tokenizer, recipe.train.sequence, ignored,
                [&] {
                  return findChat(command.tokenizer, command.weights, recipe,
                                  command.chatVariables, command.speaks());
                },
                sourceLength(descriptor, TFM_EVALUATE)});
  if (command.processes) {
    // Of examples it matters which prompts are in the training part, too.
    std::string checksum =
        data->isStream()
            ? data->checksum({Part::Validation}, recipe.train.sequence)
            : data->checksum({Part::Train, Part::Validation},
                             recipe.train.sequence,
                             sourceLength(descriptor, TFM_EVALUATE) > 0);
    command.processes->requireSame("other data", checksum,
                                   "give all of them the same files");
  }
  std::unique_ptr<Device> device =
      makeDevice(descriptor, command.device, threadCount(command, descriptor),
                 command.processes);
  Model model(descriptor, *device);
  loadWeights(command, model);

  if (std::string begin = missingBegin(recipe, *tokenizer, *data);
      !begin.empty() && command.speaks())
    say("note: prompts begin with " + printable(begin) +
        " here, the windows of the data do not: other programs may measure "
        "with it\n");
  Evaluator evaluator(model, *data, ignored, command.processes);
  Progress progress(0, evaluator.batchesOf(Part::Validation, /*batches=*/0),
                    recipe.train.batch * recipe.train.sequence,
                    command.json || !command.speaks(), "batch");
  Evaluation result = evaluator.evaluate(Part::Validation, /*batches=*/0,
                                         measureOf(recipe.train), &progress);
  progress.clear();
  if (!std::isfinite(result.loss))
    throw AgreedError("the loss is not a number: the weights are damaged, or "
                      "training has diverged. Use others, e.g. an earlier "
                      "checkpoint");
  bool asks = false;
  ExactMatch match;
  try {
    std::vector<AskedQuestion> questions = chooseQuestions(*data);
    if (!questions.empty())
      match = answerQuestions(model, *data, questions, command.processes);
    asks = !questions.empty();
  } catch (const InputError &error) { // all else has been measured
    if (command.speaks())
      say(fmt::format("note: no answers are compared: {}\n",
                      printable(error.what())));
  }
  if (!command.speaks())
    return;
  // A file that the user names may be what was trained on: nobody knows.
  const bool isSplit = command.data.empty();
  Score all = {match.seen.asked + match.unseen.asked,
               match.seen.right + match.unseen.right};
  if (command.json) {
    ordered_json answer = {{"loss", result.loss},
                           {"perplexity", nullptr},
                           {"accuracy", nullptr},
                           {"targets", result.targets},
                           {"exact_match", nullptr}};
    if (result.perplexity)
      answer["perplexity"] = *result.perplexity;
    if (result.accuracy)
      answer["accuracy"] = *result.accuracy;
    auto score = [](const Score &part) -> ordered_json {
      ordered_json object = {{"prompts", part.asked},
                             {"correct", part.right},
                             {"accuracy", nullptr}};
      if (part.asked > 0)
        object["accuracy"] = part.accuracy();
      return object;
    };
    if (asks) {
      answer["exact_match"] = score(all);
      answer["exact_match"]["unseen"] = isSplit ? score(match.unseen) : nullptr;
      answer["exact_match"]["seen"] = isSplit ? score(match.seen) : nullptr;
    }
    printText(answer.dump() + "\n");
    return;
  }
  printText(fmt::format("loss        {:.4f} ({} targets)\n", result.loss,
                        result.targets));
  if (result.perplexity)
    printText(fmt::format("perplexity  {:.3f}\n", *result.perplexity));
  if (result.accuracy)
    printText(fmt::format("accuracy    {:.2f}%\n", 100 * *result.accuracy));
  if (!asks)
    return;
  auto line = [](const char *name, const Score &part) {
    printText(fmt::format("{}{:.2f}% ({} of {})\n", name, 100 * part.accuracy(),
                          part.right, part.asked));
  };
  line("exact match ", all);
  // Of no prompts there is no share.
  if (isSplit && match.unseen.asked > 0)
    line("  prompts not in the training part  ", match.unseen);
  if (isSplit && match.seen.asked > 0)
    line("  prompts also in the training part ", match.seen);
}

} // namespace tfm
