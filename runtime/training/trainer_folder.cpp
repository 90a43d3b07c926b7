//===- trainer_folder.cpp - what training keeps in its run's folder -------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/files/text_settings.h"
#include "runtime/support/atomic_file.h"
#include "runtime/support/checksum.h"
#include "runtime/support/error.h"
#include "runtime/support/utf8.h"
#include "runtime/training/trainer.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace tfm {

void Trainer::keepBest(double loss) {
  try {
    regainFolder();
    saveBest(*folder, model, position.step, loss);
    lowestLoss = loss;
  } catch (const InputError &error) {
    goOnWithout(error.what());
  }
}

void Trainer::save(bool goesOn) {
  double began = now();
  if (shared)
    shared->gatherState();
  if (!isFirst())
    savedAt = position.step;
  if (!folder)
    return;
  // Only the process that saves sees it: as its own error it ends the others.
  if (std::string bad = notFinite(model); !bad.empty())
    throw InputError(divergence(
        fmt::format("{} has values that are not finite after step {}", bad,
                    position.step)));
  try {
    regainFolder();
    if (lastSaveFailed)
      folder->recover();
    saveCheckpoint(*folder, model, position, [&](RunState &state) {
      // The line is part of what the checkpoint counts of the log: after a kill
      // it would otherwise be missing for good.
      log.line(fmt::format("{{\"step\":{},\"checkpoint_seconds\":{:.4f}}}",
                           position.step, now() - began));
      LogMark mark = log.sync();
      if (options.log.empty()) { // else the run's own stays as it is
        state.logBytes = mark.bytes;
        state.logChecksum = mark.checksum;
      }
    });
    savedAt = position.step;
    lastSaveFailed = false;
  } catch (const InputError &error) {
    // A disk that is full for a while must not cost the training, either.
    if (!goesOn)
      throw InputError("{}{}", error.what(), whatIsLeft());
    lastSaveFailed = true;
    progress->clear();
    say(fmt::format("warning: {}; training goes on, and the next checkpoint is "
                    "another try\n",
                    printable(error.what())));
  }
  if (shared)
    shared->dropStateOfOthers();
  progress->exclude(now() - began);
}

/// The tokenizer for a run directory. Generation from the run shall put before
/// texts what stood before those of the data, and nothing else. Empty where
/// there are no texts.
static std::string tokenizerOfRun(const Recipe &recipe,
                                  const Tokenizer &tokenizer) {
  if (tokenizer.size() == 0)
    return "";
  if (tokenizer.begin() == beginOfData(recipe, tokenizer))
    return tokenizer.json();
  auto root = nlohmann::ordered_json::parse(tokenizer.json());
  root["post_processor"] = nullptr;
  return root.dump();
}

/// The files that may have a chat template, and the tokens that it knows.
static constexpr const char *chatFiles[] = {
    "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"};

bool Trainer::takeChat() {
  if (options.chat.empty())
    return false;
  const auto before = texts;
  const auto settings = textSettingsOf(options.chat, tokenizer.size());
  for (const char *name : chatFiles)
    if (auto found = settings.find(name); found != settings.end())
      texts[name] = found->second;
    else
      texts.erase(name);
  return texts != before;
}

int64_t Trainer::checkpointsToCome() const {
  const Interval &interval = recipe.train.checkpoint;
  if (interval.every <= 0)
    return 1; // at the end
  // One an epoch or so may be any number.
  return interval.unit == "steps"
             ? (position.steps - position.step) / interval.every + 1
             : recipe.train.keep + 1;
}

void Trainer::takeFolder() {
  while (true) {
    try {
      folder.emplace(options.out, recipe.train.keep);
      if (!options.nextOut || !holdsWeights(options.out))
        return;
    } catch (const FolderInUse &) {
      if (!options.nextOut)
        throw;
    }
    folder.reset();
    options.out = options.nextOut();
  }
}

