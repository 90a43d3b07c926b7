//===- Import.cpp - a model file for a folder of the hub ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Import.h"
#include "ModelInput.h"
#include "Output.h"

#include "compiler/frontend/format/Format.h"
#include "compiler/frontend/recipe/Families.h"
#include "compiler/frontend/syntax/Parser.h"
#include "compiler/report/Against.h"
#include "compiler/report/ModelReport.h"
#include "runtime/commands/usage.h"
#include "runtime/files/family.h"
#include "runtime/files/text_settings.h"
#include "runtime/files/weights.h"
#include "runtime/formats/gguf.h"
#include "runtime/recipe.h"
#include "runtime/support/atomic_file.h"
#include "runtime/support/error.h"
#include "runtime/support/read_json.h"
#include "runtime/support/utf8.h"
#include "runtime/tokenizer/gguf_tokenizer.h"
#include "runtime/tokenizer/tokenizer.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Regex.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

using namespace tfm;
using llvm::StringRef;
using nlohmann::json;

namespace {

/// Thrown within this file after its message was printed.
struct Stopped {};

[[noreturn]] void stop(const std::string &message) {
  messages() << "tfmc: error: " << message << "\n";
  throw Stopped();
}

template <typename T> T orStop(llvm::Expected<T> value) {
  if (!value)
    stop(llvm::toString(value.takeError()));
  return std::move(*value);
}

json readObject(const std::string &path, const char *what) {
  const std::string text = readRegularFile(path, what);
  json object = jsonOf(text);
  if (!object.is_object())
    stop(path + " " + isNoObject(text) + ": copy or download it again");
  return object;
}

/// The beginning of a value of a file, for messages.
std::string shown(const std::string &stored) {
  return stored.empty() ? "absent" : beginningOf(stored);
}

class Importer {
public:
  explicit Importer(const ImportOptions &options) : options(options) {}

  std::string run() {
    isFile = isGguf(options.folder) && fileExists(options.folder) &&
             !isFolder(options.folder);
    if (!isFile && !isFolder(options.folder))
      stop(options.folder + (fileExists(options.folder)
                                 ? " is no folder, and no .gguf file"
                                 : ": there is no such folder or file"));
    folder = options.folder;
    if (isFile) {
      folder = llvm::sys::path::parent_path(options.folder).str();
      if (folder.empty())
        folder = ".";
    }
    requireNotRead({options.folder, folder});
    configPath = isFile ? options.folder : folder + "/config.json";
    if (!folderHas(configPath))
      stop("there is no config.json in " + options.folder +
           ", so nothing says which model it is" + ggufInFolder() +
           adapterIn(folder));
    json config =
        isFile ? readGguf() : readObject(configPath, "the configuration");
    findFamily(config);
    takePart(config);
    readKeys(config);
    readGeneration();
    std::string text = formatted(fill());
    check(text);
    return text;
  }

private:
  /// Stops where the file to write is one that is read.
  void requireNotRead(const std::vector<std::string> &files) const {
    if (isInput(options.output, files))
      throw Stopped();
  }

  /// For a folder without a configuration: which file of it may be meant.
  std::string ggufInFolder() const {
    std::set<std::string> files;
    std::error_code error;
    for (llvm::sys::fs::directory_iterator at(folder, error), end;
         !error && at != end; at.increment(error))
      if (isGguf(at->path()))
        files.insert(at->path());
    if (files.empty())
      return "";
    // Of a model in several files the first is meant.
    return "; of a model in a .gguf file that is named: " + *files.begin();
  }

  /// What a gguf file says, as a config.json of the family that has its
  /// architecture.
  json readGguf() const {
    GgufReader file(configPath);
    json own = file.metadata().value("general.architecture", json());
    std::vector<std::string> known;
    for (const std::string &name : embeddedFamilies()) {
      json gguf = orStop(readFamilyTable(name)).value("gguf", json::object());
      if (!gguf.contains("architecture"))
        continue;
      known.push_back(gguf["architecture"].get<std::string>());
      if (gguf["architecture"] != own)
        continue;
      json config = file.config(gguf);
      config["model_type"] = name;
      return config;
    }
    stop(configPath + ": general.architecture is " +
         shown(own.dump(-1, ' ', false, json::error_handler_t::replace)) +
         ", and those that are read are " + llvm::join(known, ", "));
  }

