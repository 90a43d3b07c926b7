//===- Optimizer.cpp - the optimizer of a recipe --------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/transforms/Optimizer.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tfm;

bool Optimizer::decays(ParamOp param) const {
  int64_t rank = param.getTensorType().getRank() - param.getNumStackedDims();
  return rank >= decayMinRank;
}

/// Null where a model is not trained.
static const llvm::json::Object *trainBlock(const llvm::json::Value &recipe) {
  const llvm::json::Object *root = recipe.getAsObject();
  return root ? root->getObject("train") : nullptr;
}

FailureOr<std::optional<Optimizer>> Optimizer::read(ModuleOp module) {
  auto attr = module->getAttrOfType<StringAttr>("tfm.recipe");
  if (!attr)
    return std::optional<Optimizer>();
  auto recipe = llvm::json::parse(attr.getValue());
  if (!recipe)
    return module.emitError("the recipe is not JSON: ")
           << llvm::toString(recipe.takeError());
  const llvm::json::Object *train = trainBlock(*recipe);
  if (!train)
    return std::optional<Optimizer>();
  const llvm::json::Object *options = train->getObject("optimizer");
  if (!options)
    return module.emitError("the recipe's train block has no optimizer");

  Optimizer result;
  StringRef kind = options->getString("kind").value_or("");
  if (kind == "sgd")
    result.kind = Kind::Sgd;
  else if (kind == "adam")
    result.kind = Kind::Adam;
  else if (kind == "adamw")
    result.kind = Kind::AdamW;
  else
    return module.emitError("the recipe has an unknown optimizer: ") << kind;
  auto number = [&](StringRef name, double &to) {
    if (std::optional<double> value = options->getNumber(name))
      to = *value;
  };
  number("eps", result.eps);
  number("weight_decay", result.weightDecay);
  number("momentum", result.momentum);
  if (const llvm::json::Array *betas = options->getArray("betas")) {
    if (betas->size() != 2 || !(*betas)[0].getAsNumber() ||
        !(*betas)[1].getAsNumber())
      return module.emitError("the recipe's betas are not two numbers");
    result.beta1 = *(*betas)[0].getAsNumber();
    result.beta2 = *(*betas)[1].getAsNumber();
  }
  result.decayMinRank = options->getInteger("decay_min_rank").value_or(0);
  result.nesterov = options->getBoolean("nesterov").value_or(false);
  result.epsBeforeCorrection =
      options->getString("eps_placement").value_or("torch") == "keras";
  return std::optional<Optimizer>(result);
}

int64_t tfm::microSteps(ModuleOp module) {
  auto attr = module->getAttrOfType<StringAttr>("tfm.recipe");
  if (!attr)
    return 1;
  llvm::Expected<llvm::json::Value> recipe = llvm::json::parse(attr.getValue());
  if (!recipe) {
    llvm::consumeError(recipe.takeError());
    return 1;
  }
  const llvm::json::Object *train = trainBlock(*recipe);
  return train ? train->getInteger("accumulate").value_or(1) : 1;
}

int64_t tfm::paddedElements(ParamOp param) {
  return llvm::alignTo(param.getTensorType().getNumElements(), 16);
}

RegionSizes tfm::regionSizes(ModuleOp module, int64_t decayMinRank) {
  Optimizer rule;
  rule.decayMinRank = decayMinRank;
  RegionSizes sizes;
  for (auto param : module.getOps<ParamOp>())
    (!param.getTrainable() ? sizes.frozen
     : rule.decays(param)  ? sizes.decayed
                           : sizes.plain) += paddedElements(param);
  for (int64_t *size : {&sizes.decayed, &sizes.plain, &sizes.frozen})
    *size = llvm::alignTo(*size, kRegionRow);
  return sizes;
}
