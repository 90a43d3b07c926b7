//===- RowsSideBySide.cpp - rows that vectors run across ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/RowsSideBySide.h"

#include "compiler/dialect/TfmDialect.h"
#include "compiler/schedule/Domain.h"
#include "compiler/target/emit/RowReductions.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;
using namespace tfm;
using namespace tfm::sched;

namespace {

/// Blocks that there are at least, so that threads have something to share.
constexpr int64_t fewestBlocks = 64;
/// Columns of a turn, of which sums so far begin anew: the error of a sum of n
/// is that of n / 16 and 16 additions.
constexpr int64_t scannedColumns = 16;
constexpr int64_t columnsSideBySide = 4;

/// Whether an op of a kernel is computed for rows side by side as for columns.
bool goesSideBySide(Operation *op, const Domain &domain) {
  if (auto iota = dyn_cast<IotaOp>(op)) {
    RankedTensorType type = tensorType(iota.getResult());
    return domain.roleOf(type) == Role::Full &&
           type.getShape().back() == domain.cols &&
           static_cast<int64_t>(iota.getAxis()) == type.getRank() - 1;
  }
  return !isa<GatherOp, DropoutOp, UniformOp>(op) && !isPartOfReader(op) &&
         !isColumnReduction(op);
}

/// How many reductions one pass over the columns makes at most.
int64_t mostReductions(LaunchOp launch) {
  llvm::DenseMap<int, int64_t> count;
  int64_t most = 0;
  for (auto [op, pass] : passesOf(*launch.getBlock()))
    if (isRowReduction(op))
      most = std::max(most, ++count[pass]);
  return most;
}

} // namespace

std::optional<SideBySide> tfm::planSideBySide(const Domain &domain,
                                              ArrayRef<Accessed> accessed,
                                              LaunchOp launch,
                                              const CpuMachine &machine) {
  const int64_t lanes = machine.lanes;
  if (domain.cols == 1)
    return std::nullopt;
  bool scans = false;
  if (launch)
    for (Operation &op : *launch.getBlock()) {
      if (!goesSideBySide(&op, domain))
        return std::nullopt;
      scans |= isa<ScanOpInterface>(op);
    }
  SideBySide shape{domain.rows, 4, columnsSideBySide, 4};
  // Whether neighbours of some are in one column, and of some in one row.
  bool areRows = false, areColumns = false;
  for (auto &[view, access] : accessed) {
    if (access == Access::Memory)
      return std::nullopt;
    auto strides = ElementEmitter::stridesOf(domain, view, access);
    if (!strides)
      return std::nullopt;
    shape.run = std::gcd(shape.run, strides->run);
    areRows |= strides->rows == 1 && strides->columns > 1;
    areColumns |= strides->columns == 1 && strides->rows > 1;
  }
  bool pays = areRows && 2 * shape.run > lanes &&
              (!areColumns || 2 * domain.cols > lanes);
  if (!pays && !scans)
    return std::nullopt;
  if (scans)
    shape.columns = scannedColumns;
  // Tiles are as wide as high.
  if (areColumns)
    shape.columns = lanes;

  int64_t reductions = launch ? mostReductions(launch) : 0;
  while (shape.totals > 1 && shape.totals * reductions > machine.registers / 4)
    shape.totals /= 2;
  auto isTooLarge = [&] {
    int64_t rows = shape.rows(lanes);
    return shape.run % rows != 0 || domain.rows / rows < fewestBlocks ||
           shape.vectors * shape.totals * reductions > machine.registers / 2 ||
           (reductions > 0 && 2 * 4 * rows * domain.cols > machine.l2Bytes / 2);
  };
  if (areColumns)
    shape.vectors = 1;
  while (shape.vectors > 1 && isTooLarge())
    shape.vectors /= 2;
  return shape;
}

namespace {

class Emitter {
public:
  Emitter(KernelBuilder &k, const Domain &domain, const SideBySide &shape,
          const ElementEmitter &elements, const RowPlan &plan,
          const KeptValues &kept, const KernelArguments &arguments,
          std::function<Value(ElementEmitter &)> moved)
      : k(k), domain(domain), shape(shape), rows(shape.rows(k.lanes)),
        plan(plan), kept(kept), moved(std::move(moved)),
        elements(shape.vectors, elements),
        scratch(k.pointer(arguments.scratch)) {
    for (ElementEmitter &vector : this->elements)
      vector.putRowsSideBySide();
    for (Operation *op : plan.ops)
      if (auto scan = dyn_cast<ScanOpInterface>(op))
        scans.push_back(scan);
  }

