//===- GroupedPanels.cpp - many rows by weights of 4 bits -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/GroupedPanels.h"
#include "compiler/target/cpu/CpuMachine.h"
#include "compiler/target/cpu/MicroKernel.h"
#include "compiler/target/cpu/Packing.h"
#include "compiler/target/cpu/ProductKernel.h"
#include "runtime/tfm_model.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>

using namespace mlir;
using namespace tfm;

namespace {

/// Slots of a group, of four terms each.
constexpr int64_t groupSlots = TFM_GROUP_TERMS / 4;
/// Bytes of a slot of a panel, and of a scale or a minimum there.
constexpr int64_t slotBytes = 4;

} // namespace

std::optional<GroupedPanelsPlan>
tfm::planGroupedPanels(const MatmulSpec &spec, const CpuMachine &target) {
  std::optional<Matrix> a = Matrix::of(spec.a, spec.transposeA);
  // Up to two register tiles a token has the bits that it has alone.
  if (!spec.isGrouped() || !target.multipliesIntegers() || !a ||
      !a->element.isInteger(8) || a->column != 1 ||
      spec.m <= 2 * target.tileRows())
    return std::nullopt;
  // Of a tile two sums for each element, and a row of B.
  int64_t vectors = target.tileVectors();
  int64_t most = (target.registers - vectors) / (2 * vectors);
  GroupedPanelsPlan plan;
  plan.tileRows = llvm::divideCeil(spec.m, llvm::divideCeil(spec.m, most));
  // A row of A, and the sums of its groups.
  int64_t rowBytes = slotBytes * (groupSlots + 1) *
                     packedGroups(groupsOf(spec.k), target.lanes);
  int64_t tiles =
      std::max<int64_t>(target.l2Bytes / (rowBytes * plan.tileRows), 1);
  int64_t all = llvm::divideCeil(spec.m, plan.tileRows);
  plan.packedRows =
      plan.tileRows * llvm::divideCeil(all, llvm::divideCeil(all, tiles));
  plan.serial = spec.isTooSmallToShare();
  return plan;
}

