//===- Launches.cpp - what the steps of a program do ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/schedule/Launches.h"

#include "compiler/dialect/Programs.h"
#include "compiler/schedule/View.h"
#include "compiler/transforms/ParameterRegions.h"

#include "llvm/Support/raw_ostream.h"

#include <limits>

using namespace mlir;
using namespace tfm;
using namespace tfm::sched;

SmallVector<Operation *> tfm::kernelSteps(Operation *step) {
  if (!isa<SerialOp>(step))
    return {step};
  return llvm::to_vector(
      llvm::make_pointer_range(step->getRegion(0).front().getOperations()));
}

SmallVector<Operation *> tfm::partsOf(Operation *step) {
  if (auto group = dyn_cast<GroupOp>(step))
    return llvm::to_vector_of<Operation *>(group.getLaunches());
  return kernelSteps(step);
}

bool tfm::isOfBlocks(Value view) {
  auto op = view.getDefiningOp<ViewOp>();
  return op && isa<GroupOp>(op->getParentOp());
}

bool tfm::isStep(Operation &op) {
  return isa<SerialOp, GroupOp>(op) || isKernelStep(op);
}

static void
forEachStepIn(Block &block, int64_t runs,
              llvm::function_ref<void(Operation *, int64_t)> visit) {
  for (Operation &op : block)
    if (auto loop = dyn_cast<LoopOp>(op))
      forEachStepIn(*loop.getBlock(),
                    runs * static_cast<int64_t>(loop.getCount()), visit);
    else if (isStep(op))
      visit(&op, runs);
}

void tfm::forEachStep(ProgramOp program,
                      llvm::function_ref<void(Operation *, int64_t)> visit) {
  forEachStepIn(*program.getBlock(), 1, visit);
}

static void
forEachRunIn(Block &block, LayersNow &layers,
             llvm::function_ref<void(Operation *, const LayersNow &)> visit) {
  for (Operation &op : block)
    if (auto loop = dyn_cast<LoopOp>(op)) {
      auto count = static_cast<int64_t>(loop.getCount());
      for (int64_t turn = 0; turn != count; ++turn) {
        layers[loop.getLayer()] = loop.getReverse() ? count - 1 - turn : turn;
        forEachRunIn(*loop.getBlock(), layers, visit);
      }
    } else if (isStep(op))
      visit(&op, layers);
}

void tfm::forEachRun(
    ProgramOp program,
    llvm::function_ref<void(Operation *, const LayersNow &)> visit) {
  LayersNow layers;
  forEachRunIn(*program.getBlock(), layers, visit);
}

int64_t tfm::alignmentOf(Value view) {
  auto op = view.getDefiningOp<ViewOp>();
  if (!op)
    return 1;
  uint64_t steps = bufferAlignment | static_cast<uint64_t>(op.getOffset());
  for (int64_t step : op.getSteps())
    steps |= static_cast<uint64_t>(step);
  if (op.getRow())
    steps |= static_cast<uint64_t>(op.getRowStep().value_or(1));
  return static_cast<int64_t>(steps & -steps);
}

/// Whether two views may have a byte in common. Where the same loops advance
/// both by the same steps they lie in every turn as they do in the first one;
/// else either may be anywhere in its buffer.
static bool mayOverlap(ViewOp a, ViewOp b) {
  if (isOfBlocks(a) != isOfBlocks(b))
    return false;
  bool together = a.getLayers() == b.getLayers() &&
                  a.getSteps() == b.getSteps() && !a.getRow() && !b.getRow();
  auto bytesOf =
      [&](ViewOp view) -> std::optional<std::pair<int64_t, int64_t>> {
    auto buffer = view.getBuffer().getDefiningOp<BufferOp>();
    if (!buffer || !buffer.getOffset())
      return std::nullopt;
    auto begin = static_cast<int64_t>(*buffer.getOffset());
    if (!together)
      return std::pair(begin, begin + buffer.getBytes());
    begin += static_cast<int64_t>(view.getOffset());
    return std::pair(begin, begin + viewOf(view.getType()).spanBytes());
  };
  auto ofA = bytesOf(a), ofB = bytesOf(b);
  return !ofA || !ofB || (ofA->first < ofB->second && ofB->first < ofA->second);
}

