//===- FormKernels.cpp - outline the ops that share a kernel --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/schedule/Fuse.h"
#include "compiler/schedule/Layouts.h"
#include "compiler/schedule/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tfm::sched {
#define GEN_PASS_DEF_FORMKERNELSPASS
#include "compiler/schedule/Passes.h.inc"
} // namespace tfm::sched

using namespace mlir;
using namespace tfm;
using namespace tfm::sched;

namespace {

Access accessOf(Role role) {
  switch (role) {
  case Role::Full:
    return Access::Point;
  case Role::Scalar:
    return Access::Row;
  case Role::Other:
    return Access::Memory;
  }
  llvm_unreachable("a role without an access");
}

/// Makes the `sched.kernel` of one group. `outer` finds the value of the block
/// under construction that stands for one of the old block.
class Outliner {
public:
  Outliner(const Group &group, const OpSet &materialised,
           llvm::function_ref<Value(Value)> outer)
      : group(group), materialised(materialised), outer(outer),
        body(std::make_unique<Block>()), b(group.ops.front()->getContext()) {
    b.setInsertionPointToStart(body.get());
  }

  /// The kernel with the given `results`, inserted by `builder`.
  KernelOp outline(OpBuilder &builder, ArrayRef<Value> results,
                   const Layouts &layouts) {
    for (Operation *op : group.ops)
      clone(op);
    SmallVector<Value> yielded;
    SmallVector<Type> types;
    SmallVector<Access> resultAccess;
    SmallVector<Attribute> orders;
    bool ordered = false;
    for (Value result : results) {
      yielded.push_back(members.at(result));
      types.push_back(result.getType());
      resultAccess.push_back(resultAccessOf(result));
      ArrayRef<int64_t> order = layouts.orderOf(result);
      orders.push_back(builder.getDenseI64ArrayAttr(order));
      ordered |= !order.empty();
    }
    Location loc = group.ops.front()->getLoc();
    sched::YieldOp::create(b, loc, yielded);
    // Inputs came up while the ops were cloned; the layer's index comes last.
    SmallVector<Value> operands;
    SmallVector<Access> inputAccess;
    for (auto &[value, access] : inputs) {
      operands.push_back(outer(value));
      inputAccess.push_back(access);
    }
    if (layerArgument)
      layerArgument.replaceAllUsesWith(
          body->addArgument(layer.getType(), layer.getLoc()));
    if (layerArgument)
      body->eraseArgument(layerArgument.getArgNumber());
    MLIRContext *context = builder.getContext();
    auto kernel = KernelOp::create(
        builder, loc, types, KernelKindAttr::get(context, *group.kind),
        builder.getI64IntegerAttr(group.domain.rows),
        builder.getI64IntegerAttr(group.domain.cols), operands, layer,
        AccessesAttr::get(context, inputAccess),
        AccessesAttr::get(context, resultAccess),
        ordered ? builder.getArrayAttr(orders) : ArrayAttr());
    kernel.getBody().push_back(body.release());
    return kernel;
  }

private:
  Access resultAccessOf(Value result) const {
    Operation *op = result.getDefiningOp();
    if (isColumnReduction(op))
      return Access::Memory;
    if (isRowReduction(op))
      return Access::Row;
    return accessOf(group.domain.roleOf(result.getType()));
  }

  void clone(Operation *op) {
    bool structured = group.kind != KernelKind::Row && op == group.ops.front();
    // One value may be several operands, each with an input of its own.
    SmallVector<Value> operands;
    for (OpOperand &operand : op->getOpOperands()) {
      Value value = operand.get();
      if (value.getType().isIndex())
        operands.push_back(layerIndex(value));
      else if (readsAtPoint(op, operand.getOperandNumber()))
        operands.push_back(at(value, group.domain.roleOf(value.getType())));
      else
        operands.push_back(inMemory(value, /*own=*/structured));
    }
    Operation *copy = cloneWith(op, operands);
    for (auto [from, to] :
         llvm::zip_equal(op->getResults(), copy->getResults()))
      members[from] = to;
  }

