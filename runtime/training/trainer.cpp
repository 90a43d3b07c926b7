//===- trainer.cpp - the training loop ----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/training/trainer.h"

#include "runtime/comm/separate_work.h"
#include "runtime/device/variant.h"
#include "runtime/support/atomic_file.h"
#include "runtime/support/checksum.h"
#include "runtime/support/error.h"
#include "runtime/support/shell_word.h"
#include "runtime/support/utf8.h"
#include "runtime/training/initialise.h"
#include "runtime/training/learning_rate.h"
#include "runtime/training/run_settings.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tfm {

/// How many questions a validation asks: enough for a curve.
static constexpr size_t questionsWhileTraining = 250;

std::optional<int32_t> ignoredTarget(const TrainSpec &train,
                                     const Tokenizer &tokenizer) {
  if (train.ignoreId)
    return static_cast<int32_t>(*train.ignoreId);
  if (!train.ignoreToken)
    return std::nullopt;
  std::optional<int32_t> id = tokenizer.findText(*train.ignoreToken);
  if (!id)
    throw InputError(
        "the ignored target \"{}\" is not one token of the tokenizer",
        *train.ignoreToken);
  return id;
}

/// The processes that share a training.
static int processCount(const TrainOptions &options) {
  return options.processes ? options.processes->count() : 1;
}

Trainer::Trainer(Model &model, const Recipe &recipe, const Dataset &data,
                 const Tokenizer &tokenizer, TrainOptions options)
    : model(model), recipe(recipe), data(data), tokenizer(tokenizer),
      options(std::move(options)),
      ignored(ignoredTarget(recipe.train, tokenizer)),
      trainFunction(model.function(TFM_TRAIN)),
      updateFunction(model.function(TFM_UPDATE)),
      microCount(recipe.train.accumulate / processCount(this->options)),
      rows(trainFunction, microCount * recipe.train.batch),
      unit(data.unit(recipe.train.sequence)), source(trainFunction) {
  const TrainSpec &train = recipe.train;
  int count = processCount(this->options);
  firstMicro = this->options.processes
                   ? this->options.processes->rank() * microCount
                   : 0;
  bool isTree = train.sum == "tree" && train.accumulate > 1;
  leafMicros =
      isTree ? train.accumulate >>
                   std::countr_zero(static_cast<uint64_t>(train.accumulate))
             : microCount;
  if (isTree || this->options.processes)
    shared = tfm_share_update(model, this->options.processes);
  losses.resize(static_cast<size_t>(microCount) + 1);
  for (Launched &update : launched)
    update.losses.reserve(losses.size());
  allLosses.resize(losses.size() * static_cast<size_t>(count));
  data.requireFills(trainFunction);
  buffers = {&Model::input(trainFunction, TFM_IN_COUNT),
             Model::findInput(trainFunction, TFM_IN_RNG),
             &Model::output(trainFunction, TFM_OUT_LOSS),
             &Model::input(updateFunction, TFM_IN_HYPER),
             Model::findOutput(updateFunction, TFM_OUT_GRAD_NORM)};
  for (const Rows::Input &input : rows.inputs())
    if (input.buffer->shape[0] != train.batch)
      throw std::logic_error("the model's batch is not that of its recipe");
  if (!holdsArrays(recipe.data) && std::ssize(rows.tokens(0)) != train.sequence)
    throw std::logic_error("the model's sequence is not that of its recipe");
  if (model.find(TFM_EVALUATE))
    evaluator.emplace(model, data, ignored, this->options.processes);
  const std::string origin = "the prompt of train.sample in the recipe";
  if (train.sample.interval.every > 0)
    samplePrompt =
        source.isTaken()
            ? sourceTokens(tokenizer, train.sample.prompt,
                           defaultOptions(recipe, tokenizer).endTokens, origin)
            : promptTokens(tokenizer, train.sample.prompt,
                           beginOfData(recipe, tokenizer), origin);
  if (source.isTaken() &&
      static_cast<int64_t>(samplePrompt.size()) > source.length())
    throw InputError("{} has {} tokens, and the encoder reads {}", origin,
                     samplePrompt.size(), source.length());
}

