//===- find_tokenizer.cpp - the tokenizer of a command ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/files/find_tokenizer.h"

#include "runtime/data/texts.h"
#include "runtime/device/variant.h"
#include "runtime/files/checkpoint.h"
#include "runtime/model/model.h"
#include "runtime/support/atomic_file.h"
#include "runtime/support/error.h"
#include "runtime/tokenizer/gguf_tokenizer.h"

#include <algorithm>

namespace tfm {

namespace {

/// A tokenizer and what messages call it: `the tokenizer vocab.json`.
struct Found {
  TokenizerPtr tokenizer;
  std::string name;
};

std::string nameOf(const std::string &path) { return "the tokenizer " + path; }

Found openFile(const std::string &path, const std::string &content) {
  requireTokenizerOfRun(path, content);
  return {path.ends_with(".model") ? parseSentencePiece(content, path)
                                   : parseTokenizerJson(content, path),
          nameOf(path)};
}

/// What a folder holds, in the forms that Hugging Face writes.
Found openFolder(const std::string &folder, const std::string &kind) {
  std::string whole = folder + "/tokenizer.json";
  const char *purpose = "the tokenizer";
  if (folderHas(whole))
    return openFile(whole, readRegularFile(whole, purpose));
  std::string pieces = folder + "/tokenizer.model";
  if (folderHas(pieces)) {
    Found found = openFile(pieces, readRegularFile(pieces, purpose));
    if (TokenizerPtr whole =
            asFolderSays(folder, /*isGpt2=*/false, *found.tokenizer))
      found.tokenizer = std::move(whole);
    return found;
  }
  std::string vocabulary = folder + "/vocab.json";
  std::string merges = folder + "/merges.txt";
  if (!folderHas(vocabulary) || !folderHas(merges))
    return {};
  TokenizerSpec spec;
  spec.kind = kind == "bpe_words" ? kind : "gpt2";
  Found found{openTokenizer(spec, {vocabulary, merges}), nameOf(vocabulary)};
  if (spec.kind == "gpt2")
    if (TokenizerPtr whole =
            asFolderSays(folder, /*isGpt2=*/true, *found.tokenizer))
      found.tokenizer = std::move(whole);
  return found;
}

Found openOwn(const tfm_model &model, const TokenizerSpec &spec) {
  std::vector<std::string> paths;
  if (spec.json.empty())
    for (const std::string &file : spec.files)
      paths.push_back(
          locateFile(file, spec.directory, "the tokenizer", "--tokenizer"));
  return {openTokenizer(spec, paths),
          paths.empty() ? std::string("the tokenizer of ") + model.name
                        : nameOf(paths[0])};
}

Found open(const tfm_model &model, const Recipe &recipe,
           const TokenizerRequest &request) {
  const std::string &kind = recipe.tokenizer.kind;
  if (!request.named.empty()) {
    if (isGguf(request.named) && !isFolder(request.named))
      return {openGgufTokenizer(GgufReader(request.named)),
              nameOf(request.named)};
    if (!isFolder(request.named))
      return openFile(request.named, readFile(request.named, "the tokenizer"));
    Found found = openFolder(request.named, kind);
    if (!found.tokenizer)
      throw InputError(
          "there is no tokenizer in {}: it has neither tokenizer.json nor "
          "tokenizer.model nor vocab.json and merges.txt",
          request.named);
    return found;
  }
  if (isFolder(request.weights))
    if (Found found = openFolder(request.weights, kind); found.tokenizer)
      return found;
  if (!kind.empty())
    return openOwn(model, recipe.tokenizer);
  try {
    if (isGguf(request.weights) && !isFolder(request.weights))
      if (GgufReader file(request.weights); hasTokenizer(file))
        return {openGgufTokenizer(file), nameOf(request.weights)};
  } catch (const InputError &) {
    if (!request.idsWithout)
      throw;
  }
  if (request.idsWithout)
    if (int64_t size = vocabularyOf(model); size > 0)
      return {makeIdsTokenizer(size), ""};
  throw InputError("{} has no tokenizer: name one with --tokenizer "
                   "tokenizer.json, or add a `tokenizer` to {}",
                   model.name, model.source);
}

} // namespace

int64_t vocabularyOf(const tfm_model &model) {
  // The rows of losses are counted, too; logits of fewer tokens only give
  // those.
  int64_t rows = recipeOf(model).tokens;
  if (rows > 0)
    return rows;
  const tfm_variant &variant = chooseVariant(model);
  // A model may give something else than logits: a few classes of a text.
  for (int32_t i = 0; i < variant.function_count; ++i)
    if (const tfm_function &function = variant.functions[i];
        Model::givesLogits(model, function))
      return Model::output(function, TFM_OUT_LOGITS).shape[2];
  return 0;
}

TokenizerPtr findTokenizer(const tfm_model &model, const Recipe &recipe,
                           const TokenizerRequest &request) {
  int64_t vocabulary = vocabularyOf(model);
  if (request.ids && vocabulary > 0)
    return makeIdsTokenizer(
        vocabulary, request.named.empty() && recipe.tokenizer.kind.empty()
                        ? "name a tokenizer with --tokenizer instead of --ids"
                        : "leave out --ids");
  Found found = open(model, recipe, request);
  int64_t size = found.tokenizer->size();
  int64_t built = recipe.tokenizer.size;
  if (built > 0 && size != built)
    throw InputError(
        "{} has {} tokens, but {} was built for one with {}: "
        "name that one with --tokenizer, or build the model again with this "
        "one",
        found.name, size, model.name, built);
  if (vocabulary > 0 && size > vocabulary)
    throw InputError(
        "{} has {} tokens, but {} has a vocabulary of {}: name the "
        "tokenizer of these weights, or a copy without the tokens "
        "from {} on, with --tokenizer",
        found.name, size, model.name, vocabulary, vocabulary);
  return std::move(found.tokenizer);
}

} // namespace tfm
