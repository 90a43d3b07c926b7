//===- ProgramBuilder.h - one function becomes launches ---------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_CODEGEN_SCHEDULE_PROGRAMBUILDER_H
#define TFM_CODEGEN_SCHEDULE_PROGRAMBUILDER_H

#include "compiler/codegen/schedule/BuildSchedule.h"
#include "compiler/codegen/schedule/Fuse.h"
#include "compiler/dialect/TfmDialect.h"
#include "compiler/transforms/Optimizer.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tfm {

using namespace mlir;

/// How the carried values of a repeat go from layer to layer.
struct CarriedPlan {
  View init;   ///< what the loop starts from
  View arg;    ///< what a layer reads
  View target; ///< where a layer writes the next value
  View result; ///< what the loop leaves
  /// The stacked result that is the carried values themselves, or -1.
  int savedAs = -1;
};

/// Whether nothing else reads `value` or what it is a view of.
bool hasOneReader(Value value);

/// Schedules one function: the places of values are in PlaceValues.cpp, loops
/// in ScheduleLoops.cpp, the rest in BuildSchedule.cpp.
class ProgramBuilder {
public:
  ProgramBuilder(Schedule &schedule, int program,
                 const ScheduleOptions &options)
      : schedule(schedule), program(program), options(options) {}

  void build(func::FuncOp func, Program &out);

private:
  //===--- Buffers
  //---------------------------------------------------------===//

  int allocate(const std::string &name, int64_t bytes) {
    int buffer = schedule.addBuffer(name, BufferKind::Activation, bytes);
    schedule.buffers[buffer].program = program;
    home.resize(schedule.buffers.size(), 0);
    home[buffer] = loops.size();
    return buffer;
  }

  std::string freshName(Value value) {
    std::string base;
    if (Operation *op = value.getDefiningOp()) {
      if (auto words = op->getAttrOfType<DictionaryAttr>("tfm.value"))
        if (auto name = words.getAs<StringAttr>("name"))
          base = name.getValue().str();
      if (base.empty())
        base = op->getName().stripDialect().str();
    } else {
      base = "arg";
    }
    return "%" + base + "." + std::to_string(schedule.buffers.size());
  }

  View allocate(Value value) {
    RankedTensorType type = tensorType(value);
    int buffer =
        allocate(freshName(value),
                 type.getNumElements() * elementBytes(type.getElementType()));
    auto order = layouts.find(value);
    if (order == layouts.end())
      return contiguousView(buffer, type);
    // Stored so that the transpose is row-major.
    SmallVector<int64_t> shape, inverse(order->second.size());
    for (auto [i, axis] : llvm::enumerate(order->second)) {
      shape.push_back(type.getDimSize(axis));
      inverse[axis] = i;
    }
    return contiguousView(buffer,
                          RankedTensorType::get(shape, type.getElementType()))
        .transposed(inverse);
  }

  void touch(const View &view) {
    Buffer &buffer = schedule.buffers[view.buffer];
    if (buffer.kind != BufferKind::Activation)
      return;
    size_t depth = home[view.buffer];
    if (loops.size() > depth) {
      buffer.begin = std::min(buffer.begin, loops[depth].begin);
      loops[depth].touched.push_back(view.buffer);
    } else {
      buffer.begin = std::min(buffer.begin, time);
    }
    buffer.end = std::max(buffer.end, time);
  }

  //===--- Views
  //-----------------------------------------------------------===//

  /// Where `value` is; it must have been placed, or be a view of what has.
  View viewOf(Value value) {
    if (auto it = views.find(value); it != views.end())
      return it->second;
    Operation *op = value.getDefiningOp();
    assert(op && "a block argument without a place");
    if (auto get = dyn_cast<GetParamOp>(op))
      return views[value] =
                 parameterView(get.getParam(), schedule.parameterRegion);
    if (auto constant = dyn_cast<ConstantOp>(op))
      return views[value] = constantView(constant);
    assert(isViewOp(op) && !schedule.materialised.contains(op) && "not placed");
    View from = viewOf(op->getOperand(0));
    View result = throughViewOp(op, from);
    assert(result.isValid() && "a reshape that should have been a copy");
    return result;
  }

  static View throughViewOp(Operation *op, const View &from) {
    if (auto reshape = dyn_cast<ReshapeOp>(op))
      return from.reshaped(tensorType(reshape.getY()).getShape());
    if (auto transpose = dyn_cast<TransposeOp>(op))
      return from.transposed(transpose.getPermutation());
    if (auto slice = dyn_cast<SliceOp>(op))
      return from.sliced(slice.getAxis(), slice.getStart(), slice.getSize());
    return from.broadcastTo(tensorType(op->getResult(0)).getShape());
  }

