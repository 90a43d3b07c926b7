//===- SchedOps.cpp - what the ops of the sched dialect must hold ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/schedule/SchedDialect.h"

#include "compiler/schedule/View.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MathExtras.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"

#define GET_OP_CLASSES
#include "compiler/schedule/SchedOps.cpp.inc"

using namespace mlir;
using namespace tfm;
using namespace tfm::sched;

namespace {

/// Whether a tensor of `type` can be accessed so in `domain`: as many elements
/// as there are points, or rows.
LogicalResult verifyAccess(Operation *op, const Domain &domain, ShapedType type,
                           Access access, const Twine &what) {
  int64_t n = type.getNumElements();
  int64_t wanted = access == Access::Point ? domain.rows * domain.cols
                   : access == Access::Row ? domain.rows
                                           : n;
  if (n != wanted)
    return op->emitOpError() << what << " has " << n
                             << " elements, and its access wants " << wanted;
  return success();
}

/// Whether an op of a body computes nothing: it brings what the others read, or
/// takes what they give.
bool onlyMoves(Operation &op) {
  return isa<ReadOp, WriteOp, sched::YieldOp>(op);
}

/// The first op of a body that computes something and is not free.
Operation *firstComputed(Block &body) {
  for (Operation &op : body)
    if (!onlyMoves(op) && !isFree(&op))
      return &op;
  return nullptr;
}

/// Whether the ops of a kernel's body are those that its kind promises.
LogicalResult verifyKind(Operation *op, KernelKind kind, Block &body) {
  Operation *first = firstComputed(body);
  bool holds;
  if (kind == KernelKind::Fold)
    holds = isa_and_nonnull<ReduceSumOp, ReduceMaxOp>(first);
  else
    holds = first ? kindOf(first->getName()) == kind : kind == KernelKind::Row;
  if (!holds)
    return op->emitOpError("of kind '")
           << stringifyKernelKind(kind) << "' begins with "
           << (first ? first->getName().getStringRef() : "nothing");
  for (Operation &member : body)
    if (&member != first && !onlyMoves(member) && !isa<ConstantOp>(member) &&
        !isPartOfReader(&member) && kindOf(member.getName()) != KernelKind::Row)
      return op->emitOpError("goes on with ")
             << member.getName() << ", which no row kernel computes";
  return success();
}

LogicalResult verifyArguments(Operation *op, Block *body, TypeRange expected) {
  if (!llvm::equal(body->getArgumentTypes(), expected))
    return op->emitOpError("has a body with arguments of other types than its "
                           "operands");
  return success();
}

} // namespace

std::optional<KernelKind> sched::kindOf(OperationName op) {
  static const std::pair<TypeID, KernelKind> kinds[] = {
      {TypeID::get<MatmulOp>(), KernelKind::Matmul},
      {TypeID::get<AttentionOp>(), KernelKind::Attention},
      {TypeID::get<AttentionBackwardOp>(), KernelKind::AttentionBackward},
      {TypeID::get<ScatterAddOp>(), KernelKind::ScatterAdd},
      {TypeID::get<CacheUpdateOp>(), KernelKind::CacheUpdate},
      {TypeID::get<TopKOp>(), KernelKind::TopK}};
  for (auto [id, kind] : kinds)
    if (op.getTypeID() == id)
      return kind;
  if (op.hasInterface<RowKernelOpInterface>())
    return KernelKind::Row;
  return std::nullopt;
}

bool sched::drawsNumbers(Block &body) {
  return llvm::any_of(body, [](Operation &op) {
    if (auto attention = dyn_cast<AttentionOp>(op))
      return attention.getDropout().has_value();
    if (auto backward = dyn_cast<AttentionBackwardOp>(op))
      return backward.getDropout().has_value();
    return isa<DropoutOp, UniformOp>(op);
  });
}

ArrayRef<int64_t> KernelOp::getLayout(unsigned result) {
  if (!getLayouts())
    return {};
  return cast<DenseI64ArrayAttr>((*getLayouts())[result]).asArrayRef();
}

