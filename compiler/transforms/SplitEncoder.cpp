//===- SplitEncoder.cpp - what is computed once a prompt ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/transforms/SplitEncoder.h"

#include "compiler/dialect/Programs.h"
#include "compiler/dialect/TfmBuilder.h"
#include "runtime/tfm_model.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace tfm;

namespace {

/// What a value depends on; the largest counts.
enum class Needs { Nothing, Source, Tokens };

class EncoderSplit {
public:
  explicit EncoderSplit(func::FuncOp forward)
      : forward(forward), builder(forward.getContext()), loc(forward.getLoc()),
        b{builder, loc} {}

  std::optional<func::FuncOp> run() {
    Block &block = forward.getBody().front();
    for (BlockArgument argument : block.getArguments())
      needs[argument] = isOfEncoder(argument) ? Needs::Source : Needs::Tokens;
    classify(block);
    if (!findKept(block))
      return std::nullopt;
    buildEncode(block);
    return buildRest(block);
  }

private:
  Needs of(Operation *op) const {
    Needs most = Needs::Nothing;
    for (Value operand : op->getOperands())
      most = std::max(most, needs.lookup(operand));
    return most;
  }

  void classify(Block &block) {
    for (Operation &op : block.without_terminator()) {
      Needs own = of(&op);
      for (Value result : op.getResults())
        needs[result] = own;
      auto repeat = dyn_cast<RepeatOp>(&op);
      if (!repeat || own != Needs::Tokens)
        continue;
      // What layers hand on comes to depend on tokens in one of them.
      for (Value argument : repeat.getCarriedArgs())
        needs[argument] = Needs::Tokens;
      for (auto [argument, operand] :
           llvm::zip_equal(repeat.getStackedArgs(), repeat.getStacked()))
        needs[argument] = needs.lookup(operand);
      for (auto [argument, operand] :
           llvm::zip_equal(repeat.getSharedArgs(), repeat.getShared()))
        needs[argument] = needs.lookup(operand);
      classify(*repeat.getBlock());
    }
  }

  /// Of a block, the values of the source that what depends on tokens reads.
  /// What is only the same several times is made anew of that.
  using Kept = llvm::SetVector<Value>;

  void keep(Value value, Kept &kept) {
    if (needs.lookup(value) != Needs::Source)
      return;
    if (auto broadcast = value.getDefiningOp<BroadcastOp>())
      keep(broadcast.getX(), kept);
    else
      kept.insert(value);
  }

  /// Whether it is known what to keep.
  bool findKept(Block &block) {
    Kept &own = keptOf[&block];
    Kept found;
    for (Operation &op : block.without_terminator()) {
      if (of(&op) != Needs::Tokens)
        continue;
      auto repeat = dyn_cast<RepeatOp>(&op);
      if (!repeat) {
        for (Value operand : op.getOperands())
          keep(operand, found);
        continue;
      }
      if (!findKept(*repeat.getBlock()))
        return false;
      const Kept &inner = keptOf[repeat.getBlock()];
      bool isNested = isa<RepeatOp>(block.getParentOp());
      if (isNested && llvm::any_of(inner, [](Value value) {
            return value.getDefiningOp() != nullptr;
          }))
        return false;
      for (Value operand : repeat.getCarried())
        keep(operand, found);
      for (auto [argument, operand] :
           llvm::zip_equal(repeat.getStackedArgs(), repeat.getStacked()))
        if (inner.contains(argument))
          keep(operand, found);
      for (auto [argument, operand] :
           llvm::zip_equal(repeat.getSharedArgs(), repeat.getShared()))
        if (inner.contains(argument))
          keep(operand, found);
    }
    for (Value value : block.getTerminator()->getOperands())
      keep(value, found);
    own = std::move(found);
    return true;
  }

  /// A value as it lies in a cache: a row of numbers.
  Value packed(Value value) {
    RankedTensorType type = tensorType(value);
    if (type.getElementType().isInteger(1))
      value = b.cast(value, builder.getF32Type());
    return b.reshape(value,
                     tensorType(value).clone({1, 1, 1, type.getNumElements()}));
  }
  Value unpacked(Value row, RankedTensorType type) {
    bool isBool = type.getElementType().isInteger(1);
    Value value = b.reshape(row, tensorType(row).clone(type.getShape()));
    return isBool ? b.compare(CompareKind::ne, value, b.zeros(value)) : value;
  }

  /// What a layer computes of the source, of those that are kept.
  SmallVector<Value> computedIn(RepeatOp repeat) {
    return llvm::filter_to_vector(keptOf[repeat.getBlock()], [](Value value) {
      return value.getDefiningOp() != nullptr;
    });
  }