  View parameterView(StringRef name, int region) {
    for (const ParameterSlot &slot : schedule.parameters) {
      auto param = cast<ParamOp>(slot.param);
      if (param.getSymName() != name)
        continue;
      View view = contiguousView(region, param.getTensorType());
      view.offset = slot.offset;
      return view;
    }
    llvm_unreachable("an unknown parameter");
  }

  View constantView(ConstantOp op) {
    for (auto &[attr, buffer] : schedule.constants)
      if (attr == op.getValue())
        return contiguousView(buffer, tensorType(op.getY()));
    RankedTensorType type = tensorType(op.getY());
    int buffer = schedule.addBuffer(
        "constant" + std::to_string(schedule.constants.size()),
        BufferKind::Constant,
        type.getNumElements() * elementBytes(type.getElementType()));
    home.resize(schedule.buffers.size(), 0);
    schedule.constants.push_back({op.getValue(), buffer});
    return contiguousView(buffer, type);
  }

  /// Gives `value` a place: where its reader wants it if there is such a place,
  /// else a buffer of its own.
  View place(Value value) {
    if (auto it = views.find(value); it != views.end())
      return it->second;
    View view = wantedPlace(value);
    // Products and attention write whole rows.
    bool rows = !isa_and_nonnull<MatmulOp, AttentionOp, AttentionBackwardOp>(
                    value.getDefiningOp()) ||
                (view.isValid() && view.strides.back() == 1);
    if (!view.isValid() || !rows)
      view = allocate(value);
    return views[value] = view;
  }

  View wantedPlace(Value value);
  void findLayouts(Block &block);
  View trialView(Value value);

  //===--- Steps
  //-----------------------------------------------------------===//

  void scheduleBlock(std::vector<tfm::Step> &steps);
  void scheduleLoop(RepeatOp repeat, std::vector<tfm::Step> &steps);
  bool fitsLayout(Value value, const View &view) const;
  SmallVector<View> placeStacked(RepeatOp repeat, size_t carried);
  void scheduleConcat(ConcatOp concat, std::vector<tfm::Step> &steps);
  void scheduleGroup(const Group &group, std::vector<tfm::Step> &steps);
  View readable(Value value, const View &view, const Group &group,
                std::vector<tfm::Step> &steps);
  View placePartials(Value result, const Launch &launch,
                     std::vector<std::unique_ptr<Launch>> &folds);
  std::vector<CarriedPlan> &planCarried(RepeatOp repeat);
  bool canWriteOver(Value arg, Value next, Block &block);
  bool accumulatesInPlace(Value arg, Value sum, Block &block);

  void push(std::unique_ptr<Launch> launch, std::vector<tfm::Step> &steps) {
    for (auto &[value, view] : launch->reads)
      touch(view);
    for (auto &[value, view] : launch->writes)
      touch(view);
    ++time;
    tfm::Step step;
    step.launch = std::move(launch);
    steps.push_back(std::move(step));
  }

  /// Brings `value` to `target` if it is not there already.
  void moveTo(Value value, const View &target, std::vector<tfm::Step> &steps) {
    auto launch = std::make_unique<Launch>();
    Value base = viewBase(value, schedule.materialised);
    if (isSplat(base)) {
      auto dense =
          cast<DenseElementsAttr>(base.getDefiningOp<ConstantOp>().getValue());
      launch->fill = isa<FloatType>(dense.getElementType())
                         ? dense.getSplatValue<APFloat>().convertToDouble()
                         : static_cast<double>(
                               dense.getSplatValue<APInt>().getSExtValue());
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

  static Domain copyDomain(const View &target, bool contiguousSource) {
    int64_t n = target.numElements();
    if (target.isContiguous() && contiguousSource)
      return n % kRegionRow == 0 ? Domain{n / kRegionRow, kRegionRow}
                                 : Domain{1, n};
    return {n / target.shape.back(), target.shape.back()};
  }

  struct LoopState {
    int64_t begin = 0;
    SmallVector<int> touched;
    Operation *op = nullptr;
  };

  Schedule &schedule;
  int program;
  const ScheduleOptions &options;
  int64_t time = 0;
  SmallVector<LoopState> loops;
  /// Depth of the loops around each buffer's allocation.
  std::vector<size_t> home;
  DenseMap<Value, View> views;
  /// Places that results must take: outputs, gradients, a loop's next values.
  DenseMap<Value, View> targets;
  /// The order of axes in which a value is stored, where not its own.
  DenseMap<Value, SmallVector<int64_t>> layouts;
  DenseMap<Operation *, std::vector<CarriedPlan>> carriedPlans;
  const FusedBlock *fused = nullptr;
};

} // namespace tfm

#endif // TFM_CODEGEN_SCHEDULE_PROGRAMBUILDER_H