void Trainer::prepare() {
  const TrainSpec &train = recipe.train;
  if (!options.resume.empty()) {
    position = loadCheckpoint(options.resume, model,
                              /*checksLog=*/options.log.empty() && isFirst());
  } else {
    position.seed = options.seed.value_or(train.seed);
    position.lr = train.optimizer.lr;
    const bool isWhole = std::ranges::any_of(options.init, &std::string::empty,
                                             &InitialWeights::part);
    if (!isWhole || options.partial)
      initialise(model, position.seed);
    beginWith(options.init);
  }
  stepsBefore = position.steps;
  if (options.lr)
    position.lr = *options.lr;
  order.emplace(data, train, position.seed);
  order->setIgnored(ignored);
  order->goOn(position.step, position.tokens / unit.perRow);
  if (options.steps)
    position.steps = *options.steps;
  else if (options.resume.empty())
    position.steps = train.steps    ? *train.steps
                     : train.epochs ? order->stepsOf(*train.epochs)
                                    : 0;
  if (position.steps < 1)
    throw InputError(
        "the recipe does not say how long to train: use --steps N");
}

void Trainer::call(const tfm_function &function) {
  if (profile)
    profile->run(function);
  else
    model.run(function);
}

void Trainer::callBoth() {
  if (!profile)
    return model.run(trainFunction, updateFunction);
  profile->run(trainFunction);
  profile->run(updateFunction);
}

void Trainer::goOnWithout(const std::string &failure) {
  unwritten = failure;
  progress->clear();
  say(fmt::format("warning: {}; training goes on\n", printable(failure)));
}

void Trainer::endProfile() {
  bool isWritten = false;
  try {
    isWritten = profile->write();
    profile.reset();
  } catch (const InputError &error) {
    profile.reset();
    return goOnWithout(error.what());
  }
  if (options.quiet)
    return;
  progress->clear();
  say(printable(isWritten ? "note: what the steps spent their time on is in " +
                                options.profile +
                                ": open it in ui.perfetto.dev or "
                                "chrome://tracing"
                          : "note: training ended before a step that is "
                            "recorded, and nothing is written to " +
                                options.profile) +
      "\n");
}

void Trainer::fill(int64_t step) {
  counted = 0;
  for (int64_t micro = 0; micro < microCount; ++micro)
    counted +=
        order->fill(step, firstMicro + micro, rows, micro * recipe.train.batch);
  filled = step;
}

/// How many sums wait to be added to that of a leaf, as one counts in binary:
/// two sums of as many leaves become one.
static int64_t waitingFor(int64_t leaf) {
  return std::countr_one(static_cast<uint64_t>(leaf));
}

void Trainer::endLeaf(int64_t leaf) {
  if ((leaf + 1) * leafMicros == microCount)
    return; // those that wait for this one are added when it is shared
  int64_t place = 0;
  for (; place < waitingFor(leaf); ++place)
    model.addWaitingSum(place, 0, model.rowCount());
  model.keepAsWaitingSum(place);
}

std::array<float, 4> Trainer::hyper(int64_t step, double lr) const {
  const TrainSpec &train = recipe.train;
  auto t = static_cast<double>(step + 1);
  return {static_cast<float>(lr),
          static_cast<float>(1 - std::pow(train.optimizer.beta1, t)),
          static_cast<float>(1 - std::pow(train.optimizer.beta2, t)),
          static_cast<float>(train.clip)};
}

float Trainer::updateShared(int64_t step, double lr) {
  float norm = shared->run(hyper(step, lr));
  SharedUpdate::Times times = shared->takeTimes();
  if (profile) {
    profile->note("sums of gradients", times.began, times.summed,
                  HiddenExchange{times.hidden, times.waited});
    profile->note("update", times.summed, times.updated);
  }
  hiddenSeconds += times.hidden;
  exchangeSeconds += times.summed - times.began + times.waited;
  return norm;
}

