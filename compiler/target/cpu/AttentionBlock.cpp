//===- AttentionBlock.cpp - a block of queries against its keys -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/AttentionBlock.h"
#include "compiler/target/cpu/AttentionPanels.h"
#include "compiler/target/cpu/CpuMachine.h"
#include "compiler/target/cpu/Packing.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
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

Terms tfm::termsOfAttention(const AttentionSpec &spec,
                            const CpuMachine &target) {
  if (!spec.q.getElementType().isBF16() || !spec.k.getElementType().isBF16() ||
      spec.ring || spec.q.getDimSize(2) <= AttentionPanels::panelSide / 2)
    return Terms::F32;
  // Panels of pairs are those of tiles, with vectors as wide.
  return target.bf16Tiles                               ? Terms::Bf16Tiles
         : target.bf16Pairs && target.lanes == tileSide ? Terms::Bf16Pairs
                                                        : Terms::F32;
}

AttentionBlock::AttentionBlock(OpBuilder &builder, ModuleOp module,
                               const AttentionSpec &spec,
                               const CpuMachine &target,
                               int64_t vectorsPerBlock, int64_t scoreBytes)
    : spec(spec), module(module), kb(builder, module, target.lanes),
      narrow(spec.q.getElementType().isBF16()),
      inPairs(termsOfAttention(spec, target) != Terms::F32),
      onTiles(termsOfAttention(spec, target) == Terms::Bf16Tiles) {
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
  // A block of fewer vectors is not worth a wide tile (nor is a wider block:
  // forward was 0 to 4% slower).
  int64_t ofQueries = llvm::divideCeil(queries, kb.lanes);
  bool isWide = !inPairs && target.tileVectorsInPlace() <=
                                std::min(vectorsPerBlock, ofQueries);
  tileVectors = inPairs  ? AttentionPanels::panelSide / kb.lanes
                : isWide ? target.tileVectorsInPlace()
                         : std::min(target.tileVectors(), ofQueries);
  tileRows = isWide ? target.tileRows(tileVectors) : target.tileRows();
  width = tileVectors * kb.lanes;
  block =
      width * std::min<int64_t>(llvm::divideCeil(vectorsPerBlock, tileVectors),
                                llvm::divideCeil(queries, width));
  blocks = llvm::divideCeil(queries, block);
  vectorsTogether =
      std::clamp<int64_t>((target.registers - 11) / 5, 1, blockVectors());
  // Copies of f32 lose 5 to 8% where all of a head stays in the cache, and soon
  // save a third (docs/performance/attention.md).
  copies = narrow || spec.ring || spec.keyScale ||
           (queries >= sharingQueries() &&
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
  if (inPairs) {
    keyRows = AttentionPanels::panelSide;
    keyPanels = tallPanels = llvm::divideCeil(keyBlock, keyRows);
  } else {
    keyPanels = llvm::divideCeil(keyBlock, tileRows);
    keyRows = llvm::divideCeil(keyBlock, keyPanels);
    tallPanels = keyBlock - keyPanels * (keyRows - 1);
  }
  if (inPairs) {
    auto made = onTiles ? productsOnTiles(*this) : productsInPairs(*this);
    panels = made.get();
    products = std::move(made);
  } else {
    products = productsInVectors(*this);
  }
  if (spec.mask) {
    int64_t padded = llvm::alignTo(keyBlock, kb.lanes);
    maskRows = reserve(block * padded);
    maskTransposed =
        reserve(llvm::alignTo(padded, spec.dropout ? 64 : 1) * block);
  }
}

AttentionBlock::~AttentionBlock() = default;

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

func::FuncOp tfm::beginAttention(KernelBuilder &kb, ModuleOp module,
                                 StringRef name,
                                 ArrayRef<AttentionBuffer> buffers,
                                 int64_t scratchBytes) {
  auto isThere = [](const AttentionBuffer &buffer) {
    return static_cast<bool>(buffer.type);
  };
  SmallVector<Type> types;
  for (const AttentionBuffer &buffer :
       llvm::make_filter_range(buffers, isThere))
    types.push_back(buffer.type);
  func::FuncOp func = beginKernel(kb.b, module, name, types, scratchBytes);
  unsigned next = 0;
  for (const AttentionBuffer &buffer :
       llvm::make_filter_range(buffers, isThere))
    *buffer.pointer = kb.pointer(func.getArgument(next++));
  return func;
}

func::FuncOp AttentionBlock::begin(StringRef name,
                                   ArrayRef<AttentionBuffer> buffers) {
  func::FuncOp func = beginAttention(kb, module, name, buffers, scratchBytes());
  KernelArguments arguments(func);
  scratch = kb.pointer(arguments.scratch);
  if (spec.dropout)
    dropout = dropoutKey(kb.b, kb.loc, arguments.rng, arguments.layer,
                         spec.site, *spec.dropout, spec.microSteps);
  return func;
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
        kb.store(kb.select(keep, kb.splat(0.0), kb.splat(-infinity)),
                 kb.at(kb.at(source, kb.mul(t, padded)), s));
      });
    });
  }
  kb.loop(kb.i64(0), kb.i64(block), kb.lanes, [&](Value first) {
    // Past the last query its row is repeated.
    Value row = kb.min(first, kb.sub(blockQueries, kb.i64(1)));
    Value rows = kb.min(kb.i64(kb.lanes), kb.sub(blockQueries, row));
    kb.call(packTransposed(kb),
            {kb.at(source, kb.mul(row, stride)), stride, blockKeys, rows,
             kb.at(at(maskTransposed), first), kb.i64(block)});
  });
}

