//===- Functions.cpp - emits the functions of a model ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/Functions.h"

#include "compiler/dialect/Programs.h"
#include "compiler/frontend/elaborate/Builtins.h"
#include "compiler/frontend/elaborate/DataFit.h"
#include "compiler/frontend/elaborate/MethodCalls.h"
#include "compiler/frontend/elaborate/TableLookups.h"
#include "compiler/frontend/elaborate/Tensors.h"
#include "compiler/frontend/elaborate/TreeDeclarer.h"
#include "runtime/tfm_model.h"

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

bool Functions::emitAll() {
  if (tree.root->broken)
    return false;
  tensors.locate(tree.root->range);
  size_t before = diags.size();
  if (before == 0)
    declarer.declare(*tree.root);
  std::vector<FunctionRequest> requests = options.functions;
  if (requests.empty()) {
    requests.push_back({FunctionRequest::Forward, 0, 0, ""});
    if (recipe.generateBatch > 1)
      requests.push_back({FunctionRequest::Forward, recipe.generateBatch, 0,
                          nameOf(ProgramKind::ForwardBatch).str()});
    if (recipe.train.present)
      requests.push_back({FunctionRequest::Loss, 0, 0, ""});
  }
  for (const FunctionRequest &request : requests)
    if (!emit(request))
      return false;
  lookups.checkTokens();
  return !diags.hasErrors();
}

void Functions::warnAboutLookingAhead() {
  const Method *forward = findMethod(*tree.root, "forward");
  bool hasEncoder = readsPrompts(*forward);
  auto isNeeded = [&](const Parameter &input) {
    bool isPrompt =
        hasEncoder && (input.name == "source" || input.name == "present");
    return !input.value && !isPrompt;
  };
  // Of models with other inputs no text is generated anyway.
  if (!current.looksAhead || llvm::count_if(forward->parameters, isNeeded) != 1)
    return;
  int64_t length = callerDims.generationLength();
  std::string reason = "attention in this model is not causal, so nothing can "
                       "be said of the next token of a text with less than " +
                       std::to_string(length) + " tokens";
  // No token is less than a byte.
  bool isLong =
      static_cast<int64_t>(recipe.train.samplePrompt.size()) >= length;
  if (hasEncoder) { // answers begin with one token
    reason = "attention to `tokens` is not causal, so nothing can be said of "
             "the next token of an answer";
    isLong = false;
  }
  const Block *generate = compilation.block("generate");
  Diagnostic *d = nullptr;
  if (recipe.train.sampleRange && !isLong)
    d = &diags.warning(810, *recipe.train.sampleRange,
                       "training will show no samples: " + reason);
  else if (generate)
    d = &diags.warning(810, generate->range,
                       (hasEncoder ? "`generate` will refuse all prompts: "
                                   : "`generate` will refuse most prompts: ") +
                           reason);
  if (d)
    d->note("it looks ahead in " + reporter.place(*current.looksAhead))
        .help("write `causal = true` there; what is not to generate text needs "
              "neither `sample` nor `generate`");
}

void Functions::warnAboutCache() {
  if (recipe.cacheRange && !current.keepsKeys)
    diags
        .warning(813, *recipe.cacheRange,
                 "`cache` stores keys and values of causal attention, and this "
                 "model has none")
        .help("leave it out");
}

void Functions::warnAboutOtherNames(const Method &forward,
                                    llvm::ArrayRef<Emitter::Input> inputs) {
  auto isText = [&](const Emitter::Input &input) {
    Dims each = {callerDims.get("B"), callerDims.get("T")};
    return input.elem == Elem::Int && Dims(input.dims) == each;
  };
  bool hasEncoder = readsPrompts(forward) && !recipe.hasArrays();
  auto isOther = [&](const Emitter::Input &input) {
    return input.name != "tokens" &&
           !(hasEncoder && (input.name == "source" || input.name == "present"));
  };
  const Emitter::Input *other = llvm::find_if(inputs, isOther);
  bool takesTokens = llvm::any_of(inputs, [](const Emitter::Input &input) {
    return input.name == "tokens";
  });
  bool isOnlyText = inputs.size() == 1 && isText(inputs[0]);
  if (!compilation.block("generate") || other == inputs.end() ||
      !(takesTokens || isOnlyText))
    return;
  for (const Parameter &parameter : forward.parameters)
    if (parameter.name == other->name)
      diags
          .warning(221, parameter.range,
                   "nothing is generated: texts fill `tokens`, and nothing "
                   "that is called `" +
                       parameter.name + "`")
          .help(takesTokens ? "compute it of `tokens`, or take `generate` out"
                            : "what is continued is called `tokens`");
}

