//===- text_settings.cpp - what weights know of texts ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/files/text_settings.h"

#include "runtime/files/hub.h"
#include "runtime/files/run_folder.h"
#include "runtime/formats/gguf.h"
#include "runtime/support/atomic_file.h"
#include "runtime/support/error.h"
#include "runtime/support/read_json.h"
#include "runtime/tokenizer/gguf_tokenizer.h"

namespace tfm {

using nlohmann::json;
using nlohmann::ordered_json;

namespace {

constexpr const char *generationName = "generation_config.json";

bool isGgufFile(const std::string &path) {
  return isGguf(path) && !isFolder(path);
}

/// Where a run began that has kept nothing, as those of older versions.
std::string olderBeginning(const std::string &folder) {
  std::string init = beganWith(folder);
  return init != folder && isFolder(init) ? init : "";
}

const std::string &endKey() {
  static const std::string key =
      hubTable().at("end_of_text").get<std::string>();
  return key;
}

const std::string &answerBeginKey() {
  static const std::string key =
      hubTable().at("begin_of_answer").get<std::string>();
  return key;
}

/// What a folder says, and in which file; null where it says nothing.
std::pair<json, std::string> saidIn(const std::string &folder,
                                    const std::string &key) {
  for (const char *name : {generationName, "config.json"}) {
    std::string path = folder + "/" + name;
    if (!isFolder(folder) || !folderHas(path))
      continue;
    const std::string text = readRegularFile(path, "the configuration");
    json root = jsonOf(text);
    if (!root.is_object())
      throw InputError("{} {}, so the tokens that end a text are unknown: copy "
                       "or download it again, or remove it",
                       path, isNoObject(text));
    if (json said = root.value(key, json()); !said.is_null())
      return {std::move(said), path};
  }
  return {};
}

} // namespace

std::string folderOfWeights(const std::string &weights) {
  return isFolder(weights) ? weights : folderOf(weights);
}

std::vector<int32_t> endTokensOf(const std::string &weights,
                                 int64_t vocabulary) {
  std::vector<int32_t> ids;
  if (isGgufFile(weights)) {
    for (int32_t id : ggufEndTokens(GgufReader(weights)))
      if (id < vocabulary)
        ids.push_back(id);
    return ids;
  }
  const std::string folder = folderOfWeights(weights);
  auto [end, path] = saidIn(folder, endKey());
  if (end.is_null()) {
    const std::string init = olderBeginning(folder);
    return init.empty() ? ids : endTokensOf(init, vocabulary);
  }
  for (const json &id : end.is_array() ? end : json::array({end})) {
    if (!id.is_number_unsigned())
      throw InputError(
          "{}: {} is neither a token id nor a list of them, but {}", path,
          endKey(), end.dump());
    if (id.get<uint64_t>() < static_cast<uint64_t>(vocabulary))
      ids.push_back(id.get<int32_t>());
  }
  return ids;
}

std::optional<int32_t> answerBeginOf(const std::string &weights,
                                     int64_t vocabulary) {
  const std::string &key = answerBeginKey();
  auto [begin, path] = saidIn(folderOfWeights(weights), key);
  if (begin.is_null())
    return std::nullopt;
  if (!begin.is_number_unsigned() ||
      begin.get<uint64_t>() >= static_cast<uint64_t>(vocabulary))
    throw InputError("{}: {} is no token id, but {}", path, key, begin.dump());
  return begin.get<int32_t>();
}

std::map<std::string, std::string> textSettingsOf(const std::string &weights,
                                                  int64_t vocabulary) {
  std::map<std::string, std::string> texts;
  if (isGgufFile(weights)) {
    GgufReader file(weights);
    if (!hasTokenizer(file))
      return texts;
    ordered_json config = ggufTokenizerConfig(file);
    config["tokenizer_class"] = "PreTrainedTokenizerFast";
    // A template may be any bytes.
    texts["tokenizer_config.json"] =
        config.dump(2, ' ', false, ordered_json::error_handler_t::replace) +
        "\n";
  } else {
    const std::string folder = folderOfWeights(weights);
    for (std::string name : textFiles)
      if (std::string path = folder + "/" + name;
          name != "tokenizer.json" && folderHas(path))
        texts[name] = readRegularFile(path, "the tokenizer");
    if (std::string init = texts.empty() ? olderBeginning(folder) : "";
        !init.empty())
      return textSettingsOf(init, vocabulary);
  }
  // A folder may say it in its config.json alone.
  addEndTokens(texts, endTokensOf(weights, vocabulary));
  return texts;
}

/// The generation_config.json of such settings; empty where there is none.
static ordered_json
generationOf(const std::map<std::string, std::string> &settings) {
  auto found = settings.find(generationName);
  return found == settings.end() ? ordered_json::object()
                                 : ordered_json::parse(found->second);
}

void setAnswerBegin(std::map<std::string, std::string> &settings,
                    int32_t begin) {
  ordered_json generation = generationOf(settings);
  generation[answerBeginKey()] = begin;
  settings[generationName] = generation.dump(2) + "\n";
}

void addEndTokens(std::map<std::string, std::string> &settings,
                  const std::vector<int32_t> &ids) {
  ordered_json generation = generationOf(settings);
  if (ids.empty() || !generation.value(endKey(), ordered_json()).is_null())
    return;
  generation[endKey()] = ids;
  settings[generationName] = generation.dump(2) + "\n";
}

} // namespace tfm
