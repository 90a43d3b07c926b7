//===- RowKernel.cpp - kernels over rows ----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/RowKernel.h"

#include "compiler/dialect/TfmDialect.h"
#include "compiler/schedule/Launches.h"
#include "compiler/target/cpu/KeptValues.h"
#include "compiler/target/cpu/MicroKernel.h"
#include "compiler/target/cpu/RowsSideBySide.h"
#include "compiler/target/emit/ElementEmitter.h"
#include "compiler/target/emit/RowPlan.h"
#include "compiler/target/emit/RowReductions.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace tfm;
using namespace tfm::sched;

namespace {

/// Rows of up to this many vectors are unrolled and stay in registers from one
/// pass to the next.
constexpr int64_t unrolledVectors = 16;
/// Sums over rows that stay in registers from one row to the next.
constexpr int64_t sumsInRegisters = 8;
/// Columns of a block of dropout's counters, each of which has words for four
/// vectors 16 columns apart. A turn of a loop over columns handles one such
/// four or two.
constexpr int64_t counterVectors = 4;
constexpr int64_t vectorColumns = 16;
constexpr int64_t blockColumns = counterVectors * vectorColumns;
/// Kernels below this many elements are not worth waking other threads for.
constexpr int64_t serialElements = 4096;
/// So far ahead columns are prefetched.
constexpr int64_t columnsAhead = 512;

/// Columns of a row that the loop over them handles: 0 of a short one.
int64_t loopedColumns(int64_t cols, const CpuMachine &machine,
                      bool sumsRows = false) {
  // Beside sums over rows, which derivatives have, each element is two values
  // and more: they would not stay in the registers.
  int64_t most = sumsRows ? std::min(unrolledVectors, machine.registers / 2)
                          : unrolledVectors;
  return cols / machine.lanes > most ? cols / blockColumns * blockColumns : 0;
}

/// One row kernel in the making: of the ops of a launch, or, without any, of
/// elements that are moved or set.
class RowKernel {
public:
  RowKernel(KernelBuilder &k, LaunchOp launch, ValueRange pointers,
            const KernelArguments &arguments, int64_t looped,
            const KeptValues &kept, bool fetchesAhead)
      : k(k), arguments(arguments), domain(launch.getDomain()), looped(looped),
        elements(k, launch, pointers, arguments), plan(launch), kept(kept),
        scratch(k.pointer(arguments.scratch)) {
    // Two fours have running totals enough for additions not to wait for each
    // other. What takes long has constants of its own, and what draws the words
    // of a four, and no room for them.
    bool draws = llvm::any_of(*launch.getBlock(), [](Operation &op) {
      return isa<DropoutOp, UniformOp>(op);
    });
    if (kept.bytes() == 0 && !draws)
      loopVectors = std::min(blockColumns / k.lanes, 2 * counterVectors);
    // What rows read was computed a while ago, or by another thread: AMD's
    // processors read ahead by themselves, Intel's, which were measured, do
    // not. Where a turn is a block it has its lines to itself.
    if (fetchesAhead && loopVectors * k.lanes == blockColumns) {
      fetchingPass = 0;
      for (int pass = plan.lastPass; pass > 0; --pass)
        if (isBusy(pass))
          fetchingPass = pass;
    }
  }

  /// `moved` makes the vector of the elements to store.
  RowKernel(KernelBuilder &k, const Domain &domain, ElementEmitter elements,
            const KernelArguments &arguments, int64_t looped,
            std::function<Value(ElementEmitter &)> moved)
      : k(k), arguments(arguments), domain(domain), looped(looped),
        elements(std::move(elements)), moved(std::move(moved)) {}