std::vector<CallArg>
Functions::inputsOf(const Method &method, llvm::ArrayRef<Emitter::Input> inputs,
                    llvm::ArrayRef<Emitter::Handle> handles) {
  std::vector<CallArg> args;
  for (auto [input, handle] : llvm::zip(inputs, handles))
    for (const Parameter &parameter : method.parameters)
      if (parameter.name == input.name) {
        CallArg arg;
        arg.name = parameter.name;
        arg.nameRange = arg.range = parameter.range;
        arg.value = SymbolicValue::tensor({handle, input.elem, input.dims});
        args.push_back(std::move(arg));
      }
  return args;
}

bool Functions::argumentShapes(const Method &method,
                               std::vector<Emitter::Input> &out) {
  for (const Parameter &parameter : method.parameters) {
    if (llvm::any_of(out, [&](const Emitter::Input &known) {
          return known.name == parameter.name;
        }))
      continue;
    if (!parameter.type.hasShape) {
      // Something optional that only other modules use.
      if (parameter.value)
        continue;
      reporter
          .error(511, parameter.range,
                 "the input `" + parameter.name + "` of the model has no shape")
          .help("write `" + parameter.name + ": int[B, T]`");
      return false;
    }
    std::string what = "the input `" + parameter.name.str() + "`";
    auto dims = callerDims.evalDims(parameter.type, what);
    if (!dims || !dimensions.isStorable(*dims, parameter.range, what))
      return false;
    out.push_back(
        {parameter.name.str(), elemOf(parameter.type.element), *dims});
  }
  return true;
}

void Functions::check(const Method &function) {
  // What a function's shapes are counted in belongs to no module.
  tree.nodes.emplace_back();
  tree.root = &tree.nodes.back();
  tree.root->unit = compilation.mainUnit;
  std::vector<Emitter::Input> inputs;
  if (!argumentShapes(function, inputs))
    return;
  std::vector<Emitter::Handle> handles =
      emitter.beginFunction(function.name, inputs);
  std::vector<CallArg> args = inputsOf(function, inputs, handles);
  methodCalls.callMethod(nullptr, function, compilation.mainUnit, args,
                         function.range);
  emitter.abandonFunction();
}

bool Functions::emit(const FunctionRequest &request) {
  const Method *forward = forwardOfModel();
  if (!forward)
    return false;
  current.training = request.kind == FunctionRequest::Loss;
  current.nextSite = 0;
  size_t before = lookups.size();
  beginDims(request);
  Function function{*forward};
  if (current.training)
    function.loss = findMethod(*tree.root, "loss");
  std::vector<Emitter::Input> &inputs = function.inputs;
  if (!findInputs(function))
    return false;
  if (request.kind == FunctionRequest::Forward && request.name.empty())
    warnAboutOtherNames(*forward, inputs);

  tensors.locate(forward->range);
  std::string symbol =
      !request.name.empty()
          ? request.name
          : nameOf(current.training ? ProgramKind::Loss : ProgramKind::Forward)
                .str();
  function.handles = emitter.beginFunction(symbol, inputs);
  auto results = emitBody(function);
  if (!results || diags.hasErrors()) {
    emitter.abandonFunction();
    return false;
  }
  emitter.endFunction(*results);
  lookups.checkGathers(before);
  for (auto [input, handle] : llvm::zip(inputs, function.handles))
    if (function.loss && input.name == "targets" && input.elem == Elem::Int)
      lookups.checkIgnored(before, handle);
  return !diags.hasErrors();
}

const Method *Functions::forwardOfModel() {
  const Module &model = *tree.root->decl;
  const Method *forward = findMethod(*tree.root, "forward");
  if (forward)
    return forward;
  Diagnostic &d = diags.error(
      502, model.range, "the model `" + model.name + "` has no `forward`");
  if (std::string guess = meantAsForward(model); !guess.empty())
    d.help("is `" + guess + "` meant to be it?");
  return nullptr;
}

