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
#include "compiler/target/cuda/Pieces.h"
#include "compiler/target/emit/ElementEmitter.h"
#include "compiler/target/emit/RowPlan.h"
#include "compiler/target/emit/RowReductions.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tfm;
using namespace tfm::cuda;
using namespace tfm::sched;

namespace {

/// Threads of a block where nothing else decides.
constexpr int64_t blockThreads = 256;
/// Neighbouring columns that a thread has where they lie together in memory:
/// what one instruction moves, at least 4.
constexpr int64_t neighbourBytes = 16, leastNeighbours = 4;
/// A thread of a block keeps what it has of a row in registers up to so many
/// columns.
constexpr int64_t keptColumns = 16;
/// A lane of a warp that has a row to itself, so that nothing waits for a
/// block, has up to so many columns of it; more where there are enough rows to
/// keep all multiprocessors busy. With sums over columns, which stay in
/// registers beside some numbers of each column, it has as many registers.
constexpr int64_t laneColumns = 16, mostLaneColumns = 32, ownNumbers = 4,
                  sumRegisters = 168;
/// Warps of a multiprocessor that keep it busy.
constexpr int64_t enoughWarps = 8;
/// Shared memory that is left beside a row that a block has for itself, for
/// what its threads tell each other, there and in the product that reads the
/// row.
constexpr int64_t besideRow = 4096;

int64_t blocksFor(int64_t things, int64_t each) {
  return static_cast<int64_t>(llvm::divideCeil(things, each));
}

/// What a launch computes, and by which blocks.
struct Plan : RowPlan {
  /// `threadsOfRow`: of a block that has a row; 0: as many as suit it.
  explicit Plan(LaunchOp launch, int64_t threadsOfRow = 0)
      : RowPlan(launch), launch(launch), domain(launch.getDomain()),
        threadsOfRow(threadsOfRow) {
    // A row's scalar may be written where the row's other threads read one.
    byRows = llvm::any_of(ops, [&](Operation *op) {
      return isRowReduction(op) || (domain.cols > 1 && writesScalar(op));
    });
    // Tables, of which rows are read by number, have no tiles.
    bool readsTables = llvm::any_of(launch.getReadArgs(), [&](Value read) {
      return launch.getAccessOf(cast<BlockArgument>(read).getArgNumber()) ==
             Access::Memory;
    });
    if (readsTables)
      return;
    // Threads of a row share its columns evenly where each has few of them.
    int64_t most =
        columnReductions.empty() ? neighboursOf(launch) : leastNeighbours;
    for (; most >= leastNeighbours; most /= 2)
      if (ElementEmitter::hasTiles(launch, most))
        break;
    if (most < leastNeighbours)
      return;
    together = most;
    // What remains of a row has threads of a column each, in a loop's last
    // turns.
    if (domain.cols % together && (!byRows || keepsRow()))
      together = 1;
    // Lanes that have a row have a column each, where these are few.
    while (byRows && warpHasRow() && together > 1 &&
           domain.cols < rowThreads() * together)
      together /= 2;
  }

  /// As many as are moved at once of the widest elements that are read or
  /// written at points.
  static int64_t neighboursOf(LaunchOp launch) {
    int64_t widest = 1;
    auto widen = [&](BlockArgument argument) {
      if (launch.getAccessOf(argument.getArgNumber()) == Access::Point)
        widest = std::max(
            widest, elementBytes(
                        cast<MemRefType>(argument.getType()).getElementType()));
    };
    llvm::for_each(launch.getReadArgs(), widen);
    llvm::for_each(launch.getWriteArgs(), widen);
    return std::clamp<int64_t>(neighbourBytes / widest, leastNeighbours, 8);
  }

  LaunchOp launch;
  Domain domain;
  int64_t threadsOfRow;
  /// Whether the threads of a row have to know of each other.
  bool byRows;
  /// Neighbouring columns of a thread.
  int64_t together = 1;

