//===- GroupedRows.cpp - products with weights of 4 bits ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/GroupedRows.h"
#include "compiler/target/cpu/CpuMachine.h"
#include "compiler/target/cpu/MicroKernel.h"
#include "compiler/target/cpu/Terms.h"
#include "runtime/tfm_model.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>

using namespace mlir;
using namespace tfm;

namespace {

constexpr int64_t groupTerms = TFM_GROUP_TERMS, groupBytes = TFM_GROUP_BYTES;
/// Groups whose bytes fill a cache line; those of a vector are as many or half.
constexpr int64_t groupsOfLine = cacheLine / groupBytes;
int64_t groupsOfVector(const KernelBuilder &kb) {
  return kb.lanes * 4 / groupBytes;
}

Value constantLike(KernelBuilder &kb, Type type, int64_t value) {
  auto vector = cast<VectorType>(type);
  llvm::APInt element(vector.getElementTypeBitWidth(),
                      static_cast<uint64_t>(value));
  return arith::ConstantOp::create(kb.b, kb.loc,
                                   DenseElementsAttr::get(vector, element));
}

} // namespace

int64_t tfm::groupsOf(int64_t terms) {
  return static_cast<int64_t>(llvm::divideCeil(terms, groupTerms));
}

static Value toF32(KernelBuilder &kb, Value integers) {
  return arith::SIToFPOp::create(kb.b, kb.loc, kb.vecType, integers);
}

static Value lowHalf(KernelBuilder &kb, Value bytes) {
  return arith::AndIOp::create(kb.b, kb.loc, bytes,
                               constantLike(kb, bytes.getType(), 15));
}

static Value highHalf(KernelBuilder &kb, Value bytes) {
  return arith::ShRUIOp::create(kb.b, kb.loc, bytes,
                                constantLike(kb, bytes.getType(), 4));
}

//===----------------------------------------------------------------------===//
// Few rows of A
//===----------------------------------------------------------------------===//

/// The tile for that many rows of A, each of which takes `loads` registers
/// beside its sums, unless it meets but one row of B: then instructions read it
/// from memory.
static DotTile groupedTile(const CpuMachine &target, int64_t rows,
                           int64_t loads) {
  // Three vectors of each row of B, and a few more: of two turns in flight,
  // where a row of B is alone.
  auto most = [&](int64_t columns) {
    return columns > 1
               ? (target.registers - 5 - 3 * columns) / (columns + loads)
               : target.registers - 12;
  };
  // What is made of a row of B is of use to several rows of A.
  bool inOrder = target.foreseesRows && rows <= 2;
  int64_t columns = inOrder ? 1 : 4;
  while (columns > 1 && most(columns) < std::min<int64_t>(rows, 4))
    columns /= 2;
  int64_t groups = llvm::divideCeil(rows, most(columns));
  return {static_cast<int64_t>(llvm::divideCeil(rows, groups)), columns,
          inOrder ? Prefetching{1, 1} : Prefetching::sideBySide(target, 1)};
}

static std::string nameOf(DotTile tile, StringRef suffix) {
  return ("tfm.dot." + llvm::Twine(tile.rows) + "x" +
          llvm::Twine(tile.columns) + ".groups" + suffix)
      .str();
}

namespace {

/// What both kinds of dot products take of B, as arguments of a function: rows
/// of it, how far ahead of them is prefetched, and how much of each table.
struct RowsOfB {
  static constexpr unsigned count = 7;

  static SmallVector<Type> types(const KernelBuilder &kb) {
    return {kb.ptrType, kb.i64Type, kb.ptrType, kb.ptrType,
            kb.i64Type, kb.i64Type, kb.i64Type};
  }

  RowsOfB(KernelBuilder &kb, ValueRange args, const DotTile &tile)
      : kb(kb), prefetching(tile.prefetching), ahead(args[5]),
        tableLength(args[6]) {
    for (int64_t column = 0; column < tile.columns; ++column) {
      bytes.push_back(kb.at(args[0], kb.mul(args[1], column), byteType()));
      Value offset = kb.mul(args[4], column);
      scale.push_back(kb.at(args[2], offset, kb.bf16Type));
      minimum.push_back(kb.at(args[3], offset, kb.bf16Type));
    }
  }

