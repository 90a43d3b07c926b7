//===- export_folder.cpp - a model as others load it --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/files/export_folder.h"

#include "runtime/data/dataset.h"
#include "runtime/files/find_tokenizer.h"
#include "runtime/files/hf_config.h"
#include "runtime/files/hub.h"
#include "runtime/files/model_files.h"
#include "runtime/files/run_folder.h"
#include "runtime/files/text_settings.h"
#include "runtime/files/weights.h"
#include "runtime/files/written_by.h"
#include "runtime/model/model.h"
#include "runtime/support/atomic_file.h"
#include "runtime/support/error.h"
#include "runtime/support/progress.h"
#include "runtime/support/temporaries.h"
#include "runtime/support/utf8.h"
#include "runtime/tokenizer/gguf_tokenizer.h"
#include "runtime/tokenizer/vocabulary.h"

#include <algorithm>
#include <list>
#include <map>
#include <nlohmann/json.hpp>

using nlohmann::ordered_json;

namespace tfm {

namespace {

const char *const weightsName = "/model.safetensors";
const char *const configName = "/config.json";

/// Why that folder is no source. JSON has no names that are not UTF-8.
std::string notThere(const std::string &init) {
  return init + ", which training began with, has no config.json, is not "
                "there any more, or had a name that is not UTF-8";
}

/// What transformers calls a type.
const char *dtypeName(StoredType type) {
  return type == StoredType::BF16  ? "bfloat16"
         : type == StoredType::F16 ? "float16"
                                   : "float32";
}

/// The configuration, of weights that are stored in `type`.
std::string configOf(const std::string &source, const std::string &weights,
                     const Model &model, StoredType type) {
  const tfm_model &descriptor = model.descriptor();
  std::string text = source.empty() ? writeConfig(descriptor)
                                    : adaptConfig(source, descriptor);
  const std::string init = source.empty() ? beganWith(weights) : "";
  if (text.empty())
    throw InputError("what config.json is to say of {} is unknown: {}, and {} "
                     "names no `family`. Export to a .safetensors file",
                     descriptor.name,
                     init.empty()
                         ? "these weights did not begin with a folder that has "
                           "one (--init)"
                         : notThere(init),
                     descriptor.source);
  if (!init.empty())
    say("note: " + printable(notThere(init)) +
        ": names and configuration are those of the family\n");
  auto config = ordered_json::parse(text);
  // What is not said readers take from models that have other tokenizers.
  const std::string end = hubTable().at("end_of_text"),
                    begin = hubTable().at("begin_of_text");
  if (source.empty() && !config.contains(end)) {
    const std::vector<int32_t> ids = endTokensOf(weights);
    config[end] = ids.empty() ? ordered_json() : ordered_json(ids);
  }
  if (source.empty() && !config.contains(begin))
    config[begin] = nullptr;
  // The last of its names is that of today.
  const std::vector<std::string> names = hubTable().at("stored_types");
  const bool isSaid = std::ranges::any_of(
      names, [&](const auto &name) { return config.contains(name); });
  for (const std::string &name : names)
    if (config.contains(name) || (!isSaid && name == names.back()))
      config[name] = dtypeName(type);
  return config.dump(2) + "\n";
}

/// What there is of a tokenizer in `from`, by its path in `out`.
std::map<std::string, std::string> companionsOf(const std::string &from,
                                                const std::string &out) {
  std::map<std::string, std::string> texts;
  for (const char *name : companions) {
    const std::string path = from + "/" + name, target = out + "/" + name;
    if (isFolder(from) && folderHas(path))
      texts[target] = readRegularFile(path, "the tokenizer");
  }
  return texts;
}

/// The same of a gguf file, in the forms of a folder.
void addCompanions(std::map<std::string, std::string> &texts,
                   const std::string &weights, const std::string &out) {
  const GgufReader file(weights);
  if (!hasTokenizer(file))
    return;
  try {
    texts[out + "/tokenizer.json"] = openGgufTokenizer(file)->json();
  } catch (const InputError &problem) {
    say("note: " + printable(problem.what()) + ": " + out +
        " gets no tokenizer\n");
    return;
  }
  for (const auto &[name, text] : textSettingsOf(weights))
    texts[out + "/" + name] = text;
}

/// The tokenizer that the model was built with, where nothing stands beside
/// the weights; it is what `generate` takes, too.
void addOwnTokenizer(std::map<std::string, std::string> &texts,
                     const tfm_model &model, const std::string &out) {
  const Recipe recipe = recipeOf(model);
  std::string why = std::string(model.name) + " has none";
  if (!recipe.tokenizer.kind.empty())
    try {
      texts[out + "/tokenizer.json"] = findTokenizer(model, recipe, {})->json();
      return;
    } catch (const InputError &problem) {
      why = problem.what();
    }
  say("note: " + printable(out + " gets no tokenizer: " + why) + "\n");
}

/// Lets the tokenizer of a run put before texts what its data had there, where
/// it puts nothing. One that could not be read then stays as it is.
void addBegin(std::string &tokenizer, const tfm_model &model,
              const std::string &path) {
  try {
    const TokenizerPtr own = parseTokenizerJson(tokenizer, path);
    const std::vector<int32_t> begin = beginOfData(recipeOf(model), *own);
    if (begin.empty() || !own->begin().empty())
      return;
    auto root = ordered_json::parse(tokenizer);
    const ordered_json step = beginWith(begin[0], own->text(begin));
    ordered_json &post = root["post_processor"];
    if (post.is_null())
      post = step;
    else if (post.value("type", "") == "Sequence")
      post["processors"].push_back(step);
    else
      post = {{"type", "Sequence"}, {"processors", {post, step}}};
    std::string text = root.dump(2) + "\n";
    if (parseTokenizerJson(text, path)->begin() == begin)
      tokenizer = std::move(text);
  } catch (const InputError &) {
  }
}

} // namespace

std::string publishedFolderOf(const std::string &weights) {
  if (isFolder(weights) && fileExists(weights + configName))
    return weights;
  std::string init = beganWith(weights);
  return !init.empty() && fileExists(init + configName) ? init : "";
}

bool isExportFolder(const std::string &path) {
  return path.ends_with('/') || isFolder(path);
}

std::map<std::string, std::string> exportedMetadata() {
  return {{"format", "pt"}, {writtenByKey, "export"}};
}

void requireExported(const std::string &weights, const std::string &other) {
  if (isWrittenBy(weights, "export"))
    return;
  for (const std::string &path : {weights, other})
    if (fileExists(path))
      throw InputError("{} is not known to be written by `export`, and would "
                       "be lost: export to another folder, or pass --overwrite",
                       path);
}

std::string exportedWeights(const std::string &out) {
  if (!isExportFolder(out))
    return out;
  return withoutSlashes(out) + weightsName;
}

std::vector<std::string> exportedFiles(const std::string &out) {
  std::vector<std::string> files = {exportedWeights(out)};
  if (!isExportFolder(out))
    return files;
  const std::string folder = withoutSlashes(out);
  files.push_back(folder + configName);
  for (const char *name : companions)
    files.push_back(folder + "/" + name);
  return files;
}

void exportFolder(const Model &model, std::vector<FloatTensor> tensors,
                  const std::string &weights, const std::string &out,
                  StoredType type, bool overwrite) {
  if (type == StoredType::INT8 || type == StoredType::INT4)
    throw InputError("no config.json tells of weights of 8 bits or 4 as they "
                     "are stored here: export them to a .safetensors file, or "
                     "with --dtype bf16");
  // It would be read before, or beside, what is written.
  const std::string index = out + "/model.safetensors.index.json";
  if (fileExists(index))
    throw InputError(
        "{} says that there are other weights: export to another folder",
        index);
  const std::string source = publishedFolderOf(weights);
  for (const std::string &from : {source, folderOfWeights(weights)})
    if (!from.empty() && isSameFile(from, out))
      throw InputError("{} is where the weights come from, and would be "
                       "overwritten: export to another folder",
                       out);
  if (!overwrite)
    requireExported(out + weightsName, out + configName);
  // A run has its tokenizer in one file; in a folder it may be in several.
  const bool isGgufFile = isGguf(weights) && !isFolder(weights);
  std::map<std::string, std::string> texts =
      companionsOf(!source.empty() ? source
                   : isGgufFile    ? ""
                                   : folderOfWeights(weights),
                   out);
  if (isGgufFile)
    addCompanions(texts, weights, out);
  else if (texts.empty())
    addOwnTokenizer(texts, model.descriptor(), out);
  if (auto own = texts.find(out + "/tokenizer.json");
      own != texts.end() && isFolder(weights) && source != weights)
    addBegin(own->second, model.descriptor(), own->first);
  for (const char *name : companions) {
    const std::string target = out + "/" + name;
    if (fileExists(target) && !texts.contains(target))
      throw InputError("{} is of another model, and would be read with these "
                       "weights: remove it, or export to another folder",
                       target);
    if (!overwrite)
      requireExported(out + weightsName, target);
  }
  texts[out + configName] = configOf(source, weights, model, type);

  if (!source.empty()) {
    std::vector<FloatTensor> named;
    WeightFiles published(source);
    std::vector<std::vector<std::string>> names =
        storedNames(tensors, published);
    const bool isPart = isOfLargerModel(source, model.descriptor());
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!published.tensors().contains(names[i].front()))
        throw InputError(
            "the model has {}, and {} has not: its config.json tells of a "
            "model without it. Export to a .safetensors file, of one of its "
            "members with --part, or where it corrects a layer (`LoRA`) with "
            "--merge",
            tensors[i].name, source);
      // Alone it has the names of its own class.
      if (isPart)
        names[i] = {tensors[i].name};
      for (const std::string &name : names[i]) {
        named.push_back(tensors[i]);
        named.back().name = name;
      }
    }
    tensors = std::move(named);
  }
  FolderForFiles made(out);
  // All of them or none.
  std::list<AtomicFile> files;
  for (const auto &[path, text] : texts)
    files.emplace_back(path).write(text);
  writeSafetensors(files.emplace_back(out + weightsName), tensors,
                   exportedMetadata(), type);
  for (AtomicFile &file : files)
    file.sync();
  SignalsWait wait; // all of them or none
  for (AtomicFile &file : files)
    file.commit();
}

} // namespace tfm
