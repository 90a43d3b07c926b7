//===- Compile.cpp - from the tfm dialect to an object file ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/driver/Compile.h"

#include "compiler/codegen/cpu/KernelLibrary.h"
#include "compiler/codegen/cpu/Lower.h"
#include "compiler/codegen/cpu/ObjectModule.h"
#include "compiler/codegen/schedule/BuildSchedule.h"
#include "compiler/dialect/Programs.h"
#include "compiler/dialect/TfmDialect.h"
#include "compiler/transforms/ModelFacts.h"
#include "compiler/transforms/Optimizer.h"
#include "compiler/transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace tfm;

namespace {

StringRef stringAttribute(ModuleOp module, StringRef name) {
  auto attr = module->getAttrOfType<StringAttr>(name);
  return attr ? attr.getValue() : StringRef();
}

/// The hyperparameters as JSON: an array of {"name", "value"}.
std::string hyperparametersAsJson(ModuleOp module) {
  llvm::json::Array list;
  if (auto array = module->getAttrOfType<ArrayAttr>("tfm.hyperparameters"))
    for (auto entry : array.getAsRange<DictionaryAttr>()) {
      Attribute value = entry.get("value");
      llvm::json::Value json = nullptr;
      if (auto flag = dyn_cast_or_null<BoolAttr>(value))
        json = flag.getValue();
      else if (auto number = dyn_cast_or_null<IntegerAttr>(value))
        json = number.getInt();
      else if (auto real = dyn_cast_or_null<FloatAttr>(value))
        json = real.getValueAsDouble();
      else if (auto text = dyn_cast_or_null<StringAttr>(value))
        json = text.getValue();
      list.push_back(llvm::json::Object{
          {"name", entry.getAs<StringAttr>("name").getValue()},
          {"value", std::move(json)}});
    }
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(std::move(list));
  return text;
}

/// The recipe, with what prevents generation with a cache, and the facts.
std::string recipeText(ModuleOp module) {
  StringRef recipe = stringAttribute(module, "tfm.recipe");
  StringRef obstacle = stringAttribute(module, "tfm.whole_sequence");
  StringRef facts = stringAttribute(module, "tfm.facts");
  llvm::Expected<llvm::json::Value> json =
      llvm::json::parse(recipe.empty() ? "{}" : recipe);
  if (!json || !json->getAsObject()) {
    llvm::consumeError(json.takeError());
    return recipe.str();
  }
  llvm::json::Object &object = *json->getAsObject();
  if (!obstacle.empty()) {
    llvm::json::Value &generate = object["generate"];
    if (!generate.getAsObject())
      generate = llvm::json::Object();
    (*generate.getAsObject())["whole_sequence"] = obstacle;
  }
  if (!facts.empty())
    object["facts"] = llvm::cantFail(llvm::json::parse(facts));
  std::string text;
  llvm::raw_string_ostream(text) << *json;
  return text;
}

void forEachLaunch(const std::vector<tfm::Step> &steps,
                   llvm::function_ref<void(const Launch &)> visit) {
  for (const tfm::Step &step : steps) {
    if (step.isLoop())
      forEachLaunch(step.body, visit);
    else
      visit(*step.launch);
  }
}

} // namespace

/// Names the results that the runtime looks for.
static void nameResults(ModuleOp module) {
  static constexpr std::pair<ProgramKind, std::array<StringRef, 2>> names[] = {
      {ProgramKind::Forward, {"logits", ""}},
      {ProgramKind::Train, {"loss", "losses"}},
      {ProgramKind::Evaluate, {"loss", "losses"}}};
  for (auto &[kind, results] : names)
    if (auto func = findProgram(module, kind))
      for (unsigned i = 0; i < 2 && i < func.getNumResults(); ++i)
        if (!results[i].empty())
          func.setResultAttr(i, "tfm.name",
                             StringAttr::get(module.getContext(), results[i]));
}

LogicalResult tfm::prepare(ModuleOp module) {
  // While the ops are still those of the language.
  module->setAttr("tfm.facts",
                  StringAttr::get(module.getContext(), modelFacts(module)));
  PassManager passes(module.getContext());
  // Tests verify after every pass (tfm-opt): a user's build need not.
  passes.enableVerifier(false);
  passes.addPass(createDifferentiatePass());
  passes.addPass(createAccumulateGradientsPass());
  passes.addPass(createStripDropoutPass());
  passes.addPass(createDeriveDecodePass());
  // Without training there is no optimizer's state that an update could use.
  if (findProgram(module, ProgramKind::Loss)) {
    passes.addPass(createAddUpdatePass());
    passes.addPass(createCombineUpdatePass());
  }
  passes.addPass(createSimplifyPass());
  passes.addPass(createDecomposePass());
  passes.addPass(createLegalizeForKernelsPass());
  passes.addPass(createSplitSumsPass());
  passes.addPass(createSimplifyPass());
  if (failed(passes.run(module)))
    return failure();
  // Training and evaluation are what a binary runs of it.
  if (auto loss = findProgram(module, ProgramKind::Loss))
    loss.erase();
  nameResults(module);
  return success();
}

Schedule tfm::scheduleModel(ModuleOp module) {
  ScheduleOptions options;
  FailureOr<std::optional<Optimizer>> optimizer = Optimizer::read(module);
  if (succeeded(optimizer) && *optimizer) {
    options.decayMinRank = (*optimizer)->decayMinRank;
    options.stateCount = (*optimizer)->numStates();
  }
  options.accumulate = microSteps(module);
  return buildSchedule(module, options);
}

std::unique_ptr<llvm::Module> tfm::emitModel(ModuleOp module,
                                             const Schedule &schedule,
                                             const CpuTarget &target,
                                             llvm::LLVMContext &context) {
  DialectRegistry registry;
  registerKernelDialects(registry);
  module.getContext()->appendDialectRegistry(registry);
  module.getContext()->loadAllAvailableDialects();
  OwningOpRef<ModuleOp> kernels = ModuleOp::create(module.getLoc());
  KernelLibrary library(*kernels, schedule, target);
  llvm::DenseMap<const Launch *, std::string> names;
  bool ok = true;
  for (const Program &program : schedule.programs)
    forEachLaunch(program.steps, [&](const Launch &launch) {
      FailureOr<std::string> name = library.kernelFor(launch);
      ok &= succeeded(name);
      if (ok)
        names[&launch] = *name;
    });
  if (!ok || failed(lowerToLLVMDialect(*kernels)))
    return nullptr;
  std::unique_ptr<llvm::Module> result = translateToLLVM(*kernels, context);
  if (!result)
    return nullptr;
  result->setTargetTriple(llvm::Triple(target.triple));
  ModelText text;
  text.name = stringAttribute(module, "tfm.model");
  text.source = stringAttribute(module, "tfm.source");
  text.target = target.cpu;
  text.hyperparameters = hyperparametersAsJson(module);
  text.recipe = recipeText(module);
  addProgramsAndDescriptor(*result, schedule, names,
                           4 * library.scratchElements(), text);
  return result;
}
