//===- AttentionBlock.cpp - a block of queries against its keys -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/AttentionBlock.h"
#include "compiler/target/cpu/CpuMachine.h"
#include "compiler/target/cpu/MicroKernel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <functional>
#include <limits>
#include <tuple>

using namespace mlir;
using namespace tfm;

/// Static strides, the last of them 1 (or of no importance).
static bool fits(MemRefType type) {
  int64_t offset = 0;
  SmallVector<int64_t> strides;
  if (failed(type.getStridesAndOffset(strides, offset)) ||
      llvm::is_contained(strides, ShapedType::kDynamic))
    return false;
  return strides.back() == 1 || type.getShape().back() == 1;
}

bool AttentionSpec::fits() const {
  MemRefType all[] = {
      q,  k,  v,  out,   lse,      mask,       start,        dout,
      dq, dk, dv, dmask, keyScale, valueScale, distanceBias, ddistance};
  return llvm::all_of(all,
                      [](MemRefType type) { return !type || ::fits(type); });
}

SmallVector<int64_t> tfm::stridesOf(MemRefType type) {
  int64_t offset = 0;
  SmallVector<int64_t> strides;
  (void)type.getStridesAndOffset(strides, offset);
  return strides;
}

AttentionBlock::AttentionBlock(OpBuilder &builder, ModuleOp module,
                               const AttentionSpec &spec,
                               const CpuMachine &target,
                               int64_t vectorsPerBlock, int64_t scoreBytes)
    : spec(spec), module(module), kb(builder, module, target.lanes),
      tileRows(target.tileRows()), narrow(spec.q.getElementType().isBF16()) {
  ArrayRef<int64_t> q = spec.q.getShape(), k = spec.k.getShape(),
                    v = spec.v.getShape();
  batches = q[0];
  heads = q[1];
  queries = q[2];
  d = q[3];
  kvHeads = k[1];
  keys = k[2];
  e = v[3];
  valid = spec.fits();
  tileVectors = std::min<int64_t>(target.tileVectors(),
                                  llvm::divideCeil(queries, kb.lanes));
  width = tileVectors * kb.lanes;
  int64_t panels =
      std::min<int64_t>(llvm::divideCeil(vectorsPerBlock, tileVectors),
                        llvm::divideCeil(queries, width));
  block = panels * width;
  blocks = llvm::divideCeil(queries, block);
  // Copies of f32 lose 5 to 8% where all of a head stays in the cache, and soon
  // save a third (docs/performance.md).
  copies = narrow || spec.ring || spec.keyScale ||
           (queries >= sharingQueries &&
            keys * (d + e) * int64_t{sizeof(float)} >= target.l2Bytes / 4);
  // Dropout goes through keys in groups of 64.
  int64_t most = std::max<int64_t>(
      64, llvm::alignDown(scoreBytes / (block * sizeof(float)), 64));
  keyBlock = keys;
  if (copies && keys > most)
    keyBlock =
        llvm::alignTo(llvm::divideCeil(keys, llvm::divideCeil(keys, most)), 64);
  keyBlocks = llvm::divideCeil(keys, keyBlock);
  if (spec.ring) // of positions, which a ring has any number of
    keyBlocks = std::max<int64_t>(keyBlocks, 2);
  keyPanels = llvm::divideCeil(keyBlock, tileRows);
  keyRows = llvm::divideCeil(keyBlock, keyPanels);
  tallPanels = keyBlock - keyPanels * (keyRows - 1);
  if (spec.mask) {
    int64_t padded = llvm::alignTo(keyBlock, kb.lanes);
    maskRows = reserve(block * padded);
    maskTransposed =
        reserve(llvm::alignTo(padded, spec.dropout ? 64 : 1) * block);
  }
}

int64_t AttentionBlock::reserve(int64_t elements) {
  int64_t offset = scratchUsed;
  scratchUsed += llvm::alignTo(elements, 16);
  return offset;
}

