//===- DeriveDecode.cpp - generation with a cache -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/Attributes.h"
#include "compiler/dialect/Programs.h"
#include "compiler/dialect/TfmBuilder.h"
#include "compiler/transforms/Passes.h"
#include "compiler/transforms/PositionSelector.h"
#include "compiler/transforms/SequenceAxis.h"
#include "compiler/transforms/SplitEncoder.h"
#include "runtime/tfm_model.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/MathExtras.h"
#include <optional>

namespace tfm {
#define GEN_PASS_DEF_DERIVEDECODEPASS
#include "compiler/transforms/Passes.h.inc"
} // namespace tfm

using namespace mlir;
using namespace tfm;

namespace {

/// A tensor with positions at `tag` as a cache of all of them, [B, outer, T,
/// inner].
RankedTensorType cacheOfRows(Value rows, const SequenceTag &tag,
                             int64_t batch) {
  RankedTensorType type = tensorType(rows);
  int64_t time = tag.time.axis, inner = 1;
  for (int64_t size : type.getShape().drop_front(time + 1))
    inner *= size;
  int64_t length = type.getDimSize(time);
  return RankedTensorType::get(
      {batch, type.getNumElements() / (batch * length * inner), length, inner},
      type.getElementType());
}

/// What all functions that share the caches agree on.
struct CacheShape {
  /// The most positions that one of them takes at once.
  int64_t together;
  /// The rows of a ring are a multiple of this.
  int64_t rowMultiple;

  /// The rows of the ring that keeps what a position may yet see of `length`:
  /// the `window` that ends with it, and the positions that one function writes
  /// before the first of them looks back. Those may all be taken back, or pad a
  /// chunk, and what they wrote over is not missed. Nothing where whole
  /// sequences take no more.
  std::optional<int64_t> ringOf(int64_t window, int64_t length) const {
    if (window >= length)
      return std::nullopt;
    int64_t rows = llvm::alignTo(window + together, rowMultiple);
    return rows < length ? std::optional(rows) : std::nullopt;
  }
  std::optional<int64_t> ringOf(AttentionOp attention) const {
    if (!attention.getWindow() || attention.getMask())
      return std::nullopt;
    return ringOf(static_cast<int64_t>(*attention.getWindow()),
                  tensorType(attention.getK()).getDimSize(2));
  }
};

/// What attention keeps of each position: keys and values, and their scales
/// where they are integers.
SmallVector<OpOperand *> keptOperands(AttentionOp attention) {
  SmallVector<OpOperand *> kept{&attention.getKMutable(),
                                &attention.getVMutable()};
  for (MutableOperandRange scale :
       {attention.getKeyScaleMutable(), attention.getValueScaleMutable()})
    for (OpOperand &operand : scale)
      kept.push_back(&operand);
  return kept;
}

/// How many of its rows before a position a causal op looks back to, where it
/// keeps rows: the sum up to the one before, or what is shifted here from
/// there.
int64_t rowsBefore(Operation *op) {
  auto shift = dyn_cast<ShiftOp>(op);
  return shift ? static_cast<int64_t>(shift.getSteps()) : 1;
}

/// What is kept of a causal op: keys and values, the sums, or what is shifted.
SmallVector<RankedTensorType> cachesOf(Operation *op,
                                       const SequenceAnalysis &analysis,
                                       const CacheShape &shape) {
  if (auto attention = dyn_cast<AttentionOp>(op)) {
    SmallVector<RankedTensorType> types;
    for (OpOperand *kept : keptOperands(attention)) {
      RankedTensorType type = tensorType(kept->get());
      SmallVector<int64_t> sizes(type.getShape());
      sizes[2] = shape.ringOf(attention).value_or(sizes[2]);
      types.push_back(type.clone(sizes));
    }
    return types;
  }
  Value rows = op->getResult(0);
  RankedTensorType all =
      cacheOfRows(rows, *analysis.find(rows), analysis.batch());
  SmallVector<int64_t> sizes(all.getShape());
  sizes[2] = shape.ringOf(rowsBefore(op), sizes[2]).value_or(sizes[2]);
  return {all.clone(sizes)};
}

/// The types of the caches of a block in program order; inside of a repeat
/// those of all layers, stacked.
void collectCaches(Block &block, const SequenceAnalysis &analysis,
                   const CacheShape &shape, ArrayRef<int64_t> layers,
                   SmallVectorImpl<RankedTensorType> &types) {
  for (Operation &op : block) {
    if (auto repeat = dyn_cast<RepeatOp>(&op)) {
      SmallVector<int64_t> inner(layers);
      inner.push_back(repeat.getCount());
      collectCaches(*repeat.getBlock(), analysis, shape, inner, types);
    } else if (analysis.isCausal(&op)) {
      for (RankedTensorType type : cachesOf(&op, analysis, shape)) {
        SmallVector<int64_t> stacked(layers);
        llvm::append_range(stacked, type.getShape());
        types.push_back(type.clone(stacked));
      }
    }
  }
}

/// Whether positions of several texts can stand beside each other in a
/// sequence: causal ops are then made of the parts, each with a cache of its
/// own.
bool takesSegments(func::FuncOp forward, const SequenceAnalysis &analysis) {
  bool result = analysis.batch() == 1;
  forward.walk([&](Operation *op) {
    if (!analysis.isCausal(op))
      return;
    auto attention = dyn_cast<AttentionOp>(op);
    result &= attention && !attention.getMask();
  });
  return result;
}

/// Makes one function of another: `count` positions of each sequence in place
/// of all of them.
class StepBuilder {
public:
  /// `hasRow`: a caller says which row of caches that have several it works on.
  /// Of several `segments` each says so, and where its positions begin: the
  /// sequence is that of their positions, one after the other.
  StepBuilder(func::FuncOp forward, const SequenceAnalysis &analysis,
              const CacheShape &cacheShape, ProgramKind kind, int64_t count,
              bool hasRow, int64_t segments = 1)
      : forward(forward), analysis(analysis), cacheShape(cacheShape),
        kind(kind), count(count), segments(segments),
        prefill(kind == ProgramKind::Prefill ||
                kind == ProgramKind::PrefillShort),
        hasRow(hasRow), builder(forward.getContext()), loc(forward.getLoc()),
        b{builder, loc} {
    assert(segments == 1 || (analysis.batch() == 1 && hasRow && prefill));
  }
  StepBuilder(const StepBuilder &) = delete;

