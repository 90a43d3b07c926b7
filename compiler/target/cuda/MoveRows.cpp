//===- MoveRows.cpp - rows that are added to tables, or written to caches -===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cuda/MoveRows.h"

#include "compiler/dialect/TfmDialect.h"
#include "compiler/schedule/Launches.h"
#include "compiler/schedule/View.h"
#include "compiler/target/cuda/BlockBuilder.h"
#include "compiler/target/emit/ElementEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tfm;
using namespace tfm::cuda;
using namespace tfm::sched;

static constexpr int64_t threads = 256;

static unsigned bufferCount(LaunchOp launch) {
  return launch.getReads().size() + launch.getWrites().size();
}

namespace {

/// A block has some rows of a table and a thread a column of them, whose sums
/// are in shared memory. All blocks walk over all ids: their threads look at
/// some each, put those of their rows into a list, in order, and add up what is
/// in the list.
class ScatterAdd {
public:
  ScatterAdd(ModuleOp module, StringRef name, LaunchOp launch, ScatterAddOp op)
      : launch(launch), op(op), rows(tensorType(op.getIds()).getNumElements()),
        columns(tensorType(op.getUpdates()).getNumElements() / rows),
        tableRows(tensorType(op.getY()).getNumElements() / columns),
        block(module, name, launch, bufferCount(launch),
              {{pieces(tableRows, ownRows), pieces(columns, threads), 1},
               threads}),
        k(block.k),
        ids(k, Domain{rows, columns == 1 ? 2 : columns}, block.arguments) {}

  void emit() {
    // The ids are a row's scalars in the domain of the updates.
    if (auto read = op.getIds().getDefiningOp<ReadOp>())
      ids.addRead(op.getIds(), pointerOf(op.getIds()),
                  viewOf(read.getFrom().getType()), Access::Row);
    own = block.thread();
    firstRow = k.mul(block.block(), ownRows);
    column = k.add(k.mul(block.block(1), threads), own);
    sums = block.shared(ownRows * threads);
    list = block.shared(atOnce);
    counts = block.shared(warps);
    touched = block.shared(ownRows);
    k.loop(k.i64(0), k.i64(ownRows), 1,
           [&](Value row) { k.storeScalar(k.splat(0.0), sumOf(row)); });
    k.ifThen(k.less(own, k.i64(ownRows)),
             [&] { storeNumber(number(0), k.at(touched, own)); });
    k.loop(k.i64(0), k.i64(rows), atOnce, [&](Value first) {
      addUp(makeList(first));
      // Before the next list is written over this one.
      block.barrier();
    });
    store();
  }

private:
  static constexpr int64_t ownRows = 32;
  /// Ids that a thread looks at, and a block, in a turn: each warp at so many
  /// that follow each other.
  static constexpr int64_t each = 8, atOnce = each * threads,
                           warps = threads / warpSize;
  /// Rows whose elements are loaded before any is added.
  static constexpr int64_t together = 16;

  static int64_t pieces(int64_t things, int64_t size) {
    return static_cast<int64_t>(llvm::divideCeil(things, size));
  }

  Value pointerOf(Value operand) {
    return block.pointers[argumentOf(operand).getArgNumber()];
  }
  Value number(int64_t value) {
    return arith::ConstantIntOp::create(k.b, k.loc, k.b.getI32Type(), value);
  }
  void storeNumber(Value x, Value to) {
    LLVM::StoreOp::create(k.b, k.loc, x, to, /*alignment=*/4);
  }
  Value sumOf(Value row) { return k.at(sums, k.add(k.mul(row, threads), own)); }

