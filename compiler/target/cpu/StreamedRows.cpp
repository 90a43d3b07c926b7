//===- StreamedRows.cpp - rows of memory read once, in registers ----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/StreamedRows.h"
#include "compiler/target/cpu/CpuMachine.h"
#include "compiler/target/cpu/MicroKernel.h"
#include "compiler/target/cpu/Packing.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>

using namespace mlir;
using namespace tfm;

int64_t StreamedTerms::perLine() const {
  return 8 * cacheLine / b.getIntOrFloatBitWidth();
}

/// Neighbours along k that lie beside each other, as slots.
static Value loadSlots(KernelBuilder &kb, const StreamedTerms &terms, Value ptr,
                       Value mask) {
  auto type = VectorType::get({terms.perVector(kb)}, terms.a);
  return LLVM::BitcastOp::create(kb.b, kb.loc, kb.vecType,
                                 kb.loadAs(type, ptr, mask));
}

Value StreamedTerms::loadA(KernelBuilder &kb, Value ptr, Value mask) const {
  return perSlot() > 1 ? loadSlots(kb, *this, ptr, mask)
                       : kb.load(ptr, mask, a);
}

Value StreamedTerms::loadB(KernelBuilder &kb, Value ptr, Value mask) const {
  if (perSlot() == 1)
    return kb.load(ptr, mask, b);
  Value slots = loadSlots(kb, *this, ptr, mask);
  return areQuads() ? offsetQuads(kb, slots) : slots;
}

Value StreamedTerms::multiplyAdd(KernelBuilder &kb, Value a, Value b,
                                 Value sum) const {
  Terms terms = areQuads()   ? integers
                : arePairs() ? Terms::Bf16Pairs
                             : Terms::F32;
  return tfm::multiplyAdd(kb, terms, a, b, sum);
}

std::string StreamedTerms::suffix() const {
  if (areQuads())
    return ".quads";
  if (arePairs())
    return ".pairs";
  return Packing{Packing::fromType(b)}.fromName();
}

Prefetching Prefetching::sideBySide(const CpuMachine &target, int64_t level) {
  return target.readsInOrder ? Prefetching{2, 2} : Prefetching{level, 1};
}

void Prefetching::emit(KernelBuilder &kb, Value ptr, Value ahead,
                       Type element) const {
  SmallVector<Value> places;
  for (int64_t time = 0; time < times; ++time)
    places.push_back(ptr = kb.at(ptr, ahead, element));
  for (Value place : llvm::reverse(places))
    kb.prefetch(place, level);
}

DotTile tfm::dotTile(const CpuMachine &target, int64_t rows, bool isDense,
                     const StreamedTerms &terms) {
  // Beside the sums a vector of each row of B and one of A; and by pairs
  // magnitudes of B, a product and ones.
  bool byPairs = terms.areQuads() && terms.integers == Terms::I8Pairs;
  auto fits = [&](int64_t rows, int64_t columns) {
    int64_t others = byPairs ? 2 * columns + 3 : columns + 1;
    return rows * columns + others < target.registers;
  };
  // Four rows of B at a time hide the latency of a sum's additions. With two,
  // more rows of A meet what was loaded of B. With one there are few additions
  // to wait for, and memory that is dense may be read faster.
  bool inOrder = target.readsInOrder && rows <= 2;
  int64_t columns = inOrder && isDense ? 1 : fits(rows, 4) ? 4 : 2;
  int64_t most = 1;
  while (fits(most + 1, columns))
    ++most;
  int64_t groups = llvm::divideCeil(rows, most);
  return {static_cast<int64_t>(llvm::divideCeil(rows, groups)), columns,
          inOrder ? Prefetching{2, 1} : Prefetching::sideBySide(target, 1)};
}