LogicalResult KernelOp::verify() {
  SmallVector<Type> expected(getInputs().getTypes());
  if (getLayer())
    expected.push_back(getLayer().getType());
  if (failed(verifyArguments(*this, getBlock(), expected)))
    return failure();
  auto yield = dyn_cast<sched::YieldOp>(getBlock()->getTerminator());
  if (!yield || !llvm::equal(yield.getOperandTypes(), getResultTypes()))
    return emitOpError("yields other types than its results have");
  if (getInputAccess().size() != getInputs().size() ||
      getResultAccess().size() != getNumResults())
    return emitOpError("has not one access for each input and result");
  if (getLayouts() && getLayouts()->size() != getNumResults())
    return emitOpError("has not one layout for each result");
  Domain domain = getDomain();
  for (auto [i, input] : llvm::enumerate(getInputs()))
    if (failed(verifyAccess(*this, domain, cast<ShapedType>(input.getType()),
                            getInputAccess()[i], "input " + Twine(i))))
      return failure();
  for (auto [i, result] : llvm::enumerate(getResults())) {
    auto type = cast<RankedTensorType>(result.getType());
    if (failed(verifyAccess(*this, domain, type, getResultAccess()[i],
                            "result " + Twine(i))))
      return failure();
    ArrayRef<int64_t> order = getLayout(i);
    SmallVector<int64_t> sorted(order);
    llvm::sort(sorted);
    if (!order.empty() &&
        !llvm::equal(sorted, llvm::seq<int64_t>(0, type.getRank())))
      return emitOpError() << "result " << i
                           << " has a layout that is no order of its axes";
  }
  return verifyKind(*this, getKind(), *getBlock());
}

Domain ReduceChunksOp::getDomain() { return rowsOf(getX()); }

std::optional<int64_t> ReduceChunksOp::getReducedAxis() { return 0; }

LogicalResult ReduceChunksOp::verify() {
  RankedTensorType x = getX().getType(), y = getY().getType();
  if (x.getRank() != 2 || y.getRank() != 2 ||
      x.getElementType() != y.getElementType() ||
      x.getDimSize(1) != y.getDimSize(1))
    return emitOpError("wants rows of one length, and gives such rows");
  if (y.getDimSize(0) > x.getDimSize(0))
    return emitOpError("has more chunks than rows");
  return success();
}

void BufferOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getBuffer(), getName());
}

int64_t BufferOp::getArenaBytes() {
  return static_cast<int64_t>(llvm::alignTo(getBytes(), bufferAlignment));
}

LogicalResult BufferOp::verify() {
  bool activation = getKind() == BufferKind::Activation;
  bool inProgram = (*this)->getParentOfType<ProgramOp>() != nullptr;
  if (activation != inProgram)
    return emitOpError(activation ? "that is an activation stands in a program"
                                  : "stands in the module");
  if ((getKind() == BufferKind::Constant) != getValue().has_value())
    return emitOpError("has a value where it is a constant, and only there");
  if (std::optional<ElementsAttr> value = getValue())
    if (contiguousView(cast<RankedTensorType>(value->getType())).numBytes() !=
        getBytes())
      return emitOpError("has not the size of its value");
  if (std::optional<int64_t> offset = getOffset())
    if (*offset < 0 || *offset % bufferAlignment != 0)
      return emitOpError("has an offset that is no multiple of ")
             << bufferAlignment;
  if (std::optional<ArrayRef<int64_t>> live = getLive())
    if (!activation || live->size() != 2 || (*live)[0] < 0 ||
        (*live)[1] < (*live)[0])
      return emitOpError("has no first and last step to live in");
  return success();
}