double Trainer::sumLosses(Launched &update) {
  for (size_t i = 0; i < update.losses.size(); ++i)
    losses[i] = update.losses[i].value();
  bool wantsToStop = (interrupt && interrupt->load()) || !unreadable.empty();
  losses.back() = wantsToStop ? 1 : 0;
  if (options.processes)
    options.processes->gather<float>(losses, allLosses);
  else
    std::ranges::copy(losses, allLosses.begin());
  double sum = 0;
  for (size_t first = 0; first < allLosses.size(); first += losses.size()) {
    std::span<const float> of(&allLosses[first], losses.size());
    for (float loss : of.first(losses.size() - 1))
      sum += static_cast<double>(loss);
    isStopped |= of.back() != 0;
  }
  return sum;
}

void Trainer::requireSameBeginning() {
  Processes &processes = *options.processes;
  processes.requireSame("other data",
                        data.checksum({Part::Train, Part::Validation},
                                      recipe.train.sequence, source.isTaken()),
                        "give all of them the same files");
  // By its checksum the optimizer's state, of which each has its share alone.
  std::string told = fmt::format(
      "{} {} {} {} {} {}", position.steps, position.seed, position.lr,
      position.optimizerChecksum, position.bestValidation.value_or(0),
      position.worseValidations);
  processes.requireSame(
      "other options or checkpoints", told,
      "give all of them the same --steps, --seed, --lr and --resume");
  Checksum checksum = checksumOf(model);
  checksum.add(&position.step, sizeof position.step);
  processes.requireSame("other weights", checksum.text(),
                        "give all of them the same ones to begin with");
}

double Trainer::step() {
  double loss = beginStep(/*goesOn=*/false);
  awaitParameters();
  return loss;
}

double Trainer::beginStep(bool goesOn) {
  launchedSteps = std::max(launchedSteps, position.step);
  if (launchedSteps == position.step)
    launch();
  if (goesOn && runsAhead())
    launch();
  return collect();
}

bool Trainer::stops() const {
  // Processes stop where all know that one is to stop.
  return options.processes ? isStopped
                           : interrupt->load() || !unreadable.empty();
}

bool Trainer::runsAhead() const {
  // What computes aside has the next update to do while loss and norm come back
  // and are looked at, unless something is done between the two.
  const TrainSpec &train = recipe.train;
  int64_t after = position.step + 1;
  return !model.device().isHostMemory() && !shared && !options.processes &&
         !profile && after < position.steps && !stops() &&
         !due(train.validate, after) && !due(train.sample.interval, after) &&
         !due(train.checkpoint, after);
}

void Trainer::fillAhead(int64_t step) {
  try {
    fill(step);
  } catch (const InputError &error) {
    unreadable = error.what();
  }
}

std::string Trainer::whoseDataEnded() {
  Processes *processes = options.processes;
  if (!processes)
    return unreadable;
  std::string first;
  for (const std::string &why : processes->collect(
           unreadable.empty()
               ? ""
               : fmt::format("{}: {}", processes->name(), unreadable)))
    if (first.empty())
      first = why;
  return processes->fromFirst(first);
}