func::FuncOp tfm::dotRows(KernelBuilder &kb, DotTile tile,
                          const StreamedTerms &terms) {
  std::string name = "tfm.dot." + std::to_string(tile.rows) + "x" +
                     std::to_string(tile.columns) + terms.suffix();
  SmallVector<Type> types{kb.ptrType, kb.i64Type, kb.ptrType, kb.i64Type,
                          kb.i64Type, kb.i64Type, kb.ptrType};
  return kb.sharedFunction(
      name, types, [&](KernelBuilder &kb, ValueRange args) {
        Value k = args[4], ahead = args[5], sums = args[6];
        SmallVector<Value> a, b;
        for (int64_t row = 0; row < tile.rows; ++row)
          a.push_back(kb.at(args[0], kb.mul(args[1], row), terms.a));
        for (int64_t column = 0; column < tile.columns; ++column)
          b.push_back(kb.at(args[2], kb.mul(args[3], column), terms.b));
        SmallVector<Value> carried(tile.rows * tile.columns, terms.zero(kb));
        auto step = [&](Value i, ValueRange sums, Value mask) {
          SmallVector<Value> bs, next;
          for (Value row : b)
            bs.push_back(terms.loadB(kb, kb.at(row, i, terms.b), mask));
          for (auto [number, row] : llvm::enumerate(a)) {
            Value x = terms.loadA(kb, kb.at(row, i, terms.a), mask);
            for (auto [column, y] : llvm::enumerate(bs))
              next.push_back(terms.multiplyAdd(
                  kb, x, y, sums[number * tile.columns + column]));
          }
          return next;
        };
        int64_t vector = terms.perVector(kb), line = terms.perLine();
        Value whole = kb.sub(k, kb.rem(k, kb.i64(line)));
        carried = kb.loop(kb.i64(0), whole, line, carried,
                          [&](Value i, ValueRange sums) {
                            for (Value row : b)
                              tile.prefetching.emit(kb, kb.at(row, i, terms.b),
                                                    ahead, terms.b);
                            SmallVector<Value> next(sums);
                            for (int64_t at = 0; at < line; at += vector)
                              next = step(kb.add(i, at), next, Value());
                            return next;
                          });
        carried =
            kb.loop(whole, k, vector, carried, [&](Value i, ValueRange sums) {
              return step(i, sums, kb.maskOf(kb.sub(k, i), vector));
            });
        for (int64_t row = 0; row < tile.rows; ++row)
          for (int64_t column = 0; column < tile.columns; ++column)
            kb.store(carried[row * tile.columns + column],
                     kb.at(sums, (row * kb.lanes + column) * kb.lanes));
      });
}

Value tfm::addLanes(KernelBuilder &kb, const StreamedTerms &terms, Value sums) {
  SmallVector<Value> vectors;
  Type type =
      terms.areQuads() ? kb.vecType.clone(kb.b.getI32Type()) : Type(kb.vecType);
  for (int64_t column = 0; column < kb.lanes; ++column)
    vectors.push_back(
        kb.loadAs(cast<VectorType>(type), kb.at(sums, column * kb.lanes)));
  SmallVector<int64_t> even, odd;
  for (int64_t lane = 0; lane < kb.lanes; ++lane) {
    even.push_back(2 * lane);
    odd.push_back(2 * lane + 1);
  }
  // A vector of the sums of neighbours in two, half as many from each.
  while (vectors.size() > 1) {
    SmallVector<Value> halves;
    for (size_t i = 0; i < vectors.size(); i += 2) {
      Value x = kb.shuffle(vectors[i], vectors[i + 1], even),
            y = kb.shuffle(vectors[i], vectors[i + 1], odd);
      halves.push_back(terms.areQuads() ? kb.add(x, y) : kb.addf(x, y));
    }
    vectors = halves;
  }
  return vectors[0];
}

void tfm::dotProducts(KernelBuilder &kb, const CpuMachine &target,
                      const StreamedTerms &terms, int64_t rows, Value a,
                      Value aStride, Value b, int64_t bStride, Value count,
                      int64_t k, Value sums, Value ahead) {
  DotTile tile = dotTile(target, rows, /*isDense=*/bStride == k, terms);
  int64_t perPage = 4096 / (cacheLine / terms.perLine());
  if (ahead)
    ahead = kb.mul(ahead, bStride);
  else if (tile.columns == 1 && bStride == k)
    ahead = kb.i64(perPage); // farther would be slower
  else
    // Behind these rows of B come the next, or, where rows are short, those
    // that follow a page of them.
    ahead = kb.i64(bStride *
                   std::max<int64_t>(tile.columns,
                                     llvm::alignTo(perPage / k, tile.columns)));
  auto columns = [&](Value column, int64_t columns) {
    Value from = kb.at(b, kb.mul(column, bStride), terms.b);
    Value to = kb.at(sums, kb.mul(column, kb.lanes));
    for (int64_t row = 0; row < rows; row += tile.rows)
      kb.call(
          dotRows(kb,
                  {std::min(tile.rows, rows - row), columns, tile.prefetching},
                  terms),
          {kb.at(a, kb.mul(aStride, row), terms.a), aStride, from,
           kb.i64(bStride), kb.i64(k), ahead,
           kb.at(to, row * kb.lanes * kb.lanes)});
  };
  Value whole = kb.sub(count, kb.rem(count, kb.i64(tile.columns)));
  kb.loop(kb.i64(0), whole, tile.columns,
          [&](Value column) { columns(column, tile.columns); });
  kb.loop(whole, count, 1, [&](Value column) { columns(column, 1); });
}