bool Functions::computesExamples() const {
  const Method *forward = findMethod(*tree.root, "forward");
  return recipe.hasArrays() && recipe.train.present &&
         !takesTokensAlone(*forward);
}

void Functions::beginDims(const FunctionRequest &request) {
  // What no text fills computes as many examples at a time as training.
  bool isBatch = current.training || computesExamples();
  int64_t batch = isBatch ? recipe.train.batch : 1;
  int64_t sequence = isBatch && recipe.train.sequence
                         ? recipe.train.sequence
                         : callerDims.generationLength();
  StringRef batchEntry = isBatch ? "train.batch"
                         : request.name == nameOf(ProgramKind::ForwardBatch)
                             ? "generate.batch"
                             : "";
  callerDims.begin(request.batch ? request.batch : batch,
                   request.sequence ? request.sequence : sequence, batchEntry);
}

bool Functions::findInputs(Function &function) {
  const Method &forward = function.forward;
  std::vector<Emitter::Input> &inputs = function.inputs;
  callStack.push_back(
      {(tree.root->decl->name + ".forward").str(), tree.root, forward.range});
  callerDims.get("B");
  callerDims.get("T");
  bool shaped = argumentShapes(forward, inputs);
  if (shaped && function.loss)
    shaped = argumentShapes(*function.loss, inputs);
  if (shaped && current.training && !function.loss) {
    for (const Parameter &input : forward.parameters)
      if (input.name == TFM_IN_TARGETS) {
        reporter
            .error(414, input.range,
                   "the recipe's loss compares the result of `forward` with "
                   "`targets`, which is no input beside it")
            .help("call the input otherwise, or write a `loss` of the model's "
                  "own, which takes what it compares");
        callStack.pop_back();
        return false;
      }
    std::optional<Emitter::Input> targets = targetsOf(forward);
    shaped = targets.has_value();
    if (shaped)
      inputs.push_back(*targets);
  }
  callStack.pop_back();
  if (!shaped)
    return false;
  if (!current.training)
    return !computesExamples() || dataFit.fills(forward, inputs);
  // What the loss does not take no array need have.
  if (function.loss && recipe.hasArrays())
    llvm::erase_if(inputs, [&](const Emitter::Input &input) {
      return llvm::none_of(function.loss->parameters, [&](const Parameter &p) {
        return p.name == input.name;
      });
    });
  if (!dataFit.fills(function.entry(), inputs))
    return false;
  inputs.push_back({"count", Elem::Float, {}});
  return true;
}

std::optional<Emitter::Input> Functions::targetsOf(const Method &forward) {
  Emitter::Input targets{
      "targets", Elem::Int, {callerDims.get("B"), callerDims.get("T")}};
  if (forward.results.empty() || !forward.results[0].hasShape)
    return targets;
  auto dims =
      callerDims.evalDims(forward.results[0], "the result of the model");
  if (!dims)
    return std::nullopt;
  targets.dims = *dims;
  if (recipe.train.lossKind == "mse")
    targets.elem = Elem::Float;
  else if (!targets.dims.empty())
    targets.dims.pop_back();
  return targets;
}

std::optional<std::vector<Emitter::Handle>>
Functions::emitBody(const Function &function) {
  const Method &entry = function.entry();
  std::vector<CallArg> args =
      inputsOf(entry, function.inputs, function.handles);
  SymbolicValue result = methodCalls.callMethod(
      tree.root, entry, tree.root->unit, args, entry.range);
  if (result.isPoison())
    return std::nullopt;
  if (current.training)
    return emitLoss(function, result);
  std::vector<SymbolicValue> values = result.is(SymbolicValue::List)
                                          ? result.items()
                                          : std::vector<SymbolicValue>{result};
  std::vector<Emitter::Handle> results;
  std::vector<Dims> shapes;
  for (const SymbolicValue &value : values)
    if (auto tensor =
            tensors.toTensor(value, entry.range, "the result of the model")) {
      results.push_back(tensor->handle);
      shapes.push_back(tensor->dims);
    }
  if (results.size() < values.size())
    return std::nullopt;
  if (recipe.hasArrays())
    emitter.setResults(shapes);
  return results;
}