  /// Clones what does not depend on tokens.
  void cloneSource(Block &block, IRMapping &values) {
    for (Operation &op : block.without_terminator())
      if (of(&op) != Needs::Tokens)
        builder.clone(op, values);
      else if (auto repeat = dyn_cast<RepeatOp>(&op))
        cloneSource(repeat, values);
  }

  /// Makes of layers those that compute what is kept of the source.
  void cloneSource(RepeatOp repeat, IRMapping &values) {
    SmallVector<Value> computed = computedIn(repeat);
    if (computed.empty())
      return;
    SmallVector<Value> stacked, shared, stackedArgs, sharedArgs;
    auto take = [&](ValueRange arguments, ValueRange operands,
                    SmallVector<Value> &to, SmallVector<Value> &toArgs) {
      for (auto [argument, operand] : llvm::zip_equal(arguments, operands))
        if (needs.lookup(operand) != Needs::Tokens) {
          to.push_back(values.lookup(operand));
          toArgs.push_back(argument);
        }
    };
    take(repeat.getStackedArgs(), repeat.getStacked(), stacked, stackedArgs);
    take(repeat.getSharedArgs(), repeat.getShared(), shared, sharedArgs);
    auto body = std::make_unique<Block>();
    SmallVector<Type> results;
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(body.get());
      IRMapping inner;
      inner.map(repeat.getLayer(),
                body->addArgument(builder.getIndexType(), loc));
      for (Value argument : llvm::concat<Value>(stackedArgs, sharedArgs))
        inner.map(argument, body->addArgument(argument.getType(), loc));
      cloneSource(*repeat.getBlock(), inner);
      SmallVector<Value> yielded;
      for (Value value : computed) {
        yielded.push_back(packed(inner.lookup(value)));
        RankedTensorType type = tensorType(yielded.back());
        SmallVector<int64_t> shape{static_cast<int64_t>(repeat.getCount())};
        llvm::append_range(shape, type.getShape());
        results.push_back(type.clone(shape));
      }
      YieldOp::create(builder, loc, yielded);
    }
    auto layers = RepeatOp::create(
        builder, repeat.getLoc(), results, repeat.getCountAttr(),
        repeat.getReverseAttr(), ValueRange(), stacked, shared,
        /*order=*/nullptr);
    layers.getBody().push_back(body.release());
    computedBy[repeat] = layers;
  }

  void buildEncode(Block &block) {
    SmallVector<BlockArgument> sources = llvm::filter_to_vector(
        block.getArguments(), [](BlockArgument a) { return isOfEncoder(a); });
    builder.setInsertionPointAfter(forward);
    auto encode = func::FuncOp::create(
        builder, loc, nameOf(ProgramKind::Encode),
        builder.getFunctionType(TypeRange(ValueRange(sources)), {}));
    Block *body = encode.addEntryBlock();
    builder.setInsertionPointToStart(body);
    IRMapping values;
    for (auto [i, source] : llvm::enumerate(sources)) {
      encode.setArgAttrs(i, forward.getArgAttrDict(source.getArgNumber()));
      values.map(source, body->getArgument(i));
    }
    cloneSource(block, values);
    SmallVector<Value> results;
    for (Value value : keptOf[&block])
      results.push_back(packed(values.lookup(value)));
    block.walk([&](RepeatOp repeat) {
      if (RepeatOp layers = computedBy.lookup(repeat))
        llvm::append_range(results, layers.getResults());
    });
    func::ReturnOp::create(builder, loc, results);
    encode.setFunctionType(builder.getFunctionType(
        encode.getArgumentTypes(), TypeRange(ValueRange(results))));
    for (auto [i, value] : llvm::enumerate(results)) {
      ArenaRegion::ofCache(static_cast<int64_t>(i))
          .setResult(encode, static_cast<unsigned>(i));
      caches.push_back(tensorType(value));
    }
  }

  func::FuncOp buildRest(Block &block) {
    SmallVector<Type> inputs;
    SmallVector<DictionaryAttr> attributes;
    SmallVector<BlockArgument> tokens;
    for (BlockArgument argument : block.getArguments())
      if (!isOfEncoder(argument)) {
        tokens.push_back(argument);
        inputs.push_back(argument.getType());
        attributes.push_back(forward.getArgAttrDict(argument.getArgNumber()));
      }
    llvm::append_range(inputs, caches);
    builder.setInsertionPointAfter(forward);
    auto rest = func::FuncOp::create(
        builder, loc, nameOf(ProgramKind::ForwardEncoded),
        builder.getFunctionType(inputs, forward.getResultTypes()));
    Block *body = rest.addEntryBlock();
    builder.setInsertionPointToStart(body);
    IRMapping values;
    for (auto [i, argument] : llvm::enumerate(tokens)) {
      rest.setArgAttrs(i, attributes[i]);
      values.map(argument, body->getArgument(i));
    }
    auto next = static_cast<unsigned>(tokens.size());
    auto cache = [&] {
      ArenaRegion::ofCache(next - static_cast<int64_t>(tokens.size()))
          .setArgument(rest, next);
      return body->getArgument(next++);
    };
    for (Value value : keptOf[&block])
      values.map(value, unpacked(cache(), tensorType(value)));
    block.walk([&](RepeatOp repeat) {
      for ([[maybe_unused]] Value value : computedIn(repeat))
        cachesOf[repeat].push_back(cache());
    });
    cloneRest(block, values);
    SmallVector<Value> results;
    for (Value value : block.getTerminator()->getOperands())
      results.push_back(values.lookup(value));
    func::ReturnOp::create(builder, loc, results);
    return rest;
  }