  /// By rows: whether one has a warp, or lanes of it.
  bool warpHasRow() const {
    if (threadsOfRow)
      return false;
    bool isMany = domain.rows >= a100.multiprocessors * enoughWarps;
    int64_t columns = isMany ? mostLaneColumns : laneColumns;
    if (auto sums = static_cast<int64_t>(columnReductions.size()))
      columns =
          isMany ? std::min(columns, sumRegisters / (sums + ownNumbers)) : 0;
    return domain.cols <= columns * warpSize;
  }
  /// By rows: threads that share one, and in how many turns they walk over it.
  int64_t rowThreads() const {
    if (warpHasRow()) {
      // Lanes of a warp have several rows where each has few columns, and all
      // warps have whole rows.
      auto lanes = std::min<int64_t>(
          warpSize, static_cast<int64_t>(llvm::bit_ceil<uint64_t>(
                        blocksFor(domain.cols, together))));
      bool fits =
          columnReductions.empty() && domain.rows % (warpSize / lanes) == 0;
      return fits ? lanes : warpSize;
    }
    if (threadsOfRow)
      return threadsOfRow;
    // Two blocks at once, where a row is walked over again and again: one
    // computes while the other's threads wait for each other.
    bool isLong = domain.cols > keptColumns * maxBlock;
    return std::clamp<int64_t>(llvm::alignTo(blocksFor(domain.cols, 4), 32), 64,
                               isLong ? maxBlock / 2 : maxBlock);
  }
  /// `width` neighbouring columns of each thread, from `first` on.
  struct Turn {
    int64_t first, width;
  };
  SmallVector<Turn> turns(int64_t first = 0) const {
    SmallVector<Turn> all;
    while (first < domain.cols) {
      bool fits = domain.cols % together == 0 ||
                  first + rowThreads() * together <= domain.cols;
      all.push_back({first, fits ? together : 1});
      first += rowThreads() * all.back().width;
    }
    return all;
  }
  /// Columns of a thread of a row that is kept.
  int64_t columnsOfThread() const {
    return blocksFor(domain.cols, rowThreads() * together) * together;
  }
  bool keepsRow() const {
    return warpHasRow() || columnsOfThread() <= keptColumns;
  }

  /// No more chunks than these come to a multiprocessor, for which ptxas need
  /// not save registers; and each thread may have many, that of a warp with a
  /// row all that it can have.
  int64_t chunksAtOnce() const {
    constexpr int64_t many = 128;
    int64_t most =
        warpHasRow() ? enoughWarps : a100.residentBlocks(rowThreads(), many, 0);
    return std::clamp<int64_t>(most, 1,
                               blocksFor(chunks, a100.multiprocessors));
  }

  /// By columns: blocks that a row has.
  int64_t columnBlocks() const {
    return blocksFor(domain.cols, blockThreads * together);
  }

  Grid grid() const {
    if (byRows) {
      if (!columnReductions.empty())
        return {{chunks, 1, 1}, rowThreads(), chunksAtOnce()};
      if (!warpHasRow())
        return {{domain.rows, 1, 1}, rowThreads()};
      int64_t rows = blockThreads / rowThreads();
      return {{blocksFor(domain.rows, rows), 1, 1}, blockThreads};
    }
    if (!columnReductions.empty())
      return {{chunks * columnBlocks(), 1, 1}, blockThreads};
    return {
        {blocksFor(domain.rows * domain.cols, blockThreads * together), 1, 1},
        blockThreads};
  }
};

class RowKernel {
public:
  RowKernel(ModuleOp module, StringRef name, LaunchOp launch,
            int64_t threadsOfRow = 0)
      : plan(launch, threadsOfRow),
        block(module, name, launch,
              launch.getReads().size() + launch.getWrites().size(),
              plan.grid()),
        k(block.k), elements(k, launch, pointers(), block.arguments) {}

  void emit() {
    if (plan.threadsOfRow && !plan.byRows)
      emitPointsOfBlock();
    else if (plan.byRows)
      emitRows();
    else if (!plan.columnReductions.empty())
      emitColumns();
    else
      emitPoints();
  }

private:
  /// To what the launch reads and writes. A block that has a row for itself
  /// brings it to shared memory: the copies begin before `gatherLoads` and are
  /// awaited behind it. (What a thread loads into registers it would await
  /// together with all that it loads in between: ptxas counts all loads of a
  /// basic block that are read in another with one scoreboard.)
  SmallVector<Value> pointers() {
    SmallVector<Value> all(block.pointers);
    if (!plan.threadsOfRow)
      return all;
    auto bytesOf = [](BlockArgument argument) {
      return viewOf(cast<MemRefType>(argument.getType())).spanBytes();
    };
    int64_t room = maxStaticShared - besideRow;
    for (BlockArgument argument : plan.launch.getWriteArgs())
      room -= bytesOf(argument);
    for (BlockArgument argument : plan.launch.getReadArgs()) {
      unsigned number = argument.getArgNumber();
      int64_t bytes = bytesOf(argument),
              alignment = alignmentOf(plan.launch->getOperand(number));
      // One by one where there are few numbers.
      bool isFew = bytes <= 4 * plan.threadsOfRow;
      int64_t piece = alignment % pieceBytes == 0   ? pieceBytes
                      : alignment % 4 == 0 && isFew ? 4
                                                    : 0;
      if (piece == 0 || plan.launch.getAccessOf(number) == Access::Memory ||
          blocksFor(bytes, piece) * piece > room)
        continue;
      room -= blocksFor(bytes, piece) * piece;
      all[number] = bring(all[number], bytes, piece);
    }
    block.commitCopies();
    block.gatherLoads();
    block.awaitCopies(0);
    block.barrier();
    return all;
  }

