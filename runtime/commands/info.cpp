//===- info.cpp - what a program is and needs -----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/commands/commands.h"

#include "runtime/device/choose_device.h"
#include "runtime/device/gpus.h"
#include "runtime/device/variant.h"
#include "runtime/generation/logits_source.h"
#include "runtime/model/memory_needed.h"
#include "runtime/support/error.h"
#include "runtime/support/memory.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

using nlohmann::json;
using nlohmann::ordered_json;

namespace tfm {

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
      "  device           {}, compute capability {}.{}, {} of memory, {} of "
      "it for this\n"
      "  NCCL             {}\n",
      gpu->name, gpu->major, gpu->minor, byteText(gpu->memory),
      byteText(variant.arena_bytes),
      tfm_gpus->ncclVersion().value_or("none, which several processes need"));
}

/// The same for programs. On the processors the arena's bytes are taken as they
/// are touched.
static ordered_json deviceAsJson(const tfm_variant &variant,
                                 const std::optional<CudaProperties> &gpu) {
  if (!gpu)
    return {{"kind", "cpu"},
            {"memory", memoryLimit()},
            {"takes", variant.arena_bytes}};
  std::optional<std::string> nccl = tfm_gpus->ncclVersion();
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

/// Whether generation keeps keys and values of earlier tokens, and not only
/// what scans and shifts have of them.
static bool keepsKeys(const tfm_variant &variant, const Recipe &recipe) {
  return variant.cache_bytes > 0 && recipe.attentions > 0;
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
      int64_t count = Model::input(function, TFM_IN_TOKENS).shape[0];
      texts = count == 1 ? "1 text" : std::to_string(count) + " texts together";
    } else if (name == TFM_PREFILL || name == TFM_PREFILL_SHORT ||
               name == TFM_VERIFY) {
      const tfm_buffer &tokens = Model::input(function, TFM_IN_TOKENS);
      int64_t size = tokens.shape[0] * tokens.shape[1];
      if (std::ranges::find(chunks, size) == chunks.end())
        chunks.push_back(size);
    }
  }
  if (texts.empty())
    return "";
  return fmt::format("{}, prompts in chunks of {} tokens{}", texts,
                     fmt::join(chunks, ", "),
                     !keepsKeys(variant, recipe) || recipe.cache() == "f32"
                         ? ""
                         : ", keys and values in " + recipe.cache());
}

std::vector<std::string> refusedCommands(const tfm_model &model) {
  const Recipe recipe = recipeOf(model);
  auto runs = [&](std::string_view name,
                  std::initializer_list<std::string_view> filled) {
    const tfm_function *function = findFunction(model, name);
    if (!function)
      return false;
    if (holdsArrays(recipe.data)) // they fill all
      return true;
    try {
      Model::requireFilled(*function, filled);
      return true;
    } catch (const InputError &) {
      return false;
    }
  };
  auto continuesTexts = [&] {
    const tfm_function *forward = findFunction(model, TFM_FORWARD);
    try {
      if (forward)
        requireTakesTexts(model, *forward);
      return forward && Model::givesLogits(model, *forward);
    } catch (const InputError &) {
      return false;
    }
  };
  std::vector<std::string> refused;
  if (!runs(TFM_TRAIN,
            {TFM_IN_TOKENS, TFM_IN_TARGETS, TFM_IN_COUNT, TFM_IN_RNG}))
    refused.emplace_back("train");
  if (!runs(TFM_EVALUATE,
            {TFM_IN_TOKENS, TFM_IN_TARGETS, TFM_IN_COUNT, TFM_IN_RNG}))
    refused.emplace_back("eval");
  if (!continuesTexts()) {
    refused.emplace_back("generate");
    refused.emplace_back("logits");
  }
  if (!recipe.hasTrain)
    refused.emplace_back("data");
  if (!holdsArrays(recipe.data) || !findFunction(model, TFM_FORWARD))
    refused.emplace_back("predict");
  return refused;
}

/// The commands of a model, for people.
static std::string commandsText(const tfm_model &model) {
  std::vector<std::string> refused = refusedCommands(model);
  std::string list;
  for (const char *name : {"info", "train", "generate", "eval", "predict",
                           "data", "logits", "export", "bench"})
    if (std::ranges::find(refused, name) == refused.end())
      list += (list.empty() ? "" : ", ") + std::string(name);
  return list;
}

/// Empty where this machine runs a model.
static std::string whyNotRun(const tfm_model &model) {
  try {
    (void)chooseVariant(model);
    return "";
  } catch (const InputError &error) {
    return error.what();
  }
}

namespace {

/// A model, and where it would run here.
struct Subject {
  const tfm_model &model;
  /// Its variants for the device alone.
  tfm_model own;
  /// Why this machine runs none of them; empty where it does.
  std::string problem;
  /// Which of them it runs, or a copy of one (`withoutCode`).
  const tfm_variant &chosen;
  std::optional<CudaProperties> gpu;
  Recipe recipe;
  /// A list of `{name, value}`.
  json hyperparameters;
  /// How many numbers there are, in all and to train.
  uint64_t parameters = 0, trainable = 0;