/// The function that computes a tile of `rows` x `vectors * lanes`:
///
///   (a, sums of a, b, scales, minima, groups, c, ahead, bytes ahead)
///   c[row, column] = sum over groups of
///       scales[group, column] * sum over slots of a[slot, row] b[slot, column]
///       + minima[group, column] * sums of a[group, row]
///
/// where rows of `a` and of its sums, and `rows` of `c`, lie behind each other.
/// With each group it prefetches `linesAhead` lines, which next time are those
/// so many bytes ahead.
static func::FuncOp groupedMicroKernel(KernelBuilder &kb, Terms terms,
                                       int64_t rows, int64_t vectors,
                                       int64_t linesAhead) {
  SmallVector<Type> types{kb.ptrType, kb.ptrType, kb.ptrType,
                          kb.ptrType, kb.ptrType, kb.i64Type,
                          kb.ptrType, kb.ptrType, kb.i64Type};
  return kb.sharedFunction(
      "tfm.micro." + std::to_string(rows) + "x" + std::to_string(vectors) +
          ".groups.ahead" + std::to_string(linesAhead),
      types, [&](KernelBuilder &kb, ValueRange args) {
        int64_t width = vectors * kb.lanes;
        SmallVector<Value> carried(args.take_front(5));
        carried.push_back(args[7]);
        carried.append(rows * vectors, kb.splat(0.0));
        carried = kb.loop(
            kb.i64(0), args[5], 1, carried, [&](Value, ValueRange carried) {
              Value a = carried[0], sumsOfA = carried[1], b = carried[2],
                    scales = carried[3], minima = carried[4],
                    ahead = carried[5];
              SmallVector<Value> all(carried.drop_front(6));
              for (int64_t line = 0; line < linesAhead; ++line)
                kb.prefetch(kb.at(ahead, line * cacheLine, kb.b.getI8Type()),
                            /*level=*/2);
              auto slot = [&](Value number, SmallVector<Value> sums) {
                Value rowOfB = kb.at(b, kb.mul(number, width)),
                      columnOfA = kb.at(a, kb.mul(number, rows));
                SmallVector<Value> bs;
                for (int64_t v = 0; v < vectors; ++v)
                  bs.push_back(kb.load(kb.at(rowOfB, v * kb.lanes)));
                for (int64_t row = 0; row < rows; ++row) {
                  Value element =
                      kb.splat(kb.loadScalar(kb.at(columnOfA, row)));
                  for (int64_t v = 0; v < vectors; ++v) {
                    Value &sum = sums[row * vectors + v];
                    sum = multiplyAddFourBits(kb, terms, element, bs[v], sum);
                  }
                }
                return sums;
              };
              SmallVector<Value> group(rows * vectors,
                                       noFourBitSums(kb, terms));
              // Of several slots LLVM would move what is not one instruction,
              // or not on x86, to where the last of them is, and lack registers
              // for all that it adds there.
              if (terms == Terms::I8Quads)
                for (int64_t number = 0; number < groupSlots; ++number)
                  group = slot(kb.i64(number), group);
              else
                group = kb.rolledLoop(kb.i64(0), kb.i64(groupSlots), 1, group,
                                      [&](Value number, ValueRange sums) {
                                        return slot(number, sums);
                                      });
              for (int64_t v = 0; v < vectors; ++v) {
                Value scale = kb.load(kb.at(scales, v * kb.lanes)),
                      minimum = kb.load(kb.at(minima, v * kb.lanes));
                for (int64_t row = 0; row < rows; ++row) {
                  Value &sum = all[row * vectors + v];
                  Value asFloat = arith::SIToFPOp::create(
                      kb.b, kb.loc, kb.vecType,
                      fourBitSums(kb, terms, group[row * vectors + v]));
                  Value sumOfA = kb.splat(kb.loadScalar(kb.at(sumsOfA, row)));
                  sum = kb.fma(asFloat, scale, kb.fma(sumOfA, minimum, sum));
                }
              }
              SmallVector<Value> next{kb.at(a, groupSlots * rows),
                                      kb.at(sumsOfA, rows),
                                      kb.at(b, groupSlots * width),
                                      kb.at(scales, width),
                                      kb.at(minima, width),
                                      kb.at(ahead, args[8], kb.b.getI8Type())};
              llvm::append_range(next, all);
              return next;
            });
        for (int64_t row = 0; row < rows; ++row)
          for (int64_t v = 0; v < vectors; ++v)
            kb.store(carried[6 + row * vectors + v],
                     kb.at(args[6], row * width + v * kb.lanes));
      });
}

/// The function that adds up the groups of a packed panel of A:
///
///   (a, groups, sums)
///   sums[group, row] = sum of the terms of a[8 slots of the group, row]
///
/// of `rows` rows each, and writes whole vectors as `packTransposed` does.
static func::FuncOp sumGroups(KernelBuilder &kb, Terms terms, int64_t rows) {
  SmallVector<Type> types{kb.ptrType, kb.i64Type, kb.ptrType};
  return kb.sharedFunction(
      "tfm.sum.groups" + std::to_string(rows), types,
      [&](KernelBuilder &kb, ValueRange args) {
        auto bytes = VectorType::get({4 * kb.lanes}, kb.b.getI8Type());
        Value ones = arith::ConstantOp::create(
            kb.b, kb.loc, DenseElementsAttr::get(bytes, llvm::APInt(8, 1)));
        kb.loop(kb.i64(0), args[1], 1, SmallVector<Value>{args[0], args[2]},
                [&](Value, ValueRange carried) {
                  Value a = carried[0], sum = noFourBitSums(kb, terms);
                  for (int64_t slot = 0; slot < groupSlots; ++slot) {
                    sum = multiplyAddFourBits(kb, terms, kb.load(a), ones, sum);
                    a = kb.at(a, rows);
                  }
                  kb.store(arith::SIToFPOp::create(kb.b, kb.loc, kb.vecType,
                                                   fourBitSums(kb, terms, sum)),
                           carried[1]);
                  return SmallVector<Value>{a, kb.at(carried[1], rows)};
                });
      });
}

