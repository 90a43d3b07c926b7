//===- hf_config.cpp - a model beside a config.json ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/files/hf_config.h"

#include "runtime/files/family.h"
#include "runtime/files/graph_judge.h"
#include "runtime/files/hub.h"
#include "runtime/formats/gguf.h"
#include "runtime/recipe.h"
#include "runtime/support/atomic_file.h"
#include "runtime/support/error.h"
#include "runtime/support/read_json.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <nlohmann/json.hpp>

using nlohmann::json;
using State = tfm::ConfigKey::State;

namespace tfm {

namespace {

/// Judges every key by the table of the model's family.
class FamilyJudge {
public:
  explicit FamilyJudge(const ModelDescription &model)
      : family(json::parse(model.family)) {
    if (!model.hyperparameters.empty())
      for (const json &entry : json::parse(model.hyperparameters))
        values[entry.at("name").get<std::string>()] = entry.at("value");
  }

  std::vector<ConfigKey> judge(const json &config) const {
    std::vector<ConfigKey> keys;
    auto ignored = family.at("ignored").get<std::vector<std::string>>();
    for (const FamilyKey &key : readByFamily(family, config, ignored)) {
      ConfigKey entry = judge(key);
      if (key.key == "model_type")
        judgeFamily(entry, config);
      // What is absent and means what the model has needs no line.
      if (!key.stored.empty() || entry.state == State::Differs)
        keys.push_back(std::move(entry));
    }
    return keys;
  }

  /// What the model is, as a config.json.
  json write() const {
    std::map<std::string, json> own;
    for (const auto &[name, value] : values)
      if (!value.is_null())
        own[name] = value;
    return writeByFamily(
        family, own, [&](const std::string &text) { return valueOf(text); });
  }

  /// Makes a config.json, which agrees with the model, say how much the model
  /// has of what may be less: the context.
  void adapt(nlohmann::ordered_json &config) const {
    for (const auto &[key, rule] : family.at("keys").items()) {
      auto own = values.find(rule.value("sets", ""));
      if (!rule.value("may_be_less", false) || own == values.end() ||
          !own->second.is_number())
        continue;
      std::vector<std::string> names = rule.value("aliases", json::array());
      names.push_back(key);
      auto place = [](std::string name) {
        std::ranges::replace(name, '.', '/');
        return nlohmann::ordered_json::json_pointer("/" + name);
      };
      std::erase_if(names, [&](const std::string &name) {
        return !config.contains(place(name));
      });
      if (names.empty() && !isEqual(own->second, rule.value("default", json())))
        names.push_back(key);
      for (const std::string &name : names)
        config[place(name)] = own->second;
    }
  }

private:
  /// Keys of another family may mean something else.
  void judgeFamily(ConfigKey &entry, const json &config) const {
    json own = family.value("model_type", json());
    if (own.is_null() || config.value("model_type", own) == own)
      return;
    entry.state = State::Differs;
    entry.model = textOf(own);
    entry.fix = "import that folder, these weights are of another family";
  }

  ConfigKey judge(const FamilyKey &key) const {
    ConfigKey entry;
    entry.key = key.key;
    entry.stored = key.stored.empty() ? "null" : key.stored;
    entry.reason = key.reason;
    switch (key.kind) {
    case FamilyKey::Kind::Harmless:
      entry.state = State::Harmless;
      break;
    case FamilyKey::Kind::Required:
      entry.state = State::Agrees;
      entry.model = key.text;
      break;
    case FamilyKey::Kind::Refused:
      entry.state = State::Differs;
      entry.fix = key.reason;
      entry.reason.clear();
      break;
    case FamilyKey::Kind::Sets:
      judgeValue(entry, key);
      break;
    }
    return entry;
  }

  /// Compares what a key sets with what the model has.
  void judgeValue(ConfigKey &entry, const FamilyKey &key) const {
    bool exists = std::ranges::any_of(
        family.at("hyperparameters"),
        [&](const json &name) { return name == key.hyperparameter; });
    std::optional<json> wanted = valueOf(key.text);
    if (!wanted || !exists)
      return;
    // What has no value in the binary is none.
    auto found = values.find(key.hyperparameter);
    json own = found == values.end() ? json() : found->second;
    entry.model = textOf(own);
    bool isLess = key.mayBeLess && own.is_number() && wanted->is_number() &&
                  own.get<double>() < wanted->get<double>();
    if (isLess || isEqual(own, *wanted)) {
      entry.state = key.reason.empty() ? State::Agrees : State::Harmless;
      return;
    }
    entry.state = State::Differs;
    entry.fix = "build it with -D " + key.hyperparameter + "=" + key.text;
    if (key.stored.empty())
      entry.fix = "it is absent, which means " + key.text + ": " + entry.fix;
  }

  /// What a text of the language comes to; nothing where nobody knows.
  std::optional<json> valueOf(const std::string &text) const {
    if (auto known = family.at("values").find(text);
        known != family.at("values").end())
      return *known;
    if (text == "none")
      return json();
    json literal = jsonOf(text);
    return literal.is_discarded() ? std::nullopt : std::optional(literal);
  }

