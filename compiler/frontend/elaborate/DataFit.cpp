//===- DataFit.cpp - whether the data of a recipe fits its model ----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/DataFit.h"

#include "runtime/data/texts.h"
#include "runtime/tfm_model.h"

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

bool DataFit::fills(const Method &entry,
                    llvm::ArrayRef<Emitter::Input> inputs) {
  if (!compilation.block("data"))
    return true;
  if (recipe.hasArrays())
    return arraysFill(entry, inputs);
  Dims each = {callerDims.get("B"), callerDims.get("T")};
  const bool takesTokens =
      llvm::any_of(inputs, [](const Emitter::Input &input) {
        return input.name == "tokens";
      });
  const bool lacksTargets =
      entry.name == "loss" &&
      llvm::none_of(entry.parameters,
                    [](const Parameter &p) { return p.name == "targets"; });
  for (const Emitter::Input &input : inputs) {
    auto parameter = llvm::find_if(entry.parameters, [&](const Parameter &p) {
      return p.name == input.name;
    });
    // The targets of the recipe's loss have no place in the model.
    Range range = parameter == entry.parameters.end() ? recipe.train.lossRange
                                                      : parameter->range;
    if (input.name == "source") {
      if (!fillsSource(input, range))
        return false;
      continue;
    }
    auto source = llvm::find_if(
        inputs, [](const Emitter::Input &i) { return i.name == "source"; });
    if (input.name == "present" && source != inputs.end()) {
      if (input.elem == Elem::Bool && Dims(input.dims) == Dims(source->dims))
        continue;
      reporter.error(221, range,
                     "data gives `present`, which tokens of `source` are "
                     "there: " +
                         showShape(source->dims, Elem::Bool) +
                         ", but here it is " +
                         showShape(input.dims, input.elem));
      return false;
    }
    if (input.name != "tokens" && input.name != "targets") {
      Diagnostic &problem = reporter.error(
          221, range,
          "data gives `tokens` and `targets`, and nothing that is called `" +
              input.name + "`");
      if (!takesTokens && input.elem == Elem::Int && Dims(input.dims) == each)
        problem.help("what is trained to be continued is called `tokens`");
      else if (lacksTargets && input.elem == Elem::Int &&
               Dims(input.dims) == each)
        problem.help("what follows each token is called `targets`");
      else if (input.name == "logits")
        problem.help("take `tokens`, and call `forward(tokens)`");
      problem.help("`data arrays(\"FILE.safetensors\")` fills inputs of any "
                   "names; without a `data` block a program of your own does "
                   "(`tfmc build --emit obj`)");
      return false;
    }
    if (input.elem == Elem::Int && Dims(input.dims) == each)
      continue;
    Diagnostic &problem = reporter.error(221, range,
                                         "data gives `" + input.name +
                                             "`: int[B, T], but here it is " +
                                             showShape(input.dims, input.elem));
    if (parameter == entry.parameters.end() && recipe.train.lossKind == "mse")
      problem.help("a `loss` in the model can make numbers of the ids: "
                   "mse(logits, one_hot(targets, vocab)); `data arrays(...)` "
                   "has numbers");
    else if (parameter == entry.parameters.end())
      problem.help(
          "a model with another result than `[B, T, vocab]` has a loss of its "
          "own: `loss(tokens: int[B, T], targets: int[B, T]) -> [B, T]`");
    return false;
  }
  if (!takesTokens) {
    reporter
        .error(221, entry.range,
               "data gives `tokens`, what is trained to be continued, but `" +
                   entry.name + "` takes none")
        .help("tokens: int[B, T]");
    return false;
  }
  return true;
}

