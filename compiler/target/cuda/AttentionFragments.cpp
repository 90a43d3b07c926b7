//===- AttentionFragments.cpp - attention on tensor cores -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cuda/AttentionFragments.h"

#include "compiler/dialect/TfmDialect.h"
#include "compiler/schedule/Launches.h"
#include "compiler/target/cuda/Attention.h"
#include "compiler/target/emit/ElementEmitter.h"
#include "compiler/target/emit/VectorHelpers.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/Support/MathExtras.h"
#include <numbers>

using namespace mlir;
using namespace tfm;
using namespace tfm::cuda;
using namespace tfm::sched;

ProductOperand AttentionFragments::operandOf(const Rows &rows,
                                             bool rowsAreTerms) {
  ProductOperand operand;
  const View &view = rows.view;
  operand.pointer = rows.pointer;
  operand.element = view.element;
  operand.batchStrides.assign({view.strides[0], view.strides[1]});
  operand.outerStride = view.strides[rowsAreTerms ? 3 : 2];
  operand.termStride = view.strides[rowsAreTerms ? 2 : 3];
  operand.outers = view.shape[rowsAreTerms ? 3 : 2];
  operand.terms = view.shape[rowsAreTerms ? 2 : 3];
  operand.alignment = rows.alignment;
  return operand;
}

/// Whether tiles of what the launch reads as `value` can be brought.
static bool fits(LaunchOp launch, Value value) {
  BlockArgument argument = argumentOf(value);
  Rows rows{argument, viewOf(cast<MemRefType>(argument.getType())),
            alignmentOf(launch.getReads()[argument.getArgNumber()])};
  int64_t width = rows.view.shape[3];
  return rows.view.element.isBF16() && rows.view.strides[3] == 1 &&
         width >= 16 && width <= 128 && llvm::isPowerOf2_64(width) &&
         StagedOperand::canCopy(
             AttentionFragments::operandOf(rows, /*rowsAreTerms=*/false));
}

bool cuda::isOnTensorCores(LaunchOp launch) {
  SmallVector<Value> read;
  if (auto op = dyn_cast<AttentionOp>(launch.getFirstOp())) {
    if (op.getKeyScale() || op.getRing())
      return false;
    read = {op.getQ(), op.getK(), op.getV()};
  } else {
    auto backward = cast<AttentionBackwardOp>(launch.getFirstOp());
    if (backward.getDmask() || backward.getDdistance())
      return false;
    read = {backward.getQ(), backward.getK(), backward.getV(),
            backward.getDout()};
  }
  return llvm::all_of(read, [&](Value value) { return fits(launch, value); });
}

AttentionFragments::AttentionFragments(ModuleOp module, StringRef name,
                                       LaunchOp launch,
                                       const AttentionRule &rule,
                                       const Grid &grid)
    : block(module, name, launch,
            launch.getReads().size() + launch.getWrites().size(), grid),
      k(block.k), tile(block, rule, tileSize), scale(rule.scale),
      lane(block.lane()), warpRow(k.mul(block.warp(), warpRows)) {}

void AttentionFragments::leaveUnscaled() {
  bool added = tile.rule.softcap || tile.distanceBias.exists() ||
               (tile.mask.exists() && !tile.hidesByMask());
  // The largest score has the largest product.
  if (added || scale <= 0)
    return;
  unit = scale;
  tile.rule.scale = 1.0;
}

StagedOperand AttentionFragments::staged(const Rows &rows, Value pointer,
                                         bool rowsAreTerms, Value end) {
  int64_t width = rows.view.shape[3];
  ProductOperand operand = operandOf(rows, rowsAreTerms);
  operand.pointer = pointer;
  operand.outerEnd = end;
  return {block, operand, StagedOperand::Form::Matrix,
          rowsAreTerms ? width : tileSize, rowsAreTerms ? tileSize : width};
}

void AttentionFragments::loadTile(const Rows &rows, Value head, Value first,
                                  Value to, Value end) {
  StagedOperand operand = staged(rows, head, /*rowsAreTerms=*/false, end);
  operand.begin(first);
  operand.load(to, k.i64(0));
}

SmallVector<Value> AttentionFragments::walk(Value first, Value end,
                                            Value stages, int64_t stageBytes,
                                            ValueRange init, Load load,
                                            Visit visit) {
  auto stageOf = [&](Value column) {
    Value number = k.rem(k.div(column, tileSize), k.i64(2));
    return k.at(stages, k.mul(number, stageBytes), k.b.getI8Type());
  };
  k.ifThen(k.less(first, end), [&] { load(stageOf(first), first); });
  block.commitCopies();
  SmallVector<Value> state =
      k.loop(first, end, tileSize, init, [&](Value column, ValueRange before) {
        // What was brought for this step is there, and nobody reads any more
        // what the last step had, where the next goes.
        block.awaitCopies(0);
        block.barrier();
        Value next = k.add(column, tileSize);
        k.ifThen(k.less(next, end), [&] { load(stageOf(next), next); });
        block.commitCopies();
        return visit(stageOf(column), column, before);
      });
  block.awaitCopies(0);
  return state;
}

