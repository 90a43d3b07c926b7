//===- ChunkLoss.cpp - the loss over a vocabulary in chunks of rows -------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The logits of a batch, [rows, vocabulary], are often the largest values of a
// training step. They are wanted from the product that gives them to the
// products that their derivative goes into, and each row by itself until then:
// so a repeat goes through these ops with some rows at a time, and only the
// logits of one chunk are ever there.
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/Programs.h"
#include "compiler/dialect/TfmBuilder.h"
#include "compiler/transforms/Passes.h"

#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Analysis/TopologicalSortUtils.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

namespace tfm {
#define GEN_PASS_DEF_CHUNKLOSSPASS
#include "compiler/transforms/Passes.h.inc"
} // namespace tfm

using namespace mlir;
using namespace tfm;

namespace {

/// The ops from the product that gives logits to those that their derivative
/// goes into.
class Loss {
public:
  /// Nothing where the ops are others than are known here.
  static std::optional<Loss> of(Value logits) {
    Loss loss;
    loss.product = productUnder(logits);
    if (!loss.product || !loss.collect() || loss.readsTwoWays() ||
        loss.dependsOnItself())
      return std::nullopt;
    return loss;
  }

  int64_t rows() { return tensorType(product.getY()).getShape().front(); }

  /// Makes them a repeat over chunks.
  void chunk(int64_t chunks) {
    OpBuilder b(product);
    Location loc = product.getLoc();
    count = chunks;
    SmallVector<Value> stacked, carried;
    for (Value value : ofRows)
      stacked.push_back(TfmBuilder{b, value.getLoc()}.reshape(
          value, stackedType(chunkType(value))));
    for (Value sum : sums)
      carried.push_back(splat(b, loc, tensorType(sum), 0.0));
    SmallVector<Type> types(TypeRange(ValueRange(sums.getArrayRef())));
    for (Value value : results)
      types.push_back(stackedType(chunkType(value)));
    auto repeat =
        RepeatOp::create(b, loc, types, chunks, /*reverse=*/false, carried,
                         stacked, shared.getArrayRef(), /*order=*/nullptr);
    fill(repeat);
    for (auto [old, now] :
         llvm::zip_equal(sums.getArrayRef(), repeat.getCarriedResults()))
      Value(old).replaceAllUsesWith(now);
    b.setInsertionPointAfter(repeat);
    for (auto [old, now] :
         llvm::zip_equal(results.getArrayRef(), repeat.getStackedResults()))
      Value(old).replaceAllUsesWith(
          TfmBuilder{b, old.getLoc()}.reshape(now, tensorType(old)));
    for (Operation *op : llvm::reverse(members))
      op->erase();
    for (auto [start, sum] : llvm::zip_equal(repeat.getCarriedMutable(),
                                             repeat.getCarriedResults()))
      beginWithAddend(start, sum);
    // What the derivative is given may have been computed behind the logits.
    sortTopologically(repeat->getBlock());
  }

private:
  /// Through what is computed of each logit alone.
  static MatmulOp productUnder(Value logits) {
    Operation *op = logits.getDefiningOp();
    while (op && (isa<ReshapeOp>(op) || op->hasTrait<OpTrait::Elementwise>())) {
      Operation *next = nullptr;
      for (Value operand : op->getOperands())
        if (!isFloatConstant(operand) && !operand.getDefiningOp<BroadcastOp>())
          next = operand.getDefiningOp();
      op = next;
    }
    auto product = dyn_cast_or_null<MatmulOp>(op);
    if (!product || product.getTransposeA() ||
        tensorType(product.getY()).getRank() != 2)
      return {};
    return product;
  }

  /// Finds the ops, what they read, and what they give. False where something
  /// else reads logits.
  bool collect() {
    members.insert(product);
    ofRows.insert(product.getA());
    matrices.insert(product.getA());
    shared.insert(product.getB());
    wide.insert(product.getY());
    for (Operation *op = product->getNextNode(); op; op = op->getNextNode())
      if (llvm::any_of(op->getOperands(),
                       [&](Value x) { return wide.contains(x); }) &&
          !(add(op) && members.insert(op)))
        return false;
    for (Operation *op : members)
      for (Value value : op->getResults())
        if (!wide.contains(value) && !sums.contains(value) &&
            llvm::any_of(value.getUsers(), [&](Operation *user) {
              return !members.contains(user);
            }))
          results.insert(value);
    return true;
  }

