//===- recipe.cpp - what the model file says beside the architecture ----===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/recipe.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

using nlohmann::json;

namespace tfm {

namespace {

using recipe::Range;
using recipe::Type;

/// What reading a key needs of `recipe::Field`, so that binaries hold no more
/// of the table.
struct Key {
  std::string_view path, words, kinds;
  Range range;
  Type type;
  bool orNone, isOptional;
  /// Whether forms of another kind than `kinds` lack it.
  bool isElsewhereMissing;

  std::string_view name() const { return path.substr(path.rfind('.') + 1); }
};

consteval Key key(std::string_view path) {
  recipe::Field field = recipe::field(path);
  return {field.path,
          field.words,
          field.kinds,
          field.range,
          field.type,
          field.orNone,
          field.isOptional,
          field.without &&
              std::holds_alternative<std::monostate>(*field.without)};
}

[[noreturn]] void fail(const Key &key, const std::string &what) {
  throw std::logic_error("the model's recipe: " + std::string(key.path) + " " +
                         what);
}

/// Whether an object of this kind has the key, and not only a place for it.
bool belongs(const Key &key, const json &object) {
  if (key.kinds.empty())
    return true;
  auto kind = object.find("kind");
  return kind == object.end() || !kind->is_string() ||
         recipe::hasWord(key.kinds, kind->get_ref<const std::string &>());
}

bool isBeta(const json &value) {
  return value.is_number() && Range{0, recipe::belowOne}.has(value);
}

bool hasType(const Key &key, const json &value) {
  switch (key.type) {
  case Type::Integer:
  case Type::Rank:
    return value.is_number_integer();
  case Type::Number:
    return value.is_number();
  case Type::Flag:
    return value.is_boolean();
  case Type::Word:
  case Type::Text:
    return value.is_string();
  case Type::Texts:
    return value.is_array() && std::ranges::all_of(value, [](const json &v) {
             return v.is_string();
           });
  case Type::Pairs:
    return value.is_array();
  case Type::Token:
    return value.is_number_integer() || value.is_string();
  case Type::Betas:
    return value.is_array() && value.size() == 2 &&
           std::ranges::all_of(value, isBeta);
  case Type::Form:
  case Type::Json:
    return value.is_object();
  }
  return false;
}

/// Whether a value of the key's type is one that it may have.
bool isWithin(const Key &key, const json &value) {
  switch (key.type) {
  case Type::Integer:
  case Type::Rank:
  case Type::Number:
    return key.range.has(value.get<double>());
  case Type::Word:
    return recipe::hasWord(key.words, value.get_ref<const std::string &>());
  default:
    return true;
  }
}

/// The member of an object of the recipe; null where it is null, or may be
/// missing and is.
const json *member(const json &object, const Key &key) {
  auto found = object.find(key.name());
  bool isOwn = belongs(key, object);
  if (found == object.end()) {
    if (key.isOptional || (key.isElsewhereMissing && !isOwn))
      return nullptr;
    fail(key, "is missing");
  }
  if (found->is_null() && key.orNone)
    return nullptr;
  if (!hasType(key, *found))
    fail(key, "is of another type: " + found->dump());
  if (isOwn && !isWithin(key, *found))
    fail(key, "is out of its range: " + found->dump());
  return &*found;
}

/// Sets `value` where the member is there and not null.
template <typename T> void read(const json &object, const Key &key, T &value) {
  if (const json *found = member(object, key))
    value = found->get<T>();
}

template <typename T>
void read(const json &object, const Key &key, std::optional<T> &value) {
  if (const json *found = member(object, key))
    value = found->get<T>();
}

void readTrain(const json &object, TrainSpec &train) {
  read(object, key("train.batch"), train.batch);
  read(object, key("train.sequence"), train.sequence);
  read(object, key("train.accumulate"), train.accumulate);
  read(object, key("train.sum"), train.sum);
  read(object, key("train.steps"), train.steps);
  read(object, key("train.epochs"), train.epochs);
  read(object, key("train.seed"), train.seed);
  read(object, key("train.clip"), train.clip);
  read(object, key("train.only"), train.only);
  read(object, key("train.shuffle"), train.shuffle);
  read(object, key("train.precision"), train.precision);

  const json &loss = *member(object, key("train.loss"));
  read(loss, key("train.loss.kind"), train.loss);
  read(loss, key("train.loss.label_smoothing"), train.labelSmoothing);
  if (const json *ignore = member(loss, key("train.loss.ignore"))) {
    if (ignore->is_string())
      train.ignoreToken = ignore->get<std::string>();
    else
      train.ignoreId = ignore->get<int64_t>();
  }

  const json &optimizer = *member(object, key("train.optimizer"));
  read(optimizer, key("train.optimizer.kind"), train.optimizer.kind);
  read(optimizer, key("train.optimizer.lr"), train.optimizer.lr);
  const json &betas = *member(optimizer, key("train.optimizer.betas"));
  train.optimizer.beta1 = betas[0].get<double>();
  train.optimizer.beta2 = betas[1].get<double>();
  read(optimizer, key("train.optimizer.eps"), train.optimizer.eps);

  const json &schedule = *member(object, key("train.schedule"));
  read(schedule, key("train.schedule.kind"), train.schedule.kind);
  read(schedule, key("train.schedule.warmup"), train.schedule.warmup);
  read(schedule, key("train.schedule.final"), train.schedule.final);
  read(schedule, key("train.schedule.decay"), train.schedule.decay);
  read(schedule, key("train.schedule.shape"), train.schedule.shape);
  read(schedule, key("train.schedule.warmup_from_zero"),
       train.schedule.warmupFromZero);

  if (const json *validate = member(object, key("train.validate"))) {
    read(*validate, key("train.validate.every"), train.validate.every);
    read(*validate, key("train.validate.unit"), train.validate.unit);
    read(*validate, key("train.validate.batches"), train.validateBatches);
  }
  if (const json *checkpoint = member(object, key("train.checkpoint"))) {
    read(*checkpoint, key("train.checkpoint.every"), train.checkpoint.every);
    read(*checkpoint, key("train.checkpoint.unit"), train.checkpoint.unit);
    read(*checkpoint, key("train.checkpoint.keep"), train.keep);
  }
  if (const json *sample = member(object, key("train.sample"))) {
    read(*sample, key("train.sample.every"), train.sample.interval.every);
    read(*sample, key("train.sample.unit"), train.sample.interval.unit);
    read(*sample, key("train.sample.prompt"), train.sample.prompt);
    read(*sample, key("train.sample.tokens"), train.sample.tokens);
  }
  if (const json *stop = member(object, key("train.stop"))) {
    read(*stop, key("train.stop.patience"), train.stop.patience);
    read(*stop, key("train.stop.min_delta"), train.stop.minDelta);
  }
}

void readData(const json &object, DataSpec &data) {
  read(object, key("data.kind"), data.kind);
  read(object, key("data.files"), data.files);
  read(object, key("data.directory"), data.directory);
  read(object, key("data.field"), data.field);
  read(object, key("data.prompt"), data.prompt);
  read(object, key("data.answer"), data.answer);
  read(object, key("data.count"), data.count);
  read(object, key("data.max"), data.max);
  read(object, key("data.seed"), data.seed);
  read(object, key("data.validation"), data.validation);
  read(object, key("data.validation_files"), data.validationFiles);
  read(object, key("data.split_seed"), data.splitSeed);
  read(object, key("data.answer_after"), data.answerAfter);
  read(object, key("data.answers_only"), data.answersOnly);
  read(object, key("data.begin"), data.begin);
  read(object, key("data.end"), data.end);
  read(object, key("data.pad"), data.pad);
}

void readTokenizer(const json &object, TokenizerSpec &tokenizer) {
  read(object, key("tokenizer.kind"), tokenizer.kind);
  read(object, key("tokenizer.files"), tokenizer.files);
  read(object, key("tokenizer.directory"), tokenizer.directory);
  read(object, key("tokenizer.size"), tokenizer.size);
  if (const json *own = member(object, key("tokenizer.json")))
    tokenizer.json = own->dump();
}

void readGenerate(const json &object, GenerateSpec &generate) {
  read(object, key("generate.temperature"), generate.temperature);
  read(object, key("generate.top_k"), generate.topK);
  read(object, key("generate.top_p"), generate.topP);
  read(object, key("generate.min_p"), generate.minP);
  read(object, key("generate.typical_p"), generate.typicalP);
  read(object, key("generate.repeat_penalty"), generate.repeatPenalty);
  read(object, key("generate.tokens"), generate.tokens);
  read(object, key("generate.greedy"), generate.greedy);
  read(object, key("generate.overflow"), generate.overflow);
  read(object, key("generate.stop"), generate.stop);
  read(object, key("generate.weights"), generate.weights);
  read(object, key("generate.cache"), generate.cache);
  read(object, key("generate.batch"), generate.batch);
  read(object, key("generate.context"), generate.context);
  read(object, key("generate.whole_sequence"), generate.wholeSequence);
}

void readFacts(const json &object, Recipe &recipe) {
  recipe.facts = object.dump();
  // What limits the tokens is not in every model.
  if (auto tokens = object.find("tokens"); tokens != object.end())
    recipe.tokens = tokens->get<int64_t>();
  if (auto attentions = object.find("attentions"); attentions != object.end())
    recipe.attentions = attentions->get<int64_t>();
  recipe.hasEncoder = object.contains("encoder");
  if (auto inputs = object.find("inputs"); inputs != object.end())
    for (const auto &[name, fact] : inputs->items()) {
      InputFact &input = recipe.inputs[name];
      input.dims = fact.at("dims").get<std::vector<std::string>>();
      if (auto ids = fact.find("ids"); ids != fact.end())
        input.ids = ids->get<std::array<int64_t, 2>>();
      if (auto ignored = fact.find("ignored"); ignored != fact.end())
        input.ignored = ignored->get<int64_t>();
    }
  if (auto results = object.find("results"); results != object.end())
    recipe.results = results->get<decltype(recipe.results)>();
}

} // namespace

Recipe parseRecipe(std::string_view text) {
  Recipe recipe;
  if (text.empty())
    return recipe;
  try {
    json root = json::parse(text);
    const json *train = member(root, key("train"));
    recipe.hasTrain = train != nullptr;
    if (train)
      readTrain(*train, recipe.train);
    if (const json *data = member(root, key("data")))
      readData(*data, recipe.data);
    if (const json *tokenizer = member(root, key("tokenizer")))
      readTokenizer(*tokenizer, recipe.tokenizer);
    readGenerate(*member(root, key("generate")), recipe.generate);
    if (const json *facts = member(root, key("facts")))
      readFacts(*facts, recipe);
    if (const json *family = member(root, key("family")))
      recipe.family = family->dump();
  } catch (const json::exception &error) {
    throw std::logic_error(std::string("the model's recipe: ") + error.what());
  }
  return recipe;
}

Recipe recipeOf(const tfm_model &model) {
  return parseRecipe(model.recipe ? model.recipe : "");
}

std::string familyOf(const tfm_model &model) { return recipeOf(model).family; }

} // namespace tfm
