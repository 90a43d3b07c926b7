//===- FewRows.cpp - matrix products of few rows --------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/FewRows.h"
#include "compiler/target/cpu/CpuMachine.h"
#include "compiler/target/cpu/ProductKernel.h"
#include "compiler/target/cpu/StreamedRows.h"
#include "compiler/target/cpu/Terms.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>

using namespace mlir;
using namespace tfm;

std::optional<FewRowsPlan> tfm::planFewRows(const MatmulSpec &spec,
                                            const CpuMachine &target) {
  std::optional<ProductOperands> operands = ProductOperands::of(spec);
  if (!operands || operands->a.column != 1 || spec.isGrouped() || spec.inPanels)
    return std::nullopt;
  Type a = operands->a.element, b = operands->b.element;
  // With more rows tiles are full, and it pays to pack B for them; sooner of
  // integers, whose panels are read four times as fast.
  if (spec.m > (a.isInteger(8) ? 1 : 2) * target.tileRows())
    return std::nullopt;
  auto isFloat = [](Type type) { return type.isF32() || type.isBF16(); };
  bool areQuads = a.isInteger(8) && target.multipliesIntegers() &&
                  operands->b.row == 1 && operands->b.column != 1;
  // An f32 B beside a bf16 A would have to be rounded where it is read.
  if (!areQuads && (!isFloat(a) || !(isFloat(b) || b.isInteger(8)) ||
                    (a.isBF16() && b.isF32())))
    return std::nullopt;
  FewRowsPlan plan;
  plan.alongK = operands->b.column != 1;
  bool arePairs = target.bf16Pairs && b.isBF16();
  plan.termsOfA = areQuads || arePairs ? b : Float32Type::get(b.getContext());
  // Behind an odd last term a pair has a zero.
  plan.packA = arePairs ? !a.isBF16() || spec.k % 2 != 0 : spec.isBf16();
  // As far ahead B is prefetched: eight of its rows, or of narrow elements more
  // where those take no more than 32 kB.
  int64_t bits = b.getIntOrFloatBitWidth();
  plan.depth = operands->b.row * bits <= 2048 * 8 ? 8 * 32 / bits : int64_t{8};
  // A page of f32, or less where the sums of all rows would fill the cache.
  plan.block = std::min<int64_t>(1024, 32 * 256 / spec.m) / target.lanes;
  // Twelve vectors of sums of 32 registers: more strips would not fit beside B.
  plan.together = target.foreseesRows && spec.m == 1 && !plan.alongK &&
                          plan.termsOfA.isF32() && b.isF32()
                      ? 3
                      : 0;
  plan.serial = spec.isTooSmallToShare();
  return plan;
}

namespace {

class FewRowsEmitter : ProductKernel {
public:
  FewRowsEmitter(OpBuilder &builder, ModuleOp module, const MatmulSpec &spec,
                 const ProductOperands &operands, const CpuMachine &target,
                 const FewRowsPlan &plan)
      : ProductKernel(builder, module, spec, operands, target), plan(plan),
        target(target), terms{plan.termsOfA, b.element, integerTerms(target)},
        strip((plan.alongK ? 1 : sumTile(target, spec.m, terms).vectors) *
              kb.lanes),
        strips(llvm::divideCeil(spec.n, strip)) {}

  Kernel emit(StringRef name) {
    aWidth = llvm::alignTo(spec.k, terms.perVector(kb));
    // Sums in lanes, or rows of C on their way.
    blockWidth = std::min<int64_t>(llvm::alignTo(plan.block * kb.lanes, strip),
                                   strips * strip);
    int64_t sumsLength =
        spec.m * (plan.alongK ? kb.lanes * kb.lanes : blockWidth);
    int64_t rest = plan.packA          ? spec.m * aWidth / terms.perSlot()
                   : terms.areOffset() ? spec.m
                                       : 0;
    int64_t scratchBytes = (sumsLength + rest) * int64_t{sizeof(float)};
    OpBuilder::InsertionGuard guard(kb.b);
    sums = begin(name, scratchBytes);
    packedA = kb.at(sums, sumsLength);
    shareStrips(plan.serial, strips, [&](Value begin, Value end) {
      readA();
      if (plan.alongK)
        kb.loop(begin, end, 1, [&](Value s) { dotStrip(s); });
      else
        addStrips(addTogether(begin, end), end);
    });
    return {kernel, scratchBytes};
  }

private:
  const FewRowsPlan &plan;
  const CpuMachine &target;
  const StreamedTerms terms;
  /// Columns of C that are computed together, and how many such strips it has.
  const int64_t strip, strips;
  int64_t aWidth = 0, blockWidth = 0;
  Value sums, packedA;
  /// A as terms want it, at the current batch.
  Value aRows, aStride;

  /// Where A is not read where it lies it is copied, rounded.
  void readA() {
    aRows = aBase;
    aStride = kb.i64(a.row);
    if (terms.areOffset())
      kb.loop(kb.i64(0), kb.i64(spec.m), 1, [&](Value row) {
        Value offset =
            offsetOfRow(kb, a.at(kb, aBase, row, kb.i64(0)), kb.i64(spec.k));
        kb.storeScalar(offset, kb.at(offsets(), row));
      });
    if (!plan.packA)
      return;
    aRows = packedA;
    aStride = kb.i64(aWidth);
    kb.loop(kb.i64(0), kb.i64(spec.m), 1, [&](Value row) {
      kb.loop(kb.i64(0), kb.i64(spec.k), kb.lanes, [&](Value i) {
        Value mask;
        if (spec.k % kb.lanes != 0)
          mask = kb.maskOf(kb.sub(kb.i64(spec.k), i));
        Value x = kb.load(a.at(kb, aBase, row, i), mask, a.element);
        kb.store(terms.arePairs() ? x : kb.toF32(kb.toBf16(x)),
                 kb.at(packedA, kb.add(kb.mul(row, aWidth), i), terms.a),
                 Value(), terms.a);
      });
    });
  }

