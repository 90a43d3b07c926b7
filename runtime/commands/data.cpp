//===- data.cpp - the command data --------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/commands/commands.h"
#include "runtime/commands/show_texts.h"
#include "runtime/files/find_chat.h"
#include "runtime/files/find_tokenizer.h"
#include "runtime/support/error.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

using nlohmann::ordered_json;

namespace tfm {

namespace {

/// One row as training sees it.
struct Row {
  std::vector<int32_t> source, tokens, targets;
  std::optional<Question> question;
};

std::vector<Row> readRows(const TextDataset &data, Part part, int64_t sequence,
                          int64_t source, int64_t count) {
  std::vector<Row> rows;
  for (int64_t i = 0; i < std::min(count, data.windows(part)); ++i) {
    Row row;
    row.tokens.resize(static_cast<size_t>(sequence));
    row.targets.resize(static_cast<size_t>(sequence));
    int64_t valid =
        data.read(part, data.windowStart(part, i), row.tokens, row.targets);
    // The end of a text may not fill its window; an example is padded.
    if (data.isStream()) {
      row.tokens.resize(static_cast<size_t>(valid));
      row.targets.resize(static_cast<size_t>(valid));
    }
    if (source > 0) {
      Sources sources(1, source);
      sources.set(0, data.source(part, data.windowStart(part, i)),
                  data.padding());
      row.source = std::move(sources.ids);
    }
    row.question = data.question(part, i);
    rows.push_back(std::move(row));
  }
  return rows;
}

/// The text that a row was cut from: its tokens, and the last target where that
/// is a token.
std::string textOf(const Row &row, const Tokenizer &tokenizer) {
  std::vector<int32_t> ids = row.tokens;
  if (row.targets.back() >= 0 && row.targets.back() < tokenizer.size())
    ids.push_back(row.targets.back());
  return tokenizer.text(ids);
}

const std::vector<int32_t> &promptOf(const Question &question) {
  return question.source.empty() ? question.prompt : question.source;
}

/// The sizes of both parts, for people.
std::string sizesText(const Dataset &data) {
  return fmt::format("train       {}\nvalidation  {}\n",
                     data.windows(Part::Train), data.windows(Part::Validation));
}

/// A number of an array; of a float all digits that tell it from others.
std::string textOf(float value) {
  return fmt::format("{:.9g}", static_cast<double>(value));
}
std::string textOf(int32_t value) { return std::to_string(value); }

/// How many numbers of an array people are shown of an example.
constexpr size_t shownNumbers = 12;

/// Shows data that is arrays.
void showArrays(const tfm_function &function, const Recipe &recipe,
                const DataSpec &spec, const DataCommand &command, Part part) {
  std::unique_ptr<Dataset> data =
      openArrays(spec, arrayInputsOf(function, recipe));
  if (command.speaks())
    warnOfSameFiles(spec);
  Rows rows(function, std::min(command.count, data->windows(part)));
  for (int64_t row = 0; row < rows.count(); ++row)
    data->fill(part, row, rows, row);
  /// Calls `use` with each input, and no more than so many of its numbers in a
  /// row.
  auto each = [&](int64_t row, size_t most, const char *between, auto use) {
    for (Rows::Input &input : rows.inputs()) {
      std::string numbers;
      std::visit(
          [&]<typename T>(const std::vector<T> &) {
            for (T value : input.row<T>(row).first(std::min(input.width, most)))
              numbers += (numbers.empty() ? "" : between) + textOf(value);
          },
          input.values);
      use(input, numbers);
    }
  };
  if (command.json) {
    ordered_json answer = {{"data", spec.kind},
                           {"train", data->windows(Part::Train)},
                           {"validation", data->windows(Part::Validation)},
                           {"part", command.part},
                           {"rows", ordered_json::array()}};
    for (int64_t row = 0; row < rows.count(); ++row) {
      ordered_json &entry = answer["rows"].emplace_back();
      each(row, SIZE_MAX, ", ",
           [&](const Rows::Input &input, const std::string &numbers) {
             entry[input.buffer->name] =
                 ordered_json::parse("[" + numbers + "]");
           });
    }
    return printText(answer.dump() + "\n");
  }
  int64_t all = data->windows(Part::Train) + data->windows(Part::Validation);
  printText(fmt::format("data        {}, {} example{}\n{}", spec.kind, all,
                        all == 1 ? "" : "s", sizesText(*data)));
  for (int64_t row = 0; row < rows.count(); ++row) {
    printText("\n");
    each(row, shownNumbers, " ",
         [](const Rows::Input &input, const std::string &numbers) {
           const tfm_buffer &buffer = *input.buffer;
           printText(fmt::format(
               "  {}  {}[{}]  {}{}\n", buffer.name, numpyType(buffer.dtype),
               fmt::join(buffer.shape + 1, buffer.shape + buffer.rank, ", "),
               numbers, input.width > shownNumbers ? " ..." : ""));
         });
  }
}

} // namespace

void showData(const tfm_model &descriptor, const DataCommand &command) {
  Recipe recipe = recipeOf(descriptor);
  if (!recipe.hasTrain)
    throw InputError("{} has no `train` block, which says how long a row of "
                     "data is: add one and build it again",
                     descriptor.source);
  DataSpec spec = dataOf(descriptor, recipe, command.data);
  Part part = command.part == "train" ? Part::Train : Part::Validation;
  // What training takes, also of a build that does not train.
  if (const tfm_function *loss = findFunction(descriptor, TFM_EVALUATE);
      loss && holdsArrays(spec))
    return showArrays(*loss, recipe, spec, command, part);
  TokenizerPtr tokenizer =
      findTokenizer(descriptor, recipe,
                    {command.tokenizer, /*weights=*/"", /*ids=*/false,
                     /*idsWithout=*/spec.kind == "tokens"});
  int64_t sequence = recipe.train.sequence;
  int64_t source = sourceLength(descriptor, TFM_TRAIN);
  std::unique_ptr<TextDataset> data = openTextsFor(
      command, recipe,
      {spec, *tokenizer, sequence, ignoredTarget(recipe.train, *tokenizer),
       [&] {
         return findChat(command.tokenizer, /*weights=*/"", recipe,
                         command.chatVariables, command.speaks());
       },
       source});
  if (command.speaks())
    warnOfSameFiles(spec);
  std::vector<Row> rows =
      readRows(*data, part, sequence, source, command.count);

  if (command.json) {
    ordered_json answer = {{"data", spec.kind},
                           {"vocabulary", tokenizer->size()},
                           {"sequence", sequence},
                           {"train", data->windows(Part::Train)},
                           {"validation", data->windows(Part::Validation)},
                           {"part", command.part},
                           {"rows", ordered_json::array()}};
    for (const Row &row : rows) {
      ordered_json entry = {{"text", textOf(row, *tokenizer)},
                            {"tokens", row.tokens},
                            {"targets", row.targets},
                            {"prompt", nullptr},
                            {"answer", nullptr}};
      if (source > 0)
        entry["source"] = row.source;
      if (row.question) {
        entry["prompt"] = tokenizer->text(promptOf(*row.question));
        entry["answer"] = tokenizer->text(row.question->answer);
      }
      answer["rows"].push_back(std::move(entry));
    }
    printText(answer.dump() + "\n");
    return;
  }
  int64_t all = data->windows(Part::Train) + data->windows(Part::Validation);
  printText(fmt::format(
      "data        {}, {} {}{} of {} tokens; {} tokens in the "
      "vocabulary\n{}",
      spec.kind, all, data->isStream() ? "window" : "example",
      all == 1 ? "" : "s", sequence, tokenizer->size(), sizesText(*data)));
  for (const Row &row : rows) {
    printText(fmt::format("\n{}\n", quoted(textOf(row, *tokenizer))));
    if (source > 0)
      printText(fmt::format("  source   {}\n", fmt::join(row.source, " ")));
    printText(fmt::format("  tokens   {}\n  targets  {}\n",
                          fmt::join(row.tokens, " "),
                          fmt::join(row.targets, " ")));
    if (row.question)
      printText(fmt::format("  prompt   {}\n  answer   {}\n",
                            quoted(tokenizer->text(promptOf(*row.question))),
                            quoted(tokenizer->text(row.question->answer))));
  }
}

} // namespace tfm