void Trainer::launch() {
  const TrainSpec &train = recipe.train;
  const int64_t step = launchedSteps++;
  Launched &update = launched[static_cast<size_t>(step % 2)];
  if (profile)
    profile->beginStep(step + 1);
  // All micro-batches first: each one's loss is its share of a mean over the
  // targets of all of them.
  if (filled != step)
    fill(step);
  double lr = learningRate(train.schedule, position.lr, step, position.steps);
  update.lr = lr;
  int64_t all = counted;
  if (options.processes)
    all = ignored ? options.processes->sum(counted)
                  : counted * options.processes->count();
  update.losses.clear();
  for (int64_t micro = 0; micro < microCount; ++micro) {
    if (train.accumulate > 1 && micro % leafMicros == 0)
      model.zeroGradients();
    rows.write(model, micro * train.batch);
    model.write<float>(*buffers.count).values()[0] =
        static_cast<float>(std::max<int64_t>(1, all));
    if (buffers.random) {
      PendingWrite<int32_t> random = model.write<int32_t>(*buffers.random);
      random.values()[0] = static_cast<int32_t>(position.seed);
      random.values()[1] = static_cast<int32_t>(position.seed >> 32);
      random.values()[2] = static_cast<int32_t>(step);
      random.values()[3] = static_cast<int32_t>(firstMicro + micro);
    }
    bool isLast = micro + 1 == microCount;
    if (shared) {
      shared->begin(isLast ? std::optional(waitingFor(micro / leafMicros))
                           : std::nullopt);
      call(trainFunction);
      shared->end();
    } else if (isLast) {
      std::ranges::copy(hyper(step, lr),
                        model.write<float>(*buffers.hyper).values().begin());
      callBoth();
    } else {
      call(trainFunction);
    }
    update.losses.emplace_back(model.read<float>(*buffers.loss));
    if ((micro + 1) % leafMicros == 0)
      endLeaf(micro / leafMicros);
  }

  update.sharedNorm = shared ? updateShared(step, lr) : 0.0f;
  update.norm.emplace(!shared && buffers.norm ? model.read<float>(*buffers.norm)
                                              : PendingRead<float>(std::span(
                                                    &update.sharedNorm, 1)));
  // While a device computes all of that.
  if (step + 1 < position.steps)
    fillAhead(step + 1);
}

double Trainer::collect() {
  const TrainSpec &train = recipe.train;
  Launched &update = launched[static_cast<size_t>(position.step % 2)];
  double loss = sumLosses(update);
  if (!std::isfinite(loss))
    failDiverged(fmt::format("the loss is {} at step {}", std::abs(loss),
                             position.step + 1));
  float gradientNorm = update.norm->value();
  if (!std::isfinite(gradientNorm))
    failDiverged(fmt::format("the gradient is not finite at step {}",
                             position.step + 1));
  ++position.step;
  position.tokens += train.accumulate * train.batch * unit.perRow;
  if (!firstLoss)
    firstLoss = loss;
  lossBefore = loss;
  logStep(loss, update.lr, gradientNorm);
  if (profile && profile->endStep())
    endProfile();
  return loss;
}

void Trainer::failDiverged(const std::string &what) {
  awaitParameters(); // what others send has come when this process ends
  failTogether(divergence(what));
}

void Trainer::failTogether(const std::string &text) const {
  if (options.processes)
    throw AgreedError(text);
  throw InputError(text);
}

std::string Trainer::divergence(const std::string &what) const {
  if (position.step == 0)
    return what +
           " before any update: look at what the model divides by and "
           "takes roots, logarithms or powers of, at decays of `scan` "
           "above 1, and at the " +
           (holdsArrays(recipe.data)
                ? "size of the numbers that it begins with, weights and data"
                : "weights that it begins with");
  // Who set a larger rate than the recipe's may go back to that.
  double smaller = std::min(position.lr / 3, recipe.train.optimizer.lr);
  std::string clip = recipe.train.clip > 0
                         ? fmt::format("{:.3g}", recipe.train.clip / 3)
                         : "1.0";
  const OptimizerSpec &optimizer = recipe.train.optimizer;
  if (optimizer.kind != "sgd" && optimizer.eps == 0)
    return fmt::format("{}: with eps = 0 what has had no gradient yet is "
                       "changed by 0 / 0. Build with an eps, such as 1e-8{}",
                       what, whatIsLeft());
  // A loss grows before weights that diverge make it infinite.
  if (firstLoss && *lossBefore < *firstLoss && notFinite(model).empty())
    return fmt::format(
        "{}, which was {} before, and all weights are finite: look at what the "
        "model divides by and takes roots, logarithms or powers of, which the "
        "data of one step may make zero. If it is none of these, try a smaller "
        "learning rate (--lr {:g}) or clip = {}{}",
        what, lossText(*lossBefore), smaller, clip, whatIsLeft());
  return fmt::format(
      "{}: training has diverged. Try a smaller learning rate (--lr {:g}), "
      "warmup or clip = {}{}{}",
      what, smaller, clip,
      holdsArrays(recipe.data) ? ", and data of about the size of 1" : "",
      whatIsLeft());
}