bool tfm::isOnlyRead(Operation *step, unsigned operand) {
  SmallVector<Value> writes;
  auto group = dyn_cast<GroupOp>(step->getParentOp());
  for (Operation *part : partsOf(group ? group : step))
    if (auto launch = dyn_cast<LaunchOp>(part))
      llvm::append_range(writes, launch.getWrites());
    else
      writes.push_back(part->getOperands().back());
  auto read = step->getOperand(operand).getDefiningOp<ViewOp>();
  return read && llvm::none_of(writes, [&](Value to) {
           auto written = to.getDefiningOp<ViewOp>();
           return !written || mayOverlap(read, written);
         });
}

BlockArgument tfm::writtenArgumentOf(Value value) {
  if (value)
    for (Operation *user : value.getUsers())
      if (auto write = dyn_cast<WriteOp>(user))
        return cast<BlockArgument>(write.getTo());
  return {};
}

BlockArgument tfm::argumentOf(Value operand) {
  auto read = operand ? operand.getDefiningOp<ReadOp>() : ReadOp();
  return read ? cast<BlockArgument>(read.getFrom()) : BlockArgument();
}

SmallVector<Operation *> tfm::computedOps(LaunchOp launch) {
  SmallVector<Operation *> ops;
  for (Operation &op : *launch.getBlock()) {
    bool written = llvm::any_of(
        op.getUsers(), [](Operation *user) { return isa<WriteOp>(user); });
    if (!isa<ReadOp, WriteOp>(op) && (!isFree(&op) || written))
      ops.push_back(&op);
  }
  return ops;
}

Domain tfm::copyDomain(MemRefType from, MemRefType to) {
  View target = viewOf(to);
  int64_t n = target.numElements();
  if (target.isContiguous() && (!from || viewOf(from).isContiguous()))
    return n % regionRow == 0 ? Domain{n / regionRow, regionRow} : Domain{1, n};
  return {n / target.shape.back(), target.shape.back()};
}

static Domain stepDomain(Operation *step) {
  if (auto launch = dyn_cast<LaunchOp>(step))
    return launch.getDomain();
  if (auto copy = dyn_cast<CopyOp>(step))
    return copyDomain(copy.getFrom().getType(), copy.getTo().getType());
  return copyDomain({}, cast<FillOp>(step).getTo().getType());
}

Operation *tfm::largestStep(Operation *step) {
  SmallVector<Operation *> parts = partsOf(step);
  return *llvm::max_element(parts, [](Operation *a, Operation *b) {
    return stepFlops(a) + stepBytes(a) < stepFlops(b) + stepBytes(b);
  });
}

std::string tfm::describe(Operation *step) {
  if (size_t more = partsOf(step).size() - 1)
    return describe(largestStep(step)) + " and " + std::to_string(more) +
           " more";
  std::string text;
  llvm::raw_string_ostream os(text);
  auto launch = dyn_cast<LaunchOp>(step);
  if (launch)
    os << stringifyKernelKind(launch.getKind());
  else
    os << step->getName().stripDialect();
  if (Domain domain = stepDomain(step); domain.rows)
    os << ' ' << domain.rows << 'x' << domain.cols;
  if (!launch || launch.getKind() == KernelKind::Fold)
    return text;
  SmallVector<Operation *> ops = computedOps(launch);
  if (auto matmul = dyn_cast<MatmulOp>(ops.front()))
    os << 'x' << matmul.getTerms();
  // A kernel of one op says it with its kind.
  if (launch.getKind() != KernelKind::Row)
    ops.erase(ops.begin());
  if (!ops.empty())
    os << " (";
  llvm::interleave(
      ops, os, [&](Operation *op) { os << op->getName().stripDialect(); }, " ");
  if (!ops.empty())
    os << ')';
  return text;
}

std::string tfm::pathOf(Operation *step) {
  // A derivative has the location of the op that it is of.
  SmallVector<Location> places;
  step = largestStep(step);
  if (auto launch = dyn_cast<LaunchOp>(step))
    for (Operation *op : computedOps(launch))
      places.push_back(op->getLoc());
  places.push_back(step->getLoc());
  for (Location place : places)
    if (auto path = place->findInstanceOf<NameLoc>();
        path && !path.getName().empty())
      return readablePath(path.getName());
  return "";
}