  func::FuncOp build();

private:
  /// Of each segment.
  using Caches = SmallVector<SmallVector<Value>>;

  /// What is at hand in one block of the new function.
  struct BlockState {
    explicit BlockState(int64_t segments)
        : caches(segments), updated(segments) {}
    IRMapping values;
    /// The first new position of every sequence, [B], or of every segment.
    Value start;
    Value ids; ///< all new positions, [B, count], at most the last one
    /// The caches as they come in, and as they go out.
    Caches caches, updated;
    /// Of how many caches of each segment that is known.
    size_t numUpdated() const { return updated.front().size(); }
  };

  /// The arguments of the new function, in their order: new tokens, the first
  /// position of each sequence, how many tokens count and which row is meant
  /// where a caller says so, what an encoder made of the prompt, and caches.
  struct Signature {
    SmallVector<RankedTensorType> caches; ///< of one segment
    RankedTensorType logits;
    SmallVector<Type> inputs, outputs;
    unsigned numTokens = 0, firstEncoded = 0, firstCache = 0;

    unsigned position() const { return numTokens; }
    unsigned length() const { return numTokens + 1; }
    unsigned row() const { return firstEncoded - 1; }
    unsigned numEncoded() const { return firstCache - firstEncoded; }
    /// What stands for an argument of `forward`.
    unsigned argumentOf(BlockArgument argument) const {
      unsigned number = argument.getArgNumber();
      return number < numTokens ? number : firstEncoded + number - numTokens;
    }
  };

  Value integers(RankedTensorType type, int64_t value) {
    return ConstantOp::create(
        builder, loc,
        DenseElementsAttr::get(type, static_cast<int32_t>(value)));
  }
  /// One number for each row of new tokens, which are those of a sequence or of
  /// a segment.
  RankedTensorType perSequence() {
    return RankedTensorType::get({analysis.batch() * segments},
                                 builder.getI32Type());
  }
  Signature makeSignature();
  func::FuncOp declare(const Signature &signature);
  void bindArguments(Block &body, const Signature &signature,
                     BlockState &state);
  void findLast(Value length, Value start);
  void cloneBlock(Block &block, BlockState &state);
  void cloneRepeat(RepeatOp repeat, BlockState &state);
  void cloneAttention(AttentionOp attention, BlockState &state);
  void cloneScan(ScanOpInterface scan, BlockState &state);
  void cloneShift(ShiftOp shift, BlockState &state);
  Value keepRows(Operation *op, Value rows, BlockState &state);
  Value rowsAt(Operation *op, Value cache, Value positions);
  /// Whether a cache of rows has fewer than `op` has positions.
  bool isRing(Operation *op, Value cache) const {
    Value rows = op->getResult(0);
    return tensorType(cache).getDimSize(2) <
           tensorType(rows).getDimSize(analysis.find(rows)->time.axis);
  }
  PositionSelector selectorOf(BlockState &state) {
    return {builder, analysis, state.values, state.ids, count};
  }
  void cloneOp(Operation *op, IRMapping &values, PositionSelector &selector);
  std::optional<SequenceTag> placeBefore(Operation *op, Value operand,
                                         const SequenceTag &tag);
  Value segmentOf(Value value, int64_t axis, int64_t segment);
  Value positionsFrom(Value start, int64_t number);
  void findSuffix();
  Value inSuffix(Value value, BlockState &state);

