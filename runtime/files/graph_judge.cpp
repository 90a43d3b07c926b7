//===- graph_judge.cpp - a config.json beside what a graph shows ----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/files/graph_judge.h"

#include "runtime/files/family.h"
#include "runtime/files/hub.h"
#include "runtime/support/read_json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

using nlohmann::json;
using State = tfm::ConfigKey::State;

namespace tfm {

namespace {

/// A value of config.json in the form of a fact; nothing where it is of another
/// kind, and so says nothing that is understood here.
using Wanted = std::optional<json>;

json parse(const std::string &text, json empty) {
  return text.empty() ? std::move(empty) : json::parse(text);
}

class GraphJudge {
public:
  GraphJudge(const json &config, const ModelDescription &model)
      : config(config), source(model.source),
        facts(parse(model.facts, json::object())),
        hyperparameters(parse(model.hyperparameters, json::array())) {
    // What follows from others.
    if (const json *width = single("head_width"))
      facts["usual_scale"] = 1 / std::sqrt(width->get<double>());
    if (single("scale") && facts.value("attentions", json(0)) >= 2)
      facts["scale_by_layer"] = false;
    if (facts.contains("rope_base"))
      facts["rope_scaling"] = "default";
  }

  std::vector<ConfigKey> run() {
    for (const auto &[key, rules] : hubTable().at("keys").items()) {
      const json *stored = findKey(config, key);
      if (!stored)
        continue;
      const json cases = rules.is_array() ? rules : json::array({rules});
      auto rule = std::ranges::find_if(
          cases, [&](const json &rule) { return holds(rule); });
      if (rule != cases.end())
        judge(key, *stored, *rule);
    }
    return std::move(keys);
  }

private:
  /// Whether this is the rule for such a config.json.
  bool holds(const json &rule) const {
    auto valueOf = [&](const std::string &key) {
      const json *value = findKey(config, key);
      return value ? *value : json();
    };
    for (auto [member, wanted] :
         {std::pair("if_fact", true), std::pair("unless_fact", false)})
      if (rule.contains(member) &&
          facts.contains(rule[member].get<std::string>()) != wanted)
        return false;
    const json conditions = rule.value("if", json::object()),
               lists = rule.value("if_without", json::object()),
               factLists = rule.value("if_fact_without", json::object());
    for (const auto &[key, wanted] : conditions.items())
      if (!isOneOf(valueOf(key), wanted))
        return false;
    if (rule.contains("if_there") &&
        !findKey(config, rule["if_there"].get<std::string>()))
      return false;
    for (const auto &[key, entry] : lists.items()) {
      json list = valueOf(key);
      if (!list.is_array() || isOneOf(entry, list))
        return false;
    }
    for (const auto &[fact, entry] : factLists.items()) {
      const json *list = single(fact);
      if (!list || isOneOf(entry, *list))
        return false;
    }
    return true;
  }

  /// The only value of a fact, where it has one.
  const json *single(const std::string &fact) const {
    auto found = facts.find(fact);
    return found != facts.end() && found->size() == 1 ? &found->front()
                                                      : nullptr;
  }

  /// What the fact of a rule has to be.
  Wanted wantedBy(const json &rule, const json &stored) const {
    if (rule.contains("is"))
      return rule["is"];
    if (rule.contains("is_fact")) {
      const json *other = single(rule["is_fact"].get<std::string>());
      return other ? Wanted(*other) : std::nullopt;
    }
    const json places = rule.value("only_where", json::object());
    for (const auto &[fact, others] : places.items())
      if (std::ranges::none_of(others, [&](const json &other) {
            const json *value = findKey(config, other.get<std::string>());
            return value && facts.value(fact, json()) == *value;
          }))
        return std::nullopt;
    if (stored.is_null() && rule.contains("null"))
      return rule["null"];
    if (rule.contains("words")) {
      const json &words =
          hubTable().at("words").at(rule["words"].get<std::string>());
      auto word = stored.is_string() ? words.find(stored.get<std::string>())
                                     : words.end();
      return word == words.end() ? std::nullopt : Wanted(*word);
    }
    if (rule.contains("each_is")) {
      json each = json::array();
      for (const json &one : stored)
        each.push_back(one == rule["each_is"]);
      return stored.is_array() ? Wanted(std::move(each)) : std::nullopt;
    }
    const std::string type = rule.value("type", "");
    if (type == "integer"  ? !stored.is_number_unsigned()
        : type == "number" ? !stored.is_number()
                           : type != "flag" || !stored.is_boolean())
      return std::nullopt;
    return converted(rule, stored);
  }

