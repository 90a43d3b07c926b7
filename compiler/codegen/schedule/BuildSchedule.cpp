//===- BuildSchedule.cpp - from functions to schedules --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/codegen/schedule/BuildSchedule.h"

#include "compiler/codegen/schedule/Fuse.h"
#include "compiler/dialect/TfmDialect.h"
#include "compiler/transforms/Optimizer.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace tfm;

namespace {

/// How the carried values of a repeat go from layer to layer.
struct CarriedPlan {
  View init;   ///< what the loop starts from
  View arg;    ///< what a layer reads
  View target; ///< where a layer writes the next value
  View result; ///< what the loop leaves
  /// The stacked result that is the carried values themselves, or -1.
  int savedAs = -1;
};

/// The decayed or the other trained part of a region, as rows of `kRegionRow`:
/// `parameters`, `gradients`, `state0` or `state1`, then `.decayed` or `.plain`.
/// Or the cache of that number, `cache.N`, which begins to exist here.
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

/// Into how many chunks of rows a column reduction is cut: a number that does not
/// depend on the machine, so that neither do the bits of the sum.
int64_t columnChunks(int64_t rows) { return rows >= 128 ? 16 : 1; }

class ProgramBuilder {
public:
  ProgramBuilder(Schedule &schedule, int program, const ScheduleOptions &options)
      : schedule(schedule), program(program), options(options) {}

  void build(func::FuncOp func, Program &out);

private:
  //===--- Buffers ---------------------------------------------------------===//

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
    int buffer = allocate(freshName(value), type.getNumElements() *
                                                elementBytes(type.getElementType()));
    auto order = layouts.find(value);
    if (order == layouts.end())
      return contiguousView(buffer, type);
    // Stored so that the transpose is row-major.
    SmallVector<int64_t> shape, inverse(order->second.size());
    for (auto [i, axis] : llvm::enumerate(order->second)) {
      shape.push_back(type.getDimSize(axis));
      inverse[axis] = i;
    }
    return contiguousView(buffer, RankedTensorType::get(shape, type.getElementType()))
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

  //===--- Views -----------------------------------------------------------===//

  /// Where `value` is; it must have been placed, or be a view of what has.
  View viewOf(Value value) {
    if (auto it = views.find(value); it != views.end())
      return it->second;
    Operation *op = value.getDefiningOp();
    assert(op && "a block argument without a place");
    if (auto get = dyn_cast<GetParamOp>(op))
      return views[value] = parameterView(get.getParam(), schedule.parameterRegion);
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
    int buffer = schedule.addBuffer("constant" + std::to_string(schedule.constants.size()),
                                    BufferKind::Constant,
                                    type.getNumElements() *
                                        elementBytes(type.getElementType()));
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

  //===--- Steps -----------------------------------------------------------===//

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
      auto dense = cast<DenseElementsAttr>(base.getDefiningOp<ConstantOp>().getValue());
      launch->fill = isa<FloatType>(dense.getElementType())
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
    launch->group.domain = copyDomain(target, launch->reads.empty() ||
                                                  launch->reads.front().second.isContiguous());
    push(std::move(launch), steps);
  }

