//===- ModelFacts.cpp - what a graph says of itself -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/transforms/ModelFacts.h"

#include "compiler/dialect/Attributes.h"
#include "compiler/dialect/IntegerRange.h"
#include "compiler/dialect/Programs.h"
#include "compiler/dialect/TfmDialect.h"
#include "compiler/transforms/Corrections.h"
#include "compiler/transforms/ReadRecipe.h"
#include "compiler/transforms/SplitEncoder.h"
#include "runtime/tfm_model.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <limits>
#include <optional>

using namespace mlir;
using namespace tfm;

std::optional<double> tfm::factorOf(Operation *op) {
  if (isa<DivOp>(op))
    if (std::optional<double> divisor = floatSplat(op->getOperand(1)))
      return 1.0 / *divisor;
  if (isa<MulOp>(op))
    for (Value operand : op->getOperands())
      if (std::optional<double> factor = floatSplat(operand))
        return factor;
  return std::nullopt;
}

namespace {

/// Different values in the order of the program.
class Values {
public:
  void add(llvm::json::Value value) {
    if (!llvm::is_contained(list, value))
      list.push_back(std::move(value));
  }
  /// Once this is called nobody can tell which values there are.
  void forget() { known = false; }
  void write(llvm::json::Object &facts, StringRef name) {
    if (known && !list.empty())
      facts[name] = std::move(list);
  }

private:
  llvm::json::Array list;
  bool known = true;
};

/// The input `[B, T]` or `[B, T, ..]` that shows the batch and the context:
/// `tokens`, else the first one of ids, else the first one of all. Null where
/// none has these axes.
Value sequenceOf(func::FuncOp forward) {
  Value ids, any;
  for (BlockArgument argument : forward.getArguments()) {
    RankedTensorType type = tensorType(argument);
    if (type.getRank() < 2)
      continue;
    bool isIds = type.getRank() == 2 && type.getElementType().isInteger(32);
    if (isIds &&
        nameOfArgument(forward, argument.getArgNumber()) == TFM_IN_TOKENS)
      return argument;
    if (isIds && !ids)
      ids = argument;
    if (!any)
      any = argument;
  }
  return ids ? ids : any;
}

/// What an op says of the model that it is in.
FunctionUse useOf(Operation *op) {
  if (auto function = dyn_cast<ScalarFunctionOpInterface>(op))
    return function.getFunctionUse();
  if (isa<PowOp>(op))
    return FunctionUse::PartOfNorm;
  if (isa<MaxOp, MinOp, SelectOp>(op) &&
      isa<FloatType>(tensorType(op->getResult(0)).getElementType()))
    return FunctionUse::PartOfActivation;
  return FunctionUse::Any;
}

/// How often an op runs: once for each layer around it.
int64_t executions(Operation *op) {
  int64_t count = 1;
  while ((op = op->getParentOp()))
    if (auto repeat = dyn_cast<RepeatOp>(op))
      count *= static_cast<int64_t>(repeat.getCount());
  return count;
}

/// One that is as long as the context hides nothing.
bool hasWindow(AttentionOp attention, int64_t length) {
  auto limit = attention.getWindow();
  return limit && static_cast<int64_t>(*limit) < length;
}

/// Which of the attentions have a window, in the order in which they run.
llvm::json::Array windowed(Region &region, int64_t length) {
  llvm::json::Array list;
  for (Operation &op : region.getOps()) {
    if (auto attention = dyn_cast<AttentionOp>(op))
      list.push_back(hasWindow(attention, length));
    int64_t times = 1;
    if (auto repeat = dyn_cast<RepeatOp>(op))
      times = static_cast<int64_t>(repeat.getCount());
    for (Region &inner : op.getRegions()) {
      llvm::json::Array once = windowed(inner, length);
      for (int64_t i = 0; i < times; ++i)
        llvm::append_range(list, once);
    }
  }
  return list;
}

/// An axis of a value in the user's words, where it has some.
StringRef axisName(Value value, size_t axis) {
  Operation *op = value.getDefiningOp();
  auto words = op ? op->getAttrOfType<DictionaryAttr>(valueAttribute) : nullptr;
  auto dims = words ? words.getAs<ArrayAttr>("dims") : nullptr;
  if (!dims || dims.size() <= axis)
    return "";
  return cast<StringAttr>(dims[axis]).getValue();
}

/// The parameter that a value is a moved form of.
GetParamOp parameterOf(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (auto param = dyn_cast<GetParamOp>(op))
      return param;
    if (!isa<TransposeOp, ReshapeOp, BroadcastOp>(op))
      break;
    value = op->getOperand(0);
  }
  return nullptr;
}