  void emit(const std::optional<SideBySide> &sideBySide) {
    bool isSerial = domain.rows * domain.cols < serialElements;
    if (sideBySide)
      return emitSideBySide(k, domain, *sideBySide, elements, plan, kept,
                            arguments, isSerial, moved);
    Value thread = k.toI64(arguments.thread),
          threads = k.toI64(arguments.threads);
    if (plan.chunks > 0) {
      // Column sums: each chunk of rows has accumulators of its own, whose
      // number does not depend on the threads.
      auto [from, to] = k.share(k.i64(plan.chunks), thread, threads);
      k.loop(from, to, 1, [&](Value chunk) {
        Value first = k.div(k.mul(chunk, domain.rows), plan.chunks);
        Value last = k.div(k.mul(k.add(chunk, 1), domain.rows), plan.chunks);
        currentChunk = chunk;
        if (keepsSums())
          return addInRegisters(first, last);
        for (Operation *op : plan.columnReductions)
          clearAccumulator(op, chunk);
        k.loop(first, last, 1, [&](Value row) { emitRow(row); });
      });
      return;
    }
    if (isSerial || domain.rows == 1) {
      k.ifThen(k.equal(thread, k.i64(0)), [&] {
        if (domain.rows == 1)
          emitRow(k.i64(0));
        else
          k.loop(k.i64(0), k.i64(domain.rows), 1,
                 [&](Value row) { emitRow(row); });
      });
      return;
    }
    auto [from, to] = k.share(k.i64(domain.rows), thread, threads);
    k.loop(from, to, 1, [&](Value row) { emitRow(row); });
  }

private:
  using Vectors = SmallVector<Value>;

  Value accumulatorPointer(Operation *op, Value chunk, Value column) {
    Value offset = k.add(k.mul(chunk, domain.cols), column);
    return k.at(elements.writePointer(plan.numberOf(op)), offset);
  }

  /// Calls `body(column, mask)` for every vector of a row, outside of a row.
  void forEachVector(llvm::function_ref<void(Value, Value)> body) {
    int64_t whole = domain.cols / k.lanes * k.lanes;
    if (whole)
      k.loop(k.i64(0), k.i64(whole), k.lanes,
             [&](Value column) { body(column, Value()); });
    if (whole < domain.cols)
      body(k.i64(whole), k.maskOf(k.i64(domain.cols - whole)));
  }

  void clearAccumulator(Operation *op, Value chunk) {
    forEachVector([&](Value column, Value mask) {
      k.store(k.splat(neutralOf(op)), accumulatorPointer(op, chunk, column),
              mask);
    });
  }

  /// The vectors of a row.
  int64_t vectors() const { return llvm::divideCeil(domain.cols, k.lanes); }
  bool keepsSums() const {
    return looped == 0 &&
           static_cast<int64_t>(plan.columnReductions.size()) * vectors() <=
               sumsInRegisters;
  }

  /// The sums of a chunk of short rows.
  void addInRegisters(Value first, Value last) {
    Vectors neutral;
    for (Operation *op : plan.columnReductions)
      neutral.append(vectors(), k.splat(neutralOf(op)));
    Vectors sums =
        k.loop(first, last, 1, neutral, [&](Value row, ValueRange before) {
          columnSums.assign(before.begin(), before.end());
          emitRow(row);
          return columnSums;
        });
    for (auto [i, op] : llvm::enumerate(plan.columnReductions))
      for (int64_t v = 0; v < vectors(); ++v) {
        int64_t column = v * k.lanes;
        Value mask = column + k.lanes > domain.cols
                         ? k.maskOf(k.i64(domain.cols - column))
                         : Value();
        k.store(sums[i * vectors() + v],
                accumulatorPointer(op, currentChunk, k.i64(column)), mask);
      }
  }

  /// Whether a pass goes along a row, and is not of its scalars alone.
  bool isBusy(int pass) {
    return llvm::any_of(plan.ops, [&](Operation *op) {
      return plan.passes[op] == pass &&
             (isColumnReduction(op) || isRowReduction(op) ||
              plan.writesFull(op));
    });
  }

