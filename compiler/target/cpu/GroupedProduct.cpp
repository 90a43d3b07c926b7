//===- GroupedProduct.cpp - products with weights of 4 bits ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/GroupedProduct.h"
#include "compiler/target/cpu/CpuMachine.h"
#include "compiler/target/cpu/ProductKernel.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>

using namespace mlir;
using namespace tfm;

static int64_t packedBytes(int64_t k) {
  return GroupedIntegers::rowBytes(k) +
         GroupedIntegers::rowSums(k) * int64_t{sizeof(float)};
}

std::optional<GroupedPlan> tfm::planGrouped(const MatmulSpec &spec,
                                            const CpuMachine &target) {
  std::optional<ProductOperands> operands = ProductOperands::of(spec);
  if (!operands || !spec.isGrouped() || operands->a.column != 1)
    return std::nullopt;
  Type a = operands->a.element;
  GroupedPlan plan;
  plan.integers = a.isInteger(8) && target.multipliesIntegers();
  if (!plan.integers && (!a.isF32() || spec.m > 2 * target.tileRows()))
    return std::nullopt;
  // A vector of sums for each of `lanes` columns: a kilobyte with AVX-512.
  constexpr int64_t mostRows = 20;
  auto inBlocks = [&](int64_t rows, int64_t most) {
    return static_cast<int64_t>(
        llvm::divideCeil(rows, llvm::divideCeil(rows, most)));
  };
  plan.sumRows = plan.integers ? inBlocks(spec.m, mostRows) : spec.m;
  int64_t room = target.l2Bytes / 2 / packedBytes(spec.k);
  plan.packedRows = plan.sumRows *
                    std::clamp<int64_t>(room / plan.sumRows, 1,
                                        llvm::divideCeil(spec.m, plan.sumRows));
  plan.serial = spec.isTooSmallToShare();
  return plan;
}

namespace {

class GroupedEmitter : ProductKernel {
public:
  GroupedEmitter(OpBuilder &builder, ModuleOp module, const MatmulSpec &spec,
                 const ProductOperands &operands, const CpuMachine &target,
                 const GroupedPlan &plan)
      : ProductKernel(builder, module, spec, operands, target), plan(plan),
        target(target), strips(llvm::divideCeil(spec.n, kb.lanes)),
        rowBytes(GroupedIntegers::rowBytes(spec.k)),
        rowSums(GroupedIntegers::rowSums(spec.k)) {}

  Kernel emit(StringRef name) {
    int64_t sumBytes =
        plan.sumRows * kb.lanes * kb.lanes * int64_t{sizeof(float)};
    int64_t scratchBytes =
        sumBytes + (plan.integers ? plan.packedRows * packedBytes(spec.k) : 0);
    OpBuilder::InsertionGuard guard(kb.b);
    sums = begin(name, scratchBytes);
    Type byte = kb.b.getI8Type();
    packed.packed = kb.at(sums, sumBytes, byte);
    packed.sums = kb.at(packed.packed, plan.packedRows * rowBytes, byte);
    shareStrips(plan.serial, strips,
                [&](Value begin, Value end) { blocks(begin, end); });
    return {kernel, scratchBytes};
  }

private:
  const GroupedPlan &plan;
  const CpuMachine &target;
  /// Strips of `lanes` columns of C.
  const int64_t strips;
  const int64_t rowBytes, rowSums;
  Value sums;
  GroupedIntegers packed;

  /// Blocks of rows by strips [begin, end).
  void blocks(Value begin, Value end) {
    // Without a strip there is nothing to pack rows for.
    Value rows = kb.select(kb.less(begin, end), kb.i64(spec.m), kb.i64(0));
    kb.loop(kb.i64(0), rows, plan.packedRows, [&](Value first) {
      Value count =
          kb.min(kb.i64(plan.packedRows), kb.sub(kb.i64(spec.m), first));
      if (plan.integers)
        pack(first, count);
      int64_t rest = spec.m % plan.sumRows;
      Value whole = kb.sub(count, kb.rem(count, kb.i64(plan.sumRows)));
      kb.loop(begin, end, 1, [&](Value strip) {
        kb.loop(kb.i64(0), whole, plan.sumRows,
                [&](Value row) { multiply(strip, first, row, plan.sumRows); });
        if (rest > 0)
          kb.ifThen(kb.less(whole, count),
                    [&] { multiply(strip, first, whole, rest); });
      });
    });
  }

  GroupedIntegers packedAt(Value row) {
    return {kb.at(packed.packed, kb.mul(row, rowBytes), kb.b.getI8Type()),
            kb.at(packed.sums, kb.mul(row, rowSums))};
  }

  void pack(Value first, Value count) {
    kb.loop(kb.i64(0), count, 1, [&](Value row) {
      packIntegers(kb, target, a.at(kb, aBase, kb.add(first, row), kb.i64(0)),
                   spec.k, packedAt(row));
    });
  }

  /// `rows` rows from `row` of the block that begins with row `first` on.
  void multiply(Value strip, Value first, Value row, int64_t rows) {
    Value column = kb.mul(strip, kb.lanes), count = kb.i64(kb.lanes);
    if (spec.n % kb.lanes != 0)
      count = kb.min(count, kb.sub(kb.i64(spec.n), column));
    first = kb.add(first, row);
    GroupedRows weights = groupsAt(column, kb.i64(0));
    if (plan.integers)
      groupedProducts(kb, target, rows, packedAt(row), weights, count, spec.k,
                      sums);
    else
      groupedProducts(kb, target, rows, a.at(kb, aBase, first, kb.i64(0)),
                      a.row, weights, count, spec.k, sums);
    kb.loop(kb.i64(0), kb.i64(rows), 1, [&](Value number) {
      Value lanes = kb.at(sums, kb.mul(number, kb.lanes * kb.lanes));
      storeVector(kb.add(first, number), column,
                  addLanes(kb, {kb.f32Type, kb.f32Type}, lanes));
    });
  }
};

} // namespace

Kernel tfm::emitGrouped(OpBuilder &builder, ModuleOp module, StringRef name,
                        const MatmulSpec &spec, const CpuMachine &target,
                        const GroupedPlan &plan) {
  std::optional<ProductOperands> operands = ProductOperands::of(spec);
  if (!operands)
    return refuseProduct(module, name);
  return GroupedEmitter(builder, module, spec, *operands, target, plan)
      .emit(name);
}