  /// Takes in an op that reads logits, or what is as large.
  bool add(Operation *op) {
    if (auto loss = dyn_cast<CrossEntropyOp>(op)) {
      ofRows.insert(loss.getTargets());
      return true;
    }
    if (auto derivative = dyn_cast<CrossEntropyBackwardOp>(op)) {
      ofRows.insert(derivative.getTargets());
      ofRows.insert(derivative.getDlosses());
      wide.insert(derivative.getDlogits());
      return members.contains(derivative.getLse().getDefiningOp());
    }
    if (auto matmul = dyn_cast<MatmulOp>(op))
      return addProduct(matmul);
    if (auto best = dyn_cast<TopKOp>(op)) {
      matrices.insert_range(best->getResults());
      return true;
    }
    if (op->getNumResults() != 1)
      return false;
    Value result = op->getResult(0);
    if (auto sum = dyn_cast<ReduceSumOp>(op)) {
      sums.insert(result);
      return sum.getAxis() == 0 && tensorType(sum.getX()).getRank() == 2;
    }
    wide.insert(result);
    if (isa<ReshapeOp>(op))
      return tensorType(result).getShape().back() == vocabulary();
    return op->hasTrait<OpTrait::Elementwise>() &&
           llvm::all_of(op->getOperands(), [&](Value x) {
             return wide.contains(x) || isFloatConstant(x) || addBias(x);
           });
  }

  /// A number for each token of the vocabulary.
  bool addBias(Value value) {
    auto broadcast = value.getDefiningOp<BroadcastOp>();
    if (!broadcast || tensorType(broadcast.getX()).getShape() !=
                          ArrayRef<int64_t>(vocabulary()))
      return false;
    shared.insert(broadcast.getX());
    return true;
  }

  /// A product of each row, or one that adds up over all rows.
  bool addProduct(MatmulOp matmul) {
    Value a = matmul.getA(), b = matmul.getB();
    if (tensorType(a).getRank() != 2 || (wide.contains(a) && wide.contains(b)))
      return false;
    Value other = wide.contains(a) ? b : a;
    if (wide.contains(a) && !matmul.getTransposeA()) {
      matrices.insert(matmul.getY());
      return shared.insert(other), true;
    }
    if (!matmul.getTransposeA() || matmul.getTransposeB())
      return false;
    ofRows.insert(other);
    matrices.insert(other);
    sums.insert(matmul.getY());
    return true;
  }

  /// Where a gradient that is there already is added to a sum, the sum begins
  /// with it: so both are one place.
  static void beginWithAddend(OpOperand &start, Value sum) {
    while (sum.hasOneUse()) {
      Operation *user = *sum.user_begin();
      if (auto scatter = dyn_cast<ScatterAddOp>(user);
          scatter && scatter->getOperand(0) == sum) {
        sum = scatter->getResult(0);
        continue;
      }
      auto add = dyn_cast<AddOp>(user);
      if (!add)
        return;
      Value other = add.getA() == sum ? add.getB() : add.getA();
      if (!isa<BlockArgument>(other))
        return;
      start.set(other);
      add.replaceAllUsesWith(sum);
      return add.erase();
    }
  }

  /// Whether they read a value row by row and as a whole, too.
  bool readsTwoWays() const {
    return llvm::any_of(ofRows,
                        [&](Value value) { return shared.contains(value); });
  }

  /// Whether something that they read is computed of what they give.
  bool dependsOnItself() const {
    BackwardSliceOptions options;
    SetVector<Operation *> slice;
    for (const SetVector<Value> *inputs : {&ofRows, &shared})
      for (Value value : *inputs)
        if (Operation *def = value.getDefiningOp()) {
          slice.insert(def);
          (void)getBackwardSlice(def, &slice, options);
        }
    return llvm::any_of(slice,
                        [&](Operation *op) { return members.contains(op); });
  }

  int64_t vocabulary() { return tensorType(product.getY()).getShape().back(); }

