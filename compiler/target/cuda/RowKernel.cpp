//===- RowKernel.cpp - kernels over rows, on blocks of threads ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cuda/RowKernel.h"

#include "compiler/dialect/TfmDialect.h"
#include "compiler/schedule/Launches.h"
#include "compiler/target/cuda/BlockBuilder.h"
#include "compiler/target/cuda/Gpu.h"
#include "compiler/target/emit/ElementEmitter.h"
#include "compiler/target/emit/RowPlan.h"
#include "compiler/target/emit/RowReductions.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"
#include <functional>

using namespace mlir;
using namespace tfm;
using namespace tfm::cuda;
using namespace tfm::sched;

namespace {

/// Threads of a block where nothing else decides.
constexpr int64_t blockThreads = 256;
/// A thread keeps what it has of a row in registers up to so many columns.
constexpr int64_t keptColumns = 16;
/// Rows of up to this many columns have a warp each, so that nothing waits for
/// a block.
constexpr int64_t warpColumns = keptColumns * warpSize;

int64_t blocksFor(int64_t things, int64_t each) {
  return static_cast<int64_t>(llvm::divideCeil(things, each));
}

/// What a launch computes, and by which blocks.
struct Plan : RowPlan {
  explicit Plan(LaunchOp launch) : RowPlan(launch), domain(launch.getDomain()) {
    // A row's scalar may be written where the row's other threads read one.
    byRows = llvm::any_of(ops, [&](Operation *op) {
      return isRowReduction(op) || (domain.cols > 1 && writesScalar(op));
    });
  }

  Domain domain;
  /// Whether the threads of a row have to know of each other.
  bool byRows;

  /// By rows: threads that share one, and in how many turns they walk over it.
  int64_t rowThreads() const {
    if (columnReductions.empty() && domain.cols <= warpColumns)
      return warpSize;
    return std::clamp<int64_t>(llvm::alignTo(blocksFor(domain.cols, 4), 32), 64,
                               maxBlock);
  }
  int64_t turns() const { return blocksFor(domain.cols, rowThreads()); }
  bool keepsRow() const { return turns() <= keptColumns; }

  /// No more chunks than these come to a multiprocessor, for which ptxas need
  /// not save registers; and each thread may have many.
  int64_t chunksAtOnce() const {
    constexpr int64_t many = 128;
    return std::clamp<int64_t>(a100.residentBlocks(rowThreads(), many, 0), 1,
                               blocksFor(chunks, a100.multiprocessors));
  }

  /// By columns: blocks that a row has.
  int64_t columnBlocks() const { return blocksFor(domain.cols, blockThreads); }

  Grid grid() const {
    if (byRows) {
      if (!columnReductions.empty())
        return {{chunks, 1, 1}, rowThreads(), chunksAtOnce()};
      if (rowThreads() > warpSize)
        return {{domain.rows, 1, 1}, rowThreads()};
      int64_t rows = blockThreads / warpSize;
      return {{blocksFor(domain.rows, rows), 1, 1}, blockThreads};
    }
    if (!columnReductions.empty())
      return {{chunks * columnBlocks(), 1, 1}, blockThreads};
    return {{blocksFor(domain.rows * domain.cols, blockThreads), 1, 1},
            blockThreads};
  }
};

class RowKernel {
public:
  RowKernel(ModuleOp module, StringRef name, LaunchOp launch)
      : plan(launch),
        block(module, name, launch,
              launch.getReads().size() + launch.getWrites().size(),
              plan.grid()),
        k(block.k), elements(k, launch, block.pointers, block.arguments) {}

  void emit() {
    if (plan.byRows)
      emitRows();
    else if (!plan.columnReductions.empty())
      emitColumns();
    else
      emitPoints();
  }

private:
  /// A thread's point, and one column.
  void emitPoints() {
    const Domain &domain = plan.domain;
    Value point = block.everyThread();
    auto compute = [&] {
      Value column = k.rem(point, k.i64(domain.cols));
      elements.beginRow(k.div(point, domain.cols));
      elements.beginColumns(column, Value(), ElementEmitter::kAnyColumn);
      storeFull();
      storeScalars(Value());
    };
    int64_t points = domain.rows * domain.cols;
    if (points % blockThreads == 0)
      compute();
    else
      k.ifThen(k.less(point, k.i64(points)), compute);
  }

  using Stores = SmallVector<std::pair<unsigned, Value>>;

  /// What is written at the current point, of the ops that are `now` computed.
  /// All loads come before the stores: a write may lie over a read.
  Stores computeFull(llvm::function_ref<bool(Operation *)> now) {
    Stores stores;
    for (Operation *op : plan.ops)
      if (now(op) && plan.writesFull(op))
        stores.push_back({plan.numberOf(op), elements.full(op->getResult(0))});
    return stores;
  }
  void store(const Stores &stores) {
    for (auto &[index, value] : stores)
      elements.store(index, value);
  }
  void storeFull() {
    store(computeFull([](Operation *) { return true; }));
  }