Value AttentionBlock::at(int64_t offset) { return kb.at(scratch, offset); }

Kernel tfm::refuseAttention(ModuleOp module, StringRef name) {
  module.emitError() << "the operands of attention '" << name
                     << "' have strides that its kernel cannot read";
  return {};
}

func::FuncOp AttentionBlock::begin(StringRef name, ArrayRef<Type> buffers) {
  auto func = beginKernel(kb.b, module, name, buffers, scratchBytes());
  kernel = func;
  KernelArguments arguments(func);
  scratch = kb.pointer(arguments.scratch);
  if (spec.dropout)
    dropout = dropoutKey(kb.b, kb.loc, arguments.rng, arguments.layer,
                         spec.site, *spec.dropout, spec.accumulate);
  return func;
}

Value AttentionBlock::buffer(unsigned index) {
  return kb.pointer(cast<func::FuncOp>(kernel).getArgument(index));
}

RowsView AttentionBlock::head(Value ptr, MemRefType type, Value batch,
                              Value head) {
  SmallVector<int64_t> strides = stridesOf(type);
  Value offset = kb.add(kb.mul(batch, strides[0]), kb.mul(head, strides[1]));
  Type element = type.getElementType();
  return {kb.at(ptr, offset, element), kb.i64(strides[2]), element};
}

Value AttentionBlock::rowOf(RowsView view, Value row) {
  return kb.at(view.ptr, kb.mul(row, view.stride), view.element);
}

Value AttentionBlock::load(RowsView view, Value row, int64_t column,
                           Value mask) {
  return kb.load(kb.at(row, column, view.element), mask, view.element);
}

void AttentionBlock::store(Value vector, RowsView view, Value row,
                           int64_t column, Value mask) {
  kb.store(vector, kb.at(row, column, view.element), mask, view.element);
}

RowsView AttentionBlock::readable(RowsView view, Value first, Value rows,
                                  int64_t columns, int64_t offset,
                                  RowsView scales) {
  int64_t stride = copyWidth(columns);
  if (stride == 0)
    return {rowOf(view, first), view.stride, view.element};
  RowsView copy{at(offset), kb.i64(stride)};
  Value inRing = spec.ring ? kb.rem(first, kb.i64(keys)) : Value();
  kb.loop(kb.i64(0), rows, 1, [&](Value row) {
    Value stored = spec.ring ? kb.rem(kb.add(inRing, row), kb.i64(keys))
                             : kb.add(first, row);
    Value from = rowOf(view, stored), to = rowOf(copy, row);
    Value scale =
        scales.ptr ? kb.splat(kb.loadScalar(rowOf(scales, stored))) : Value();
    for (int64_t column = 0; column < columns; column += kb.lanes) {
      Value some = load(view, from, column, columnMask(column, columns));
      kb.store(scale ? kb.mulf(some, scale) : some, kb.at(to, column));
    }
  });
  return copy;
}

Value AttentionBlock::panelStart(Value panel) {
  Value start = kb.mul(panel, keyRows);
  if (tallPanels == keyPanels)
    return start;
  return kb.sub(start, kb.max(kb.i64(0), kb.sub(panel, kb.i64(tallPanels))));
}

Value AttentionBlock::firstQuery(Value start) {
  if (!spec.causal)
    return kb.i64(0);
  return kb.min(blockQueries,
                kb.max(kb.i64(0), kb.sub(kb.add(k0, start), position(t0))));
}

void AttentionBlock::enterKeys(Value first) {
  k0 = first;
  blockKeys = kb.i64(keyBlock);
  if (!spec.ring)
    blockKeys = kb.min(blockKeys, kb.sub(kb.i64(keys), k0));
}