  /// Which family it is: of the user's first.
  void findFamily(const json &config) {
    auto type = config.find("model_type");
    if (type == config.end() || !type->is_string())
      stop(configPath + ": model_type is " +
           (type == config.end() ? "absent" : shown(type->dump())) +
           ", so nothing says which model it is");
    modelType = type->get<std::string>();
    bool isName = !modelType.empty() && llvm::all_of(modelType, [](char c) {
      return llvm::isAlnum(c) || c == '_' || c == '-' || c == '.';
    });
    std::vector<std::string> folders;
    if (!options.families.empty())
      folders.push_back(options.families);
    if (auto given = llvm::sys::Process::GetEnv("TFM_FAMILIES");
        given && !given->empty())
      folders.push_back(*given);
    for (const std::string &folder : folders) {
      if (!isFolder(folder))
        stop(folder + ", which should have families, is no folder");
      llvm::SmallString<128> path(folder);
      llvm::sys::path::append(path, modelType + ".json");
      llvm::sys::fs::make_absolute(path);
      if (isName && family.empty() && fileExists(path.str().str()))
        family = path.str().str();
    }
    const std::map<std::string, std::string> known = familiesByType();
    if (auto found = known.find(modelType);
        family.empty() && found != known.end())
      family = found->second;
    if (family.empty())
      stop(configPath + ": model_type is " + shown(type->dump()) +
           ", which is none of the families here: " +
           llvm::join(llvm::make_first_range(known), ", ") +
           ". One of your own is a table and a model file: see "
           "docs/families.md, and --families");
    std::vector<std::string> files;
    table = orStop(readFamilyTable(family, &files));
    requireNotRead(files);
    if (table["model_type"] != modelType &&
        !table.value("part_of", json::object()).contains(modelType))
      stop(family + ": its model_type is " + table["model_type"].dump() +
           ", not \"" + modelType + "\", as its name says");
  }

  /// Of a model that the family is one part of, it is the part that is read.
  void takePart(json &config) {
    if (table["model_type"] == modelType)
      return;
    const std::string key = table["part_of"][modelType].get<std::string>();
    std::optional<json> own = ownPart(table, config);
    if (!own)
      stop(configPath + ": " + key + " is " +
           (config.contains(key) ? shown(config[key].dump()) : "absent") +
           ", and of " + modelType + " it is the text model in this object " +
           "that is imported");
    messages() << "tfmc: note: of " << modelType << " in " << configPath
               << " the text model is imported (" << key << "), as " << family
               << ": it reads no pictures\n";
    config = std::move(*own);
  }

  /// Prints what is refused, and what is ignored; sets `values`.
  void judge(const std::vector<FamilyKey> &keys, const std::string &path,
             const std::string &prefix,
             std::map<std::string, FamilyKey> &values) {
    for (const FamilyKey &key : keys) {
      const std::string where =
          path + ": " + key.key + " is " + shown(key.stored);
      bool isIgnored = llvm::is_contained(options.ignored, prefix + key.key);
      switch (key.kind) {
      case FamilyKey::Kind::Sets:
        values[key.hyperparameter] = key;
        break;
      case FamilyKey::Kind::Refused: {
        std::string help;
        if (!key.isListed)
          help = "; --ignore-key " + prefix + key.key + " accepts it";
        else if (!prefix.empty()) // weights do not depend on it
          help = "; take it out of this file to generate without it";
        messages() << "tfmc: error: " << where << ": " << key.reason << help
                   << "\n";
        isRefused = true;
        break;
      }
      case FamilyKey::Kind::Harmless:
        if (isIgnored && !key.isListed)
          messages() << "tfmc: warning: " << where
                     << ", which is ignored: what it asks for is not done\n";
        break;
      case FamilyKey::Kind::Required:
        break;
      }
      if (!isIgnored)
        continue;
      ignoredHere.push_back(prefix + key.key);
      if (key.isListed) {
        messages() << "tfmc: error: --ignore-key " << prefix << key.key
                   << ": the family " << modelType
                   << " knows this key, so there is nothing to ignore\n";
        isRefused = true;
      }
    }
  }

  void readKeys(const json &config) {
    judge(readByFamily(table, config, options.ignored), configPath, "", values);
  }

  void readGeneration() {
    const std::string path = folder + "/generation_config.json";
    json config = json::object();
    if (folderHas(path))
      config = readObject(path, "how texts are generated");
    const std::string prefix = "generation_config.";
    std::vector<std::string> ignored;
    for (StringRef key : options.ignored)
      if (key.consume_front(prefix))
        ignored.push_back(key.str());
    judge(readByFamily(table, config, ignored, "generation"), path, prefix,
          entries);
    for (const std::string &key : options.ignored)
      if (!llvm::is_contained(ignoredHere, key)) {
        messages() << "tfmc: error: --ignore-key " << key << ": neither "
                   << configPath << " nor the generation_config.json beside "
                   << "it (`generation_config.KEY`) has that key\n";
        isRefused = true;
      }
    if (isRefused)
      throw Stopped();
    if (!isFile &&
        table.value("generates", true)) // as `generate` will read them
      endTokensOf(options.folder, INT32_MAX);
  }

