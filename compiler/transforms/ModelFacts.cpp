//===- ModelFacts.cpp - what a graph says of itself -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/transforms/ModelFacts.h"

#include "compiler/dialect/IntegerRange.h"
#include "compiler/dialect/Programs.h"
#include "compiler/dialect/TfmDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace tfm;

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
    auto name = forward.getArgAttrOfType<StringAttr>(argument.getArgNumber(),
                                                     "tfm.name");
    if (isIds && name && name.getValue() == "tokens")
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

/// An axis of a value in the user's words, where it has some.
StringRef axisName(Value value, size_t axis) {
  Operation *op = value.getDefiningOp();
  auto words = op ? op->getAttrOfType<DictionaryAttr>("tfm.value") : nullptr;
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

/// The matrix of the last product before the logits.
GetParamOp outputMatrix(func::FuncOp forward) {
  Block &block = forward.getBody().front();
  llvm::DenseSet<Value> dependent(block.args_begin(), block.args_end());
  for (Operation &op : block)
    if (llvm::any_of(op.getOperands(), [&](Value operand) {
          return dependent.contains(operand);
        }))
      dependent.insert(op.result_begin(), op.result_end());
  Operation *end = block.getTerminator();
  if (end->getNumOperands() == 0)
    return nullptr;
  Value value = end->getOperand(0);
  while (Operation *op = value.getDefiningOp()) {
    if (isa<RepeatOp>(op) || !dependent.contains(value))
      return nullptr;
    Value source, other;
    for (Value operand : op->getOperands()) {
      if (!dependent.contains(operand))
        other = operand;
      else if (!source)
        source = operand;
      else
        return nullptr;
    }
    if (isa<MatmulOp>(op))
      return other ? parameterOf(other) : nullptr;
    value = source;
  }
  return nullptr;
}

/// Whether the output layer has the weights of the tokens' embedding; nothing
/// where either of them is something else.
std::optional<bool> isTied(func::FuncOp forward, Value tokens) {
  GetParamOp table;
  for (Operation *user : tokens.getUsers())
    if (auto gather = dyn_cast<GatherOp>(user)) {
      if (table)
        return std::nullopt;
      table = parameterOf(gather.getTable());
      if (!table)
        return std::nullopt;
    }
  GetParamOp output = outputMatrix(forward);
  if (!table || !output)
    return std::nullopt;
  return table.getParam() == output.getParam();
}

} // namespace

std::string tfm::modelFacts(ModuleOp module) {
  llvm::json::Object facts;
  auto forward = findProgram(module, ProgramKind::Forward);
  Value tokens = forward ? sequenceOf(forward) : nullptr;
  if (!tokens)
    return "{}";
  const int64_t batch = tensorType(tokens).getDimSize(0);
  const int64_t length = tensorType(tokens).getDimSize(1);

  Values heads, kvHeads, headWidth, window, softcap, eps, activation, ropeBase,
      ropeDims;
  bool hasWindow = false;
  int64_t attentions = 0;
  StringRef headsName, kvHeadsName;
  forward.walk([&](Operation *op) {
    if (auto attention = dyn_cast<AttentionOp>(op)) {
      attentions += executions(op);
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
      // A mask may hide what is far away, too.
      if (attention.getMask())
        window.forget();
      // One that is as long as the context hides nothing.
      auto limit = attention.getWindow();
      if (limit && static_cast<int64_t>(*limit) < length) {
        window.add(static_cast<int64_t>(*limit));
        hasWindow = true;
      }
      auto cap = attention.getSoftcap();
      softcap.add(cap ? llvm::json::Value(cap->convertToDouble()) : nullptr);
    } else if (auto norm = dyn_cast<NormalizeOp>(op)) {
      eps.add(norm.getEps().convertToDouble());
    } else if (auto norm = dyn_cast<RmsNormalizeOp>(op)) {
      eps.add(norm.getEps().convertToDouble());
    } else if (auto rope = dyn_cast<RopeOp>(op)) {
      if (rope.getFrequencies())
        ropeBase.forget();
      else
        ropeBase.add(rope.getBase().convertToDouble());
      ropeDims.add(static_cast<int64_t>(rope.getDims()));
    }
    // What norms, activations and rotations are made of where the user writes
    // them out: then there may be others than those seen.
    switch (useOf(op)) {
    case FunctionUse::Any:
      break;
    case FunctionUse::Activation:
      activation.add(op->getName().stripDialect());
      break;
    case FunctionUse::PartOfActivation:
      activation.forget();
      break;
    case FunctionUse::PartOfNorm:
      eps.forget();
      break;
    case FunctionUse::PartOfRotation:
      ropeBase.forget();
      ropeDims.forget();
      break;
    }
  });
  if (attentions && !hasWindow)
    window.add(nullptr);

  if (int64_t count = countTokens(module); count < IntegerRange::highest)
    facts["tokens"] = count;
  facts["context"] = length;
  facts["attentions"] = attentions;
  heads.write(facts, "heads");
  kvHeads.write(facts, "kv_heads");
  headWidth.write(facts, "head_width");
  window.write(facts, "window");
  softcap.write(facts, "softcap");
  eps.write(facts, "eps");
  activation.write(facts, "activation");
  ropeBase.write(facts, "rope_base");
  ropeDims.write(facts, "rope_dims");
  if (std::optional<bool> tied = isTied(forward, tokens))
    facts["tied"] = *tied;
  llvm::json::Object names;
  if (!headsName.empty())
    names["heads"] = headsName;
  if (!kvHeadsName.empty())
    names["kv_heads"] = kvHeadsName;
  facts["names"] = std::move(names);
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(std::move(facts));
  return text;
}