namespace {

class GroupedPanelsEmitter : ProductKernel {
public:
  GroupedPanelsEmitter(OpBuilder &builder, ModuleOp module,
                       const MatmulSpec &spec, const ProductOperands &operands,
                       const CpuMachine &target, const GroupedPanelsPlan &plan)
      : ProductKernel(builder, module, spec, operands, target), plan(plan),
        target(target), vectors(target.tileVectors()),
        width(vectors * target.lanes), groups(groupsOf(spec.k)),
        panelGroups(packedGroups(groups, target.lanes)),
        aPanel(packedLength(groupSlots * groups, plan.tileRows, kb.lanes,
                            kb.lanes)),
        aSums(packedLength(groups, plan.tileRows, kb.lanes, kb.lanes)),
        bPanel(groupSlots * panelGroups * width),
        bTable(packedLength(groups, width, 0, kb.lanes)) {}

  Kernel emit(StringRef name) {
    int64_t tile = plan.tileRows * width,
            tiles = plan.packedRows / plan.tileRows;
    int64_t lines = llvm::divideCeil(width * b.column, cacheLine);
    linesAhead = llvm::divideCeil(lines, tiles * groups);
    int64_t slots = tile + bPanel + 2 * bTable + tiles * (aPanel + aSums);
    OpBuilder::InsertionGuard guard(kb.b);
    sums = begin(name, slots * slotBytes);
    packedB = kb.at(sums, tile);
    scales = kb.at(packedB, bPanel);
    minima = kb.at(scales, bTable);
    packedA = kb.at(minima, bTable);
    sumsOfA = kb.at(packedA, tiles * aPanel);
    shareStrips(plan.serial, llvm::divideCeil(spec.n, width),
                [&](Value begin, Value end) { blocks(begin, end); });
    return {kernel, slots * slotBytes};
  }

private:
  const GroupedPanelsPlan &plan;
  const CpuMachine &target;
  const int64_t vectors, width, groups, panelGroups;
  /// In slots: lengths of panels, and of what belongs to them.
  const int64_t aPanel, aSums, bPanel, bTable;
  /// Of the next panel of B, which a tile prefetches with each group.
  int64_t linesAhead = 0;
  /// The parts of scratch.
  Value sums, packedB, scales, minima, packedA, sumsOfA;

  /// Blocks of rows by column panels [begin, end).
  void blocks(Value begin, Value end) {
    // Without a column there is nothing to pack rows for.
    Value rows = kb.select(kb.less(begin, end), kb.i64(spec.m), kb.i64(0));
    kb.loop(kb.i64(0), rows, plan.packedRows, [&](Value first) {
      Value count =
          kb.min(kb.i64(plan.packedRows), kb.sub(kb.i64(spec.m), first));
      forEachTile(count, [&](Value tile, Value row) {
        packA(tile, kb.add(first, row), kb.sub(count, row));
      });
      kb.loop(begin, end, 1, [&](Value q) {
        Value column = kb.mul(q, width);
        packB(column);
        forEachTile(count, [&](Value tile, Value row) {
          auto [ahead, bytesAhead] = nextOfB(column, tile);
          kb.call(groupedMicroKernel(kb, integerTerms(target), plan.tileRows,
                                     vectors, linesAhead),
                  {panelOfA(tile), sumsOf(tile), packedB, scales, minima,
                   kb.i64(groups), sums, ahead, bytesAhead});
          store(kb.add(first, row), kb.sub(count, row), column);
        });
      });
    });
  }

  /// Those of the first `count` rows of a block, by number and first row.
  void forEachTile(Value count, function_ref<void(Value, Value)> body) {
    kb.loop(kb.i64(0), count, plan.tileRows,
            [&](Value row) { body(kb.div(row, plan.tileRows), row); });
  }

  Value panelOfA(Value tile) { return kb.at(packedA, kb.mul(tile, aPanel)); }
  Value sumsOf(Value tile) { return kb.at(sumsOfA, kb.mul(tile, aSums)); }

