//===- texts.h - the texts of a data source -----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// What a `data` block names, before any tokenizer: used both by the binary and,
// at build time, by the compiler to find a vocabulary.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_DATA_TEXTS_H
#define TFM_RUNTIME_DATA_TEXTS_H

#include "runtime/recipe.h"

#include <string>
#include <vector>

namespace tfm {

/// What to do about data that a model's tokenizer has no token for.
inline constexpr const char *adviceOnNoToken =
    ". The model was built with another text: name this file in its `data` and "
    "build again";

/// Where a file named in a model is: as named, from the working directory, or
/// in the folder where it was when the model was built. Throws InputError
/// naming both places and, of the command line, the `option` that names
/// another.
std::string locateFile(const std::string &name, const std::string &directory,
                       const char *purpose, const char *option);

/// Whether a data source is one long text (text, tokens) instead of a list of
/// examples (lines, json, pairs, sums, products).
bool isStream(const DataSpec &data);

/// `pad` and `end` with the defaults of generated sets filled in.
DataSpec withDefaults(DataSpec data);

/// The whole text of a `text` source.
std::string readText(const DataSpec &data);

/// A text and, where it begins with a prompt, that prompt's length in bytes.
struct Example {
  std::string text;
  size_t prompt = std::string::npos;
};

/// The examples of any other source but `tokens`, in order, with the end token
/// and without padding. `pairs` are lines of a prompt, a tab and an answer, or
/// JSON documents with `prompt` and `answer`. The sums are those of
/// `numpy.random.default_rng(seed).integers(0, max + 1, size=(count, 2))`.
std::vector<Example> readExamples(const DataSpec &data);

/// The vocabulary of `chars(from = data)`, in order: for sums and products
/// `0123456789+=.#` (or `*`), else the sorted distinct characters.
std::string dataCharacters(const DataSpec &data);

} // namespace tfm

#endif // TFM_RUNTIME_DATA_TEXTS_H
