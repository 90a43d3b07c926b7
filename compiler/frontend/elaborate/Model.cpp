//===- Model.cpp - the model and its functions ----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/Elaborator.h"

#include "compiler/dialect/Programs.h"
#include "compiler/frontend/recipe/Recipe.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <limits>

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

Elaborator::Elaborator(SourceManager &sources, Diagnostics &diags,
                       const FrontendOptions &options, Emitter &emitter,
                       Program &program)
    : sources(sources), diags(diags), options(options), emitter(emitter),
      program(program) {}

bool Elaborator::run(uint32_t mainFile, StringRef path) {
  if (!readSources(mainFile, path))
    return false;
  bool made = instantiateModel();
  if (root)
    checkContext();
  RecipeBuilder(*this).build();
  if (made && (!diags.hasErrors() || root))
    emitFunctions();
  reportUnusedDefines();
  if (diags.hasErrors())
    return false;
  std::string json;
  llvm::raw_string_ostream(json) << llvm::json::Value(std::move(recipe));
  for (const auto &[name, value] : root->hyperparameters)
    emitter.addHyperparameter(name, value);
  emitter.setModel(root->decl->name, sources.file(mainFile).name(), json);
  return true;
}

void Elaborator::check(uint32_t mainFile, StringRef path, StringRef name) {
  if (!readSources(mainFile, path))
    return;
  if (name.empty()) {
    for (Const &constant : program.consts)
      if (!constant.poisoned)
        checkConst(constant);
    if (!diags.hasErrors())
      warnAboutUnusedNames();
    return;
  }
  if (const Method *function = program.mainUnit->functions.lookup(name))
    return checkFunction(*function);
  rootDecl = program.mainUnit->modules.lookup(name);
  Env env;
  env.unit = program.mainUnit;
  std::vector<CallArg> none;
  Value made =
      instantiate(*rootDecl, program.mainUnit, none, rootDecl->range, env);
  if (root)
    checkContext();
  if (!made.isPoison() && findMethod(*root, "forward"))
    emitFunctions();
}

//===----------------------------------------------------------------------===//
// Which model
//===----------------------------------------------------------------------===//

bool Elaborator::instantiateModel() {
  const ast::File &file = *program.mainUnit->ast;
  Env env;
  env.unit = program.mainUnit;
  if (file.model) {
    const Expr &expr = *file.model;
    bool isCall = expr.kind == ExprKind::Call;
    Value callee = eval(isCall ? *expr.kids[0] : expr, env);
    if (callee.isPoison())
      return false;
    if (!callee.is(Value::Module)) {
      diags
          .error(508, expr.range,
                 "a model is an instance of a module, not " + callee.describe())
          .help("write `model = GPT2(width = 128)`");
      return false;
    }
    std::vector<CallArg> args;
    if (isCall)
      args = evalArguments(expr, env);
    rootDecl = callee.module();
    return !instantiate(*callee.module(), callee.unit(), args, expr.range, env)
                .isPoison();
  }
  const ast::Module *model = nullptr;
  for (const auto &module : file.modules) {
    if (!module->isModel)
      continue;
    if (model) {
      diags
          .error(509, module->range,
                 "this file has two models, `" + model->name + "` and `" +
                     module->name + "`")
          .help("say which one is meant: `model = " + module->name + "()`");
      return false;
    }
    model = module.get();
  }
  if (!model) {
    Diagnostic &d = diags.error(508, {program.mainUnit->file, 0, 0},
                                "this file has no model");
    for (const Unit *import : program.mainUnit->imports)
      for (const auto &module : import->ast->modules)
        if (module->isModel) {
          d.help("use the imported one: `model = " + module->name + "()`");
          return false;
        }
    if (file.modules.empty())
      d.help("declare `model Name(width = 64) { ... }`");
    else
      d.help("say which module it is: `model = " + file.modules.back()->name +
             "(...)`; `tfmc check` checks the modules of a file without it");
    return false;
  }
  rootDecl = model;
  std::vector<CallArg> none;
  return !instantiate(*model, program.mainUnit, none, model->range, env)
              .isPoison();
}