  void emitRow(Value row) {
    elements.beginRow(row);
    if (plan.ops.empty()) {
      emitPass(0, {});
      return;
    }
    for (int pass = 0; pass <= plan.lastPass; ++pass) {
      SmallVector<Operation *> sums;
      for (Operation *op : plan.ops)
        if (plan.passes[op] == pass && isRowReduction(op))
          sums.push_back(op);
      if (isBusy(pass))
        emitPass(pass, sums);
    }
    for (Operation *op : plan.ops)
      if (plan.writesScalar(op))
        elements.storeScalar(plan.numberOf(op),
                             elements.scalar(op->getResult(0)));
  }

  /// What one pass does at one vector of columns; `sums` are the running
  /// totals of the pass's row reductions.
  void emitVector(int pass, ArrayRef<Operation *> reductions, Vectors &sums,
                  Value column, Value mask) {
    for (auto [op, sum] : llvm::zip_equal(reductions, sums))
      sum = combine(
          k, op, sum,
          elements.masked(elements.full(op->getOperand(0)), neutralOf(op)));
    if (plan.ops.empty())
      return elements.store(0, moved(elements));
    for (auto [i, op] : llvm::enumerate(plan.columnReductions)) {
      if (plan.passes[op] != pass)
        continue;
      Value x = elements.full(op->getOperand(0));
      if (!columnSums.empty()) {
        Value &sum = columnSums[i * vectors() + currentVector];
        sum = combine(k, op, sum, x);
        continue;
      }
      Value pointer = accumulatorPointer(op, currentChunk, column);
      k.store(combine(k, op, k.load(pointer, mask), x), pointer, mask);
    }
    // All loads come before the stores: a write may lie over a read.
    SmallVector<std::pair<unsigned, Value>> stores;
    for (Operation *op : plan.ops)
      if (plan.passes[op] == pass && plan.writesFull(op))
        stores.push_back({plan.numberOf(op), elements.full(op->getResult(0))});
    for (auto &[index, value] : stores)
      elements.store(index, value);
  }

  void emitPass(int pass, ArrayRef<Operation *> reductions) {
    Vectors totals;
    for (Operation *op : reductions)
      totals.push_back(k.splat(neutralOf(op)));
    if (looped) {
      // Each vector of a turn has running totals of its own.
      Vectors init;
      for (int64_t u = 0; u < loopVectors; ++u)
        init.append(totals);
      auto loop = scf::ForOp::create(k.b, k.loc, k.i64(0), k.i64(looped),
                                     k.i64(loopVectors * k.lanes), init);
      {
        OpBuilder::InsertionGuard guard(k.b);
        k.b.setInsertionPointToStart(loop.getBody());
        Value first = firstColumn(loop.getInductionVar());
        Vectors next(loopVectors * totals.size());
        // In the order of the columns, so that what is stored of a cache line
        // follows each other.
        int64_t fours = loopVectors / counterVectors;
        for (int64_t i = 0; i < loopVectors; ++i) {
          int64_t u = i % fours * counterVectors + i / fours;
          Value at = k.add(first, u % counterVectors * vectorColumns +
                                      u / counterVectors * k.lanes);
          Vectors sums(
              loop.getRegionIterArgs().slice(u * totals.size(), totals.size()));
          elements.beginColumns(at, Value(), -1 - u, loop);
          if (i == 0 && pass == fetchingPass)
            fetchAhead();
          kept.forEach(k, scratch, pass, /*isFirst=*/false,
                       [&](Value value, Value row) {
                         elements.provide(value, k.load(k.at(row, at)));
                       });
          emitVector(pass, reductions, sums, at, Value());
          kept.forEach(k, scratch, pass, /*isFirst=*/true,
                       [&](Value value, Value row) {
                         k.store(elements.full(value), k.at(row, at));
                       });
          llvm::copy(sums, next.begin() + u * totals.size());
        }
        elements.endColumns();
        if (init.empty())
          k.b.setInsertionPointToEnd(loop.getBody());
        else
          scf::YieldOp::create(k.b, k.loc, next);
      }
      for (auto [i, op] : llvm::enumerate(reductions))
        for (int64_t u = 0; u < loopVectors; ++u)
          totals[i] = u == 0 ? loop.getResult(i)
                             : combine(k, op, totals[i],
                                       loop.getResult(u * totals.size() + i));
    }
    // The last block may have columns in any of its turns.
    for (int64_t turn = looped, end = llvm::alignTo(domain.cols, blockColumns);
         turn < end; turn += counterVectors * k.lanes)
      for (int64_t u = 0; u < counterVectors; ++u) {
        int64_t column = firstColumn(turn) + u * vectorColumns;
        if (column >= domain.cols)
          continue;
        Value mask;
        if (column + k.lanes > domain.cols)
          mask = k.maskOf(k.i64(domain.cols - column));
        Value at = k.i64(column);
        currentVector = column / k.lanes;
        elements.beginColumns(at, mask, column);
        emitVector(pass, reductions, totals, at, mask);
      }
    for (auto [op, total] : llvm::zip_equal(reductions, totals))
      elements.provideScalar(op->getResult(0), fold(op, total));
  }

