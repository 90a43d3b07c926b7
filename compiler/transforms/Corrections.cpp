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
};

/// A term `scale * (input @ factors[0] @ factors[1] ...)` of a sum.
struct Term {
  Value input;
  double scale = 1;
  llvm::SmallVector<Factor, 2> factors;
};

/// The parameter that is the value of nothing but this: of a layer, its slice.
ParamOp onlyParamOf(Value value, func::FuncOp forward) {
  while (value.hasOneUse()) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      auto repeat = dyn_cast<RepeatOp>(argument.getOwner()->getParentOp());
      if (!repeat || !llvm::is_contained(repeat.getStackedArgs(), argument))
        return nullptr;
      unsigned first = repeat.getStackedArgs().front().getArgNumber();
      value = repeat.getStacked()[argument.getArgNumber() - first];
      continue;
    }
    auto get = value.getDefiningOp<GetParamOp>();
    if (!get)
      return nullptr;
    unsigned reads = 0;
    forward.walk([&](GetParamOp other) {
      reads += other.getParamAttr() == get.getParamAttr();
    });
    return reads == 1 ? SymbolTable::lookupNearestSymbolFrom<ParamOp>(
                            get, get.getParamAttr())
                      : nullptr;
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
  if (transpose && !transpose->hasOneUse())
    return std::nullopt;
  ParamOp param = onlyParamOf(transpose ? transpose.getX() : matrix, forward);
  if (!param)
    return std::nullopt;
  return Factor{param, transpose != nullptr};
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
    } else if (std::optional<double> scale = factorOf(op)) {
      value = op->getOperand(constantOf(op->getOperand(0)) ? 1 : 0);
      term.scale *= *scale;
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

/// The corrections of `base` among the terms of the same sum.
void write(const Term &base, llvm::ArrayRef<const Term *> added,
           llvm::json::Array &list) {
  const Factor &weight = base.factors[0];
  ParamOp param = weight.param;
  auto layers = param.getLayerNames();
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    llvm::json::Array terms;
    for (const Term *term : added) {
      llvm::json::Array factors;
      for (const Factor &factor : term->factors) {
        ParamOp own = factor.param;
        factors.push_back(
            llvm::json::Object{{"name", own.getLayerNames()[layer]},
                               {"transposed", factor.transposed}});
      }
      terms.push_back(llvm::json::Object{{"scale", term->scale / base.scale},
                                         {"factors", std::move(factors)}});
    }
    list.push_back(llvm::json::Object{{"weight", layers[layer]},
                                      {"transposed", weight.transposed},
                                      {"terms", std::move(terms)}});
  }
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
      if (base.factors.size() != 1 || base.scale == 0)
        continue;
      auto isBeside = [&](const Term &term) {
        return &term != &base && term.input == base.input &&
               !term.factors.empty();
      };
      llvm::SmallVector<const Term *> added;
      bool isAlone = true;
      for (const Term &term : terms) {
        if (!isBeside(term))
          continue;
        isAlone &= term.factors.size() > 1;
        // Of the same layers.
        bool fits = llvm::all_of(term.factors, [&](Factor factor) {
          return factor.param.getLayerNames().size() ==
                 ParamOp(base.factors[0].param).getLayerNames().size();
        });
        if (fits)
          added.push_back(&term);
      }
      if (isAlone && !added.empty())
        write(base, added, list);
    }
  });
  return list;
}