/// What leads to the logits, from them back to the last product, which is the
/// last one here; empty where there is none, or more than one value that
/// depends on the inputs goes into it.
llvm::SmallVector<Operation *> outputChain(func::FuncOp forward) {
  Block &block = forward.getBody().front();
  llvm::DenseSet<Value> dependent(block.args_begin(), block.args_end());
  for (Operation &op : block)
    if (llvm::any_of(op.getOperands(), [&](Value operand) {
          return dependent.contains(operand);
        }))
      dependent.insert(op.result_begin(), op.result_end());
  Operation *end = block.getTerminator();
  if (end->getNumOperands() == 0)
    return {};
  llvm::SmallVector<Operation *> chain;
  Value value = end->getOperand(0);
  while (Operation *op = value.getDefiningOp()) {
    if (isa<RepeatOp>(op) || !dependent.contains(value))
      return {};
    auto isDependent = [&](Value operand) {
      return dependent.contains(operand);
    };
    if (llvm::count_if(op->getOperands(), isDependent) != 1)
      return {};
    chain.push_back(op);
    if (isa<MatmulOp>(op))
      return chain;
    value = *llvm::find_if(op->getOperands(), isDependent);
  }
  return {};
}

/// The tanh that caps the logits, `cap * tanh(logits / cap)`, null where
/// nothing does, and the cap; nothing where what happens to them is something
/// else.
struct LogitCap {
  Operation *tanh = nullptr;
  double cap = 0;
};
std::optional<LogitCap> logitCap(llvm::ArrayRef<Operation *> chain) {
  if (chain.empty())
    return std::nullopt;
  LogitCap found;
  double after = 1, before = 1;
  bool isMoved = false;
  for (Operation *op : chain.drop_back()) {
    if (isa<ReshapeOp, TransposeOp, BroadcastOp, CastOp>(op))
      continue;
    // A bias of the product, or something else behind the tanh.
    if (isa<AddOp>(op))
      isMoved |= !found.tanh;
    else if (isa<TanhOp>(op) && !found.tanh)
      found.tanh = op;
    else if (std::optional<double> factor = factorOf(op))
      (found.tanh ? before : after) *= *factor;
    else
      return std::nullopt;
  }
  if (!found.tanh)
    return found;
  found.cap = after;
  // As single precision has them.
  if (isMoved || static_cast<float>(after * before) != 1.0F)
    return std::nullopt;
  return found;
}

/// By how much queries or keys are multiplied behind the product, or the norm,
/// that they come from; nothing where that is no one number.
class FactorBehindProduct {
public:
  std::optional<double> of(Value value) {
    Operation *op = value.getDefiningOp();
    // Ever more ways may lead to the same value.
    if (!op || isa<MatmulOp, NormalizeOp, RmsNormalizeOp, GatherOp, GetParamOp,
                   ConstantOp, PositionsOp, SinOp, CosOp>(op))
      return 1.0;
    if (++steps > 256)
      return std::nullopt;
    if (isa<TransposeOp, ReshapeOp, BroadcastOp, SliceOp, RopeOp, CastOp,
            DropoutOp>(op))
      return of(op->getOperand(0));
    if (isa<NegOp>(op))
      return of(op->getOperand(0));
    if (std::optional<double> factor = factorOf(op)) {
      Value scaled = op->getOperand(floatSplat(op->getOperand(0)) ? 1 : 0);
      std::optional<double> own = of(scaled);
      return own ? std::optional(*factor * *own) : std::nullopt;
    }
    if (!isa<AddOp, SubOp, MulOp, ConcatOp>(op))
      return std::nullopt;
    std::optional<double> all;
    for (Value operand : op->getOperands()) {
      std::optional<double> own = of(operand);
      if (!own || (isa<MulOp>(op) ? *own != 1.0 : all && *all != *own))
        return std::nullopt;
      all = own;
    }
    return all;
  }

private:
  int64_t steps = 0;
};

