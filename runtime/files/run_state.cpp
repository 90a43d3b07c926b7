//===- run_state.cpp - where a run stands -------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/files/run_state.h"

#include "runtime/support/checksum.h"
#include "runtime/support/error.h"
#include "runtime/support/read_json.h"

#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

using nlohmann::json;

namespace tfm {

namespace {

/// Format 1 has no checksums, and names the position in the data, which is the
/// step.
constexpr int64_t newestFormat = 2;

/// The end of the text, and what of it is before that: the last member is the
/// checksum of everything before it.
constexpr std::string_view beforeChecksum = ",\n  \"checksum\": \"";
constexpr std::string_view behindChecksum = "\"\n}\n";

/// Reads the members of a state one by one; each must be there, of its kind and
/// in its range.
class StateReader {
public:
  StateReader(const json &object, const std::string &path)
      : object(object), path(path) {}

  int64_t integer(const char *name, int64_t least) {
    const json &value = member(object, name);
    bool fits =
        value.is_number_integer() &&
        (!value.is_number_unsigned() || value.get<uint64_t>() <= INT64_MAX);
    if (!fits || value.get<int64_t>() < least)
      wrong(name, value, fmt::format("a whole number from {}", least));
    return value.get<int64_t>();
  }

  uint64_t count(const char *name) {
    const json &value = member(object, name);
    if (!value.is_number_unsigned())
      wrong(name, value, "a whole number from 0");
    return value.get<uint64_t>();
  }

  double number(const char *name, double least) {
    const json &value = member(object, name);
    if (!value.is_number() || !std::isfinite(value.get<double>()) ||
        value.get<double>() < least)
      wrong(name, value, fmt::format("a number from {}", least));
    return value.get<double>();
  }

  std::optional<double> numberOrNull(const char *name) {
    const json &value = member(object, name);
    if (value.is_null())
      return std::nullopt;
    if (!value.is_number() || !std::isfinite(value.get<double>()))
      wrong(name, value, "a number or null");
    return value.get<double>();
  }

  std::string text(const char *name) { return text(object, name); }

  /// Of a key of the recipe the word that it has; `absent` where it is missing.
  std::string word(const char *name, const recipe::Field &field,
                   std::string absent) {
    if (!object.contains(name))
      return absent;
    const json &value = member(object, name);
    if (!value.is_string() ||
        !recipe::hasWord(field.words, value.get_ref<const std::string &>()))
      wrong(name, value, recipe::takes(field));
    return value.get<std::string>();
  }

  std::map<std::string, std::string> settings() {
    if (!object.contains("settings"))
      return {};
    const json &all = member(object, "settings");
    if (!all.is_object())
      wrong("settings", all, "an object");
    std::map<std::string, std::string> read;
    for (const auto &[name, value] : all.items())
      read[name] = value.dump();
    return read;
  }

  std::string checksum(const char *file) {
    const json &all = member(object, "checksums");
    if (!all.is_object())
      wrong("checksums", all, "an object");
    return text(all, file);
  }

  std::map<std::string, std::string> fileChecksums() {
    const json &all = member(member(object, "checksums"), "data_files");
    if (!all.is_object())
      wrong("data_files", all, "an object");
    std::map<std::string, std::string> read;
    for (const auto &[name, value] : all.items())
      read[name] = text(all, name.c_str());
    return read;
  }

  [[noreturn]] void wrong(const char *name, const json &value,
                          const std::string &expected) const {
    fail(fmt::format("\"{}\" is {}, not {}", name, value.dump(), expected));
  }
  [[noreturn]] void fail(const std::string &what) const {
    throw InputError("{} is no state of a run: {}", path, what);
  }

private:
  const json &member(const json &from, const char *name) const {
    auto found = from.find(name);
    if (found == from.end())
      fail(fmt::format("\"{}\" is missing", name));
    return *found;
  }
  std::string text(const json &from, const char *name) const {
    const json &value = member(from, name);
    if (!value.is_string())
      wrong(name, value, "a text");
    return value.get<std::string>();
  }