  /// Begins to copy so many bytes, in pieces, and returns where to.
  Value bring(Value from, int64_t bytes, int64_t piece) {
    int64_t pieces = blocksFor(bytes, piece);
    Value to = block.shared(pieces * (piece / 4));
    Type byte = k.b.getI8Type();
    for (int64_t first = 0; first < pieces; first += plan.threadsOfRow) {
      Value number = k.add(block.thread(), first);
      Value at = k.mul(number, piece);
      Value count = bytes % piece == 0
                        ? Value()
                        : k.min(k.i64(piece), k.sub(k.i64(bytes), at));
      auto copy = [&] {
        block.copyAsync(k.at(to, at, byte), k.at(from, at, byte), piece, count);
      };
      if (first + plan.threadsOfRow <= pieces)
        copy();
      else
        k.ifThen(k.less(number, k.i64(pieces)), copy);
    }
    return LLVM::AddrSpaceCastOp::create(k.b, k.loc, k.ptrType, to);
  }

  /// A thread's point, or neighbouring ones of a row.
  void emitPoints() {
    const Domain &domain = plan.domain;
    Value point = k.mul(block.everyThread(), plan.together);
    auto compute = [&] {
      elements.beginRow(k.div(point, domain.cols));
      elements.beginTile(k.rem(point, k.i64(domain.cols)), plan.together);
      storeFull(elements);
      storeScalars(Value());
    };
    int64_t points = domain.rows * domain.cols;
    if (points % (blockThreads * plan.together) == 0)
      compute();
    else
      k.ifThen(k.less(point, k.i64(points)), compute);
  }

  /// All points, by the threads of a block.
  void emitPointsOfBlock() {
    const int64_t points = plan.domain.rows * plan.domain.cols,
                  step = rowBlock * plan.together;
    for (int64_t turn = 0; turn < points; turn += step) {
      Value point = k.add(k.mul(block.thread(), plan.together), turn);
      auto compute = [&] {
        elements.beginRow(k.div(point, plan.domain.cols));
        elements.beginTile(k.rem(point, k.i64(plan.domain.cols)),
                           plan.together);
        storeFull(elements);
      };
      if (turn + step <= points)
        compute();
      else
        k.ifThen(k.less(point, k.i64(points)), compute);
    }
  }

  using Stores = SmallVector<std::pair<unsigned, Value>>;