  /// Clones what depends on tokens, or on nothing.
  void cloneRest(Block &block, IRMapping &values) {
    for (Operation &op : block.without_terminator()) {
      auto repeat = dyn_cast<RepeatOp>(&op);
      Needs own = of(&op);
      bool isAnew = isa<BroadcastOp>(op) && values.contains(op.getOperand(0));
      if (repeat && own == Needs::Tokens)
        cloneRest(repeat, values);
      else if (own != Needs::Source || isAnew)
        builder.clone(op, values);
    }
  }

  void cloneRest(RepeatOp repeat, IRMapping &values) {
    SmallVector<Value> computed = computedIn(repeat),
                       carried = llvm::map_to_vector(
                           repeat.getCarried(),
                           [&](Value value) { return values.lookup(value); });
    SmallVector<Value> stacked, shared, stackedArgs, sharedArgs;
    auto take = [&](ValueRange arguments, ValueRange operands,
                    SmallVector<Value> &to, SmallVector<Value> &toArgs) {
      for (auto [argument, operand] : llvm::zip_equal(arguments, operands))
        if (Value known = values.lookupOrNull(operand)) {
          to.push_back(known);
          toArgs.push_back(argument);
        }
    };
    take(repeat.getStackedArgs(), repeat.getStacked(), stacked, stackedArgs);
    llvm::append_range(stacked, cachesOf[repeat]);
    take(repeat.getSharedArgs(), repeat.getShared(), shared, sharedArgs);
    auto copy =
        RepeatOp::create(builder, repeat.getLoc(), repeat.getResultTypes(),
                         repeat.getCountAttr(), repeat.getReverseAttr(),
                         carried, stacked, shared, /*order=*/nullptr);
    copy->setDiscardableAttrs(repeat->getDiscardableAttrDictionary());
    OpBuilder::InsertionGuard guard(builder);
    Block *body = builder.createBlock(&copy.getBody());
    IRMapping inner;
    auto bind = [&](Value argument) {
      inner.map(argument, body->addArgument(argument.getType(), loc));
    };
    bind(repeat.getLayer());
    llvm::for_each(repeat.getCarriedArgs(), bind);
    llvm::for_each(stackedArgs, bind);
    SmallVector<Value> rows;
    for (Value cache : cachesOf[repeat]) {
      RankedTensorType type = tensorType(cache);
      rows.push_back(
          body->addArgument(type.clone(type.getShape().drop_front()), loc));
    }
    llvm::for_each(sharedArgs, bind);
    for (auto [value, row] : llvm::zip_equal(computed, rows))
      inner.map(value, unpacked(row, tensorType(value)));
    cloneRest(*repeat.getBlock(), inner);
    SmallVector<Value> yielded;
    for (Value value : repeat.getYield().getValues())
      yielded.push_back(inner.lookup(value));
    YieldOp::create(builder, repeat.getYield().getLoc(), yielded);
    for (auto [old, result] :
         llvm::zip_equal(repeat.getResults(), copy.getResults()))
      values.map(old, result);
  }

  func::FuncOp forward;
  OpBuilder builder;
  Location loc;
  TfmBuilder b;
  llvm::DenseMap<Value, Needs> needs;
  llvm::DenseMap<Block *, Kept> keptOf;
  /// The layers that compute what is kept of some, and the caches of that.
  llvm::DenseMap<Operation *, RepeatOp> computedBy;
  llvm::DenseMap<Operation *, SmallVector<Value>> cachesOf;
  SmallVector<RankedTensorType> caches;
};

} // namespace

bool tfm::isOfEncoder(BlockArgument argument) {
  auto forward = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  unsigned number = argument.getArgNumber();
  if (ArenaRegion::ofArgument(forward, number))
    return true;
  StringRef name = nameOfArgument(forward, number);
  return name == TFM_IN_SOURCE ||
         (name == TFM_IN_PRESENT && findArgument(forward, TFM_IN_SOURCE));
}

std::optional<func::FuncOp> tfm::splitEncoder(func::FuncOp forward) {
  return EncoderSplit(forward).run();
}
