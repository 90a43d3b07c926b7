//===- PermanentBuffers.cpp - what outlives a program ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/schedule/PermanentBuffers.h"

#include "compiler/schedule/Attributes.h"
#include "compiler/schedule/Layouts.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace tfm;
using sched::BufferKind;

/// The axis of a cache that counts texts.
static int64_t rowAxis(RankedTensorType cache) { return cache.getRank() - 4; }

/// Whether attention alone reads a cache, as it is after its update, in
/// repeats, too: its kernels walk any strides.
static bool isOfAttention(Value cache) {
  return llvm::all_of(cache.getUses(), [](OpOperand &use) {
    if (auto repeat = dyn_cast<RepeatOp>(use.getOwner()))
      return isOfAttention(
          repeat.getBlock()->getArgument(1 + use.getOperandNumber()));
    auto kernel = dyn_cast<sched::KernelOp>(use.getOwner());
    return kernel && kernel.getKind() == sched::KernelKind::CacheUpdate;
  });
}

View PermanentBuffers::CacheLayout::view(RankedTensorType type) const {
  int64_t texts = rowAxis(type), positions = texts + 2;
  SmallVector<int64_t> shape(type.getShape());
  shape[texts] = rows;
  SmallVector<int64_t> order;
  // Scales are few, and read many at a time where they lie together.
  if (rows > 1 && isOfAttention && shape.back() > 1) {
    order.assign(llvm::to_vector(llvm::seq<int64_t>(0, texts)));
    order.append({positions, texts, texts + 1, texts + 3});
  }
  return viewInOrder(type.clone(shape), order);
}

PermanentBuffers::PermanentBuffers(ModuleOp module,
                                   const std::optional<Optimizer> &optimizer)
    : b(OpBuilder::atBlockBegin(module.getBody())), loc(module.getLoc()) {
  for (auto function : module.getOps<func::FuncOp>())
    for (BlockArgument argument : function.getArguments())
      if (auto region =
              ArenaRegion::ofArgument(function, argument.getArgNumber());
          region && region->kind == ArenaRegion::Kind::Cache) {
        RankedTensorType type = tensorType(argument);
        CacheLayout &layout = layouts[region->cache];
        layout.rows = std::max(layout.rows, type.getDimSize(rowAxis(type)));
        layout.isOfAttention &= isOfAttention(argument);
      }
  // Nothing decays where nothing trains: matrices come first there.
  Optimizer matricesDecay;
  matricesDecay.decayMinRank = 2;
  Optimizer rule = optimizer.value_or(matricesDecay);
  regions = parameterRegions(module, rule.decayMinRank);
  bool isTrained = findProgram(module, ProgramKind::Train) != nullptr;
  int64_t bytes = 0;
  auto lay = [&](const ParameterRegions::Region &region, bool isDecayed) {
    int64_t begin = bytes;
    int64_t widest = 1;
    for (const auto &range : region.ranges) {
      if (isTrained)
        bytes = begin + range.firstRow * regionRow * widest;
      for (ParamOp param : range.parameters) {
        int64_t size = elementBytes(param.getTensorType().getElementType());
        offsets[param.getSymName()] = {param, bytes};
        param->setAttr(offsetAttribute, b.getI64IntegerAttr(bytes));
        if (isDecayed)
          param->setAttr(decayedAttribute, b.getUnitAttr());
        bytes += paddedElements(param) * size;
        widest = std::max(widest, size);
      }
    }
    // Nothing walks them as regions where they are of several types.
    bytes = isTrained ? begin + region.elements * widest
                      : llvm::alignTo(bytes, regionRow * widest);
  };
  lay(regions.decayed, true);
  lay(regions.plain, false);
  lay(regions.frozen, false);
  parameters = add(BufferKind::Parameter, "parameters", bytes);
  bool hasCopies = findProgram(module, ProgramKind::Refresh) != nullptr;
  if (!hasCopies && !isTrained)
    return;
  Type element = typeOfParameters(module);
  int64_t size = element ? elementBytes(element) : 1;
  if (hasCopies)
    copies = add(BufferKind::ParameterCopy, "copies",
                 bytes / size * elementBytes(b.getBF16Type()));
  if (!isTrained)
    return;
  gradients = add(BufferKind::Gradient, "gradients", regions.trained() * size);
  if (findProgram(module, ProgramKind::UpdateDecayed) ||
      findProgram(module, ProgramKind::UpdatePlain)) {
    module->setAttr(
        regionRowsAttribute,
        b.getDenseI64ArrayAttr({regions.decayed.elements / regionRow,
                                regions.plain.elements / regionRow}));
    module->setAttr(
        regionBlocksAttribute,
        b.getDenseI64ArrayAttr({regionBlock(regions.decayed.elements),
                                regionBlock(regions.plain.elements)}));
  }
  // No program has to do with them: the runtime adds them up.
  for (int64_t i = 0; i < waitingSums(module); ++i)
    add(BufferKind::Gradient, "sum" + std::to_string(i),
        regions.trained() * size);
  int states = optimizer ? optimizer->numStates() : 0;
  for (int i = 0; i < states; ++i)
    state[i] = add(BufferKind::State, "state" + std::to_string(i),
                   regions.trained() * size);
}