std::string Trainer::whereItStopped() const {
  if (options.out.empty())
    return fmt::format(" at step {}", position.step);
  auto again = [](const char *option, const std::string &value) {
    return value.empty() ? "" : option + shellWord(value);
  };
  return fmt::format(": step {} is saved, continue with --resume {}{}{}{}",
                     position.step, shellWord(options.out),
                     again(" --data ", options.data),
                     again(" --log ", options.log),
                     again(" --chat-template-kwargs ", options.chatVariables));
}

std::string Trainer::whatIsLeft() const {
  if (isFolderLost)
    return "";
  // The first of several processes speaks of it.
  if (savedAt && !options.out.empty())
    return fmt::format("; the checkpoint of step {} in {} is untouched: "
                       "--resume {} goes on from it",
                       *savedAt, options.out, shellWord(options.out));
  if (!options.resume.empty())
    return fmt::format("; the checkpoint in {} is untouched", options.resume);
  if (position.step > 0 && !options.out.empty() && options.log.empty())
    return fmt::format("; what was logged is in {}/log.jsonl", options.out);
  return "";
}

void Trainer::logStep(double loss, double lr, float gradientNorm) {
  char line[256];
  auto end = fmt::format_to_n(line, sizeof line,
                              "{{\"step\":{},\"loss\":{},\"lr\":{},"
                              "\"grad_norm\":{},\"{}\":{}}}",
                              position.step, loss, lr, gradientNorm, unit.name,
                              position.tokens)
                 .out;
  log.line({line, static_cast<size_t>(end - line)});
}

bool Trainer::due(const Interval &interval, int64_t step) const {
  if (interval.every <= 0)
    return false;
  if (interval.unit != "epochs")
    return step % interval.every == 0;
  return order->epochsAfter(step) / interval.every >
         order->epochsAfter(step - 1) / interval.every;
}

void Trainer::chooseQuestions() {
  try {
    questions = tfm::chooseQuestions(data, questionsWhileTraining);
  } catch (const InputError &error) {
    askNothing(error.what());
  }
}

void Trainer::askNothing(const std::string &why) {
  questions.clear();
  if (isFirst())
    say(fmt::format("note: no answers are compared: {}\n", printable(why)));
}

void Trainer::checkValidation() {
  const TrainSpec &train = recipe.train;
  if (!evaluator)
    return;
  const char *why = "";
  if (data.windows(Part::Validation) < 1)
    why = "the data has no validation part";
  else if (!evaluator->hasTargets(Part::Validation, train.validateBatches))
    why = "no target in the validation part of the data counts, all of them "
          "are what the loss ignores";
  else
    return chooseQuestions();
  evaluator.reset();
  if (!isFirst() || (train.validate.every <= 0 && train.stop.patience <= 0))
    return;
  std::string_view names = train.stop.patience <= 0   ? "`train.validate` does"
                           : train.validate.every > 0 ? "`train.validate` and "
                                                        "`train.stop` do"
                                                      : "`train.stop` does";
  say(fmt::format("note: nothing is validated, and {} nothing: {} "
                  "(`data.validation`)\n",
                  names, why));
}