  Wanted converted(const json &rule, const json &stored) const {
    if (rule.value("inverse_root", false)) {
      double value = stored.get<double>();
      return value > 0 ? Wanted(1 / std::sqrt(value)) : std::nullopt;
    }
    if (rule.contains("times")) {
      const json *whole = single(rule["times"].get<std::string>());
      if (!whole)
        return std::nullopt;
      double part = whole->get<double>() * stored.get<double>();
      if (!(part >= 0 && part <= whole->get<double>()))
        return std::nullopt;
      return json(static_cast<int64_t>(part));
    }
    if (rule.contains("none_from") &&
        stored >= facts.value(rule["none_from"].get<std::string>(), json(0)))
      return json();
    if (rule.contains("repeated_as")) {
      // Those that are repeated for every one of these are the same.
      const json *all = single(rule["repeated_as"].get<std::string>()),
                 *own = single(rule["fact"].get<std::string>());
      if (all && own && *all == *own && stored < *own)
        return std::nullopt;
    }
    return stored;
  }

  void judge(const std::string &key, const json &stored, const json &rule) {
    ConfigKey entry;
    entry.key = key;
    entry.stored = jsonText(stored);
    if (rule.contains("harmless")) {
      entry.state = State::Harmless;
      entry.reason = rule["harmless"].get<std::string>();
    } else if (rule.contains("fact")) {
      compare(entry, stored, rule);
    } else if (stored.empty() || stored == false) {
      return; // it asks for nothing
    }
    keys.push_back(std::move(entry));
  }

  /// Compares with a fact. Where the model has several values, one that is
  /// among them may be the right one.
  void compare(ConfigKey &entry, const json &stored, const json &rule) {
    const std::string fact = rule["fact"].get<std::string>();
    auto found = facts.find(fact);
    if (found == facts.end())
      return;
    for (const json &value : *found)
      entry.model += (entry.model.empty() ? "" : ", ") + textOf(value);
    Wanted wanted = wantedBy(rule, stored);
    if (!wanted)
      return;
    if (rule.value("may_be_less", false)) {
      // More does, too, as long as tensors have the shape.
      if (found->front() <= *wanted)
        entry.state = State::Agrees;
      return;
    }
    if (std::ranges::any_of(*found, [&](const json &value) {
          return isEqual(value, *wanted);
        })) {
      if (found->size() == 1)
        entry.state = State::Agrees;
      return;
    }
    const json excuses = rule.value("excuse", json::object());
    if (auto excuse = excuses.find(jsonText(stored)); excuse != excuses.end()) {
      entry.state = State::Harmless;
      entry.reason = excuse->get<std::string>();
      return;
    }
    entry.state = State::Differs;
    entry.fix = rule.contains("fix") ? rule["fix"].get<std::string>() + source
                                     : fixOf(fact, *wanted);
  }

  /// Names the hyperparameter that a fact comes from where the graph says
  /// which: another one that happens to have the same value is another one.
  std::string fixOf(const std::string &fact, const json &wanted) const {
    auto names = facts.find("names");
    std::string name = names == facts.end() ? "" : names->value(fact, "");
    bool exists = std::ranges::any_of(hyperparameters, [&](const json &entry) {
      return entry.at("name") == name;
    });
    return exists && wanted.is_number()
               ? "build it with -D " + name + "=" + jsonText(wanted)
               : "change it in " + source;
  }

  const json &config;
  const std::string &source;
  json facts, hyperparameters;
  std::vector<ConfigKey> keys;
};

} // namespace

const json *findKey(const json &config, std::string_view key) {
  const json *at = &config;
  while (true) {
    size_t end = std::min(key.find('.'), key.size());
    if (!at->is_object())
      return nullptr;
    auto found = at->find(std::string(key.substr(0, end)));
    if (found == at->end())
      return nullptr;
    at = &*found;
    if (end == key.size())
      return at;
    key.remove_prefix(end + 1);
  }
}

std::string textOf(const json &value) {
  if (value.is_null())
    return "none";
  return value.is_string() ? value.get<std::string>() : jsonText(value);
}

std::vector<ConfigKey> judgeByGraph(const json &config,
                                    const ModelDescription &model) {
  return GraphJudge(config, model).run();
}

std::vector<std::string> boundsOf(const std::string &fact) {
  std::vector<std::string> keys;
  for (const auto &[key, rule] : hubTable().at("keys").items())
    if (rule.is_object() && rule.value("fact", "") == fact &&
        rule.value("may_be_less", false))
      keys.push_back(key);
  return keys;
}

} // namespace tfm
