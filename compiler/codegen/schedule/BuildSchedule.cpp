//===- BuildSchedule.cpp - from functions to schedules --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/codegen/schedule/BuildSchedule.h"

#include "compiler/codegen/schedule/ProgramBuilder.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace tfm;

namespace {

/// The decayed or the other trained part of a region, as rows of `kRegionRow`:
/// `parameters`, `gradients`, `state0` or `state1`, then `.decayed` or
/// `.plain`. Or the cache of that number, `cache.N`, which begins to exist
/// here.
View regionView(Schedule &schedule, StringRef name, RankedTensorType type) {
  auto [kind, part] = name.split('.');
  size_t number = 0;
  if (kind == "cache" && !part.getAsInteger(10, number)) {
    for (size_t i = schedule.caches.size(); i <= number; ++i)
      schedule.caches.push_back(-1);
    int &buffer = schedule.caches[number];
    if (buffer < 0)
      buffer = schedule.addBuffer(name.str(), BufferKind::Cache,
                                  type.getNumElements() *
                                      elementBytes(type.getElementType()));
    return contiguousView(buffer, type);
  }
  int region = llvm::StringSwitch<int>(kind)
                   .Case("parameters", schedule.parameterRegion)
                   .Case("gradients", schedule.gradientRegion)
                   .Case("state0", schedule.stateRegion[0])
                   .Case("state1", schedule.stateRegion[1])
                   .Default(-1);
  View view = contiguousView(region, type);
  view.offset = part == "plain" ? schedule.decayedElements : 0;
  return view;
}

/// Into how many chunks of rows a column reduction is cut: a number that does
/// not depend on the machine, so that neither do the bits of the sum.
int64_t columnChunks(int64_t rows) { return rows >= 128 ? 16 : 1; }

} // namespace

void ProgramBuilder::scheduleConcat(ConcatOp concat,
                                    std::vector<tfm::Step> &steps) {
  View whole = place(concat.getY());
  int64_t start = 0;
  for (Value x : concat.getXs()) {
    int64_t size = tensorType(x).getDimSize(concat.getAxis());
    moveTo(x, whole.sliced(concat.getAxis(), start, size), steps);
    start += size;
  }
}

/// Whether a kernel can read an operand of `op` through `view`: products want
/// one of an operand's last two axes contiguous, attention the last one, and a
/// scatter all of them.
static bool canRead(Operation *op, const View &view) {
  size_t rank = view.strides.size();
  if (isa<ScatterAddOp>(op))
    return view.isContiguous();
  if (rank < 2 || view.strides[rank - 1] == 1)
    return true;
  if (isa<MatmulOp>(op))
    return view.strides[rank - 2] == 1;
  return !isa<AttentionOp, AttentionBackwardOp, CacheUpdateOp>(op);
}

/// Where a kernel reads `value`: where it is, or a copy that suits the kernel.
View ProgramBuilder::readable(Value value, const Group &group,
                              std::vector<tfm::Step> &steps) {
  RankedTensorType type = tensorType(value);
  if (!isSplat(viewBase(value, schedule.materialised))) {
    View view = viewOf(value);
    Operation *first = group.ops.front();
    if (!llvm::is_contained(first->getOperands(), value) ||
        canRead(first, view))
      return view;
  }
  View copy = contiguousView(
      allocate(freshName(value),
               type.getNumElements() * elementBytes(type.getElementType())),
      type);
  moveTo(value, copy, steps);
  return copy;
}