  /// What is written at a point, of the ops that are `now` computed. All loads
  /// come before the stores: a write may lie over a read.
  Stores computeFull(ElementEmitter &elements,
                     llvm::function_ref<bool(Operation *)> now) {
    Stores stores;
    for (Operation *op : plan.ops)
      if (now(op) && plan.writesFull(op))
        stores.push_back({plan.numberOf(op), elements.full(op->getResult(0))});
    return stores;
  }
  static void store(ElementEmitter &elements, const Stores &stores) {
    for (auto &[index, value] : stores)
      elements.store(index, value);
  }
  /// Of all columns of the tile.
  void storeFull(ElementEmitter &elements) {
    SmallVector<Stores> ofColumns;
    for (int64_t j = 0; j != plan.together; ++j) {
      elements.beginColumn(j, /*mask=*/Value(), /*loop=*/nullptr, j);
      ofColumns.push_back(
          computeFull(elements, [](Operation *) { return true; }));
    }
    storeTile(elements, ofColumns, /*mask=*/Value());
  }
  static void storeTile(ElementEmitter &elements, ArrayRef<Stores> ofColumns,
                        Value mask) {
    for (auto [j, stores] : llvm::enumerate(ofColumns)) {
      elements.beginColumn(static_cast<int64_t>(j), mask);
      store(elements, stores);
    }
    elements.endTile();
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

  /// The first of `width` columns, which are within the row; the mask says
  /// whether they are the thread's own, null: they are.
  std::pair<Value, Value> within(Value column, int64_t width, bool isWhole) {
    int64_t cols = plan.domain.cols;
    if (isWhole)
      return {column, Value()};
    return {k.min(column, k.i64(cols - width)), k.less(column, k.i64(cols))};
  }

  /// A thread's columns of the rows of a chunk.
  void emitColumns() {
    int64_t cols = plan.domain.cols;
    int64_t blocks = plan.columnBlocks();
    Value chunk = plan.chunks == 1 ? k.i64(0) : k.div(block.block(), blocks);
    Value first =
        k.mul(k.sub(block.block(), k.mul(chunk, blocks)), blockThreads);
    auto [column, mask] =
        within(k.mul(k.add(first, block.thread()), plan.together),
               plan.together, cols % (blockThreads * plan.together) == 0);
    SmallVector<Value> sums;
    for (Operation *op : plan.columnReductions)
      sums.append(plan.together, k.splat(neutralOf(op)));
    auto [from, to] = rowsOf(chunk);
    sums = k.loop(from, to, 1, sums, [&](Value row, ValueRange before) {
      elements.beginRow(row);
      elements.beginTile(column, plan.together);
      SmallVector<Value> next(before);
      SmallVector<Stores> ofColumns;
      for (int64_t j = 0; j != plan.together; ++j) {
        elements.beginColumn(j, mask);
        for (auto [i, op] : llvm::enumerate(plan.columnReductions)) {
          Value &sum = next[i * plan.together + j];
          sum = combine(k, op, sum, elements.full(op->getOperand(0)));
        }
        ofColumns.push_back(
            computeFull(elements, [](Operation *) { return true; }));
      }
      storeTile(elements, ofColumns, mask);
      storeScalars(mask);
      return next;
    });
    for (auto [i, op] : llvm::enumerate(plan.columnReductions))
      for (int64_t j = 0; j != plan.together; ++j)
        storeSum(op, chunk, k.add(column, j), sums[i * plan.together + j],
                 mask);
  }

  /// Rows that have a warp each, or a block.
  void emitRows() {
    if (plan.columnReductions.empty()) {
      if (!plan.warpHasRow()) {
        own = block.thread();
        emitRow(block.block());
        return;
      }
      const int64_t threads = plan.rowThreads();
      own = k.rem(block.thread(), k.i64(threads));
      int64_t rows = plan.grid().threads / threads;
      Value row =
          k.add(k.mul(block.block(), rows), k.div(block.thread(), threads));
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
        sums.append(plan.columnsOfThread(), k.splat(neutralOf(op)));
      else
        forEachColumn([&](Value column, Value mask) {
          storeSum(op, chunk, column, k.splat(neutralOf(op)), mask);
        });
    // Another thread adds to a sum than the one that has begun it.
    if (!plan.keepsRow())
      block.barrier();
    auto [first, last] = rowsOf(chunk);
    SmallVector<Value> none = sums;
    sums = k.loop(first, last, 1, none, [&](Value row, ValueRange before) {
      sums.assign(before.begin(), before.end());
      emitRow(row);
      // Before what the threads tell each other is written over.
      if (!plan.warpHasRow())
        block.barrier();
      return sums;
    });
    if (!plan.keepsRow())
      return;
    const Value *sum = sums.begin();
    for (Operation *op : plan.columnReductions)
      for (const Plan::Turn &turn : plan.turns()) {
        auto [column, mask] = columnOf(turn);
        for (int64_t j = 0; j != turn.width; ++j)
          storeSum(op, chunk, k.add(column, j), *sum++, mask);
      }
  }

  /// This thread's first column of a turn.
  std::pair<Value, Value> columnOf(const Plan::Turn &turn) {
    return within(k.add(k.mul(own, turn.width), turn.first), turn.width,
                  turn.first + plan.rowThreads() * turn.width <=
                      plan.domain.cols);
  }

  /// Calls `body(column, mask)` for all columns, each of a thread, in a loop.
  void forEachColumn(llvm::function_ref<void(Value, Value)> body) {
    int64_t threads = plan.rowThreads();
    int64_t whole = plan.domain.cols / threads * threads;
    k.loop(k.i64(0), k.i64(whole), threads,
           [&](Value first) { body(k.add(first, own), Value()); });
    if (whole < plan.domain.cols) {
      auto [column, mask] = columnOf({whole, 1});
      body(column, mask);
    }
  }

  void emitRow(Value row) {
    elements.beginRow(row);
    for (int pass = 0; pass <= plan.lastPass; ++pass) {
      SmallVector<Operation *> reductions;
      bool busy = false, picks = false;
      for (Operation *op : plan.ops) {
        if (plan.passes[op] != pass)
          continue;
        if (isRowReduction(op)) {
          if (std::optional<Picked> picked = pickedBy(op)) {
            elements.provideScalar(op->getResult(0), pick(*picked));
            picks = true;
            continue;
          }
          reductions.push_back(op);
        }
        busy |=
            isColumnReduction(op) || isRowReduction(op) || plan.writesFull(op);
      }
      // What is picked may be written over by whoever has that column.
      if (picks)
        rowBarrier();
      if (busy)
        emitPass(pass, reductions);
    }
    if (!writesScalars())
      return;
    // A scalar may lie over one that the others have read.
    rowBarrier();
    storeScalars(k.equal(own, k.i64(0)));
  }

  /// Of all threads of a row.
  void rowBarrier() {
    if (plan.warpHasRow())
      block.warpBarrier();
    else
      block.barrier();
  }

  /// Every thread of a row computes that element.
  Value pick(const Picked &picked) {
    Value number = arith::ExtSIOp::create(k.b, k.loc, k.i64Type,
                                          elements.scalar(picked.number));
    Value exists = arith::CmpIOp::create(k.b, k.loc, arith::CmpIPredicate::ult,
                                         number, k.i64(plan.domain.cols));
    elements.beginTile(k.select(exists, number, k.i64(0)), /*count=*/1);
    elements.beginColumn(0, /*mask=*/Value());
    return block.orElse(exists, elements.full(picked.elements), 0.0);
  }

  using Values = SmallVector<Value>;

  /// What one pass does at one column, but for the stores; returns the sums
  /// with it. `kept` is the column's number among those that the thread keeps.
  Values emitColumn(int pass, ArrayRef<Operation *> reductions,
                    ValueRange before, Value column, Value mask, int64_t kept,
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
        Value &sum = sums[i * plan.columnsOfThread() + kept];
        sum = combine(k, op, sum, x);
      } else {
        addToSum(op, column, x, mask);
      }
    }
    stores = computeFull(
        elements, [&](Operation *op) { return plan.passes[op] == pass; });
    return totals;
  }

