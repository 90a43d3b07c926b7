//===- Differentiate.cpp - add @train -------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/Attributes.h"
#include "compiler/dialect/Programs.h"
#include "compiler/dialect/ReverseSweep.h"
#include "compiler/transforms/Passes.h"
#include "compiler/transforms/ReadRecipe.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

namespace tfm {
#define GEN_PASS_DEF_DIFFERENTIATEPASS
#include "compiler/transforms/Passes.h.inc"
} // namespace tfm

using namespace mlir;
using namespace tfm;

namespace {

struct DifferentiatePass : tfm::impl::DifferentiatePassBase<DifferentiatePass> {
  void runOnOperation() override {
    auto loss = findProgram(getOperation(), ProgramKind::Loss);
    FailureOr<Type> weights = weightsOfGeneration(getOperation());
    if (failed(weights))
      return signalPassFailure();
    if (!loss || !weights->isF32() ||
        findProgram(getOperation(), ProgramKind::Train))
      return;
    if (loss.getNumResults() == 0 ||
        loss.getResultTypes().front() !=
            RankedTensorType::get({}, Float32Type::get(&getContext()))) {
      loss.emitError("the first result of @loss is not tensor<f32>");
      return signalPassFailure();
    }
    auto train = cast<func::FuncOp>(loss->clone());
    train.setSymName(nameOf(ProgramKind::Train));
    train->removeAttr(shapesAttribute);
    getOperation().insert(std::next(loss->getIterator()), train);
    if (failed(addGradients(train)))
      signalPassFailure();
  }

  LogicalResult addGradients(func::FuncOp train) {
    Block &block = train.getBody().front();
    Operation *end = block.getTerminator();
    OpBuilder builder(end);
    ReverseSweep sweep(builder);

    llvm::DenseMap<StringAttr, SmallVector<Value>> uses;
    auto params = llvm::to_vector(getOperation().getOps<ParamOp>());
    llvm::erase_if(params, [](ParamOp param) { return !param.getTrainable(); });
    for (ParamOp param : params)
      uses.try_emplace(param.getSymNameAttr());
    for (auto get : block.getOps<GetParamOp>()) {
      auto found = uses.find(get.getParamAttr().getAttr());
      if (found == uses.end())
        continue;
      found->second.push_back(get);
      sweep.activate(get);
    }
    sweep.propagateActivity(block);
    Value result = end->getOperand(0);
    sweep.accumulate(result,
                     splat(builder, result.getLoc(), tensorType(result), 1.0));
    if (failed(sweep.run(block)))
      return failure();

    SmallVector<Value> results(end->getOperands());
    SmallVector<Type> types(train.getResultTypes());
    for (ParamOp param : params) {
      Value gradient;
      for (Value use : uses[param.getSymNameAttr()]) {
        Value term = sweep.cotangent(use);
        if (!term)
          continue;
        gradient = gradient
                       ? AddOp::create(builder, param.getLoc(), gradient, term)
                             .getResult()
                       : term;
      }
      if (!gradient)
        gradient = splat(builder, param.getLoc(), param.getTensorType(), 0.0);
      results.push_back(gradient);
      types.push_back(gradient.getType());
    }
    size_t numOwn = end->getNumOperands();
    end->setOperands(results);
    train.setType(builder.getFunctionType(train.getArgumentTypes(), types));
    if (ArrayAttr attrs = train.getResAttrsAttr()) {
      SmallVector<Attribute> all(attrs.getValue());
      all.resize(types.size(), builder.getDictionaryAttr({}));
      train.setResAttrsAttr(builder.getArrayAttr(all));
    }
    for (auto [i, param] : llvm::enumerate(params))
      train.setResultAttr(numOwn + i, gradientAttribute,
                          FlatSymbolRefAttr::get(param.getSymNameAttr()));
    eraseDeadOps(block);
    return success();
  }
};

} // namespace
