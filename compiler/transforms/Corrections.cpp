//===- Corrections.cpp - low-rank corrections of products -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/transforms/Corrections.h"

#include "compiler/dialect/TfmDialect.h"
#include "compiler/transforms/ModelFacts.h"

#include "mlir/IR/SymbolTable.h"

using namespace mlir;
using namespace tfm;

namespace {

/// A parameter as a matrix of a product.
struct Factor {
  ParamOp param;
  bool transposed = false;
  bool isShared = false; ///< something else reads it, too
};

/// One number of all layers, or one of each.
using Scales = llvm::SmallVector<double, 1>;

double scaleOf(const Scales &scales, size_t layer) {
  return scales.size() == 1 ? scales[0] : scales[layer];
}

/// A term `scale * (input @ factors[0] @ factors[1] ...)` of a sum.
struct Term {
  Value input;
  Scales scales = {1};
  llvm::SmallVector<Factor, 2> factors;
};

/// What a value of a layer is a slice of.
struct Stack {
  Value value;           ///< null where it is something else of a repeat
  bool isShared = false; ///< something else reads it, too
};

Stack stackOf(Value value) {
  Stack stack{value};
  while (true) {
    stack.isShared |= !stack.value.hasOneUse();
    auto argument = dyn_cast<BlockArgument>(stack.value);
    if (!argument)
      return stack;
    auto repeat = dyn_cast<RepeatOp>(argument.getOwner()->getParentOp());
    if (!repeat || !llvm::is_contained(repeat.getStackedArgs(), argument))
      return {};
    unsigned first = repeat.getStackedArgs().front().getArgNumber();
    stack.value = repeat.getStacked()[argument.getArgNumber() - first];
  }
}

/// The numbers that a value is, all elements alike.
std::optional<Scales> numbersOf(Value value) {
  if (std::optional<double> number = floatSplat(value))
    return Scales{*number};
  if (auto broadcast = value.getDefiningOp<BroadcastOp>())
    value = broadcast.getX();
  Value stack =
      tensorType(value).getRank() == 0 ? stackOf(value).value : nullptr;
  auto constant = stack ? stack.getDefiningOp<ConstantOp>() : nullptr;
  auto elements =
      constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : nullptr;
  if (!elements || !isa<FloatType>(elements.getElementType()))
    return std::nullopt;
  Scales numbers;
  for (const APFloat &number : elements.getValues<APFloat>())
    numbers.push_back(number.convertToDouble());
  return numbers;
}

/// Takes the number, or that of each layer, by which an op multiplies or
/// divides into `scales`, and returns what it multiplies; null for other ops.
Value takeScale(Operation *op, Scales &scales) {
  if (!isa<MulOp, DivOp>(op))
    return nullptr;
  for (unsigned i : {1, 0}) {
    std::optional<Scales> numbers = numbersOf(op->getOperand(i));
    if (!numbers || (isa<DivOp>(op) && i == 0))
      continue;
    if (scales.size() == 1)
      scales.resize(numbers->size(), scales[0]);
    if (numbers->size() != 1 && numbers->size() != scales.size())
      return nullptr;
    for (auto [layer, scale] : llvm::enumerate(scales)) {
      double number = scaleOf(*numbers, layer);
      scale *= isa<DivOp>(op) ? 1 / number : number;
    }
    return op->getOperand(1 - i);
  }
  return nullptr;
}

/// The matrix that a product multiplies its rows by.
std::optional<Factor> matrixOf(MatmulOp product, func::FuncOp forward) {
  Value matrix = product.getB();
  if (product.getTransposeA() || product.getTransposeB() ||
      tensorType(matrix).getRank() != 2)
    return std::nullopt;
  auto transpose = matrix.getDefiningOp<TransposeOp>();
  Stack stack = stackOf(transpose ? transpose.getX() : matrix);
  auto get = stack.value ? stack.value.getDefiningOp<GetParamOp>() : nullptr;
  if (!get)
    return std::nullopt;
  unsigned reads = 0;
  forward.walk([&](GetParamOp other) {
    reads += other.getParamAttr() == get.getParamAttr();
  });
  return Factor{
      SymbolTable::lookupNearestSymbolFrom<ParamOp>(get, get.getParamAttr()),
      transpose != nullptr,
      stack.isShared || reads != 1 || !matrix.hasOneUse()};
}

/// Whether a reshape counts rows otherwise, and leaves them as long.
bool keepsRows(ReshapeOp reshape) {
  RankedTensorType from = tensorType(reshape.getX()),
                   to = tensorType(reshape.getResult());
  return from.getRank() > 0 && to.getRank() > 0 &&
         from.getShape().back() == to.getShape().back();
}

/// The products that lead to a value, and nothing else does.
Term termOf(Value value, func::FuncOp forward) {
  Term term;
  while (Operation *op = value.getDefiningOp()) {
    if (auto reshape = dyn_cast<ReshapeOp>(op); reshape && keepsRows(reshape)) {
      value = reshape.getX();
    } else if (isa<DropoutOp>(op)) {
      value = op->getOperand(0);
    } else if (Value scaled = takeScale(op, term.scales)) {
      value = scaled;
    } else if (auto product = dyn_cast<MatmulOp>(op)) {
      std::optional<Factor> factor = matrixOf(product, forward);
      if (!factor)
        break;
      term.factors.insert(term.factors.begin(), *factor);
      value = product.getA();
    } else {
      break;
    }
    // What others read, too, is where products begin.
    if (!value.hasOneUse())
      break;
  }
  term.input = value;
  while (auto reshape = term.input.getDefiningOp<ReshapeOp>())
    if (keepsRows(reshape))
      term.input = reshape.getX();
    else
      break;
  return term;
}

/// What a sum adds up. A sum that others read, too, is one term.
llvm::SmallVector<Term> termsOf(AddOp sum, func::FuncOp forward) {
  llvm::SmallVector<Term> terms;
  llvm::SmallVector<AddOp> sums = {sum};
  while (!sums.empty())
    for (Value operand : sums.pop_back_val()->getOperands()) {
      if (!operand.hasOneUse())
        continue;
      if (auto inner = operand.getDefiningOp<AddOp>())
        sums.push_back(inner);
      else
        terms.push_back(termOf(operand, forward));
    }
  return terms;
}

/// The corrections of `base` by other terms of the same sum.
void write(const Term &base, llvm::ArrayRef<const Term *> added,
           llvm::json::Array &list) {
  const Factor &weight = base.factors[0];
  ParamOp param = weight.param;
  bool isShared = weight.isShared;
  for (const Term *term : added)
    for (const Factor &factor : term->factors)
      isShared |= factor.isShared;
  auto layers = param.getLayerNames();
  llvm::DenseMap<ParamOp, llvm::SmallVector<std::string>> names;
  for (const Term *term : added)
    for (const Factor &factor : term->factors) {
      ParamOp own = factor.param;
      names.try_emplace(own, own.getLayerNames());
    }
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    llvm::json::Array terms;
    for (const Term *term : added) {
      llvm::json::Array factors;
      for (const Factor &factor : term->factors)
        factors.push_back(
            llvm::json::Object{{"name", names.at(factor.param)[layer]},
                               {"transposed", factor.transposed}});
      terms.push_back(llvm::json::Object{
          {"scale", scaleOf(term->scales, layer) / scaleOf(base.scales, layer)},
          {"factors", std::move(factors)}});
    }
    llvm::json::Object all{{"weight", layers[layer]},
                           {"transposed", weight.transposed},
                           {"terms", std::move(terms)}};
    if (isShared)
      all["shared"] = true;
    list.push_back(std::move(all));
  }
}