  /// That of the rows of a chunk: [rows, vocabulary] of logits, [rows, columns]
  /// of what products take and give and of the largest ones, and else [rows].
  RankedTensorType chunkType(Value value) {
    if (wide.contains(value))
      return wideType(value);
    RankedTensorType type = tensorType(value);
    SmallVector<int64_t> shape = {rows() / count};
    if (matrices.contains(value))
      shape.push_back(type.getShape().back());
    return RankedTensorType::get(shape, type.getElementType());
  }
  RankedTensorType wideType(Value value) {
    return RankedTensorType::get({rows() / count, vocabulary()},
                                 tensorType(value).getElementType());
  }
  RankedTensorType stackedType(RankedTensorType type) const {
    return ::stackedType(type, count);
  }

  void fill(RepeatOp repeat) {
    OpBuilder b(repeat.getContext());
    Block &body = repeat.getBody().emplaceBlock();
    b.setInsertionPointToStart(&body);
    body.addArgument(b.getIndexType(), repeat.getLoc());
    SmallVector<Value> before;
    for (Value sum : sums)
      before.push_back(body.addArgument(sum.getType(), sum.getLoc()));
    IRMapping now;
    for (Value value : ofRows)
      now.map(value, body.addArgument(chunkType(value), value.getLoc()));
    for (Value value : shared)
      now.map(value, body.addArgument(value.getType(), value.getLoc()));
    for (Operation *op : members) {
      if (isa<ReshapeOp>(op)) {
        now.map(op->getResult(0), now.lookup(op->getOperand(0)));
        continue;
      }
      for (Value operand : op->getOperands()) {
        if (now.contains(operand))
          continue;
        auto bias = operand.getDefiningOp<BroadcastOp>();
        now.map(operand, bias ? TfmBuilder{b, op->getLoc()}.broadcast(
                                    now.lookup(bias.getX()), wideType(operand))
                              : splat(b, op->getLoc(), wideType(operand),
                                      *floatSplat(operand)));
      }
      Operation *copy = b.clone(*op, now);
      for (auto [old, made] :
           llvm::zip_equal(op->getResults(), copy->getResults()))
        if (!sums.contains(old))
          made.setType(chunkType(old));
    }
    SmallVector<Value> yielded;
    for (auto [sum, soFar] : llvm::zip_equal(sums, before))
      yielded.push_back(AddOp::create(b, sum.getLoc(), soFar, now.lookup(sum)));
    for (Value value : results)
      yielded.push_back(now.lookup(value));
    YieldOp::create(b, repeat.getLoc(), yielded);
  }

  MatmulOp product;
  int64_t count = 1;
  /// In program order.
  SetVector<Operation *> members;
  /// Logits, and what is as large; other operands and results of products, and
  /// the largest of each row.
  llvm::DenseSet<Value> wide, matrices;
  /// What the ops read: a row of it for each of logits, or all of it.
  SetVector<Value> ofRows, shared;
  /// What they give: sums over all rows, and what each row has.
  SetVector<Value> sums, results;
};

/// The most chunks of as many rows each, a multiple of what tiles of products
/// have, but no fewer than `least`.
int64_t chunksOf(int64_t rows, int64_t least) {
  const int64_t ofTiles = std::min<int64_t>(64, least);
  for (int64_t chunks = rows / least; chunks > 1; --chunks)
    if (rows % chunks == 0 && rows / chunks % ofTiles == 0)
      return chunks;
  return 1;
}

struct ChunkLossPass : tfm::impl::ChunkLossPassBase<ChunkLossPass> {
  using ChunkLossPassBase::ChunkLossPassBase;

  void runOnOperation() override {
    chunk<CrossEntropyBackwardOp>(ProgramKind::Train, trained);
    chunk<CrossEntropyOp>(ProgramKind::Evaluate, evaluated);
  }

private:
  /// The last that reads logits is an `Op`.
  template <typename Op> void chunk(ProgramKind kind, int64_t least) {
    auto function = findProgram(getOperation(), kind);
    if (!function || least == 0)
      return;
    for (auto op : function.getBody().front().getOps<Op>())
      if (std::optional<Loss> loss = Loss::of(op.getLogits()))
        if (int64_t chunks = chunksOf(loss->rows(), least); chunks > 1)
          return loss->chunk(chunks);
  }
};

} // namespace