  Type byteType() const { return kb.b.getI8Type(); }
  /// Of each row what comes `ahead` of the bytes at `offset`.
  void prefetch(Value offset) const {
    for (Value row : bytes)
      prefetching.emit(kb, kb.at(row, offset, byteType()), ahead, byteType());
  }

  /// The same of their scales and minima, which are rows behind each other: a
  /// fifth of what is read, and too few bytes of each row at a time for the
  /// processor to do it.
  void prefetchTables() const {
    Value far = kb.div(ahead, groupBytes);
    kb.loop(kb.i64(0), tableLength, cacheLine / 2, [&](Value i) {
      for (Value table : {scale.front(), minimum.front()})
        prefetching.emit(kb, kb.at(table, i, kb.bf16Type), far, kb.bf16Type);
    });
  }

  KernelBuilder &kb;
  Prefetching prefetching;
  Value ahead, tableLength;
  SmallVector<Value> bytes, scale, minimum;
};

} // namespace

static void storeSums(KernelBuilder &kb, DotTile tile, ValueRange values,
                      Value sums) {
  for (int64_t row = 0; row < tile.rows; ++row)
    for (int64_t column = 0; column < tile.columns; ++column)
      kb.store(values[row * tile.columns + column],
               kb.at(sums, (row * kb.lanes + column) * kb.lanes));
}

namespace {

/// Dot products of rows of f32; `args` are those of `dotFloats`.
class FloatDots {
public:
  FloatDots(KernelBuilder &kb, const DotTile &tile, ValueRange args)
      : kb(kb), tile(tile), b(kb, args.take_back(RowsOfB::count), tile),
        k(args[2]), to(args[3]) {
    for (int64_t row = 0; row < tile.rows; ++row)
      a.push_back(kb.at(args[0], kb.mul(args[1], row)));
  }

  void compute() {
    b.prefetchTables();
    SmallVector<Value> sums(tile.rows * tile.columns, kb.splat(0.0));
    Value whole = kb.div(k, groupTerms);
    Value lines = kb.sub(whole, kb.rem(whole, kb.i64(groupsOfLine)));
    sums = kb.loop(kb.i64(0), lines, groupsOfLine, sums,
                   [&](Value first, ValueRange sums) {
                     b.prefetch(kb.mul(first, groupBytes));
                     return addGroups(first, kb.add(first, groupsOfLine), sums,
                                      false);
                   });
    sums = addGroups(lines, whole, sums, false);
    sums = addGroups(whole, kb.div(kb.add(k, groupTerms - 1), groupTerms), sums,
                     true);
    storeSums(kb, tile, sums, to);
  }

private:
  SmallVector<Value> addGroups(Value from, Value end, ValueRange sums,
                               bool masked) {
    return kb.loop(from, end, 1, sums, [&](Value number, ValueRange sums) {
      return addGroup(number, sums, masked);
    });
  }

  SmallVector<Value> addGroup(Value number, ValueRange sums, bool masked) {
    SmallVector<Value> next(sums), scales, minima;
    for (auto [scale, minimum] : llvm::zip_equal(b.scale, b.minimum)) {
      scales.push_back(inAllLanes(scale, number));
      minima.push_back(inAllLanes(minimum, number));
    }
    Value term = kb.mul(number, groupTerms);
    for (int64_t at = 0; at < groupBytes; at += kb.lanes) {
      SmallVector<Value> bytes;
      Value offset = kb.add(kb.mul(number, groupBytes), at);
      for (Value row : b.bytes)
        bytes.push_back(loadBytes(kb, kb.at(row, offset, b.byteType())));
      for (bool isHigh : {false, true}) {
        SmallVector<Value> weights;
        for (auto [some, scale, minimum] :
             llvm::zip_equal(bytes, scales, minima))
          weights.push_back(
              kb.fma(toF32(kb, isHigh ? highHalf(kb, some) : lowHalf(kb, some)),
                     scale, minimum));
        addTerms(kb.add(term, at + (isHigh ? groupBytes : 0)), weights, next,
                 masked);
      }
    }
    return next;
  }