  const json &object;
  const std::string &path;
};

/// Throws where the text does not end with its own checksum.
void requireUnchanged(std::string_view text, const std::string &path) {
  size_t tail = beforeChecksum.size() + 16 + behindChecksum.size();
  std::string_view content =
      text.substr(0, text.size() - std::min(text.size(), tail));
  std::string expected = std::string(beforeChecksum) + checksumOf(content) +
                         std::string(behindChecksum);
  if (text.substr(content.size()) != expected)
    throw InputError("{} is damaged: it is not what a training wrote there "
                     "(its checksum is that of other bytes)",
                     path);
}

} // namespace

std::string stateText(const RunState &state) {
  nlohmann::ordered_json object = {
      {"format", newestFormat},
      {"model", state.model},
      {"step", state.step},
      {"steps", state.steps},
      {"seed", state.seed},
      {"lr", state.lr},
      {"precision", state.precision},
      {"optimizer", state.optimizer},
      {"tokens", state.tokens},
      {"log_bytes", state.logBytes},
      {"best_validation", nullptr},
      {"worse_validations", state.worseValidations},
      {"checksums",
       {{"model.safetensors", state.weightsChecksum},
        {"optimizer.safetensors", state.optimizerChecksum},
        {"log.jsonl", state.logChecksum}}}};
  if (state.bestValidation)
    object["best_validation"] = *state.bestValidation;
  if (state.optimizer.empty())
    object.erase("optimizer");
  if (!state.init.empty())
    object["init"] = state.init;
  if (!state.data.empty())
    object["data"] = state.data;
  for (const auto &[name, value] : state.settings)
    object["settings"][name] = json::parse(value);
  if (!state.dataChecksum.empty())
    object["checksums"]["data"] = state.dataChecksum;
  if (!state.fileChecksums.empty())
    object["checksums"]["data_files"] = state.fileChecksums;
  // The name of a folder need not be UTF-8: such a one is not found again.
  std::string text =
      object.dump(2, ' ', /*ensure_ascii=*/false,
                  nlohmann::ordered_json::error_handler_t::replace);
  text.resize(text.size() - 2); // the last line end and brace
  return text + std::string(beforeChecksum) + checksumOf(text) +
         std::string(behindChecksum);
}

RunState parseState(const std::string &text, const std::string &path) {
  json object = jsonOf(text);
  if (!object.is_object())
    throw InputError("{} is damaged: it is not JSON", path);
  StateReader read(object, path);
  int64_t format = read.integer("format", 1);
  if (format > 1) // a newer one ends in the same way
    requireUnchanged(text, path);
  if (format > newestFormat)
    read.fail(fmt::format("its format is {}, and this binary knows those up to "
                          "{}: go on with one that a newer tfmc built",
                          format, newestFormat));
  RunState state;
  state.model = read.text("model");
  state.step = read.integer("step", 0);
  state.steps = read.integer("steps", std::max<int64_t>(state.step, 1));
  state.seed = read.count("seed");
  state.lr = read.number("lr", 0);
  state.precision =
      read.word("precision", recipe::field("train.precision"), state.precision);
  state.optimizer = read.word(
      "optimizer", recipe::field("train.optimizer.kind"), state.optimizer);
  state.tokens = read.integer("tokens", 0);
  if (object.contains("init"))
    state.init = read.text("init");
  if (object.contains("data"))
    state.data = read.text("data");
  state.settings = read.settings();
  state.logBytes = read.count("log_bytes");
  state.bestValidation = read.numberOrNull("best_validation");
  state.worseValidations = read.integer("worse_validations", 0);
  if (format == 1) {
    if (read.integer("data_position", 0) != state.step)
      read.fail("\"data_position\" is not the step");
    return state;
  }
  state.weightsChecksum = read.checksum("model.safetensors");
  state.optimizerChecksum = read.checksum("optimizer.safetensors");
  state.logChecksum = read.checksum("log.jsonl");
  if (object["checksums"].contains("data"))
    state.dataChecksum = read.checksum("data");
  if (object["checksums"].contains("data_files"))
    state.fileChecksums = read.fileChecksums();
  return state;
}

} // namespace tfm