void Trainer::openRun() {
  const TrainSpec &train = recipe.train;
  bool isNew = options.out != options.resume;
  if (isNew)
    takeFolder();
  // Of a folder that is there the log may be one to write to, but no checkpoint
  // would ever be saved.
  if (faccessat(AT_FDCWD, options.out.c_str(), W_OK | X_OK, AT_EACCESS) != 0)
    throw InputError("cannot write into the folder {}: {}", options.out,
                     std::strerror(errno));
  SpaceNeeds needs;
  needs.present = static_cast<int64_t>(olderSteps(options.out).size()) +
                  (holdsCheckpoint(options.out) ? 1 : 0);
  needs.checkpoints = std::min(
      checkpointsToCome() + (isNew ? 0 : needs.present), train.keep + 1);
  needs.savesBest = train.validate.every > 0;
  needs.hasBest = fileExists(folder->file("best/model.safetensors"));
  // Who trains for ever has the time to make room for the log.
  constexpr int64_t lineBytes = 128, mostLines = 1 << 17;
  std::string json = tokenizerOfRun(recipe, tokenizer);
  // Each checkpoint that is kept has the log so far.
  needs.otherBytes =
      json.size() + static_cast<uint64_t>(
                        needs.checkpoints * lineBytes *
                        std::min(position.steps - position.step, mostLines));
  checkSpace(*folder, model, needs);
  if (!options.resume.empty())
    json = tokenizerOfResumed(options.resume, json);
  // What it begins with knows where its texts end, and how messages are put.
  if (const std::string from = options.begun(); isNew && !from.empty())
    texts = textSettingsOf(from, tokenizer.size());
  if (isNew)
    addEndTokens(texts, defaultOptions(recipe, tokenizer).endTokens);
  // Where arrays are the prompts no text is answered.
  if (isNew && recipe.hasEncoder && !holdsArrays(recipe.data))
    setAnswerBegin(texts, answerMarks(recipe, tokenizer, "").begin);
  if (isNew)
    takeChat();
  if (isNew && !options.overwrite) {
    requireNoOther(*folder, "tokenizer.json", json);
    for (const auto &[name, text] : texts)
      requireNoOther(*folder, name, text);
  }
  if (!options.log.empty())
    openLog();
  // Only now: whatever is wrong with weights, data or recipe has been said.
  if (isNew)
    folder->clear(options.overwrite);
  saveTokenizer(*folder, json);
  if (isNew)
    saveTexts();
  else
    for (std::string name : textFiles)
      if (std::string path = folder->file(name);
          name != "tokenizer.json" && fileExists(path))
        texts[name] = readRegularFile(path, "the run's texts");
  if (!isNew && takeChat()) {
    for (const char *name : chatFiles)
      if (!texts.contains(name))
        removeFile(folder->file(name));
    saveTexts();
  }
  if (train.sample.interval.every > 0)
    sampleEnds = endTokensOf(options.out, tokenizer.size());
  try {
    lowestLoss = bestLoss(options.out);
  } catch (const InputError &error) {
    throw InputError("{}; remove {} to go on without it", error.what(),
                     folder->file("best"));
  }
  // Where they were removed their loss is still known.
  if (!isNew && !lowestLoss)
    lowestLoss = position.bestValidation;
  if (options.log.empty())
    openLog();
}

void Trainer::saveTexts() const {
  for (const auto &[name, text] : texts) {
    AtomicFile file(folder->file(name), nextSuffix);
    file.write(text);
    file.commit();
  }
}

void Trainer::regainFolder() {
  if (!folder->isThere()) {
    isFolderLost = true;
    savedAt.reset();
    folder->makeAgain();
    isFolderLost = false;
  }
  const std::string own = folder->file("log.jsonl");
  const bool logs = options.log.empty();
  const bool hasTexts =
      tokenizer.size() == 0 || fileExists(folder->file("tokenizer.json"));
  if (hasTexts && (!logs || log.isThere()))
    return;
  if (!fileExists(own)) {
    position.logBytes = 0;
    position.logChecksum = Checksum().text();
  }
  if (logs && !log.isThere())
    log.openOfRun(own, 0);
  saveTexts();
  saveTokenizer(*folder, tokenizerOfRun(recipe, tokenizer));
  progress->clear();
  say(fmt::format("warning: {}, or files in it, were moved or removed: "
                  "training goes on there, without what is lost, such as the "
                  "log until now\n",
                  printable(options.out)));
}

void Trainer::openLog() {
  bool isNew = options.out != options.resume;
  if (!options.log.empty())
    log.open(options.log, /*anew=*/options.resume.empty());
  if (!folder)
    return;
  std::string own = folder->file("log.jsonl");
  if (options.log.empty())
    log.openOfRun(own, position.logBytes,
                  isNew && position.logBytes > 0 ? options.resume + "/log.jsonl"
                                                 : "");
  else if (isNew || !fileExists(own))
    position.logBytes = 0;
  else if (position.logChecksum.empty()) // an earlier version's
    position.logChecksum =
        checksumOf(readFile(own, "the run's log", position.logBytes));
  if (position.logBytes == 0)
    position.logChecksum = Checksum().text();
}

} // namespace tfm
