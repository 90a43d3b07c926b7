//===- commands.cpp - what each command of a compiled model does --------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/commands.h"

#include "runtime/atomic_file.h"
#include "runtime/data/texts.h"
#include "runtime/error.h"
#include "runtime/tokenizer/utf8.h"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <random>
#include <unistd.h>

using nlohmann::json;
using nlohmann::ordered_json;

namespace tfm {

namespace {

/// The tokenizer of the model, or the one that the user names.
TokenizerPtr openTokenizerOf(const tfm_model &model, const Recipe &recipe,
                             const std::string &named) {
  TokenizerPtr tokenizer;
  const TokenizerSpec &spec = recipe.tokenizer;
  if (!named.empty()) {
    std::string path = isFolder(named) ? named + "/tokenizer.json" : named;
    tokenizer = parseTokenizerJson(readFile(path, "the tokenizer"), path);
  } else {
    if (spec.kind.empty())
      throw InputError(std::string(model.name) +
                       " has no tokenizer: name one with --tokenizer "
                       "tokenizer.json, or add a `tokenizer` to " +
                       model.source);
    std::vector<std::string> paths;
    if (spec.json.empty())
      for (const std::string &file : spec.files)
        paths.push_back(
            locateFile(file, spec.directory, "the tokenizer", "--tokenizer"));
    tokenizer = openTokenizer(spec, paths);
  }
  if (spec.size > 0 && tokenizer->size() != spec.size)
    throw InputError(fmt::format(
        "the tokenizer has {} tokens, but the model was built for {}: build it "
        "again with that tokenizer",
        tokenizer->size(), spec.size));
  return tokenizer;
}

/// The data of the recipe, from the files that the user names, if any.
DataSpec dataOf(const tfm_model &model, const Recipe &recipe,
                const std::string &named) {
  DataSpec spec = recipe.data;
  if (!named.empty()) {
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

/// The run directory of a run that names none: runs/<source>, then
/// runs/<source>-2, ...
std::string freeRunFolder(const tfm_model &model) {
  std::string stem = model.source;
  stem = stem.substr(stem.rfind('/') + 1);
  stem = stem.substr(0, stem.rfind('.'));
  std::string base = "runs/" + (stem.empty() ? model.name : stem);
  std::string folder = base;
  for (int i = 2; holdsCheckpoint(folder); ++i)
    folder = base + "-" + std::to_string(i);
  return folder;
}

void printText(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
      std::fflush(stdout) != 0)
    throw InputError("cannot write to standard output");
}

std::string megabytes(uint64_t bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

} // namespace

int threadCount(const CommonOptions &options) {
  return options.threads > 0 ? options.threads : availableProcessors();
}

void info(const tfm_model &model, bool asJson) {
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
  if (asJson) {
    ordered_json hyperparameters = ordered_json::object();
    for (const json &entry : values)
      hyperparameters[entry.at("name").get<std::string>()] = entry.at("value");
    ordered_json functions = ordered_json::object();
    for (int32_t i = 0; i < model.function_count; ++i)
      functions[model.functions[i].name] = {
          {"flops", model.functions[i].flops}};
    ordered_json result = {
        {"format", 1},
        {"model", model.name},
        {"source", model.source},
        {"target", model.target},
        {"precision", "f32"},
        {"hyperparameters", hyperparameters},
        {"parameters", {{"total", parameters}, {"trainable", trainable}}},
        {"memory",
         {{"parameters", model.parameter_bytes},
          {"gradients", model.gradient_bytes},
          {"optimizer", model.optimizer_bytes},
          {"activations", model.activation_bytes},
          {"arena", model.arena_bytes}}},
        {"functions", functions},
        {"recipe", json::parse(model.recipe ? model.recipe : "{}", nullptr,
                               /*allow_exceptions=*/false)}};
    printText(result.dump(2) + "\n");
    return;
  }
  std::string list;
  for (const json &entry : values)
    list += (list.empty() ? "" : ", ") + entry.at("name").get<std::string>() +
            " = " + entry.at("value").dump();
  std::string obstacle =
      parseRecipe(model.recipe ? model.recipe : "").generate.wholeSequence;
  printText(fmt::format(
      "{} ({}), compiled for {}, f32\n"
      "  hyperparameters  {}\n"
      "  parameters       {}{}\n"
      "  memory           {} (parameters {}, gradients {}, "
      "optimizer {}, activations {})\n"
      "  commands         info, train, generate, eval, "
      "export, bench; --help on each\n{}",
      model.name, model.source, model.target, list, parameters,
      trainable == parameters ? "" : fmt::format(" ({} trainable)", trainable),
      megabytes(model.arena_bytes), megabytes(model.parameter_bytes),
      megabytes(model.gradient_bytes), megabytes(model.optimizer_bytes),
      megabytes(model.activation_bytes),
      obstacle.empty() ? ""
                       : "  generation       whole sequences, because of " +
                             obstacle + "\n"));
}

void train(const tfm_model &descriptor, TrainCommand command,
           const std::atomic<bool> &interrupt) {
  Recipe recipe = parseRecipe(descriptor.recipe);
  if (!recipe.hasTrain)
    throw InputError(std::string(descriptor.source) +
                     " has no `train` block: add one and build it again");
  TrainOptions &options = command.options;
  if (!options.resume.empty() && !options.init.empty())
    throw InputError("--resume and --init exclude each other");
  if (options.out.empty())
    options.out =
        options.resume.empty() ? freeRunFolder(descriptor) : options.resume;
  bool isNew = options.out != options.resume;
  if (isNew && holdsCheckpoint(options.out) && !command.overwrite)
    throw InputError(
        options.out + " already holds a run: continue it with --resume " +
        options.out + ", choose another --out, or pass --overwrite");

  TokenizerPtr tokenizer =
      openTokenizerOf(descriptor, recipe, command.tokenizer);
  DataSpec spec = dataOf(descriptor, recipe, command.data);
  std::unique_ptr<Dataset> data =
      openDataset({spec, *tokenizer, recipe.train.sequence,
                   ignoredTarget(recipe.train, *tokenizer)});
  ThreadPool pool(threadCount(command));
  Model model(descriptor, pool);
  if (isNew && command.overwrite)
    removeCheckpoint(options.out);
  std::string out = options.out;
  options.quiet = command.json;
  Trainer trainer(model, recipe, *data, *tokenizer, std::move(options));
  TrainResult result = trainer.run(interrupt);

  if (command.json) {
    ordered_json answer = {{"steps", result.steps},
                           {"loss", nullptr},
                           {"validation_loss", nullptr},
                           {"seconds", result.seconds},
                           {"tokens_per_second", result.tokensPerSecond},
                           {"stopped_early", result.stoppedEarly},
                           {"out", out}};
    if (!result.wasComplete)
      answer["loss"] = result.loss;
    if (result.validationLoss)
      answer["validation_loss"] = *result.validationLoss;
    printText(answer.dump() + "\n");
    return;
  }
  if (result.wasComplete) {
    printText(fmt::format("the run in {} is complete after {} steps: train on "
                          "with --steps {}\n",
                          out, result.steps, 2 * result.steps));
    return;
  }
  std::string validation =
      result.validationLoss
          ? fmt::format(", validation loss {:.4f}", *result.validationLoss)
          : "";
  printText(fmt::format("{} {} steps in {:.1f} s ({:.0f} tokens/s): loss "
                        "{:.4f}{}; saved in {}\n",
                        result.stoppedEarly ? "stopped early after" : "trained",
                        result.steps, result.seconds, result.tokensPerSecond,
                        result.loss, validation, out));
}

void generate(const tfm_model &descriptor, const GenerateCommand &command) {
  Recipe recipe = parseRecipe(descriptor.recipe);
  std::string named = command.tokenizer;
  // A run directory brings its tokenizer along.
  if (named.empty() && recipe.tokenizer.json.empty() &&
      fileExists(command.weights + "/tokenizer.json"))
    named = command.weights;
  TokenizerPtr tokenizer = openTokenizerOf(descriptor, recipe, named);
  ThreadPool pool(threadCount(command));
  Model model(descriptor, pool);
  loadWeights(command.weights, model);

  GenerateOptions options = defaultOptions(recipe, *tokenizer);
  SamplerOptions &sampler = options.sampler;
  options.tokens = command.tokens.value_or(options.tokens);
  sampler.temperature = command.temperature.value_or(sampler.temperature);
  sampler.topK = command.topK.value_or(sampler.topK);
  sampler.topP = command.topP.value_or(sampler.topP);
  sampler.minP = command.minP.value_or(sampler.minP);
  sampler.typicalP = command.typicalP.value_or(sampler.typicalP);
  sampler.repeatPenalty = command.repeatPenalty.value_or(sampler.repeatPenalty);
  // A temperature given by the user means that they want to draw.
  sampler.greedy = command.greedy || (sampler.greedy && !command.temperature);
  options.stop.insert(options.stop.end(), command.stop.begin(),
                      command.stop.end());
  options.seed = command.seed ? *command.seed : std::random_device()();

  std::string prompt = command.prompt;
  if (!command.promptFile.empty())
    prompt =
        readFile(command.promptFile == "-" ? "/dev/stdin" : command.promptFile,
                 "the prompt");
  std::vector<int32_t> tokens = promptTokens(*tokenizer, prompt);
  std::unique_ptr<LogitsSource> logits =
      openLogits(model, recipe.generate.context);
  for (int64_t i = 0; i < command.count; ++i) {
    options.sequence = static_cast<uint32_t>(i);
    if (command.json) {
      Generated text = generate(*logits, *tokenizer, tokens, options,
                                [](std::string_view) {});
      double speed = static_cast<double>(text.tokens) / text.seconds;
      ordered_json answer = {{"prompt", replaceInvalidUtf8(prompt)},
                             {"text", text.text},
                             {"tokens", text.tokens},
                             {"seconds", text.seconds},
                             {"tokens_per_second", speed}};
      printText(answer.dump() + "\n");
      continue;
    }
    if (i > 0)
      printText("---\n");
    printText(prompt);
    Generated text = generate(*logits, *tokenizer, tokens, options, printText);
    printText("\n");
    fmt::print(stderr, "{} tokens, {:.1f} tokens/s\n", text.tokens,
               static_cast<double>(text.tokens) / text.seconds);
  }
}

void evaluate(const tfm_model &descriptor, const CommonOptions &command) {
  Recipe recipe = parseRecipe(descriptor.recipe);
  std::string named = command.tokenizer;
  if (named.empty() && recipe.tokenizer.json.empty() &&
      fileExists(command.weights + "/tokenizer.json"))
    named = command.weights;
  TokenizerPtr tokenizer = openTokenizerOf(descriptor, recipe, named);
  DataSpec spec = dataOf(descriptor, recipe, command.data);
  if (!command.data.empty())
    spec.validation = 1.0; // all of a file that the user names
  std::optional<int32_t> ignored = ignoredTarget(recipe.train, *tokenizer);
  std::unique_ptr<Dataset> data =
      openDataset({spec, *tokenizer, recipe.train.sequence, ignored});
  ThreadPool pool(threadCount(command));
  Model model(descriptor, pool);
  loadWeights(command.weights, model);

  Evaluation result =
      Evaluator(model, *data, ignored)
          .evaluate(Part::Validation, /*batches=*/0, /*withAccuracy=*/true);
  bool asks = !data->questions(Part::Validation).empty();
  ExactMatch match = asks ? answerQuestions(model, *data) : ExactMatch();
  Score all = {match.seen.asked + match.unseen.asked,
               match.seen.right + match.unseen.right};
  if (command.json) {
    ordered_json answer = {{"loss", result.loss},
                           {"perplexity", result.perplexity()},
                           {"accuracy", nullptr},
                           {"targets", result.targets},
                           {"exact_match", nullptr}};
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
  printText(fmt::format("loss        {:.4f} ({} targets)\nperplexity  {:.3f}\n",
                        result.loss, result.targets, result.perplexity()));
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

void exportWeights(const tfm_model &descriptor, const CommonOptions &command,
                   const std::string &out) {
  ThreadPool pool(1);
  Model model(descriptor, pool);
  loadWeights(command.weights, model);
  AtomicFile file(out);
  writeSafetensors(file, parameterTensors(model),
                   {{"format", "pt"}, {"model", descriptor.name}});
  file.commit();
}

} // namespace tfm