std::pair<Value, Value> AttentionBlock::seenBy(Value from, Value to) {
  Value first = kb.i64(0), end = kb.i64(keys);
  if (spec.ring)
    end = position(to);
  else if (spec.causal)
    end = kb.min(end, position(to));
  if (spec.window)
    first = kb.min(end, kb.max(first, kb.sub(kb.add(position(from), 1),
                                             kb.i64(*spec.window))));
  return {first, end};
}

void AttentionBlock::enterBlock(Value first) {
  t0 = first;
  blockQueries = kb.min(kb.i64(block), kb.sub(kb.i64(queries), t0));
  std::tie(keyFrom, keyTo) = seenBy(t0, kb.add(t0, blockQueries));
  if (keyBlocks > 1) {
    keyTo = kb.max(k0, kb.min(keyTo, kb.add(k0, blockKeys)));
    keyFrom = kb.min(keyTo, kb.max(keyFrom, k0));
  }
  // Panels that hold key `s`, and the first that lies past it.
  auto panelOf = [&](Value s, int64_t roundUp) {
    s = kb.sub(s, k0);
    auto cut = [&](Value s, int64_t rows) {
      return kb.div(kb.add(s, roundUp * (rows - 1)), rows);
    };
    if (tallPanels == keyPanels)
      return cut(s, keyRows);
    Value tallEnd = kb.i64(tallPanels * keyRows);
    Value rest = kb.max(kb.i64(0), kb.sub(s, tallEnd));
    return kb.add(cut(kb.min(s, tallEnd), keyRows), cut(rest, keyRows - 1));
  };
  panelFrom = panelOf(keyFrom, 0);
  panelTo = panelOf(keyTo, 1);
}

void AttentionBlock::transposeBlock(RowsView view, int64_t columns, Value to) {
  Packing packing;
  if (view.element)
    packing.from = Packing::fromType(view.element);
  kb.loop(kb.i64(0), kb.i64(block), kb.lanes, [&](Value first) {
    // Past the last query its row is repeated: lanes that nobody stores.
    Value row = kb.min(kb.add(t0, first), kb.i64(queries - 1));
    Value rows = kb.min(kb.i64(kb.lanes), kb.sub(kb.i64(queries), row));
    kb.call(packTransposed(kb, packing),
            {rowOf(view, row), view.stride, kb.i64(columns), rows,
             kb.at(to, first), kb.i64(block)});
  });
}

void AttentionBlock::overTiles(int64_t count,
                               function_ref<void(int64_t, int64_t)> run) {
  int64_t panels = llvm::divideCeil(count, tileRows);
  int64_t first = 0;
  for (int64_t panel = 0; panel < panels; ++panel) {
    int64_t rows = (count - first) / (panels - panel);
    run(rows, first);
    first += rows;
  }
}

void AttentionBlock::overColumns(int64_t columns,
                                 function_ref<void(int64_t, int64_t)> run) {
  int64_t all = llvm::divideCeil(columns, kb.lanes);
  for (int64_t first = 0; first < all; first += tileVectors)
    run(std::min(tileVectors, all - first), first * kb.lanes);
}

/// Runs `one(rows)` with the number of rows of key panel `panel`.
static void byHeight(KernelBuilder &kb, Value panel, int64_t tallPanels,
                     int64_t panels, int64_t rows,
                     function_ref<void(int64_t)> one) {
  if (tallPanels == panels)
    return one(rows);
  kb.ifThen(
      kb.less(panel, kb.i64(tallPanels)), [&] { one(rows); },
      [&] { one(rows - 1); });
}

