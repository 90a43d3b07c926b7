//===- AddUpdate.cpp - add the optimizer's step ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/Programs.h"
#include "compiler/dialect/TfmBuilder.h"
#include "compiler/transforms/ParameterRegions.h"
#include "compiler/transforms/Passes.h"
#include "compiler/transforms/ReadRecipe.h"
#include "runtime/tfm_model.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

namespace tfm {
#define GEN_PASS_DEF_ADDUPDATEPASS
#include "compiler/transforms/Passes.h.inc"
} // namespace tfm

using namespace mlir;
using namespace tfm;

namespace {

/// Builds one step over flat tensors of `type`. Numbers that are the same for
/// every element are computed once, as scalars.
struct UpdateBuilder {
  TfmBuilder b;
  const Optimizer &optimizer;
  /// 0 for the range that weight decay leaves alone.
  double decay;
  RankedTensorType type;
  Value p, g, m, v, hyper;
  /// What each parameter's learning rate is multiplied by; null for 1.
  Value rates;

  RankedTensorType scalarType() const {
    return RankedTensorType::get({}, type.getElementType());
  }
  Value hyperparameter(int64_t number) {
    Value slice =
        SliceOp::create(b.builder, b.loc, hyper, /*axis=*/0, number, 1);
    return b.reshape(slice, scalarType());
  }
  Value learningRate() { return hyperparameter(0); }
  Value number(double value) {
    return splat(b.builder, b.loc, scalarType(), value);
  }
  Value each(Value scalar) { return b.broadcast(scalar, type); }
  /// Of a multiple of the learning rate, that of each parameter.
  Value eachRate(Value scalar) {
    return rates ? b.mul(each(scalar), rates) : each(scalar);
  }
  Value sqrt(Value x) { return SqrtOp::create(b.builder, b.loc, x); }

  void sgd() {
    if (decay != 0.0)
      g = b.add(g, b.scale(p, decay));
    if (optimizer.momentum != 0.0) {
      m = b.add(b.scale(m, optimizer.momentum), g);
      g = optimizer.nesterov ? b.add(g, b.scale(m, optimizer.momentum)) : m;
    }
    p = b.sub(p, b.mul(g, eachRate(learningRate())));
  }

  /// What is left where so much of everything decays.
  Value kept(Value share) {
    return rates ? b.sub(each(number(1.0)), eachRate(share))
                 : each(b.sub(number(1.0), share));
  }

  void adam() {
    // Decoupled weight decay (Loshchilov and Hutter 2019), or decay as part of
    // the gradient.
    if (decay != 0.0 && optimizer.kind == Optimizer::Kind::AdamW)
      p = b.mul(p, kept(b.scale(learningRate(), decay)));
    else if (decay != 0.0)
      g = b.add(g, b.scale(p, decay));
    m = b.add(b.scale(m, optimizer.beta1), b.scale(g, 1.0 - optimizer.beta1));
    v = b.add(b.scale(v, optimizer.beta2),
              b.scale(b.mul(g, g), 1.0 - optimizer.beta2));
    Value rate = b.div(learningRate(), hyperparameter(1));
    Value correction = sqrt(hyperparameter(2));
    Value root = sqrt(v);
    if (optimizer.epsBeforeCorrection)
      rate = b.mul(rate, correction);
    else
      root = b.mul(root, each(b.div(number(1.0), correction)));
    p = b.sub(p, b.div(b.mul(m, eachRate(rate)), b.plus(root, optimizer.eps)));
  }
};

struct AddUpdatePass : tfm::impl::AddUpdatePassBase<AddUpdatePass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<std::optional<Optimizer>> optimizer = Optimizer::read(module);
    FailureOr<Type> weights = weightsOfGeneration(module);
    if (failed(optimizer) || failed(weights))
      return signalPassFailure();
    if (!*optimizer || !weights->isF32())
      return;
    ParameterRegions regions =
        parameterRegions(module, (*optimizer)->decayMinRank);
    addUpdate(nameOf(ProgramKind::UpdateDecayed), regions.decayed, **optimizer,
              (*optimizer)->weightDecay);
    addUpdate(nameOf(ProgramKind::UpdatePlain), regions.plain, **optimizer,
              0.0);
  }

  void addUpdate(StringRef name, const ParameterRegions::Region &region,
                 const Optimizer &optimizer, double decay) {
    int64_t size = 0;
    for (const auto &range : region.ranges)
      for (ParamOp param : range.parameters)
        size += param.getTensorType().getNumElements();
    if (size == 0)
      return;
    OpBuilder builder = OpBuilder::atBlockEnd(getOperation().getBody());
    Location loc = getOperation().getLoc();
    Type f32 = builder.getF32Type();
    auto flat = RankedTensorType::get({size}, typeOfParameters(getOperation()));
    auto hyper = RankedTensorType::get({4}, f32);
    auto scalar = RankedTensorType::get({}, f32);
    SmallVector<Type> types = {flat, flat, flat, flat, hyper, scalar};
    SmallVector<const char *> names = {"p", "g",          "m",
                                       "v", TFM_IN_HYPER, TFM_IN_SCALE};
    if (region.hasRates()) {
      types.push_back(flat);
      names.push_back("rates");
    }
    auto function = func::FuncOp::create(
        builder, loc, name, builder.getFunctionType(types, {flat, flat, flat}));
    Block *block = function.addEntryBlock();
    builder.setInsertionPointToStart(block);
    for (auto [i, argument] : llvm::enumerate(names))
      nameArgument(function, i, argument);

    TfmBuilder b{builder, loc};
    Value g =
        b.mul(block->getArgument(1), b.broadcast(block->getArgument(5), flat));
    UpdateBuilder update{b,
                         optimizer,
                         decay,
                         flat,
                         block->getArgument(0),
                         g,
                         block->getArgument(2),
                         block->getArgument(3),
                         block->getArgument(4),
                         region.hasRates() ? block->getArgument(6) : Value()};
    if (optimizer.kind == Optimizer::Kind::Sgd)
      update.sgd();
    else
      update.adam();
    func::ReturnOp::create(builder, loc,
                           ValueRange{update.p, update.m, update.v});
  }
};

} // namespace
