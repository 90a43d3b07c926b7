//===- CombineUpdate.cpp - one update over the arena's regions ------------===//
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

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

namespace tfm {
#define GEN_PASS_DEF_COMBINEUPDATEPASS
#include "compiler/transforms/Passes.h.inc"
} // namespace tfm

using namespace mlir;
using namespace tfm;

namespace {

/// Clones the body of an update over flat tensors for tensors of another shape:
/// it is elementwise but for its scalars. Returns what it returns.
SmallVector<Value> inlineUpdate(OpBuilder &b, func::FuncOp update,
                                ValueRange arguments) {
  Block &body = update.getBody().front();
  Type flat = body.getArgument(0).getType();
  auto shaped = cast<RankedTensorType>(arguments.front().getType());
  IRMapping mapping;
  mapping.map(body.getArguments(), arguments);
  for (Operation &op : body.without_terminator()) {
    Operation *copy = b.clone(op, mapping);
    // Of the hyperparameters, which have one element; so may a range.
    if (isa<SliceOp>(op))
      continue;
    for (auto [from, to] : llvm::zip_equal(op.getResults(), copy->getResults()))
      if (from.getType() == flat)
        to.setType(shaped);
    if (auto constant = dyn_cast<ConstantOp>(copy);
        constant && constant.getType() == shaped)
      constant.setValueAttr(
          cast<DenseElementsAttr>(constant.getValue()).resizeSplat(shaped));
  }
  SmallVector<Value> results;
  for (Value value : body.getTerminator()->getOperands())
    results.push_back(mapping.lookup(value));
  return results;
}

struct CombineUpdatePass : tfm::impl::CombineUpdatePassBase<CombineUpdatePass> {
  using CombineUpdatePassBase::CombineUpdatePassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<std::optional<Optimizer>> optimizer = Optimizer::read(module);
    if (failed(optimizer))
      return signalPassFailure();
    if (!*optimizer)
      return;
    FailureOr<int64_t> steps = microSteps(module);
    if (failed(steps))
      return signalPassFailure();
    bool keepsRows = *steps > 1 && !(devices && sumsAsTree(module));
    combine(module, **optimizer, keepsRows);
  }

  /// One region of parameters, and its update.
  struct Range {
    func::FuncOp update;
    ArenaRegion::Part part;
    RankedTensorType type;
  };

  /// Makes of a range's update one of as many rows as `regionBlock` says, from
  /// that of the number `row` on.
  void updateRows(Range &range, const Optimizer &optimizer, bool makesCopies) {
    MLIRContext *context = &getContext();
    Type f32 = Float32Type::get(context), bf16 = BFloat16Type::get(context);
    auto type = RankedTensorType::get(
        {regionBlock(range.type.getNumElements()), kRegionRow},
        range.type.getElementType());
    SmallVector<ArenaRegion::Kind> state;
    for (int i = 0; i < optimizer.numStates(); ++i)
      state.push_back(ArenaRegion::state(i));
    // The number comes before what it chooses from.
    SmallVector<Type> inputs = {
        RankedTensorType::get({1}, IntegerType::get(context, 32)),
        RankedTensorType::get({4}, f32), RankedTensorType::get({}, f32)};
    SmallVector<ArenaRegion::Kind> read = {ArenaRegion::Kind::Parameters,
                                           ArenaRegion::Kind::Gradients};
    SmallVector<ArenaRegion::Kind> written = {ArenaRegion::Kind::Parameters};
    llvm::append_range(read, state);
    llvm::append_range(written, state);
    SmallVector<Type> results(written.size(), type);
    if (makesCopies) {
      written.push_back(ArenaRegion::Kind::Copies);
      results.push_back(type.clone(bf16));
    }
    size_t firstRegion = inputs.size();
    inputs.append(read.size(), type);
    OpBuilder builder(range.update);
    Location loc = range.update.getLoc();
    auto function = func::FuncOp::create(
        builder, loc, "rows", builder.getFunctionType(inputs, results));
    for (auto [i, name] :
         llvm::enumerate(ArrayRef<StringRef>{"row", "hyper", "scale"}))
      function.setArgAttr(i, "tfm.name", builder.getStringAttr(name));
    function.setArgAttr(0, "tfm.row", builder.getUnitAttr());
    for (auto [i, kind] : llvm::enumerate(read))
      ArenaRegion::ofParameters(kind, range.part)
          .setArgument(function, firstRegion + i);
    for (auto [i, kind] : llvm::enumerate(written))
      ArenaRegion::ofParameters(kind, range.part).setResult(function, i);

    Block *block = function.addEntryBlock();
    builder.setInsertionPointToStart(block);
    TfmBuilder b{builder, loc};
    SmallVector<Value> arguments(block->getArguments().drop_front(firstRegion));
    arguments.resize(4, b.zeros(arguments.front()));
    arguments.append({block->getArgument(1), block->getArgument(2)});
    SmallVector<Value> next = inlineUpdate(builder, range.update, arguments);
    SmallVector<Value> returned(next.begin(), next.begin() + 1 + state.size());
    if (makesCopies)
      returned.push_back(b.cast(next.front(), bf16));
    func::ReturnOp::create(builder, loc, returned);
    std::string name = range.update.getSymName().str();
    range.update.erase();
    function.setSymName(name);
  }

