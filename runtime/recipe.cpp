//===- recipe.cpp - what the model file says beside the architecture ----===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/recipe.h"

#include <nlohmann/json.hpp>
#include <stdexcept>

using nlohmann::json;

namespace tfm {

namespace {

/// An object of the recipe; a missing one reads as an empty object.
const json &section(const json &parent, const char *name) {
  static const json empty = json::object();
  auto found = parent.find(name);
  return found == parent.end() || found->is_null() ? empty : *found;
}

/// Sets `value` where the member is there and not null.
template <typename T>
void read(const json &object, const char *name, T &value) {
  auto found = object.find(name);
  if (found != object.end() && !found->is_null())
    value = found->template get<T>();
}

template <typename T>
void read(const json &object, const char *name, std::optional<T> &value) {
  auto found = object.find(name);
  if (found != object.end() && !found->is_null())
    value = found->template get<T>();
}

/// A string, or an array of strings.
void readStrings(const json &object, const char *name,
                 std::vector<std::string> &value) {
  auto found = object.find(name);
  if (found == object.end() || found->is_null())
    return;
  if (found->is_string())
    value = {found->get<std::string>()};
  else
    value = found->get<std::vector<std::string>>();
}

Interval readInterval(const json &object, const char *name) {
  Interval interval;
  const json &spec = section(object, name);
  read(spec, "every", interval.every);
  read(spec, "unit", interval.unit);
  return interval;
}

void readTrain(const json &object, TrainSpec &train) {
  read(object, "batch", train.batch);
  read(object, "sequence", train.sequence);
  read(object, "accumulate", train.accumulate);
  read(object, "steps", train.steps);
  read(object, "epochs", train.epochs);
  read(object, "seed", train.seed);
  read(object, "clip", train.clip);
  read(object, "shuffle", train.shuffle);

  const json &loss = section(object, "loss");
  read(loss, "kind", train.loss);
  read(loss, "label_smoothing", train.labelSmoothing);
  const json &ignore = section(loss, "ignore");
  if (ignore.is_string())
    train.ignoreToken = ignore.get<std::string>();
  else if (ignore.is_number())
    train.ignoreId = ignore.get<int64_t>();

  const json &optimizer = section(object, "optimizer");
  read(optimizer, "kind", train.optimizer.kind);
  read(optimizer, "lr", train.optimizer.lr);
  const json &betas = section(optimizer, "betas");
  if (betas.is_array() && betas.size() == 2) {
    train.optimizer.beta1 = betas[0].get<double>();
    train.optimizer.beta2 = betas[1].get<double>();
  }

  const json &schedule = section(object, "schedule");
  read(schedule, "kind", train.schedule.kind);
  read(schedule, "warmup", train.schedule.warmup);
  read(schedule, "final", train.schedule.final);
  read(schedule, "decay", train.schedule.decay);
  read(schedule, "shape", train.schedule.shape);
  read(schedule, "warmup_from_zero", train.schedule.warmupFromZero);

  train.validate = readInterval(object, "validate");
  read(section(object, "validate"), "batches", train.validateBatches);
  train.checkpoint = readInterval(object, "checkpoint");
  read(section(object, "checkpoint"), "keep", train.keep);
  const json &sample = section(object, "sample");
  train.sample.interval = readInterval(object, "sample");
  read(sample, "prompt", train.sample.prompt);
  read(sample, "tokens", train.sample.tokens);
  const json &stop = section(object, "stop");
  read(stop, "patience", train.stop.patience);
  read(stop, "min_delta", train.stop.minDelta);
}

void readData(const json &object, DataSpec &data) {
  read(object, "kind", data.kind);
  readStrings(object, "files", data.files);
  read(object, "directory", data.directory);
  read(object, "field", data.field);
  read(object, "count", data.count);
  read(object, "max", data.max);
  read(object, "seed", data.seed);
  read(object, "validation", data.validation);
  read(object, "split_seed", data.splitSeed);
  read(object, "answer_after", data.answerAfter);
  read(object, "end", data.end);
  read(object, "pad", data.pad);
}

void readTokenizer(const json &object, TokenizerSpec &tokenizer) {
  read(object, "kind", tokenizer.kind);
  readStrings(object, "files", tokenizer.files);
  read(object, "directory", tokenizer.directory);
  read(object, "size", tokenizer.size);
  auto found = object.find("json");
  if (found != object.end() && found->is_object() && !found->empty())
    tokenizer.json = found->dump();
}

void readGenerate(const json &object, GenerateSpec &generate) {
  read(object, "temperature", generate.temperature);
  read(object, "top_k", generate.topK);
  read(object, "top_p", generate.topP);
  read(object, "min_p", generate.minP);
  read(object, "typical_p", generate.typicalP);
  read(object, "repeat_penalty", generate.repeatPenalty);
  read(object, "tokens", generate.tokens);
  read(object, "greedy", generate.greedy);
  read(object, "overflow", generate.overflow);
  readStrings(object, "stop", generate.stop);
  read(object, "context", generate.context);
  read(object, "whole_sequence", generate.wholeSequence);
}

} // namespace

Recipe parseRecipe(std::string_view text) {
  Recipe recipe;
  try {
    json root = text.empty() ? json::object() : json::parse(text);
    auto train = root.find("train");
    recipe.hasTrain = train != root.end() && train->is_object();
    if (recipe.hasTrain)
      readTrain(*train, recipe.train);
    readData(section(root, "data"), recipe.data);
    readTokenizer(section(root, "tokenizer"), recipe.tokenizer);
    readGenerate(section(root, "generate"), recipe.generate);
    if (const json &facts = section(root, "facts"); !facts.empty()) {
      recipe.facts = facts.dump();
      read(facts, "tokens", recipe.tokens);
    }
  } catch (const json::exception &error) {
    throw std::logic_error(std::string("the model's recipe: ") + error.what());
  }
  return recipe;
}

} // namespace tfm