/// What scores are multiplied by before softmax, that queries and keys are
/// multiplied by included.
std::optional<double> scaleOf(AttentionOp attention) {
  double scale = attention.getScale().convertToDouble();
  for (Value value : {attention.getQ(), attention.getK()}) {
    std::optional<double> factor = FactorBehindProduct().of(value);
    if (!factor)
      return std::nullopt;
    scale *= *factor;
  }
  return scale;
}

/// How the parts of layers stand to each other; nothing where nobody knows.
struct LayerOrder {
  /// Whether activations come after the attention of the layer before, as those
  /// of an MLP beside attention do, or after that of their own.
  std::optional<bool> isParallel;
  /// Whether a norm is before attention.
  std::optional<bool> normFirst;
};

/// Of the layers in a block of the program.
LayerOrder orderOf(Block &block) {
  // For every value on how many attentions of the block it depends, one behind
  // the other, and whether it depends on a norm.
  llvm::DenseMap<Value, int64_t> depths;
  llvm::DenseSet<Value> normed;
  int64_t attentions = 0, least = std::numeric_limits<int64_t>::max(), most = 0;
  LayerOrder order;
  for (Operation &op : block) {
    int64_t depth = 0;
    bool isNormed = isa<NormalizeOp, RmsNormalizeOp>(op);
    for (Value operand : op.getOperands()) {
      depth = std::max(depth, depths.lookup(operand));
      isNormed |= normed.contains(operand);
    }
    if (auto attention = dyn_cast<AttentionOp>(op)) {
      // Queries and keys may have norms of their own.
      if (attentions++ == 0)
        order.normFirst = normed.contains(attention.getV());
      ++depth;
    } else if (useOf(&op) == FunctionUse::Activation) {
      least = std::min(least, depth);
      most = std::max(most, depth);
    }
    for (Value result : op.getResults()) {
      depths[result] = depth;
      if (isNormed)
        normed.insert(result);
    }
  }
  if (attentions && least == 0 && most < attentions)
    order.isParallel = true;
  else if (attentions && least > 0 && most == attentions)
    order.isParallel = false;
  return order;
}

/// Whether the output layer has the weights of the tokens' embedding; nothing
/// where either of them is something else.
std::optional<bool> isTied(Value tokens,
                           llvm::ArrayRef<Operation *> outputChain) {
  GetParamOp table;
  for (Operation *user : tokens.getUsers())
    if (auto gather = dyn_cast<GatherOp>(user)) {
      if (table)
        return std::nullopt;
      table = parameterOf(gather.getTable());
      if (!table)
        return std::nullopt;
    }
  if (!table || outputChain.empty())
    return std::nullopt;
  GetParamOp output;
  for (Value operand : outputChain.back()->getOperands())
    if (GetParamOp matrix = parameterOf(operand))
      output = matrix;
  if (!output)
    return std::nullopt;
  return table.getParam() == output.getParam();
}

/// Goes over a model and keeps what its ops say of it.
class FactCollector {
public:
  FactCollector(func::FuncOp forward, Value tokens)
      : forward(forward), tokens(tokens),
        batch(tensorType(tokens).getDimSize(0)),
        length(tensorType(tokens).getDimSize(1)), logits(outputChain(forward)),
        cap(logitCap(logits)) {}

  void collect();
  /// Once, after `collect`.
  void write(llvm::json::Object &facts);

private:
  void add(AttentionOp attention);
  void add(RopeOp rope);
  void addUse(Operation *op);
  void addOrder(Block &layer);
  llvm::json::Object names() const;