  void combine(ModuleOp module, const Optimizer &optimizer, bool keepsRows) {
    Type f32 = Float32Type::get(&getContext()),
         bf16 = BFloat16Type::get(&getContext());
    // In its one pass over memory it also writes what `@refresh` would.
    bool makesCopies = findProgram(module, ProgramKind::Refresh) != nullptr;
    SmallVector<Range> ranges;
    RegionSizes sizes = regionSizes(module, optimizer.decayMinRank);
    for (auto [part, kind, size] :
         {std::tuple(ArenaRegion::Part::Decayed, ProgramKind::UpdateDecayed,
                     sizes.decayed),
          std::tuple(ArenaRegion::Part::Plain, ProgramKind::UpdatePlain,
                     sizes.plain)})
      if (auto update = findProgram(module, kind))
        ranges.push_back({update, part,
                          RankedTensorType::get({size / kRegionRow, kRegionRow},
                                                typeOfParameters(module))});
    auto hyperType = RankedTensorType::get({4}, f32);
    auto scalar = RankedTensorType::get({}, f32);

    SmallVector<Type> inputs, results;
    SmallVector<ArenaRegion> inputRegions, resultRegions;
    SmallVector<ArenaRegion::Kind> state;
    for (int i = 0; i < optimizer.numStates(); ++i)
      state.push_back(ArenaRegion::state(i));
    for (Range &range : ranges) {
      auto region = [&](ArenaRegion::Kind kind) {
        return ArenaRegion::ofParameters(kind, range.part);
      };
      inputRegions.push_back(region(ArenaRegion::Kind::Parameters));
      inputRegions.push_back(region(ArenaRegion::Kind::Gradients));
      resultRegions.push_back(region(ArenaRegion::Kind::Parameters));
      for (ArenaRegion::Kind kind : state) {
        inputRegions.push_back(region(kind));
        resultRegions.push_back(region(kind));
      }
      inputs.append(2 + state.size(), range.type);
      results.append(1 + state.size(), range.type);
      if (makesCopies) {
        resultRegions.push_back(region(ArenaRegion::Kind::Copies));
        results.push_back(range.type.clone(bf16));
      }
    }
    inputs.push_back(hyperType);
    results.push_back(scalar);
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    auto function = func::FuncOp::create(
        builder, module.getLoc(), nameOf(ProgramKind::Update),
        builder.getFunctionType(inputs, results));
    for (auto [i, region] : llvm::enumerate(inputRegions))
      region.setArgument(function, i);
    for (auto [i, region] : llvm::enumerate(resultRegions))
      region.setResult(function, i);
    function.setArgAttr(inputs.size() - 1, "tfm.name",
                        builder.getStringAttr("hyper"));
    function.setResultAttr(results.size() - 1, "tfm.name",
                           builder.getStringAttr("grad_norm"));

    Block *block = function.addEntryBlock();
    builder.setInsertionPointToStart(block);
    TfmBuilder b{builder, module.getLoc()};
    Value hyper = block->getArguments().back();
    size_t perRange = 2 + state.size();
    Value clip =
        b.reshape(SliceOp::create(builder, b.loc, hyper, 0, 3, 1), scalar);
    // A model may have nothing to train.
    SmallVector<Value> gradients;
    for (size_t i = 0; i < ranges.size(); ++i)
      gradients.push_back(block->getArgument(i * perRange + 1));
    Value norm = ranges.empty() ? b.zeros(clip)
                                : SqrtOp::create(builder, b.loc,
                                                 sumOfSquares(b, gradients));
    // PyTorch's clip_grad_norm_ adds 1e-6 as well.
    Value factor = MinOp::create(
        builder, b.loc, b.div(clip, b.plus(norm, 1e-6)), b.constant(norm, 1.0));
    Value scale = b.select(b.compare(CompareKind::gt, clip, b.zeros(clip)),
                           factor, b.constant(norm, 1.0));
    SmallVector<Value> returned;
    for (auto [i, range] : llvm::enumerate(ranges)) {
      auto own = block->getArguments().slice(i * perRange, perRange);
      SmallVector<Value> arguments(own.begin(), own.end());
      // State that the optimizer does not keep goes in and out untouched.
      arguments.resize(4, b.zeros(own.front()));
      arguments.append({hyper, scale});
      SmallVector<Value> next = inlineUpdate(builder, range.update, arguments);
      returned.append(next.begin(), next.begin() + 1 + state.size());
      if (makesCopies)
        returned.push_back(b.cast(next.front(), bf16));
    }
    returned.push_back(norm);
    func::ReturnOp::create(builder, b.loc, returned);
    if (keepsRows && devices && !ranges.empty())
      addSquares(module, ranges);
    for (Range &range : ranges) {
      if (keepsRows)
        updateRows(range, optimizer, makesCopies);
      else
        range.update.erase();
    }
  }