void ProgramBuilder::scheduleGroup(const Group &group,
                                   std::vector<tfm::Step> &steps) {
  auto launch = std::make_unique<Launch>();
  launch->group = group;
  launch->accumulate = options.accumulate;
  const FusedBlock *block = fused;
  int own = block->groupOf.lookup(group.ops.front());
  auto groupOf = [&](Operation *op) {
    auto it = op ? block->groupOf.find(op) : block->groupOf.end();
    return it == block->groupOf.end() ? -1 : it->second;
  };
  // A scatter and a cache's update change their base in place: it is brought
  // there, not read.
  Operation *first = group.ops.front();
  Value base;
  if (isa<ScatterAddOp, CacheUpdateOp>(first) &&
      llvm::count(first->getOperands(), first->getOperand(0)) == 1)
    base = first->getOperand(0);
  llvm::SetVector<Value> reads;
  for (Operation *op : group.ops) {
    forEachRead(op, group.domain, schedule.materialised, [&](const Leaf &leaf) {
      if (groupOf(leaf.base.getDefiningOp()) != own && leaf.point != base)
        reads.insert(leaf.point);
    });
    for (Value operand : op->getOperands())
      if (operand.getType().isIndex())
        for (auto [depth, loop] : llvm::enumerate(loops))
          if (cast<BlockArgument>(operand).getOwner()->getParentOp() == loop.op)
            launch->layerDepth = static_cast<int>(depth);
  }
  for (Value value : reads)
    launch->reads.push_back({value, readable(value, group, steps)});
  auto readElsewhere = [&](Value value) {
    // A use by another kernel or by the terminator, possibly through free ops.
    SmallVector<Value> queue = {value};
    llvm::DenseSet<Value> seen;
    while (!queue.empty()) {
      Value next = queue.pop_back_val();
      if (!seen.insert(next).second)
        continue;
      for (Operation *user : next.getUsers()) {
        if (isFree(user) && !schedule.materialised.contains(user))
          queue.push_back(user->getResult(0));
        else if (groupOf(user) != own)
          return true;
      }
    }
    return false;
  };
  std::vector<std::unique_ptr<Launch>> folds;
  for (Operation *op : group.ops) {
    for (Value result : op->getResults()) {
      if (isColumnReduction(op)) {
        launch->chunks = columnChunks(group.domain.rows);
        launch->writes.push_back(
            {result, placePartials(result, *launch, folds)});
      } else if ((group.kind != KernelKind::Row &&
                  group.kind != KernelKind::Matmul) ||
                 readElsewhere(result)) {
        launch->writes.push_back({result, place(result)});
      }
    }
  }
  if (isa<ScatterAddOp, CacheUpdateOp>(first))
    moveTo(first->getOperand(0), place(first->getResult(0)), steps);
  push(std::move(launch), steps);
  for (std::unique_ptr<Launch> &fold : folds)
    push(std::move(fold), steps);
}

/// Where a column reduction accumulates: at its result when one chunk does all
/// rows, else in a buffer that a launch after it folds.
View ProgramBuilder::placePartials(
    Value result, const Launch &launch,
    std::vector<std::unique_ptr<Launch>> &folds) {
  View target = place(result);
  if (launch.chunks == 1 && target.isContiguous())
    return target;
  int64_t cols = launch.group.domain.cols;
  Type element = tensorType(result).getElementType();
  View partials = contiguousView(
      allocate(freshName(result), launch.chunks * cols * elementBytes(element)),
      RankedTensorType::get({launch.chunks, cols}, element));
  auto fold = std::make_unique<Launch>();
  fold->fold = result.getDefiningOp();
  fold->group.domain = {1, cols};
  fold->reads.push_back({result, partials});
  fold->writes.push_back({result, target});
  folds.push_back(std::move(fold));
  return partials;
}

void ProgramBuilder::push(std::unique_ptr<Launch> launch,
                          std::vector<tfm::Step> &steps) {
  for (auto &[value, view] : launch->reads)
    touch(view);
  for (auto &[value, view] : launch->writes)
    touch(view);
  ++time;
  tfm::Step step;
  step.launch = std::move(launch);
  steps.push_back(std::move(step));
}