  Value inAllLanes(Value table, Value group) {
    return kb.splat(loadBf16(kb, kb.at(table, group, kb.bf16Type)));
  }

  /// Terms from `i` on, a vector of them of each row.
  void addTerms(Value i, ArrayRef<Value> weights, MutableArrayRef<Value> sums,
                bool masked) {
    Value mask = masked ? kb.maskOf(kb.sub(k, i)) : Value();
    for (auto [row, pointer] : llvm::enumerate(a)) {
      Value x = kb.load(kb.at(pointer, i), mask);
      for (auto [column, weight] : llvm::enumerate(weights)) {
        Value &sum = sums[row * tile.columns + column];
        sum = kb.fma(x, weight, sum);
      }
    }
  }

  KernelBuilder &kb;
  const DotTile &tile;
  RowsOfB b;
  Value k, to;
  SmallVector<Value> a;
};

} // namespace

/// Of rows of f32: (a, a stride, k, sums, rows of B).
static func::FuncOp dotFloats(KernelBuilder &kb, const DotTile &tile) {
  SmallVector<Type> types{kb.ptrType, kb.i64Type, kb.i64Type, kb.ptrType};
  llvm::append_range(types, RowsOfB::types(kb));
  return kb.sharedFunction(nameOf(tile, ""), types,
                           [&](KernelBuilder &kb, ValueRange args) {
                             FloatDots(kb, tile, args).compute();
                           });
}

/// Calls `dot` for tiles of all rows of A and the first `count` of B.
static void forEachTile(
    KernelBuilder &kb, DotTile tile, int64_t rows, const GroupedRows &b,
    Value count, Value sums,
    llvm::function_ref<void(DotTile, int64_t row, ValueRange b, Value sums)>
        dot) {
  // Behind these rows of B come the next, or, where rows are short, those of
  // the next page.
  int64_t ahead =
      b.byteStride *
      std::max<int64_t>(tile.columns,
                        llvm::alignTo(4096 / b.byteStride, tile.columns));
  auto columns = [&](Value column, int64_t columns) {
    Value table = kb.mul(column, b.tableStride);
    SmallVector<Value> arguments{
        kb.at(b.bytes, kb.mul(column, b.byteStride), kb.b.getI8Type()),
        kb.i64(b.byteStride),
        kb.at(b.scale, table, kb.bf16Type),
        kb.at(b.minimum, table, kb.bf16Type),
        kb.i64(b.tableStride),
        kb.i64(ahead),
        kb.i64(columns * b.tableStride)};
    Value to = kb.at(sums, kb.mul(column, kb.lanes));
    for (int64_t row = 0; row < rows; row += tile.rows) {
      // With the other rows of A these rows of B are in the cache.
      if (row > 0)
        arguments.back() = kb.i64(0);
      dot({std::min(tile.rows, rows - row), columns, tile.prefetching}, row,
          arguments, kb.at(to, row * kb.lanes * kb.lanes));
    }
  };
  Value whole = kb.sub(count, kb.rem(count, kb.i64(tile.columns)));
  kb.loop(kb.i64(0), whole, tile.columns,
          [&](Value column) { columns(column, tile.columns); });
  if (tile.columns > 1)
    kb.loop(whole, count, 1, [&](Value column) { columns(column, 1); });
}

void tfm::groupedProducts(KernelBuilder &kb, const CpuMachine &target,
                          int64_t rows, Value a, int64_t aStride,
                          const GroupedRows &b, Value count, int64_t k,
                          Value sums) {
  forEachTile(kb, groupedTile(target, rows, /*loads=*/1), rows, b, count, sums,
              [&](DotTile tile, int64_t row, ValueRange b, Value sums) {
                SmallVector<Value> arguments{kb.at(a, row * aStride),
                                             kb.i64(aStride), kb.i64(k), sums};
                llvm::append_range(arguments, b);
                kb.call(dotFloats(kb, tile), arguments);
              });
}

//===----------------------------------------------------------------------===//
// Panels
//===----------------------------------------------------------------------===//