  func::FuncOp forward;
  const SequenceAnalysis &analysis;
  const CacheShape &cacheShape;
  ProgramKind kind;
  int64_t count, segments;
  /// Whether what counts of a chunk is said, and what follows it is wanted.
  bool prefill;
  bool hasRow;
  OpBuilder builder;
  Location loc;
  TfmBuilder b;
  /// Ops of a prefill that only its last token needs: they lead to the logits
  /// and nowhere else.
  llvm::DenseSet<Operation *> suffix;
  /// The values of the last token, and its index within the chunk, [B, 1]; of
  /// the last ones of all segments, [1, segments].
  IRMapping lastValues;
  Value lastIndex, lastIds;
};

/// The part of a value with `count` positions, or of one with an element for
/// every segment, that is a segment's.
Value StepBuilder::segmentOf(Value value, int64_t axis, int64_t segment) {
  if (segments == 1)
    return value;
  int64_t size = tensorType(value).getDimSize(axis) / segments;
  return SliceOp::create(builder, loc, value, axis, segment * size, size);
}

/// `number` positions from each start on, [B, number], or those of one segment
/// after the other, [1, segments * number].
Value StepBuilder::positionsFrom(Value start, int64_t number) {
  int64_t starts = tensorType(start).getDimSize(0);
  auto ids = RankedTensorType::get({starts, number}, builder.getI32Type());
  auto column = RankedTensorType::get({starts, 1}, builder.getI32Type());
  Value first = b.broadcast(b.reshape(start, column), ids);
  if (number > 1)
    first = b.add(first, IotaOp::create(builder, loc, ids, 1));
  // What pads a chunk may lie behind the last position.
  Value limit = integers(ids, analysis.length() - 1);
  int64_t batch = analysis.batch();
  return b.reshape(MinOp::create(builder, loc, first, limit),
                   RankedTensorType::get({batch, starts * number / batch},
                                         builder.getI32Type()));
}

/// Where `operand` of `op` has the positions that the results have at `tag`,
/// although it depends on no input; nothing where it has none.
std::optional<SequenceTag>
StepBuilder::placeBefore(Operation *op, Value operand, const SequenceTag &tag) {
  auto axes = cast<AxisMapOpInterface>(op);
  auto before = [&](AxisPlace place, int64_t size) {
    for (OpOperand &use : op->getOpOperands())
      for (int64_t axis = 0;
           use.get() == operand && axis < tensorType(operand).getRank();
           ++axis) {
        AxisMap map =
            axes.mapAxis(use.getOperandNumber(), {axis, place.inner}, size);
        if (map.isKept() && map.place == place)
          return AxisPlace{axis, place.inner};
      }
    return AxisPlace();
  };
  SequenceTag own;
  if (tag.batch.isPresent())
    own.batch = before(tag.batch, analysis.batch());
  own.time = before(tag.time, analysis.length());
  return own.time.isPresent() ? std::optional(own) : std::nullopt;
}

/// Clones an op that works position by position.
void StepBuilder::cloneOp(Operation *op, IRMapping &values,
                          PositionSelector &selector) {
  bool tagged = llvm::any_of(op->getResults(),
                             [&](Value value) { return analysis.find(value); });
  if (!tagged) {
    builder.clone(*op, values);
    return;
  }
  const SequenceTag &tag = *analysis.find(op->getResult(0));
  if (isa<PositionsOp>(op)) {
    values.map(op->getResult(0), selector.ids());
    return;
  }
  if (auto dropout = dyn_cast<DropoutOp>(op)) {
    values.map(dropout.getY(), values.lookup(dropout.getX()));
    return;
  }
  IRMapping local;
  for (Value operand : op->getOperands()) {
    if (analysis.find(operand) || !isa<RankedTensorType>(operand.getType())) {
      local.map(operand, values.lookupOrDefault(operand));
      continue;
    }
    Value here = values.lookup(operand);
    auto attention = dyn_cast<AttentionOp>(op);
    if (attention && operand == attention.getMask())
      here = selector.maskAt(operand);
    else if (std::optional<SequenceTag> own = placeBefore(op, operand, tag))
      here = selector.at(operand, *own);
    local.map(operand, here);
  }
  Operation *clone = builder.clone(*op, local);
  for (auto [from, to] :
       llvm::zip_equal(op->getResults(), clone->getResults())) {
    to.setType(selector.sized(tensorType(from), *analysis.find(from)));
    values.map(from, to);
  }
}

void StepBuilder::cloneAttention(AttentionOp attention, BlockState &state) {
  bool isRing = cacheShape.ringOf(attention).has_value();
  SmallVector<OpOperand *> kept = keptOperands(attention);
  // All is kept before anything looks back: segments may be of one text.
  size_t first = state.numUpdated();
  for (int64_t segment = 0; segment < segments; ++segment)
    for (auto [i, operand] : llvm::enumerate(kept)) {
      Value cache = state.caches[segment][first + i];
      Value now = segmentOf(state.values.lookup(operand->get()), 2, segment);
      state.updated[segment].push_back(CacheUpdateOp::create(
          builder, attention.getLoc(), cache.getType(), cache, now,
          segmentOf(state.start, 0, segment), isRing));
    }
  Value mask = attention.getMask();
  if (mask && analysis.find(mask)) {
    mask = state.values.lookup(mask);
  } else if (mask) {
    PositionSelector selector = selectorOf(state);
    mask = selector.maskAt(mask);
  }
  SmallVector<SmallVector<Value>> results(attention->getNumResults());
  for (int64_t segment = 0; segment < segments; ++segment) {
    auto part = cast<AttentionOp>(builder.clone(*attention, state.values));
    builder.setInsertionPoint(part);
    part.getQMutable().assign(segmentOf(part.getQ(), 2, segment));
    part.getStartMutable().assign(segmentOf(state.start, 0, segment));
    builder.setInsertionPointAfter(part);
    for (auto [i, operand] : llvm::enumerate(keptOperands(part)))
      operand->set(state.updated[segment][first + i]);
    if (mask)
      part.getMaskMutable().assign(mask);
    part.setRing(isRing);
    part.getLayerMutable().clear();
    part.removeDropoutAttr();
    part.removeSiteAttr();
    for (auto [from, to] :
         llvm::zip_equal(attention->getResults(), part->getResults())) {
      SmallVector<int64_t> shape(tensorType(from).getShape());
      shape[analysis.find(from)->time.axis] = count / segments;
      to.setType(tensorType(from).clone(shape));
      results[from.getResultNumber()].push_back(to);
    }
  }
  for (OpResult from : attention->getResults())
    state.values.map(from, results[from.getResultNumber()].front());
  if (segments == 1)
    return;
  // As whoever reads the heads of a position wants them: beside each other.
  constexpr int64_t positionsFirst[] = {0, 2, 1, 3};
  SmallVector<Value> parts;
  for (Value part : results.front())
    parts.push_back(TransposeOp::create(builder, loc, part, positionsFirst));
  Value whole = ConcatOp::create(builder, loc, parts, 1);
  state.values.map(attention.getOut(),
                   TransposeOp::create(builder, loc, whole, positionsFirst));
}

/// The sum before the first new position, which its cache knows, goes on over
/// the new positions; where they are few one at a time.
void StepBuilder::cloneScan(ScanOpInterface scan, BlockState &state) {
  const SequenceTag &tag = *analysis.find(scan.getY());
  PositionSelector selector = selectorOf(state);
  auto here = [&](Value of) {
    return analysis.find(of) ? state.values.lookup(of) : selector.at(of, tag);
  };
  Value x = here(scan.getX()), decay = scan.getDecay();
  if (decay)
    decay = here(decay);
  auto axis = static_cast<int64_t>(scan.getAxis());
  RankedTensorType type = tensorType(x);
  SmallVector<int64_t> one(type.getShape());
  one[axis] = 1;
  RankedTensorType column = tensorType(state.ids).clone({analysis.batch(), 1});
  Value last = b.sub(b.reshape(state.start, column), integers(column, 1));
  Value before = b.reshape(
      rowsAt(scan, state.caches[0][state.numUpdated()], last), type.clone(one));
  Value sums;
  if (kind == ProgramKind::Verify || (decay && count == 1)) {
    // As one token at a time is added, so that a guess changes no bit.
    auto at = [&](Value of, int64_t t) {
      return SliceOp::create(builder, loc, of, axis, t, 1);
    };
    SmallVector<Value> each;
    for (int64_t t = 0; t < count; ++t) {
      before = decay ? b.fma(at(decay, t), before, at(x, t))
                     : b.add(at(x, t), before);
      each.push_back(before);
    }
    sums = ConcatOp::create(builder, loc, each, axis);
  } else if (decay) {
    // It is part of the first that is added.
    RankedTensorType ids = type.clone(builder.getI32Type());
    Value isFirst =
        b.compare(CompareKind::eq, IotaOp::create(builder, loc, ids, axis),
                  integers(ids, 0));
    Value first = b.fma(decay, b.broadcast(before, type), x);
    sums = ScanOp::create(builder, scan.getLoc(), decay,
                          b.select(isFirst, first, x), axis);
  } else {
    sums = b.add(CumsumOp::create(builder, scan.getLoc(), x, axis),
                 b.broadcast(before, type));
  }
  keepRows(scan, sums, state);
  state.values.map(scan.getY(), sums);
}

/// All are kept before anything looks back: new positions see new ones.
void StepBuilder::cloneShift(ShiftOp shift, BlockState &state) {
  Value x = state.values.lookup(shift.getX());
  Value kept = keepRows(shift, x, state);
  Value from =
      b.sub(state.ids, integers(tensorType(state.ids),
                                static_cast<int64_t>(shift.getSteps())));
  state.values.map(shift.getY(),
                   b.reshape(rowsAt(shift, kept, from), tensorType(x)));
}

/// Writes what `op` keeps of the new positions over its cache, which is then
/// the next that is known.
Value StepBuilder::keepRows(Operation *op, Value rows, BlockState &state) {
  Value cache = state.caches[0][state.numUpdated()];
  RankedTensorType type = tensorType(cache);
  SmallVector<int64_t> shape(type.getShape());
  shape[2] = count;
  return state.updated[0].emplace_back(CacheUpdateOp::create(
      builder, op->getLoc(), type, cache, b.reshape(rows, type.clone(shape)),
      state.start, isRing(op, cache)));
}

/// What `op` has kept at `positions` [B, n], and 0 before the first one,
/// whatever the cache holds: [B, outer, n, inner], read where it is.
Value StepBuilder::rowsAt(Operation *op, Value cache, Value positions) {
  RankedTensorType type = tensorType(cache), each = tensorType(positions);
  int64_t batch = type.getDimSize(0), outer = type.getDimSize(1),
          length = type.getDimSize(2), inner = type.getDimSize(3),
          number = each.getDimSize(1);
  Value zero = integers(each, 0);
  Value row = MaxOp::create(builder, loc, positions, zero);
  if (isRing(op, cache)) {
    Value rounds = DivOp::create(builder, loc, row, integers(each, length));
    row = b.sub(row, b.mul(rounds, integers(each, length)));
  }
  RankedTensorType ids = each.clone({batch, outer, number});
  SmallVector<int32_t> first;
  for (int64_t i = 0; i < batch * outer; ++i)
    first.push_back(static_cast<int32_t>(i * length));
  Value base = ConstantOp::create(
      builder, loc,
      DenseElementsAttr::get(each.clone({batch, outer, 1}), ArrayRef(first)));
  row = b.add(b.broadcast(b.reshape(row, each.clone({batch, 1, number})), ids),
              b.broadcast(base, ids));
  Value rows = GatherOp::create(
      builder, loc,
      b.reshape(cache, type.clone({batch * outer * length, inner})), row);
  Value isBefore = b.compare(CompareKind::lt, positions, zero);
  RankedTensorType flags = tensorType(isBefore);
  isBefore =
      b.broadcast(b.reshape(isBefore, flags.clone({batch, 1, number, 1})),
                  flags.clone(tensorType(rows).getShape()));
  return b.select(isBefore, b.zeros(rows), rows);
}

void StepBuilder::cloneRepeat(RepeatOp repeat, BlockState &state) {
  SmallVector<RankedTensorType> types;
  collectCaches(*repeat.getBlock(), analysis, cacheShape, {}, types);
  auto mapped = [&](ValueRange range) {
    SmallVector<Value> result;
    for (Value value : range)
      result.push_back(state.values.lookup(value));
    return result;
  };
  SmallVector<Value> carried = mapped(repeat.getCarried()),
                     stacked = mapped(repeat.getStacked()),
                     shared = mapped(repeat.getShared());
  size_t first = state.numUpdated();
  for (ArrayRef<Value> caches : state.caches)
    llvm::append_range(stacked, caches.slice(first, types.size()));
  shared.push_back(state.start);
  shared.push_back(state.ids);

  PositionSelector selector = selectorOf(state);
  SmallVector<Type> results;
  for (Value result : repeat.getResults()) {
    const SequenceTag *tag = analysis.find(result);
    results.push_back(tag ? selector.sized(tensorType(result), *tag)
                          : tensorType(result));
  }
  size_t numStacked = repeat.getStacked().size();
  for (Value cache : ArrayRef(stacked).drop_front(numStacked))
    results.push_back(cache.getType());
  auto copy = RepeatOp::create(builder, repeat.getLoc(), results,
                               repeat.getCountAttr(), repeat.getReverseAttr(),
                               carried, stacked, shared, /*order=*/nullptr);
  copy->setDiscardableAttrs(repeat->getDiscardableAttrDictionary());

  OpBuilder::InsertionGuard guard(builder);
  Block *body = builder.createBlock(&copy.getBody());
  BlockState inner(segments);
  inner.values.map(repeat.getLayer(),
                   body->addArgument(builder.getIndexType(), loc));
  auto bind = [&](ValueRange olds, ValueRange news) {
    for (auto [old, value] : llvm::zip(olds, news))
      inner.values.map(old, body->addArgument(value.getType(), loc));
  };
  auto layerOf = [](Value value) {
    RankedTensorType type = tensorType(value);
    return RankedTensorType::get(type.getShape().drop_front(),
                                 type.getElementType());
  };
  bind(repeat.getCarriedArgs(), carried);
  for (auto [i, value] : llvm::enumerate(stacked)) {
    Value arg = body->addArgument(layerOf(value), loc);
    if (i < numStacked)
      inner.values.map(repeat.getStackedArgs()[i], arg);
    else
      inner.caches[(i - numStacked) / types.size()].push_back(arg);
  }
  bind(repeat.getSharedArgs(),
       ValueRange(shared).take_front(repeat.getShared().size()));
  inner.start = body->addArgument(state.start.getType(), loc);
  inner.ids = body->addArgument(state.ids.getType(), loc);
  cloneBlock(*repeat.getBlock(), inner);
  SmallVector<Value> yielded;
  for (Value value : repeat.getYield().getValues())
    yielded.push_back(inner.values.lookup(value));
  for (ArrayRef<Value> updated : inner.updated)
    llvm::append_range(yielded, updated);
  YieldOp::create(builder, repeat.getYield().getLoc(), yielded);

  for (auto [old, value] : llvm::zip(repeat.getResults(), copy.getResults()))
    state.values.map(old, value);
  ValueRange caches = copy.getResults().drop_front(repeat.getNumResults());
  for (auto [segment, updated] : llvm::enumerate(state.updated))
    llvm::append_range(updated,
                       caches.slice(segment * types.size(), types.size()));
}

void StepBuilder::cloneBlock(Block &block, BlockState &state) {
  for (Operation &op : block.without_terminator()) {
    if (auto repeat = dyn_cast<RepeatOp>(&op)) {
      cloneRepeat(repeat, state);
    } else if (analysis.isCausal(&op)) {
      // What may be kept (`canKeep`).
      if (auto attention = dyn_cast<AttentionOp>(op))
        cloneAttention(attention, state);
      else if (auto shift = dyn_cast<ShiftOp>(op))
        cloneShift(shift, state);
      else
        cloneScan(cast<ScanOpInterface>(op), state);
    } else if (suffix.contains(&op)) {
      for (Value operand : op.getOperands())
        inSuffix(operand, state);
      PositionSelector selector(builder, analysis, state.values, lastIds,
                                segments);
      cloneOp(&op, lastValues, selector);
    } else {
      PositionSelector selector = selectorOf(state);
      cloneOp(&op, state.values, selector);
    }
  }
}

/// Brings a value to the last token's.
Value StepBuilder::inSuffix(Value value, BlockState &state) {
  if (Value known = lastValues.lookupOrNull(value))
    return known;
  Value whole = state.values.lookup(value);
  Value result = whole;
  if (const SequenceTag *tag = analysis.find(value)) {
    PositionSelector selector = selectorOf(state);
    result = selectPositions(builder, whole, selector.sizedTag(*tag),
                             analysis.batch(), count, lastIndex);
  }
  lastValues.map(value, result);
  return result;
}

void StepBuilder::findSuffix() {
  Block &block = forward.getBody().front();
  for (Operation &op : llvm::reverse(block.without_terminator())) {
    bool tagged = op.getNumResults() == 1 && analysis.find(op.getResult(0));
    if (!tagged || isa<RepeatOp>(op) || analysis.isCausal(&op))
      continue;
    if (llvm::all_of(op.getUsers(), [&](Operation *user) {
          return user == block.getTerminator() || suffix.contains(user);
        }))
      suffix.insert(&op);
  }
}

StepBuilder::Signature StepBuilder::makeSignature() {
  Block &block = forward.getBody().front();
  Signature signature;
  collectCaches(block, analysis, cacheShape, {}, signature.caches);
  RankedTensorType each = perSequence();
  int64_t rows = each.getNumElements();
  ArrayRef<BlockArgument> arguments = block.getArguments(),
                          encoded = arguments.drop_until(isOfEncoder);
  signature.numTokens =
      static_cast<unsigned>(arguments.size() - encoded.size());
  SmallVector<Type> &inputs = signature.inputs;
  inputs.append(signature.numTokens, each.clone({rows, count / segments}));
  inputs.push_back(each); // position
  if (prefill)
    inputs.push_back(each); // length
  if (hasRow)
    inputs.push_back(each);
  signature.firstEncoded = static_cast<unsigned>(inputs.size());
  for (BlockArgument argument : encoded)
    inputs.push_back(argument.getType());
  signature.firstCache = static_cast<unsigned>(inputs.size());
  for (int64_t segment = 0; segment < segments; ++segment)
    llvm::append_range(inputs, signature.caches);

  RankedTensorType all = tensorType(block.getTerminator()->getOperand(0));
  SmallVector<int64_t> shape = {rows, all.getShape().back()};
  if (kind == ProgramKind::Verify)
    shape.insert(shape.begin() + 1, count);
  signature.logits = RankedTensorType::get(shape, all.getElementType());
  signature.outputs = {signature.logits};
  signature.outputs.append(inputs.begin() + signature.firstCache, inputs.end());
  return signature;
}

func::FuncOp StepBuilder::declare(const Signature &signature) {
  auto step = func::FuncOp::create(
      builder, loc, nameOf(kind),
      builder.getFunctionType(signature.inputs, signature.outputs));
  for (BlockArgument argument : forward.getArguments())
    step.setArgAttrs(signature.argumentOf(argument),
                     forward.getArgAttrDict(argument.getArgNumber()));
  nameArgument(step, signature.position(), TFM_IN_POSITION);
  if (prefill)
    nameArgument(step, signature.length(), TFM_IN_LENGTH);
  if (hasRow) {
    nameArgument(step, signature.row(), TFM_IN_ROW);
    step.setArgAttr(signature.row(), rowAttribute, builder.getUnitAttr());
  }
  nameResult(step, 0, TFM_OUT_LOGITS);
  size_t numCaches = signature.caches.size();
  for (size_t i = 0; i < segments * numCaches; ++i) {
    // What an encoder made are the first caches.
    auto region = ArenaRegion::ofCache(
        static_cast<int64_t>(signature.numEncoded() + i % numCaches));
    auto argument = static_cast<unsigned>(signature.firstCache + i);
    auto result = static_cast<unsigned>(1 + i);
    region.setArgument(step, argument);
    region.setResult(step, result);
    if (segments == 1)
      continue;
    auto segment =
        builder.getI64IntegerAttr(static_cast<int64_t>(i / numCaches));
    step.setArgAttr(argument, segmentAttribute, segment);
    step.setResultAttr(result, segmentAttribute, segment);
  }
  return step;
}

void StepBuilder::bindArguments(Block &body, const Signature &signature,
                                BlockState &state) {
  auto tokens =
      RankedTensorType::get({analysis.batch(), count}, builder.getI32Type());
  for (BlockArgument argument : forward.getArguments()) {
    Value own = body.getArgument(signature.argumentOf(argument));
    if (argument.getArgNumber() < signature.numTokens)
      own = b.reshape(own, tokens);
    state.values.map(argument, own);
  }
  state.start = body.getArgument(signature.position());
  state.ids = positionsFrom(state.start, count / segments);
  size_t numCaches = signature.caches.size();
  for (size_t i = 0; i < segments * numCaches; ++i)
    state.caches[i / numCaches].push_back(
        body.getArgument(static_cast<unsigned>(signature.firstCache + i)));
}

/// Finds the last tokens of a chunk, of which so many count from the left in
/// each row.
void StepBuilder::findLast(Value length, Value start) {
  RankedTensorType each = perSequence();
  // Of a row without new tokens any value will do.
  Value index = MaxOp::create(builder, loc, b.sub(length, integers(each, 1)),
                              integers(each, 0));
  lastIds = positionsFrom(b.add(start, index), 1);
  if (segments > 1)
    index = b.add(index, b.mul(IotaOp::create(builder, loc, each, 0),
                               integers(each, count / segments)));
  lastIndex = b.reshape(index, each.clone({analysis.batch(), segments}));
}

func::FuncOp StepBuilder::build() {
  Block &block = forward.getBody().front();
  const Signature signature = makeSignature();
  builder.setInsertionPointAfter(forward);
  func::FuncOp step = declare(signature);
  Block *body = step.addEntryBlock();
  builder.setInsertionPointToStart(body);
  BlockState state(segments);
  bindArguments(*body, signature, state);
  if (prefill) {
    findSuffix();
    findLast(body->getArgument(signature.length()), state.start);
  }
  cloneBlock(block, state);
  Value logits = block.getTerminator()->getOperand(0);
  logits = prefill ? inSuffix(logits, state) : state.values.lookup(logits);
  SmallVector<Value> results = {b.reshape(logits, signature.logits)};
  for (ArrayRef<Value> updated : state.updated)
    llvm::append_range(results, updated);
  func::ReturnOp::create(builder, loc, results);
  return step;
}

} // namespace