  static Domain copyDomain(const View &target, bool contiguousSource) {
    int64_t n = target.numElements();
    if (target.isContiguous() && contiguousSource)
      return n % kRegionRow == 0 ? Domain{n / kRegionRow, kRegionRow} : Domain{1, n};
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

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

/// Whether nothing else reads `value` or what it is a view of.
bool hasOneReader(Value value) {
  for (;; value = value.getDefiningOp()->getOperand(0)) {
    if (!value.hasOneUse())
      return false;
    Operation *op = value.getDefiningOp();
    if (!op || !isViewOp(op))
      return op != nullptr;
  }
}

View ProgramBuilder::wantedPlace(Value value) {
  if (auto it = targets.find(value); it != targets.end())
    return it->second;
  Operation *def = value.getDefiningOp();
  if (!def)
    return View();
  ArrayRef<int64_t> shape = tensorType(value).getShape();
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (user->getBlock() != def->getBlock() || schedule.materialised.contains(user))
      continue;
    if (isa<ReshapeOp, TransposeOp>(user)) {
      View wanted = wantedPlace(user->getResult(0));
      if (!wanted.isValid())
        continue;
      if (auto transpose = dyn_cast<TransposeOp>(user)) {
        SmallVector<int64_t> inverse(transpose.getPermutation().size());
        for (auto [i, axis] : llvm::enumerate(transpose.getPermutation()))
          inverse[axis] = i;
        return wanted.transposed(inverse);
      }
      if (View back = wanted.reshaped(shape); back.isValid())
        return back;
      continue;
    }
    if (auto concat = dyn_cast<ConcatOp>(user)) {
      int64_t start = 0;
      for (Value x : concat.getXs().take_front(use.getOperandNumber()))
        start += tensorType(x).getDimSize(concat.getAxis());
      return place(concat.getY()).sliced(concat.getAxis(), start, shape[concat.getAxis()]);
    }
    if (auto scatter = dyn_cast<ScatterAddOp>(user)) {
      if (use.getOperandNumber() == 0 && hasOneReader(value))
        return place(scatter.getY());
      continue;
    }
    if (auto repeat = dyn_cast<RepeatOp>(user)) {
      unsigned index = use.getOperandNumber();
      if (index >= repeat.getCarried().size())
        continue;
      CarriedPlan &plan = planCarried(repeat)[index];
      // The loop changes its carried value in place, unless it keeps them all.
      if (plan.savedAs >= 0 || hasOneReader(value))
        return plan.init;
    }
  }
  return View();
}

View ProgramBuilder::trialView(Value value) {
  Operation *op = value.getDefiningOp();
  if (op && isViewOp(op) && !schedule.materialised.contains(op)) {
    View from = trialView(op->getOperand(0));
    return from.isValid() ? throughViewOp(op, from) : View();
  }
  if (auto known = views.find(value); known != views.end())
    return known->second;
  RankedTensorType type = tensorType(value);
  auto order = layouts.find(value);
  if (order == layouts.end())
    return contiguousView(0, type);
  SmallVector<int64_t> shape, inverse(order->second.size());
  for (auto [i, axis] : llvm::enumerate(order->second)) {
    shape.push_back(type.getDimSize(axis));
    inverse[axis] = i;
  }
  return contiguousView(0, RankedTensorType::get(shape, type.getElementType()))
      .transposed(inverse);
}

/// A reshape that strides cannot express becomes one that they can when its
/// base is stored in the transposed order; else it is a copy.
void ProgramBuilder::findLayouts(Block &block) {
  for (Operation &op : block) {
    auto reshape = dyn_cast<ReshapeOp>(&op);
    if (!reshape || isSplat(viewBase(reshape.getX(), schedule.materialised)) ||
        trialView(reshape.getY()).isValid())
      continue;
    auto transpose = reshape.getX().getDefiningOp<TransposeOp>();
    Operation *base = transpose ? transpose.getX().getDefiningOp() : nullptr;
    bool flexible = base && !isViewOp(base) && base->getBlock() == &block &&
                    !isa<RepeatOp, ConcatOp, GetParamOp, ConstantOp, ScatterAddOp, CacheUpdateOp>(base) &&
                    transpose.getPermutation().back() ==
                        static_cast<int64_t>(transpose.getPermutation().size()) - 1;
    if (flexible && !layouts.contains(transpose.getX())) {
      layouts[transpose.getX()] = SmallVector<int64_t>(transpose.getPermutation());
      if (trialView(reshape.getY()).isValid())
        continue;
      layouts.erase(transpose.getX());
    }
    schedule.materialised.insert(&op);
  }
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

std::vector<CarriedPlan> &ProgramBuilder::planCarried(RepeatOp repeat) {
  auto [it, fresh] = carriedPlans.try_emplace(repeat);
  if (!fresh)
    return it->second;
  std::vector<CarriedPlan> plans(repeat.getCarried().size());
  size_t carried = plans.size();
  YieldOp yield = repeat.getYield();
  int64_t count = repeat.getCount();
  for (auto [i, plan] : llvm::enumerate(plans)) {
    RankedTensorType type = tensorType(repeat.getCarried()[i]);
    for (size_t j = carried; j < yield.getNumOperands(); ++j)
      if (!repeat.getReverse() && yield.getOperand(j) == repeat.getCarriedArgs()[i])
        plan.savedAs = j;
    std::string name = freshName(repeat.getResult(i));
    if (plan.savedAs < 0) {
      View place = wantedPlace(repeat.getResult(i));
      if (!place.isValid())
        place = allocate(repeat.getResult(i));
      plan.init = plan.arg = plan.target = plan.result = place;
      continue;
    }
    // Layer i reads slot i and writes slot i + 1, so that the values to save
    // are simply left where they are.
    SmallVector<int64_t> shape = {count + 1};
    llvm::append_range(shape, type.getShape());
    auto stackedType = RankedTensorType::get(shape, type.getElementType());
    int buffer = allocate(name, stackedType.getNumElements() *
                                    elementBytes(type.getElementType()));
    View slots = contiguousView(buffer, stackedType);
    unsigned depth = loops.size();
    plan.init = slots.sliced(0, 0, 1).dropLeading();
    plan.arg = slots.sliced(0, 0, count).perLayer(depth);
    plan.target = slots.sliced(0, 1, count).perLayer(depth);
    plan.result = slots.sliced(0, count, 1).dropLeading();
    views[repeat.getResult(plan.savedAs)] = slots.sliced(0, 0, count);
  }
  return carriedPlans[repeat] = std::move(plans);
}

/// Whether the kernel that computes `next` may write it where `arg` is: nothing
/// reads `arg` later, and that kernel reads it at the same points only, in its
/// last pass.
bool ProgramBuilder::canWriteOver(Value arg, Value next, Block &block) {
  Operation *def = next.getDefiningOp();
  auto producer = fused->groupOf.find(def);
  if (!def || producer == fused->groupOf.end())
    return false;
  const Group &writer = fused->groups[producer->second];
  if (isa<RepeatOp, ConcatOp, ReshapeOp, GatherOp>(def) || isColumnReduction(def) ||
      (writer.kind != KernelKind::Row && writer.kind != KernelKind::Matmul))
    return false;
  auto passes = passesOf(writer, schedule.materialised);
  for (auto &[op, pass] : passes)
    if (pass > passes[def])
      return false;
  for (auto [index, group] : llvm::enumerate(fused->groups)) {
    for (Operation *op : group.ops) {
      bool safe = true;
      forEachRead(op, group.domain, schedule.materialised, [&](const Leaf &leaf) {
        if (leaf.base != arg || static_cast<int>(index) < producer->second)
          return;
        bool samePoint = static_cast<int>(index) == producer->second &&
                         leaf.inRegister && leaf.role == Role::Full &&
                         writer.domain.roleOf(next.getType()) == Role::Full;
        if (!samePoint)
          safe = false;
      });
      if (!safe)
        return false;
    }
  }
  for (Value operand : block.getTerminator()->getOperands())
    if (viewBase(operand, schedule.materialised) == arg)
      return false;
  return true;
}

/// Whether `sum`, which adds to the gradient `arg`, may be written where `arg`
/// is while it is computed.
bool ProgramBuilder::accumulatesInPlace(Value arg, Value sum, Block &block) {
  if (sum == arg)
    return true;
  // A loop adds layer by layer; whether that is in place is decided inside.
  if (isa_and_nonnull<RepeatOp>(sum.getDefiningOp()))
    return arg.hasOneUse() && *arg.user_begin() == sum.getDefiningOp();
  // Rows are scattered onto what its base brought there.
  if (auto scatter = sum.getDefiningOp<ScatterAddOp>())
    return scatter.getBase() == arg
               ? arg.hasOneUse()
               : hasOneReader(scatter.getBase()) &&
                     accumulatesInPlace(arg, viewBase(scatter.getBase(), schedule.materialised),
                                        block);
  return arg.hasOneUse() && canWriteOver(arg, sum, block);
}

/// Whether `view` keeps the order of axes that `value` has to be stored in.
bool ProgramBuilder::fitsLayout(Value value, const View &view) const {
  auto order = layouts.find(value);
  return order == layouts.end() || view.transposed(order->second).isContiguous();
}

/// Places the stacked results of a loop, in the order of axes that its body
/// prefers. The body's loop is already the innermost one.
SmallVector<View> ProgramBuilder::placeStacked(RepeatOp repeat, size_t carried) {
  SmallVector<View> places;
  YieldOp yield = repeat.getYield();
  LoopState inner = loops.pop_back_val();
  for (size_t j = carried; j < yield.getNumOperands(); ++j) {
    Value result = repeat.getResult(j);
    if (auto order = layouts.find(yield.getOperand(j)); order != layouts.end()) {
      SmallVector<int64_t> stacked = {0};
      for (int64_t axis : order->second)
        stacked.push_back(axis + 1);
      layouts.try_emplace(result, stacked);
    }
    places.push_back(place(result));
  }
  loops.push_back(inner);
  return places;
}

void ProgramBuilder::scheduleLoop(RepeatOp repeat, std::vector<tfm::Step> &steps) {
  std::vector<CarriedPlan> plans = planCarried(repeat);
  size_t carried = plans.size();
  for (auto [plan, init] : llvm::zip_equal(plans, repeat.getCarried()))
    moveTo(init, plan.init, steps);

  Block *body = repeat.getBlock();
  unsigned depth = loops.size();
  YieldOp yield = repeat.getYield();
  for (auto [arg, operand] : llvm::zip_equal(repeat.getStackedArgs(), repeat.getStacked()))
    views[arg] = viewOf(operand).perLayer(depth);
  for (auto [arg, operand] : llvm::zip_equal(repeat.getSharedArgs(), repeat.getShared()))
    views[arg] = viewOf(operand);
  for (auto [arg, plan] : llvm::zip_equal(repeat.getCarriedArgs(), plans))
    views[arg] = plan.arg;

  loops.push_back({time, {}, repeat});
  findLayouts(*body);
  findMaterialised(*body, schedule.materialised);
  FusedBlock bodyFused = fuse(*body, schedule.materialised);
  SmallVector<View> stackedResults = placeStacked(repeat, carried);
  const FusedBlock *outer = fused;
  fused = &bodyFused;
  for (size_t i = 0; i < yield.getNumOperands(); ++i) {
    Value value = yield.getOperand(i);
    if (i >= carried) {
      View target = stackedResults[i - carried].perLayer(depth);
      auto keepsApart = [&](Value arg) {
        const View &from = views[arg];
        return from.buffer != target.buffer || from.offset != target.offset ||
               accumulatesInPlace(arg, viewBase(value, schedule.materialised), *body);
      };
      bool inPlace = target.buffer != schedule.gradientRegion ||
                     llvm::all_of(repeat.getStackedArgs(), keepsApart);
      if (inPlace && fitsLayout(value, target))
        targets.try_emplace(value, target);
    } else if (plans[i].savedAs >= 0 ||
               canWriteOver(repeat.getCarriedArgs()[i],
                            viewBase(value, schedule.materialised), *body)) {
      targets[value] = plans[i].target;
    }
  }
  tfm::Step loop;
  loop.count = repeat.getCount();
  loop.reverse = repeat.getReverse();
  // Operands are read, and results written, all through the loop.
  for (Value operand : repeat->getOperands())
    if (!isSplat(viewBase(operand, schedule.materialised)) &&
        llvm::is_contained(repeat.getCarried(), operand) == false)
      touch(viewOf(operand));
  scheduleBlock(loop.body);
  // Save before the carried values change.
  for (size_t i = carried; i < yield.getNumOperands(); ++i)
    moveTo(yield.getOperand(i), stackedResults[i - carried].perLayer(depth), loop.body);
  // A next value that is still where another one will be written goes through
  // a buffer of its own.
  
  for (size_t i = 0; i < carried; ++i) {
    Value value = yield.getOperand(i);
    Value base = viewBase(value, schedule.materialised);
    auto arg = dyn_cast<BlockArgument>(base);
    if (arg && llvm::is_contained(repeat.getCarriedArgs(), base) &&
        base != repeat.getCarriedArgs()[i]) {
      View copy = allocate(repeat.getResult(i));
      moveTo(value, copy, loop.body);
      views[value] = copy;
    }
  }
  for (size_t i = 0; i < carried; ++i)
    moveTo(yield.getOperand(i), plans[i].target, loop.body);
  fused = outer;
  LoopState state = loops.pop_back_val();
  for (int touched : state.touched) {
    Buffer &buffer = schedule.buffers[touched];
    buffer.end = std::max(buffer.end, time - 1);
    // An enclosing loop that the buffer lives outside of keeps it longer still.
    if (loops.size() > home[touched])
      loops[home[touched]].touched.push_back(touched);
  }
  for (auto [i, plan] : llvm::enumerate(plans))
    views[repeat.getResult(i)] = plan.result;
  steps.push_back(std::move(loop));
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

void ProgramBuilder::scheduleConcat(ConcatOp concat, std::vector<tfm::Step> &steps) {
  View whole = place(concat.getY());
  int64_t start = 0;
  for (Value x : concat.getXs()) {
    int64_t size = tensorType(x).getDimSize(concat.getAxis());
    moveTo(x, whole.sliced(concat.getAxis(), start, size), steps);
    start += size;
  }
}

/// Products want one of an operand's last two axes contiguous, attention the last
/// one; what is not is copied first.
View ProgramBuilder::readable(Value value, const View &view, const Group &group,
                              std::vector<tfm::Step> &steps) {
  Operation *op = group.ops.front();
  size_t rank = view.strides.size();
  if (!llvm::is_contained(op->getOperands(), value) || rank < 2 || view.strides[rank - 1] == 1 ||
      !isa<MatmulOp, AttentionOp, AttentionBackwardOp, CacheUpdateOp>(op) ||
      (isa<MatmulOp>(op) && view.strides[rank - 2] == 1))
    return view;
  RankedTensorType type = tensorType(value);
  View copy = contiguousView(
      allocate(freshName(value), type.getNumElements() * elementBytes(type.getElementType())), type);
  moveTo(value, copy, steps);
  return copy;
}

void ProgramBuilder::scheduleGroup(const Group &group, std::vector<tfm::Step> &steps) {
  auto launch = std::make_unique<Launch>();
  launch->group = group;
  launch->accumulate = options.accumulate;
  const FusedBlock *block = fused;
  int own = block->groupOf.lookup(group.ops.front());
  auto groupOf = [&](Operation *op) {
    auto it = op ? block->groupOf.find(op) : block->groupOf.end();
    return it == block->groupOf.end() ? -1 : it->second;
  };
  llvm::MapVector<Value, View> reads;
  for (Operation *op : group.ops) {
    forEachRead(op, group.domain, schedule.materialised, [&](const Leaf &leaf) {
      if (groupOf(leaf.base.getDefiningOp()) != own)
        reads.try_emplace(leaf.point, viewOf(leaf.point));
    });
    for (Value operand : op->getOperands())
      if (operand.getType().isIndex())
        for (auto [depth, loop] : llvm::enumerate(loops))
          if (cast<BlockArgument>(operand).getOwner()->getParentOp() == loop.op)
            launch->layerDepth = depth;
  }
  for (auto &[value, view] : reads)
    launch->reads.push_back({value, readable(value, view, group, steps)});
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
        launch->writes.push_back({result, placePartials(result, *launch, folds)});
      } else if ((group.kind != KernelKind::Row && group.kind != KernelKind::Matmul) ||
                 readElsewhere(result)) {
        launch->writes.push_back({result, place(result)});
      }
    }
  }
  if (auto scatter = dyn_cast<ScatterAddOp>(group.ops.front())) {
    // It adds in place, to the base brought there first.
    moveTo(scatter.getBase(), place(scatter.getY()), steps);
    llvm::erase_if(launch->reads, [&](auto &read) {
      return read.first == scatter.getBase();
    });
  }
  if (auto update = dyn_cast<CacheUpdateOp>(group.ops.front())) {
    moveTo(update.getBase(), place(update.getY()), steps);
    llvm::erase_if(launch->reads, [&](auto &read) {
      return read.first == update.getBase();
    });
  }
  push(std::move(launch), steps);
  for (std::unique_ptr<Launch> &fold : folds)
    push(std::move(fold), steps);
}

/// Where a column reduction accumulates: at its result when one chunk does all
/// rows, else in a buffer that a launch after it folds.
View ProgramBuilder::placePartials(Value result, const Launch &launch,
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

void ProgramBuilder::scheduleBlock(std::vector<tfm::Step> &steps) {
  for (const Group &group : fused->groups) {
    Operation *first = group.ops.front();
    if (auto repeat = dyn_cast<RepeatOp>(first)) {
      scheduleLoop(repeat, steps);
    } else if (auto concat = dyn_cast<ConcatOp>(first)) {
      scheduleConcat(concat, steps);
    } else if (auto reshape = dyn_cast<ReshapeOp>(first)) {
      View to = place(reshape.getY());
      moveTo(reshape.getX(), to.reshaped(tensorType(reshape.getX()).getShape()), steps);
    } else {
      scheduleGroup(group, steps);
    }
  }
}

int64_t flopsOf(Block &block) {
  int64_t flops = 0;
  for (Operation &op : block) {
    if (auto repeat = dyn_cast<RepeatOp>(&op)) {
      flops += static_cast<int64_t>(repeat.getCount()) * flopsOf(*repeat.getBlock());
    } else if (auto matmul = dyn_cast<MatmulOp>(&op)) {
      RankedTensorType a = tensorType(matmul.getA());
      int64_t k = a.getDimSize(a.getRank() - (matmul.getTransposeA() ? 2 : 1));
      flops += 2 * k * tensorType(matmul.getY()).getNumElements();
    } else if (isa<AttentionOp, AttentionBackwardOp>(&op)) {
      ArrayRef<int64_t> q = tensorType(op.getOperand(0)).getShape();
      ArrayRef<int64_t> v = tensorType(op.getOperand(2)).getShape();
      int64_t products = 2 * q[0] * q[1] * q[2] * v[2] * (q[3] + v[3]);
      flops += isa<AttentionOp>(&op) ? products : 5 * products / 2;
    }
  }
  return flops;
}

void ProgramBuilder::build(func::FuncOp func, Program &out) {
  home.resize(schedule.buffers.size(), 0);
  Block &block = func.getBody().front();
  // Arguments that name a region are that region, and those that name a gradient
  // are what has been accumulated of it; others are inputs.
  DenseMap<Attribute, Value> accumulated;
  for (BlockArgument arg : block.getArguments()) {
    auto name = func.getArgAttrOfType<StringAttr>(arg.getArgNumber(), "tfm.name");
    auto region = func.getArgAttrOfType<StringAttr>(arg.getArgNumber(), "tfm.region");
    if (region) {
      views[arg] = regionView(schedule, region.getValue(), tensorType(arg));
      home.resize(schedule.buffers.size(), 0);
      continue;
    }
    if (auto gradient =
            func.getArgAttrOfType<FlatSymbolRefAttr>(arg.getArgNumber(), "tfm.gradient")) {
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
    auto type = RankedTensorType::get({4}, IntegerType::get(func.getContext(), 32));
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
    if (auto gradient = func.getResultAttrOfType<FlatSymbolRefAttr>(i, "tfm.gradient")) {
      view = parameterView(gradient.getValue(), schedule.gradientRegion);
      if (Value arg = accumulated.lookup(gradient))
        inPlace = accumulatesInPlace(arg, viewBase(value, schedule.materialised), block);
    } else if (auto region = func.getResultAttrOfType<StringAttr>(i, "tfm.region")) {
      view = regionView(schedule, region.getValue(), tensorType(value));
    } else {
      RankedTensorType type = tensorType(value);
      int buffer = allocate((func.getSymName() + "." + (name ? name.getValue() : "result")).str(),
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
  out.flops = flopsOf(block);
}

} // namespace

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
  int64_t offset = 0;
  auto append = [&](ArrayRef<ParamOp> params, bool isDecayed) {
    for (ParamOp param : params) {
      schedule.parameters.push_back({param, isDecayed, offset});
      offset += paddedElements(param);
    }
    offset = llvm::alignTo(offset, kRegionRow);
  };
  append(decayed, true);
  schedule.decayedElements = offset;
  append(plain, false);
  schedule.plainElements = offset - schedule.decayedElements;
  int64_t trained = offset;
  append(frozen, false);
  schedule.parameterRegion =
      schedule.addBuffer("parameters", BufferKind::Parameter, offset * 4);
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
    ProgramBuilder(schedule, schedule.programs.size(), options).build(func, program);
    schedule.programs.push_back(std::move(program));
  }
  planMemory(schedule);
  return schedule;
}