  /// What a last tile lacks are copies of its last row.
  void packA(Value tile, Value row, Value rest) {
    Packing packing{Packing::From::I8};
    packing.quads = true;
    Value panel = panelOfA(tile);
    Value rows = kb.min(rest, kb.i64(plan.tileRows));
    kb.call(packTransposed(kb, packing),
            {a.at(kb, aBase, row, kb.i64(0)), kb.i64(a.row), kb.i64(spec.k),
             rows, panel, kb.i64(plan.tileRows)});
    // Where a step is shorter than a group, the last one may not be full: the
    // weights there are 0, but their minimum meets the sum of all its terms.
    int64_t packed =
        llvm::divideCeil(spec.k, kb.lanes * packing.perSlot()) * kb.lanes;
    for (int64_t slot = packed; slot < groupSlots * groups; ++slot)
      kb.store(LLVM::ZeroOp::create(kb.b, kb.loc, kb.vecType),
               kb.at(panel, slot * plan.tileRows));
    kb.call(sumGroups(kb, integerTerms(target), plan.tileRows),
            {panel, kb.i64(groups), sumsOf(tile)});
  }

  /// Where a tile goes on with its share of the bytes of the next panel of B,
  /// and how many it brings with each group: none where others have brought
  /// them all. Behind the last panel it is nothing that anybody reads.
  std::pair<Value, Value> nextOfB(Value column, Value tile) {
    Value from = kb.mul(tile, groups * linesAhead * cacheLine);
    Value some = kb.less(from, kb.i64(width * b.column));
    Value next = b.at(kb, bBase, kb.i64(0), kb.add(column, width));
    return {kb.select(some, kb.at(next, from, b.element), packedB),
            kb.select(some, kb.i64(linesAhead * cacheLine), kb.i64(0))};
  }

  void packB(Value first) {
    Value stride = kb.i64(width);
    for (int64_t v = 0; v < width; v += kb.lanes) {
      Value column = kb.add(first, v), rest = kb.sub(kb.i64(spec.n), column);
      auto pack = [&] {
        Value rows = kb.min(rest, kb.i64(kb.lanes));
        GroupedRows from = groupsAt(column, kb.i64(0));
        kb.call(packGroupQuads(kb),
                {from.bytes, kb.i64(from.byteStride), kb.i64(groups), rows,
                 kb.at(packedB, v), stride});
        for (auto [table, to] :
             {std::pair(from.scale, scales), {from.minimum, minima}})
          kb.call(packTransposed(kb, {Packing::From::BF16}),
                  {table, kb.i64(from.tableStride), kb.i64(groups), rows,
                   kb.at(to, v), stride});
      };
      ifAny(v, rest, pack);
    }
  }

  void store(Value first, Value rest, Value column0) {
    kb.loop(kb.i64(0), kb.min(rest, kb.i64(plan.tileRows)), 1, [&](Value r) {
      Value from = kb.at(sums, kb.mul(r, width));
      for (int64_t v = 0; v < width; v += kb.lanes) {
        Value column = kb.add(column0, v);
        ifAny(v, kb.sub(kb.i64(spec.n), column), [&] {
          storeVector(kb.add(first, r), column, kb.load(kb.at(from, v)));
        });
      }
    });
  }

  /// Of the vector at `v` of a panel: a last panel may be narrower.
  void ifAny(int64_t v, Value rest, function_ref<void()> body) {
    if (v == 0 || spec.n % width == 0)
      body();
    else
      kb.ifThen(kb.less(kb.i64(0), rest), body);
  }
};

} // namespace

Kernel tfm::emitGroupedPanels(OpBuilder &builder, ModuleOp module,
                              StringRef name, const MatmulSpec &spec,
                              const CpuMachine &target,
                              const GroupedPanelsPlan &plan) {
  std::optional<ProductOperands> operands = ProductOperands::of(spec);
  if (!operands)
    return refuseProduct(module, name);
  return GroupedPanelsEmitter(builder, module, spec, *operands, target, plan)
      .emit(name);
}
