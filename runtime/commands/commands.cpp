//===- commands.cpp - what commands share ---------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/commands/commands.h"

#include "runtime/data/texts.h"
#include "runtime/device/threads.h"
#include "runtime/device/variant.h"
#include "runtime/files/checkpoint.h"
#include "runtime/files/find_tokenizer.h"
#include "runtime/files/model_files.h"
#include "runtime/files/text_settings.h"
#include "runtime/files/weights.h"
#include "runtime/model/memory_needed.h"
#include "runtime/support/atomic_file.h"
#include "runtime/support/error.h"
#include "runtime/support/progress.h"
#include "runtime/support/utf8.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

using nlohmann::ordered_json;

namespace tfm {

DataSpec dataOf(const tfm_model &model, const Recipe &recipe,
                const std::string &named) {
  DataSpec spec = recipe.data;
  if (!named.empty()) {
    // A model without data says nothing of a part to validate with.
    if (spec.kind.empty())
      spec.validation = 0.1;
    if (spec.kind.empty() || spec.kind == "sums" || spec.kind == "products")
      spec.kind = "text";
    spec.files = {named};
  }
  if (spec.kind.empty())
    throw InputError("{} has no data: name a text with --data FILE, or add a "
                     "`data` block to {}",
                     model.name, model.source);
  return spec;
}

/// What to do where the data has something that the tokenizer has no token for.
static std::string adviceOnTokens(const CommonOptions &options,
                                  const TokenizerSpec &tokenizer) {
  if (!options.tokenizer.empty() || tokenizer.kind.empty())
    return "Name a tokenizer that has one with --tokenizer";
  if (!tokenizer.files.empty())
    return "Add one to the vocabulary that `tokenizer` names, or name one "
           "there that has it, and build again";
  if (!options.data.empty())
    return "The model was built with another text: name this file in its "
           "`data` and build again";
  return "Build the model again if its data has changed since, else add what "
         "is missing to the alphabet in `tokenizer`";
}

/// Calls `open`; where the tokenizer has no token for something in the data,
/// the message says what to do.
template <typename Open>
static auto advising(const CommonOptions &options, const Recipe &recipe,
                     Open open) {
  try {
    return open();
  } catch (const NoToken &error) {
    throw InputError("{}. {}", error.what(),
                     adviceOnTokens(options, recipe.tokenizer));
  }
}

std::unique_ptr<TextDataset> openTextsFor(const CommonOptions &options,
                                          const Recipe &recipe,
                                          const DataRequest &request) {
  return advising(options, recipe, [&] { return openTexts(request); });
}

/// Whether a file is one that is run, also a script, or a library.
static bool isProgram(const std::string &path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode) ||
      access(path.c_str(), X_OK) != 0)
    return false;
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  char first[4] = {};
  ssize_t count = file < 0 ? 0 : read(file, first, sizeof first);
  if (file >= 0)
    close(file);
  std::string_view begin(first,
                         static_cast<size_t>(std::max<ssize_t>(count, 0)));
  return begin == "\x7f"
                  "ELF" ||
         begin.starts_with("#!");
}

void requireNoneOfModel(const std::string &path, const tfm_model &model) {
  const Recipe recipe = recipeOf(model);
  const auto require = [&](const std::string &name, const std::string &what) {
    if (isReadOf(path, name))
      throw InputError(
          "{} is {}, and would be overwritten: write to another file", path,
          what);
  };
  // Files are looked for here, and where they were when the model was built.
  const auto requireEach = [&](const std::vector<std::string> &names,
                               const std::string &directory,
                               const std::string &what) {
    for (const std::string &name : names) {
      require(name, what);
      if (!directory.empty() && !name.starts_with('/'))
        require(directory + "/" + name, what);
    }
  };
  const std::string source = model.source;
  const std::string ofModel = std::string(" of ") + model.name;
  require("/proc/self/exe", "this program itself");
  require(source, "what this program was built from");
  for (const std::string &directory :
       {recipe.data.directory, recipe.tokenizer.directory})
    requireEach({source.substr(source.rfind('/') + 1)}, directory,
                "what this program was built from");
  if (isProgram(path))
    throw InputError("{} is a program or library, and would be overwritten: "
                     "write to another file",
                     path);
  // Which models this one imports it does not know.
  if (path.ends_with(".tfm") && fileExists(path))
    throw InputError("{} is a file of a model, and would be overwritten: write "
                     "to another file",
                     path);
  DataSpec data = recipe.data;
  try {
    data = withMatches(data);
  } catch (const InputError &) { // whoever reads them says so
  }
  for (const auto *files : {&data.files, &data.validationFiles})
    requireEach(*files, data.directory, "a data file" + ofModel);
  requireEach(recipe.tokenizer.files, recipe.tokenizer.directory,
              "a file of the tokenizer" + ofModel);
}

void requireNotRead(const std::string &path, const CommonOptions &options,
                    const tfm_model &model) {
  requireNoneOfModel(path, model);
  for (const std::string &read :
       {options.data, options.tokenizer, options.weights,
        folderOfWeights(options.weights)})
    if (isReadOf(path, read))
      throw InputError(
          "{} is a file that this command reads: write to another one", path);
}

TokenizerPtr dataTokenizer(const tfm_model &model, const Recipe &recipe,
                           const DataSpec &data, const CommonOptions &options,
                           const std::string &weights) {
  if (holdsArrays(data) && recipe.tokenizer.kind.empty() &&
      options.tokenizer.empty())
    return makeIdsTokenizer(vocabularyOf(model)); // none without texts
  return findTokenizer(model, recipe,
                       {options.tokenizer, weights, /*ids=*/false,
                        /*idsWithout=*/data.kind == "tokens"});
}