  Operation *cloneWith(Operation *op, ArrayRef<Value> operands) {
    // Where every token stands depends on the shape of the tokens alone.
    if (auto positions = dyn_cast<PositionsOp>(op)) {
      auto type = tensorType(positions.getY());
      return IotaOp::create(b, op->getLoc(), type, type.getRank() - 1);
    }
    Operation *copy = b.clone(*op);
    copy->setOperands(operands);
    return copy;
  }

  /// A value that an op reads anywhere.
  Value inMemory(Value value, bool own) {
    Operation *def = viewBase(value, materialised).getDefiningOp();
    // Ids that are positions are computed row by row.
    if (def && isPartOfReader(def)) {
      SmallVector<Value> operands;
      for (Value operand : def->getOperands())
        operands.push_back(inMemory(operand, own));
      return cloneWith(def, operands)->getResult(0);
    }
    if (def && isFree(def) && !isSplat(def->getResult(0)) &&
        !materialised.contains(def))
      return at(value, Role::Scalar);
    return own ? addInput(value, Access::Memory) : input(value, Access::Memory);
  }

  /// `value` at the kernel's point or row.
  Value at(Value value, Role role) {
    if (auto member = members.find(value); member != members.end())
      return member->second;
    auto key = std::pair(value, static_cast<int>(role));
    if (auto known = clones.find(key); known != clones.end())
      return known->second;
    Operation *op = value.getDefiningOp();
    if (!op || !isFree(op) || materialised.contains(op))
      return input(value, accessOf(role));
    Value result;
    if (isViewOp(op)) {
      Value x = op->getOperand(0);
      switch (passageThrough(op, role, group.domain)) {
      case Passage::Same:
        result = cloneWith(op, at(x, role))->getResult(0);
        break;
      case Passage::RowScalar:
        result = cloneWith(op, at(x, Role::Scalar))->getResult(0);
        break;
      case Passage::Memory:
        Value base = viewBase(x, materialised);
        if (!isSplat(base))
          return input(value, accessOf(role));
        auto splat = cast<DenseElementsAttr>(
            base.getDefiningOp<ConstantOp>().getValue());
        result = ConstantOp::create(b, op->getLoc(), value.getType(),
                                    splat.resizeSplat(tensorType(value)));
      }
    } else {
      SmallVector<Value> operands;
      if (!isa<PositionsOp>(op))
        for (Value operand : op->getOperands())
          operands.push_back(at(operand, role));
      result = cloneWith(op, operands)->getResult(0);
    }
    return clones[key] = result;
  }

  Value layerIndex(Value index) {
    layer = outer(index);
    if (!layerArgument)
      layerArgument = body->addArgument(index.getType(), index.getLoc());
    return layerArgument;
  }

  Value input(Value value, Access access) {
    auto key = std::pair(value, static_cast<int>(access));
    if (auto known = shared.find(key); known != shared.end())
      return known->second;
    return shared[key] = addInput(value, access);
  }

  Value addInput(Value value, Access access) {
    inputs.push_back({value, access});
    return body->addArgument(value.getType(), value.getLoc());
  }

  const Group &group;
  const OpSet &materialised;
  llvm::function_ref<Value(Value)> outer;
  std::unique_ptr<Block> body;
  OpBuilder b;
  SmallVector<std::pair<Value, Access>> inputs;
  Value layer;
  BlockArgument layerArgument;
  /// What stands in the body for a result of the group, for a free value at a
  /// point, and for a value that is read.
  llvm::DenseMap<Value, Value> members;
  llvm::DenseMap<std::pair<Value, int>, Value> clones, shared;
};

class KernelFormer {
public:
  explicit KernelFormer(Block &function)
      : function(function), layouts(function), materialised(layouts.copies()) {}