/// In the descriptor's 64 bits.
static int64_t saturated(FlopCount flops) {
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  return flops < most ? static_cast<int64_t>(flops) : most;
}

int64_t tfm::stepFlops(Operation *step) {
  FlopCount flops = 0;
  for (Operation *each : partsOf(step))
    if (auto launch = dyn_cast<LaunchOp>(each))
      for (Operation *op : computedOps(launch)) {
        auto chunks = dyn_cast<ReduceChunksOp>(op);
        flops +=
            chunks ? chunks.getX().getType().getNumElements() : flopsOf(op);
      }
  return saturated(flops);
}

int64_t tfm::stepProductFlops(Operation *step) {
  FlopCount flops = 0;
  for (Operation *each : partsOf(step)) {
    auto launch = dyn_cast<LaunchOp>(each);
    Operation *first = launch ? launch.getFirstOp() : nullptr;
    if (isa_and_nonnull<MatmulOp, AttentionOp, AttentionBackwardOp>(first))
      flops += flopsOf(first);
  }
  return saturated(flops);
}

/// Bytes of the elements that a view has, each once.
static int64_t bytesOf(MemRefType type) {
  View view = viewOf(type);
  int64_t bytes = elementBytes(view.element);
  for (auto [size, stride] : llvm::zip_equal(view.shape, view.strides))
    bytes *= stride == 0 ? 1 : size;
  return bytes;
}

/// Bytes that a launch reads or writes of an argument: of a table that rows are
/// chosen from, or that some rows of are changed in place, those rows alone.
static int64_t touchedBytes(BlockArgument argument) {
  int64_t whole = bytesOf(cast<MemRefType>(argument.getType()));
  auto rowsOf = [](Value rows) {
    RankedTensorType type = tensorType(rows);
    return type.getNumElements() * elementBytes(type.getElementType());
  };
  int64_t rows = 0;
  for (Operation *user : argument.getUsers()) {
    if (auto read = dyn_cast<ReadOp>(user)) {
      SmallVector<OpOperand *> uses;
      for (OpOperand &use : read->getUses())
        if (auto unpack = dyn_cast<UnpackOp>(use.getOwner()))
          llvm::append_range(uses, llvm::make_pointer_range(unpack->getUses()));
        else
          uses.push_back(&use);
      for (OpOperand *use : uses) {
        bool isTable = use->getOperandNumber() == 0;
        auto gather = dyn_cast<GatherOp>(use->getOwner());
        if (isTable && gather)
          rows += rowsOf(gather.getY());
        else if (!isTable || !isa<CacheUpdateOp, ScatterAddOp>(use->getOwner()))
          return whole;
      }
      continue;
    }
    Operation *writer = cast<WriteOp>(user).getValue().getDefiningOp();
    if (auto update = dyn_cast_or_null<CacheUpdateOp>(writer))
      rows += rowsOf(update.getUpdates());
    else if (auto add = dyn_cast_or_null<ScatterAddOp>(writer))
      rows += 2 * rowsOf(add.getUpdates());
    else
      return whole;
  }
  return std::min(whole, rows);
}

int64_t tfm::stepBytes(Operation *step) {
  int64_t bytes = 0;
  if (isa<SerialOp, GroupOp>(step)) {
    for (Operation *each : partsOf(step))
      bytes += stepBytes(each);
    return bytes;
  }
  auto launch = dyn_cast<LaunchOp>(step);
  if (!launch) {
    for (Value operand : step->getOperands())
      bytes += bytesOf(cast<MemRefType>(operand.getType()));
    return bytes;
  }
  llvm::SmallDenseSet<Value> seen;
  auto count = [&](ValueRange views, Block::BlockArgListType arguments) {
    for (auto [view, argument] : llvm::zip_equal(views, arguments))
      if (!isOfBlocks(view) && seen.insert(view).second)
        bytes += touchedBytes(argument);
  };
  count(launch.getReads(), launch.getReadArgs());
  count(launch.getWrites(), launch.getWriteArgs());
  return bytes;
}