LogicalResult ViewOp::verify() {
  if (getSteps().size() != getLayers().size())
    return emitOpError("has not one step for each layer");
  // The farthest byte, with every loop in its last turn.
  int64_t first = getOffset(), last = getOffset();
  for (auto [layer, step] : llvm::zip_equal(getLayers(), getSteps())) {
    auto argument = dyn_cast<BlockArgument>(layer);
    auto loop = argument ? dyn_cast<LoopOp>(argument.getOwner()->getParentOp())
                         : LoopOp();
    if (!loop)
      return emitOpError("advances with what is no layer of a loop");
    int64_t end = (static_cast<int64_t>(loop.getCount()) - 1) * step;
    (end < 0 ? first : last) += end;
  }
  View view = viewOf(getView().getType());
  int64_t size = elementBytes(view.element);
  auto isWhole = [&](int64_t bytes) { return bytes % size == 0; };
  if (!isWhole(getOffset()) || !llvm::all_of(getSteps(), isWhole) ||
      !isWhole(getRowStep().value_or(0)))
    return emitOpError("begins or advances by a part of an element of ")
           << size << " bytes";
  last += view.spanBytes();
  auto buffer = cast<MemRefType>(getBuffer().getType());
  if (static_cast<bool>(getRow()) != getRowStep().has_value())
    return emitOpError(
        "has a row where it has the bytes of one, and only there");
  if (getRow()) {
    MemRefType number = getRow().getType();
    if (number.getNumElements() != 1 || !number.getElementType().isInteger(32))
      return emitOpError("has a row that is not one i32");
    if (static_cast<int64_t>(*getRowStep()) < 1)
      return emitOpError("has rows of no bytes");
  }
  if (first < 0 || last > buffer.getNumElements())
    return emitOpError("goes from byte ")
           << first << " to " << last << " of a buffer of "
           << buffer.getNumElements();
  return success();
}

bool tfm::sched::isKernelStep(Operation &op) {
  return isa<LaunchOp, CopyOp, FillOp>(op);
}

/// Whether a block of a program, and the loops in it, has steps, buffers, views
/// and ports alone, and every view that they take is one of its own.
static LogicalResult verifySteps(ProgramOp program, Block &block) {
  for (Operation &op : block) {
    if (!isa<BufferOp, ViewOp, InputOp, OutputOp, LoopOp, SerialOp, GroupOp>(
            op) &&
        !isKernelStep(op))
      return program.emitOpError("holds ")
             << op.getName() << ", which is no part of a program";
    if (!isa<ViewOp>(op))
      for (Value operand : op.getOperands())
        if (isa<MemRefType>(operand.getType()) &&
            !operand.getDefiningOp<ViewOp>())
          return op.emitOpError("takes a view that no 'sched.view' gives");
    if (auto loop = dyn_cast<LoopOp>(op))
      if (failed(verifySteps(program, *loop.getBlock())))
        return failure();
    if (auto serial = dyn_cast<SerialOp>(op))
      if (failed(verifySteps(program, *serial.getBlock())))
        return failure();
    if (auto group = dyn_cast<GroupOp>(op))
      if (failed(verifySteps(program, *group.getBlock())))
        return failure();
  }
  return success();
}

LogicalResult ProgramOp::verifyRegions() {
  llvm::StringSet<> names;
  for (auto input : getBlock()->getOps<InputOp>())
    if (!input.getName().empty() && !names.insert(input.getName()).second)
      return emitOpError("has two inputs of the name '")
             << input.getName() << "'";
  return verifySteps(*this, *getBlock());
}

LogicalResult LoopOp::verify() {
  if (static_cast<int64_t>(getCount()) < 1)
    return emitOpError("runs for at least one layer");
  if (getBlock()->getNumArguments() != 1 ||
      !getBlock()->getArgument(0).getType().isIndex())
    return emitOpError("has one argument of type index, the layer");
  return success();
}

LogicalResult SerialOp::verifyRegions() {
  for (Operation &op : *getBlock())
    if (!isKernelStep(op))
      return emitOpError("runs steps alone, and not ") << op.getName();
  if (getBehindFirst() && getBlock()->empty())
    return emitOpError("has no first step");
  return success();
}

SmallVector<LaunchOp, 4> GroupOp::getLaunches() {
  return llvm::to_vector<4>(getBlock()->getOps<LaunchOp>());
}

LaunchOp GroupOp::getOwn() {
  return getBehindFirst() ? getLaunches().front() : nullptr;
}

SmallVector<LaunchOp, 4> GroupOp::getShared() {
  SmallVector<LaunchOp, 4> launches = getLaunches();
  if (getBehindFirst())
    launches.erase(launches.begin());
  return launches;
}