  /// Puts the ids from `first` on that are this block's into the list, as the
  /// number of the row of updates and of the table's row in the block; returns
  /// how many there are.
  Value makeList(Value first) {
    Type i32 = k.b.getI32Type();
    SmallVector<Value> isOwn, entry, ballots, counted;
    Value ofWarp = number(0);
    Value firstOfLane =
        k.add(k.add(first, k.mul(block.warp(), each * warpSize)), block.lane());
    for (int64_t i = 0; i != each; ++i) {
      Value row = k.add(firstOfLane, i * warpSize), exists;
      if (rows % atOnce) {
        exists = k.less(row, k.i64(rows));
        row = k.min(row, k.i64(rows - 1));
      }
      ids.beginRow(row);
      // Of 32 bits, as most ids are somebody else's.
      auto narrow = [&](Value x) -> Value {
        return arith::TruncIOp::create(k.b, k.loc, i32, x);
      };
      Value inBlock = k.sub(ids.scalar(op.getIds()), narrow(firstRow));
      Value mine =
          arith::CmpIOp::create(k.b, k.loc, arith::CmpIPredicate::ult, inBlock,
                                number(static_cast<int32_t>(ownRows)));
      mine = block.both(mine, exists);
      isOwn.push_back(mine);
      entry.push_back(k.add(narrow(k.mul(row, ownRows)), inBlock));
      Value ballot = block.ballot(mine);
      ballots.push_back(ballot);
      counted.push_back(ofWarp);
      ofWarp = k.add(ofWarp, LLVM::CtPopOp::create(k.b, k.loc, i32, ballot));
    }
    k.ifThen(k.equal(block.lane(), k.i64(0)),
             [&] { storeNumber(ofWarp, k.at(counts, block.warp())); });
    block.barrier();
    // Where the warp's entries begin.
    Value total = k.i64(0), begin = total;
    for (int64_t warp = 0; warp != warps; ++warp) {
      begin = k.select(k.equal(block.warp(), k.i64(warp)), total, begin);
      total = k.add(total, k.loadInteger(k.at(counts, warp)));
    }
    Value lane = arith::TruncIOp::create(k.b, k.loc, i32, block.lane());
    Value before = arith::SubIOp::create(
        k.b, k.loc, arith::ShLIOp::create(k.b, k.loc, number(1), lane),
        number(1));
    auto append = [&](int64_t i) {
      Value smaller = arith::AndIOp::create(k.b, k.loc, ballots[i], before);
      Value rank =
          k.add(counted[i], LLVM::CtPopOp::create(k.b, k.loc, i32, smaller));
      rank = arith::ExtUIOp::create(k.b, k.loc, k.i64Type, rank);
      storeNumber(entry[i], k.at(list, k.add(begin, rank)));
    };
    // Most warps have none.
    Value some = arith::CmpIOp::create(k.b, k.loc, arith::CmpIPredicate::ne,
                                       ofWarp, number(0));
    k.ifThen(some, [&] {
      for (int64_t i = 0; i != each; ++i)
        k.ifThen(isOwn[i], [&] { append(i); });
    });
    block.barrier();
    return total;
  }

  void addUp(Value count) {
    Value from =
        k.at(pointerOf(op.getUpdates()), k.min(column, k.i64(columns - 1)));
    k.loop(k.i64(0), count, together, [&](Value first) {
      SmallVector<Value> to, update;
      for (int64_t i = 0; i != together; ++i) {
        // Beyond the end the last one's again, as 0.
        Value place = k.add(first, i);
        Value exists = k.less(place, count);
        place = k.min(place, k.sub(count, k.i64(1)));
        Value entry = k.loadInteger(k.at(list, place));
        Value row = k.div(entry, ownRows);
        to.push_back(k.rem(entry, k.i64(ownRows)));
        Value x = k.loadScalar(k.at(from, k.mul(row, columns)));
        update.push_back(block.orElse(exists, x, 0.0));
      }
      for (int64_t i = 0; i != together; ++i) {
        Value sum = k.addf(k.loadScalar(sumOf(to[i])), update[i]);
        k.storeScalar(sum, sumOf(to[i]));
      }
      k.ifThen(k.equal(own, k.i64(0)), [&] {
        for (Value row : to)
          storeNumber(number(1), k.at(touched, row));
      });
    });
  }