func::FuncOp tfm::packGroups(KernelBuilder &kb) {
  SmallVector<Type> types{kb.ptrType, kb.i64Type, kb.ptrType,
                          kb.ptrType, kb.i64Type, kb.i64Type,
                          kb.i64Type, kb.ptrType, kb.i64Type};
  return kb.sharedFunction(
      "tfm.pack.groups", types, [&](KernelBuilder &kb, ValueRange args) {
        Value k = args[5], last = kb.sub(args[6], kb.i64(1)), panel = args[7],
              panelStride = args[8];
        Type byte = kb.b.getI8Type();
        SmallVector<Value> bytes, scales, minima;
        for (int64_t lane = 0; lane < kb.lanes; ++lane) {
          Value row = kb.min(kb.i64(lane), last);
          bytes.push_back(kb.at(args[0], kb.mul(row, args[1]), byte));
          Value table = kb.mul(row, args[4]);
          scales.push_back(kb.at(args[2], table, kb.bf16Type));
          minima.push_back(kb.at(args[3], table, kb.bf16Type));
        }
        // Lanes are rows of B.
        auto tableOf = [&](ArrayRef<Value> rows, Value group) -> Value {
          SmallVector<Value> each;
          for (Value row : rows)
            each.push_back(loadBf16(kb, kb.at(row, group, kb.bf16Type)));
          return vector::FromElementsOp::create(kb.b, kb.loc, kb.vecType, each);
        };
        kb.loop(kb.i64(0), k, groupTerms, [&](Value first) {
          Value group = kb.div(first, groupTerms);
          Value scale = tableOf(scales, group),
                minimum = tableOf(minima, group);
          Value terms = kb.min(kb.sub(k, first), kb.i64(groupTerms));
          kb.loop(kb.i64(0), terms, kb.lanes, [&](Value inGroup) {
            Value offset = kb.add(kb.mul(group, groupBytes),
                                  kb.rem(inGroup, kb.i64(groupBytes)));
            Value isHigh = kb.div(inGroup, groupBytes);
            SmallVector<Value> rows;
            for (Value row : bytes)
              rows.push_back(integersOfHalf(
                  kb, loadBytes(kb, kb.at(row, offset, byte)), isHigh));
            Value to =
                kb.at(panel, kb.mul(kb.add(first, inGroup), panelStride));
            kb.transpose(rows);
            for (Value column : rows) {
              kb.store(kb.fma(column, scale, minimum), to);
              to = kb.at(to, panelStride);
            }
          });
        });
      });
}

int64_t tfm::packedGroups(int64_t groups, int64_t lanes) {
  return static_cast<int64_t>(llvm::alignTo(groups, lanes * 4 / groupBytes));
}

func::FuncOp tfm::packGroupQuads(KernelBuilder &kb) {
  SmallVector<Type> types{kb.ptrType, kb.i64Type, kb.i64Type,
                          kb.i64Type, kb.ptrType, kb.i64Type};
  return kb.sharedFunction(
      "tfm.pack.groups.quads", types, [&](KernelBuilder &kb, ValueRange args) {
        Value groups = args[2], last = kb.sub(args[3], kb.i64(1)),
              panelStride = args[5];
        Type byte = kb.b.getI8Type();
        SmallVector<Value> rows;
        for (int64_t lane = 0; lane < kb.lanes; ++lane)
          rows.push_back(kb.at(
              args[0], kb.mul(kb.min(kb.i64(lane), last), args[1]), byte));
        int64_t vectorBytes = 4 * kb.lanes, vectorGroups = groupsOfVector(kb);
        int64_t halfOfGroup = groupBytes / 4;
        auto bytes = VectorType::get({vectorBytes}, byte);
        auto vector = [&](Value group, Value mask) {
          SmallVector<Value> columns;
          for (Value row : rows)
            columns.push_back(LLVM::BitcastOp::create(
                kb.b, kb.loc, kb.vecType,
                kb.loadAs(bytes, kb.at(row, kb.mul(group, groupBytes), byte),
                          mask)));
          kb.transpose(columns);
          Value to = kb.at(args[4],
                           kb.mul(kb.mul(group, 2 * halfOfGroup), panelStride));
          auto store = [&](Value half) {
            kb.store(half, to);
            to = kb.at(to, panelStride);
          };
          for (; !columns.empty();
               columns.erase(columns.begin(), columns.begin() + halfOfGroup)) {
            SmallVector<Value> ofGroup;
            for (Value column : ArrayRef(columns).take_front(halfOfGroup))
              ofGroup.push_back(
                  LLVM::BitcastOp::create(kb.b, kb.loc, bytes, column));
            for (Value column : ofGroup)
              store(lowHalf(kb, column));
            for (Value column : ofGroup)
              store(highHalf(kb, column));
          }
        };
        Value whole = kb.sub(groups, kb.rem(groups, kb.i64(vectorGroups)));
        kb.loop(kb.i64(0), whole, vectorGroups,
                [&](Value group) { vector(group, Value()); });
        kb.loop(whole, groups, vectorGroups, [&](Value group) {
          vector(group, kb.maskOf(kb.mul(kb.sub(groups, group), groupBytes),
                                  vectorBytes));
        });
      });
}