Value AttentionFragments::endOfCache() {
  if (!start || !tile.rule.causal)
    return {};
  return k.min(k.add(start, tile.queries()), k.i64(tile.keys()));
}

std::pair<Value, Value> AttentionFragments::keysOf(Value firstQuery) {
  Value position = positionOf(firstQuery);
  Value first = k.i64(0), end = k.i64(tile.keys());
  if (tile.rule.causal)
    end = k.min(start ? endOfCache() : end, k.add(position, tileSize));
  if (tile.rule.window)
    first = k.max(first, k.sub(position, k.i64(*tile.rule.window - 1)));
  // Dropout counts columns from multiples of a tile on.
  return {k.mul(k.div(first, tileSize), tileSize), end};
}

SmallVector<Value> AttentionFragments::visitPairs(Value firstQuery,
                                                  Value firstKey, Pairs visit) {
  if (tile.hidesByMask())
    return visit(/*allVisible=*/false);
  // Where the last query's and the last key's tiles are not full.
  Value all;
  auto require = [&](Value condition) { all = block.both(all, condition); };
  Value behindQueries = k.add(firstQuery, tileSize),
        behindKeys = k.add(firstKey, tileSize);
  if (tile.queries() % tileSize)
    require(k.less(behindQueries, k.i64(tile.queries() + 1)));
  if (tile.keys() % tileSize)
    require(k.less(behindKeys, k.i64(tile.keys() + 1)));
  if (tile.rule.causal)
    require(
        k.less(k.sub(behindKeys, k.i64(1)), k.add(positionOf(firstQuery), 1)));
  if (tile.rule.window)
    require(k.less(k.sub(positionOf(behindQueries), firstKey),
                   k.i64(*tile.rule.window + 1)));
  if (!all)
    return visit(/*allVisible=*/true);
  return k.either(
      all, [&] { return visit(true); }, [&] { return visit(false); });
}

void AttentionFragments::multiply(ValueRange x, ValueRange y,
                                  MutableArrayRef<Value> sums) {
  for (int64_t half = 0; half != 2; ++half)
    block.multiplyFragments(x, y.slice(2 * half, 2),
                            sums.slice(half * ofFragment, ofFragment));
}

SmallVector<Value> AttentionFragments::factorOf(ValueRange values) {
  SmallVector<Value> words;
  for (int64_t fragment = 0; fragment != 2; ++fragment)
    for (int64_t row = 0; row != rowsOfThread; ++row)
      words.push_back(block.packBf16(values[at(fragment, row, 0)],
                                     values[at(fragment, row, 1)]));
  return words;
}

Value AttentionFragments::rowOf(int64_t row) {
  return k.add(warpRow, k.add(k.div(lane, 4), 8 * row));
}

Value AttentionFragments::columnOf(int64_t fragment, int64_t which) {
  return k.add(k.mul(k.rem(lane, k.i64(4)), 2),
               fragment * fragmentColumns + which);
}

void AttentionFragments::drawKept(Value to, const AttentionTile::Head &head,
                                  Value firstQuery, Value firstKey) {
  const AttentionRule &rule = tile.rule;
  Type i32 = k.b.getI32Type();
  auto narrow = [&](Value x) -> Value {
    return arith::TruncIOp::create(k.b, k.loc, i32, x);
  };
  DropoutKey key =
      dropoutKey(k.b, k.loc, block.arguments.rng,
                 rule.hasLayer ? block.arguments.layer : k.toIndex(k.i64(0)),
                 rule.site, *rule.dropout, rule.microSteps);
  Value query = k.add(firstQuery, k.div(block.thread(), 2));
  Value number = narrow(k.add(
      k.mul(k.add(k.mul(head.batch, tile.heads()), head.query), tile.queries()),
      query));
  Value counter =
      k.add(k.div(firstKey, 4), k.mul(k.rem(block.thread(), k.i64(2)), 8));
  // What comes first ends in the lowest bits.
  Value word = k.loop(k.i64(0), k.i64(8), 1,
                      Value(arith::ConstantIntOp::create(k.b, k.loc, i32, 0)),
                      [&](Value i, ValueRange before) -> SmallVector<Value> {
                        auto bits = [&](uint32_t value) -> Value {
                          return arith::ConstantIntOp::create(
                              k.b, k.loc, i32, static_cast<int32_t>(value));
                        };
                        Value next = arith::ShRUIOp::create(
                            k.b, k.loc, before.front(), bits(4));
                        SmallVector<Value> keeps = dropoutKeepWords(
                            k.b, k.loc, key, number, narrow(k.add(counter, i)));
                        for (auto [bit, keep] : llvm::enumerate(keeps))
                          next = arith::OrIOp::create(
                              k.b, k.loc, next,
                              k.select(keep, bits(1u << (28 + bit)), bits(0)));
                        return {next};
                      })
                   .front();
  LLVM::StoreOp::create(k.b, k.loc, word, k.at(to, block.thread(), i32),
                        /*alignment=*/4);
}