  /// What a later turn reads and writes, of rows without gaps; where several
  /// passes go along a row, that of the next one, for which the first of them
  /// would wait.
  void fetchAhead() {
    Type byte = k.b.getI8Type();
    elements.forEachStream([&](Value from, int64_t bytes, int64_t row) {
      if (fetchingPass == 0 && row != domain.cols)
        return;
      int64_t ahead = fetchingPass == 0 ? columnsAhead : row;
      for (int64_t at = 0; at < blockColumns * bytes; at += cacheLine)
        k.prefetch(k.at(from, ahead * bytes + at, byte), 1);
    });
  }

  /// The column of the first of the vectors whose turn it is when `before`
  /// columns have had theirs.
  Value firstColumn(Value before) {
    if (k.lanes == vectorColumns)
      return before;
    return k.add(k.mul(k.div(before, blockColumns), blockColumns),
                 k.div(k.rem(before, k.i64(blockColumns)), counterVectors));
  }
  static int64_t firstColumn(int64_t before) {
    return before / blockColumns * blockColumns +
           before % blockColumns / counterVectors;
  }

  /// The lanes of a register in one, by a tree that is the same on every run.
  Value fold(Operation *op, Value total) {
    if (!isMaximum(op))
      return vector::ReductionOp::create(k.b, k.loc, vector::CombiningKind::ADD,
                                         total, arith::FastMathFlags::reassoc);
    // LLVM takes maxima lane after lane, as any may be NaN.
    for (int64_t half = k.lanes / 2; half > 0; half /= 2)
      total = combine(
          k, op,
          k.shuffle(total, total, llvm::to_vector(llvm::seq<int64_t>(half))),
          k.shuffle(total, total,
                    llvm::to_vector(llvm::seq<int64_t>(half, 2 * half))));
    return vector::ExtractOp::create(k.b, k.loc, total, 0);
  }