  bool writesScalars() const {
    return llvm::any_of(plan.ops,
                        [&](Operation *op) { return plan.writesScalar(op); });
  }

  /// Stores the row's scalars, where `isOwn` (null: always) holds: the last
  /// that is done in a row.
  void storeScalars(Value isOwn) {
    auto store = [&] {
      SmallVector<std::pair<unsigned, Value>> stores;
      for (Operation *op : plan.ops)
        if (plan.writesScalar(op))
          stores.push_back(
              {plan.numberOf(op), elements.scalar(op->getResult(0))});
      for (auto &[index, value] : stores)
        elements.storeScalar(index, value);
    };
    if (!writesScalars())
      return;
    if (isOwn)
      k.ifThen(isOwn, store);
    else
      store();
  }

  std::pair<Value, Value> rowsOf(Value chunk) {
    return {k.div(k.mul(chunk, plan.domain.rows), plan.chunks),
            k.div(k.mul(k.add(chunk, 1), plan.domain.rows), plan.chunks)};
  }

  void storeSum(Operation *op, Value chunk, Value column, Value sum,
                Value mask) {
    Value at = k.at(elements.writePointer(plan.numberOf(op)),
                    k.add(k.mul(chunk, plan.domain.cols), column));
    auto store = [&] { k.storeScalar(sum, at); };
    if (mask)
      k.ifThen(mask, store);
    else
      store();
  }

  /// Adds to a sum over columns in its place.
  void addToSum(Operation *op, Value column, Value x, Value mask) {
    auto add = [&] {
      Value at = k.at(elements.writePointer(plan.numberOf(op)),
                      k.add(k.mul(chunk, plan.domain.cols), column));
      k.storeScalar(combine(k, op, k.loadScalar(at), x), at);
    };
    if (mask)
      k.ifThen(mask, add);
    else
      add();
  }

  /// A column, which is within the row; the mask says whether it is the
  /// thread's own, null: it is.
  std::pair<Value, Value> within(Value column, bool isWhole) {
    int64_t cols = plan.domain.cols;
    if (isWhole)
      return {column, Value()};
    return {k.min(column, k.i64(cols - 1)), k.less(column, k.i64(cols))};
  }

  /// A thread's column of the rows of a chunk.
  void emitColumns() {
    int64_t cols = plan.domain.cols;
    int64_t blocks = plan.columnBlocks();
    Value chunk = plan.chunks == 1 ? k.i64(0) : k.div(block.block(), blocks);
    Value first =
        k.mul(k.sub(block.block(), k.mul(chunk, blocks)), blockThreads);
    auto [column, mask] =
        within(k.add(first, block.thread()), cols % blockThreads == 0);
    SmallVector<Value> sums;
    for (Operation *op : plan.columnReductions)
      sums.push_back(k.splat(neutralOf(op)));
    auto [from, to] = rowsOf(chunk);
    sums = k.loop(from, to, 1, sums, [&](Value row, ValueRange before) {
      elements.beginRow(row);
      elements.beginColumns(column, mask, ElementEmitter::kAnyColumn);
      SmallVector<Value> next;
      for (auto [op, sum] : llvm::zip_equal(plan.columnReductions, before))
        next.push_back(combine(k, op, sum, elements.full(op->getOperand(0))));
      storeFull();
      storeScalars(mask);
      return next;
    });
    for (auto [op, sum] : llvm::zip_equal(plan.columnReductions, sums))
      storeSum(op, chunk, column, sum, mask);
  }

  /// Rows that have a warp each, or a block.
  void emitRows() {
    if (plan.columnReductions.empty()) {
      if (plan.rowThreads() > warpSize) {
        own = block.thread();
        emitRow(block.block());
        return;
      }
      own = block.lane();
      int64_t rows = plan.grid().threads / warpSize;
      Value row = k.add(k.mul(block.block(), rows), block.warp());
      if (plan.domain.rows % rows == 0)
        emitRow(row);
      else
        k.ifThen(k.less(row, k.i64(plan.domain.rows)), [&] { emitRow(row); });
      return;
    }
    own = block.thread();
    chunk = plan.chunks == 1 ? k.i64(0) : block.block();
    // The sums of this thread's columns: in registers, or in their place.
    for (Operation *op : plan.columnReductions)
      if (plan.keepsRow())
        sums.append(plan.turns(), k.splat(neutralOf(op)));
      else
        forEachTurn([&](Value column, Value mask) {
          storeSum(op, chunk, column, k.splat(neutralOf(op)), mask);
        });
    auto [first, last] = rowsOf(chunk);
    SmallVector<Value> none = sums;
    sums = k.loop(first, last, 1, none, [&](Value row, ValueRange before) {
      sums.assign(before.begin(), before.end());
      emitRow(row);
      // Before what the threads tell each other is written over.
      block.barrier();
      return sums;
    });
    if (!plan.keepsRow())
      return;
    for (auto [i, op] : llvm::enumerate(plan.columnReductions))
      for (int64_t turn = 0; turn != plan.turns(); ++turn) {
        auto [column, mask] = columnOf(turn);
        storeSum(op, chunk, column, sums[i * plan.turns() + turn], mask);
      }
  }