void ProgramBuilder::moveTo(Value value, const View &target,
                            std::vector<tfm::Step> &steps) {
  auto launch = std::make_unique<Launch>();
  Value base = viewBase(value, schedule.materialised);
  if (isSplat(base)) {
    auto dense =
        cast<DenseElementsAttr>(base.getDefiningOp<ConstantOp>().getValue());
    launch->fill =
        isa<FloatType>(dense.getElementType())
            ? dense.getSplatValue<APFloat>().convertToDouble()
            : static_cast<double>(dense.getSplatValue<APInt>().getSExtValue());
  } else {
    View from = viewOf(value);
    View to = target;
    size_t depth = std::max(from.loopStrides.size(), to.loopStrides.size());
    from.loopStrides.resize(depth, 0);
    to.loopStrides.resize(depth, 0);
    if (from == to)
      return;
    launch->reads.push_back({value, from});
  }
  launch->writes.push_back({value, target});
  launch->group.domain =
      copyDomain(target, launch->reads.empty() ||
                             launch->reads.front().second.isContiguous());
  push(std::move(launch), steps);
}

Domain ProgramBuilder::copyDomain(const View &target, bool contiguousSource) {
  int64_t n = target.numElements();
  if (target.isContiguous() && contiguousSource)
    return n % kRegionRow == 0 ? Domain{n / kRegionRow, kRegionRow}
                               : Domain{1, n};
  return {n / target.shape.back(), target.shape.back()};
}

void ProgramBuilder::scheduleBlock(std::vector<tfm::Step> &steps) {
  for (const Group &group : fused->groups) {
    Operation *first = group.ops.front();
    if (auto repeat = dyn_cast<RepeatOp>(first)) {
      scheduleLoop(repeat, steps);
    } else if (auto concat = dyn_cast<ConcatOp>(first)) {
      scheduleConcat(concat, steps);
    } else if (auto reshape = dyn_cast<ReshapeOp>(first)) {
      View to = place(reshape.getY());
      moveTo(reshape.getX(), to.reshaped(tensorType(reshape.getX()).getShape()),
             steps);
    } else {
      scheduleGroup(group, steps);
    }
  }
}

void ProgramBuilder::build(func::FuncOp func, Program &out) {
  home.resize(schedule.buffers.size(), 0);
  Block &block = func.getBody().front();
  // Arguments that name a region are that region, and those that name a
  // gradient are what has been accumulated of it; others are inputs.
  DenseMap<Attribute, Value> accumulated;
  for (BlockArgument arg : block.getArguments()) {
    auto name =
        func.getArgAttrOfType<StringAttr>(arg.getArgNumber(), "tfm.name");
    auto region =
        func.getArgAttrOfType<StringAttr>(arg.getArgNumber(), "tfm.region");
    if (region) {
      views[arg] = regionView(schedule, region.getValue(), tensorType(arg));
      home.resize(schedule.buffers.size(), 0);
      continue;
    }
    if (auto gradient = func.getArgAttrOfType<FlatSymbolRefAttr>(
            arg.getArgNumber(), "tfm.gradient")) {
      views[arg] = parameterView(gradient.getValue(), schedule.gradientRegion);
      accumulated[gradient] = arg;
      continue;
    }
    View view = allocate(arg);
    schedule.buffers[view.buffer].name =
        (func.getSymName() + "." + (name ? name.getValue() : "input")).str();
    schedule.buffers[view.buffer].begin = 0;
    schedule.buffers[view.buffer].end = 0;
    views[arg] = view;
    out.inputs.push_back({name ? name.getValue().str() : "", view});
  }
  int rng = -1;
  if (func.getSymName() == "train") {
    // The counter of dropout, read all through the step.
    auto type =
        RankedTensorType::get({4}, IntegerType::get(func.getContext(), 32));
    rng = allocate("train.rng", 4 * elementBytes(type.getElementType()));
    out.inputs.push_back({"rng", contiguousView(rng, type)});
  }
  findLayouts(block);
  findMaterialised(block, schedule.materialised);
  FusedBlock blockFused = fuse(block, schedule.materialised);
  fused = &blockFused;
  SmallVector<View> results;
  Operation *terminator = block.getTerminator();
  for (OpOperand &operand : terminator->getOpOperands()) {
    unsigned i = operand.getOperandNumber();
    Value value = operand.get();
    View view;
    bool inPlace = true;
    auto name = func.getResultAttrOfType<StringAttr>(i, "tfm.name");
    if (auto gradient =
            func.getResultAttrOfType<FlatSymbolRefAttr>(i, "tfm.gradient")) {
      view = parameterView(gradient.getValue(), schedule.gradientRegion);
      if (Value arg = accumulated.lookup(gradient))
        inPlace = accumulatesInPlace(arg, value, block);
    } else if (auto region =
                   func.getResultAttrOfType<StringAttr>(i, "tfm.region")) {
      view = regionView(schedule, region.getValue(), tensorType(value));
      // A cache is updated in place; the optimizer's kernel has to read what
      // it replaces at the same points, and nothing after it may.
      for (BlockArgument arg : block.getArguments())
        if (views[arg] == view && !region.getValue().starts_with("cache."))
          inPlace = canWriteOver(arg, value, block);
    } else {
      RankedTensorType type = tensorType(value);
      int buffer = allocate(
          (func.getSymName() + "." + (name ? name.getValue() : "result")).str(),
          type.getNumElements() * elementBytes(type.getElementType()));
      view = contiguousView(buffer, type);
      out.outputs.push_back({name ? name.getValue().str() : "", view});
    }
    results.push_back(view);
    if (inPlace && fitsLayout(value, view))
      targets.try_emplace(value, view);
  }
  scheduleBlock(out.steps);
  for (auto [value, view] : llvm::zip_equal(terminator->getOperands(), results))
    moveTo(value, view, out.steps);
  // Outputs are read after the last launch.
  for (const Port &port : out.outputs) {
    Buffer &buffer = schedule.buffers[port.view.buffer];
    buffer.begin = std::min(buffer.begin, time);
    buffer.end = time;
  }
  if (rng >= 0) {
    schedule.buffers[rng].begin = 0;
    schedule.buffers[rng].end = time;
  }
}

