//===- logits.cpp - the command logits ------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/commands/commands.h"

#include "runtime/commands/read_prompts.h"
#include "runtime/data/source_input.h"
#include "runtime/device/choose_device.h"
#include "runtime/files/model_files.h"
#include "runtime/files/run_folder.h"
#include "runtime/files/text_settings.h"
#include "runtime/files/weights.h"
#include "runtime/files/written_by.h"
#include "runtime/generation/logits_source.h"
#include "runtime/support/atomic_file.h"
#include "runtime/support/error.h"
#include "runtime/support/progress.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace tfm {

/// What goes into `forward`.
struct ForwardInput {
  std::vector<int32_t> tokens;
  /// What an encoder reads, and what fills it up.
  std::vector<int32_t> source;
  int32_t padding = 0;
};

/// That of the command's prompt. For an encoder it is as in `pairs`.
static ForwardInput inputOf(const tfm_model &descriptor,
                            const GenerateCommand &command,
                            const Recipe &recipe, const Tokenizer &tokenizer) {
  ForwardInput result;
  std::string prompt = promptOf(command), origin = nameOfPrompt(command);
  std::vector<int32_t> begin = beginOf(recipe, tokenizer);
  if (sourceLength(descriptor, TFM_FORWARD) > 0) {
    size_t tab = std::min(prompt.find('\t'), prompt.size());
    result.source =
        sourceTokens(tokenizer, prompt.substr(0, tab),
                     endTokensFor(command, recipe, tokenizer), origin);
    AnswerMarks marks = answerMarksFor(command, recipe, tokenizer);
    result.padding = marks.padding;
    begin = {marks.begin};
    prompt.erase(0, tab + 1);
  }
  result.tokens = promptTokens(tokenizer, prompt, begin, origin);
  return result;
}

static void writeInput(Model &model, const tfm_function &forward,
                       const ForwardInput &input) {
  {
    PendingWrite<int32_t> row =
        model.write<int32_t>(Model::input(forward, TFM_IN_TOKENS));
    std::ranges::fill(row.values(), 0);
    std::ranges::copy(input.tokens, row.values().begin());
  }
  if (SourceInput source(forward); source.isTaken()) {
    requireWithinSource(input.source.size(), source.length());
    Sources sources(1, source.length());
    sources.set(0, input.source, input.padding);
    source.write(model, sources);
  }
}

/// In how many of the first `count` rows of `logits` there is a NaN.
static int64_t rowsWithoutNumber(const Model &model, const tfm_buffer &logits,
                                 int64_t count, int64_t width) {
  PendingRead<float> read =
      model.read<float>(logits, 0, static_cast<size_t>(count * width));
  int64_t rows = 0;
  for (int64_t row = 0; row != count; ++row)
    rows += std::ranges::any_of(
        read.values().subspan(static_cast<size_t>(row * width),
                              static_cast<size_t>(width)),
        [](float value) { return std::isnan(value); });
  return rows;
}

void writeLogits(const tfm_model &descriptor, const GenerateCommand &command,
                 const std::string &out) {
  Recipe recipe = recipeOf(descriptor);
  TokenizerPtr tokenizer = tokenizerFor(descriptor, command, recipe);
  requireNoRunFile(out);
  if (isSameFile(out, command.promptFile))
    throw InputError("{} is the prompt: write to another file", out);
  requireNotRead(out, command, descriptor);
  requireNoOtherKind(out);
  requireWrittenBy(out, "logits", "write to another file");
  const ForwardInput input = inputOf(descriptor, command, recipe, *tokenizer);
  std::unique_ptr<Device> device =
      makeDevice(descriptor, command.device, threadCount(command, descriptor),
                 command.processes);
  Model model(descriptor, *device);
  const tfm_function &forward = model.function(TFM_FORWARD);
  requireTakesTexts(descriptor, forward);
  model.requireLogits();
  const tfm_buffer &tokens = Model::input(forward, TFM_IN_TOKENS);
  const tfm_buffer &logits = Model::output(forward, TFM_OUT_LOGITS);
  int64_t length = tokens.shape[tokens.rank - 1];
  int64_t width = logits.shape[logits.rank - 1];
  auto count = static_cast<int64_t>(input.tokens.size());
  if (count > length)
    throw InputError("the text has {} tokens, but {} looks at {} at "
                     "a time: shorten it",
                     count, descriptor.name, length);
  WeightFiles(command.weights, familyOf(descriptor)).requireNoneIs(out);
  loadWeights(command, model);
  requireOwnLogits(model, input.tokens);
  writeInput(model, forward, input);
  model.run(forward);
  int64_t bad = rowsWithoutNumber(model, logits, count, width);
  AtomicFile file(out);
  writeSafetensors(file,
                   {{"logits",
                     {count, width},
                     [&] {
                       return model.read<float>(
                           logits, 0, static_cast<size_t>(count * width));
                     }}},
                   {{"model", descriptor.name}, {writtenByKey, "logits"}});
  file.commit();
  if (bad > 0)
    say(fmt::format("warning: at {} of {} positions logits are not numbers: "
                    "the weights are damaged, or training has diverged\n",
                    bad, count));
}

} // namespace tfm
