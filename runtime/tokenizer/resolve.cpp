//===- resolve.cpp - tokenizers at build time ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/tokenizer/resolve.h"

#include "runtime/data/texts.h"
#include "runtime/error.h"
#include "runtime/recipe.h"
#include "runtime/tokenizer/tokenizer.h"

namespace tfm {

namespace {

ResolvedTokenizer resolve(const Recipe &recipe, const std::string &source) {
  const TokenizerSpec &spec = recipe.tokenizer;
  if (spec.kind == "chars") {
    DataSpec data = recipe.data;
    if (!spec.files.empty()) {
      data = DataSpec();
      data.kind = "text";
      data.files = spec.files;
    }
    if (data.kind.empty())
      return {"`tokenizer chars(from = data)` needs a `data` block", 0, ""};
    if (data.kind == "tokens")
      return {"a file of token ids has no characters for `tokenizer chars`", 0,
              ""};
    TokenizerPtr tokenizer = makeCharsTokenizer(dataCharacters(data, source));
    return {"", tokenizer->size(), tokenizer->json()};
  }
  std::vector<std::string> paths;
  for (const std::string &file : spec.files)
    paths.push_back(locateFile(file, source, "the tokenizer"));
  TokenizerPtr tokenizer = openTokenizer(spec, paths);
  return {"", tokenizer->size(), spec.kind == "bytes" ? tokenizer->json() : ""};
}

} // namespace

ResolvedTokenizer resolveTokenizer(const std::string &tokenizer,
                                   const std::string &data,
                                   const std::string &source) {
  try {
    std::string text = "{\"tokenizer\": " + tokenizer +
                       ", \"data\": " + (data.empty() ? "null" : data) + "}";
    return resolve(parseRecipe(text), source);
  } catch (const std::exception &error) {
    return {error.what(), 0, ""};
  }
}

} // namespace tfm