//===----------------------------------------------------------------------===//
// The tree
//===----------------------------------------------------------------------===//

/// How many names a parameter has in a checkpoint that the module spells out:
/// its own where the repeats around it have several bodies, and its aliases in
/// the repeats that are not around it.
static size_t countNames(const Param &param) {
  auto around = param.owner->repeats();
  auto layersOf = [](const Node &node, llvm::ArrayRef<Node *> kept) {
    size_t layers = 1;
    for (Node *repeat : node.repeats())
      if (!llvm::is_contained(kept, repeat))
        layers *= repeat->count.value();
    return layers;
  };
  bool counts = llvm::all_of(
      around, [](const Node *repeat) { return repeat->bodies.size() == 1; });
  size_t names = counts ? 1 : layersOf(*param.owner, {});
  for (const auto &[node, name] : param.aliases)
    names += layersOf(*node, around);
  return names;
}

void Elaborator::declareTree(const Node &node) {
  auto isOwn = [&](const Value &value) {
    return value.is(Value::NodeRef) && value.node()->parent == &node;
  };
  if (node.kind != Node::Kind::List) {
    const SourceFile &file = sources.file(node.range.file);
    emitter.addModule(node, file.name(), file.line(node.range.begin));
  }
  switch (node.kind) {
  case Node::Kind::Repeat:
    for (const Node *body : node.bodies)
      if (body->parent == &node)
        declareTree(*body);
    return;
  case Node::Kind::List:
    for (const Node *element : node.elements)
      if (element->parent == &node)
        declareTree(*element);
    return;
  case Node::Kind::Module:
    break;
  }
  for (const auto &[name, value] : node.members) {
    if (value.is(Value::ParamRef) && value.param()->owner == &node &&
        value.param()->name == name) {
      if (!spend(countNames(*value.param()), value.param()->range))
        return;
      locate(value.param()->range);
      emitter.declareParam(*value.param());
    } else if (isOwn(value) && value.node()->name == name) {
      declareTree(*value.node());
    }
  }
  for (const auto &[name, value] : node.hyperparameters)
    if (isOwn(value) && value.node()->name == name &&
        !node.members.contains(name))
      declareTree(*value.node());
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

int64_t Elaborator::contextLength() const {
  if (!root)
    return 0;
  auto it = root->hyperparameters.find("context");
  return it != root->hyperparameters.end() && it->second.is(Value::Int)
             ? it->second.dim().value()
             : 0;
}

int64_t Elaborator::generationLength() const {
  int64_t context = contextLength();
  return context ? context : train.sequence ? train.sequence : defaultLength;
}

Dim Elaborator::callerDim(StringRef name) {
  auto known = rootDims.find(name);
  if (known != rootDims.end())
    return known->second;
  int64_t value = sequence;
  if (name == "B")
    value = batch;
  else if (auto it = train.dims.find(name); it != train.dims.end())
    value = it->second;
  Define *define = findDefine(name);
  const Expr *expr = define ? useDefine(*define, Wanted::Value) : nullptr;
  if (expr) {
    Env env;
    env.unit = program.mainUnit;
    env.self = root;
    Value given = eval(*expr, env);
    if (given.is(Value::Int) && given.dim().value() > 0)
      value = given.dim().value();
    else if (!given.isPoison())
      diags.error(904, define->range,
                  "`" + name + "` is a positive integer, not " +
                      (given.is(Value::Int) ? given.show() : given.describe()));
  }
  int64_t context = contextLength();
  if (define && name == "T" && context && value > context)
    diags.error(803, define->range,
                "T = " + Twine(value) +
                    " is longer than the model's context = " + Twine(context));
  unsigned order = name == "B" ? 0 : name == "T" ? 1 : 2;
  Dim dim = Dim::named(name, value, order);
  rootDims[name] = dim;
  if (!define && name != "B" && value == context)
    dimOrigins[name.str()] =
        name.str() + " is the model's context = " + std::to_string(context) +
        ", " + originOf("context");
  return dim;
}

std::optional<Dims> Elaborator::evalDims(const TypeExpr &type,
                                         const Twine &what) {
  Dims dims;
  Env env;
  env.unit = root->unit;
  env.self = root;
  for (const ShapeEntry &entry : type.shape) {
    // A module for any leading axes gets those of a batch of sequences.
    if (entry.isEllipsis) {
      dims.push_back(callerDim("B"));
      dims.push_back(callerDim("T"));
      continue;
    }
    const Expr &dim = *entry.dim;
    if (dim.kind == ExprKind::Name && llvm::isUpper(dim.text[0]) &&
        !lookup(dim.text, env)) {
      dims.push_back(callerDim(dim.text));
      continue;
    }
    env.dims.clear();
    for (const auto &known : rootDims)
      env.dims[known.getKey()] = known.second;
    env.inSignature = true;
    std::optional<Dim> size =
        toDimension(eval(dim, env), entry.range, "a dimension of " + what);
    if (!size)
      return std::nullopt;
    dims.push_back(*size);
  }
  return dims;
}

bool Elaborator::argumentShapes(const Method &method,
                                std::vector<Emitter::Argument> &out) {
  for (const Parameter &parameter : method.parameters) {
    if (llvm::any_of(out, [&](const Emitter::Argument &known) {
          return known.name == parameter.name;
        }))
      continue;
    if (!parameter.type.hasShape) {
      // Something optional that only other modules use.
      if (parameter.value)
        continue;
      error(511, parameter.range,
            "the input `" + parameter.name + "` of the model has no shape")
          .help("write `" + parameter.name + ": int[B, T]`");
      return false;
    }
    std::string what = "the input `" + parameter.name.str() + "`";
    auto dims = evalDims(parameter.type, what);
    if (!dims || !isStorable(*dims, parameter.range, what))
      return false;
    out.push_back(
        {parameter.name.str(), elemOf(parameter.type.element), *dims});
  }
  return true;
}

void Elaborator::emitFunctions() {
  locate(root->range);
  size_t before = diags.size();
  if (before == 0)
    declareTree(*root);
  std::vector<FunctionRequest> requests = options.functions;
  if (requests.empty()) {
    requests.push_back({FunctionRequest::Forward, 0, 0, ""});
    if (train.present)
      requests.push_back({FunctionRequest::Loss, 0, 0, ""});
  }
  for (const FunctionRequest &request : requests)
    if (!emitFunction(request))
      return;
  checkTokens();
  if (!options.functions.empty() || diags.hasErrors())
    return;
  warnAboutUnused();
  warnAboutLookingAhead();
}

void Elaborator::warnAboutLookingAhead() {
  const Method *forward = findMethod(*root, "forward");
  auto isNeeded = [](const Parameter &input) { return !input.value; };
  // Of models with several inputs no text is generated anyway.
  if (!looksAhead || llvm::count_if(forward->parameters, isNeeded) != 1)
    return;
  int64_t length = generationLength();
  std::string reason = "attention in this model is not causal, so nothing can "
                       "be said of the next token of a text with less than " +
                       std::to_string(length) + " tokens";
  // No token is less than a byte.
  bool isLong = static_cast<int64_t>(train.samplePrompt.size()) >= length;
  const Block *generate = block("generate");
  Diagnostic *d = nullptr;
  if (train.sampleRange && !isLong)
    d = &diags.warning(810, *train.sampleRange,
                       "training will show no samples: " + reason);
  else if (generate)
    d = &diags.warning(810, generate->range,
                       "`generate` will refuse most prompts: " + reason);
  if (d)
    d->note("it looks ahead in " + place(*looksAhead))
        .help("write `causal = true` there; what is not to generate text needs "
              "neither `sample` nor `generate`");
}

std::vector<CallArg>
Elaborator::inputsOf(const Method &method,
                     llvm::ArrayRef<Emitter::Argument> inputs,
                     llvm::ArrayRef<Emitter::Handle> handles) {
  std::vector<CallArg> args;
  for (auto [input, handle] : llvm::zip(inputs, handles))
    for (const Parameter &parameter : method.parameters)
      if (parameter.name == input.name) {
        CallArg arg;
        arg.name = parameter.name;
        arg.nameRange = arg.range = parameter.range;
        arg.value = Value::tensor({handle, input.elem, input.dims});
        args.push_back(std::move(arg));
      }
  return args;
}

void Elaborator::checkFunction(const Method &function) {
  // What a function's shapes are counted in belongs to no module.
  nodes.emplace_back();
  root = &nodes.back();
  root->unit = program.mainUnit;
  std::vector<Emitter::Argument> inputs;
  if (!argumentShapes(function, inputs))
    return;
  std::vector<Emitter::Handle> handles =
      emitter.beginFunction(function.name, inputs);
  std::vector<CallArg> args = inputsOf(function, inputs, handles);
  callMethod(nullptr, function, program.mainUnit, args, function.range);
  emitter.abandonFunction();
}

bool Elaborator::emitFunction(const FunctionRequest &request) {
  const Method *forward = findMethod(*root, "forward");
  if (!forward) {
    diags.error(502, root->decl->range,
                "the model `" + root->decl->name + "` has no `forward`");
    return false;
  }
  training = request.kind == FunctionRequest::Loss;
  nextSite = 0;
  size_t before = lookups.size();
  rootDims.clear();
  dimOrigins.clear();
  int64_t length = generationLength();
  batch = request.batch ? request.batch : training ? train.batch : 1;
  sequence = request.sequence             ? request.sequence
             : training && train.sequence ? train.sequence
                                          : length;
  frames.push_back(
      {(root->decl->name + ".forward").str(), root, forward->range});
  callerDim("B");
  callerDim("T");
  std::vector<Emitter::Argument> inputs;
  const Method *loss = training ? findMethod(*root, "loss") : nullptr;
  bool shaped = argumentShapes(*forward, inputs);
  if (shaped && loss)
    shaped = argumentShapes(*loss, inputs);
  Emitter::Argument targets{
      "targets", Elem::Int, {callerDim("B"), callerDim("T")}};
  if (shaped && training && !loss) {
    // One target for each row of logits; of the outputs' type for `mse`.
    if (!forward->results.empty() && forward->results[0].hasShape) {
      auto dims = evalDims(forward->results[0], "the result of the model");
      shaped = dims.has_value();
      if (shaped) {
        targets.dims = *dims;
        if (train.lossKind == "mse")
          targets.elem = Elem::Float;
        else if (!targets.dims.empty())
          targets.dims.pop_back();
      }
    }
    inputs.push_back(targets);
  }
  frames.pop_back();
  if (!shaped || (training && !dataFills(loss ? *loss : *forward, inputs)))
    return false;
  if (training)
    inputs.push_back({"count", Elem::Float, {}});

  locate(forward->range);
  std::string symbol =
      !request.name.empty()
          ? request.name
          : nameOf(training ? ProgramKind::Loss : ProgramKind::Forward).str();
  std::vector<Emitter::Handle> handles = emitter.beginFunction(symbol, inputs);
  const Method &entry = loss ? *loss : *forward;
  std::vector<CallArg> args = inputsOf(entry, inputs, handles);
  Value result = callMethod(root, entry, root->unit, args, entry.range);
  std::vector<Emitter::Handle> results;
  bool valid = !result.isPoison();
  if (valid && !training) {
    std::vector<Value> values =
        result.is(Value::List) ? result.items() : std::vector<Value>{result};
    for (const Value &value : values) {
      auto tensor = toTensor(value, entry.range, "the result of the model");
      valid &= tensor.has_value();
      if (tensor)
        results.push_back(tensor->handle);
    }
  } else if (valid) {
    auto output = toTensor(result, entry.range, "the result of the model");
    Value losses;
    if (output && loss) {
      losses = Value::tensor(*output);
    } else if (output) {
      size_t at = inputs.size() - 2;
      losses = lossOf(*output, {handles[at], inputs[at].elem, inputs[at].dims});
    }
    valid =
        !losses.isPoison() && (loss ? isLossPerTarget(losses.tensor(), *loss)
                                    : tokensFit(*output, *forward));
    if (valid) {
      // The mean over all targets that count, of the whole accumulated batch.
      Tensor sum = losses.tensor();
      for (size_t axis = sum.dims.size(); axis-- > 0;)
        sum = reduceSum(sum, static_cast<int64_t>(axis));
      sum = reshapeTo(sum, {});
      Tensor count{handles.back(), Elem::Float, {}};
      Tensor mean = binary("div", sum, count);
      results = {mean.handle, losses.tensor().handle};
    }
  }
  if (!valid || diags.hasErrors()) {
    emitter.abandonFunction();
    return false;
  }
  emitter.endFunction(results);
  checkGathers(before);
  return !diags.hasErrors();
}

bool Elaborator::dataFills(const Method &entry,
                           llvm::ArrayRef<Emitter::Argument> inputs) {
  if (!block("data"))
    return true;
  Dims each = {callerDim("B"), callerDim("T")};
  for (const Emitter::Argument &input : inputs) {
    auto parameter = llvm::find_if(entry.parameters, [&](const Parameter &p) {
      return p.name == input.name;
    });
    // The targets of the recipe's loss have no place in the model.
    Range range = parameter == entry.parameters.end() ? train.lossRange
                                                      : parameter->range;
    if (input.name != "tokens" && input.name != "targets") {
      error(221, range,
            "data gives `tokens` and `targets`, and nothing that is called `" +
                input.name + "`")
          .help("without a `data` block a program of your own fills the "
                "inputs (`tfmc build --emit obj`)");
      return false;
    }
    if (input.elem == Elem::Int && Dims(input.dims) == each)
      continue;
    Diagnostic &problem =
        error(221, range,
              "data gives `" + input.name + "`: int[B, T], but here it is " +
                  showShape(input.dims, input.elem));
    if (parameter == entry.parameters.end() && train.lossKind == "mse")
      problem.help("a `loss` in the model can make numbers of the ids: "
                   "mse(logits, one_hot(targets, vocab))");
    return false;
  }
  return true;
}

bool Elaborator::isLossPerTarget(const Tensor &losses, const Method &loss) {
  if (!block("data") || losses.dims == Dims{callerDim("B"), callerDim("T")})
    return true;
  error(221, loss.range,
        "`loss` gives one number for each target, [B, T], but this is " +
            showShape(losses.dims, losses.elem))
      .help("give 0 to the targets that do not count");
  return false;
}

bool Elaborator::tokensFit(const Tensor &logits, const Method &forward) {
  const llvm::json::Object *tokenizer = recipe.getObject("tokenizer");
  std::optional<int64_t> size =
      tokenizer && block("data") ? tokenizer->getInteger("size") : std::nullopt;
  if (!size || *size <= logits.dims.back().value())
    return true;
  error(221, forward.range,
        "the tokenizer has " + Twine(*size) + " tokens, but `forward` gives " +
            "logits for " + Value::integer(logits.dims.back()).show())
      .help("`vocab = tokenizer.size` gives one for each");
  return false;
}

Value Elaborator::lossOf(const Tensor &output, const Tensor &targets) {
  Range range = train.lossRange;
  frames.push_back({"the loss", nullptr, range});
  Value losses;
  if (train.lossKind == "mse") {
    CallArg a, b;
    a.value = Value::tensor(output);
    b.value = Value::tensor(targets);
    a.range = b.range = range;
    std::vector<CallArg> args = {a, b};
    Env env;
    losses = callBuiltin("mse", args, range, env);
  } else if (output.elem != Elem::Float || output.dims.empty() ||
             targets.dims != Dims(llvm::ArrayRef(output.dims).drop_back())) {
    error(220, range,
          "cross entropy takes logits [B, T, vocab], but `forward` gives " +
              showShape(output.dims, output.elem));
  } else {
    locate(range);
    losses =
        Value::tensor({emitter.crossEntropy(output.handle, targets.handle,
                                            train.ignore, train.labelSmoothing),
                       Elem::Float, targets.dims});
  }
  frames.pop_back();
  return losses;
}