  KernelBuilder &k;
  const KernelArguments &arguments;
  Domain domain;
  /// The columns of a row that a loop handles, and vectors of one turn.
  int64_t looped;
  int64_t loopVectors = counterVectors;
  /// The pass whose turns prefetch what later ones read and write; none of -1.
  int fetchingPass = -1;
  ElementEmitter elements;
  std::function<Value(ElementEmitter &)> moved;
  RowPlan plan;
  KeptValues kept;
  Value scratch;
  Value currentChunk;
  /// Where they stay in registers: of each reduction, by vectors of a row.
  Vectors columnSums;
  int64_t currentVector = 0;
};

/// Adds the partial results of column reductions, chunk after chunk.
void emitFold(KernelBuilder &k, LaunchOp launch, ValueRange pointers,
              const KernelArguments &arguments) {
  Operation *fold = launch.getFirstOp();
  const int64_t sums = launch.getRows(), cols = launch.getCols();
  int64_t chunks =
      tensorType(fold->getOperand(0)).getNumElements() / (sums * cols);
  int64_t vectors = llvm::divideCeil(cols, k.lanes);
  ElementEmitter elements(k, launch, pointers, arguments);
  auto [from, to] = k.share(k.i64(sums * vectors), k.toI64(arguments.thread),
                            k.toI64(arguments.threads));
  k.loop(from, to, 1, [&](Value vector) {
    Value sum = sums == 1 ? k.i64(0) : k.div(vector, vectors);
    Value column = k.mul(k.sub(vector, k.mul(sum, vectors)), k.lanes);
    Value mask =
        cols % k.lanes ? k.maskOf(k.sub(k.i64(cols), column)) : Value();
    Value first = k.add(k.mul(sum, chunks * cols), column);
    Value total;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      Value part = k.load(k.at(pointers[0], k.add(first, chunk * cols)), mask);
      total = total ? combine(k, fold, total, part) : part;
    }
    elements.beginRow(sum);
    elements.beginColumns(column, mask, ElementEmitter::anyColumn);
    elements.store(0, total);
  });
}

/// A kernel that stores in `to` what `moved` makes, of what `from` (null: of
/// nothing) lets it read as `source`.
Kernel emitMoved(OpBuilder &builder, ModuleOp module, StringRef name,
                 Value source, MemRefType from, MemRefType to,
                 const CpuMachine &machine,
                 std::function<Value(ElementEmitter &)> moved) {
  SmallVector<Type> types;
  SmallVector<Accessed> accessed;
  for (MemRefType type : {from, to})
    if (type) {
      types.push_back(bufferType(type));
      accessed.push_back({viewOf(type), Access::Point});
    }
  BegunKernel begun(builder, module, name, types, machine.lanes);
  auto &[func, k, arguments, pointers] = begun;
  // It walks its views in whatever shape serves best.
  Domain domain = copyDomain(from, to);
  ElementEmitter elements(k, domain, arguments);
  if (from)
    elements.addRead(source, pointers.front(), viewOf(from), Access::Point);
  elements.addWrite(pointers.back(), viewOf(to), Access::Point);
  RowKernel(k, domain, std::move(elements), arguments,
            loopedColumns(domain.cols, machine), std::move(moved))
      .emit(planSideBySide(domain, accessed, LaunchOp(), machine));
  return {func, 0};
}

/// What a launch reads and writes.
SmallVector<Accessed> accessedBy(LaunchOp launch) {
  SmallVector<Accessed> result;
  auto add = [&](ValueRange operands, unsigned first) {
    for (auto [i, operand] : llvm::enumerate(operands))
      result.push_back({viewOf(cast<MemRefType>(operand.getType())),
                        launch.getAccessOf(first + i)});
  };
  add(launch.getReads(), 0);
  add(launch.getWrites(), launch.getReads().size());
  return result;
}

} // namespace

BegunKernel::BegunKernel(OpBuilder &builder, ModuleOp module, StringRef name,
                         ArrayRef<Type> buffers, int64_t lanes,
                         int64_t scratchBytes)
    : func(beginKernel(builder, module, name, buffers, scratchBytes)),
      k(builder, module, lanes), arguments(func) {
  for (size_t i = 0; i < buffers.size(); ++i)
    pointers.push_back(k.pointer(func.getArgument(i)));
}

MemRefType tfm::bufferType(MemRefType type) {
  View view = viewOf(type);
  Type element = memoryType(view.element);
  return MemRefType::get({view.spanBytes() / elementBytes(view.element)},
                         element);
}

SmallVector<Type> tfm::bufferTypes(LaunchOp launch) {
  SmallVector<Type> types;
  for (Value operand : launch.getReads())
    types.push_back(bufferType(cast<MemRefType>(operand.getType())));
  for (Value operand : launch.getWrites())
    types.push_back(bufferType(cast<MemRefType>(operand.getType())));
  return types;
}

