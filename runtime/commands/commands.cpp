//===- commands.cpp - what each command of a compiled model does --------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/commands/commands.h"

#include "runtime/chat/find_chat.h"
#include "runtime/comm/micro_batches.h"
#include "runtime/data/texts.h"
#include "runtime/device/choose_device.h"
#include "runtime/device/cpu_device.h"
#include "runtime/device/memory.h"
#include "runtime/device/nccl.h"
#include "runtime/device/variant.h"
#include "runtime/error.h"
#include "runtime/files/adapter.h"
#include "runtime/files/atomic_file.h"
#include "runtime/files/checkpoint.h"
#include "runtime/files/export_folder.h"
#include "runtime/files/gguf.h"
#include "runtime/files/merge.h"
#include "runtime/files/run_folder.h"
#include "runtime/files/run_log.h"
#include "runtime/files/weights.h"
#include "runtime/float16.h"
#include "runtime/generation/generator.h"
#include "runtime/memory_needed.h"
#include "runtime/progress.h"
#include "runtime/quantise.h"
#include "runtime/tokenizer/find_tokenizer.h"
#include "runtime/tokenizer/utf8.h"
#include "runtime/training/initialise.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

using nlohmann::json;
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
    throw InputError(std::string(model.name) +
                     " has no data: name a text with --data FILE, or add a "
                     "`data` block to " +
                     model.source);
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

std::unique_ptr<Dataset> openDataFor(const CommonOptions &options,
                                     const Recipe &recipe,
                                     const DataRequest &request) {
  try {
    return openDataset(request);
  } catch (const NoToken &error) {
    throw InputError(std::string(error.what()) + ". " +
                     adviceOnTokens(options, recipe.tokenizer));
  }
}