  func::FuncOp forward;
  Value tokens;
  const int64_t batch, length;
  const llvm::SmallVector<Operation *> logits;
  const std::optional<LogitCap> cap;
  Values heads, kvHeads, headWidth, window, softcap, scale, causal, eps,
      activation, ropeBase, ropeDims, parallel, normFirst;
  /// Those with attention.
  llvm::SetVector<Block *> layers;
  bool hasWindows = false;
  int64_t attentions = 0;
  /// Axes in the user's words.
  StringRef headsName, kvHeadsName;
};

} // namespace

void FactCollector::collect() {
  forward.walk([&](Operation *op) {
    if (auto attention = dyn_cast<AttentionOp>(op))
      add(attention);
    else if (auto norm = dyn_cast<NormalizeOp>(op))
      eps.add(norm.getEps().convertToDouble());
    else if (auto norm = dyn_cast<RmsNormalizeOp>(op))
      eps.add(norm.getEps().convertToDouble());
    else if (auto rope = dyn_cast<RopeOp>(op))
      add(rope);
    addUse(op);
  });
  if (attentions && !hasWindows)
    window.add(nullptr);
  for (Block *layer : layers)
    addOrder(*layer);
}

void FactCollector::add(AttentionOp attention) {
  attentions += executions(attention);
  RankedTensorType q = tensorType(attention.getQ());
  // Heads that are folded into the batch cannot be told from it.
  if (q.getDimSize(0) != batch)
    for (Values *values : {&heads, &kvHeads, &headWidth})
      values->forget();
  heads.add(q.getDimSize(1));
  kvHeads.add(tensorType(attention.getK()).getDimSize(1));
  headWidth.add(q.getDimSize(3));
  for (Value value : {attention.getOut(), attention.getQ()})
    if (headsName.empty())
      headsName = axisName(value, 1);
  for (Value value : {attention.getK(), attention.getV()})
    if (kvHeadsName.empty())
      kvHeadsName = axisName(value, 1);
  // A mask may hide what is far away, or ahead, too.
  if (attention.getMask()) {
    window.forget();
    causal.forget();
  }
  causal.add(attention.getCausal());
  if (std::optional<double> own = scaleOf(attention))
    scale.add(*own);
  else
    scale.forget();
  layers.insert(attention->getBlock());
  if (hasWindow(attention, length)) {
    window.add(static_cast<int64_t>(*attention.getWindow()));
    hasWindows = true;
  }
  auto limitOfScores = attention.getSoftcap();
  softcap.add(limitOfScores
                  ? llvm::json::Value(limitOfScores->convertToDouble())
                  : nullptr);
}

void FactCollector::add(RopeOp rope) {
  if (rope.getFrequencies())
    ropeBase.forget();
  else
    ropeBase.add(rope.getBase().convertToDouble());
  ropeDims.add(static_cast<int64_t>(rope.getDims()));
}

/// What norms, activations and rotations are made of where the user writes them
/// out: then there may be others than those seen.
void FactCollector::addUse(Operation *op) {
  switch (useOf(op)) {
  case FunctionUse::Any:
    break;
  case FunctionUse::Activation:
    activation.add(op->getName().stripDialect());
    break;
  case FunctionUse::PartOfActivation:
    if (cap && cap->tanh == op)
      break;
    activation.forget();
    parallel.forget();
    break;
  case FunctionUse::PartOfNorm:
    eps.forget();
    normFirst.forget();
    break;
  case FunctionUse::PartOfRotation:
    ropeBase.forget();
    ropeDims.forget();
    break;
  }
}

void FactCollector::addOrder(Block &layer) {
  LayerOrder order = orderOf(layer);
  if (order.isParallel)
    parallel.add(*order.isParallel);
  else
    parallel.forget();
  // In one block with the embeddings there may be norms of theirs.
  if (order.normFirst && isa<RepeatOp>(layer.getParentOp()))
    normFirst.add(*order.normFirst);
  else
    normFirst.forget();
}