Value PermanentBuffers::add(BufferKind kind, StringRef name, int64_t bytes,
                            ElementsAttr value) {
  if (last)
    b.setInsertionPointAfter(last);
  auto type = MemRefType::get({bytes}, b.getIntegerType(8));
  auto buffer = sched::BufferOp::create(
      b, loc, type, sched::BufferKindAttr::get(b.getContext(), kind),
      b.getStringAttr(name), value, IntegerAttr(), DenseI64ArrayAttr());
  last = buffer;
  return buffer;
}

View PermanentBuffers::ofParameter(StringRef name, Type element,
                                   Value region) const {
  auto known = offsets.find(name);
  assert(known != offsets.end() && "an unknown parameter");
  auto [param, offset] = known->second;
  RankedTensorType type = ParamOp(param).getTensorType();
  View view = contiguousView(type.clone(element), region);
  view.offset =
      offset / elementBytes(type.getElementType()) * elementBytes(element);
  return view;
}

View PermanentBuffers::parameter(StringRef name, Type element) const {
  ParamOp param = offsets.find(name)->second.first;
  bool isOwn = element == param.getTensorType().getElementType();
  assert((isOwn || copies) && "a copy that nothing makes");
  return ofParameter(name, element, isOwn ? parameters : copies);
}

View PermanentBuffers::gradient(StringRef name) const {
  ParamOp param = offsets.find(name)->second.first;
  return ofParameter(name, param.getTensorType().getElementType(), gradients);
}

View PermanentBuffers::cache(int64_t number, RankedTensorType type, Value row) {
  int64_t axis = rowAxis(type), own = type.getDimSize(axis);
  View whole = layouts.at(number).view(type);
  Value &buffer = caches[number];
  if (!buffer)
    buffer = add(BufferKind::Cache, ArenaRegion::ofCache(number).name(),
                 whole.numBytes());
  View view = whole.sliced(axis, 0, own);
  view.buffer = buffer;
  if (row && own < whole.shape[axis]) {
    view.row = row;
    view.rowStep = whole.strides[axis] * elementBytes(type.getElementType());
  }
  return view;
}

View PermanentBuffers::region(const ArenaRegion &region, RankedTensorType type,
                              Value row) {
  Value buffer;
  switch (region.kind) {
  case ArenaRegion::Kind::Parameters:
    buffer = parameters;
    break;
  case ArenaRegion::Kind::Copies:
    buffer = copies;
    break;
  case ArenaRegion::Kind::Gradients:
    buffer = gradients;
    break;
  case ArenaRegion::Kind::State0:
    buffer = state[0];
    break;
  case ArenaRegion::Kind::State1:
    buffer = state[1];
    break;
  case ArenaRegion::Kind::Cache:
    return cache(region.cache, type, row);
  }
  assert(buffer && "a region that this model does not have");
  View view = contiguousView(type, buffer);
  int64_t before = 0;
  switch (region.part) {
  case ArenaRegion::Part::Decayed:
    break;
  case ArenaRegion::Part::Plain:
    before = regions.decayed.elements;
    break;
  case ArenaRegion::Part::Frozen:
    before = regions.trained();
    break;
  }
  int64_t size = elementBytes(type.getElementType());
  view.offset = before * size;
  if (row) {
    view.row = row;
    view.rowStep = regionRow * size;
  }
  return view;
}

View PermanentBuffers::constant(ConstantOp op) {
  Value &buffer = constants[op.getValue()];
  if (!buffer)
    buffer = add(
        BufferKind::Constant, "constant" + std::to_string(constants.size() - 1),
        contiguousView(tensorType(op.getY())).numBytes(), op.getValue());
  return contiguousView(tensorType(op.getY()), buffer);
}
