//===- ModelInput.cpp - the model file that a command is about ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ModelInput.h"
#include "Output.h"

#include "compiler/dialect/Attributes.h"
#include "compiler/driver/Pipelines.h"
#include "compiler/frontend/recipe/Families.h"
#include "compiler/transforms/ModelFacts.h"
#include "compiler/transforms/Passes.h"
#include "compiler/transforms/ReadRecipe.h"
#include "runtime/commands/crash.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/raw_ostream.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <nlohmann/json.hpp>

using namespace tfm;

Defines tfm::parseDefines(const std::vector<std::string> &texts) {
  Defines defines;
  for (const std::string &text : texts) {
    size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == text.size())
      throw CLI::ValidationError("-D",
                                 "expected name=value, found '" + text + "'");
    std::string name = text.substr(0, equals);
    for (const auto &[other, value] : defines)
      if (other == name)
        throw CLI::ValidationError("-D", name + " is given twice, as " + value +
                                             " and as " +
                                             text.substr(equals + 1));
    defines.emplace_back(name, text.substr(equals + 1));
  }
  return defines;
}

void tfm::addDefineOption(CLI::App &command, std::vector<std::string> &texts) {
  command
      .add_option("-D", texts,
                  "Set a hyperparameter or an entry of a block "
                  "(width=1024, train.batch=8); repeatable")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
}

void tfm::addTargetOption(CLI::App &command, std::string &target,
                          const std::string &description) {
  command.add_option("--target", target, description)
      ->check(CLI::Validator(
          [](const std::string &text) {
            return text == "gpu" ? std::string("NVIDIA's GPUs are cuda")
                                 : std::string();
          },
          ""))
      ->check(CLI::IsMember({"cpu", "cuda"}).description(""));
}

void tfm::printDiagnostics(const Diagnostics &diagnostics) {
  // Of an empty one https://no-color.org says that it is none.
  bool color = llvm::sys::Process::StandardErrHasColors() &&
               llvm::sys::Process::GetEnv("NO_COLOR").value_or("").empty();
  diagnostics.print(llvm::errs(), color);
  if (diagnostics.hasBug())
    leaveWithBug("an invalid program, see above");
}

/// A context that starts in well under a millisecond: no thread pool, and only
/// the dialects that the frontend loads.
static std::unique_ptr<mlir::MLIRContext> makeContext() {
  return std::make_unique<mlir::MLIRContext>(
      mlir::MLIRContext::Threading::DISABLED);
}

/// Prints what was found in a file; after errors leaves no model.
static void finish(CompiledModel &model, const Diagnostics &diagnostics,
                   std::string *firstError) {
  if (!firstError && (diagnostics.hasErrors() || diagnostics.hasWarnings()))
    printDiagnostics(diagnostics);
  if (!diagnostics.hasErrors())
    return;
  model.module = nullptr;
  model.problems = diagnostics.str();
  if (firstError) {
    const Diagnostic &first = diagnostics.errors().front();
    *firstError = first.message;
    for (const std::string &help : first.helps)
      *firstError += "; " + help;
  }
}

/// The model that `compile` makes.
static CompiledModel load(const Defines &defines, std::string *firstError,
                          llvm::function_ref<mlir::OwningOpRef<mlir::ModuleOp>(
                              mlir::MLIRContext &, SourceManager &,
                              const FrontendOptions &, Diagnostics &)>
                              compile) {
  CompiledModel model;
  model.context = makeContext();
  SourceManager sources;
  Diagnostics diagnostics(sources);
  FrontendOptions options;
  options.defines = defines;
  options.openTokenizer = false;
  model.module = compile(*model.context, sources, options, diagnostics);
  model.files = sources.namedFiles();
  for (size_t i = 0; i != sources.size(); ++i)
    model.files.push_back(sources.file(i).name().str());
  finish(model, diagnostics, firstError);
  return model;
}

CompiledModel tfm::loadModel(const std::string &path, const Defines &defines,
                             std::string *firstError) {
  return load(defines, firstError,
              [&](mlir::MLIRContext &context, SourceManager &sources,
                  const FrontendOptions &options, Diagnostics &diagnostics) {
                return compileToTfm(context, sources, path, options,
                                    diagnostics);
              });
}

CompiledModel tfm::loadText(const std::string &text, const std::string &path,
                            const Defines &defines, std::string *firstError) {
  return load(defines, firstError,
              [&](mlir::MLIRContext &context, SourceManager &sources,
                  const FrontendOptions &options, Diagnostics &diagnostics) {
                return compileTextToTfm(context, sources, path, text, options,
                                        diagnostics);
              });
}

/// The table of a family of the compiler, by a `model_type`; empty where there
/// is none.
static std::string tableFor(const std::string &modelType) {
  const std::map<std::string, std::string> families = familiesByType();
  auto name = families.find(modelType);
  if (name == families.end())
    return "";
  llvm::Expected<nlohmann::json> table = readFamilyTable(name->second);
  return table ? table->dump()
               : (llvm::consumeError(table.takeError()), std::string());
}

ModelDescription tfm::describe(const CompiledModel &model) {
  ModelDescription description;
  mlir::ModuleOp module = *model.module;
  description.facts = modelFacts(module);
  description.tableFor = tableFor;
  auto recipe = module->getAttrOfType<mlir::StringAttr>(recipeAttribute);
  if (!recipe)
    return description;
  llvm::Expected<llvm::json::Value> json = llvm::json::parse(recipe.getValue());
  if (!json) {
    llvm::consumeError(json.takeError());
    return description;
  }
  if (const llvm::json::Object *root = json->getAsObject())
    if (const llvm::json::Value *family = root->get("family"))
      llvm::raw_string_ostream(description.family) << *family;
  return description;
}

void tfm::differentiate(CompiledModel &model) {
  mlir::PassManager passes(model.context.get());
  // Tests verify after every pass (tfm-opt): a user's build need not.
  passes.enableVerifier(false);
  passes.addPass(createDifferentiatePass());
  passes.addPass(createAddUpdatePass());
  if (failed(passes.run(*model.module)))
    llvm::report_fatal_error("the loss has no derivative");
}

const KernelTarget *tfm::findTarget(const std::string &target,
                                    const std::string &cpu) {
  registerTargets();
  llvm::Expected<const KernelTarget *> found =
      KernelTarget::one(target, cpu, "a plan");
  if (found)
    return *found;
  messages() << "tfmc: error: " << llvm::toString(found.takeError()) << '\n';
  return nullptr;
}

const KernelTarget *tfm::fastestOf(const KernelTarget *target,
                                   mlir::ModuleOp module) {
  auto precision = precisionOf(module);
  auto weights = weightsOfGeneration(module), cache = cacheOfGeneration(module);
  std::vector<const KernelTarget *> variants = {target};
  if (succeeded(precision) && succeeded(weights) && succeeded(cache))
    KernelTarget::addFaster(variants, {*precision, *weights, *cache});
  return variants.front();
}