//===----------------------------------------------------------------------===//
// Integers of 8 bits
//===----------------------------------------------------------------------===//

int64_t GroupedIntegers::rowSums(int64_t k) {
  return static_cast<int64_t>(llvm::alignTo(groupsOf(k), groupsOfLine));
}

int64_t GroupedIntegers::rowBytes(int64_t k) { return rowSums(k) * groupTerms; }

void tfm::packIntegers(KernelBuilder &kb, const CpuMachine &target, Value a,
                       int64_t k, const GroupedIntegers &to) {
  Terms terms = integerTerms(target);
  SmallVector<Type> types{kb.ptrType, kb.i64Type, kb.ptrType, kb.ptrType};
  auto function = kb.sharedFunction(
      "tfm.pack.integers.groups", types,
      [&](KernelBuilder &kb, ValueRange args) {
        Value a = args[0], k = args[1];
        Type byte = kb.b.getI8Type();
        int64_t half = 4 * kb.lanes, step = 2 * half;
        auto bytes = VectorType::get({half}, byte);
        auto words = VectorType::get({half / 8}, kb.i64Type);
        Value ones = constantLike(kb, bytes, 1);
        auto line = [&](Value i, bool masked) {
          Value parts[2];
          for (int64_t part : {0, 1}) {
            Value at = kb.add(i, part * half);
            Value mask = masked ? kb.maskOf(kb.sub(k, at), half) : Value();
            parts[part] = LLVM::BitcastOp::create(
                kb.b, kb.loc, words,
                kb.loadAs(bytes, kb.at(a, at, byte), mask));
          }
          // Of each group of 32 terms 0 to 15, and the others.
          SmallVector<int64_t> firsts, others;
          for (int64_t word = 0; word < step / 8; word += 4) {
            firsts.append({word, word + 1});
            others.append({word + 2, word + 3});
          }
          Value low = kb.shuffle(parts[0], parts[1], firsts);
          Value high = kb.shuffle(parts[0], parts[1], others);
          Value to = kb.at(args[2], i, byte);
          kb.store(low, to);
          kb.store(high, kb.at(to, half, byte));
          Value sum = multiplyFourBits(kb, terms, {low, high}, {ones, ones});
          // Each group's are in four lanes.
          for (int64_t apart : {1, 2}) {
            SmallVector<int64_t> other;
            for (int64_t lane = 0; lane < kb.lanes; ++lane)
              other.push_back(lane ^ apart);
            sum = kb.add(sum, kb.shuffle(sum, sum, other));
          }
          SmallVector<int64_t> firstLanes;
          for (int64_t lane = 0; lane < kb.lanes; lane += 4)
            firstLanes.push_back(lane);
          Value each = kb.shuffle(sum, sum, firstLanes);
          auto floats = VectorType::get({groupsOfVector(kb)}, kb.f32Type);
          kb.store(arith::SIToFPOp::create(kb.b, kb.loc, floats, each),
                   kb.at(args[3], kb.div(i, groupTerms)));
        };
        Value whole = kb.sub(k, kb.rem(k, kb.i64(step)));
        kb.loop(kb.i64(0), whole, step, [&](Value i) { line(i, false); });
        kb.loop(whole, k, step, [&](Value i) { line(i, true); });
      });
  kb.call(function, {a, kb.i64(k), to.packed, to.sums});
}