void tfm::layOutParameters(ModuleOp module, const ScheduleOptions &options,
                           Schedule &schedule) {
  Optimizer rule;
  rule.decayMinRank = options.decayMinRank;
  SmallVector<ParamOp> decayed, plain, frozen;
  for (auto param : module.getOps<ParamOp>()) {
    if (!param.getTrainable())
      frozen.push_back(param);
    else
      (rule.decays(param) ? decayed : plain).push_back(param);
  }
  auto append = [&](ArrayRef<ParamOp> params, bool isDecayed, int64_t offset) {
    for (ParamOp param : params) {
      schedule.parameters.push_back({param, isDecayed, offset});
      offset += paddedElements(param);
    }
  };
  RegionSizes sizes = regionSizes(module, options.decayMinRank);
  append(decayed, true, 0);
  append(plain, false, sizes.decayed);
  append(frozen, false, sizes.trained());
  schedule.decayedElements = sizes.decayed;
  schedule.plainElements = sizes.plain;
  int64_t trained = sizes.trained();
  schedule.parameterRegion =
      schedule.addBuffer("parameters", BufferKind::Parameter,
                         (sizes.trained() + sizes.frozen) * 4);
  bool trains = module.lookupSymbol("train") != nullptr;
  if (!trains)
    return;
  schedule.gradientRegion =
      schedule.addBuffer("gradients", BufferKind::Gradient, trained * 4);
  for (int i = 0; i < options.stateCount; ++i)
    schedule.stateRegion[i] = schedule.addBuffer(
        "state" + std::to_string(i), BufferKind::State, trained * 4);
}

Schedule tfm::buildSchedule(ModuleOp module, const ScheduleOptions &options) {
  Schedule schedule;
  layOutParameters(module, options, schedule);
  for (auto func : module.getOps<func::FuncOp>()) {
    Program program;
    program.name = func.getSymName().str();
    ProgramBuilder(schedule, static_cast<int>(schedule.programs.size()),
                   options)
        .build(func, program);
    schedule.programs.push_back(std::move(program));
  }
  planMemory(schedule);
  return schedule;
}