  /// Of all gradients together.
  static Value sumOfSquares(TfmBuilder b, ValueRange gradients) {
    auto scalar = RankedTensorType::get({}, b.builder.getF32Type());
    Value total;
    for (Value g : gradients) {
      Value rows = ReduceSumOp::create(b.builder, b.loc, b.mul(g, g), 1);
      Value sum =
          b.reshape(ReduceSumOp::create(b.builder, b.loc, rows, 0), scalar);
      total = total ? b.add(total, sum) : sum;
    }
    return total;
  }

  /// Makes `@squares`.
  void addSquares(ModuleOp module, ArrayRef<Range> ranges) {
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    SmallVector<Type> inputs;
    for (const Range &range : ranges)
      inputs.push_back(range.type);
    auto function = func::FuncOp::create(
        builder, module.getLoc(), nameOf(ProgramKind::Squares),
        builder.getFunctionType(
            inputs, RankedTensorType::get({}, builder.getF32Type())));
    for (auto [i, range] : llvm::enumerate(ranges))
      ArenaRegion::ofParameters(ArenaRegion::Kind::Gradients, range.part)
          .setArgument(function, i);
    function.setResultAttr(0, "tfm.name", builder.getStringAttr("squares"));
    Block *block = function.addEntryBlock();
    builder.setInsertionPointToStart(block);
    TfmBuilder b{builder, module.getLoc()};
    func::ReturnOp::create(builder, b.loc,
                           sumOfSquares(b, block->getArguments()));
  }
};

} // namespace