namespace {

/// Dot products of rows of integers; `args` are those of `dotIntegers`. Four
/// products an instruction are those of a group alone in each lane, and their
/// sums are exact.
class IntegerDots {
public:
  IntegerDots(KernelBuilder &kb, const DotTile &tile, Terms terms,
              ValueRange args)
      : kb(kb), tile(tile), terms(terms),
        b(kb, args.take_back(RowsOfB::count), tile), groups(args[4]),
        to(args[5]), vectorBytes(4 * kb.lanes),
        vectorGroups(groupsOfVector(kb)),
        bytes(VectorType::get({vectorBytes}, b.byteType())) {
    for (int64_t row = 0; row < tile.rows; ++row) {
      a.push_back(kb.at(args[0], kb.mul(args[1], row), b.byteType()));
      sumsOfGroups.push_back(kb.at(args[2], kb.mul(args[3], row)));
    }
  }

  void compute() {
    b.prefetchTables();
    SmallVector<Value> sums(tile.rows * tile.columns, kb.splat(0.0));
    sums = addMinima(addProducts(sums));
    storeSums(kb, tile, sums, to);
  }

private:
  SmallVector<Value> addProducts(ValueRange sums) {
    Value whole = kb.sub(groups, kb.rem(groups, kb.i64(groupsOfLine)));
    SmallVector<Value> ofLines =
        kb.loop(kb.i64(0), whole, groupsOfLine, sums,
                [&](Value group, ValueRange sums) {
                  b.prefetch(kb.mul(group, groupBytes));
                  SmallVector<Value> next(sums);
                  for (int64_t at = 0; at < groupsOfLine; at += vectorGroups)
                    next = addVector(kb.add(group, at), next, false);
                  return next;
                });
    return kb.loop(whole, groups, vectorGroups, ofLines,
                   [&](Value group, ValueRange sums) {
                     return addVector(group, sums, true);
                   });
  }

  /// The groups of a vector of B, from `group` on.
  SmallVector<Value> addVector(Value group, ValueRange sums, bool masked) {
    SmallVector<Value> low, high, scales, next;
    Value offset = kb.mul(group, groupBytes), byteMask, tableMask;
    if (masked) {
      Value rest = kb.sub(groups, group);
      byteMask = kb.maskOf(kb.mul(rest, groupBytes), vectorBytes);
      tableMask = kb.maskOf(rest, vectorGroups);
    }
    auto halves = VectorType::get({vectorGroups}, kb.b.getIntegerType(16));
    for (auto [row, scale] : llvm::zip_equal(b.bytes, b.scale)) {
      Value some = kb.loadAs(bytes, kb.at(row, offset, b.byteType()), byteMask);
      low.push_back(lowHalf(kb, some));
      high.push_back(highHalf(kb, some));
      scales.push_back(inLanesOfGroups(
          kb.loadAs(halves, kb.at(scale, group, kb.bf16Type), tableMask)));
    }
    Value term = kb.mul(group, groupTerms);
    for (auto [row, pointer] : llvm::enumerate(a)) {
      auto load = [&](int64_t at) {
        return kb.loadAs(bytes, kb.at(pointer, kb.add(term, at), b.byteType()));
      };
      Value first = load(0), second = load(vectorBytes);
      for (int64_t column = 0; column < tile.columns; ++column) {
        Value sum = multiplyFourBits(kb, terms, {first, second},
                                     {low[column], high[column]});
        next.push_back(kb.fma(toF32(kb, sum), scales[column],
                              sums[row * tile.columns + column]));
      }
    }
    return next;
  }

