//===- Compile.cpp - from the tfm dialect to an object file ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/driver/Compile.h"

#include "compiler/dialect/Attributes.h"
#include "compiler/dialect/TfmDialect.h"
#include "compiler/driver/Pipelines.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/Linker/Linker.h"
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
  if (auto array = module->getAttrOfType<ArrayAttr>(hyperparametersAttribute))
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

/// The recipe, with what prevents generation with a cache, and the facts; empty
/// of a module that no frontend has given one.
std::string recipeText(ModuleOp module) {
  StringRef recipe = stringAttribute(module, recipeAttribute);
  if (recipe.empty())
    return "";
  StringRef obstacle = stringAttribute(module, wholeSequenceAttribute);
  StringRef facts = stringAttribute(module, factsAttribute);
  llvm::Expected<llvm::json::Value> json = llvm::json::parse(recipe);
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

} // namespace

/// Tests verify after every pass (tfm-opt), a user's build once behind each
/// stage: what breaks a rule is not scheduled, and no kernel is made of it.
static LogicalResult run(ModuleOp module,
                         llvm::function_ref<void(OpPassManager &)> add) {
  PassManager passes(module.getContext());
  passes.enableVerifier(false);
  add(passes);
  return success(succeeded(passes.run(module)) && succeeded(verify(module)));
}

LogicalResult tfm::prepare(ModuleOp module, const KernelTarget &target) {
  return run(module,
             [&](OpPassManager &passes) { addPreparePasses(passes, target); });
}

LogicalResult tfm::scheduleModel(ModuleOp module, const KernelTarget &target) {
  return run(module,
             [&](OpPassManager &passes) { addSchedulePasses(passes, target); });
}

/// The kernels of a variant, and its functions under names of their own.
static std::unique_ptr<llvm::Module>
emitVariant(const ScheduledModel &variant, size_t number,
            llvm::LLVMContext &context, bool assembled,
            std::vector<std::string> &names, DeviceCode &device) {
  auto [module, target] = variant;
  if (failed(run(module, [&, &target = target](OpPassManager &passes) {
        addKernelPasses(passes, target);
      })))
    return nullptr;
  auto kernels = module.lookupSymbol<ModuleOp>("kernels");
  FailureOr<DeviceCode> onDevice = target.deviceCode(kernels, assembled);
  std::unique_ptr<llvm::Module> code = target.translate(kernels, context);
  if (!code || failed(onDevice))
    return nullptr;
  device = std::move(*onDevice);
  for (llvm::Function &function : *code)
    if (!function.isDeclaration())
      function.setLinkage(llvm::GlobalValue::InternalLinkage);
  for (auto program : module.getOps<sched::ProgramOp>()) {
    llvm::Function *function = target.emitProgram(program, *code);
    // Not internal: linking does not rename it. What it is linked to shows it
    // to nobody, who might have a function of that name.
    function->setLinkage(llvm::GlobalValue::ExternalLinkage);
    function->setVisibility(llvm::GlobalValue::HiddenVisibility);
    if (number > 0)
      function->setName(function->getName() + "." + std::to_string(number));
    names.push_back(function->getName().str());
  }
  return code;
}

FailureOr<ModelCode> tfm::emitCode(llvm::ArrayRef<ScheduledModel> variants,
                                   llvm::LLVMContext &context, bool assembled) {
  ModelCode code;
  std::vector<std::vector<std::string>> names(variants.size());
  for (auto [number, variant] : llvm::enumerate(variants)) {
    DeviceCode device;
    std::unique_ptr<llvm::Module> own =
        emitVariant(variant, number, context, assembled, names[number], device);
    if (!own)
      return failure();
    if (!code.module)
      code.module = std::move(own);
    else if (llvm::Linker::linkModules(*code.module, std::move(own)))
      return failure();
    code.variants.push_back(
        {variant.target, variant.module, std::move(device.kernels), {}, {}});
    code.images.push_back(std::move(device.images));
  }
  for (auto [variant, functions] : llvm::zip_equal(code.variants, names))
    for (const std::string &name : functions)
      variant.programs.push_back(code.module->getFunction(name));
  return code;
}

LogicalResult tfm::describe(ModelCode &code, llvm::Module &module) {
  for (auto [variant, images] : llvm::zip_equal(code.variants, code.images)) {
    if (!images.valid())
      continue;
    FailureOr<std::vector<DeviceImage>> made = images.get();
    if (failed(made))
      return failure();
    variant.images = std::move(*made);
  }
  ModuleOp model = code.variants.front().schedule;
  addDescriptor(module, code.variants,
                {stringAttribute(model, modelAttribute).str(),
                 stringAttribute(model, sourceAttribute).str(),
                 hyperparametersAsJson(model), recipeText(model)});
  return success();
}

std::unique_ptr<llvm::Module>
tfm::emitModel(llvm::ArrayRef<ScheduledModel> variants,
               llvm::LLVMContext &context) {
  FailureOr<ModelCode> code = emitCode(variants, context, /*assembled=*/false);
  if (failed(code) || failed(describe(*code, *code->module)))
    return nullptr;
  return std::move(code->module);
}

FailureOr<std::vector<DeviceImage>>
tfm::emitDeviceCode(const ScheduledModel &model) {
  auto [module, target] = model;
  if (failed(run(module, [&, &target = target](OpPassManager &passes) {
        addKernelPasses(passes, target);
      })))
    return failure();
  FailureOr<DeviceCode> code = target.deviceCode(
      module.lookupSymbol<ModuleOp>("kernels"), /*assembled=*/false);
  if (failed(code))
    return failure();
  return code->images.get();
}

const KernelTarget &tfm::nativeTarget() {
  registerTargets();
  return *llvm::cantFail(KernelTarget::named("cpu:native"));
}
