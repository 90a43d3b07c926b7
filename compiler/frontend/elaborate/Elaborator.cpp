//===- Elaborator.cpp - from the syntax tree to the emitter ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/Elaborator.h"

#include "compiler/frontend/elaborate/Builtins.h"
#include "compiler/frontend/elaborate/Consts.h"
#include "compiler/frontend/elaborate/DataFit.h"
#include "compiler/frontend/elaborate/Functions.h"
#include "compiler/frontend/elaborate/Hyperparameters.h"
#include "compiler/frontend/elaborate/Instances.h"
#include "compiler/frontend/elaborate/MethodCalls.h"
#include "compiler/frontend/elaborate/ParamMembers.h"
#include "compiler/frontend/elaborate/Repeats.h"
#include "compiler/frontend/elaborate/Signatures.h"
#include "compiler/frontend/elaborate/TreeDeclarer.h"
#include "compiler/frontend/elaborate/UnitReader.h"
#include "compiler/frontend/elaborate/UnusedWarnings.h"
#include "compiler/frontend/recipe/Recipe.h"
#include "llvm/Support/raw_ostream.h"

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

/// All parts of an elaboration. They refer to each other, so that most know of
/// some that are declared further down; nothing is called before all are there.
struct Elaborator::Parts {
  Parts(SourceManager &sources, Diagnostics &diags,
        const FrontendOptions &options, Emitter &emitter,
        Compilation &compilation)
      : sources(sources), diags(diags), options(options), emitter(emitter),
        compilation(compilation) {}

  SourceManager &sources;
  Diagnostics &diags;
  const FrontendOptions &options;
  Emitter &emitter;
  Compilation &compilation;

  // What is being worked on.
  CallStack callStack;
  InstanceTree tree;
  CurrentFunction current;

  // What everything asks.
  Budget budget{compilation, diags, reporter};
  Reporter reporter{sources, diags, compilation, callStack, budget};
  UnitReader units{sources, diags, compilation, consts};
  Overrides overrides{sources, diags, options, compilation, tree};
  Blame blame{sources, reporter, tree};
  Dimensions dimensions{sources, reporter, blame, tree};
  Names names{compilation, units};
  ArgumentBinder arguments{reporter, tree};

  // Expressions, and what they lead to.
  Expressions expressions{sources,     emitter,  compilation, budget,
                          reporter,    names,    dimensions,  tensors,
                          operators,   builtins, instances,   repeats,
                          methodCalls, recipe};
  Operators operators{sources, emitter, budget,     reporter,
                      blame,   tensors, expressions};
  Tensors tensors{sources,   emitter,    budget,     reporter,
                  callStack, dimensions, callerDims, consts};
  Builtins builtins{{sources, emitter, budget, reporter, names, blame,
                     dimensions, tensors, operators, lookups, current},
                    arguments};
  Consts consts{sources,  options,    compilation,
                reporter, dimensions, expressions};
  Hyperparameters hyperparameters{sources,   compilation, budget,    reporter,
                                  callStack, arguments,   overrides, blame,
                                  names,     expressions};
  ParamMembers paramMembers{sources,    tree,     reporter,
                            dimensions, builtins, expressions};
  Instances instances{
      sources,   compilation,     tree,         budget, reporter,
      callStack, hyperparameters, paramMembers, consts, expressions};
  Repeats repeats{diags, tree, budget, reporter, blame, expressions, instances};
  Signatures signatures{sources,    callStack, reporter,   names,
                        dimensions, tensors,   expressions};
  MethodCalls methodCalls{sources,   emitter, budget,     reporter,   callStack,
                          arguments, tensors, signatures, expressions};

  // The model as a whole.
  RecipeContext recipe{sources,   diags,    options, compilation, tree,
                       overrides, reporter, names,   dimensions,  expressions};
  CallerDims callerDims{diags, compilation, tree,        overrides, blame,
                        names, dimensions,  expressions, recipe};
  TableLookups lookups{sources,  diags,     emitter,    compilation, tree,
                       reporter, callStack, callerDims, recipe};
  DataFit dataFit{compilation, reporter, callerDims, recipe};
  TreeDeclarer declarer{sources, reporter, emitter, budget, tensors};
  Functions functions{
      diags,     options,    emitter,  compilation, tree,     reporter,
      callStack, dimensions, tensors,  callerDims,  builtins, methodCalls,
      lookups,   dataFit,    declarer, current,     recipe};
  UnusedWarnings unused{diags, compilation, tree, overrides};
};

Elaborator::Elaborator(SourceManager &sources, Diagnostics &diags,
                       const FrontendOptions &options, Emitter &emitter,
                       Compilation &compilation)
    : parts(std::make_unique<Parts>(sources, diags, options, emitter,
                                    compilation)) {}

Elaborator::~Elaborator() = default;

