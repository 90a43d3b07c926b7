//===- ReadRecipe.cpp - what passes ask of the recipe ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/transforms/ReadRecipe.h"

#include "compiler/dialect/Attributes.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace tfm;

bool Optimizer::decays(ParamOp param) const {
  int64_t rank = param.getTensorType().getRank() - param.getNumStackedDims();
  return rank >= decayMinRank && !param.getNoDecay();
}

namespace {

/// Reads the keys of one object of a recipe; the first that is not as the table
/// has it is reported at the module, and those after it read as they are
/// absent.
class Keys {
public:
  Keys(ModuleOp module, const llvm::json::Object &object)
      : module(module), object(object) {}

  void read(const recipe::Field &field, double &to) {
    const llvm::json::Value *value = member(field);
    if (std::optional<double> number =
            value ? value->getAsNumber() : std::nullopt;
        number && field.range.has(*number))
      to = *number;
    else
      wrong(field, value);
  }
  void read(const recipe::Field &field, int64_t &to) {
    const llvm::json::Value *value = member(field);
    if (std::optional<int64_t> number =
            value ? value->getAsInteger() : std::nullopt;
        number && field.range.has(static_cast<double>(*number)))
      to = *number;
    else
      wrong(field, value);
  }
  void read(const recipe::Field &field, bool &to) {
    const llvm::json::Value *value = member(field);
    if (std::optional<bool> flag = value ? value->getAsBoolean() : std::nullopt)
      to = *flag;
    else
      wrong(field, value);
  }
  void read(const recipe::Field &field, StringRef &to) {
    const llvm::json::Value *value = member(field);
    if (std::optional<StringRef> word =
            value ? value->getAsString() : std::nullopt;
        word && recipe::hasWord(field.words, *word))
      to = *word;
    else
      wrong(field, value);
  }
  const llvm::json::Value *member(const recipe::Field &field) const {
    return object.get(StringRef(field.key()));
  }
  LogicalResult result() const { return failure(hasFailed); }

private:
  void wrong(const recipe::Field &field, const llvm::json::Value *value) {
    if (!hasFailed) {
      InFlightDiagnostic error = module.emitError("the recipe's ")
                                 << StringRef(field.path);
      if (value)
        error << " takes " << recipe::takes(field);
      else
        error << " is missing";
    }
    hasFailed = true;
  }

  ModuleOp module;
  const llvm::json::Object &object;
  bool hasFailed = false;
};

} // namespace

/// The recipe of a module, as JSON; null where it has none.
static FailureOr<llvm::json::Value> recipeOf(ModuleOp module) {
  auto attr = module->getAttrOfType<StringAttr>(recipeAttribute);
  if (!attr)
    return llvm::json::Value(nullptr);
  llvm::Expected<llvm::json::Value> recipe = llvm::json::parse(attr.getValue());
  if (!recipe)
    return module.emitError("the recipe is not JSON: ")
           << llvm::toString(recipe.takeError());
  return std::move(*recipe);
}

/// Null where a model is not trained.
static const llvm::json::Object *trainBlock(const llvm::json::Value &recipe) {
  const llvm::json::Object *root = recipe.getAsObject();
  return root ? root->getObject("train") : nullptr;
}

FailureOr<std::optional<Optimizer>> Optimizer::read(ModuleOp module) {
  FailureOr<llvm::json::Value> recipe = recipeOf(module);
  if (failed(recipe))
    return failure();
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
  constexpr recipe::Range beta = {0, recipe::belowOne};
  const llvm::json::Array *betas = options->getArray("betas");
  if (!betas || betas->size() != 2 ||
      !llvm::all_of(*betas, [&](const llvm::json::Value &value) {
        return value.getAsNumber() && beta.has(*value.getAsNumber());
      }))
    return module.emitError("the recipe's betas are not two numbers");
  result.beta1 = *(*betas)[0].getAsNumber();
  result.beta2 = *(*betas)[1].getAsNumber();

  Keys keys(module, *options);
  keys.read(recipe::field("train.optimizer.eps"), result.eps);
  keys.read(recipe::field("train.optimizer.weight_decay"), result.weightDecay);
  keys.read(recipe::field("train.optimizer.momentum"), result.momentum);
  keys.read(recipe::field("train.optimizer.decay_min_rank"),
            result.decayMinRank);
  keys.read(recipe::field("train.optimizer.nesterov"), result.nesterov);
  StringRef placement;
  keys.read(recipe::field("train.optimizer.eps_placement"), placement);
  result.epsBeforeCorrection = placement == "keras";
  if (failed(keys.result()))
    return failure();
  return std::optional<Optimizer>(result);
}

FailureOr<int64_t> tfm::microSteps(ModuleOp module) {
  FailureOr<llvm::json::Value> recipe = recipeOf(module);
  if (failed(recipe))
    return failure();
  const llvm::json::Object *train = trainBlock(*recipe);
  if (!train)
    return 1;
  int64_t steps = 0;
  Keys keys(module, *train);
  keys.read(recipe::field("train.accumulate"), steps);
  if (failed(keys.result()))
    return failure();
  return steps;
}