  int64_t blocks() const {
    return domain.rows / shape.run * llvm::divideCeil(shape.run, rows);
  }

  void emitBlock(Value number) {
    int64_t ofRun = llvm::divideCeil(shape.run, rows);
    Value first = k.mul(k.rem(number, k.i64(ofRun)), rows);
    Value row = k.add(k.mul(k.div(number, ofRun), shape.run), first);
    if (shape.run % rows == 0)
      return emitRows(row, Value());
    Value left = k.sub(k.i64(shape.run), first);
    k.ifThen(
        k.less(left, k.i64(rows)), [&] { emitRows(row, k.maskOf(left)); },
        [&] { emitRows(row, Value()); });
  }

private:
  /// Of each running total and reduction, of each scan, by vectors.
  using State = SmallVector<Value>;

  void emitRows(Value row, Value exists) {
    mask = exists;
    for (auto [v, vector] : llvm::enumerate(elements)) {
      vector.beginRow(k.add(row, static_cast<int64_t>(v) * k.lanes));
      vector.beginColumns(k.i64(0), mask, ElementEmitter::anyColumn);
    }
    for (int pass = 0; pass <= plan.lastPass; ++pass) {
      SmallVector<Operation *> reductions;
      bool isBusy = plan.ops.empty();
      for (Operation *op : plan.ops) {
        if (plan.passes.lookup(op) != pass)
          continue;
        if (isRowReduction(op))
          reductions.push_back(op);
        isBusy |= isRowReduction(op) || plan.writesFull(op);
      }
      if (isBusy)
        emitPass(pass, reductions);
    }
    for (ElementEmitter &vector : elements)
      for (Operation *op : plan.ops)
        if (plan.writesScalar(op))
          vector.storeScalar(plan.numberOf(op),
                             vector.scalar(op->getResult(0)));
  }

  void emitPass(int pass, ArrayRef<Operation *> reductions) {
    State state;
    for (size_t i = 0; i < elements.size(); ++i) {
      for (int64_t total = 0; total < shape.totals; ++total)
        for (Operation *op : reductions)
          state.push_back(k.splat(neutralOf(op)));
      state.append(scans.size(), k.splat(0.0));
    }
    // Sums from the end walk there first; what is left is done last.
    bool isReverse = llvm::any_of(
        scans, [](ScanOpInterface scan) { return scan.getReverse(); });
    int64_t looped = domain.cols / shape.columns * shape.columns;
    int64_t left = domain.cols - looped;
    if (looped > 0) {
      auto loop = scf::ForOp::create(k.b, k.loc, k.i64(0), k.i64(looped),
                                     k.i64(shape.columns), state);
      OpBuilder::InsertionGuard guard(k.b);
      k.b.setInsertionPointToStart(loop.getBody());
      Value column = loop.getInductionVar();
      if (isReverse)
        column = k.sub(k.i64(domain.cols - shape.columns), column);
      State next(loop.getRegionIterArgs());
      emitColumns(pass, reductions, column, shape.columns, isReverse, loop,
                  next);
      if (state.empty())
        k.b.setInsertionPointToEnd(loop.getBody());
      else
        scf::YieldOp::create(k.b, k.loc, next);
      state.assign(loop.getResults().begin(), loop.getResults().end());
      for (ElementEmitter &vector : elements)
        vector.endColumns();
    }
    if (left > 0)
      emitColumns(pass, reductions, k.i64(isReverse ? 0 : looped), left,
                  isReverse, /*loop=*/nullptr, state);
    for (auto [v, vector] : llvm::enumerate(elements))
      for (auto [i, op] : llvm::enumerate(reductions)) {
        Value all;
        for (int64_t total = 0; total < shape.totals; ++total) {
          Value part =
              state[v * width(reductions) + total * reductions.size() + i];
          all = all ? combine(k, op, all, part) : part;
        }
        vector.provideScalar(op->getResult(0), all);
      }
  }

  /// Of a vector of rows.
  size_t width(ArrayRef<Operation *> reductions) const {
    return shape.totals * reductions.size() + scans.size();
  }

