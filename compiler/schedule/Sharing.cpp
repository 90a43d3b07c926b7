//===- Sharing.cpp - what processes share of an update --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/schedule/Sharing.h"

#include "compiler/dialect/Programs.h"
#include "compiler/schedule/Attributes.h"
#include "compiler/schedule/Launches.h"
#include "compiler/schedule/View.h"
#include "compiler/transforms/ParameterRegions.h"

#include <array>

using namespace mlir;
using namespace tfm;
using namespace tfm::sched;

namespace {

/// Where a layer of a parameter lies in its region, in bytes.
struct Slice {
  int64_t begin, end;
  ParamOp param;
};

} // namespace

/// In their order.
static SmallVector<Slice> slicesOf(ModuleOp schedule) {
  SmallVector<Slice> slices;
  for (auto param : schedule.getOps<ParamOp>()) {
    int64_t begin = param->getAttrOfType<IntegerAttr>(offsetAttribute).getInt();
    auto layers = static_cast<int64_t>(param.getLayerNames().size());
    int64_t bytes = contiguousView(param.getTensorType()).numBytes() / layers;
    for (int64_t layer = 0; layer != layers; ++layer, begin += bytes)
      slices.push_back({begin, begin + bytes, param});
  }
  llvm::sort(slices, [](Slice a, Slice b) { return a.begin < b.begin; });
  return slices;
}

/// How many slices of a parameter lie `step` bytes apart: any of them is where
/// a number that is found at run time may lead to.
static int64_t slicesApart(ParamOp param, int64_t step) {
  View whole = contiguousView(param.getTensorType());
  int64_t most = 1;
  for (auto [size, stride] : llvm::zip_equal(whole.shape, whole.strides))
    if (stride * elementBytes(whole.element) == step)
      most = std::max(most, size);
  return most;
}

/// Visits whatever the steps of a program have to do with slices of parameters:
/// the number of the run, the kind of the buffer, and the slice.
static void forEachUse(
    ProgramOp program, ArrayRef<Slice> slices,
    llvm::function_ref<void(int64_t run, BufferKind kind, Slice slice)> visit) {
  int64_t run = 0;
  forEachRun(program, [&](Operation *step, const LayersNow &layers) {
    SmallVector<Value> operands;
    for (Operation *each : partsOf(step))
      llvm::append_range(operands, each->getOperands());
    for (Value operand : operands) {
      auto view = operand.getDefiningOp<ViewOp>();
      auto buffer = view ? view.getBuffer().getDefiningOp<BufferOp>() : nullptr;
      if (!buffer ||
          !llvm::is_contained({BufferKind::Parameter, BufferKind::ParameterCopy,
                               BufferKind::Gradient},
                              buffer.getKind()))
        continue;
      auto begin = static_cast<int64_t>(view.getOffset());
      for (auto [layer, step] :
           llvm::zip_equal(view.getLayers(), view.getSteps()))
        begin += layers.lookup(layer) * step;
      int64_t end = begin + viewOf(view.getView().getType()).spanBytes();
      int64_t rowStep = view.getRowStep().value_or(0);
      // Copies lie as parameters do, in elements of fewer bytes.
      if (buffer.getKind() == BufferKind::ParameterCopy) {
        int64_t narrower =
            sizeof(float) /
            elementBytes(view.getView().getType().getElementType());
        begin *= narrower;
        end *= narrower;
        rowStep *= narrower;
      }
      const Slice *slice = llvm::partition_point(
          slices, [&](const Slice &each) { return each.end <= begin; });
      if (rowStep != 0 && slice != slices.end())
        end += (slicesApart(slice->param, rowStep) - 1) * rowStep;
      for (; slice != slices.end() && slice->begin < end; ++slice)
        visit(run, buffer.getKind(), *slice);
    }
    ++run;
  });
}

llvm::DenseMap<uint64_t, ParameterUse> tfm::parameterUses(ModuleOp schedule) {
  llvm::DenseMap<uint64_t, ParameterUse> uses;
  auto train = schedule.lookupSymbol<ProgramOp>(nameOf(ProgramKind::Train));
  if (!train)
    return uses;
  int64_t runs = 0;
  forEachStep(train, [&](Operation *, int64_t more) { runs += more; });
  SmallVector<Slice> slices = slicesOf(schedule);
  for (Slice slice : slices)
    uses[slice.begin] = {0, runs};
  forEachUse(train, slices, [&](int64_t run, BufferKind kind, Slice slice) {
    ParameterUse &use = uses[slice.begin];
    if (kind == BufferKind::Gradient)
      use.gradientDone = run + 1;
    else
      use.valueUsed = std::min(use.valueUsed, run);
  });
  constexpr std::array keepers = {
      ProgramKind::UpdateDecayed, ProgramKind::UpdatePlain,
      ProgramKind::Squares, ProgramKind::Update, ProgramKind::Refresh};
  for (auto program : schedule.getOps<ProgramOp>())
    if (llvm::none_of(keepers, [&](ProgramKind kind) {
          return program.getSymName() == nameOf(kind);
        }))
      forEachUse(program, slices, [&](int64_t, BufferKind kind, Slice slice) {
        ParameterUse &use = uses[slice.begin];
        use.readsValue |= kind == BufferKind::Parameter;
        use.readsCopy |= kind == BufferKind::ParameterCopy;
      });
  return uses;
}

std::vector<SharedBlock> tfm::sharedBlocks(ModuleOp schedule) {
  std::vector<SharedBlock> blocks;
  auto rows = schedule->getAttrOfType<DenseI64ArrayAttr>(regionRowsAttribute);
  auto sizes =
      schedule->getAttrOfType<DenseI64ArrayAttr>(regionBlocksAttribute);
  if (!rows || !sizes)
    return blocks;
  int64_t row = 0;
  for (auto [count, size] :
       llvm::zip_equal(rows.asArrayRef(), sizes.asArrayRef()))
    for (int64_t end = row + count; row < end; row += size)
      blocks.push_back({row, size, {0, INT64_MAX}});
  constexpr int64_t rowBytes = regionRow * sizeof(float);
  llvm::DenseMap<uint64_t, ParameterUse> uses = parameterUses(schedule);
  for (Slice slice : slicesOf(schedule)) {
    const ParameterUse &use = uses[slice.begin];
    auto block = llvm::partition_point(blocks, [&](const SharedBlock &each) {
      return (each.firstRow + each.rows) * rowBytes <= slice.begin;
    });
    for (; block != blocks.end() && block->firstRow * rowBytes < slice.end;
         ++block) {
      block->use.gradientDone =
          std::max(block->use.gradientDone, use.gradientDone);
      block->use.valueUsed = std::min(block->use.valueUsed, use.valueUsed);
      block->use.readsValue |= use.readsValue;
      block->use.readsCopy |= use.readsCopy;
    }
  }
  llvm::sort(blocks, [](const SharedBlock &a, const SharedBlock &b) {
    return std::pair(a.use.gradientDone, a.firstRow) <
           std::pair(b.use.gradientDone, b.firstRow);
  });
  return blocks;
}