bool tfm::canKeep(Operation *op, const SequenceTag &tag, int64_t batch) {
  if (isa<AttentionOp>(op))
    return true;
  // Rows of one sequence lie together.
  return isa<ScanOpInterface, ShiftOp>(op) &&
         (batch == 1 || (tag.batch == AxisPlace{0, 1} && tag.time.axis > 0 &&
                         tensorType(op->getResult(0)).getDimSize(0) == batch));
}

namespace {

struct DeriveDecodePass : tfm::impl::DeriveDecodePassBase<DeriveDecodePass> {
  using DeriveDecodePassBase::DeriveDecodePassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto forward = findProgram(module, ProgramKind::Forward);
    if (!forward || findProgram(module, ProgramKind::Decode))
      return;
    // All texts are decoded at once, but each has a prompt of its own. An
    // encoder reads one prompt.
    auto together = findProgram(module, ProgramKind::ForwardBatch);
    bool hasEncoder = llvm::any_of(forward.getArguments(), isOfEncoder);
    assert(!(hasEncoder && together) && "batches of prompts");
    auto giveUp = [&](const Twine &why) {
      module->setAttr(wholeSequenceAttribute,
                      StringAttr::get(&getContext(), why));
      if (together)
        together.erase();
    };
    if (auto obstacle = decodeObstacle(module))
      return giveUp(obstacle->str());
    if (hasEncoder) {
      std::optional<func::FuncOp> rest = splitEncoder(forward);
      if (!rest)
        return giveUp("layers within layers that read what an encoder makes");
      forward = *rest;
    }
    SequenceAnalysis one(forward), all(together ? together : forward);
    int64_t longest = std::min<int64_t>(chunk, one.length());
    bool verifies = few > 0 && few <= one.length();
    CacheShape shape{std::max<int64_t>(longest, verifies ? few : 1),
                     ringMultiple};
    StepBuilder(together ? together : forward, all, shape, ProgramKind::Decode,
                1, /*hasRow=*/false)
        .build();
    // Each stands before those that were made first.
    auto build = [&](ProgramKind kind, int64_t count, int64_t segments = 1) {
      StepBuilder(forward, one, shape, kind, count,
                  /*hasRow=*/together != nullptr, segments)
          .build();
    };
    if (verifies)
      build(ProgramKind::Verify, few);
    bool hasSegments = together && segment > 0 && takesSegments(forward, one);
    if (hasSegments && 2 * segment * segments <= longest)
      build(ProgramKind::PrefillShort, segment * segments, segments);
    else if (shortChunk > 0 && 2 * shortChunk <= longest)
      build(ProgramKind::PrefillShort, shortChunk);
    build(ProgramKind::Prefill, longest);
    if (together)
      together.erase();
    if (hasEncoder)
      forward.erase();
  }
};

} // namespace