bool Trainer::validate(TrainResult &result) {
  const TrainSpec &train = recipe.train;
  if (!evaluator)
    return true;
  double began = now();
  log.flush(); // this may take a while
  Evaluation evaluation =
      evaluator->evaluate(Part::Validation, train.validateBatches);
  if (!std::isfinite(evaluation.loss))
    failDiverged(fmt::format("the validation loss is {} at step {}",
                             std::abs(evaluation.loss), position.step));
  result.validationLoss = evaluation.loss;
  ExactMatch match;
  if (!questions.empty())
    try {
      match = answerQuestions(model, data, questions, options.processes);
    } catch (const InputError &error) { // no reason to give up training
      progress->clear();
      askNothing(error.what());
    }
  auto part = [](const char *name, const Score &score) {
    return score.asked == 0
               ? std::string()
               : fmt::format(",\"exact_match_{}\":{}", name, score.accuracy());
  };
  log.line(fmt::format("{{\"step\":{},\"validation_loss\":{}{}{},"
                       "\"seconds\":{:.3f}}}",
                       position.step, evaluation.loss, part("seen", match.seen),
                       part("unseen", match.unseen), progress->seconds()),
           /*now=*/true);
  bool isBest = folder && train.validate.every > 0 &&
                (!lowestLoss || evaluation.loss < *lowestLoss);
  if (shared && shared->keepsMasters() && options.processes->sum(isBest) > 0) {
    shared->gatherMasters();
    if (isBest)
      keepBest(evaluation.loss);
    shared->dropStateOfOthers();
  } else if (isBest) {
    keepBest(evaluation.loss);
  }
  if (!options.quiet) {
    progress->clear();
    const Score all = match.all();
    say(fmt::format("step {}: validation loss {}{}\n", position.step,
                    lossText(evaluation.loss),
                    all.asked == 0 ? ""
                                   : fmt::format(", {} of {} answers right",
                                                 all.right, all.asked)));
  }
  bool isBetter =
      !position.bestValidation ||
      evaluation.loss < *position.bestValidation - train.stop.minDelta;
  if (isBetter)
    position.bestValidation = evaluation.loss;
  position.worseValidations = isBetter ? 0 : position.worseValidations + 1;
  progress->exclude(now() - began);
  return train.stop.patience == 0 ||
         position.worseValidations < train.stop.patience;
}

void Trainer::sample() {
  // The others wait for as long as the first one says that it goes on.
  std::optional<SeparateWork> work;
  if (options.processes)
    work.emplace(*options.processes);
  if (isFirst())
    drawSample([&] {
      if (work)
        (void)work->goOn(false);
    });
  if (work)
    (void)work->end(false);
}

void Trainer::drawSample(const std::function<void()> &goOn) {
  double began = now();
  progress->clear();
  GenerateOptions generation = defaultOptions(recipe, tokenizer);
  generation.tokens = recipe.train.sample.tokens;
  generation.alone = {source.isTaken() || recipe.train.sample.prompt.empty()};
  generation.seed = position.seed;
  generation.sequence = static_cast<uint32_t>(position.step);
  for (int32_t id : sampleEnds)
    generation.endTokens.push_back(id);
  // It stands in the log too: where nobody reads it here, training goes on.
  auto show = [&](std::string_view part) {
    goOn();
    if (options.quiet)
      return;
    std::fwrite(part.data(), 1, part.size(), stdout);
    std::fflush(stdout);
  };
  show(fmt::format("--- sample at step {} ---\n{}{}", position.step,
                   recipe.train.sample.prompt, source.isTaken() ? "\n" : ""));
  Generated text;
  try {
    std::unique_ptr<LogitsSource> logits = openLogits(
        model, recipe.generate.context,
        source.isTaken() ? std::optional(answerMarks(recipe, tokenizer, ""))
                         : std::nullopt);
    text = generate(*logits, tokenizer, samplePrompt, generation, show);
  } catch (const InputError &error) { // no reason to give up training
    show(fmt::format("\n--- no sample: {} ---\n", error.what()));
    progress->exclude(now() - began);
    return;
  }
  show("\n---\n");
  nlohmann::ordered_json line = {{"step", position.step},
                                 {"prompt", recipe.train.sample.prompt},
                                 {"sample", text.text}};
  log.line(line.dump(), /*now=*/true);
  progress->exclude(now() - began);
}

RunState Trainer::ofThisBuild() const {
  RunState here;
  here.precision = recipe.train.precision;
  here.optimizer = recipe.train.optimizer.kind;
  here.data = options.data;
  here.settings = runSettings(model.descriptor());
  here.fileChecksums = options.fileChecksums;
  // Of long texts 64 pieces, so that this takes no time.
  here.dataChecksum =
      data.checksum({Part::Train, Part::Validation}, recipe.train.sequence,
                    source.isTaken(), /*mostPieces=*/64);
  return here;
}