void AttentionBlock::scores(RowsView rows, int64_t depth, Value transposed,
                            Value to) {
  kb.loop(panelFrom, panelTo, 1, [&](Value panel) {
    Value start = panelStart(panel);
    Value a = kb.at(rows.ptr, kb.mul(start, rows.stride));
    Value c = kb.at(to, kb.mul(start, block));
    Value first = firstQuery(start);
    byHeight(kb, panel, tallPanels, keyPanels, keyRows, [&](int64_t height) {
      auto tile = [&](int64_t vectors, int64_t column) {
        kb.call(microKernel(kb, height, vectors, ALayout::Rows),
                {a, rows.stride, kb.at(transposed, column), kb.i64(block),
                 kb.at(c, column), kb.i64(block), kb.i64(depth), kb.i1(false)});
      };
      // From the first vector on that sees a key.
      std::function<void(int64_t, int64_t)> seen = [&](int64_t vectors,
                                                       int64_t column) {
        if (!spec.causal)
          return tile(vectors, column);
        kb.ifThen(
            kb.less(first, kb.i64(column + kb.lanes)),
            [&] { tile(vectors, column); },
            [&] {
              if (vectors > 1)
                seen(vectors - 1, column + kb.lanes);
            });
      };
      for (int64_t column = 0; column < block; column += width)
        seen(tileVectors, column);
    });
  });
}

void AttentionBlock::accumulateKeys(Value weights, RowsView rows,
                                    int64_t columns, RowsView to) {
  kb.loop(panelFrom, panelTo, 1, [&](Value panel) {
    Value start = panelStart(panel);
    Value first = firstQuery(start);
    Value a = kb.at(kb.at(weights, kb.mul(start, block)), first);
    Value b = rowOf(rows, first);
    Value c = rowOf(to, start);
    Value depth = kb.sub(blockQueries, first);
    byHeight(kb, panel, tallPanels, keyPanels, keyRows, [&](int64_t height) {
      overColumns(columns, [&](int64_t vectors, int64_t column) {
        kb.call(microKernel(kb, height, vectors, ALayout::Rows),
                {a, kb.i64(block), kb.at(b, column), rows.stride,
                 kb.at(c, column), to.stride, depth, kb.i1(true)});
      });
    });
  });
}

void AttentionBlock::sumOverKeys(Value weights, RowsView rows, int64_t columns,
                                 RowsView to, bool accumulate) {
  Value from = kb.sub(keyFrom, k0);
  Value a = kb.at(weights, kb.mul(from, block));
  Value b = rowOf(rows, from);
  Value all = kb.sub(keyTo, keyFrom);
  overColumns(columns, [&](int64_t vectors, int64_t column) {
    overTiles(std::min(block, queries), [&](int64_t height, int64_t first) {
      Value count = all;
      if (spec.causal)
        count = kb.min(
            all, kb.max(kb.i64(0),
                        kb.sub(kb.add(position(t0), first + height), keyFrom)));
      kb.call(microKernel(kb, height, vectors, ALayout::Columns),
              {kb.at(a, first), kb.i64(block), kb.at(b, column), rows.stride,
               kb.at(kb.at(to.ptr, kb.mul(to.stride, first)), column),
               to.stride, count, kb.i1(accumulate)});
    });
  });
}

