//===- MaskedDropout.cpp - dropout by masks that are inputs ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tests/unit/codegen/MaskedDropout.h"

#include "compiler/dialect/TfmDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <limits>
#include <map>

using namespace mlir;
using namespace tfm;

namespace {

class Masker {
public:
  explicit Masker(func::FuncOp function)
      : function(function), builder(function) {}

  int64_t run() {
    std::map<int64_t, Operation *> sites;
    for (Operation &op : function.getBody().front()) {
      if (auto dropout = dyn_cast<DropoutOp>(op))
        sites[dropout.getSite()] = &op;
      else if (auto attention = dyn_cast<AttentionOp>(op))
        if (attention.getDropout() && !attention.getMask() &&
            !attention.getWindow() && !attention.getSoftcap() &&
            tensorType(attention.getQ()).getShape()[1] ==
                tensorType(attention.getK()).getShape()[1])
          sites[*attention.getSite()] = &op;
    }
    for (auto &[site, op] : sites) {
      builder.setInsertionPoint(op);
      if (auto dropout = dyn_cast<DropoutOp>(op)) {
        Value y = masked(dropout.getX(), dropout.getRate().convertToDouble());
        dropout.replaceAllUsesWith(y);
      } else {
        auto attention = cast<AttentionOp>(op);
        attention.getOut().replaceAllUsesWith(attend(attention));
      }
      op->erase();
    }
    return static_cast<int64_t>(sites.size());
  }

private:
  /// x * mask / (1 - rate), with the mask as a new argument.
  Value masked(Value x, double rate) {
    RankedTensorType type = tensorType(x);
    Block &entry = function.getBody().front();
    Value mask = entry.addArgument(type, x.getLoc());
    function.setType(builder.getFunctionType(entry.getArgumentTypes(),
                                             function.getResultTypes()));
    if (ArrayAttr attrs = function.getArgAttrsAttr()) {
      SmallVector<Attribute> all(attrs.getValue());
      all.resize(entry.getNumArguments(), builder.getDictionaryAttr({}));
      function.setArgAttrsAttr(builder.getArrayAttr(all));
    }
    Location loc = x.getLoc();
    Value kept = MulOp::create(builder, loc, x, mask);
    return MulOp::create(builder, loc, kept,
                         splat(builder, loc, type, 1.0 / (1.0 - rate)));
  }

  /// The definition of attention, with a mask on its weights.
  Value attend(AttentionOp op) {
    Location loc = op.getLoc();
    Value product = MatmulOp::create(builder, loc, op.getQ(), op.getK(),
                                     /*transpose_a=*/false,
                                     /*transpose_b=*/true);
    RankedTensorType type = tensorType(product);
    Value scores = MulOp::create(
        builder, loc, product,
        splat(builder, loc, type, op.getScale().convertToDouble()));
    if (op.getCausal()) {
      auto index = RankedTensorType::get(type.getShape(), builder.getI32Type());
      Value query = IotaOp::create(builder, loc, index, 2);
      Value key = IotaOp::create(builder, loc, index, 3);
      Value sees = CompareOp::create(builder, loc, CompareKind::le, key, query);
      Value unseen =
          splat(builder, loc, type, -std::numeric_limits<double>::infinity());
      scores = SelectOp::create(builder, loc, sees, scores, unseen);
    }
    Value weights = SoftmaxOp::create(builder, loc, scores);
    weights = masked(weights, op.getDropout()->convertToDouble());
    return MatmulOp::create(builder, loc, weights, op.getV());
  }

  func::FuncOp function;
  OpBuilder builder;
};

} // namespace

int64_t tfm::maskDropout(ModuleOp module) {
  return Masker(module.lookupSymbol<func::FuncOp>("loss")).run();
}