void requireNoneOfModel(const std::string &path, const tfm_model &model) {
  const Recipe recipe = parseRecipe(model.recipe ? model.recipe : "");
  const auto require = [&](const std::string &name, const std::string &what) {
    if (isSameFile(path, name))
      throw InputError(path + " is " + what +
                       ", and would be overwritten: write to another file");
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

namespace {

/// Data that is token ids needs no tokenizer.
bool holdsIds(const DataSpec &data) { return data.kind == "tokens"; }

/// The run directory of a run that names none: runs/<source>, then
/// runs/<source>-2, ...
std::string freeRunFolder(const tfm_model &model) {
  std::string stem = model.source;
  stem = stem.substr(stem.rfind('/') + 1);
  stem = stem.substr(0, stem.rfind('.'));
  bool isNamed = !stem.empty() && stem != "<stdin>";
  std::string base = "runs/" + (isNamed ? stem : model.name);
  std::string folder = base;
  for (int i = 2; holdsWeights(folder) || isLocked(folder); ++i)
    folder = base + "-" + std::to_string(i);
  return folder;
}

/// Paths need not be UTF-8, as JSON must be.
std::string jsonText(const ordered_json &value, int indent = -1) {
  return value.dump(indent, ' ', /*ensure_ascii=*/false,
                    ordered_json::error_handler_t::replace);
}

/// Opens the data, and says what of it is not used.
std::unique_ptr<Dataset> openData(const CommonOptions &options,
                                  const Recipe &recipe,
                                  const DataRequest &request) {
  std::unique_ptr<Dataset> data = openDataFor(options, recipe, request);
  if (options.speaks())
    for (const std::string &note : data->notes())
      say("note: " + note + "\n");
  return data;
}

/// What the tokenizer puts before texts, where the data has not.
std::string missingBegin(const Recipe &recipe, const Tokenizer &tokenizer,
                         const Dataset &data) {
  const std::vector<int32_t> begin = tokenizer.begin();
  auto length = static_cast<size_t>(recipe.train.sequence);
  std::vector<int32_t> tokens(length), targets(length);
  for (Part part : {Part::Train, Part::Validation})
    if (data.windows(part) > 0 && !data.isStream()) {
      data.read(part, data.windowStart(part, 0), tokens, targets);
      if (std::ranges::mismatch(begin, tokens).in1 == begin.end())
        return ""; // as `data.begin`, the text or a chat template has it
      break;
    }
  return tokenizer.text(begin);
}

/// Tells of what other programs put before texts, and this training does not.
void noteMissingBegin(const Recipe &recipe, const Tokenizer &tokenizer,
                      const Dataset &data) {
  std::string begin = missingBegin(recipe, tokenizer, data);
  if (!begin.empty())
    say(printable(fmt::format(
            "note: the tokenizer puts {} before texts, but {}. As it is, "
            "`generate` puts none before prompts of this run, but other "
            "programs do",
            begin,
            data.isStream()
                ? "windows of a text begin anywhere, without it"
                : "the examples have none: build with -D 'data.begin=" + begin +
                      "' to train with it")) +
        "\n");
}

/// Tells where prompts begin otherwise for who reads an export.
void noteOtherBegin(const tfm_model &descriptor, const ExportCommand &command) {
  // The tokenizer of a published folder goes with its weights.
  if (!isFolder(command.weights) ||
      fileExists(command.weights + "/config.json"))
    return;
  try {
    Recipe recipe = parseRecipe(descriptor.recipe);
    auto tokenizerOf = [&](const std::string &named) {
      return findTokenizer(
          descriptor, recipe,
          {named, command.weights, /*ids=*/false, /*idsWithout=*/true});
    };
    TokenizerPtr own = tokenizerOf(""), exported = tokenizerOf(command.out);
    std::vector<int32_t> ours = beginOf(recipe, *own),
                         theirs = exported->begin();
    auto name = [&](const std::vector<int32_t> &begin) {
      return begin.empty() ? "nothing" : exported->text(begin);
    };
    if (ours != theirs)
      say(printable(fmt::format("note: prompts begin with {} for {}, as its "
                                "data did, and with {} for {}, as its "
                                "tokenizer says",
                                name(ours), command.weights, name(theirs),
                                command.out)) +
          "\n");
  } catch (const InputError &) {
    // There is no tokenizer, or none that is read.
  }
}

/// Throws InputError where a value is beyond the largest number of `type`.
void requireWithin(const std::vector<FloatTensor> &tensors, StoredType type) {
  auto [name, wider] = type == StoredType::F16    ? std::pair("f16", "bf16")
                       : type == StoredType::INT4 ? std::pair("int4", "int8")
                                                  : std::pair("bf16", "f32");
  for (const FloatTensor &tensor : tensors) {
    PendingRead<float> read = tensor.read();
    std::span<const float> values = read.values();
    size_t at = firstBeyond(values, type);
    if (type == StoredType::F16 &&
        firstBeyond(values, StoredType::BF16) < values.size())
      wider = "f32";
    if (at < values.size())
      throw InputError(fmt::format(
          "the parameter {} has the value {} (element {}), and {} reaches to "
          "{}: export it with --dtype {}",
          tensor.name, values[at], at, name, largestOf(type), wider));
  }
}

/// What readers of a file of INT8 or INT4 have to know of its tensors: which
/// lie otherwise, the terms of an output together, and of 4 bits how many
/// terms there are, and in what groups.
void describeQuantised(const std::vector<FloatTensor> &tensors, StoredType type,
                       std::map<std::string, std::string> &metadata) {
  std::vector<std::string> transposed;
  for (const FloatTensor &tensor : tensors) {
    if (tensor.outputAxis < 0)
      continue;
    OutputRows rows(tensor.shape, tensor.outputAxis);
    if (rows.areLast())
      transposed.push_back(tensor.name);
    if (type == StoredType::INT4)
      metadata[termsKey + tensor.name] = std::to_string(rows.terms());
  }
  metadata[transposedKey] = json(transposed).dump();
  if (type == StoredType::INT4)
    metadata[groupKey] = std::to_string(TFM_GROUP_TERMS);
}

/// Says what was left out, and throws InputError where the weights have not all
/// that the model needs.
void requireAll(const CommonOptions &options, const Unmatched &unmatched) {
  const std::string &weights = options.weights;
  if (!unmatched.fresh.empty())
    throw InputError(fmt::format("{} does not have {}, and only `train --init` "
                                 "can begin with fresh ones",
                                 weights, listed(unmatched.fresh)));
  if (!unmatched.leftOut.empty() && options.speaks())
    say(printable(fmt::format("note: left out of {}: {}", weights,
                              listed(unmatched.leftOut))) +
        "\n");
}

} // namespace

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

void printText(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
      std::fflush(stdout) != 0)
    throw InputError(std::string("cannot write to standard output: ") +
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

/// How many threads functions run on here, for people.
static std::string threadsText(const tfm_model &model,
                               const tfm_variant &variant) {
  std::string alone;
  for (int32_t i = 0; i < variant.function_count; ++i)
    if (variant.functions[i].threads == 1)
      alone +=
          (alone.empty() ? "" : ", ") + std::string(variant.functions[i].name);
  int threads = threadCount(CommonOptions(), model);
  if (threads == 1 || alone.empty())
    return std::to_string(threads);
  return fmt::format("{}, but 1 for {}", threads, alone);
}

/// What functions run on, for people: a GPU, or how many threads.
static std::string deviceText(const tfm_model &model,
                              const tfm_variant &variant,
                              const std::optional<CudaProperties> &gpu) {
  if (!gpu)
    return "  threads          " + threadsText(model, variant) + "\n";
  return fmt::format(
      "  device           {}, compute capability {}.{}, {} of memory ({:.1f}% "
      "of it for this)\n"
      "  NCCL             {}\n",
      gpu->name, gpu->major, gpu->minor, byteText(gpu->memory),
      100 * static_cast<double>(variant.arena_bytes) /
          static_cast<double>(gpu->memory),
      ncclVersion().value_or("none, which several processes need"));
}

/// The same for programs. On the processors the arena's bytes are taken as they
/// are touched.
static ordered_json deviceAsJson(const tfm_variant &variant,
                                 const std::optional<CudaProperties> &gpu) {
  if (!gpu)
    return {{"kind", "cpu"},
            {"memory", memoryLimit()},
            {"takes", variant.arena_bytes}};
  std::optional<std::string> nccl = ncclVersion();
  return {{"kind", "cuda"},
          {"number", gpu->number},
          {"name", gpu->name},
          {"compute_capability", fmt::format("{}.{}", gpu->major, gpu->minor)},
          {"multiprocessors", gpu->multiprocessors},
          {"memory", gpu->memory},
          {"takes", variant.arena_bytes},
          {"nccl", nccl ? ordered_json(*nccl) : ordered_json()}};
}

/// The CPUs that a build has code for, for people; nothing where it is one.
static std::string variantsText(const tfm_model &model) {
  std::string list;
  for (int64_t i = 0; i < model.variant_count; ++i)
    list += (list.empty() ? "" : ", ") + std::string(model.variants[i].machine);
  return model.variant_count == 1 ? "" : "  variants         " + list + "\n";
}

/// How texts are generated, for people: how many at a time, and in what chunks
/// prompts are read.
static std::string generationText(const tfm_variant &variant,
                                  const Recipe &recipe) {
  if (!recipe.generate.wholeSequence.empty())
    return "whole sequences, because of " + recipe.generate.wholeSequence;
  std::string texts;
  std::vector<int64_t> chunks; // of several functions the same, perhaps
  for (int32_t i = 0; i < variant.function_count; ++i) {
    const tfm_function &function = variant.functions[i];
    std::string_view name = function.name;
    if (name == TFM_DECODE) {
      int64_t count = Model::input(function, "tokens").shape[0];
      texts = count == 1 ? "1 text" : std::to_string(count) + " texts together";
    } else if (name == TFM_PREFILL || name == TFM_PREFILL_SHORT ||
               name == TFM_VERIFY) {
      const tfm_buffer &tokens = Model::input(function, "tokens");
      int64_t size = tokens.shape[0] * tokens.shape[1];
      if (std::ranges::find(chunks, size) == chunks.end())
        chunks.push_back(size);
    }
  }
  if (texts.empty())
    return "";
  return fmt::format(
      "{}, prompts in chunks of {} tokens{}", texts, fmt::join(chunks, ", "),
      recipe.cache() == "f32" ? "" : ", keys and values in " + recipe.cache());
}

/// Null where the model has none of that name.
static const tfm_function *findFunction(const tfm_model &model,
                                        std::string_view name) {
  const tfm_variant &variant = model.variants[0]; // functions are those of all
  for (int32_t i = 0; i < variant.function_count; ++i)
    if (variant.functions[i].name == name)
      return &variant.functions[i];
  return nullptr;
}

std::vector<std::string> refusedCommands(const tfm_model &model) {
  auto runs = [&](std::string_view name,
                  std::initializer_list<std::string_view> filled) {
    const tfm_function *function = findFunction(model, name);
    if (!function)
      return false;
    try {
      Model::requireFilled(*function, filled);
      return name != TFM_FORWARD || Model::givesLogits(model, *function);
    } catch (const InputError &) {
      return false;
    }
  };
  std::vector<std::string> refused;
  if (!runs(TFM_TRAIN, {"tokens", "targets", "count", "rng"}))
    refused.emplace_back("train");
  if (!runs(TFM_EVALUATE, {"tokens", "targets", "count"}))
    refused.emplace_back("eval");
  if (!runs(TFM_FORWARD, {"tokens"})) {
    refused.emplace_back("generate");
    refused.emplace_back("logits");
  }
  if (!parseRecipe(model.recipe ? model.recipe : "").hasTrain)
    refused.emplace_back("data");
  return refused;
}

/// The commands of a model, for people.
static std::string commandsText(const tfm_model &model) {
  std::vector<std::string> refused = refusedCommands(model);
  std::string list;
  for (const char *name : {"info", "train", "generate", "eval", "data",
                           "logits", "export", "bench"})
    if (std::ranges::find(refused, name) == refused.end())
      list += (list.empty() ? "" : ", ") + std::string(name);
  return list;
}

void info(const tfm_model &model, const CommonOptions &options) {
  tfm_model own = modelFor(model, options.device);
  const tfm_variant &chosen = chooseVariant(own);
  std::optional<CudaProperties> gpu = gpuOf(own, options.device);
  if (gpu && chosen.arena_bytes > gpu->memory) {
    NoDeviceMemory all(gpu->name, gpu->memory, gpu->memory);
    refuseArena(own, &all);
  }
  Recipe recipe = parseRecipe(model.recipe ? model.recipe : "");
  uint64_t activations = chosen.activations.bytes + chosen.cache_bytes;
  uint64_t parameterBytes = chosen.parameters.bytes + chosen.copies.bytes;
  uint64_t parameters = 0, trainable = 0;
  for (int32_t i = 0; i < model.parameter_count; ++i) {
    const tfm_parameter &parameter = model.parameters[i];
    uint64_t count = Model::elements(parameter.rank, parameter.shape);
    parameters += count;
    trainable += parameter.trainable ? count : 0;
  }
  json values =
      json::parse(model.hyperparameters ? model.hyperparameters : "[]", nullptr,
                  /*allow_exceptions=*/false);
  if (options.json) {
    ordered_json hyperparameters = ordered_json::object();
    for (const json &entry : values)
      hyperparameters[entry.at("name").get<std::string>()] = entry.at("value");
    ordered_json functions = ordered_json::object();
    for (int32_t i = 0; i < chosen.function_count; ++i)
      functions[chosen.functions[i].name] = {
          {"flops", chosen.functions[i].flops},
          {"threads", chosen.functions[i].threads}};
    ordered_json variants = ordered_json::array();
    for (int64_t i = 0; i < model.variant_count; ++i) {
      const tfm_variant &variant = model.variants[i];
      variants.push_back({{"target", variant.target},
                          {"cpu", variant.machine},
                          {"features", variant.features},
                          {"chosen", &variant == &chosen}});
    }
    ordered_json result = {
        {"format", 1},
        {"model", model.name},
        {"source", model.source},
        {"target", chosen.machine},
        {"variants", variants},
        {"device", deviceAsJson(chosen, gpu)},
        {"precision", recipe.precision()},
        {"weights", recipe.generate.weights},
        {"cache", chosen.cache_bytes > 0 ? json(recipe.cache()) : json()},
        {"hyperparameters", hyperparameters},
        {"parameters", {{"total", parameters}, {"trainable", trainable}}},
        {"memory",
         {{"parameters", parameterBytes},
          {"gradients", chosen.gradients.bytes + chosen.sums.bytes},
          {"optimizer", chosen.optimizer.bytes},
          {"activations", activations},
          {"arena", chosen.arena_bytes}}},
        {"functions", functions},
        {"recipe", json::parse(model.recipe ? model.recipe : "{}", nullptr,
                               /*allow_exceptions=*/false)}};
    printText(jsonText(result, 2) + "\n");
    return;
  }
  std::string list;
  for (const json &entry : values)
    list += (list.empty() ? "" : ", ") + entry.at("name").get<std::string>() +
            " = " + entry.at("value").dump();
  std::vector<std::string> refused = refusedCommands(model);
  std::string generation =
      std::ranges::find(refused, "generate") == refused.end()
          ? generationText(chosen, recipe)
          : "";
  printText(fmt::format(
      "{} ({}), compiled for {}, {}\n{}"
      "  hyperparameters  {}\n"
      "  parameters       {}{}\n"
      "  memory           {} (parameters {}, gradients {}, "
      "optimizer {}, activations {})\n"
      "{}"
      "  commands         {}; --help on each\n{}",
      model.name, model.source, chosen.machine, recipe.precision(),
      variantsText(model), list, parameters,
      recipe.generate.weights != "f32"
          ? " (weights in " + recipe.generate.weights + ")"
      : trainable == parameters ? ""
                                : fmt::format(" ({} trainable)", trainable),
      byteText(chosen.arena_bytes), byteText(parameterBytes),
      byteText(chosen.gradients.bytes + chosen.sums.bytes),
      byteText(chosen.optimizer.bytes), byteText(activations),
      deviceText(own, chosen, gpu), commandsText(model),
      generation.empty() ? "" : "  generation       " + generation + "\n"));
}

/// Chooses the run directory; throws InputError where it, or another file that
/// is to be written, holds what must not be lost.
static void requireRunFolder(const tfm_model &descriptor,
                             TrainOptions &options) {
  std::string older = options.resume.empty() ? "" : runOfOlder(options.resume);
  bool namesNew = !options.out.empty();
  if (options.out.empty())
    options.out =
        options.resume.empty() ? freeRunFolder(descriptor) : options.resume;
  // Another way to write the same folder is still the same run.
  if (!options.resume.empty() && isSameFile(options.out, options.resume))
    options.out = options.resume;
  // What an older checkpoint is of must neither be mixed with what comes of it
  // nor make way for it.
  if (!older.empty() && (!namesNew || options.out == options.resume ||
                         isSameFile(options.out, older)))
    throw InputError(options.resume + " is an older checkpoint of the run in " +
                     older + ": name the folder of a new run with --out");
  if (std::string run = runAround(options.out); !run.empty())
    throw InputError(options.out +
                     " is a place for checkpoints of the run in " + run +
                     ": name another folder with --out");
  bool isNew = options.out != options.resume;
  if (isNew && holdsWeights(options.out) && !options.overwrite)
    throw InputError(
        options.out +
        (holdsCheckpoint(options.out)
             ? " already holds a run: continue it with --resume " + options.out
             : " already holds weights: begin with them with "
               "--init " +
                   options.out) +
        ", choose another --out, or pass --overwrite");

  if (!options.log.empty()) {
    requireNoRunFile(options.log);
    requireNoFileOf(options.out, options.log);
  }
  if (!options.profile.empty()) {
    requireNoRunFile(options.profile);
    requireNoFileOf(options.out, options.profile);
    requireTrace(options.profile, options.out);
    if (std::filesystem::path(options.profile).lexically_normal() ==
        std::filesystem::path(options.log).lexically_normal())
      throw InputError(options.profile +
                       " is where this run logs: write the trace to another "
                       "file with --profile");
  }
  if (!options.overwrite && !options.log.empty())
    requireLog(options.log);
  else if (!options.overwrite && isNew)
    requireLog(options.out + "/log.jsonl");
}

void requireShares(const TrainSpec &train, const Processes &processes) {
  int64_t count = processes.count();
  MicroBatches now{train.batch, train.accumulate};
  bool canPair =
      train.sum != "tree" || std::has_single_bit(static_cast<uint64_t>(count));
  bool divides = train.accumulate % count == 0;
  if (canPair && divides)
    return;
  std::string other = now.adviceFor(count);
  if (!canPair)
    throw AgreedError(fmt::format(
        "{} processes cannot share a sum in pairs (train.sum = tree): start 2, "
        "4, 8, ... of them, or build with -D train.sum=sequential{}",
        count, divides ? "" : " " + other));
  throw AgreedError(fmt::format(
      "{} processes cannot share the micro-batches of an update, of which "
      "there are {} (train.accumulate): start a number of them that divides "
      "it, or build with {}",
      count, train.accumulate, other));
}

void train(const tfm_model &descriptor, TrainCommand command,
           const std::atomic<bool> &interrupt) {
  Recipe recipe = parseRecipe(descriptor.recipe);
  if (!recipe.hasTrain)
    throw InputError(std::string(descriptor.source) +
                     " has no `train` block: add one and build it again");
  const tfm_variant &variant = descriptor.variants[0]; // functions are all's
  std::span functions(variant.functions,
                      static_cast<size_t>(variant.function_count));
  auto trained = std::ranges::find_if(functions, [](const auto &function) {
    return std::string_view(function.name) == TFM_TRAIN;
  });
  if (trained == functions.end())
    throw Model::missing(descriptor, TFM_TRAIN);
  // What nothing fills no data would.
  Model::requireFilled(*trained, {"tokens", "targets", "count", "rng"});
  if (command.processes)
    requireShares(recipe.train, *command.processes);
  requireTrainingMemory(descriptor, recipe);
  TrainOptions &options = command.options;
  options.processes = command.processes;
  if (command.speaks()) {
    for (const std::string *written : {&options.log, &options.profile}) {
      if (written->empty())
        continue;
      for (const std::string *read : {&command.data, &command.tokenizer})
        if (isSameFile(*written, *read))
          throw InputError(*written + " is a file that this training reads: "
                                      "write to another one");
      requireNoneOfModel(*written, descriptor);
    }
    requireRunFolder(descriptor, options);
  } else // one writes
    options.out = options.log = options.profile = "";

  DataSpec spec = dataOf(descriptor, recipe, command.data);
  const std::string begun =
      options.resume.empty() ? options.init : options.resume;
  TokenizerPtr tokenizer =
      findTokenizer(descriptor, recipe,
                    {command.tokenizer, begun, /*ids=*/false, holdsIds(spec)});
  std::unique_ptr<Dataset> data =
      openData(command, recipe,
               {spec, *tokenizer, recipe.train.sequence,
                ignoredTarget(recipe.train, *tokenizer), [&] {
                  return findChat(command.tokenizer, begun, recipe,
                                  command.chatVariables);
                }});
  std::unique_ptr<Device> device =
      makeDevice(descriptor, command.device, threadCount(command, descriptor),
                 command.processes);
  Model model(descriptor, *device);
  if (command.speaks())
    noteMissingBegin(recipe, *tokenizer, *data);
  std::string out = options.out, resumed = options.resume;
  options.quiet = command.json || !command.speaks();
  if (std::string name = device->name(); !name.empty() && !options.quiet)
    say("training on " + printable(name) + "\n");
  Trainer trainer(model, recipe, *data, *tokenizer, std::move(options));
  TrainResult result = trainer.run(interrupt);
  if (!command.speaks())
    return;

  std::string complete = fmt::format(
      "the run in {} {} after {} steps: train on with --steps {}", resumed,
      result.stoppedEarly ? "has stopped early" : "is complete", result.steps,
      2 * result.steps);
  if (result.wasComplete && out != resumed)
    throw InputError(complete + (holdsWeights(out)
                                     ? "; what is in " + out + " stays as it is"
                                     : "; there is no run in " + out + " now"));
  if (command.json) {
    ordered_json answer = {{"steps", result.steps},
                           {"loss", nullptr},
                           {"validation_loss", nullptr},
                           {"seconds", result.seconds},
                           {"first_step_seconds", result.firstStepSeconds},
                           {"tokens_per_second", result.tokensPerSecond},
                           {"stopped_early", result.stoppedEarly},
                           {"out", out}};
    if (!result.wasComplete)
      answer["loss"] = result.loss;
    if (result.validationLoss)
      answer["validation_loss"] = *result.validationLoss;
    if (command.processes) {
      answer["processes"] = command.processes->count();
      answer["exchange_seconds"] = result.exchangeSeconds;
      answer["hidden_exchange_seconds"] = result.hiddenSeconds;
    }
    printText(jsonText(answer) + "\n");
    return;
  }
  if (result.wasComplete) {
    printText(complete + "\n");
    return;
  }
  std::string validation =
      result.validationLoss
          ? fmt::format(", validation loss {:.4f}", *result.validationLoss)
          : "";
  std::string since =
      result.firstStep == 0
          ? ""
          : fmt::format(" ({} to {})", result.firstStep, result.steps);
  int64_t steps = result.steps - result.firstStep;
  printText(fmt::format("{} {} step{}{} in {:.1f} s ({:.0f} tokens/s): loss "
                        "{:.4f}{}; saved in {}\n",
                        result.stoppedEarly ? "stopped early after" : "trained",
                        steps, steps == 1 ? "" : "s", since, result.seconds,
                        result.tokensPerSecond, result.loss, validation, out));
  if (command.processes)
    printText(fmt::format(
        "{} processes: {:.1f} s of it went into exchanging gradients and "
        "parameters; {:.1f} s more were hidden behind computing\n",
        command.processes->count(), result.exchangeSeconds,
        result.hiddenSeconds));
}

void evaluate(const tfm_model &descriptor, const CommonOptions &command) {
  if (!findFunction(descriptor, TFM_EVALUATE))
    throw Model::missing(descriptor, TFM_EVALUATE);
  Recipe recipe = parseRecipe(descriptor.recipe);
  DataSpec spec = dataOf(descriptor, recipe, command.data);
  TokenizerPtr tokenizer = findTokenizer(
      descriptor, recipe,
      {command.tokenizer, command.weights, /*ids=*/false, holdsIds(spec)});
  if (!command.data.empty()) { // all of a file that the user names
    spec.validation = 1.0;
    spec.validationFiles.clear();
  }
  std::optional<int32_t> ignored = ignoredTarget(recipe.train, *tokenizer);
  std::unique_ptr<Dataset> data = openData(
      command, recipe, {spec, *tokenizer, recipe.train.sequence, ignored, [&] {
                          return findChat(command.tokenizer, command.weights,
                                          recipe, command.chatVariables);
                        }});
  if (command.processes)
    command.processes->requireSame("other data",
                                   data->checksum(recipe.train.sequence),
                                   "give all of them the same files");
  std::unique_ptr<Device> device =
      makeDevice(descriptor, command.device, threadCount(command, descriptor),
                 command.processes);
  Model model(descriptor, *device);
  loadWeights(command, model);

  if (std::string begin = missingBegin(recipe, *tokenizer, *data);
      !begin.empty() && command.speaks())
    say("note: prompts begin with " + printable(begin) +
        " here, the windows of the data do not: other programs may measure "
        "with it\n");
  Evaluator evaluator(model, *data, ignored, command.processes);
  Progress progress(0, evaluator.batchesOf(Part::Validation, /*batches=*/0),
                    recipe.train.batch * recipe.train.sequence,
                    command.json || !command.speaks(), "batch");
  Evaluation result = evaluator.evaluate(Part::Validation, /*batches=*/0,
                                         measureOf(recipe.train), &progress);
  progress.clear();
  if (!std::isfinite(result.loss))
    throw AgreedError("the loss is not a number: the weights are damaged, or "
                      "training has diverged. Use others, e.g. an earlier "
                      "checkpoint");
  bool asks = !data->questions(Part::Validation).empty();
  ExactMatch match;
  if (asks)
    try {
      match = answerQuestions(model, *data, /*limit=*/0, command.processes);
    } catch (const LostProcess &) {
      throw;
    } catch (const InputError &error) { // all else has been measured
      asks = false;
      if (command.speaks())
        say(fmt::format("note: no answers are compared: {}\n",
                        printable(error.what())));
    }
  if (!command.speaks())
    return;
  Score all = {match.seen.asked + match.unseen.asked,
               match.seen.right + match.unseen.right};
  if (command.json) {
    ordered_json answer = {{"loss", result.loss},
                           {"perplexity", nullptr},
                           {"accuracy", nullptr},
                           {"targets", result.targets},
                           {"exact_match", nullptr}};
    if (result.perplexity)
      answer["perplexity"] = *result.perplexity;
    if (result.accuracy)
      answer["accuracy"] = *result.accuracy;
    auto score = [](const Score &part) -> ordered_json {
      ordered_json object = {{"prompts", part.asked},
                             {"correct", part.right},
                             {"accuracy", nullptr}};
      if (part.asked > 0)
        object["accuracy"] = part.accuracy();
      return object;
    };
    if (asks) {
      answer["exact_match"] = score(all);
      answer["exact_match"]["unseen"] = score(match.unseen);
      answer["exact_match"]["seen"] = score(match.seen);
    }
    printText(answer.dump() + "\n");
    return;
  }
  printText(fmt::format("loss        {:.4f} ({} targets)\n", result.loss,
                        result.targets));
  if (result.perplexity)
    printText(fmt::format("perplexity  {:.3f}\n", *result.perplexity));
  if (result.accuracy)
    printText(fmt::format("accuracy    {:.2f}%\n", 100 * *result.accuracy));
  if (!asks)
    return;
  auto line = [](const char *name, const Score &part) {
    printText(fmt::format("{}{:.2f}% ({} of {})\n", name, 100 * part.accuracy(),
                          part.right, part.asked));
  };
  line("exact match ", all);
  line("  prompts not in the training part  ", match.unseen);
  line("  prompts also in the training part ", match.seen);
}

void exportWeights(const tfm_model &descriptor, const ExportCommand &command) {
  CpuDevice device(1);
  Model model(descriptor, device);
  const std::string out = exportedWeights(command.out);
  requireNoRunFile(out);
  for (const std::string &path :
       command.adapter ? adapterFiles(command.out) : exportedFiles(command.out))
    requireNoneOfModel(path, descriptor);
  if (isGguf(out))
    throw InputError(out + ": what is written is no .gguf file, but a "
                           "safetensors one: name it .safetensors");
  const std::string kept = parseRecipe(descriptor.recipe).generate.weights;
  const std::string &written = command.dtypeName;
  if (command.seed) {
    initialise(model, *command.seed);
  } else {
    WeightFiles weights(command.weights, familyOf(descriptor));
    weights.requireNoneIs(out);
    Unmatched unmatched;
    loadParameters(model, weights, command.partial ? &unmatched : nullptr);
    requireAll(command, unmatched);
    const std::string &last = written.starts_with("int") ? written : kept;
    if (std::string note = requantisedNote(weights, kept, last);
        command.speaks() && !note.empty())
      say("note: " + printable(note) + "\n");
  }
  // Written as it is kept it is what another build would write.
  if (kept != "f32" && kept != written)
    say("note: this build has made " + kept +
        " of the weights, and exports what they are now; a build with "
        "generate.weights = f32 exports them as they were\n");
  if (command.adapter) {
    exportAdapter(model, command.weights, command.out, command.dtype,
                  command.overwrite);
    return;
  }
  if (command.merge && kept != "f32")
    throw InputError("this build keeps weights as " + kept +
                     ", which a correction added to them would be rounded to: "
                     "merge with a build of generate.weights = f32");
  std::vector<FloatTensor> tensors =
      command.merge ? mergeCorrections(model) : parameterTensors(model);
  if (largestOf(command.dtype) < largestOf(StoredType::F32))
    requireWithin(tensors, command.dtype);
  if (isExportFolder(command.out)) {
    exportFolder(model, std::move(tensors), command.weights, command.out,
                 command.dtype, command.overwrite);
    if (command.speaks())
      noteOtherBegin(descriptor, command);
    return;
  }
  std::map<std::string, std::string> metadata = {{"format", "pt"},
                                                 {"model", descriptor.name}};
  if (command.dtype == StoredType::INT8 || command.dtype == StoredType::INT4)
    describeQuantised(tensors, command.dtype, metadata);
  AtomicFile file(out);
  writeSafetensors(file, tensors, metadata, command.dtype);
  file.commit();
}

} // namespace tfm