  /// The family's model file with the values of the configuration.
  std::string fill() {
    const std::string file = table["model"].get<std::string>();
    std::string text = orStop(readFamilyModel(family, file));
    SourceManager sources;
    Diagnostics diagnostics(sources);
    uint32_t id = sources.add(file, text);
    std::unique_ptr<ast::File> parsed = parseFile(sources, id, diagnostics);
    if (diagnostics.hasErrors()) {
      printDiagnostics(diagnostics);
      throw Stopped();
    }
    const ast::Module *model = nullptr;
    for (const auto &module : parsed->modules)
      if (module->isModel)
        model = module.get();
    if (!model)
      stop(file + " of the family " + modelType + " has no model");
    std::string filled;
    size_t at = 0;
    for (const ast::Parameter &parameter : model->parameters) {
      auto value = values.find(parameter.name.str());
      if (value == values.end() || !parameter.value)
        continue;
      Range range = parameter.value->range;
      filled += text.substr(at, range.begin - at) + value->second.text;
      at = range.end;
      origins.insert(*value);
      values.erase(value);
    }
    for (const auto &[name, key] : values)
      stop("the family " + modelType + " sets `" + name + "` by " + key.key +
           ", but its model has no such hyperparameter with a default");
    filled += text.substr(at);
    return "// By `tfmc import`, for the weights in " + folderName() + "\n" +
           filled + "\n" + recipe();
  }

  /// The last name of the folder's path.
  std::string folderName() const {
    llvm::SmallString<128> path(options.folder);
    llvm::sys::fs::make_absolute(path);
    llvm::sys::path::remove_dots(path, /*remove_dot_dot=*/true);
    std::string name = llvm::sys::path::filename(path).str();
    // A comment ends with its line.
    std::ranges::replace(name, '\n', ' ');
    return printable(name.empty() ? "/" : name);
  }

  /// A file of the folder as the written file names it.
  std::string pathOf(const std::string &name) const {
    llvm::SmallString<128> path(folder), own(options.output);
    llvm::sys::path::append(path, name);
    llvm::sys::fs::make_absolute(path);
    llvm::sys::fs::make_absolute(own);
    llvm::sys::path::remove_dots(path, /*remove_dot_dot=*/true);
    if (options.wholePaths)
      return path.str().str();
    llvm::sys::path::remove_dots(own, /*remove_dot_dot=*/true);
    // Without an output it is this folder itself.
    if (!options.output.empty())
      llvm::sys::path::remove_filename(own);
    StringRef relative = path;
    if (relative.consume_front(own) && relative.consume_front("/"))
      return relative.str();
    return path.str().str();
  }

  std::string recipe() {
    std::string text = "family " + json(family).dump();
    for (const char *before = " ignoring ";
         const std::string &key : options.ignored)
      if (!StringRef(key).starts_with("generation_config."))
        text += std::exchange(before, ", ") + json(key).dump();
    text += "\n" + tokenizer();
    if (!table.value("generates", true))
      return text;
    text += "generate { ";
    for (bool isFirst = true; const auto &[name, key] : entries) {
      if (key.text == "none")
        continue;
      text += (isFirst ? "" : ", ") + name + " = " + key.text;
      isFirst = false;
    }
    return text + " }\n";
  }

  /// Tells what `generate` will refuse.
  void noteIfLarger(const Tokenizer &tokenizer, const std::string &path) const {
    auto vocab = origins.find("vocab");
    int64_t rows = 0;
    if (vocab != origins.end() &&
        !StringRef(vocab->second.text).getAsInteger(10, rows) &&
        tokenizer.size() > rows)
      messages() << "tfmc: note: " << path << " has " << tokenizer.size()
                 << " tokens, and the model rows for " << rows
                 << ": programs refuse it; give them a copy without the tokens "
                    "from "
                 << rows << " on, with --tokenizer\n";
  }