  LogicalResult run() {
    if (failed(form(function)))
      return failure();
    // Only now: what was found out is known by the old ops' addresses.
    for (Operation *op : llvm::reverse(dead)) {
      op->dropAllUses();
      op->erase();
    }
    return success();
  }

private:
  LogicalResult form(Block &block) {
    findMaterialised(block, materialised);
    FailureOr<FusedBlock> fused = fuse(block, materialised);
    if (failed(fused))
      return failure();
    Operation *terminator = block.getTerminator();
    OpBuilder b(terminator);
    SmallVector<Operation *> old;
    for (Operation &op : block.without_terminator())
      old.push_back(&op);
    for (auto [index, group] : llvm::enumerate(fused->groups)) {
      Operation *first = group.ops.front();
      if (isa<RepeatOp, ConcatOp>(first)) {
        for (OpOperand &operand : first->getOpOperands())
          operand.set(now(operand.get(), b));
        first->moveBefore(terminator);
        for (Value result : first->getResults())
          current[result] = result;
        if (auto repeat = dyn_cast<RepeatOp>(first))
          if (failed(form(*repeat.getBlock())))
            return failure();
        llvm::erase(old, first);
      } else if (auto reshape = dyn_cast<ReshapeOp>(first)) {
        Value copy =
            ContiguousOp::create(b, reshape.getLoc(), now(reshape.getX(), b));
        Operation *view = b.clone(*first);
        view->setOperand(0, copy);
        current[reshape.getY()] = view->getResult(0);
      } else {
        outline(group, static_cast<int>(index), *fused, b);
      }
    }
    for (OpOperand &operand : terminator->getOpOperands())
      operand.set(now(operand.get(), b));
    llvm::append_range(dead, old);
    return success();
  }

  void outline(const Group &group, int index, const FusedBlock &fused,
               OpBuilder &b) {
    SmallVector<Value> results;
    for (Operation *op : group.ops)
      for (Value result : op->getResults())
        if ((group.kind != KernelKind::Row &&
             group.kind != KernelKind::Matmul) ||
            isColumnReduction(op) || readElsewhere(result, index, fused))
          results.push_back(result);
    KernelOp kernel = Outliner(group, materialised, [&](Value value) {
                        return now(value, b);
                      }).outline(b, results, layouts);
    for (auto [from, to] : llvm::zip_equal(results, kernel.getResults()))
      current[from] = to;
  }

  /// Whether another kernel or the terminator uses `value`, possibly through
  /// free ops.
  bool readElsewhere(Value value, int own, const FusedBlock &fused) const {
    SmallVector<Value> queue = {value};
    llvm::DenseSet<Value> seen;
    while (!queue.empty()) {
      Value next = queue.pop_back_val();
      if (!seen.insert(next).second)
        continue;
      for (Operation *user : next.getUsers()) {
        if (isFree(user) && !materialised.contains(user)) {
          queue.push_back(user->getResult(0));
          continue;
        }
        auto group = fused.groupOf.find(user);
        if (group == fused.groupOf.end() || group->second != own)
          return true;
      }
    }
    return false;
  }

  /// What stands for `value` of the old block: the result of a kernel, or a
  /// constant, parameter or view that is written down again when it is needed.
  Value now(Value value, OpBuilder &b) {
    Operation *op = value.getDefiningOp();
    if (!op)
      return value;
    if (auto known = current.find(value); known != current.end())
      return known->second;
    assert((isViewOp(op) || isa<ConstantOp, GetParamOp>(op)) &&
           "a value that no kernel computes");
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(now(operand, b));
    Operation *copy = b.clone(*op);
    copy->setOperands(operands);
    return current[value] = copy->getResult(0);
  }

  Block &function;
  Layouts layouts;
  OpSet materialised;
  llvm::DenseMap<Value, Value> current;
  SmallVector<Operation *> dead;
};

struct FormKernelsPass
    : tfm::sched::impl::FormKernelsPassBase<FormKernelsPass> {
  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>())
      if (failed(KernelFormer(func.getBody().front()).run()))
        return signalPassFailure();
  }
};

} // namespace