AttentionFragments::Kept AttentionFragments::keptFrom(Value drawn, Value query,
                                                      Value firstBit) {
  Type i32 = k.b.getI32Type();
  Value shift = arith::TruncIOp::create(k.b, k.loc, i32, firstBit);
  Kept kept;
  for (auto [half, word] : llvm::enumerate(kept)) {
    Value at =
        k.at(drawn, k.add(k.mul(query, 2), static_cast<int64_t>(half)), i32);
    word = arith::ShRUIOp::create(
        k.b, k.loc, LLVM::LoadOp::create(k.b, k.loc, i32, at, /*alignment=*/4),
        shift);
  }
  return kept;
}

AttentionFragments::Kept AttentionFragments::keptOfRow(Value drawn, int64_t row,
                                                       Value step) {
  return keptFrom(drawn, rowOf(row),
                  k.add(k.mul(k.rem(lane, k.i64(4)), 8), step));
}

AttentionFragments::Kept AttentionFragments::keptOfColumn(Value drawn,
                                                          Value column) {
  return keptFrom(drawn, column, k.add(k.mul(k.div(lane, 4), 4), block.warp()));
}

Value AttentionFragments::keeps(Value word, int64_t bit) {
  Type i32 = k.b.getI32Type();
  auto number = [&](int64_t value) {
    return arith::ConstantIntOp::create(k.b, k.loc, i32, value);
  };
  Value masked = arith::AndIOp::create(k.b, k.loc, word,
                                       number(static_cast<int32_t>(1u << bit)));
  return arith::CmpIOp::create(k.b, k.loc, arith::CmpIPredicate::ne, masked,
                               number(0));
}

Value AttentionFragments::binary(Value x, double unit) {
  return k.mulf(x, k.splat(unit * std::numbers::log2e));
}

Value AttentionFragments::power(Value score, Value base) {
  Value exponent = k.fma(score, k.splat(unit * std::numbers::log2e),
                         arith::NegFOp::create(k.b, k.loc, base));
  return LLVM::CallIntrinsicOp::create(
             k.b, k.loc, k.f32Type,
             k.b.getStringAttr("llvm.nvvm.ex2.approx.ftz.f32"),
             ValueRange{exponent})
      .getResult(0);
}

/// Bytes of two elements of bf16.
static constexpr int64_t pairBytes = 4;

/// Whether elements are of bf16, and the two that a thread has of a fragment's
/// row are one word of memory.
static bool liesInPairs(const Rows &rows) {
  ArrayRef<int64_t> strides = rows.view.strides;
  return rows.view.element.isBF16() && rows.alignment % pairBytes == 0 &&
         strides.back() == 1 &&
         llvm::all_of(strides.drop_back(),
                      [](int64_t stride) { return stride % 2 == 0; });
}

void AttentionFragments::storeRows(const Rows &rows, Value head, Value first,
                                   ValueRange elements,
                                   ArrayRef<Value> factors) {
  Type element = rows.view.element;
  const bool inPairs = liesInPairs(rows);
  for (int64_t i = 0; i != rowsOfThread; ++i) {
    Value row = k.add(first, rowOf(i));
    auto store = [&] {
      Value to =
          k.at(head, k.mul(row, rows.view.strides[2]), memoryType(element));
      for (int64_t fragment = 0;
           fragment != rows.view.shape[3] / fragmentColumns; ++fragment) {
        std::array<Value, ofRow> values, places;
        for (int64_t which = 0; which != ofRow; ++which) {
          values[which] = k.mulf(elements[at(fragment, i, which)], factors[i]);
          places[which] =
              k.at(to, k.mul(columnOf(fragment, which), rows.view.strides[3]),
                   memoryType(element));
        }
        if (inPairs)
          LLVM::StoreOp::create(k.b, k.loc,
                                block.packBf16(values[0], values[1]), places[0],
                                pairBytes);
        else
          for (auto [x, place] : llvm::zip_equal(values, places))
            block.storeFloat(x, place, element);
      }
    };
    if (rows.view.shape[2] % tileSize)
      k.ifThen(k.less(row, k.i64(rows.view.shape[2])), store);
    else
      store();
  }
}