bool Elaborator::readSources(uint32_t mainFile, StringRef path) {
  parts->units.readMain(mainFile, path);
  parts->overrides.parse();
  // Elaborating half-understood text would only repeat what was said.
  return !parts->diags.hasErrors();
}

void Elaborator::warn() {
  parts->unused.warnAboutNames();
  // A `loss` of the model's own is emitted for training only.
  if (parts->recipe.train.present || !findMethod(*parts->tree.root, "loss"))
    parts->unused.warnAboutParameters();
  parts->unused.warnAboutPrompts();
  parts->functions.warnAboutLookingAhead();
  parts->functions.warnAboutCache();
}

bool Elaborator::run(uint32_t mainFile, StringRef path) {
  if (!readSources(mainFile, path))
    return false;
  bool made = instantiateModel();
  if (parts->tree.root)
    parts->dimensions.checkContext();
  RecipeBuilder(parts->recipe).build();
  if (made && (!parts->diags.hasErrors() || parts->tree.root) &&
      parts->functions.emitAll() && parts->options.functions.empty()) {
    parts->callerDims.reportUnasked();
    warn();
  }
  parts->overrides.reportUnused();
  if (parts->diags.hasErrors())
    return false;
  std::string json;
  llvm::raw_string_ostream(json)
      << llvm::json::Value(std::move(parts->recipe.recipe));
  for (const auto &[name, value] : parts->tree.root->hyperparameters)
    parts->emitter.addHyperparameter(name, value);
  parts->emitter.setModel(parts->tree.root->decl->name,
                          parts->sources.file(mainFile).name(), json);
  return true;
}

void Elaborator::check(uint32_t mainFile, StringRef path, StringRef name) {
  if (!readSources(mainFile, path))
    return;
  parts->current.isAlone = true;
  if (name.empty()) {
    for (Const &constant : parts->compilation.consts)
      if (!constant.poisoned)
        parts->consts.check(constant);
    if (!parts->diags.hasErrors())
      parts->unused.warnAboutNames();
    return;
  }
  if (const Method *function =
          parts->compilation.mainUnit->functions.lookup(name))
    return parts->functions.check(*function);
  parts->tree.rootDecl = parts->compilation.mainUnit->modules.lookup(name);
  Scope scope;
  scope.unit = parts->compilation.mainUnit;
  std::vector<CallArg> none;
  SymbolicValue made = parts->instances.instantiate(
      *parts->tree.rootDecl, parts->compilation.mainUnit, none,
      parts->tree.rootDecl->range, scope);
  if (parts->tree.root)
    parts->dimensions.checkContext();
  if (!made.isPoison() && findMethod(*parts->tree.root, "forward"))
    parts->functions.emitAll();
}

//===----------------------------------------------------------------------===//
// Which model
//===----------------------------------------------------------------------===//

bool Elaborator::instantiateModel() {
  const ast::File &file = *parts->compilation.mainUnit->ast;
  Scope scope;
  scope.unit = parts->compilation.mainUnit;
  if (file.model) {
    const Expr &expr = *file.model;
    bool isCall = expr.kind == ExprKind::Call;
    SymbolicValue callee =
        parts->expressions.eval(isCall ? *expr.kids[0] : expr, scope);
    if (callee.isPoison())
      return false;
    if (!callee.is(SymbolicValue::Module)) {
      // An instance was made, but where that is the model has to be known.
      if (callee.is(SymbolicValue::NodeRef))
        parts->diags
            .error(508, expr.range, "`model =` takes one call of a module")
            .help("let its arguments choose, `model = GPT2(width = if ... then "
                  "64 else 128)`, or what is called: `model = (if ... then A "
                  "else B)(width = 64)`");
      else
        parts->diags
            .error(508, expr.range,
                   "a model is an instance of a module, not " +
                       callee.describe())
            .help("write `model = GPT2(width = 128)`");
      return false;
    }
    std::vector<CallArg> args;
    if (isCall)
      args = parts->expressions.evalArguments(expr, scope);
    parts->tree.rootDecl = callee.module();
    return !parts->instances
                .instantiate(*callee.module(), callee.unit(), args, expr.range,
                             scope)
                .isPoison();
  }
  const ast::Module *model = nullptr;
  for (const auto &module : file.modules) {
    if (!module->isModel)
      continue;
    if (model) {
      parts->diags
          .error(509, module->range,
                 "this file has two models, `" + model->name + "` and `" +
                     module->name + "`")
          .help("say which one is meant: `model = " + module->name + "()`");
      return false;
    }
    model = module.get();
  }
  if (!model) {
    Diagnostic &d =
        parts->diags.error(508, {parts->compilation.mainUnit->file, 0, 0},
                           "this file has no model");
    for (const Unit *import : parts->compilation.mainUnit->imports)
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
  parts->tree.rootDecl = model;
  std::vector<CallArg> none;
  return !parts->instances
              .instantiate(*model, parts->compilation.mainUnit, none,
                           model->range, scope)
              .isPoison();
}
