//===- CombineUpdate.cpp - one update over the arena's regions ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/Attributes.h"
#include "compiler/dialect/Programs.h"
#include "compiler/dialect/TfmBuilder.h"
#include "compiler/transforms/ParameterRegions.h"
#include "compiler/transforms/Passes.h"
#include "compiler/transforms/ReadRecipe.h"
#include "runtime/tfm_model.h"

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

/// What the learning rates of a region's rows are multiplied by, as many as
/// `type` has, from `row` on.
Value ratesOf(TfmBuilder b, const ParameterRegions::Region &region, Value row,
              RankedTensorType type) {
  auto column =
      RankedTensorType::get({type.getDimSize(0), 1}, b.builder.getI32Type());
  Value rows = IotaOp::create(b.builder, b.loc, column, 0);
  if (row) {
    auto scalar = RankedTensorType::get({}, column.getElementType());
    rows = b.add(rows, b.broadcast(b.reshape(row, scalar), column));
  }
  Value rates;
  for (const auto &range : region.ranges) {
    Value rate = splat(b.builder, b.loc, column.clone(type.getElementType()),
                       range.rate);
    rates = !rates ? rate
                   : b.select(b.compare(CompareKind::ge, rows,
                                        b.constant(rows, range.firstRow)),
                              rate, rates);
  }
  return b.broadcast(rates, type);
}