  /// A bf16 for each group as the upper half of f32 in the lanes of its group:
  /// those lie in a part of the register that shuffles do not cross.
  Value inLanesOfGroups(Value each) {
    int64_t bits = 16 * vectorGroups;
    Type word = kb.b.getIntegerType(static_cast<unsigned>(bits));
    Value one = vector::ExtractOp::create(
        kb.b, kb.loc,
        LLVM::BitcastOp::create(kb.b, kb.loc, VectorType::get({1}, word), each),
        0);
    Value everywhere = vector::BroadcastOp::create(
        kb.b, kb.loc, VectorType::get({8 * vectorBytes / bits}, word), one);
    auto all = VectorType::get({2 * kb.lanes}, kb.b.getIntegerType(16));
    everywhere = LLVM::BitcastOp::create(kb.b, kb.loc, all, everywhere);
    SmallVector<int64_t> upper;
    for (int64_t lane = 0; lane < kb.lanes; ++lane) {
      int64_t group = lane / 4;
      upper.append({2 * kb.lanes, group * 8 + group});
    }
    return LLVM::BitcastOp::create(
        kb.b, kb.loc, kb.vecType,
        kb.shuffle(everywhere, constantLike(kb, all, 0), upper));
  }

  /// Each minimum times the sum of its group.
  SmallVector<Value> addMinima(ValueRange sums) {
    Value whole = kb.sub(groups, kb.rem(groups, kb.i64(kb.lanes)));
    SmallVector<Value> ofWhole = kb.loop(
        kb.i64(0), whole, kb.lanes, sums, [&](Value group, ValueRange sums) {
          return addMinima(group, sums, Value());
        });
    return kb.loop(
        whole, groups, kb.lanes, ofWhole, [&](Value group, ValueRange sums) {
          return addMinima(group, sums, kb.maskOf(kb.sub(groups, group)));
        });
  }

  /// Those of a vector of groups.
  SmallVector<Value> addMinima(Value group, ValueRange sums, Value mask) {
    SmallVector<Value> each, next;
    for (Value row : b.minimum)
      each.push_back(
          kb.load(kb.at(row, group, kb.bf16Type), mask, kb.bf16Type));
    for (auto [row, pointer] : llvm::enumerate(sumsOfGroups)) {
      Value x = kb.load(kb.at(pointer, group), mask);
      for (auto [column, minimum] : llvm::enumerate(each))
        next.push_back(kb.fma(x, minimum, sums[row * tile.columns + column]));
    }
    return next;
  }

  KernelBuilder &kb;
  const DotTile &tile;
  Terms terms;
  RowsOfB b;
  Value groups, to;
  int64_t vectorBytes, vectorGroups;
  VectorType bytes;
  SmallVector<Value> a, sumsOfGroups;
};

} // namespace

/// Of packed rows: (a, a stride, sums of groups, their stride, groups, sums,
/// rows of B).
static func::FuncOp dotIntegers(KernelBuilder &kb, const DotTile &tile,
                                Terms terms) {
  SmallVector<Type> types{kb.ptrType, kb.i64Type, kb.ptrType,
                          kb.i64Type, kb.i64Type, kb.ptrType};
  llvm::append_range(types, RowsOfB::types(kb));
  return kb.sharedFunction(nameOf(tile, ".quads"), types,
                           [&](KernelBuilder &kb, ValueRange args) {
                             IntegerDots(kb, tile, terms, args).compute();
                           });
}

void tfm::groupedProducts(KernelBuilder &kb, const CpuMachine &target,
                          int64_t rows, const GroupedIntegers &a,
                          const GroupedRows &b, Value count, int64_t k,
                          Value sums) {
  int64_t rowBytes = GroupedIntegers::rowBytes(k),
          rowSums = GroupedIntegers::rowSums(k);
  Terms terms = integerTerms(target);
  forEachTile(kb, groupedTile(target, rows, /*loads=*/2), rows, b, count, sums,
              [&](DotTile tile, int64_t row, ValueRange b, Value sums) {
                SmallVector<Value> arguments{
                    kb.at(a.packed, row * rowBytes, kb.b.getI8Type()),
                    kb.i64(rowBytes),
                    kb.at(a.sums, row * rowSums),
                    kb.i64(rowSums),
                    kb.i64(groupsOf(k)),
                    sums};
                llvm::append_range(arguments, b);
                kb.call(dotIntegers(kb, tile, terms), arguments);
              });
}
