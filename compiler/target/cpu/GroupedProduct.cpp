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
  if ((!plan.integers && !a.isF32()) || spec.m > 2 * target.tileRows())
    return std::nullopt;
  // A vector of sums for each of `lanes` columns: a kilobyte with AVX-512.
  constexpr int64_t mostRows = 20;
  plan.sumRows =
      plan.integers
          ? llvm::divideCeil(spec.m, llvm::divideCeil(spec.m, mostRows))
          : spec.m;
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
        sumBytes + (plan.integers ? spec.m * packedBytes(spec.k) : 0);
    OpBuilder::InsertionGuard guard(kb.b);
    sums = begin(name, scratchBytes);
    Type byte = kb.b.getI8Type();
    packed.packed = kb.at(sums, sumBytes, byte);
    packed.sums = kb.at(packed.packed, spec.m * rowBytes, byte);
    shareStrips(plan.serial, strips, [&](Value begin, Value end) {
      // Without a strip there is nothing to pack rows for.
      if (plan.integers)
        kb.ifThen(kb.less(begin, end), [&] { pack(); });
      kb.loop(begin, end, 1, [&](Value strip) {
        for (int64_t row = 0; row < spec.m; row += plan.sumRows)
          multiply(strip, row, std::min(plan.sumRows, spec.m - row));
      });
    });
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

  GroupedIntegers packedAt(Value row) {
    return {kb.at(packed.packed, kb.mul(row, rowBytes), kb.b.getI8Type()),
            kb.at(packed.sums, kb.mul(row, rowSums))};
  }

  void pack() {
    kb.loop(kb.i64(0), kb.i64(spec.m), 1, [&](Value row) {
      packIntegers(kb, target, a.at(kb, aBase, row, kb.i64(0)), spec.k,
                   packedAt(row));
    });
  }

  /// `rows` rows of A from `first` on.
  void multiply(Value strip, int64_t first, int64_t rows) {
    Value column = kb.mul(strip, kb.lanes), count = kb.i64(kb.lanes);
    if (spec.n % kb.lanes != 0)
      count = kb.min(count, kb.sub(kb.i64(spec.n), column));
    GroupedRows weights = groupsAt(column, kb.i64(0));
    if (plan.integers)
      groupedProducts(kb, target, rows, packedAt(kb.i64(first)), weights, count,
                      spec.k, sums);
    else
      groupedProducts(kb, target, rows,
                      a.at(kb, aBase, kb.i64(first), kb.i64(0)), a.row, weights,
                      count, spec.k, sums);
    kb.loop(kb.i64(0), kb.i64(rows), 1, [&](Value number) {
      Value lanes = kb.at(sums, kb.mul(number, kb.lanes * kb.lanes));
      storeVector(kb.add(number, first), column,
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
