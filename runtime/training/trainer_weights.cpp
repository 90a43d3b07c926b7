//===- trainer_weights.cpp - the weights that training begins with --------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/support/atomic_file.h"
#include "runtime/support/error.h"
#include "runtime/support/progress.h"
#include "runtime/support/utf8.h"
#include "runtime/training/trainer.h"

#include <algorithm>
#include <filesystem>

namespace tfm {

void Trainer::beginWith(std::span<const InitialWeights> all) {
  if (all.empty())
    return;
  std::vector<std::string> notes, further, fresh;
  auto note = [&](const std::string &what,
                  const std::vector<std::string> &names) {
    if (!names.empty())
      notes.push_back(what + ": " + listed(names));
  };
  for (const auto &[part, path] : all) {
    Unmatched unmatched;
    std::vector<std::string> more =
        loadWeights(path, model, options.partial ? &unmatched : nullptr, part);
    note("left out of " + path, unmatched.leftOut);
    std::ranges::move(unmatched.fresh, std::back_inserter(fresh));
    for (std::string &line : more)
      if (std::ranges::find(further, line) == further.end())
        further.push_back(std::move(line));
    rememberInit(path);
  }
  std::ranges::move(outsideOf(all), std::back_inserter(fresh));
  note("starting fresh", fresh);
  std::ranges::move(further, std::back_inserter(notes));
  if (isFirst())
    for (const std::string &line : notes)
      say("note: " + printable(line) + "\n");
}

std::vector<std::string>
Trainer::outsideOf(std::span<const InitialWeights> all) const {
  std::vector<std::string> names;
  for (const tfm_parameter &parameter : model.parameters()) {
    if (std::ranges::any_of(all, [&](const InitialWeights &weights) {
          return !namesInPart(parameter, weights.part).empty();
        }))
      continue;
    if (!parameter.trainable && beginsAtRandom(parameter))
      throw InputError(
          "{} is in no part that --init names, and as it is not trained it "
          "would stay random: add --init {}=FILE",
          parameter.name,
          std::string_view(parameter.name)
              .substr(0, std::string_view(parameter.name).find('.')));
    names.emplace_back(parameter.name);
  }
  return names;
}

void Trainer::rememberInit(const std::string &path) {
  if (!isFolder(path) || !position.init.empty())
    return;
  // Of a run the folder that it began with.
  bool isOfRun = fileExists(path + "/state.json") || !runAround(path).empty();
  position.init =
      isOfRun && !fileExists(path + "/config.json")
          ? beganWith(path)
          : std::filesystem::absolute(path).lexically_normal().string();
}

} // namespace tfm