  /// This thread's column in a turn whose number is known.
  std::pair<Value, Value> columnOf(int64_t turn) {
    int64_t threads = plan.rowThreads();
    return within(k.add(own, turn * threads),
                  (turn + 1) * threads <= plan.domain.cols);
  }

  /// Calls `body(column, mask)` for all columns of this thread, in a loop.
  void forEachTurn(llvm::function_ref<void(Value, Value)> body) {
    int64_t threads = plan.rowThreads(), whole = plan.domain.cols / threads;
    k.loop(k.i64(0), k.i64(whole * threads), threads,
           [&](Value first) { body(k.add(first, own), Value()); });
    if (whole < plan.turns()) {
      auto [column, mask] = columnOf(whole);
      body(column, mask);
    }
  }

  void emitRow(Value row) {
    elements.beginRow(row);
    for (int pass = 0; pass <= plan.lastPass; ++pass) {
      SmallVector<Operation *> reductions;
      bool busy = false;
      for (Operation *op : plan.ops) {
        if (plan.passes[op] != pass)
          continue;
        if (isRowReduction(op))
          reductions.push_back(op);
        busy |=
            isColumnReduction(op) || isRowReduction(op) || plan.writesFull(op);
      }
      if (busy)
        emitPass(pass, reductions);
    }
    if (!writesScalars())
      return;
    // A scalar may lie over one that the others have read.
    if (plan.rowThreads() == warpSize)
      block.warpBarrier();
    else
      block.barrier();
    storeScalars(k.equal(own, k.i64(0)));
  }

  using Values = SmallVector<Value>;

  /// What one pass does at one column, but for the stores; returns the sums
  /// with it.
  Values emitColumn(int pass, ArrayRef<Operation *> reductions,
                    ValueRange before, Value column, Value mask, int64_t turn,
                    Stores &stores) {
    Values totals;
    for (auto [op, sum] : llvm::zip_equal(reductions, before))
      totals.push_back(combine(
          k, op, sum,
          elements.masked(elements.full(op->getOperand(0)), neutralOf(op))));
    for (auto [i, op] : llvm::enumerate(plan.columnReductions)) {
      if (plan.passes[op] != pass)
        continue;
      Value x = elements.full(op->getOperand(0));
      if (plan.keepsRow()) {
        Value &sum = sums[i * plan.turns() + turn];
        sum = combine(k, op, sum, x);
      } else {
        addToSum(op, column, x, mask);
      }
    }
    stores =
        computeFull([&](Operation *op) { return plan.passes[op] == pass; });
    return totals;
  }

  void emitPass(int pass, ArrayRef<Operation *> reductions) {
    Values totals;
    for (Operation *op : reductions)
      totals.push_back(k.splat(neutralOf(op)));
    int64_t turn = 0;
    if (!plan.keepsRow()) {
      int64_t threads = plan.rowThreads();
      turn = plan.domain.cols / threads;
      auto loop = scf::ForOp::create(
          k.b, k.loc, k.i64(0), k.i64(turn * threads), k.i64(threads), totals);
      {
        OpBuilder::InsertionGuard guard(k.b);
        k.b.setInsertionPointToStart(loop.getBody());
        Value column = k.add(loop.getInductionVar(), own);
        elements.beginColumns(column, Value(), /*chunk=*/-1, loop);
        Stores stores;
        Values next = emitColumn(pass, reductions, loop.getRegionIterArgs(),
                                 column, Value(), 0, stores);
        store(stores);
        elements.endColumns();
        if (totals.empty())
          k.b.setInsertionPointToEnd(loop.getBody());
        else
          scf::YieldOp::create(k.b, k.loc, next);
      }
      totals.assign(loop.getResults().begin(), loop.getResults().end());
    }
    // A load waits for every store before it that it is not known to lie apart
    // from: the row is loaded for before any of it is stored.
    const int64_t first = turn;
    SmallVector<Stores> ofTurns(plan.turns() - first);
    for (; turn < plan.turns(); ++turn) {
      auto [column, mask] = columnOf(turn);
      elements.beginColumns(column, mask, turn);
      totals = emitColumn(pass, reductions, totals, column, mask, turn,
                          ofTurns[turn - first]);
    }
    for (auto [i, stores] : llvm::enumerate(ofTurns)) {
      auto number = first + static_cast<int64_t>(i);
      auto [column, mask] = columnOf(number);
      elements.beginColumns(column, mask, number);
      store(stores);
    }
    for (auto [op, total] : llvm::zip_equal(reductions, totals)) {
      auto step = [&, op = op](Value a, Value b) {
        return combine(k, op, a, b);
      };
      Value sum = plan.rowThreads() == warpSize
                      ? block.reduceLanes(total, warpSize, step)
                      : block.reduceBlock(total, neutralOf(op), step);
      elements.provideScalar(op->getResult(0), sum);
    }
  }

