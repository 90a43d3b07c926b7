//===- TfmOps.cpp - generated definitions, parameters and repeats ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/TfmDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace tfm;

/// `accumulate f64`, where that is not what operands of their type are added up
/// in.
static ParseResult parseAccumulator(OpAsmParser &parser, TypeAttr &accumulator,
                                    Type operand) {
  Type type = arithmeticType(getElementTypeOrSelf(operand));
  if (succeeded(parser.parseOptionalKeyword("accumulate")) &&
      failed(parser.parseType(type)))
    return failure();
  accumulator = TypeAttr::get(type);
  return success();
}
static void printAccumulator(OpAsmPrinter &printer, Operation *,
                             TypeAttr accumulator, Type operand) {
  if (accumulator.getValue() != arithmeticType(getElementTypeOrSelf(operand)))
    printer << " accumulate " << accumulator.getValue();
}

Type tfm::arithmeticType(Type element) {
  if (element.isBF16())
    return Float32Type::get(element.getContext());
  return element.isInteger(8) ? IntegerType::get(element.getContext(), 32)
                              : element;
}

#define GET_OP_CLASSES
#include "compiler/dialect/TfmOps.cpp.inc"

RankedTensorType UnpackOp::panelsOf(RankedTensorType type, int64_t outputs) {
  SmallVector<int64_t> shape(type.getShape());
  int64_t terms = shape.pop_back_val(), all = shape.pop_back_val();
  shape.append({(all + outputs - 1) / outputs,
                (terms + termsTogether - 1) / termsTogether, outputs,
                termsTogether});
  return type.clone(shape);
}

RankedTensorType ParamOp::getTensorType() {
  return cast<RankedTensorType>(getType());
}

int64_t MatmulOp::getTerms() {
  RankedTensorType a = tensorType(getA());
  return a.getDimSize(a.getRank() - (getTransposeA() ? 2 : 1));
}

int64_t ParamOp::getNumStackedDims() {
  return static_cast<int64_t>(getSymName().count('*'));
}

double ParamOp::getRateOrOne() {
  return getRate() ? getRate()->convertToDouble() : 1.0;
}

SmallVector<double> ParamOp::getInitArgs() {
  SmallVector<double> numbers;
  if (auto args = getInit().getAs<ArrayAttr>("args"))
    for (Attribute arg : args) {
      auto real = dyn_cast<FloatAttr>(arg);
      numbers.push_back(real ? real.getValueAsDouble()
                             : cast<IntegerAttr>(arg).getValue().roundToDouble(
                                   /*isSigned=*/true));
    }
  return numbers;
}

SmallVector<std::string> ParamOp::getLayerNames() {
  SmallVector<std::string> result;
  if (std::optional<ArrayAttr> names = getNames()) {
    for (Attribute name : *names)
      result.push_back(cast<StringAttr>(name).getValue().str());
    return result;
  }
  result.push_back("");
  SmallVector<StringRef> pieces;
  getSymName().split(pieces, '*');
  ArrayRef<int64_t> shape = getTensorType().getShape();
  for (auto [i, piece] : llvm::enumerate(pieces)) {
    if (i == 0) {
      result[0] = piece.str();
      continue;
    }
    SmallVector<std::string> next;
    for (const std::string &prefix : result)
      for (int64_t layer = 0; layer < shape[i - 1]; ++layer)
        next.push_back(prefix + std::to_string(layer) + piece.str());
    result = std::move(next);
  }
  return result;
}

YieldOp RepeatOp::getYield() {
  return cast<YieldOp>(getBlock()->getTerminator());
}

BlockArgument RepeatOp::addStacked(Value operand, bool isChosen) {
  SmallVector<Value> stacked(getStacked());
  size_t behind = stacked.size() - (isChosen ? getUpdated() : getChosen());
  stacked.insert(stacked.begin() + behind, operand);
  getStackedMutable().assign(stacked);
  setChosen(getChosen() + isChosen);
  auto type = cast<RankedTensorType>(operand.getType());
  return getBlock()->insertArgument(1 + getCarried().size() + behind,
                                    type.clone(type.getShape().drop_front()),
                                    operand.getLoc());
}