  /// The first tokenizer of the folder that can be read. One that is damaged is
  /// an error: with another one the same text would be other tokens.
  std::string tokenizer() const {
    struct Form {
      const char *kind;
      std::vector<std::string> files;
    };
    const Form forms[] = {{"huggingface", {"tokenizer.json"}},
                          {"sentencepiece", {"tokenizer.model"}},
                          {"gpt2", {"vocab.json", "merges.txt"}}};
    std::vector<Form> all(std::begin(forms), std::end(forms));
    // What stands beside a file is there to be taken instead of its own.
    if (isFile && hasTokenizer(GgufReader(configPath)))
      all.push_back({"gguf", {llvm::sys::path::filename(configPath).str()}});
    std::string why;
    for (const Form &form : all) {
      std::vector<std::string> paths, names;
      for (const std::string &file : form.files)
        paths.push_back(folder + "/" + file);
      if (!llvm::all_of(paths, folderHas))
        continue;
      for (const std::string &file : form.files) {
        std::string path = pathOf(file);
        if (!llvm::json::isUTF8(path))
          stop("the path of " + options.folder +
               " is no UTF-8, as what a model "
               "file names has to be: rename the folder");
        names.push_back(json(path).dump());
      }
      TokenizerSpec spec;
      spec.kind = form.kind;
      try {
        TokenizerPtr opened = openTokenizer(spec, paths);
        noteIfLarger(*opened, paths.front());
        bool isWhole = spec.kind == "huggingface" || spec.kind == "gguf";
        if (!isWhole && asFolderSays(folder, spec.kind == "gpt2", *opened)) {
          messages() << "tfmc: note: " << folder
                     << " says more of its tokenizer than a model file can "
                        "(tokenizer_config.json): programs take it from the "
                        "folder that --weights or --tokenizer names\n";
          return "";
        }
        return "tokenizer " + std::string(form.kind) + "(" +
               llvm::join(names, ", ") + ")\n";
      } catch (const InputError &problem) {
        // What a gguf file says of its tokenizer may be anything.
        if (spec.kind != "gguf" &&
            dynamic_cast<const NotSupported *>(&problem) == nullptr)
          throw;
        if (why.empty())
          why = problem.what();
      }
    }
    messages() << "tfmc: note: "
               << (why.empty() ? "there is no tokenizer in " + folder : why)
               << (isFile ? " (put the model's tokenizer.json beside the file)"
                          : "")
               << ": prompts are ids (--ids)\n";
    return "";
  }

  static std::string formatted(const std::string &text) {
    SourceManager sources;
    Diagnostics diagnostics(sources);
    std::optional<std::string> result =
        formatFile(sources, sources.add("model.tfm", text), diagnostics);
    if (result)
      return *result;
    printDiagnostics(diagnostics);
    throw Stopped();
  }

  /// Compiles the file, and holds it against the weights.
  void check(const std::string &text) const {
    const std::string path =
        options.output.empty() ? "model.tfm" : options.output;
    CompiledModel model = loadText(text, path);
    if (!model.module)
      stop(configPath + " describes no model of the family " + modelType +
           "; it says " + said(unnamedIn(model.problems)));
    bool hasWeights =
        isFile || folderHas(options.folder + "/model.safetensors") ||
        folderHas(options.folder + "/model.safetensors.index.json");
    if (!hasWeights) {
      messages() << "tfmc: note: " << options.folder
                 << " has no model.safetensors to check the file against"
                 << (folderHas(options.folder + "/pytorch_model.bin")
                         ? "; pytorch_model.bin must be saved as safetensors "
                           "to be used, e.g. by `save_pretrained` of "
                           "transformers\n"
                         : "\n");
      return;
    }
    ModelReport report = orStop(makeReport(*model.module, ReportOptions()));
    const ModelDescription description = describe(model);
    const Weights weights = {
        orStop(readCheckpoint(options.folder, description.family)),
        description.family};
    if (weights.tensors.empty())
      stop(options.folder + " has no tensors, so there are no weights to read");
    Comparison comparison =
        compareWithCheckpoint(report, weights.tensors, weights.family);
    const auto copies = unlikeCopies(comparison, weights);
    if (!comparison.agrees() || copies)
      stopAtFlag(text, path, weights);
    if (llvm::Error error =
            compareConfig(options.folder, report, description, comparison))
      stop(llvm::toString(std::move(error)));
    if (copies)
      stop(options.folder + ": " + copies->first + " and " + copies->second +
           " differ, but are one tensor in the model that the " +
           (isFile ? "metadata" : "config.json") + " describes; that says " +
           said(comparison.rightSizes));
    if (comparison.agrees())
      return;
    // The file was made of it.
    if (comparison.config && comparison.config->agrees())
      comparison.config.reset();
    std::string words;
    llvm::raw_string_ostream os(words);
    writeComparison(comparison, options.folder, /*all=*/false, os);
    messages() << words;
    stop(notThose() + reasons(comparison));
  }

  std::string notThose() const {
    return "the weights in " + options.folder +
           " are not those of the model that its " +
           (isFile ? "metadata describes" : "config.json describes");
  }