  void emitColumns(int pass, ArrayRef<Operation *> reductions, Value first,
                   int64_t count, bool isReverse, Operation *loop,
                   State &state) {
    for (auto [v, vector] : llvm::enumerate(elements)) {
      auto own = MutableArrayRef(state).slice(v * width(reductions),
                                              width(reductions));
      auto sums = own.take_back(scans.size());
      SmallVector<Value> sinceFirst(scans.size());
      vector.beginTile(first, count);
      for (int64_t i = 0; i < count; ++i) {
        int64_t number = isReverse ? count - 1 - i : i;
        vector.beginColumn(number, mask, loop);
        auto keptAt = [&](Value of) {
          Value at = k.mul(k.add(first, number), rows);
          return k.at(of, k.add(at, static_cast<int64_t>(v) * k.lanes));
        };
        kept.forEach(k, scratch, pass, /*isFirst=*/false,
                     [&](Value value, Value of) {
                       vector.provide(value, k.load(keptAt(of)));
                     });
        for (auto [s, scan] : llvm::enumerate(scans)) {
          Value x = vector.full(scan.getX());
          if (Value decay = scan.getDecay()) {
            decay = vector.full(decay);
            Value sum = scan.getReverse() ? k.addf(sums[s], x)
                                          : k.fma(decay, sums[s], x);
            sums[s] = scan.getReverse() ? k.mulf(decay, sum) : sum;
            vector.provide(scan.getY(), sum);
            continue;
          }
          sinceFirst[s] = i ? k.addf(sinceFirst[s], x) : x;
          vector.provide(scan.getY(), k.addf(sums[s], sinceFirst[s]));
        }
        emitVector(
            vector, pass, reductions,
            own.slice(i % shape.totals * reductions.size(), reductions.size()));
        kept.forEach(k, scratch, pass, /*isFirst=*/true,
                     [&](Value value, Value of) {
                       k.store(vector.full(value), keptAt(of));
                     });
      }
      for (auto [sum, more] : llvm::zip_equal(sums, sinceFirst))
        if (more)
          sum = k.addf(sum, more);
      vector.endTile();
    }
  }

  void emitVector(ElementEmitter &vector, int pass,
                  ArrayRef<Operation *> reductions,
                  MutableArrayRef<Value> totals) {
    for (auto [op, total] : llvm::zip_equal(reductions, totals))
      total = combine(k, op, total, vector.full(op->getOperand(0)));
    if (plan.ops.empty())
      return vector.store(0, moved(vector));
    // All loads come before the stores: a write may lie over a read.
    SmallVector<std::pair<unsigned, Value>> stores;
    for (Operation *op : plan.ops)
      if (plan.passes.lookup(op) == pass && plan.writesFull(op))
        stores.push_back({plan.numberOf(op), vector.full(op->getResult(0))});
    for (auto &[index, value] : stores)
      vector.store(index, value);
  }

  KernelBuilder &k;
  const Domain domain;
  const SideBySide shape;
  /// Of a block.
  const int64_t rows;
  const RowPlan &plan;
  const KeptValues &kept;
  std::function<Value(ElementEmitter &)> moved;
  /// Of each vector of a block.
  std::vector<ElementEmitter> elements;
  SmallVector<ScanOpInterface> scans;
  Value scratch, mask;
};

} // namespace

void tfm::emitSideBySide(KernelBuilder &k, const Domain &domain,
                         const SideBySide &shape,
                         const ElementEmitter &elements, const RowPlan &plan,
                         const KeptValues &kept,
                         const KernelArguments &arguments, bool isSerial,
                         std::function<Value(ElementEmitter &)> moved) {
  Emitter emitter(k, domain, shape, elements, plan, kept, arguments,
                  std::move(moved));
  Value thread = k.toI64(arguments.thread),
        threads = k.toI64(arguments.threads);
  Value blocks = k.i64(emitter.blocks());
  auto emit = [&](Value from, Value to) {
    k.loop(from, to, 1, [&](Value block) { emitter.emitBlock(block); });
  };
  if (isSerial)
    return k.ifThen(k.equal(thread, k.i64(0)), [&] { emit(k.i64(0), blocks); });
  auto [from, to] = k.share(blocks, thread, threads);
  emit(from, to);
}