/// Two vectors of pairs: of 32 columns of a row of bf16 and the next, or zeros
/// where the `count` of rows is one.
static SmallVector<Value> pairsOfRows(KernelBuilder &kb, Value row,
                                      Value stride, int64_t count, Value mask) {
  auto integers = VectorType::get({2 * kb.lanes}, kb.b.getI16Type());
  Value first = kb.loadAs(integers, row, mask), second;
  if (count > 1)
    second = kb.loadAs(integers, kb.at(row, stride, kb.bf16Type), mask);
  else
    second =
        arith::ConstantOp::create(kb.b, kb.loc, kb.b.getZeroAttr(integers));
  SmallVector<Value> pairs;
  for (int64_t half : {0, 1}) {
    SmallVector<int64_t> interleaved;
    for (int64_t i = half * kb.lanes; i < (half + 1) * kb.lanes; ++i)
      interleaved.append({i, 2 * kb.lanes + i});
    pairs.push_back(LLVM::BitcastOp::create(
        kb.b, kb.loc, kb.vecType, kb.shuffle(first, second, interleaved)));
  }
  return pairs;
}

func::FuncOp tfm::addRows(KernelBuilder &kb, const SumTile &tile,
                          const StreamedTerms &terms, bool masked) {
  auto [rows, vectors, prefetching] = tile;
  std::string name = "tfm.rows." + std::to_string(rows) + "x" +
                     std::to_string(vectors) + terms.suffix() +
                     (masked ? ".masked" : "");
  SmallVector<Type> types{kb.ptrType, kb.i64Type,       kb.ptrType,
                          kb.i64Type, kb.ptrType,       kb.i64Type,
                          kb.i64Type, kb.b.getI1Type(), kb.i64Type};
  if (masked)
    types.push_back(kb.i64Type);
  return kb.sharedFunction(
      name, types, [&](KernelBuilder &kb, ValueRange args) {
        Value a = args[0], aStride = args[1], bStride = args[3], y = args[4],
              yStride = args[5], k = args[6], accumulate = args[7],
              ahead = args[8];
        // Only the last vector may be cut off.
        Value mask;
        if (masked)
          mask = kb.maskOf(kb.sub(args[9], kb.i64((vectors - 1) * kb.lanes)));
        auto yAt = [&](int64_t i) {
          return kb.at(kb.at(y, kb.mul(yStride, i / vectors)),
                       i % vectors * kb.lanes);
        };
        auto initial = scf::IfOp::create(
            kb.b, kb.loc, accumulate,
            [&](OpBuilder &, Location) {
              SmallVector<Value> values;
              for (int64_t i = 0; i < rows * vectors; ++i)
                values.push_back(kb.load(yAt(i)));
              scf::YieldOp::create(kb.b, kb.loc, values);
            },
            [&](OpBuilder &, Location) {
              SmallVector<Value> values(rows * vectors, kb.splat(0.0));
              scf::YieldOp::create(kb.b, kb.loc, values);
            });
        SmallVector<Value> rowsOfA;
        for (int64_t row = 0; row < rows; ++row)
          rowsOfA.push_back(kb.at(a, kb.mul(aStride, row), terms.a));
        // Vectors of slots, of as many rows of B as are in one.
        auto loadB = [&](Value b, int64_t count) {
          SmallVector<Value> bs;
          if (!terms.arePairs()) {
            for (int64_t v = 0; v < vectors; ++v)
              bs.push_back(terms.loadB(kb, kb.at(b, v * kb.lanes, terms.b),
                                       v + 1 == vectors ? mask : Value()));
            return bs;
          }
          for (int64_t v = 0; v < vectors; v += 2) {
            Value some;
            if (v + 2 >= vectors && (masked || vectors % 2 != 0))
              some = kb.maskOf(
                  kb.sub(masked ? args[9] : kb.i64(vectors * kb.lanes),
                         kb.i64(v * kb.lanes)),
                  2 * kb.lanes);
            llvm::append_range(bs,
                               pairsOfRows(kb, kb.at(b, v * kb.lanes, terms.b),
                                           bStride, count, some));
          }
          bs.truncate(vectors);
          return bs;
        };
        // A step over `count` rows of B.
        auto step = [&](Value i, ValueRange carried, int64_t count) {
          Value b = carried[0], row = b;
          for (int64_t i = 0; i < count; ++i) {
            if (i > 0)
              row = kb.at(row, bStride, terms.b);
            for (int64_t at = 0; at < vectors * kb.lanes; at += terms.perLine())
              prefetching.emit(kb, kb.at(row, at, terms.b), ahead, terms.b);
          }
          SmallVector<Value> bs = loadB(b, count),
                             next{kb.at(b, kb.mul(bStride, count), terms.b)};
          for (auto [row, at] : llvm::enumerate(rowsOfA)) {
            Value x = kb.splat(kb.loadScalar(kb.at(at, i, terms.a)));
            for (auto [v, y] : llvm::enumerate(bs))
              next.push_back(
                  terms.multiplyAdd(kb, x, y, carried[1 + row * vectors + v]));
          }
          return next;
        };
        SmallVector<Value> carried{args[2]};
        llvm::append_range(carried, initial.getResults());
        int64_t together = terms.arePairs() ? 2 : 1;
        Value whole = kb.sub(k, kb.rem(k, kb.i64(together)));
        carried = kb.loop(kb.i64(0), whole, together, carried,
                          [&](Value i, ValueRange carried) {
                            return step(i, carried, together);
                          });
        if (together > 1)
          carried = kb.loop(
              whole, k, together, carried,
              [&](Value i, ValueRange carried) { return step(i, carried, 1); });
        for (int64_t i = 0; i < rows * vectors; ++i)
          kb.store(carried[1 + i], yAt(i));
      });
}