void warnOfSameFiles(const DataSpec &spec) {
  const DataSpec data = withMatches(spec);
  using Files = std::set<std::filesystem::path>;
  Files trained, validated;
  // A pipe, which is read once, is no other file.
  auto fileOf = [&](const std::string &name) {
    const std::string path =
        locateFile(name, data.directory, "the data file", "--data");
    std::error_code removed; // but open, as standard input
    std::filesystem::path whole = std::filesystem::canonical(path, removed);
    return isRegularFile(path) && !removed ? whole
                                           : std::filesystem::path(path);
  };
  auto warn = [](const std::string &name, const char *what) {
    say(printable("warning: " + name + what) + "\n");
  };
  auto addAll = [&](const std::vector<std::string> &names, Files &files) {
    std::string again;
    for (const std::string &name : names)
      if (!files.insert(fileOf(name)).second)
        again = name;
    if (!again.empty())
      warn(again, " is named more than once, and what it holds "
                  "counts as often");
  };
  addAll(data.files, trained);
  addAll(data.validationFiles, validated);
  for (const std::string &name : data.validationFiles)
    if (trained.contains(fileOf(name)))
      return warn(name, " is trained on, too: validation with it says nothing "
                        "of unseen data");
}

std::unique_ptr<Dataset> openData(const CommonOptions &options,
                                  const Recipe &recipe,
                                  const DataRequest &request) {
  std::unique_ptr<Dataset> data =
      advising(options, recipe, [&] { return openDataset(request); });
  if (options.speaks())
    for (const std::string &note : data->notes())
      say("note: " + printable(note) + "\n");
  if (options.speaks())
    warnOfSameFiles(request.spec);
  return data;
}

std::string missingBegin(const tfm_function &function,
                         const Tokenizer &tokenizer, const Dataset &data) {
  const std::vector<int32_t> begin = tokenizer.begin();
  Rows rows(function, /*count=*/1);
  if (rows.tokens(0).empty())
    return ""; // nothing that it would begin
  for (Part part : {Part::Train, Part::Validation})
    if (data.windows(part) > 0 && !data.isStream()) {
      data.fill(part, data.windowStart(part, 0), rows, /*row=*/0);
      if (std::ranges::mismatch(begin, rows.tokens(0)).in1 == begin.end())
        return ""; // as `data.begin`, the text or a chat template has it
      break;
    }
  return tokenizer.text(begin);
}

void requireAll(const CommonOptions &options, const Unmatched &unmatched) {
  const std::string &weights = options.weights;
  if (!unmatched.fresh.empty())
    throw InputError("{} does not have {}, and only `train --init` "
                     "can begin with fresh ones",
                     weights, listed(unmatched.fresh));
  if (!unmatched.leftOut.empty() && options.speaks())
    say(printable(fmt::format("note: left out of {}: {}", weights,
                              listed(unmatched.leftOut))) +
        "\n");
}

void loadWeights(const CommonOptions &options, Model &model) {
  Unmatched unmatched;
  std::vector<std::string> notes = loadWeights(
      options.weights, model, options.partial ? &unmatched : nullptr);
  requireAll(options, unmatched);
  if (options.speaks())
    for (const std::string &note : notes)
      say("note: " + printable(note) + "\n");
  if (options.processes)
    options.processes->requireSame("other weights", checksumOf(model).text(),
                                   "give all of them the same ones");
}

void requireMemoryOfMachine(const CommonOptions &options,
                            const tfm_model &model, const Recipe &recipe,
                            bool trains) {
  const Processes *processes = options.processes;
  if (processes && processes->placeOnHost() == 0 && processes->companions() > 1)
    requireMemoryTogether(model, recipe, trains, processes->count(),
                          processes->companions());
}

std::string jsonText(const ordered_json &value, int indent) {
  return value.dump(indent, ' ', /*ensure_ascii=*/false,
                    ordered_json::error_handler_t::replace);
}

void printText(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
      std::fflush(stdout) != 0)
    throw InputError("cannot write to standard output: {}",
                     std::strerror(errno));
}

/// Of all functions.
static int64_t mostThreads(const tfm_variant &variant) {
  int64_t most = 1;
  for (int32_t i = 0; i < variant.function_count; ++i)
    most = std::max(most, variant.functions[i].threads);
  return most;
}

int threadCount(const CommonOptions &options, const tfm_model &model) {
  if (options.threads > 0)
    return options.threads;
  int processors = availableProcessors();
  if (options.processes)
    processors = std::max(1, processors / options.processes->neighbours());
  // Beside a GPU they fill and convert parameters.
  if (chooseVariant(model).image_count > 0)
    return processors;
  return static_cast<int>(
      std::min<int64_t>(processors, mostThreads(chooseVariant(model))));
}

const tfm_function *findFunction(const tfm_model &model,
                                 std::string_view name) {
  const tfm_variant &variant = model.variants[0]; // functions are those of all
  for (int32_t i = 0; i < variant.function_count; ++i)
    if (variant.functions[i].name == name)
      return &variant.functions[i];
  return nullptr;
}

int64_t sourceLength(const tfm_model &model, std::string_view name) {
  const tfm_function *function = findFunction(model, name);
  return function ? SourceInput(*function).length() : 0;
}

} // namespace tfm