  /// Adds the sums to their rows.
  void store() {
    auto add = [&](Value row) {
      Value isTouched = k.less(k.i64(0), k.loadInteger(k.at(touched, row)));
      Value inTable = k.add(firstRow, row);
      if (tableRows % ownRows)
        isTouched = block.both(isTouched, k.less(inTable, k.i64(tableRows)));
      k.ifThen(isTouched, [&] {
        Value at =
            k.at(block.pointers.back(), k.add(k.mul(inTable, columns), column));
        k.storeScalar(k.addf(k.loadScalar(at), k.loadScalar(sumOf(row))), at);
      });
    };
    auto all = [&] { k.loop(k.i64(0), k.i64(ownRows), 1, add); };
    if (columns % threads)
      k.ifThen(k.less(column, k.i64(columns)), all);
    else
      all();
  }

  LaunchOp launch;
  ScatterAddOp op;
  const int64_t rows, columns, tableRows;
  BlockBuilder block;
  KernelBuilder &k;
  ElementEmitter ids;
  Value own, firstRow, column;
  /// In shared memory: of each row and column; the list; entries of each warp;
  /// whether a row of the table is in any list.
  Value sums, list, counts, touched;
};

} // namespace

void cuda::emitScatterAddKernel(ModuleOp module, StringRef name,
                                LaunchOp launch) {
  ScatterAdd(module, name, launch, cast<ScatterAddOp>(launch.getFirstOp()))
      .emit();
}

void cuda::emitCacheUpdateKernel(ModuleOp module, StringRef name,
                                 LaunchOp launch) {
  auto op = cast<CacheUpdateOp>(launch.getFirstOp());
  BlockArgument to = launch.getWriteArgs().front(),
                of = argumentOf(op.getUpdates()),
                at = argumentOf(op.getPositions());
  auto view = [](BlockArgument argument) {
    return viewOf(cast<MemRefType>(argument.getType()));
  };
  View from = view(of), starts = view(at), cache = view(to);
  if (cache.shape[0] != from.shape[0])
    cache.strides[0] = 0; // that of all sequences
  int64_t count = from.numElements();
  BlockBuilder block(
      module, name, launch, bufferCount(launch),
      {{static_cast<int64_t>(llvm::divideCeil(count, threads)), 1, 1},
       threads});
  KernelBuilder &k = block.k;
  auto pointer = [&](BlockArgument argument) {
    return block.pointers[argument.getArgNumber()];
  };
  int64_t capacity = cache.shape[2];
  // Elements only move: nothing asks what they are.
  Type element = memoryType(from.element);
  auto bytes = static_cast<unsigned>(elementBytes(from.element));
  auto move = [&](Value number) {
    Value index[4], rest = number;
    for (size_t axis = 4; axis-- > 0;) {
      index[axis] = axis == 0 ? rest : k.rem(rest, k.i64(from.shape[axis]));
      if (axis != 0)
        rest = k.div(rest, from.shape[axis]);
    }
    Value start = k.loadInteger(k.at(
        pointer(at), k.mul(index[0], starts.strides[0]), k.b.getI32Type()));
    Value position = k.add(start, index[2]);
    auto address = [&](Value base, const View &lies) {
      Value offset = k.i64(0);
      for (size_t axis = 0; axis != 4; ++axis)
        offset = k.add(offset, k.mul(index[axis], lies.strides[axis]));
      return k.at(base, offset, element);
    };
    Value source = address(pointer(of), from);
    auto store = [&] {
      Value moved = LLVM::LoadOp::create(k.b, k.loc, element, source, bytes);
      index[2] = op.getRing() ? k.rem(position, k.i64(capacity)) : position;
      LLVM::StoreOp::create(k.b, k.loc, moved, address(pointer(to), cache),
                            bytes);
    };
    // Rows beyond either end of the cache are left out; a ring has one only.
    Value exists = k.less(k.i64(-1), position);
    if (!op.getRing())
      exists = block.both(exists, k.less(position, k.i64(capacity)));
    k.ifThen(exists, store);
  };
  Value number = block.everyThread();
  if (count % threads == 0)
    move(number);
  else
    k.ifThen(k.less(number, k.i64(count)), [&] { move(number); });
}