  Subject(const tfm_model &model, const std::string &device)
      : model(model), own(modelFor(model, device)), problem(whyNotRun(own)),
        chosen(chooseVariant(own = withoutCode(own))), gpu(gpuOf(own, device)) {
    if (gpu && chosen.arena_bytes > gpu->memory) {
      NoDeviceMemory all(gpu->name, gpu->memory, gpu->memory);
      refuseArena(own, /*trains=*/true, &all);
    }
    recipe = recipeOf(model);
    for (int32_t i = 0; i < model.parameter_count; ++i) {
      const tfm_parameter &parameter = model.parameters[i];
      uint64_t count = Model::elements(parameter.rank, parameter.shape);
      parameters += count;
      trainable += parameter.trainable ? count : 0;
    }
    hyperparameters = parsed(model.hyperparameters, "[]");
  }

  /// JSON of the descriptor, or of `absent`.
  static json parsed(const char *text, const char *absent) {
    return json::parse(text ? text : absent, nullptr,
                       /*allow_exceptions=*/false);
  }
  /// Parts of the arena, in bytes.
  uint64_t parameterBytes() const {
    return chosen.parameters.bytes + chosen.copies.bytes;
  }
  uint64_t gradientBytes() const {
    return chosen.gradients.bytes + chosen.sums.bytes;
  }
  uint64_t activationBytes() const {
    return chosen.activations.bytes + chosen.cache_bytes;
  }
};

ordered_json functionsAsJson(const tfm_variant &variant) {
  ordered_json functions = ordered_json::object();
  for (int32_t i = 0; i < variant.function_count; ++i)
    functions[variant.functions[i].name] = {
        {"flops", variant.functions[i].flops},
        {"threads", variant.functions[i].threads}};
  return functions;
}

ordered_json variantsAsJson(const tfm_model &model, const tfm_variant &chosen) {
  ordered_json variants = ordered_json::array();
  for (int64_t i = 0; i < model.variant_count; ++i) {
    const tfm_variant &variant = model.variants[i];
    variants.push_back({{"target", variant.target},
                        {"cpu", variant.machine},
                        {"features", variant.features},
                        {"chosen", &variant == &chosen}});
  }
  return variants;
}

ordered_json asJson(const Subject &subject) {
  const tfm_model &model = subject.model;
  const tfm_variant &chosen = subject.chosen;
  const Recipe &recipe = subject.recipe;
  ordered_json hyperparameters = ordered_json::object();
  for (const json &entry : subject.hyperparameters)
    hyperparameters[entry.at("name").get<std::string>()] = entry.at("value");
  return {{"format", 1},
          {"model", model.name},
          {"source", model.source},
          {"target", chosen.machine},
          {"variants", variantsAsJson(model, chosen)},
          {"device", deviceAsJson(chosen, subject.gpu)},
          {"precision", recipe.precision()},
          {"weights", recipe.generate.weights},
          {"cache", keepsKeys(chosen, recipe) ? json(recipe.cache()) : json()},
          {"hyperparameters", hyperparameters},
          {"parameters",
           {{"total", subject.parameters}, {"trainable", subject.trainable}}},
          {"memory",
           {{"parameters", subject.parameterBytes()},
            {"gradients", subject.gradientBytes()},
            {"optimizer", chosen.optimizer.bytes},
            {"activations", subject.activationBytes()},
            {"arena", chosen.arena_bytes}}},
          {"functions", functionsAsJson(chosen)},
          {"recipe", Subject::parsed(model.recipe, "{}")}};
}

/// The same for people.
std::string asText(const Subject &subject) {
  const tfm_model &model = subject.model;
  const tfm_variant &chosen = subject.chosen;
  const Recipe &recipe = subject.recipe;
  std::string hyperparameters;
  for (const json &entry : subject.hyperparameters)
    hyperparameters += (hyperparameters.empty() ? "" : ", ") +
                       entry.at("name").get<std::string>() + " = " +
                       entry.at("value").dump();
  std::vector<std::string> refused = refusedCommands(model);
  std::string generation =
      std::ranges::find(refused, "generate") == refused.end()
          ? generationText(chosen, recipe)
          : "";
  return fmt::format(
      "{} ({}), compiled for {}, {}\n{}"
      "  hyperparameters  {}\n"
      "  parameters       {}{}\n"
      "  memory           {} (parameters {}, gradients {}, "
      "optimizer {}, activations {})\n"
      "{}"
      "  commands         {}; --help on each\n{}",
      model.name, model.source, chosen.machine, recipe.precision(),
      variantsText(model), hyperparameters, subject.parameters,
      recipe.generate.weights != "f32"
          ? " (weights in " + recipe.generate.weights + ")"
      : subject.trainable == subject.parameters
          ? ""
          : fmt::format(" ({} trainable)", subject.trainable),
      byteText(chosen.arena_bytes), byteText(subject.parameterBytes()),
      byteText(subject.gradientBytes()), byteText(chosen.optimizer.bytes),
      byteText(subject.activationBytes()),
      subject.problem.empty() ? deviceText(subject.own, chosen, subject.gpu)
                              : "  does not run     " + subject.problem + "\n",
      commandsText(model),
      generation.empty() ? "" : "  generation       " + generation + "\n");
}

} // namespace

void info(const tfm_model &model, const CommonOptions &options) {
  const Subject subject(model, options.device);
  printText(options.json ? jsonText(asJson(subject), 2) + "\n"
                         : asText(subject));
}

} // namespace tfm