/// Of all gradients together.
Value sumOfSquares(TfmBuilder b, ValueRange gradients) {
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

/// What gradients of that norm are multiplied by so that it is at most `clip`;
/// 1 where that is 0.
Value clipScale(TfmBuilder b, Value norm, Value clip) {
  // PyTorch's clip_grad_norm_ adds 1e-6 as well.
  Value factor = MinOp::create(
      b.builder, b.loc, b.div(clip, b.plus(norm, 1e-6)), b.constant(norm, 1.0));
  return b.select(b.compare(CompareKind::gt, clip, b.zeros(clip)), factor,
                  b.constant(norm, 1.0));
}

/// Makes of the updates of flat tensors those of the arena's regions.
class UpdateCombiner {
public:
  UpdateCombiner(ModuleOp module, const Optimizer &optimizer);

  /// Makes `@update`, of all regions.
  void addUpdate();
  /// Makes `@squares`, where there are gradients.
  void addSquares();
  /// Makes of each range's update one of as many rows as `regionBlock` says,
  /// from that of the number `row` on.
  void updateRows();
  /// Erases them instead.
  void eraseParts();

private:
  /// One region of parameters, and its update.
  struct Range {
    func::FuncOp update;
    ArenaRegion::Part part;
    RankedTensorType type;
    ParameterRegions::Region region;
  };

  func::FuncOp declareUpdate();
  void updateRows(Range &range);
  /// The types of what is written of a range, where its rows are of a type.
  SmallVector<Type> typesWritten(RankedTensorType type) const;
  /// Says of arguments and results from these on which regions they are.
  void setRegions(func::FuncOp function, const Range &range, size_t argument,
                  size_t result) const;
  /// What is written of a range, given what is read of it; `row`, of one
  /// element, is the first of its rows that are there, null for all.
  SmallVector<Value> next(TfmBuilder b, const Range &range, ValueRange own,
                          Value hyper, Value scale, Value row = Value()) const;

  ModuleOp module;
  OpBuilder builder;
  SmallVector<Range> ranges;
  /// In its one pass over memory an update also writes what `@refresh` would.
  bool makesCopies;
  /// The regions of a range, as they stand in arguments and results.
  SmallVector<ArenaRegion::Kind> read, written;
  RankedTensorType scalar, hyperType;
};

UpdateCombiner::UpdateCombiner(ModuleOp module, const Optimizer &optimizer)
    : module(module), builder(module.getContext()),
      makesCopies(findProgram(module, ProgramKind::Refresh) != nullptr),
      read{ArenaRegion::Kind::Parameters, ArenaRegion::Kind::Gradients},
      written{ArenaRegion::Kind::Parameters},
      scalar(RankedTensorType::get({}, builder.getF32Type())),
      hyperType(RankedTensorType::get({4}, builder.getF32Type())) {
  for (int i = 0; i < optimizer.numStates(); ++i) {
    read.push_back(ArenaRegion::state(i));
    written.push_back(ArenaRegion::state(i));
  }
  if (makesCopies)
    written.push_back(ArenaRegion::Kind::Copies);
  ParameterRegions regions = parameterRegions(module, optimizer.decayMinRank);
  for (auto &[part, kind, region] :
       {std::tuple(ArenaRegion::Part::Decayed, ProgramKind::UpdateDecayed,
                   regions.decayed),
        std::tuple(ArenaRegion::Part::Plain, ProgramKind::UpdatePlain,
                   regions.plain)})
    if (auto update = findProgram(module, kind))
      ranges.push_back(
          {update, part,
           RankedTensorType::get({region.elements / regionRow, regionRow},
                                 typeOfParameters(module)),
           region});
}

SmallVector<Type> UpdateCombiner::typesWritten(RankedTensorType type) const {
  SmallVector<Type> types(written.size(), type);
  if (makesCopies)
    types.back() = type.clone(BFloat16Type::get(type.getContext()));
  return types;
}

void UpdateCombiner::setRegions(func::FuncOp function, const Range &range,
                                size_t argument, size_t result) const {
  for (auto [i, kind] : llvm::enumerate(read))
    ArenaRegion::ofParameters(kind, range.part)
        .setArgument(function, argument + i);
  for (auto [i, kind] : llvm::enumerate(written))
    ArenaRegion::ofParameters(kind, range.part).setResult(function, result + i);
}

SmallVector<Value> UpdateCombiner::next(TfmBuilder b, const Range &range,
                                        ValueRange own, Value hyper,
                                        Value scale, Value row) const {
  SmallVector<Value> arguments(own.begin(), own.end());
  // State that the optimizer does not keep goes in and out untouched.
  arguments.resize(4, b.zeros(own.front()));
  arguments.append({hyper, scale});
  if (range.region.hasRates())
    arguments.push_back(ratesOf(b, range.region, row,
                                cast<RankedTensorType>(own[0].getType())));
  SmallVector<Value> values = inlineUpdate(b.builder, range.update, arguments);
  values.truncate(written.size() - (makesCopies ? 1 : 0));
  if (makesCopies)
    values.push_back(b.cast(values.front(), b.builder.getBF16Type()));
  return values;
}

func::FuncOp UpdateCombiner::declareUpdate() {
  SmallVector<Type> inputs, results;
  for (const Range &range : ranges) {
    inputs.append(read.size(), range.type);
    llvm::append_range(results, typesWritten(range.type));
  }
  inputs.push_back(hyperType);
  results.push_back(scalar);
  builder.setInsertionPointToEnd(module.getBody());
  auto function = func::FuncOp::create(
      builder, module.getLoc(), nameOf(ProgramKind::Update),
      builder.getFunctionType(inputs, results));
  for (auto [i, range] : llvm::enumerate(ranges))
    setRegions(function, range, i * read.size(), i * written.size());
  nameArgument(function, inputs.size() - 1, TFM_IN_HYPER);
  nameResult(function, results.size() - 1, TFM_OUT_GRAD_NORM);
  return function;
}

void UpdateCombiner::addUpdate() {
  func::FuncOp function = declareUpdate();
  Block *block = function.addEntryBlock();
  builder.setInsertionPointToStart(block);
  TfmBuilder b{builder, module.getLoc()};
  Value hyper = block->getArguments().back();
  Value clip =
      b.reshape(SliceOp::create(builder, b.loc, hyper, 0, 3, 1), scalar);
  auto regionsOf = [&](size_t range) {
    return block->getArguments().slice(range * read.size(), read.size());
  };
  SmallVector<Value> gradients;
  for (size_t i = 0; i < ranges.size(); ++i)
    gradients.push_back(regionsOf(i)[1]);
  // A model may have nothing to train.
  Value norm = ranges.empty()
                   ? b.zeros(clip)
                   : SqrtOp::create(builder, b.loc, sumOfSquares(b, gradients));
  Value scale = clipScale(b, norm, clip);
  SmallVector<Value> returned;
  for (auto [i, range] : llvm::enumerate(ranges))
    llvm::append_range(returned, next(b, range, regionsOf(i), hyper, scale));
  returned.push_back(norm);
  func::ReturnOp::create(builder, b.loc, returned);
}

void UpdateCombiner::addSquares() {
  if (ranges.empty())
    return;
  builder.setInsertionPointToEnd(module.getBody());
  SmallVector<Type> inputs;
  for (const Range &range : ranges)
    inputs.push_back(range.type);
  auto function = func::FuncOp::create(builder, module.getLoc(),
                                       nameOf(ProgramKind::Squares),
                                       builder.getFunctionType(inputs, scalar));
  for (auto [i, range] : llvm::enumerate(ranges))
    ArenaRegion::ofParameters(ArenaRegion::Kind::Gradients, range.part)
        .setArgument(function, i);
  nameResult(function, 0, TFM_OUT_SQUARES);
  Block *block = function.addEntryBlock();
  builder.setInsertionPointToStart(block);
  TfmBuilder b{builder, module.getLoc()};
  func::ReturnOp::create(builder, b.loc,
                         sumOfSquares(b, block->getArguments()));
}

void UpdateCombiner::updateRows() {
  for (Range &range : ranges)
    updateRows(range);
}

void UpdateCombiner::updateRows(Range &range) {
  auto type = RankedTensorType::get(
      {regionBlock(range.type.getNumElements()), regionRow},
      range.type.getElementType());
  // The number comes before what it chooses from.
  SmallVector<Type> inputs = {RankedTensorType::get({1}, builder.getI32Type()),
                              hyperType, scalar};
  size_t firstRegion = inputs.size();
  inputs.append(read.size(), type);
  builder.setInsertionPoint(range.update);
  Location loc = range.update.getLoc();
  auto function =
      func::FuncOp::create(builder, loc, "rows",
                           builder.getFunctionType(inputs, typesWritten(type)));
  for (auto [i, name] : llvm::enumerate(
           ArrayRef<StringRef>{TFM_IN_ROW, TFM_IN_HYPER, TFM_IN_SCALE}))
    nameArgument(function, i, name);
  function.setArgAttr(0, rowAttribute, builder.getUnitAttr());
  setRegions(function, range, firstRegion, 0);

  Block *block = function.addEntryBlock();
  builder.setInsertionPointToStart(block);
  TfmBuilder b{builder, loc};
  func::ReturnOp::create(builder, loc,
                         next(b, range,
                              block->getArguments().drop_front(firstRegion),
                              block->getArgument(1), block->getArgument(2),
                              block->getArgument(0)));
  std::string name = range.update.getSymName().str();
  range.update.erase();
  function.setSymName(name);
}

void UpdateCombiner::eraseParts() {
  for (Range &range : ranges)
    range.update.erase();
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
    UpdateCombiner combiner(module, **optimizer);
    combiner.addUpdate();
    bool keepsRows = *steps > 1 && !(devices && sumsAsTree(module));
    if (!keepsRows)
      return combiner.eraseParts();
    if (devices)
      combiner.addSquares();
    combiner.updateRows();
  }
};

} // namespace