LogicalResult GroupOp::verifyRegions() {
  for (Operation &op : *getBlock())
    if (!isa<BufferOp, ViewOp, LaunchOp>(op))
      return emitOpError("runs launches alone, and not ") << op.getName();
  if (getLaunches().size() < (getBehindFirst() ? 2 : 1))
    return emitOpError("has too few launches");
  LaunchOp own = getOwn();
  if (own && own.getWrites().size() != 1)
    return emitOpError("has a first launch that does not write one thing");
  for (auto view : getBlock()->getOps<ViewOp>())
    if (view.getBuffer().getParentBlock() != getBlock())
      return emitOpError("has a view of what is no memory of its blocks");
  for (LaunchOp launch : getLaunches())
    for (Value to : launch.getWrites())
      if ((to.getParentBlock() == getBlock()) != (launch == own))
        return emitOpError("writes memory of its blocks in what is not the "
                           "first launch, or other memory there");
  return success();
}

WriteOp LaunchOp::getWriteOf(unsigned argument) {
  for (Operation *user : getBlock()->getArgument(argument).getUsers())
    if (auto write = dyn_cast<WriteOp>(user))
      return write;
  return nullptr;
}

Operation *LaunchOp::getFirstOp() { return firstComputed(*getBlock()); }

LogicalResult LaunchOp::verify() {
  SmallVector<Type> expected(getReads().getTypes());
  llvm::append_range(expected, getWrites().getTypes());
  size_t arguments = expected.size();
  if (getLayer())
    expected.push_back(getLayer().getType());
  if (failed(verifyArguments(*this, getBlock(), expected)))
    return failure();
  if (getAccess().size() != arguments)
    return emitOpError("has not one access for each read and write");
  Domain domain = getDomain();
  for (size_t i = 0; i < arguments; ++i) {
    if (failed(verifyAccess(*this, domain, cast<ShapedType>(expected[i]),
                            getAccessOf(i), "argument " + Twine(i))))
      return failure();
    int64_t writes =
        llvm::count_if(getBlock()->getArgument(i).getUsers(),
                       [](Operation *user) { return isa<WriteOp>(user); });
    if (writes != (i < getReads().size() ? 0 : 1))
      return emitOpError("writes argument ") << i << ' ' << writes << " times";
  }
  if (llvm::all_of(*getBlock(), onlyMoves))
    return emitOpError("computes nothing: that is a 'sched.copy'");
  if (drawsNumbers(*getBlock()) && !getRng())
    return emitOpError("draws random numbers and has no 'rng'");
  if (getRng()) {
    MemRefType counter = getRng().getType();
    if (counter.getShape() != ArrayRef<int64_t>{4} ||
        !counter.getElementType().isInteger(32))
      return emitOpError("has an 'rng' that is not four i32");
  }
  if (static_cast<int64_t>(getMicroSteps()) < 1)
    return emitOpError("counts no micro-steps to an update");
  return verifyKind(*this, getKind(), *getBlock());
}

/// Whether a tensor lies in a memref: of one shape and element.
static LogicalResult verifyLies(Operation *op, RankedTensorType tensor,
                                MemRefType memref) {
  if (tensor.getShape() != memref.getShape() ||
      tensor.getElementType() != memref.getElementType())
    return op->emitOpError("has a tensor of another shape or element type "
                           "than the memory");
  return success();
}

LogicalResult ReadOp::verify() {
  return verifyLies(*this, getY().getType(), getFrom().getType());
}

LogicalResult WriteOp::verify() {
  return verifyLies(*this, getValue().getType(), getTo().getType());
}

LogicalResult CopyOp::verify() {
  MemRefType from = getFrom().getType(), to = getTo().getType();
  if (from.getShape() != to.getShape() ||
      from.getElementType() != to.getElementType())
    return emitOpError("copies between views of different shapes or types");
  return success();
}

LogicalResult FillOp::verify() {
  if (getValue().getType() != getTo().getType().getElementType())
    return emitOpError("fills with a value of another type than the elements");
  return success();
}