  Plan plan;
  BlockBuilder block;
  KernelBuilder &k;
  ElementEmitter elements;
  /// This thread's number among those of its row.
  Value own;
  /// The sums over columns that this thread has: of each turn, for each op.
  Value chunk;
  SmallVector<Value> sums;
};

/// A kernel that stores in `to` what `moved` makes, of what `from` (null: of
/// nothing) lets it read as `source`.
void emitMoved(ModuleOp module, StringRef name, Operation *step, Value source,
               MemRefType from, MemRefType to,
               llvm::function_ref<Value(ElementEmitter &)> moved) {
  Domain domain = copyDomain(from, to);
  int64_t points = domain.rows * domain.cols;
  BlockBuilder block(module, name, step, from ? 2 : 1,
                     {{blocksFor(points, blockThreads), 1, 1}, blockThreads});
  KernelBuilder &k = block.k;
  ElementEmitter elements(k, domain, block.arguments);
  if (from)
    elements.addRead(source, block.pointers.front(), viewOf(from),
                     Access::Point);
  elements.addWrite(block.pointers.back(), viewOf(to), Access::Point);
  Value point = block.everyThread();
  auto move = [&] {
    elements.beginRow(k.div(point, domain.cols));
    elements.beginColumns(k.rem(point, k.i64(domain.cols)), Value(),
                          ElementEmitter::kAnyColumn);
    elements.store(0, moved(elements));
  };
  if (points % blockThreads == 0)
    move();
  else
    k.ifThen(k.less(point, k.i64(points)), move);
}

} // namespace

void cuda::emitRowKernel(ModuleOp module, StringRef name, LaunchOp launch) {
  RowKernel(module, name, launch).emit();
}

void cuda::emitFoldKernel(ModuleOp module, StringRef name, LaunchOp launch) {
  Operation *fold = launch.getFirstOp();
  const int64_t sums = launch.getRows(), cols = launch.getCols();
  int64_t chunks =
      tensorType(fold->getOperand(0)).getNumElements() / (sums * cols);
  BlockBuilder block(
      module, name, launch,
      launch.getReads().size() + launch.getWrites().size(),
      {{blocksFor(sums * cols, blockThreads), 1, 1}, blockThreads});
  KernelBuilder &k = block.k;
  ElementEmitter elements(k, launch, block.pointers, block.arguments);
  Value point = block.everyThread();
  Value sum = sums == 1 ? k.i64(0) : k.div(point, cols);
  Value column = k.sub(point, k.mul(sum, cols));
  Value first = k.add(k.mul(sum, chunks * cols), column);
  auto add = [&] {
    SmallVector<Value> total = k.loop(
        k.i64(0), k.i64(chunks), 1, k.splat(neutralOf(fold)),
        [&](Value chunk, ValueRange before) {
          Value part = k.loadScalar(
              k.at(block.pointers[0], k.add(k.mul(chunk, cols), first)));
          return SmallVector<Value>{combine(k, fold, before.front(), part)};
        });
    elements.beginRow(sum);
    elements.beginColumns(column, Value(), ElementEmitter::kAnyColumn);
    elements.store(0, total.front());
  };
  int64_t points = sums * cols;
  if (points % blockThreads == 0)
    add();
  else
    k.ifThen(k.less(point, k.i64(points)), add);
}

void cuda::emitCopyKernel(ModuleOp module, StringRef name, CopyOp copy) {
  Value source = copy.getFrom();
  emitMoved(module, name, copy, source, copy.getFrom().getType(),
            copy.getTo().getType(),
            [&](ElementEmitter &elements) { return elements.full(source); });
}

void cuda::emitFillKernel(ModuleOp module, StringRef name, FillOp fill) {
  emitMoved(module, name, fill, Value(), MemRefType(), fill.getTo().getType(),
            [&](ElementEmitter &elements) {
              return elements.number(cast<TypedAttr>(fill.getValue()));
            });
}