  void emitPass(int pass, ArrayRef<Operation *> reductions) {
    Values totals;
    for (Operation *op : reductions)
      totals.push_back(k.splat(neutralOf(op)));
    int64_t rest = 0;
    if (!plan.keepsRow()) {
      int64_t step = plan.rowThreads() * plan.together;
      rest = plan.domain.cols / step * step;
      auto loop = scf::ForOp::create(k.b, k.loc, k.i64(0), k.i64(rest),
                                     k.i64(step), totals);
      {
        OpBuilder::InsertionGuard guard(k.b);
        k.b.setInsertionPointToStart(loop.getBody());
        Value column = k.add(loop.getInductionVar(), k.mul(own, plan.together));
        elements.beginTile(column, plan.together);
        Values next(loop.getRegionIterArgs());
        SmallVector<Stores> ofColumns(plan.together);
        for (int64_t j = 0; j != plan.together; ++j) {
          elements.beginColumn(j, Value(), loop);
          next = emitColumn(pass, reductions, next, k.add(column, j), Value(),
                            /*kept=*/0, ofColumns[j]);
        }
        for (int64_t j = 0; j != plan.together; ++j) {
          elements.beginColumn(j, Value(), loop);
          store(elements, ofColumns[j]);
        }
        elements.endTile();
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
    SmallVector<Stores> ofColumns;
    SmallVector<Plan::Turn> turns = plan.turns(rest);
    auto forEachColumn =
        [&](llvm::function_ref<void(Value, Value, int64_t)> visit,
            llvm::function_ref<void()> end) {
          int64_t number = 0;
          for (const Plan::Turn &turn : turns) {
            auto [column, mask] = columnOf(turn);
            elements.beginTile(column, turn.width);
            for (int64_t j = 0; j != turn.width; ++j, ++number) {
              elements.beginColumn(j, mask, /*loop=*/nullptr, number);
              visit(k.add(column, j), mask, number);
            }
            end();
          }
        };
    forEachColumn(
        [&](Value column, Value mask, int64_t number) {
          totals = emitColumn(pass, reductions, totals, column, mask, number,
                              ofColumns.emplace_back());
        },
        [] {});
    forEachColumn([&](Value, Value,
                      int64_t number) { store(elements, ofColumns[number]); },
                  [&] { elements.endTile(); });
    for (auto [op, total] : llvm::zip_equal(reductions, totals)) {
      auto step = [&, op = op](Value a, Value b) {
        return combine(k, op, a, b);
      };
      Value sum = plan.warpHasRow()
                      ? block.reduceLanes(total, plan.rowThreads(), step)
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
                          ElementEmitter::anyColumn);
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

bool cuda::isOfPoints(LaunchOp launch) {
  Plan plan(launch);
  return !plan.byRows && plan.columnReductions.empty();
}

bool cuda::isForBlock(LaunchOp launch) {
  Domain domain = launch.getDomain();
  return launch.getKind() == KernelKind::Row &&
         domain.rows * domain.cols <= keptColumns * rowBlock &&
         (domain.rows == 1 || isOfPoints(launch));
}

void cuda::emitRowKernelForBlock(ModuleOp module, StringRef name,
                                 LaunchOp launch) {
  RowKernel(module, name, launch, rowBlock).emit();
}

void cuda::emitFoldKernel(ModuleOp module, StringRef name, LaunchOp launch) {
  Operation *fold = launch.getFirstOp();
  const int64_t sums = launch.getRows(), cols = launch.getCols();
  int64_t chunks =
      tensorType(fold->getOperand(0)).getNumElements() / (sums * cols);
  // A warp has 32 sums, and several of a block share the chunks: each adds up
  // some that follow each other, and the first one what they have, in order.
  constexpr int64_t leastChunks = 8;
  auto warps = std::clamp<int64_t>(
      static_cast<int64_t>(llvm::bit_floor<uint64_t>(chunks / leastChunks)), 1,
      maxBlock / warpSize);
  const int64_t points = sums * cols;
  BlockBuilder block(module, name, launch,
                     launch.getReads().size() + launch.getWrites().size(),
                     {{blocksFor(points, warpSize), 1, 1}, warps * warpSize});
  KernelBuilder &k = block.k;
  ElementEmitter elements(k, launch, block.pointers, block.arguments);
  Value place = k.add(k.mul(block.block(), warpSize), block.lane());
  Value point = k.min(place, k.i64(points - 1));
  Value sum = sums == 1 ? k.i64(0) : k.div(point, cols);
  Value column = k.sub(point, k.mul(sum, cols));
  Value first = k.add(k.mul(sum, chunks * cols), column);
  auto add = [&](Value from, Value to,
                 llvm::function_ref<Value(Value)> part) -> Value {
    return k
        .loop(from, to, 1, k.splat(neutralOf(fold)),
              [&](Value number, ValueRange before) {
                return SmallVector<Value>{
                    combine(k, fold, before.front(), part(number))};
              })
        .front();
  };
  Value warp = block.warp();
  Value total =
      add(k.div(k.mul(warp, chunks), warps),
          k.div(k.mul(k.add(warp, 1), chunks), warps), [&](Value chunk) {
            return k.loadScalar(
                k.at(block.pointers[0], k.add(k.mul(chunk, cols), first)));
          });
  if (warps > 1) {
    Value totals = block.shared(warps * warpSize);
    k.storeScalar(total, k.at(totals, block.thread()));
    block.barrier();
    total = add(k.i64(0), k.i64(warps), [&](Value number) {
      return k.loadScalar(
          k.at(totals, k.add(k.mul(number, warpSize), block.lane())));
    });
  }
  Value stores = k.equal(warp, k.i64(0));
  if (points % warpSize)
    stores = block.both(stores, k.less(place, k.i64(points)));
  k.ifThen(stores, [&] {
    elements.beginRow(sum);
    elements.beginColumns(column, Value(), ElementEmitter::anyColumn);
    elements.store(0, total);
  });
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