Kernel tfm::emitRowKernel(OpBuilder &builder, ModuleOp module, StringRef name,
                          LaunchOp launch, const CpuMachine &machine) {
  Domain domain = launch.getDomain();
  std::optional<SideBySide> sideBySide;
  if (launch.getKind() == KernelKind::Row)
    sideBySide = planSideBySide(domain, accessedBy(launch), launch, machine);
  bool sumsRows = llvm::any_of(
      *launch.getBlock(), [](Operation &op) { return isColumnReduction(&op); });
  int64_t looped = loopedColumns(domain.cols, machine, sumsRows);
  KeptValues kept(launch, sideBySide
                              ? domain.cols * sideBySide->rows(machine.lanes)
                              : looped);
  BegunKernel begun(builder, module, name, bufferTypes(launch), machine.lanes,
                    kept.bytes());
  auto &[func, k, arguments, pointers] = begun;
  if (launch.getKind() == KernelKind::Fold)
    emitFold(k, launch, pointers, arguments);
  else
    RowKernel(k, launch, pointers, arguments, looped, kept,
              /*fetchesAhead=*/!machine.readsInOrder)
        .emit(sideBySide);
  return {func, kept.bytes()};
}

Kernel tfm::emitCopyKernel(OpBuilder &builder, ModuleOp module, StringRef name,
                           CopyOp copy, const CpuMachine &machine) {
  Value source = copy.getFrom();
  return emitMoved(
      builder, module, name, source, copy.getFrom().getType(),
      copy.getTo().getType(), machine,
      [&](ElementEmitter &elements) { return elements.full(source); });
}

Kernel tfm::emitFillKernel(OpBuilder &builder, ModuleOp module, StringRef name,
                           FillOp fill, const CpuMachine &machine) {
  return emitMoved(builder, module, name, Value(), MemRefType(),
                   fill.getTo().getType(), machine,
                   [&](ElementEmitter &elements) {
                     return elements.number(cast<TypedAttr>(fill.getValue()));
                   });
}

Kernel tfm::emitScatterAddKernel(OpBuilder &builder, ModuleOp module,
                                 StringRef name, LaunchOp launch,
                                 int64_t lanes) {
  auto op = cast<ScatterAddOp>(launch.getFirstOp());
  BegunKernel begun(builder, module, name, bufferTypes(launch), lanes);
  auto &[func, k, arguments, pointers] = begun;
  auto pointerOf = [&](Value operand) {
    return begun.pointers[argumentOf(operand).getArgNumber()];
  };
  int64_t rows = tensorType(op.getIds()).getNumElements();
  int64_t cols = tensorType(op.getUpdates()).getNumElements() / rows;
  Value updates = pointerOf(op.getUpdates());
  Value base = pointers.back();
  // The ids are a row's scalars in the domain of the updates.
  ElementEmitter ids(k, Domain{rows, cols == 1 ? 2 : cols}, arguments);
  if (auto read = op.getIds().getDefiningOp<ReadOp>())
    ids.addRead(op.getIds(), pointerOf(op.getIds()),
                viewOf(read.getFrom().getType()), Access::Row);
  int64_t vectors = llvm::divideCeil(cols, lanes);
  auto [from, to] = k.share(k.i64(vectors), k.toI64(arguments.thread),
                            k.toI64(arguments.threads));
  k.loop(k.i64(0), k.i64(rows), 1, [&](Value row) {
    ids.beginRow(row);
    Value id =
        arith::ExtSIOp::create(k.b, k.loc, k.i64Type, ids.scalar(op.getIds()));
    k.loop(from, to, 1, [&](Value vector) {
      Value column = k.mul(vector, lanes);
      Value mask =
          cols % lanes ? k.maskOf(k.sub(k.i64(cols), column)) : Value();
      Value at = k.at(base, k.add(k.mul(id, cols), column));
      Value add = k.load(k.at(updates, k.add(k.mul(row, cols), column)), mask);
      k.store(k.addf(k.load(at, mask), add), at, mask);
    });
  });
  return {func, 0};
}