  /// What a model is held against.
  struct Weights {
    std::vector<CheckpointTensor> tensors;
    std::string family;
  };

  /// Stops where the weights are those of the model with one key true instead
  /// of false, or the other way round.
  void stopAtFlag(const std::string &text, const std::string &path,
                  const Weights &weights) const {
    for (const auto &[name, key] : origins) {
      if (key.text != "true" && key.text != "false")
        continue;
      const std::string other = key.text == "true" ? "false" : "true";
      std::string problem;
      CompiledModel model = loadText(text, path, {{name, other}}, &problem);
      if (!model.module)
        continue;
      Comparison comparison = compareWithCheckpoint(
          orStop(makeReport(*model.module, ReportOptions())), weights.tensors,
          weights.family);
      if (comparison.agrees() && !unlikeCopies(comparison, weights))
        stop(notThose() + ": " + key.key + " is " + key.text +
             (key.stored.empty() ? " where it is absent" : "") +
             ", and they are those of " + other);
    }
  }

  /// Which keys the weights do not fit to: by their sizes, or all that may be
  /// the reason.
  std::string reasons(const Comparison &comparison) const {
    std::string words;
    for (const SizeDifference &size : comparison.sizes)
      if (auto origin = origins.find(size.hyperparameter);
          origin != origins.end())
        words += "; " + origin->second.key + " is " + std::to_string(size.own) +
                 ", and theirs is " + std::to_string(size.stored);
    return words.empty() ? "; that says " + said(comparison.rightSizes) : words;
  }

  /// The hyperparameters that no message names, unless that is all of them.
  std::set<std::string> unnamedIn(const std::string &messages) const {
    std::set<std::string> unnamed;
    for (const auto &[name, key] : origins)
      if (!llvm::Regex("(^|[^a-z_0-9])" + name + "($|[^a-z_0-9])")
               .match(messages))
        unnamed.insert(name);
    return unnamed.size() < origins.size() ? unnamed : std::set<std::string>();
  }

  /// What the configuration says, without what is certainly right.
  std::string said(const std::set<std::string> &without) const {
    std::string words;
    for (const auto &[name, key] : origins)
      if (!without.contains(name))
        words += (words.empty() ? "" : ", ") + name + " = " + key.text + " (" +
                 key.key + ")";
    return words;
  }

  /// Tensors that begin unalike and are one in the model, stored under several
  /// names. Whoever loads them looks at the rest.
  std::optional<std::pair<std::string, std::string>>
  unlikeCopies(const Comparison &comparison, const Weights &weights) const {
    constexpr size_t most = 4096;
    WeightFiles files(options.folder, weights.family);
    auto begin = [&](const std::string &name) {
      auto [file, entry] = files.tensors().at(name);
      std::vector<float> values(std::min<size_t>(most, entry->elements()));
      file->readFloats(name, *entry, 0, values);
      return values;
    };
    for (const TensorComparison &tensor : comparison.tensors)
      for (size_t i = 1; i < tensor.storedNames.size(); ++i)
        if (const std::string &copy = tensor.storedNames[i],
            &first = tensor.storedNames.front();
            !sameBits(begin(copy), begin(first)))
          return std::pair(copy, first);
    return std::nullopt;
  }

  const ImportOptions &options;
  /// Whether that is one file, which has the configuration, too.
  bool isFile = false;
  /// Where a tokenizer and settings of generation may be.
  std::string folder;
  std::string configPath, modelType;
  /// As the written file names it: `llama`, or the path of a table.
  std::string family;
  json table;
  /// What hyperparameters, and entries of `generate`, are set to.
  std::map<std::string, FamilyKey> values, entries;
  std::vector<std::string> ignoredHere;
  /// Which hyperparameter has its value from which key.
  std::map<std::string, FamilyKey> origins;
  bool isRefused = false;
};

} // namespace

std::optional<std::string> tfm::importModel(const ImportOptions &options) {
  try {
    return Importer(options).run();
  } catch (const InputError &error) {
    messages() << "tfmc: error: " << error.what() << "\n";
  } catch (const Stopped &) {
  }
  return std::nullopt;
}

void tfm::addImportOptions(CLI::App &command, ImportOptions &options) {
  command
      .add_option("--families", options.families,
                  "A folder with families of your own (see docs/families.md); "
                  "TFM_FAMILIES names another")
      ->type_name("DIR")
      ->transform(usage::folder());
  command
      .add_option("--ignore-key", options.ignored,
                  "Accept a key of config.json that the family does not know; "
                  "repeatable")
      ->type_name("KEY")
      ->allow_extra_args(false);
}