void Trainer::sayWhatIsKept(const RunState &here) {
  const TrainSpec &train = recipe.train;
  int64_t steps = train.steps.value_or(
      train.epochs ? order->stepsOf(*train.epochs) : position.steps);
  if (!options.steps && steps != position.steps)
    say(fmt::format("note: the run keeps its {} steps, where this build's "
                    "recipe has {}: --steps changes them\n",
                    position.steps, steps));
  double rate = learningRate(train.schedule, position.lr, position.step,
                             position.steps),
         rateBefore = learningRate(train.schedule, position.lr, position.step,
                                   stepsBefore);
  // By as much as three digits show.
  bool differs = std::abs(rate - rateBefore) > 5e-4 * std::abs(rateBefore);
  if (differs && position.step < position.steps)
    say(fmt::format("note: the schedule ends at step {} and no longer at {}: "
                    "the learning rate goes on with {:.3g} instead of {:.3g}\n",
                    position.steps, stepsBefore, rate, rateBefore));
  if (!options.lr && train.optimizer.lr != position.lr)
    say(fmt::format("note: the run keeps its learning rate {}, where this "
                    "build's recipe has {}: --lr changes it\n",
                    position.lr, train.optimizer.lr));
  if (options.data != position.data)
    say(printable(fmt::format(
            "note: the run was trained on {} until now, and goes on with {}",
            position.data.empty() ? "the data of its recipe"
                                  : "--data " + shellWord(position.data),
            options.data.empty() ? "the data of this build's recipe"
                                 : options.data)) +
        "\n");
  std::string changes = changesOfSettings(position.settings, here.settings);
  if (!changes.empty())
    say(printable("note: until now the run had " + changes) + "\n");
  // Other windows show other parts of a text.
  if (options.data == position.data && !position.dataChecksum.empty() &&
      position.dataChecksum != here.dataChecksum &&
      changes.find("train.sequence") == std::string::npos)
    say(printable("note: the data are not those that the run had until now" +
                  changesOfFiles(position.fileChecksums, here.fileChecksums)) +
        "\n");
  int64_t ofUpdate = train.batch * unit.perRow * train.accumulate;
  if (position.tokens != position.step * ofUpdate)
    say(fmt::format(
        "note: an update of this build has {} {}; those of the "
        "run had others until now, {:.0f} on average\n",
        ofUpdate, unit.name,
        static_cast<double>(position.tokens) /
            static_cast<double>(std::max<int64_t>(1, position.step))));
}

bool Trainer::resumeWhere(TrainResult &result) {
  const TrainSpec &train = recipe.train;
  RunState here = ofThisBuild();
  if (!options.resume.empty() && isFirst())
    sayWhatIsKept(here);
  bool wasStopped = train.stop.patience > 0 &&
                    position.worseValidations >= train.stop.patience;
  result.steps = result.firstStep = position.step;
  result.stoppedEarly = wasStopped && !options.steps;
  result.wasComplete = position.step >= position.steps || result.stoppedEarly;
  if (result.wasComplete) {
    // A kill may have left half a line behind what the checkpoint counts.
    if (folder)
      openLog();
    return false;
  }
  if (wasStopped)
    position.worseValidations = 0;
  bool isOtherData = options.data != position.data ||
                     (!position.dataChecksum.empty() &&
                      position.dataChecksum != here.dataChecksum);
  if (!options.resume.empty() && isOtherData) {
    // A loss on other data is none that theirs could be held against.
    position.bestValidation.reset();
    position.worseValidations = 0;
  }
  if (!options.resume.empty() && !options.quiet)
    say(fmt::format("going on from step {} of {} in {}\n", position.step,
                    position.steps, printable(options.resume)));
  if (position.precision != train.precision && !options.resume.empty() &&
      isFirst())
    say(fmt::format("note: the run in {} was trained in {} until now, and goes "
                    "on in {}: its weights and the optimizer's state are f32 "
                    "in both\n",
                    printable(options.resume), position.precision,
                    train.precision));
  position.precision = here.precision;
  position.optimizer = here.optimizer;
  position.data = here.data;
  position.settings = here.settings;
  position.dataChecksum = here.dataChecksum;
  position.fileChecksums = here.fileChecksums;
  return true;
}