SmallVector<Value>
tfm::shiftsOf(KernelBuilder &kb, ArrayRef<Value> largest, double unit,
              function_ref<void(ArrayRef<Value> taken)> takeOff) {
  auto compare = [&](arith::CmpFPredicate predicate, Value x, Value y) {
    return arith::CmpFOp::create(kb.b, kb.loc, predicate, x, y);
  };
  Value zero = kb.splat(0.0), any;
  SmallVector<Value> shifts, taken;
  for (Value most : largest) {
    // From here on the shift would be rounded by a power of two and more.
    Value far = arith::AndIOp::create(
        kb.b, kb.loc,
        compare(arith::CmpFPredicate::OGE,
                math::AbsFOp::create(kb.b, kb.loc, most),
                kb.splat(0x1p24 / unit)),
        compare(arith::CmpFPredicate::ONE, most, kb.splat(noScore)));
    shifts.push_back(kb.select(far, zero, kb.mulf(most, kb.splat(-unit))));
    taken.push_back(kb.select(far, most, zero));
    any = any ? arith::OrIOp::create(kb.b, kb.loc, any, far) : far;
  }
  kb.ifThen(
      vector::ReductionOp::create(kb.b, kb.loc, vector::CombiningKind::OR, any),
      [&] { takeOff(taken); });
  return shifts;
}

Value AttentionBlock::powerOfTwo(Value x) {
  if (kb.lanes != 16)
    return emitExp2(kb.b, kb.loc, x);
  // AVX-512 takes whole numbers off, and multiplies by powers of two, at any
  // magnitude: VREDUCEPS, towards minus infinity, and VSCALEFPS.
  auto constant = [&](IntegerAttr value) -> Value {
    return LLVM::ConstantOp::create(kb.b, kb.loc, value);
  };
  Value all = constant(kb.b.getI16IntegerAttr(-1)),
        currentMode = constant(kb.b.getI32IntegerAttr(4));
  auto intrinsic = [&](StringRef name, ValueRange operands) {
    return LLVM::CallIntrinsicOp::create(
               kb.b, kb.loc, kb.vecType,
               kb.b.getStringAttr(("llvm.x86.avx512.mask." + name).str()),
               operands)
        .getResult(0);
  };
  Value downwards = constant(kb.b.getI32IntegerAttr(9));
  Value rest = intrinsic("reduce.ps.512", {x, downwards, x, all, currentMode});
  // The minimax polynomial of its degree for 2**r, 0 <= r < 1, that is 1 at 0.
  Value p = kb.splat(0.0018671301676671294);
  for (double coefficient : {0.009017030115482716, 0.055799913251534224,
                             0.24016445011465748, 0.6931513118079079, 1.0})
    p = kb.fma(p, rest, kb.splat(coefficient));
  return intrinsic("scalef.ps.512", {p, x, p, all, currentMode});
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

Value AttentionBlock::seen(Value s, int64_t v) {
  Value there =
      vector::BroadcastOp::create(kb.b, kb.loc, kb.maskType, kb.less(s, keyTo));
  if (!hides())
    return there;
  return arith::AndIOp::create(kb.b, kb.loc, visible(s, v), there);
}

void AttentionBlock::overPanel(Value panel, function_ref<void(bool)> body) {
  if (spec.window || (!spec.causal && keys % keyRows == 0))
    return body(spec.window.has_value());
  Value whole = keyTo;
  if (spec.causal)
    whole = kb.min(whole, kb.add(position(t0), 1));
  kb.ifThen(
      kb.less(whole, kb.add(k0, kb.add(panelStart(panel), keyRows))),
      [&] { body(true); }, [&] { body(false); });
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
    score = kb.select(visible(s, v), score, kb.splat(-infinity));
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

void AttentionBlock::overVectors(
    function_ref<void(int64_t, int64_t)> body) const {
  for (int64_t from = 0; from < blockVectors(); from += vectorsTogether)
    body(from, std::min(from + vectorsTogether, blockVectors()));
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
