//===- texts.h - the texts of a data source -----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// What a `data` block names, before any tokenizer: used both by the binary and
// by `tfmc tokenizer`, which learns one.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_DATA_TEXTS_H
#define TFM_RUNTIME_DATA_TEXTS_H

#include "runtime/recipe.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tfm {

class ChatTemplate;

/// Where a file named in a model is: as named, from the working directory, or
/// in the folder where it was when the model was built; `-` is standard input.
/// Throws InputError naming both places and, of the command line, the `option`
/// that names another.
std::string locateFile(const std::string &name, const std::string &directory,
                       const char *purpose, const char *option);

/// The same source where each name with `*`, `?` or `[` that is no file's has
/// become the names of the files that it matches (glob(7)), in their order;
/// they are looked for as above. Throws InputError where there are none.
DataSpec withMatches(DataSpec data);

/// That, once its validation files, which `--data` does not replace, were found
/// to be there.
DataSpec withFiles(const DataSpec &data);

/// Of each file of a data source, also those to validate with, by its name:
/// whether others have the same bytes. Of files with more than a few MB
/// together their lengths and so many bytes, spread evenly over each. A file
/// that is read once, such as a pipe, has none.
std::map<std::string, std::string> fileChecksums(const DataSpec &data);

/// Whether a text is white space of ASCII.
bool isBlank(std::string_view text);

/// Whether a data source is one long text (text, tokens) instead of a list of
/// examples (lines, json, pairs, sums, products).
bool isStream(const DataSpec &data);

/// `answer_after`, `end` and `pad` with the defaults of generated sets filled
/// in.
DataSpec withDefaults(DataSpec data);

/// The validation files of a data source, as a source of their own.
DataSpec validationOf(DataSpec data);

/// The files of a `text` source one after the other.
struct Text {
  struct File {
    std::string path;
    size_t begin; ///< in `text`
  };
  std::string text;
  std::vector<File> files;

  /// The file and line of a byte, for messages: `plays/hamlet.txt:12`.
  std::string placeOf(size_t at) const;
};
Text readText(const DataSpec &data);

/// A text, where it begins with a prompt that prompt's length in bytes, and
/// where it is from.
struct Example {
  std::string text;
  size_t prompt = std::string::npos;
  /// Of messages, with `answersOnly`: the bytes of what the assistant says.
  struct Range {
    size_t begin, end;
  };
  std::vector<Range> answers;
  /// Which of the source's files; those for validation follow the others.
  uint32_t file = 0;
  /// The line in it, of a row of a table the first one, of a JSON array the
  /// document, of a generated set the example; from 1.
  uint32_t number = 0;
  bool isLine = false;

  /// `questions.jsonl:12`, for messages.
  std::string place(const DataSpec &data) const;
};

/// Finds the template that messages are put into; throws InputError where there
/// is none.
using FindChat = std::function<ChatTemplate()>;

/// The examples of any other source but `tokens`, in order, with the end token
/// and without padding. The texts of `json` and `pairs` are members of JSON
/// documents or columns of a table (.csv, .tsv; see data/table.h), which
/// `field`, or `prompt` and `answer` name; of JSON a number or truth value is
/// the text that JSON has for it, and the field of `json` may hold messages,
/// which `chat` is for. Other `pairs` are lines of a prompt, a tab and an
/// answer. The sums are those of
/// `numpy.random.default_rng(seed).integers(0, max + 1, size=(count, 2))`.
/// Where no recipe names `field`, `option` does, for messages.
std::vector<Example> readExamples(const DataSpec &data,
                                  const FindChat &chat = {},
                                  std::string_view option = {});

} // namespace tfm

#endif // TFM_RUNTIME_DATA_TEXTS_H
