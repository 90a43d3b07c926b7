//===- run_settings.cpp - by what a build computes updates --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/training/run_settings.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

using nlohmann::json;

namespace tfm {

/// What a key of `train`, or all within it, is not listed for.
static constexpr std::array<std::string_view, 13> elsewhere = {
    // The run's own, or with a note of its own.
    "train.steps", "train.epochs", "train.seed", "train.optimizer.lr",
    "train.optimizer.kind", "train.precision", "train.batch",
    "train.accumulate",
    // Weights do not depend on it; on `sum` in their last bits alone.
    "train.sum", "train.validate", "train.checkpoint", "train.sample",
    "train.stop"};

static void list(const std::string &name, const json &value,
                 std::map<std::string, std::string> &settings) {
  if (std::ranges::find(elsewhere, name) != elsewhere.end())
    return;
  if (!value.is_object()) {
    settings[name] = value.dump();
    return;
  }
  for (const auto &[key, member] : value.items())
    list(name + "." + key, member, settings);
}

std::map<std::string, std::string> runSettings(const tfm_model &model) {
  std::map<std::string, std::string> settings;
  json recipe = json::parse(model.recipe);
  list("train", recipe.at("train"), settings);
  if (model.hyperparameters)
    for (const json &entry : json::parse(model.hyperparameters))
      settings[entry.at("name")] = entry.at("value").dump();
  return settings;
}

std::string changesOfSettings(const std::map<std::string, std::string> &before,
                              const std::map<std::string, std::string> &here) {
  auto valueIn = [](const auto &settings, const std::string &name) {
    auto found = settings.find(name);
    return found == settings.end() || found->second == "null" ? "none"
                                                              : found->second;
  };
  if (before.empty()) // an earlier version's
    return "";
  std::set<std::string> names;
  for (const auto &[name, value] : before)
    names.insert(name);
  for (const auto &[name, value] : here)
    names.insert(name);
  std::string changes;
  for (const std::string &name : names)
    if (std::string was = valueIn(before, name), is = valueIn(here, name);
        was != is)
      changes += fmt::format("{}{} = {} (here {})", changes.empty() ? "" : ", ",
                             name, was, is);
  return changes;
}

std::string changesOfFiles(const std::map<std::string, std::string> &before,
                           const std::map<std::string, std::string> &here) {
  std::string changes;
  auto add = [&](const std::string &name, const char *what) {
    changes += (changes.empty() ? ": " : ", ") + name + what;
  };
  if (!before.empty()) // else an earlier version's
    for (const auto &[name, checksum] : here) {
      auto found = before.find(name);
      if (found == before.end())
        add(name, " is new");
      else if (found->second != checksum)
        add(name, " has changed");
    }
  for (const auto &[name, checksum] : before)
    if (!here.contains(name))
      add(name, " is none of them any more");
  return changes.empty() ? ", or are read in another way" : changes;
}

} // namespace tfm