TrainResult Trainer::run(const std::atomic<bool> &newInterrupt) {
  const TrainSpec &train = recipe.train;
  interrupt = &newInterrupt;
  // Before it is read: another training may be about to write it.
  if (!options.resume.empty() && isFirst()) {
    if (options.out != options.resume)
      settle(options.resume);
    else if (isFolder(options.out))
      folder.emplace(options.out, train.keep).recover();
  }
  if (options.processes)
    options.processes->meet();
  prepare();
  if (options.processes) {
    requireSameBeginning();
    if (!options.quiet)
      say(printable(options.processes->list()));
  }
  if (shared)
    shared->dropStateOfOthers();
  TrainResult result;
  result.unit = unit;
  if (!resumeWhere(result))
    return result;
  checkValidation();
  // The last moment before something is replaced.
  int64_t interrupts = interrupt->load();
  if (options.processes)
    interrupts = options.processes->sum(interrupts);
  if (interrupts > 0)
    throw Interrupted("interrupted before the first step: nothing was changed");
  if (isFirst() && !options.out.empty())
    openRun();
  else if (isFirst())
    openLog();

  if (!options.resume.empty() && options.resume == options.out)
    savedAt = position.step;
  try {
    trainOn(result);
  } catch (const DeviceError &error) {
    bool canGoOn = savedAt || !options.resume.empty();
    throw InputError(
        "after step {}: {}{}{}", position.step, error.what(), whatIsLeft(),
        canGoOn ? ""
                : "; no checkpoint was saved: the same command begins anew");
  }
  return result;
}

void Trainer::trainOn(TrainResult &result) {
  const TrainSpec &train = recipe.train;
  int64_t first = position.step;
  if (!options.profile.empty())
    profile.emplace(options.profile, model, trainFunction, updateFunction,
                    microCount, position.steps - first);
  progress.emplace(first, position.steps,
                   train.batch * unit.perRow * train.accumulate, options.quiet,
                   "step", unit.name);
  while (position.step < launchedSteps ||
         (position.step < position.steps && !stops())) {
    result.loss = beginStep(/*goesOn=*/true);
    if (position.step == first + 1)
      result.firstStepSeconds = progress->seconds();
    progress->step(position.step, result.loss);
    bool isLast = position.step == position.steps;
    bool validates = due(train.validate, position.step),
         samples = due(train.sample.interval, position.step),
         saves = isLast || due(train.checkpoint, position.step);
    if (validates || samples || saves || stops())
      awaitParameters();
    if (validates && !validate(result)) {
      result.stoppedEarly = true;
      break;
    }
    if (samples)
      sample();
    if (isLast && !validates) {
      progress->finish();
      validate(result);
    }
    // The last checkpoint counts all of the log: what came behind it would be
    // lost by a kill.
    if (saves)
      save(/*goesOn=*/!isLast);
  }
  if (profile)
    endProfile(); // of fewer steps
  result.seconds = progress->seconds();
  result.unitsPerSecond = progress->speed();
  result.exchangeSeconds = exchangeSeconds;
  result.hiddenSeconds = hiddenSeconds;
  progress->finish();
  if (savedAt != position.step)
    save(/*goesOn=*/false);
  result.steps = position.step;
  result.firstStep = first;
  if (position.step < position.steps && !result.stoppedEarly) {
    if (std::string why = whoseDataEnded(); !why.empty())
      failTogether(why + "; training stopped" + whereItStopped());
    throw Interrupted("interrupted" + whereItStopped());
  }
  log.flush();
  std::string failure = log.problem().empty() ? unwritten : log.problem();
  if (!failure.empty())
    throw InputError(
        "{}{}", failure,
        options.out.empty() ? "" : "; all else is saved in " + options.out);
}

} // namespace tfm