  const json family;
  std::map<std::string, json> values;
};

/// What the table of the family that a config.json is of tells of a model
/// without a family, beside what was compared: what is harmless, and what
/// nobody can judge.
void addUnjudged(std::vector<ConfigKey> &keys, const json &config,
                 const std::string &table) {
  for (const FamilyKey &key : readByFamily(json::parse(table), config, {})) {
    bool isKnown = std::ranges::any_of(
        keys, [&](const ConfigKey &known) { return known.key == key.key; });
    if (isKnown || key.stored.empty())
      continue;
    ConfigKey &entry = keys.emplace_back();
    entry.key = key.key;
    entry.stored = key.stored;
    if (key.kind == FamilyKey::Kind::Harmless) {
      entry.state = State::Harmless;
      entry.reason = key.reason;
    }
  }
}

} // namespace

bool ConfigComparison::agrees() const {
  return std::ranges::none_of(
      keys, [](const ConfigKey &key) { return key.state == State::Differs; });
}

std::optional<ConfigComparison> compareConfig(const std::string &path,
                                              const ModelDescription &model) {
  const bool isOneFile = isGguf(path) && !isFolder(path);
  std::string file = isOneFile ? path : path + "/config.json";
  if (!isOneFile && (!isFolder(path) || !folderHas(file)))
    return std::nullopt;
  const std::string text =
      isOneFile ? ""
                : readRegularFile(file, "the configuration of the weights");
  json config = isOneFile ? GgufReader(path).config(ggufOf(model.family, path))
                          : jsonOf(text);
  if (!config.is_object())
    throw InputError("{} {}, so whether the model is that of these weights is "
                     "unknown: copy or download it again, or remove it",
                     file, isNoObject(text));
  std::string table = model.family;
  if (table.empty() && model.tableFor &&
      config.value("model_type", json()).is_string())
    table = model.tableFor(config["model_type"].get<std::string>());
  if (!table.empty())
    if (std::optional<json> own = ownPart(json::parse(table), config))
      config = std::move(*own);
  std::vector<ConfigKey> shown = judgeByGraph(config, model);
  if (model.family.empty()) {
    if (!table.empty())
      addUnjudged(shown, config, table);
    return ConfigComparison{file, std::move(shown)};
  }
  std::vector<ConfigKey> keys = FamilyJudge(model).judge(config);
  // A hyperparameter may have the right value and nothing compute with it.
  for (ConfigKey &key : keys)
    for (ConfigKey &other : shown)
      if (key.state == State::Agrees && other.state == State::Differs &&
          other.key == key.key)
        key = other;
  return ConfigComparison{file, std::move(keys)};
}

namespace {

ModelDescription describe(const tfm_model &model) {
  Recipe recipe = recipeOf(model);
  return {recipe.facts, model.hyperparameters ? model.hyperparameters : "",
          model.source, recipe.family};
}

/// The keys that a comparison finds different, for a message.
std::string differences(const std::vector<ConfigKey> &keys) {
  std::string text;
  for (const ConfigKey &key : keys)
    if (key.state == State::Differs)
      text +=
          fmt::format("\n  {} is {}{}{}: {}", key.key, key.stored,
                      key.model.empty() ? "" : ", here ", key.model, key.fix);
  return text;
}

} // namespace

std::string writeConfig(const tfm_model &model) {
  ModelDescription description = describe(model);
  if (description.family.empty())
    return "";
  FamilyJudge judge(description);
  json config;
  std::string problem;
  try {
    config = judge.write();
    problem = differences(judge.judge(config));
  } catch (const InputError &error) {
    problem = std::string("\n  ") + error.what();
  }
  if (!problem.empty())
    throw InputError("no config.json of its family describes this model:{}",
                     problem);
  return config.dump(2) + "\n";
}

std::string adaptConfig(const std::string &folder, const tfm_model &model) {
  requireConfig(folder, model);
  const std::string path = folder + "/config.json";
  const std::string text =
      readRegularFile(path, "the configuration of the weights");
  auto config = nlohmann::ordered_json::parse(text);
  ModelDescription description = describe(model);
  const json family = description.family.empty()
                          ? json::object()
                          : json::parse(description.family);
  if (std::optional<json> own = ownPart(family, json::parse(text))) {
    // The other parts of that model are not exported.
    config = nlohmann::ordered_json::parse(own->dump());
    config.erase("architectures");
    if (auto name = family.find("architecture"); name != family.end())
      config["architectures"] = {name->get<std::string>()};
  }
  // What is exported has been read into floats.
  config.erase(hubTable().at("quantised").get<std::string>());
  if (!description.family.empty()) {
    FamilyJudge(description).adapt(config);
    return config.dump(2) + "\n";
  }
  // A context that was made shorter: tables of positions have that shape.
  json facts =
      json::parse(description.facts.empty() ? "{}" : description.facts);
  if (facts.contains("context"))
    for (const std::string &key : boundsOf("context"))
      if (config.contains(key) && config[key].is_number_integer() &&
          config[key].get<int64_t>() > facts["context"].get<int64_t>())
        config[key] = facts["context"].get<int64_t>();
  return config.dump(2) + "\n";
}

bool isOfLargerModel(const std::string &folder, const tfm_model &model) {
  const std::string family = describe(model).family;
  const std::string path = folder + "/config.json";
  return !family.empty() && folderHas(path) &&
         ownPart(
             json::parse(family),
             jsonOf(readRegularFile(path, "the configuration of the weights")))
             .has_value();
}

std::string requireConfig(const std::string &weights, const tfm_model &model) {
  std::optional<ConfigComparison> comparison =
      compareConfig(weights, describe(model));
  if (!comparison)
    return "";
  if (comparison->agrees()) {
    std::vector<std::string> unjudged;
    for (const ConfigKey &key : comparison->keys)
      if (key.state == State::NotCompared && key.stored != "null")
        unjudged.push_back(key.key);
    if (unjudged.empty())
      return "";
    return fmt::format("whether {} computes with what {} says cannot be "
                       "compared: {}",
                       model.name, comparison->path, fmt::join(unjudged, ", "));
  }
  std::string message = fmt::format(
      "{} is of another model than {}, which would compute something else with "
      "these weights:",
      comparison->path, model.name);
  throw InputError(
      "{}{}\nIf it is the file that is wrong, correct it or take the key out",
      message, differences(comparison->keys));
}

} // namespace tfm