SumTile tfm::sumTile(const CpuMachine &target, int64_t rows,
                     const StreamedTerms &terms) {
  // Beside the sums a row of B and an element of A.
  auto most = [&](int64_t vectors) {
    return (target.registers - vectors - 2) / vectors;
  };
  int64_t vectors = target.registers < 32 ? 2 : 4;
  // Pairs of rows of B are made again for each group of rows.
  if (terms.arePairs() && rows > most(vectors))
    vectors = 2;
  int64_t groups = llvm::divideCeil(rows, most(vectors));
  // A line that takes several loads should be near by then.
  bool severalLoads = 8 * cacheLine / terms.b.getIntOrFloatBitWidth() >
                      target.lanes * terms.perSlot();
  return {static_cast<int64_t>(llvm::divideCeil(rows, groups)), vectors,
          Prefetching::sideBySide(target, severalLoads ? 1 : 2)};
}

void tfm::addProducts(KernelBuilder &kb, const CpuMachine &target,
                      const StreamedTerms &terms, int64_t rows, Value a,
                      Value aStride, Value b, int64_t bStride, Value y,
                      int64_t yStride, int64_t columns, Value k,
                      Value accumulate, Value ahead) {
  SumTile tile = sumTile(target, rows, terms);
  int64_t strip = tile.vectors * kb.lanes;
  for (int64_t column = 0; column < columns; column += strip) {
    int64_t width = std::min(strip, columns - column);
    bool masked = width % kb.lanes != 0;
    for (int64_t row = 0; row < rows; row += tile.rows) {
      SmallVector<Value> arguments{kb.at(a, kb.mul(aStride, row), terms.a),
                                   aStride,
                                   kb.at(b, column, terms.b),
                                   kb.i64(bStride),
                                   kb.at(y, row * yStride + column),
                                   kb.i64(yStride),
                                   k,
                                   accumulate,
                                   ahead};
      if (masked)
        arguments.push_back(kb.i64(width));
      kb.call(addRows(kb,
                      {std::min(tile.rows, rows - row),
                       static_cast<int64_t>(llvm::divideCeil(width, kb.lanes)),
                       tile.prefetching},
                      terms, masked),
              arguments);
    }
  }
}