  /// What is to be taken off the sums of each row of quads.
  Value offsets() const { return packedA; }

  /// A strip of dot products.
  void dotStrip(Value s) {
    Value column = kb.mul(s, strip), count = kb.i64(strip);
    if (spec.n % strip != 0)
      count = kb.min(count, kb.sub(kb.i64(spec.n), column));
    dotProducts(kb, target, terms, spec.m, aRows, aStride,
                b.at(kb, bBase, kb.i64(0), column), b.column, count, spec.k,
                sums);
    kb.loop(kb.i64(0), kb.i64(spec.m), 1, [&](Value row) {
      Value lanes = kb.at(sums, kb.mul(row, kb.lanes * kb.lanes));
      Value vector = addLanes(kb, terms, lanes);
      if (terms.areOffset())
        vector = kb.sub(vector, kb.splatInteger(kb.at(offsets(), row)));
      storeVector(row, column, vector);
    });
  }

  /// Of strips [begin, end) as many as `together` divides; where the others
  /// begin.
  Value addTogether(Value begin, Value end) {
    int64_t columns = plan.together * strip, whole = spec.n / strip;
    if (plan.together == 0 || columns > blockWidth)
      return begin;
    Value turns =
        kb.div(kb.sub(kb.min(end, kb.i64(whole)), kb.min(begin, kb.i64(whole))),
               plan.together);
    SumTile tile{1, columns / kb.lanes, Prefetching::none()};
    Value no = kb.less(kb.i64(0), kb.i64(0)), k = kb.i64(spec.k);
    auto rest = [&](Value turns) {
      return kb.add(begin, kb.mul(turns, plan.together));
    };
    kb.loop(kb.i64(0), turns, 1, [&](Value turn) {
      Value column = kb.mul(rest(turn), strip);
      kb.call(addRows(kb, tile, terms, /*masked=*/false),
              {aRows, aStride, b.at(kb, bBase, kb.i64(0), column),
               kb.i64(b.row), sums, kb.i64(blockWidth), k, no,
               /*ahead=*/kb.i64(0)});
      for (int64_t j = 0; j < columns; j += kb.lanes)
        storeVector(kb.i64(0), kb.add(column, j), kb.load(kb.at(sums, j)));
    });
    return rest(turns);
  }

  /// Strips [begin, end), in blocks as equal as possible whose sums stay in the
  /// cache while all of k goes by.
  void addStrips(Value begin, Value end) {
    Value count = kb.sub(end, begin);
    int64_t most = blockWidth / strip;
    Value blocks = kb.div(kb.add(count, most - 1), most);
    kb.loop(kb.i64(0), blocks, 1, [&](Value block) {
      auto [from, to] = kb.share(count, block, blocks);
      from = kb.add(begin, from);
      to = kb.add(begin, to);
      kb.loop(kb.i64(0), kb.i64(spec.k), plan.depth, [&](Value k0) {
        kb.loop(from, to, 1, [&](Value s) { addStrip(s, from, k0); });
      });
      Value column = kb.mul(from, strip);
      Value columns = kb.sub(kb.min(kb.mul(to, strip), kb.i64(spec.n)), column);
      kb.loop(kb.i64(0), kb.i64(spec.m), 1, [&](Value row) {
        Value y = kb.at(sums, kb.mul(row, blockWidth));
        kb.loop(kb.i64(0), columns, kb.lanes, [&](Value j) {
          storeVector(row, kb.add(column, j), kb.load(kb.at(y, j)));
        });
      });
    });
  }

  /// Adds `depth` rows of B, or as many as there are, to strip `s` of a block
  /// that begins with strip `first`.
  void addStrip(Value s, Value first, Value k0) {
    Value depth = kb.i64(plan.depth);
    if (spec.k % plan.depth != 0)
      depth = kb.min(depth, kb.sub(kb.i64(spec.k), k0));
    Value column = kb.mul(s, strip);
    Value y = kb.at(sums, kb.mul(kb.sub(s, first), strip));
    Value from = b.at(kb, bBase, k0, column);
    Value goesOn = kb.less(kb.i64(0), k0);
    auto call = [&](int64_t columns) {
      addProducts(kb, target, terms, spec.m, kb.at(aRows, k0, terms.a), aStride,
                  from, b.row, y, blockWidth, columns, depth, goesOn,
                  /*ahead=*/kb.i64(plan.depth * b.row));
    };
    int64_t last = spec.n - (strips - 1) * strip;
    if (last == strip)
      return call(strip);
    kb.ifThen(
        kb.equal(s, kb.i64(strips - 1)), [&] { call(last); },
        [&] { call(strip); });
  }
};

} // namespace

Kernel tfm::emitFewRows(OpBuilder &builder, ModuleOp module, StringRef name,
                        const MatmulSpec &spec, const CpuMachine &target,
                        const FewRowsPlan &plan) {
  std::optional<ProductOperands> operands = ProductOperands::of(spec);
  if (!operands)
    return refuseProduct(module, name);
  return FewRowsEmitter(builder, module, spec, *operands, target, plan)
      .emit(name);
}