llvm::json::Object FactCollector::names() const {
  llvm::json::Object names;
  if (!headsName.empty())
    names["heads"] = headsName;
  if (!kvHeadsName.empty())
    names["kv_heads"] = kvHeadsName;
  return names;
}

void FactCollector::write(llvm::json::Object &facts) {
  facts["context"] = length;
  facts["attentions"] = attentions;
  heads.write(facts, "heads");
  kvHeads.write(facts, "kv_heads");
  headWidth.write(facts, "head_width");
  window.write(facts, "window");
  if (hasWindows)
    facts["windowed"] = llvm::json::Array{windowed(forward.getBody(), length)};
  softcap.write(facts, "softcap");
  scale.write(facts, "scale");
  causal.write(facts, "causal");
  parallel.write(facts, "parallel");
  normFirst.write(facts, "norm_first");
  if (cap)
    facts["logit_cap"] =
        llvm::json::Array{cap->tanh ? llvm::json::Value(cap->cap) : nullptr};
  eps.write(facts, "eps");
  activation.write(facts, "activation");
  ropeBase.write(facts, "rope_base");
  ropeDims.write(facts, "rope_dims");
  if (std::optional<bool> tied = isTied(tokens, logits))
    facts["tied"] = *tied;
  if (llvm::json::Array all = corrections(forward); !all.empty())
    facts["corrections"] = std::move(all);
  facts["names"] = names();
}

/// What arrays fill, by name: its axes in the user's words, and of what chooses
/// rows which ids may be there.
static llvm::json::Object inputsOf(ModuleOp module) {
  llvm::json::Object inputs;
  module.walk([&](func::FuncOp function) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      auto dims = function.getArgAttrOfType<ArrayAttr>(i, dimsAttribute);
      llvm::json::Array words;
      for (auto dim : dims.getAsValueRange<StringAttr>())
        words.push_back(dim);
      inputs[nameOfArgument(function, i)] =
          llvm::json::Object{{"dims", std::move(words)}};
    }
  });
  for (const auto &[name, bounds] : boundsOfInputs(module)) {
    llvm::json::Object &input = *inputs[name].getAsObject();
    input["ids"] = llvm::json::Array{bounds.range.low, bounds.range.high};
    if (bounds.ignored)
      input["ignored"] = *bounds.ignored;
  }
  inputs.erase(TFM_IN_COUNT);
  return inputs;
}

/// The axes of each result of `@forward` in the user's words.
static llvm::json::Array resultsOf(ModuleOp module) {
  llvm::json::Array results;
  if (auto shapes = module->getAttrOfType<ArrayAttr>(resultsAttribute))
    for (auto dims : shapes.getAsRange<ArrayAttr>()) {
      llvm::json::Array words;
      for (auto dim : dims.getAsValueRange<StringAttr>())
        words.push_back(dim);
      results.push_back(std::move(words));
    }
  return results;
}

std::string tfm::modelFacts(ModuleOp module) {
  llvm::json::Object facts;
  const bool hasArrays = readsArrays(module);
  if (hasArrays) {
    llvm::json::Object inputs = inputsOf(module);
    if (const llvm::json::Object *tokens = inputs.getObject(TFM_IN_TOKENS))
      if (const llvm::json::Array *ids = tokens->getArray("ids"))
        facts["tokens"] = ids->back().getAsInteger().value() + 1;
    facts["inputs"] = std::move(inputs);
    facts["results"] = resultsOf(module);
  }
  auto forward = findProgram(module, ProgramKind::Forward);
  if (Value tokens = forward ? sequenceOf(forward) : nullptr) {
    FactCollector collector(forward, tokens);
    collector.collect();
    if (llvm::any_of(forward.getArguments(), isOfEncoder))
      facts["encoder"] = true;
    if (int64_t count = hasArrays ? IntegerRange::highest : countTokens(module);
        count < IntegerRange::highest)
      facts["tokens"] = count;
    collector.write(facts);
  }
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(std::move(facts));
  return text;
}
