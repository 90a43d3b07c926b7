//===- PlaceValues.cpp - where values go ----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/schedule/PlaceValues.h"

#include "compiler/dialect/Attributes.h"
#include "compiler/schedule/Layouts.h"
#include "compiler/schedule/Passes.h"
#include "runtime/tfm_model.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/IRMapping.h"

namespace tfm::sched {
#define GEN_PASS_DEF_PLACEVALUESPASS
#include "compiler/schedule/Passes.h.inc"
} // namespace tfm::sched

using namespace mlir;
using namespace tfm;
using namespace tfm::sched;

bool tfm::hasOneReader(Value value) {
  for (;; value = value.getDefiningOp()->getOperand(0)) {
    if (!value.hasOneUse())
      return false;
    Operation *op = value.getDefiningOp();
    if (!op || !isViewOp(op))
      return op != nullptr;
  }
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

Value ValuePlacer::allocate(StringRef name, int64_t bytes) {
  OpBuilder::InsertionGuard guard(b);
  Operation *&last = lastBuffers[loops.size()];
  if (last)
    b.setInsertionPointAfter(last);
  else
    b.setInsertionPointToStart(loops.empty() ? program
                                             : loops.back().getBlock());
  auto type = MemRefType::get({bytes}, b.getIntegerType(8));
  auto buffer = BufferOp::create(
      b, loc, type, BufferKindAttr::get(b.getContext(), BufferKind::Activation),
      b.getStringAttr(name), ElementsAttr(), IntegerAttr(),
      DenseI64ArrayAttr());
  last = buffer;
  return buffer;
}

std::string ValuePlacer::freshName(Value value) {
  std::string base = "arg";
  Operation *op = value.getDefiningOp();
  if (auto kernel = dyn_cast_or_null<KernelOp>(op))
    op = kernel.getYield()
             ->getOperand(cast<OpResult>(value).getResultNumber())
             .getDefiningOp();
  if (op) {
    base = op->getName().stripDialect().str();
    if (auto words = op->getAttrOfType<DictionaryAttr>(valueAttribute))
      if (auto name = words.getAs<StringAttr>("name"))
        base = name.getValue().str();
  }
  return base + "." + std::to_string(buffers++);
}

/// The order of axes in which `value` has to be stored; empty where it is its
/// own. What a loop stacks keeps the order that its body has it in.
static SmallVector<int64_t> orderOf(Value value) {
  if (auto kernel = value.getDefiningOp<KernelOp>())
    return SmallVector<int64_t>(
        kernel.getLayout(cast<OpResult>(value).getResultNumber()));
  auto repeat = value.getDefiningOp<RepeatOp>();
  unsigned number = repeat ? cast<OpResult>(value).getResultNumber() : 0;
  if (!repeat || number < repeat.getCarried().size() + repeat.getUpdated())
    return {};
  SmallVector<int64_t> order = orderOf(repeat.getYield().getOperand(number));
  if (order.empty())
    return {};
  for (int64_t &axis : order)
    ++axis;
  order.insert(order.begin(), 0);
  return order;
}

View ValuePlacer::allocate(Value value) {
  RankedTensorType type = tensorType(value);
  Value buffer = allocate(freshName(value), contiguousView(type).numBytes());
  return viewInOrder(type, orderOf(value), buffer);
}

//===----------------------------------------------------------------------===//
// Views
//===----------------------------------------------------------------------===//

View ValuePlacer::viewOf(Value value) {
  if (auto it = views.find(value); it != views.end())
    return it->second;
  Operation *op = value.getDefiningOp();
  assert(op && "a block argument without a place");
  if (auto get = dyn_cast<GetParamOp>(op))
    return views[value] = permanent.parameter(
               get.getParam(), tensorType(value).getElementType());
  if (auto constant = dyn_cast<ConstantOp>(op))
    return views[value] = permanent.constant(constant);
  assert(isViewOp(op) && "not placed");
  View result = viewOf(op->getOperand(0)).through(op);
  assert(result.isValid() && "a view that strides cannot express");
  return result;
}

bool ValuePlacer::canBeViewed(Value value, const View &view) const {
  return llvm::all_of(value.getUses(), [&](OpOperand &use) {
    Operation *user = use.getOwner();
    if (isViewOp(user)) {
      View next = view.through(user);
      return next.isValid() && canBeViewed(user->getResult(0), next);
    }
    auto repeat = dyn_cast<RepeatOp>(user);
    if (!repeat)
      return true;
    unsigned number = use.getOperandNumber();
    size_t carried = repeat.getCarried().size();
    if (repeat.changesOperand(number) || value == repeat.getOrder())
      return true;
    bool stacked = number < carried + repeat.getStacked().size();
    return canBeViewed(repeat.getBlock()->getArgument(1 + number),
                       stacked ? view.dropLeading() : view);
  });
}

bool ValuePlacer::fitsOrder(Value value, const View &view) const {
  SmallVector<int64_t> order = orderOf(value);
  return order.empty() || view.transposed(order).isContiguous();
}

bool ValuePlacer::canBeRead(Value value, const View &view) const {
  return llvm::all_of(value.getUses(), [&](OpOperand &use) {
    Operation *user = use.getOwner();
    if (isViewOp(user))
      return canBeRead(user->getResult(0), view.through(user));
    auto kernel = dyn_cast<KernelOp>(user);
    return !kernel || canRead(kernel, use.getOperandNumber(), view);
  });
}

bool ValuePlacer::suits(Value value, const View &view) const {
  if (!view.isValid() || !canBeViewed(value, view))
    return false;
  auto kernel = value.getDefiningOp<KernelOp>();
  return !kernel ||
         canWrite(kernel, cast<OpResult>(value).getResultNumber(), view);
}

Value ValuePlacer::overwritten(Value value) {
  auto kernel = value.getDefiningOp<KernelOp>();
  if (!kernel || kernel.getKind() != KernelKind::Row)
    return {};
  RankedTensorType type = tensorType(value);
  for (Value input : kernel.getInputs())
    if (tensorType(input).getElementType() == type.getElementType() &&
        tensorType(input).getNumElements() == type.getNumElements() &&
        canWriteOver(input, value, *kernel->getBlock()))
      return input;
  return {};
}

bool ValuePlacer::isForProduct(Value value) {
  return llvm::any_of(value.getUses(), [&](OpOperand &use) {
    Operation *user = use.getOwner();
    if (isViewOp(user))
      return isForProduct(user->getResult(0));
    auto kernel = dyn_cast<KernelOp>(user);
    if (!kernel)
      return false;
    if (kernel.getKind() == KernelKind::Matmul)
      return kernel.getInputAccess()[use.getOperandNumber()] == Access::Memory;
    return llvm::any_of(kernel.getResults(), [&](Value result) {
      return overwritten(result) == value && isForProduct(result);
    });
  });
}

/// A view that is row-major in some order of its axes, with gaps behind its
/// rows where the target's products want them.
static View withGaps(View view, const KernelTarget &kernels) {
  int64_t row = 1;
  for (auto [size, stride] : llvm::zip_equal(view.shape, view.strides))
    if (stride == 1 && size != 1)
      row = size;
  if (row == view.numElements())
    return view;
  int64_t apart = kernels.operandRowStride(view.element, row);
  for (int64_t &stride : view.strides)
    if (stride >= row)
      stride = stride / row * apart;
  return view;
}

View ValuePlacer::place(Value value) {
  if (auto it = views.find(value); it != views.end())
    return it->second;
  View view = makeWantedPlace(value);
  if (suits(value, view))
    return views[value] = view;
  if (Value over = overwritten(value); over && own.erase(over))
    view = views.at(over).reshaped(tensorType(value).getShape());
  if (!suits(value, view) || !canBeRead(value, view)) {
    view = viewInOrder(tensorType(value), orderOf(value));
    if (View spread = withGaps(view, kernels);
        spread != view && isForProduct(value) && suits(value, spread) &&
        canBeRead(value, spread))
      view = spread;
    view.buffer = allocate(freshName(value), view.spanBytes());
  }
  if (value.getDefiningOp<KernelOp>())
    own.insert(value);
  return views[value] = view;
}

View ValuePlacer::makeWantedPlace(Value value) {
  if (auto it = wanted.find(value); it != wanted.end())
    return it->second;
  Operation *def = value.getDefiningOp();
  if (!def)
    return View();
  ArrayRef<int64_t> shape = tensorType(value).getShape();
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (isa<ReshapeOp, TransposeOp>(user)) {
      View wanted = makeWantedPlace(user->getResult(0));
      if (!wanted.isValid())
        continue;
      if (auto transpose = dyn_cast<TransposeOp>(user))
        return wanted.transposed(
            invertPermutationVector(transpose.getPermutation()));
      if (View back = wanted.reshaped(shape); back.isValid())
        return back;
      continue;
    }
    if (auto concat = dyn_cast<ConcatOp>(user)) {
      int64_t start = 0;
      for (Value x : concat.getXs().take_front(use.getOperandNumber()))
        start += tensorType(x).getDimSize(concat.getAxis());
      return place(concat.getY())
          .sliced(concat.getAxis(), start, shape[concat.getAxis()]);
    }
    if (auto kernel = dyn_cast<KernelOp>(user)) {
      if (kernel.getKind() == KernelKind::ScatterAdd &&
          use.getOperandNumber() == 0 && hasOneReader(value))
        return place(kernel.getResult(0));
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

/// The view as a value of the program, at the loops' present layers.
Value ValuePlacer::emit(const View &view) {
  SmallVector<Value> indices;
  SmallVector<int64_t> steps;
  for (auto [depth, step] : llvm::enumerate(view.loopSteps))
    if (step != 0) {
      indices.push_back(loops[depth].getLayer());
      steps.push_back(step);
    }
  return ViewOp::create(
      b, loc, view.memref(), view.buffer, b.getI64IntegerAttr(view.offset),
      indices, b.getDenseI64ArrayAttr(steps), view.row,
      view.row ? b.getI64IntegerAttr(view.rowStep) : IntegerAttr());
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

void ValuePlacer::moveTo(Value value, const View &to) {
  Value base = viewBase(value);
  if (isSplat(base)) {
    auto dense =
        cast<DenseElementsAttr>(base.getDefiningOp<ConstantOp>().getValue());
    FillOp::create(b, value.getLoc(),
                   cast<TypedAttr>(dense.getSplatValue<Attribute>()), emit(to),
                   /*kernel=*/nullptr);
    return;
  }
  View from = viewOf(value);
  if (from.coincidesWith(to))
    return;
  Value source = emit(from);
  CopyOp::create(b, value.getLoc(), source, emit(to), /*kernel=*/nullptr);
}

void ValuePlacer::placeConcat(ConcatOp concat) {
  View whole = place(concat.getY());
  int64_t start = 0;
  for (Value x : concat.getXs()) {
    int64_t size = tensorType(x).getDimSize(concat.getAxis());
    moveTo(x, whole.sliced(concat.getAxis(), start, size));
    start += size;
  }
}

/// Where a kernel reads an input: where it is, or a copy that suits it.
View ValuePlacer::readable(KernelOp kernel, unsigned input) {
  Value value = kernel.getInputs()[input];
  if (!isSplat(viewBase(value))) {
    View view = viewOf(value);
    if (canRead(kernel, input, view))
      return view;
  }
  RankedTensorType type = tensorType(value);
  View copy = contiguousView(
      type, allocate(freshName(value), contiguousView(type).numBytes()));
  moveTo(value, copy);
  return copy;
}

void ValuePlacer::placeKernel(KernelOp kernel) {
  SmallVector<View> reads, writes;
  SmallVector<Access> access;
  for (unsigned i = kernel.isInPlace() ? 1 : 0; i < kernel.getInputs().size();
       ++i) {
    reads.push_back(readable(kernel, i));
    access.push_back(kernel.getInputAccess()[i]);
  }
  for (auto [i, result] : llvm::enumerate(kernel.getResults())) {
    writes.push_back(place(result));
    access.push_back(kernel.getResultAccess()[i]);
  }
  if (kernel.isInPlace())
    moveTo(kernel.getInputs().front(), writes.front());
  SmallVector<Value> from, to;
  for (const View &view : reads)
    from.push_back(emit(view));
  for (const View &view : writes)
    to.push_back(emit(view));
  auto launch = LaunchOp::create(
      b, kernel.getLoc(), kernel.getKindAttr(), kernel.getRowsAttr(),
      kernel.getColsAttr(), from, to,
      kernel.getLayer() ? layers.at(kernel.getLayer()) : Value(),
      drawsNumbers(*kernel.getBlock()) ? rng : Value(),
      AccessesAttr::get(b.getContext(), access),
      b.getI64IntegerAttr(microSteps), /*kernel=*/nullptr);
  moveBody(kernel, launch);
}

/// Writes the body of a launch: what the kernel computes, between reads and
/// writes. What only readers of the IR before want to know is left out, so that
/// equal kernels are equal.
void ValuePlacer::moveBody(KernelOp kernel, LaunchOp launch) {
  Block *body = new Block;
  launch.getBody().push_back(body);
  for (Value view : launch.getReads())
    body->addArgument(view.getType(), view.getLoc());
  for (Value view : launch.getWrites())
    body->addArgument(view.getType(), view.getLoc());
  OpBuilder inside = OpBuilder::atBlockBegin(body);
  IRMapping mapping;
  unsigned next = 0;
  for (auto [i, input] : llvm::enumerate(kernel.getInputs())) {
    bool inPlace = i == 0 && kernel.isInPlace();
    Value from =
        inPlace ? launch.getWriteArgs().front() : body->getArgument(next++);
    mapping.map(kernel.getBlock()->getArgument(i),
                ReadOp::create(inside, kernel.getLoc(), input.getType(), from));
  }
  if (kernel.getLayer())
    mapping.map(
        kernel.getBlock()->getArguments().back(),
        body->addArgument(kernel.getLayer().getType(), kernel.getLoc()));
  for (Operation &op : kernel.getBlock()->without_terminator())
    inside.clone(op, mapping)->setDiscardableAttrs(b.getDictionaryAttr({}));
  for (auto [value, to] :
       llvm::zip_equal(kernel.getYield()->getOperands(), launch.getWriteArgs()))
    WriteOp::create(inside, kernel.getLoc(), mapping.lookup(value), to);
}

void ValuePlacer::placeBlock(Block &block) {
  for (Operation &op : block.without_terminator()) {
    if (auto repeat = dyn_cast<RepeatOp>(op)) {
      placeLoop(repeat);
    } else if (auto concat = dyn_cast<ConcatOp>(op)) {
      placeConcat(concat);
    } else if (auto copy = dyn_cast<ContiguousOp>(op)) {
      moveTo(copy.getX(), place(copy.getY()));
    } else if (auto kernel = dyn_cast<KernelOp>(op)) {
      placeKernel(kernel);
    }
  }
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

Value ValuePlacer::rowOf(Attribute segment) const {
  if (rows.empty())
    return {};
  return segment ? rows[cast<IntegerAttr>(segment).getInt()] : rows.front();
}

View ValuePlacer::allocatePort(func::FuncOp func, StringRef name,
                               RankedTensorType type) {
  return contiguousView(type, allocate((func.getSymName() + "." + name).str(),
                                       contiguousView(type).numBytes()));
}

void ValuePlacer::placeArgument(func::FuncOp func, BlockArgument arg) {
  unsigned number = arg.getArgNumber();
  RankedTensorType type = tensorType(arg);
  if (auto region = ArenaRegion::ofArgument(func, number)) {
    views[arg] = permanent.region(
        *region, type, rowOf(func.getArgAttr(number, segmentAttribute)));
    return;
  }
  if (auto gradient =
          func.getArgAttrOfType<FlatSymbolRefAttr>(number, gradientAttribute)) {
    views[arg] = permanent.gradient(gradient.getValue());
    accumulated[gradient] = arg;
    return;
  }
  StringRef name = nameOfArgument(func, number);
  View view = allocatePort(func, name.empty() ? "input" : name, type);
  views[arg] = view;
  Value input = emit(view);
  InputOp::create(b, loc, b.getStringAttr(name), input);
  int64_t segments =
      func.getArgAttr(number, rowAttribute) ? type.getNumElements() : 0;
  for (int64_t i = 0; i < segments; ++i)
    rows.push_back(segments == 1 ? input : emit(view.sliced(0, i, 1)));
}

void ValuePlacer::addCounter(func::FuncOp func) {
  bool draws = programKind(func.getSymName()) == ProgramKind::Train;
  func.walk(
      [&](KernelOp kernel) { draws |= drawsNumbers(*kernel.getBlock()); });
  if (!draws)
    return;
  rng = emit(allocatePort(func, TFM_IN_RNG,
                          RankedTensorType::get({4}, b.getI32Type())));
  InputOp::create(b, loc, b.getStringAttr(TFM_IN_RNG), rng);
}

View ValuePlacer::placeResult(func::FuncOp func, OpOperand &operand) {
  unsigned number = operand.getOperandNumber();
  Value value = operand.get();
  Block &block = *operand.getOwner()->getBlock();
  View view;
  bool inPlace = true;
  if (auto gradient = func.getResultAttrOfType<FlatSymbolRefAttr>(
          number, gradientAttribute)) {
    view = permanent.gradient(gradient.getValue());
    if (Value arg = accumulated.lookup(gradient))
      inPlace = accumulatesInPlace(arg, value, block);
  } else if (auto region = ArenaRegion::ofResult(func, number)) {
    view =
        permanent.region(*region, tensorType(value),
                         rowOf(func.getResultAttr(number, segmentAttribute)));
    // A cache is updated in place; the optimizer's kernel has to read what it
    // replaces at the same points, and nothing after it may.
    for (BlockArgument arg : block.getArguments())
      if (views[arg] == view && region->kind != ArenaRegion::Kind::Cache)
        inPlace = canWriteOver(arg, value, block);
  } else {
    StringRef name = nameOfResult(func, number);
    view =
        allocatePort(func, name.empty() ? "result" : name, tensorType(value));
  }
  if (inPlace && fitsOrder(value, view))
    wanted.try_emplace(value, view);
  return view;
}

void ValuePlacer::addOutputs(func::FuncOp func, ArrayRef<View> results) {
  for (auto [number, view] : llvm::enumerate(results)) {
    if (func.getResultAttr(number, gradientAttribute) ||
        ArenaRegion::ofResult(func, number))
      continue;
    OutputOp::create(b, loc, b.getStringAttr(nameOfResult(func, number)),
                     emit(view));
  }
}

void ValuePlacer::placeFunction(func::FuncOp func) {
  b = OpBuilder(func);
  loc = func.getLoc();
  auto op = ProgramOp::create(b, loc, func.getSymNameAttr());
  program = &op.getBody().emplaceBlock();
  b.setInsertionPointToEnd(program);
  lastBuffers = {nullptr};
  Block &block = func.getBody().front();
  for (BlockArgument arg : block.getArguments())
    placeArgument(func, arg);
  addCounter(func);
  Operation *terminator = block.getTerminator();
  SmallVector<View> results;
  for (OpOperand &operand : terminator->getOpOperands())
    results.push_back(placeResult(func, operand));
  placeBlock(block);
  for (auto [value, view] : llvm::zip_equal(terminator->getOperands(), results))
    moveTo(value, view);
  addOutputs(func, results);
}

namespace {

/// Whether kernels have been formed: what is left besides them has a place, or
/// is a view of one.
LogicalResult verifyFormed(Block &block) {
  for (Operation &op : block.without_terminator()) {
    if (auto repeat = dyn_cast<RepeatOp>(op)) {
      if (failed(verifyFormed(*repeat.getBlock())))
        return failure();
    } else if (!isViewOp(&op) &&
               !isa<KernelOp, ContiguousOp, ConcatOp, ConstantOp, GetParamOp>(
                   op)) {
      return op.emitOpError("is in no kernel");
    }
  }
  return success();
}

struct PlaceValuesPass
    : tfm::sched::impl::PlaceValuesPassBase<PlaceValuesPass> {
  using PlaceValuesPassBase::PlaceValuesPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    const KernelTarget *kernels = KernelTarget::find(target, module);
    if (!kernels)
      return signalPassFailure();
    FailureOr<std::optional<Optimizer>> optimizer = Optimizer::read(module);
    FailureOr<int64_t> steps = microSteps(module);
    if (failed(optimizer) || failed(steps))
      return signalPassFailure();
    SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
    for (func::FuncOp func : functions)
      if (failed(verifyFormed(func.getBody().front())))
        return signalPassFailure();
    PermanentBuffers permanent(module, *optimizer);
    for (func::FuncOp func : functions) {
      ValuePlacer(&getContext(), permanent, *kernels, *steps)
          .placeFunction(func);
      func.erase();
    }
  }
};

} // namespace
