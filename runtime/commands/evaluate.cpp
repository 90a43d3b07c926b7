//===- evaluate.cpp - the eval command ------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/commands/commands.h"

#include "runtime/device/choose_device.h"
#include "runtime/files/find_chat.h"
#include "runtime/files/find_tokenizer.h"
#include "runtime/support/error.h"
#include "runtime/support/progress.h"
#include "runtime/support/utf8.h"
#include "runtime/training/evaluator.h"

#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

using nlohmann::ordered_json;

namespace tfm {

/// What `--json` has of an evaluation. Where the data is split, answers are
/// told apart by whether the training part asks for them, too.
static ordered_json answerOf(const Evaluation &result,
                             const std::optional<ExactMatch> &match,
                             bool isSplit) {
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
  if (match) {
    answer["exact_match"] = score(match->all());
    answer["exact_match"]["unseen"] = isSplit ? score(match->unseen) : nullptr;
    answer["exact_match"]["seen"] = isSplit ? score(match->seen) : nullptr;
  }
  return answer;
}

/// The same in words.
static void printResult(const Evaluation &result,
                        const std::optional<ExactMatch> &match, bool isSplit) {
  printText(fmt::format("loss        {} ({} targets)\n", lossText(result.loss),
                        result.targets));
  if (result.perplexity)
    printText(fmt::format("perplexity  {:.3f}\n", *result.perplexity));
  if (result.accuracy)
    printText(fmt::format("accuracy    {:.2f}%\n", 100 * *result.accuracy));
  if (!match)
    return;
  auto line = [](const char *name, const Score &part) {
    printText(fmt::format("{}{:.2f}% ({} of {})\n", name, 100 * part.accuracy(),
                          part.right, part.asked));
  };
  line("exact match ", match->all());
  // Of no prompts there is no share.
  if (isSplit && match->unseen.asked > 0)
    line("  prompts not in the training part  ", match->unseen);
  if (isSplit && match->seen.asked > 0)
    line("  prompts also in the training part ", match->seen);
}

/// Throws where processes that share an evaluation have other data.
static void requireSameData(Processes &processes, const Dataset &data,
                            int64_t sequence, bool hasEncoder) {
  // Of examples it matters which prompts are in the training part, too.
  std::string checksum = data.isStream()
                             ? data.checksum({Part::Validation}, sequence)
                             : data.checksum({Part::Train, Part::Validation},
                                             sequence, hasEncoder);
  processes.requireSame("other data", checksum,
                        "give all of them the same files");
}

/// How many questions of the data are answered right; nothing where it asks
/// none, or the model cannot answer, which a note says.
static std::optional<ExactMatch> matchAnswers(Model &model, const Dataset &data,
                                              const CommonOptions &command) {
  try {
    std::vector<AskedQuestion> questions = chooseQuestions(data);
    if (!questions.empty())
      return answerQuestions(model, data, questions, command.processes);
  } catch (const InputError &error) { // all else has been measured
    if (command.speaks())
      say(fmt::format("note: no answers are compared: {}\n",
                      printable(error.what())));
  }
  return std::nullopt;
}

void evaluate(const tfm_model &descriptor, const CommonOptions &command) {
  const tfm_function *evaluated = findFunction(descriptor, TFM_EVALUATE);
  if (!evaluated)
    throw Model::missing(descriptor, TFM_EVALUATE);
  Recipe recipe = recipeOf(descriptor);
  DataSpec spec = dataOf(descriptor, recipe, command.data);
  TokenizerPtr tokenizer =
      dataTokenizer(descriptor, recipe, spec, command, command.weights);
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
                sourceLength(descriptor, TFM_EVALUATE),
                arrayInputsOf(*evaluated, recipe)});
  if (command.processes)
    requireSameData(*command.processes, *data, recipe.train.sequence,
                    sourceLength(descriptor, TFM_EVALUATE) > 0);
  std::unique_ptr<Device> device =
      makeDevice(descriptor, command.device, threadCount(command, descriptor),
                 command.processes);
  Model model(descriptor, *device);
  loadWeights(command, model);

  if (std::string begin = missingBegin(*evaluated, *tokenizer, *data);
      !begin.empty() && !holdsArrays(spec) && command.speaks())
    say("note: prompts begin with " + printable(begin) +
        " here, the windows of the data do not: other programs may measure "
        "with it\n");
  Evaluator evaluator(model, *data, ignored, command.processes);
  const DataUnit unit = data->unit(recipe.train.sequence);
  Progress progress(0, evaluator.batchesOf(Part::Validation, /*batches=*/0),
                    recipe.train.batch * unit.perRow,
                    command.json || !command.speaks(), "batch", unit.name);
  Evaluation result = evaluator.evaluate(Part::Validation, /*batches=*/0,
                                         measureOf(recipe.train), &progress);
  progress.clear();
  if (!std::isfinite(result.loss))
    throw AgreedError("the loss is not a number: the weights are damaged, or "
                      "training has diverged. Use others, e.g. an earlier "
                      "checkpoint");
  std::optional<ExactMatch> match = matchAnswers(model, *data, command);
  if (!command.speaks())
    return;
  // A file that the user names may be what was trained on: nobody knows.
  const bool isSplit = command.data.empty();
  if (command.json)
    printText(answerOf(result, match, isSplit).dump() + "\n");
  else
    printResult(result, match, isSplit);
}

} // namespace tfm