/// Whether a term has a scale, and matrices, of each of so many layers.
bool isOfLayers(const Term &term, size_t count) {
  return (term.scales.size() == 1 || term.scales.size() == count) &&
         llvm::all_of(term.factors, [&](Factor factor) {
           return factor.param.getLayerNames().size() == count;
         });
}

} // namespace

llvm::json::Array tfm::corrections(func::FuncOp forward) {
  llvm::json::Array list;
  forward.walk([&](AddOp sum) {
    // The outermost of a sum's has all terms.
    if (sum->hasOneUse() && isa<AddOp>(*sum->user_begin()))
      return;
    llvm::SmallVector<Term> terms = termsOf(sum, forward);
    for (const Term &base : terms) {
      if (base.factors.size() != 1 || llvm::is_contained(base.scales, 0))
        continue;
      ParamOp weight = base.factors[0].param;
      size_t layers = weight.getLayerNames().size();
      llvm::SmallVector<const Term *> added;
      bool isAlone = isOfLayers(base, layers);
      for (const Term &term : terms) {
        if (&term == &base || term.input != base.input || term.factors.empty())
          continue;
        // A weight that others read, too, cannot be meant.
        if (term.factors.size() == 1)
          isAlone &= term.factors[0].isShared;
        else if (isOfLayers(term, layers))
          added.push_back(&term);
      }
      if (isAlone && !added.empty())
        write(base, added, list);
    }
  });
  return list;
}