void AttentionBlock::loadMask(Value batch, Value head) {
  if (!spec.mask)
    return;
  SmallVector<int64_t> strides = stridesOf(spec.mask);
  ArrayRef<int64_t> shape = spec.mask.getShape();
  Value offset = kb.add(kb.mul(t0, strides[2]), k0);
  if (shape[0] > 1)
    offset = kb.add(offset, kb.mul(batch, strides[0]));
  if (shape[1] > 1)
    offset = kb.add(offset, kb.mul(head, strides[1]));
  int64_t padded = llvm::alignTo(keyBlock, kb.lanes);
  Value source, stride;
  bool additive = spec.mask.getElementType().isF32();
  if (additive) {
    source = kb.at(maskPtr, offset);
    stride = kb.i64(strides[2]);
  } else {
    // 0 where a key is kept and minus infinity elsewhere, from bytes.
    source = at(maskRows);
    stride = kb.i64(padded);
    Type byte = kb.b.getI8Type();
    auto bytes = VectorType::get({kb.lanes}, byte);
    Value zero = arith::ConstantOp::create(
        kb.b, kb.loc, DenseElementsAttr::get(bytes, kb.b.getI8IntegerAttr(0)));
    Value from =
        LLVM::GEPOp::create(kb.b, kb.loc, kb.ptrType, byte, maskPtr, offset);
    kb.loop(kb.i64(0), blockQueries, 1, [&](Value t) {
      kb.loop(kb.i64(0), blockKeys, kb.lanes, [&](Value s) {
        Value in = kb.add(kb.mul(t, strides[2]), s);
        Value ptr =
            LLVM::GEPOp::create(kb.b, kb.loc, kb.ptrType, byte, from, in);
        Value loaded = LLVM::MaskedLoadOp::create(
            kb.b, kb.loc, bytes, ptr, kb.maskOf(kb.sub(blockKeys, s)), zero,
            kb.b.getI32IntegerAttr(1));
        Value keep = arith::CmpIOp::create(
            kb.b, kb.loc, arith::CmpIPredicate::ne, loaded, zero);
        kb.store(kb.select(keep, kb.splat(0.0),
                           kb.splat(-std::numeric_limits<double>::infinity())),
                 kb.at(kb.at(source, kb.mul(t, padded)), s));
      });
    });
  }
  kb.loop(kb.i64(0), blockQueries, kb.lanes, [&](Value first) {
    Value rows = kb.min(kb.i64(kb.lanes), kb.sub(blockQueries, first));
    kb.call(packTransposed(kb),
            {kb.at(source, kb.mul(first, stride)), stride, blockKeys, rows,
             kb.at(at(maskTransposed), first), kb.i64(block)});
  });
}

Value AttentionBlock::queryNumbers(int64_t v) {
  auto type = VectorType::get({kb.lanes}, kb.b.getI32Type());
  SmallVector<int32_t> numbers;
  for (int64_t i = 0; i < kb.lanes; ++i)
    numbers.push_back(static_cast<int32_t>(v * kb.lanes + i));
  Value iota = arith::ConstantOp::create(
      kb.b, kb.loc, DenseElementsAttr::get(type, ArrayRef<int32_t>(numbers)));
  Value first = arith::TruncIOp::create(kb.b, kb.loc, kb.b.getI32Type(), t0);
  Value all = vector::BroadcastOp::create(kb.b, kb.loc, type, first);
  return arith::AddIOp::create(kb.b, kb.loc, all, iota);
}

Value AttentionBlock::visible(Value s, int64_t v) {
  Value t = queryNumbers(v);
  auto all = [&](Value x) -> Value {
    Value narrow = arith::TruncIOp::create(kb.b, kb.loc, kb.b.getI32Type(), x);
    return vector::BroadcastOp::create(kb.b, kb.loc, t.getType(), narrow);
  };
  Value key = all(s);
  if (firstPosition)
    t = arith::AddIOp::create(kb.b, kb.loc, t, all(firstPosition));
  Value result;
  if (spec.causal)
    result =
        arith::CmpIOp::create(kb.b, kb.loc, arith::CmpIPredicate::sge, t, key);
  if (spec.window) {
    Value reach = arith::ConstantOp::create(
        kb.b, kb.loc,
        DenseElementsAttr::get(
            cast<VectorType>(t.getType()),
            kb.b.getI32IntegerAttr(static_cast<int32_t>(*spec.window))));
    Value near =
        arith::CmpIOp::create(kb.b, kb.loc, arith::CmpIPredicate::slt, t,
                              arith::AddIOp::create(kb.b, kb.loc, key, reach));
    result = result ? arith::AndIOp::create(kb.b, kb.loc, result, near) : near;
  }
  return result;
}

RowsView AttentionBlock::distancesOf(Value ptr, MemRefType type, Value head) {
  return {kb.at(ptr, kb.mul(head, stridesOf(type)[0])), kb.i64(1)};
}

