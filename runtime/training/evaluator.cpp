//===- evaluator.cpp - how good a model is ------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/training/evaluator.h"

#include "runtime/generation/generator.h"
#include "runtime/generation/sampler.h"
#include "runtime/support/error.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

namespace tfm {

Measure measureOf(const TrainSpec &train) {
  if (train.loss != "cross_entropy")
    return Measure::Accuracy;
  return train.labelSmoothing > 0 ? Measure::PerplexityOfLogits
                                  : Measure::PerplexityOfLoss;
}

/// -log softmax(logits)[target]
static double surprisal(std::span<const float> logits, int32_t target) {
  float most = *std::ranges::max_element(logits);
  double sum = 0;
  for (float logit : logits)
    sum += std::exp(static_cast<double>(logit) - static_cast<double>(most));
  return std::log(sum) + static_cast<double>(most) -
         static_cast<double>(logits[static_cast<size_t>(target)]);
}

Evaluator::Evaluator(Model &model, const Dataset &data,
                     std::optional<int32_t> ignore, Processes *processes)
    : model(model), data(data), ignore(ignore), processes(processes),
      function(model.function(TFM_EVALUATE)),
      random(Model::findInput(function, TFM_IN_RNG)),
      rows(function, Rows::takenBy(function)),
      valid(static_cast<size_t>(rows.count())) {
  data.requireFills(function);
}

void Evaluator::Sums::add(const Sums &other) {
  targets += other.targets;
  loss += other.loss;
  right += other.right;
  surprisal += other.surprisal;
  haveLogits &= other.haveLogits;
}

int64_t Evaluator::windowsOf(Part part, int64_t batches) const {
  int64_t windows = data.windows(part);
  return batches > 0 && batches <= windows / rows.count()
             ? batches * rows.count()
             : windows;
}

int64_t Evaluator::readWindow(Part part, int64_t index, int64_t wanted,
                              int64_t row) {
  int64_t &of = valid[static_cast<size_t>(row)];
  const int64_t number = index % wanted;
  int64_t start = data.windowStart(part, number * data.windows(part) / wanted);
  of = data.fill(part, start, rows, row);
  if (index >= wanted)
    of = 0;
  return rows.counting(row, of, ignore);
}

bool Evaluator::hasTargets(Part part, int64_t batches) {
  int64_t wanted = windowsOf(part, batches);
  for (int64_t index = 0; index < wanted; ++index)
    if (readWindow(part, index, wanted, /*row=*/0) > 0)
      return true;
  return false;
}

Evaluator::Sums Evaluator::evaluateBatch(Part part, int64_t first,
                                         int64_t wanted, Measure measure) {
  Sums sums;
  for (int64_t row = 0; row < rows.count(); ++row)
    sums.targets += readWindow(part, first + row, wanted, row);
  rows.write(model);
  model.write<float>(Model::input(function, TFM_IN_COUNT)).values()[0] =
      static_cast<float>(std::max<int64_t>(1, sums.targets));
  // By the batch alone, under no run's seed: always the same numbers.
  if (random)
    std::ranges::copy(
        std::array{0, 0, 0, static_cast<int32_t>(first / rows.count())},
        model.write<int32_t>(*random).values().begin());
  model.run(function);

  sums.loss = sumOf(TFM_OUT_LOSSES);
  bool withSurprisal = measure == Measure::PerplexityOfLogits;
  if (measure == Measure::Nothing)
    return sums;
  if (!Model::findOutput(function, TFM_OUT_RIGHT)) {
    readLogits(withSurprisal, sums);
    return sums;
  }
  sums.right = std::llround(sumOf(TFM_OUT_RIGHT));
  if (withSurprisal)
    sums.surprisal = sumOf(TFM_OUT_SURPRISALS);
  return sums;
}

double Evaluator::sumOf(std::string_view output) {
  PendingRead<float> read = model.read<float>(Model::output(function, output));
  std::span<const float> values = read.values();
  double sum = 0;
  for (int64_t row = 0; row < rows.count(); ++row)
    for (int64_t i = 0; i < valid[static_cast<size_t>(row)]; ++i)
      if (rows.counts(row, i, ignore))
        sum += static_cast<double>(
            values[static_cast<size_t>(row * rows.losses() + i)]);
  return sum;
}

int64_t Evaluator::batchesOf(Part part, int64_t batches) const {
  return (windowsOf(part, batches) + rows.count() - 1) / rows.count();
}

Evaluation Evaluator::evaluate(Part part, int64_t batches, Measure measure,
                               Progress *progress) {
  const int64_t batch = rows.count();
  int64_t wanted = windowsOf(part, batches);

  // What `evaluate` does not say the logits of each target do.
  if (const tfm_function *forward = model.find(TFM_FORWARD);
      !Model::findOutput(function, TFM_OUT_RIGHT) &&
      (!forward || !Model::givesLogits(model.descriptor(), *forward) ||
       !rows.haveAllOf(*forward) ||
       std::ssize(rows.targets(0)) != rows.losses()))
    measure = Measure::Nothing;
  Sums sums;
  int64_t count = processes ? processes->count() : 1;
  int64_t rank = processes ? processes->rank() : 0;
  for (int64_t first = 0; first < wanted; first += count * batch) {
    Sums own;
    if (int64_t mine = first + rank * batch; mine < wanted)
      own = evaluateBatch(part, mine, wanted, measure);
    // Batch by batch: so the sum is the same, whoever computes them.
    if (!processes)
      sums.add(own);
    else
      for (const Sums &batch : processes->gather(own))
        sums.add(batch);
    if (progress)
      progress->step(
          std::min(wanted, first + count * batch) / batch,
          sums.loss / static_cast<double>(std::max<int64_t>(1, sums.targets)));
  }
  Evaluation result;
  result.targets = sums.targets;
  if (result.targets == 0 && data.windows(part) > 0)
    throw InputError(
        "there is nothing to evaluate: none of the targets in the {} counts, "
        "all of them are what the loss ignores; name another file with --data",
        data.windows(Part::Train) > 0 ? "validation part of the data" : "data");
  if (result.targets == 0)
    throw InputError("there is nothing to evaluate: the validation part of the "
                     "data is empty; name a file with --data, or build with "
                     "-D data.validation=0.1");
  auto targetCount = static_cast<double>(result.targets);
  result.loss = sums.loss / targetCount;
  if (measure != Measure::Nothing && sums.haveLogits)
    result.accuracy = static_cast<double>(sums.right) / targetCount;
  if (measure == Measure::PerplexityOfLoss)
    result.perplexity = std::exp(result.loss);
  if (measure == Measure::PerplexityOfLogits)
    result.perplexity = std::exp(sums.surprisal / targetCount);
  return result;
}

/// Adds what the logits of the current batch say of its targets.
void Evaluator::readLogits(bool withSurprisal, Sums &sums) {
  const tfm_function &forward = model.function(TFM_FORWARD);
  const tfm_buffer &input = Model::input(forward, TFM_IN_TOKENS);
  if (input.shape[1] < rows.losses())
    throw InputError(
        "accuracy and perplexity cannot be measured: the model generates "
        "with a shorter context than it is trained with");
  for (int64_t first = 0; first < rows.count(); first += input.shape[0]) {
    rows.writeTo(forward, model, first);
    model.run(forward);
    readRows(first, std::min(input.shape[0], rows.count() - first),
             Model::output(forward, TFM_OUT_LOGITS), withSurprisal, sums);
  }
}

/// The same of some rows, whose logits [.., positions, V] begin with theirs.
void Evaluator::readRows(int64_t firstRow, int64_t count,
                         const tfm_buffer &logits, bool withSurprisal,
                         Sums &sums) {
  PendingRead<float> read = model.read<float>(logits);
  std::span<const float> all = read.values();
  auto width = static_cast<size_t>(logits.shape[2]);
  for (int64_t row = 0; row < count; ++row)
    for (int64_t i = 0; i < valid[static_cast<size_t>(firstRow + row)]; ++i) {
      if (!rows.counts(firstRow + row, i, ignore))
        continue;
      int32_t target = rows.targets(firstRow + row)[static_cast<size_t>(i)];
      auto position = static_cast<size_t>(row * logits.shape[1] + i);
      std::span<const float> of = all.subspan(position * width, width);
      // Of tokens that have no logits nothing was to be predicted.
      if (static_cast<size_t>(target) >= width) {
        sums.haveLogits = false;
        continue;
      }
      sums.right += greedyToken(of) == target;
      if (withSurprisal)
        sums.surprisal += surprisal(of, target);
    }
}

std::vector<AskedQuestion> chooseQuestions(const Dataset &data, size_t limit) {
  if (data.isStream())
    return {};
  std::vector<int64_t> windows;
  for (int64_t i = 0; i < data.windows(Part::Validation); ++i)
    if (data.question(Part::Validation, i))
      windows.push_back(i);
  size_t count = limit > 0 ? std::min(limit, windows.size()) : windows.size();
  std::vector<AskedQuestion> chosen(count);
  for (size_t i = 0; i < count; ++i)
    chosen[i].question =
        *data.question(Part::Validation, windows[i * windows.size() / count]);

  auto promptOf = [](const Question &question) {
    return std::tie(question.source, question.prompt);
  };
  auto askedPrompt = [&](const AskedQuestion *asked) {
    return promptOf(asked->question);
  };
  std::vector<AskedQuestion *> byPrompt;
  byPrompt.reserve(count);
  for (AskedQuestion &asked : chosen)
    byPrompt.push_back(&asked);
  std::ranges::sort(byPrompt, {}, askedPrompt);
  for (int64_t i = 0; count > 0 && i < data.windows(Part::Train); ++i)
    if (std::optional<Question> known = data.question(Part::Train, i))
      for (AskedQuestion *asked : std::ranges::equal_range(
               byPrompt, promptOf(*known), {}, askedPrompt)) {
        if (asked->isSeen)
          break; // and with it the others of this prompt
        asked->isSeen = true;
      }
  return chosen;
}

ExactMatch answerQuestions(Model &model, const Dataset &data,
                           std::span<const AskedQuestion> questions,
                           Processes *processes) {
  if (!questions.empty()) {
    model.requireLogits();
    requireRows(model);
    requireOwnLogits(model, questions.front().question.prompt);
  }
  const tfm_function &forward = model.function(TFM_FORWARD);
  const tfm_buffer &tokensIn = Model::input(forward, TFM_IN_TOKENS);
  const tfm_buffer &logitsOut = Model::output(forward, TFM_OUT_LOGITS);
  auto rows = static_cast<size_t>(tokensIn.shape[0]);
  auto length = static_cast<size_t>(tokensIn.shape[1]);
  auto width = static_cast<size_t>(logitsOut.shape[2]);
  SourceInput source(forward);
  Sources sources(tokensIn.shape[0], source.length());

  ExactMatch result;
  // A sequence in the making; `at` tokens of its answer are right so far.
  struct Row {
    const AskedQuestion *asked;
    std::vector<int32_t> tokens;
    size_t at;
    bool open;
  };
  size_t shares = processes ? static_cast<size_t>(processes->count()) : 1;
  size_t own = processes ? static_cast<size_t>(processes->rank()) : 0;
  for (size_t first = own * rows; first < questions.size();
       first += shares * rows) {
    std::vector<Row> batch;
    size_t count = std::min(rows, questions.size() - first);
    for (size_t i = first; i < first + count; ++i)
      batch.push_back({&questions[i], questions[i].question.prompt, 0, true});
    for (size_t i = 0; i < count; ++i)
      sources.set(static_cast<int64_t>(i), batch[i].asked->question.source,
                  data.padding());
    auto isOpen = [](const Row &row) { return row.open; };
    while (std::any_of(batch.begin(), batch.end(), isOpen)) {
      {
        PendingWrite<int32_t> write = model.write<int32_t>(tokensIn);
        std::span<int32_t> input = write.values();
        std::fill(input.begin(), input.end(), 0);
        for (size_t i = 0; i < batch.size(); ++i) {
          const std::vector<int32_t> &tokens = batch[i].tokens;
          size_t used = std::min(tokens.size(), length);
          std::ranges::copy(std::span(tokens).last(used),
                            input.subspan(i * length).begin());
        }
      }
      source.write(model, sources);
      model.run(forward);
      PendingRead<float> read = model.read<float>(logitsOut);
      std::span<const float> logits = read.values();
      for (size_t i = 0; i < batch.size(); ++i) {
        Row &row = batch[i];
        if (!row.open)
          continue;
        size_t last = std::min(row.tokens.size(), length) - 1;
        int32_t token =
            greedyToken(logits.subspan((i * length + last) * width, width));
        const std::vector<int32_t> &answer = row.asked->question.answer;
        bool isRight = row.at < answer.size() && token == answer[row.at];
        row.tokens.push_back(token);
        row.at += isRight;
        row.open = isRight && row.at < answer.size();
      }
    }
    for (const Row &row : batch) {
      Score &score = row.asked->isSeen ? result.seen : result.unseen;
      ++score.asked;
      score.right += row.at == row.asked->question.answer.size();
    }
  }
  if (!processes)
    return result;
  ExactMatch total;
  for (const ExactMatch &share : processes->gather(result))
    for (auto score : {&ExactMatch::seen, &ExactMatch::unseen}) {
      (total.*score).asked += (share.*score).asked;
      (total.*score).right += (share.*score).right;
    }
  return total;
}

} // namespace tfm