std::optional<std::vector<Emitter::Handle>>
Functions::emitLoss(const Function &function, const SymbolicValue &result) {
  const auto &[forward, loss, inputs, handles] = function;
  if (!loss && result.is(SymbolicValue::List)) {
    reporter
        .error(220, recipe.train.lossRange,
               "the recipe's loss compares one result, but `forward` gives " +
                   Twine(result.items().size()))
        .help("write a `loss` of the model's own, which takes what it "
              "compares");
    return std::nullopt;
  }
  auto output = tensors.toTensor(result, function.entry().range,
                                 "the result of the model");
  if (!output)
    return std::nullopt;
  SymbolicValue losses;
  if (loss) {
    losses = SymbolicValue::tensor(countingOnes(*output, inputs, handles));
  } else {
    size_t at = inputs.size() - 2;
    losses = lossOf(*output, {handles[at], inputs[at].elem, inputs[at].dims});
  }
  if (losses.isPoison() ||
      !(loss ? dataFit.isLossPerTarget(losses.tensor(), *loss)
             : dataFit.tokensFit(*output, forward)))
    return std::nullopt;
  // The mean over all targets that count, of the whole accumulated batch.
  SymbolicTensor sum = losses.tensor();
  for (size_t axis = sum.dims.size(); axis-- > 0;)
    sum = tensors.reduceSum(sum, static_cast<int64_t>(axis));
  sum = tensors.reshapeTo(sum, {});
  SymbolicTensor count{handles.back(), Elem::Float, {}};
  SymbolicTensor mean = tensors.binary("div", sum, count);
  return std::vector<Emitter::Handle>{mean.handle, losses.tensor().handle};
}

SymbolicTensor
Functions::countingOnes(const SymbolicTensor &losses,
                        llvm::ArrayRef<Emitter::Input> inputs,
                        llvm::ArrayRef<Emitter::Handle> handles) {
  const auto *targets = llvm::find_if(inputs, [&](const Emitter::Input &input) {
    return input.name == "targets" && input.elem == Elem::Int &&
           input.dims == losses.dims;
  });
  if (!recipe.train.ignore || targets == inputs.end() ||
      losses.elem != Elem::Float)
    return losses;
  auto splat = [&](double value, Elem elem) {
    return tensors.splat(value, elem, losses.dims).handle;
  };
  Emitter::Handle counts = emitter.compare(
      "ne", handles[targets - inputs.begin()],
      splat(static_cast<double>(*recipe.train.ignore), Elem::Int));
  return {emitter.select(counts, losses.handle, splat(0, Elem::Float)),
          Elem::Float, losses.dims};
}

SymbolicValue Functions::lossOf(const SymbolicTensor &output,
                                const SymbolicTensor &targets) {
  Range range = recipe.train.lossRange;
  callStack.push_back({"the loss", nullptr, range});
  SymbolicValue losses;
  if (recipe.train.lossKind == "mse" && output.dims.size() == 1) {
    reporter
        .error(220, range,
               "`mse` takes the mean over the last axis, but `forward` gives " +
                   showShape(output.dims, output.elem) + ": that is the batch")
        .help("one number for each example is [B, 1], in the targets, too: "
              "`rearrange(y, \"B -> B 1\")`, or leave its last axis where it "
              "is");
  } else if (recipe.train.lossKind == "mse") {
    CallArg a, b;
    a.value = SymbolicValue::tensor(output);
    b.value = SymbolicValue::tensor(targets);
    a.range = b.range = range;
    std::vector<CallArg> args = {a, b};
    Scope scope;
    losses = builtins.call("mse", args, range, scope);
  } else if (output.elem != Elem::Float || output.dims.empty() ||
             targets.dims != Dims(llvm::ArrayRef(output.dims).drop_back())) {
    reporter.error(
        220, range,
        "cross entropy takes logits [B, T, vocab], but `forward` gives " +
            showShape(output.dims, output.elem));
  } else {
    if (output.dims.back().value() == 1)
      diags
          .warning(220, range,
                   "a cross entropy over one class is 0 whatever the model "
                   "gives: nothing is learned")
          .help("`loss = mse` compares numbers");
    tensors.locate(range);
    losses = SymbolicValue::tensor(
        {emitter.crossEntropy(output.handle, targets.handle,
                              recipe.train.ignore, recipe.train.labelSmoothing),
         Elem::Float, targets.dims});
  }
  callStack.pop_back();
  return losses;
}