/// A key of a block, where there are both.
static std::optional<llvm::json::Value> keyOf(ModuleOp module,
                                              const recipe::Field &field) {
  FailureOr<llvm::json::Value> recipe = recipeOf(module);
  const llvm::json::Object *root =
      failed(recipe) ? nullptr : recipe->getAsObject();
  const llvm::json::Object *block =
      root ? root->getObject(StringRef(field.parent())) : nullptr;
  const llvm::json::Value *value =
      block ? block->get(StringRef(field.key())) : nullptr;
  return value ? std::optional(*value) : std::nullopt;
}

int64_t tfm::microStepsIfKnown(ModuleOp module) {
  auto value = keyOf(module, recipe::field("train.accumulate"));
  return value ? value->getAsInteger().value_or(1) : 1;
}

bool tfm::sumsAsTree(ModuleOp module) {
  auto value = keyOf(module, recipe::field("train.sum"));
  return value && value->getAsString() == "tree";
}

bool tfm::readsArrays(ModuleOp module) {
  auto value = keyOf(module, recipe::field("data.kind"));
  return value && value->getAsString() == "arrays";
}

int64_t tfm::knownTokens(ModuleOp module) {
  auto size = keyOf(module, recipe::field("tokenizer.size"));
  const int64_t own = size ? size->getAsInteger().value_or(0) : 0;
  auto text = module->getAttrOfType<StringAttr>(factsAttribute);
  if (!text)
    return own;
  const llvm::json::Value facts =
      llvm::cantFail(llvm::json::parse(text.getValue()));
  const int64_t rows = facts.getAsObject()->getInteger("tokens").value_or(0);
  return rows > 0 && own > 0 ? std::min(own, rows) : std::max(own, rows);
}

int64_t tfm::waitingSums(ModuleOp module) {
  return sumsAsTree(module) ? llvm::countr_zero(static_cast<uint64_t>(
                                  microStepsIfKnown(module)))
                            : 0;
}

/// The type that a key of the recipe names; f32 where it has no such block.
static FailureOr<Type> typeInRecipe(ModuleOp module,
                                    const recipe::Field &field) {
  FailureOr<llvm::json::Value> recipe = recipeOf(module);
  if (failed(recipe))
    return failure();
  Builder builder(module.getContext());
  const llvm::json::Object *root = recipe->getAsObject();
  const llvm::json::Object *block =
      root ? root->getObject(StringRef(field.parent())) : nullptr;
  if (!block)
    return Type(builder.getF32Type());
  StringRef word;
  Keys keys(module, *block);
  keys.read(field, word);
  if (failed(keys.result()))
    return failure();
  return word == "bf16"   ? Type(builder.getBF16Type())
         : word == "int8" ? Type(builder.getI8Type())
         : word == "int4" ? Type(builder.getIntegerType(4))
                          : Type(builder.getF32Type());
}

static FailureOr<FloatType> floatInRecipe(ModuleOp module,
                                          const recipe::Field &field) {
  FailureOr<Type> type = typeInRecipe(module, field);
  if (failed(type))
    return failure();
  return cast<FloatType>(*type);
}

FailureOr<FloatType> tfm::trainingPrecision(ModuleOp module) {
  return floatInRecipe(module, recipe::field("train.precision"));
}

FailureOr<Type> tfm::weightsOfGeneration(ModuleOp module) {
  return typeInRecipe(module, recipe::field("generate.weights"));
}

FailureOr<Type> tfm::cacheOfGeneration(ModuleOp module) {
  FailureOr<Type> cache = typeInRecipe(module, recipe::field("generate.cache"));
  if (failed(cache) || !cache->isF32())
    return cache;
  FailureOr<FloatType> precision = precisionOf(module);
  if (failed(precision))
    return failure();
  return Type(*precision);
}

FailureOr<int64_t> tfm::topKOfGeneration(ModuleOp module) {
  FailureOr<llvm::json::Value> recipe = recipeOf(module);
  if (failed(recipe))
    return failure();
  const llvm::json::Object *root = recipe->getAsObject();
  const llvm::json::Object *generate =
      root ? root->getObject("generate") : nullptr;
  if (!generate || !generate->get("top_k"))
    return 0;
  int64_t topK = 0;
  Keys keys(module, *generate);
  keys.read(recipe::field("generate.top_k"), topK);
  if (failed(keys.result()))
    return failure();
  return topK;
}

FailureOr<bool> tfm::hasOwnLoss(ModuleOp module) {
  FailureOr<llvm::json::Value> recipe = recipeOf(module);
  if (failed(recipe))
    return failure();
  const llvm::json::Object *object = recipe->getAsObject();
  for (const char *name : {"train", "loss"})
    object = object ? object->getObject(name) : nullptr;
  return object && object->getString("kind") == "own";
}

FailureOr<FloatType> tfm::precisionOf(ModuleOp module) {
  FailureOr<Type> weights = weightsOfGeneration(module);
  if (failed(weights))
    return failure();
  return weights->isBF16() ? cast<FloatType>(*weights)
                           : trainingPrecision(module);
}