bool DataFit::arraysFill(const Method &entry,
                         llvm::ArrayRef<Emitter::Input> inputs) {
  for (const Emitter::Input &input : inputs) {
    auto parameter = llvm::find_if(entry.parameters, [&](const Parameter &p) {
      return p.name == input.name;
    });
    Range range = parameter == entry.parameters.end() ? recipe.train.lossRange
                                                      : parameter->range;
    if (input.name == TFM_IN_COUNT || input.name == TFM_IN_RNG) {
      reporter
          .error(221, range,
                 "a step of training has an input `" + input.name +
                     "` of its own, which no array fills")
          .help("call it otherwise, and its array, too");
      return false;
    }
    if (input.dims.empty() || input.dims.front() != callerDims.get("B")) {
      reporter
          .error(221, range,
                 "the first axis of an array counts the examples, B, but `" +
                     input.name + "` is " + showShape(input.dims, input.elem))
          .help("what is the same for all examples is a `const`, or a `param` "
                "with `trainable = false`");
      return false;
    }
  }
  return true;
}

bool DataFit::fillsSource(const Emitter::Input &source, Range range) {
  if (source.elem != Elem::Int || source.dims.size() != 2 ||
      Dims(source.dims)[0] != callerDims.get("B")) {
    reporter.error(221, range,
                   "data gives `source`, what an encoder reads: int[B, S], but "
                   "here it is " +
                       showShape(source.dims, source.elem));
    return false;
  }
  const llvm::json::Object *data = recipe.recipe.getObject("data");
  if (!data)
    return true;
  DataSpec spec;
  spec.kind = data->getString("kind").value_or("").str();
  spec.answerAfter = data->getString("answer_after").value_or("").str();
  if (spec.kind != "pairs" && withDefaults(spec).answerAfter.empty()) {
    reporter
        .error(221, range,
               "`source` is the prompt of an example, and `" + spec.kind +
                   "` has none")
        .help("take `pairs`, or say what answers follow, `answer_after = "
              "\"...\"`");
    return false;
  }
  if (!data->getString("begin")) {
    reporter
        .error(221, range,
               "an encoder reads the prompt as `source`, and nothing says "
               "which token the answer begins with")
        .help("name one in `data`, as in `begin = \"<s>\"`");
    return false;
  }
  return true;
}

bool DataFit::isLossPerTarget(const SymbolicTensor &losses,
                              const Method &loss) {
  if (losses.elem != Elem::Float) {
    reporter
        .error(221, loss.range,
               "`loss` gives floats, but this is " +
                   showShape(losses.dims, losses.elem))
        .help("`cast(x, float)` converts");
    return false;
  }
  if (!compilation.block("data") ||
      losses.dims == Dims{callerDims.get("B"), callerDims.get("T")})
    return true;
  if (recipe.hasArrays()) {
    if (!losses.dims.empty() && losses.dims.front() == callerDims.get("B"))
      return true;
    reporter
        .error(221, loss.range,
               "`loss` gives one number for each example, [B], or several, "
               "[B, T], but this is " +
                   showShape(losses.dims, losses.elem))
        .help(losses.dims.empty()
                  ? "the mean over them is taken behind it: a loss of the "
                    "whole batch is given to each example, `rearrange(loss, "
                    "\"-> B\", B = B)`"
                  : "the mean over them is taken behind it: of examples whose "
                    "number of losses differs give 0 to those that do not "
                    "count");
    return false;
  }
  reporter
      .error(221, loss.range,
             "`loss` gives one number for each target, [B, T], but this is " +
                 showShape(losses.dims, losses.elem))
      .help(losses.dims.empty()
                ? "the mean over them is taken behind it: return the losses "
                  "themselves, without `mean`"
                : "give 0 to the targets that do not count");
  return false;
}

bool DataFit::tokensFit(const SymbolicTensor &logits, const Method &forward) {
  std::optional<int64_t> size = compilation.block("data") && !recipe.hasArrays()
                                    ? recipe.tokenizerSize()
                                    : std::nullopt;
  if (!size || *size <= logits.dims.back().value())
    return true;
  reporter
      .error(221, forward.range,
             "the tokenizer has " + Twine(*size) +
                 " tokens, but `forward` gives " + "logits for " +
                 SymbolicValue::integer(logits.dims.back()).show())
      .help("`vocab = tokenizer.size` gives one for each");
  return false;
}