Value AttentionBlock::columnOf(Value s, int64_t v) {
  return kb.add(kb.sub(position(t0), s), v * kb.lanes + spec.noDistance());
}

Value AttentionBlock::capped(Value raw) {
  Value score = kb.mulf(raw, kb.splat(spec.scale));
  if (!spec.softcap)
    return score;
  Value ratio = kb.mulf(score, kb.splat(1.0 / *spec.softcap));
  return kb.mulf(math::TanhOp::create(kb.b, kb.loc, ratio),
                 kb.splat(*spec.softcap));
}

Value AttentionBlock::masked(Value score, Value s, int64_t v,
                             bool checkVisible) {
  if (spec.distanceBias) {
    Value column = columnOf(s, v);
    score =
        kb.addf(score, kb.load(kb.at(distances.ptr, column),
                               kb.within(column, kb.i64(spec.distances()))));
  }
  if (spec.mask)
    score = kb.addf(score,
                    kb.load(kb.at(scoreRow(maskTransposed, s), v * kb.lanes)));
  if (checkVisible)
    score = kb.select(visible(s, v), score,
                      kb.splat(-std::numeric_limits<double>::infinity()));
  return score;
}

void AttentionBlock::overKeys(
    Value from, Value to, ValueRange init,
    function_ref<SmallVector<Value>(Value, ValueRange, bool)> body,
    SmallVector<Value> &results) {
  results.assign(init.begin(), init.end());
  Value middle = from;
  if (!hides())
    middle = to;
  else if (!spec.window)
    // Every query of the block sees the keys up to its first query.
    middle = kb.min(to, kb.max(from, kb.add(position(t0), 1)));
  if (!spec.window)
    results =
        kb.loop(from, middle, 1, results, [&](Value s, ValueRange carried) {
          return body(s, carried, false);
        });
  if (hides())
    results = kb.loop(middle, to, 1, results, [&](Value s, ValueRange carried) {
      return body(s, carried, true);
    });
}

void AttentionBlock::overKeysWithDropout(
    Value batch, Value head, function_ref<void(Value, ArrayRef<Value>)> body) {
  // One call of the generator serves keys i, i + 16, i + 32 and i + 48 of 64,
  // here with a query in each lane.
  auto type = VectorType::get({kb.lanes}, kb.b.getI32Type());
  auto splat = [&](Value x) -> Value {
    Value narrow = arith::TruncIOp::create(kb.b, kb.loc, kb.b.getI32Type(), x);
    return vector::BroadcastOp::create(kb.b, kb.loc, type, narrow);
  };
  Value first = splat(kb.mul(kb.add(kb.mul(batch, heads), head), queries));
  SmallVector<Value> rows;
  for (int64_t v = 0; v < blockVectors(); ++v)
    rows.push_back(arith::AddIOp::create(kb.b, kb.loc, first, queryNumbers(v)));
  kb.loop(kb.div(keyFrom, 64), kb.div(kb.add(keyTo, 63), 64), 1,
          [&](Value sixtyFour) {
            kb.loop(kb.i64(0), kb.i64(16), 1, [&](Value i) {
              Value counter = splat(kb.add(kb.mul(sixtyFour, 16), i));
              SmallVector<SmallVector<Value>> keep(4);
              for (Value row : rows) {
                SmallVector<Value> words =
                    dropoutKeepWords(kb.b, kb.loc, dropout, row, counter);
                for (int64_t word = 0; word < 4; ++word)
                  keep[word].push_back(words[word]);
              }
              for (int64_t word = 0; word < 4; ++word)
                body(kb.add(kb.add(kb.mul(sixtyFour, 64), 16 * word), i),
                     keep[word]);
            });
          });
}

Value AttentionBlock::columnMask(int64_t column, int64_t columns) {
  if (column + kb.lanes <= columns)
    return {};
  return kb.maskOf(kb.i64(columns - column));
}
