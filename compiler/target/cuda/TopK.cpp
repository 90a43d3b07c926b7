//===- TopK.cpp - the largest of each row ---------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cuda/TopK.h"

#include "compiler/dialect/TfmDialect.h"
#include "compiler/schedule/Launches.h"
#include "compiler/target/cuda/BlockBuilder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tfm;
using namespace tfm::cuda;
using namespace tfm::sched;

namespace {

/// An element is compared by its *rank*, a whole number of 64 bits without a
/// sign: the upper half is larger for larger floats, the lower one for smaller
/// indices. No two ranks of a row are equal, so what is chosen, and in which
/// order, is settled by ranks alone, whoever finds an element when.
///
/// A block reads its row twice. First each thread keeps the largest of its
/// elements: what k threads' largest reach, k elements of the row do. Then
/// those that reach that are gathered in a list in shared memory, which is
/// sorted at the end; of most rows they are little more than k. Where they
/// become more than there is room for, the list is sorted at once, and only its
/// first k stay, the last of which is what others have to reach from then on.
class TopK {
public:
  TopK(ModuleOp module, StringRef name, LaunchOp launch, TopKOp op)
      : count(static_cast<int64_t>(op.getK())),
        columns(tensorType(op.getX()).getShape().back()),
        threads(threadsFor(columns, count)),
        block(module, name, launch,
              launch.getReads().size() + launch.getWrites().size(),
              {{tensorType(op.getX()).getNumElements() / columns, 1, 1},
               threads}),
        k(block.k), i32(k.b.getI32Type()) {
    auto pointerOf = [&](BlockArgument argument) {
      return block.pointers[argument.getArgNumber()];
    };
    x = pointerOf(argumentOf(op.getX()));
    for (BlockArgument argument : launch.getWriteArgs())
      (launch.getWriteOf(argument.getArgNumber()).getValue() == op.getValues()
           ? values
           : indices) = pointerOf(argument);
  }

  void emit() {
    own = block.thread();
    lane = block.lane();
    warp = block.warp();
    Value row = block.block();
    x = k.at(x, k.mul(row, columns));
    list = block.shared(2 * (count + atOnce()));
    counts = block.shared(2 * warpSize);
    Value gathered = gather(reached());
    block.barrier();
    sort(gathered);
    k.ifThen(k.less(own, k.i64(count)), [&] {
      Value index = indexOf(loadRank(own));
      Value to = k.add(k.mul(row, count), own);
      store(load(k.at(x, index)), k.at(values, to));
      store(arith::TruncIOp::create(k.b, k.loc, i32, index), k.at(indices, to));
    });
  }

private:
  /// Elements that a thread loads before it looks at one, in a turn.
  static constexpr int64_t each = 8;
  static constexpr int64_t mostThreads = 512;
  static_assert(mostChosen <= mostThreads);
  /// How many of the upper bits of floats tell them apart well enough to know
  /// which are worth to be gathered: all but the last ones.
  static constexpr int64_t boundBits = 20;
  static_assert(boundBits % 2 == 0, "slots take turns");

  /// As many as are busy, and have k largest.
  static int64_t threadsFor(int64_t columns, int64_t count) {
    auto wanted =
        static_cast<uint64_t>(std::max(count, (columns + each - 1) / each));
    return std::clamp(static_cast<int64_t>(llvm::PowerOf2Ceil(wanted)),
                      warpSize, mostThreads);
  }
  int64_t atOnce() const { return threads * each; }
  int64_t warps() const { return threads / warpSize; }

  Value number(int64_t value) {
    return arith::ConstantIntOp::create(k.b, k.loc, i32, value);
  }
  Value load(Value from) {
    return LLVM::LoadOp::create(k.b, k.loc, i32, from, /*alignment=*/4);
  }
  void store(Value value, Value to) {
    LLVM::StoreOp::create(k.b, k.loc, value, to, /*alignment=*/4);
  }
  Value placeOf(Value number) { return k.at(list, number, k.i64Type); }
  Value loadRank(Value number) {
    return LLVM::LoadOp::create(k.b, k.loc, k.i64Type, placeOf(number),
                                /*alignment=*/8);
  }
  void storeRank(Value rank, Value number) {
    LLVM::StoreOp::create(k.b, k.loc, rank, placeOf(number), /*alignment=*/8);
  }
  Value reaches(Value rank, Value other) {
    return arith::CmpIOp::create(k.b, k.loc, arith::CmpIPredicate::uge, rank,
                                 other);
  }
  Value shiftLeft(Value x, Value by) {
    return arith::ShLIOp::create(k.b, k.loc, x, by);
  }
  Value shiftRight(Value x, Value by) {
    return arith::ShRUIOp::create(k.b, k.loc, x, by);
  }
  Value bits(Value x, Value mask) {
    return arith::AndIOp::create(k.b, k.loc, x, mask);
  }
  Value ones(Value ballot) {
    return LLVM::CtPopOp::create(k.b, k.loc, i32, ballot);
  }
  Value wide(Value x) {
    return arith::ExtUIOp::create(k.b, k.loc, k.i64Type, x);
  }

  /// The upper half of the rank of an f32, given its bits: of one sign they are
  /// ordered as whole numbers. Both zeros are equal, and above all is NaN.
  Value keyOf(Value bitsOf) {
    Value magnitude = bits(bitsOf, number(0x7FFFFFFF));
    Value isZero = k.equal(magnitude, number(0));
    bitsOf = k.select(isZero, magnitude, bitsOf);
    Value sign = arith::ShRSIOp::create(k.b, k.loc, bitsOf, number(31));
    Value flips = arith::OrIOp::create(k.b, k.loc, sign, number(INT32_MIN));
    Value key = block.exclusiveOr(bitsOf, flips);
    Value isNumber = arith::CmpIOp::create(
        k.b, k.loc, arith::CmpIPredicate::ule, magnitude, number(0x7F800000));
    return k.select(isNumber, key, number(-1));
  }
  Value rankOf(Value key, Value index) {
    return arith::OrIOp::create(k.b, k.loc, shiftLeft(wide(key), k.i64(32)),
                                k.sub(k.i64(UINT32_MAX), index));
  }
  Value indexOf(Value rank) {
    return k.sub(k.i64(UINT32_MAX), bits(rank, k.i64(UINT32_MAX)));
  }

  /// This thread's elements of a turn that begins at `first`: index, key, and
  /// whether there is one (null: there is).
  struct Element {
    Value index, key, exists;
  };
  SmallVector<Element> loadTurn(Value first) {
    SmallVector<Element> elements;
    auto add = [&](Value index, Value from, Value exists) {
      elements.push_back({index, load(from), exists});
    };
    bool isOnly = columns < atOnce();
    // The last turn begins so early that it is a whole one: addresses are those
    // of a turn and constants. What has been seen does not count again.
    Value begin = first, seen;
    if (!isOnly && columns % atOnce()) {
      begin = k.min(first, k.i64(columns - atOnce()));
      seen = k.sub(k.sub(first, begin), k.i64(1));
    }
    Value from = k.at(x, k.add(begin, own));
    for (int64_t i = 0; i != each; ++i) {
      Value place = k.add(own, i * threads);
      if (isOnly)
        add(place, k.at(x, k.min(place, k.i64(columns - 1))),
            k.less(place, k.i64(columns)));
      else
        add(k.add(begin, place), k.at(from, i * threads),
            seen ? k.less(seen, place) : Value());
    }
    for (Element &element : elements)
      element.key = keyOf(element.key);
    return elements;
  }

  /// The sum of a number of every warp, which its first lane knows, and the sum
  /// of those of the warps before this one. Two calls that follow each other
  /// have another `slot`, 0 or 1, each: so one barrier will do.
  struct Sums {
    Value all, before;
  };
  Sums sumOfWarps(Value x, Value slot) {
    Value first = k.mul(slot, warpSize);
    k.ifThen(k.equal(lane, k.i64(0)),
             [&] { store(x, k.at(counts, k.add(first, warp))); });
    block.barrier();
    Value place = k.min(lane, k.i64(warps() - 1));
    Value of = load(k.at(counts, k.add(first, place)));
    auto sum = [&](Value warpsIncluded) {
      Value counted = k.select(k.less(lane, warpsIncluded), of, number(0));
      return NVVM::ReduxOp::create(k.b, k.loc, i32, counted,
                                   NVVM::ReduxKind::ADD, number(-1));
    };
    return {sum(k.i64(warps())), sum(warp)};
  }

  /// A rank that k elements reach at least.
  Value reached() {
    Value largest =
        k.loop(k.i64(0), k.i64(columns), atOnce(), number(0),
               [&](Value first, ValueRange carried) -> SmallVector<Value> {
                 Value best = carried[0];
                 for (const Element &element : loadTurn(first)) {
                   Value key = element.key;
                   if (element.exists)
                     key = k.select(element.exists, key, number(0));
                   best = arith::MaxUIOp::create(k.b, k.loc, best, key);
                 }
                 return {best};
               })[0];
    // Bit by bit, the largest number that k threads reach.
    Value key = k.loop(
        k.i64(0), k.i64(boundBits), 1, number(0),
        [&](Value round, ValueRange carried) -> SmallVector<Value> {
          Value by = arith::TruncIOp::create(k.b, k.loc, i32, round);
          Value bit = shiftRight(number(INT32_MIN), by);
          Value higher = arith::OrIOp::create(k.b, k.loc, carried[0], bit);
          Value ballot = block.ballot(reaches(largest, higher));
          Sums sums = sumOfWarps(ones(ballot), k.rem(round, k.i64(2)));
          return {
              k.select(reaches(sums.all, number(count)), higher, carried[0])};
        })[0];
    return shiftLeft(wide(key), k.i64(32));
  }

  /// Fills the list with what reaches `least`, and returns how many there are.
  Value gather(Value least) {
    Value before = arith::SubIOp::create(
        k.b, k.loc,
        shiftLeft(number(1), arith::TruncIOp::create(k.b, k.loc, i32, lane)),
        number(1));
    auto turn = [&](Value first, ValueRange carried) -> SmallVector<Value> {
      Value least = carried[0], gathered = carried[1];
      SmallVector<Value> ranks, isOne, ballots;
      Value found = number(0);
      for (const Element &element : loadTurn(first)) {
        ranks.push_back(rankOf(element.key, element.index));
        isOne.push_back(
            block.both(reaches(ranks.back(), least), element.exists));
        ballots.push_back(block.ballot(isOne.back()));
        found = arith::AddIOp::create(k.b, k.loc, found, ones(ballots.back()));
      }
      Value slot = k.rem(k.div(first, atOnce()), k.i64(2));
      Sums sums = sumOfWarps(found, slot);
      Value total = k.add(gathered, wide(sums.all));
      // All threads agree on it.
      auto full = scf::IfOp::create(
          k.b, k.loc, k.less(k.i64(count + atOnce()), total),
          [&](OpBuilder &, Location) {
            sort(gathered);
            scf::YieldOp::create(k.b, k.loc,
                                 {loadRank(k.i64(count - 1)), k.i64(count)});
          },
          [&](OpBuilder &, Location) {
            scf::YieldOp::create(k.b, k.loc, {least, gathered});
          });
      least = full.getResult(0);
      gathered = full.getResult(1);
      Value place = k.add(gathered, wide(sums.before));
      for (int64_t i = 0; i != each; ++i) {
        k.ifThen(isOne[i], [&] {
          storeRank(ranks[i],
                    k.add(place, wide(ones(bits(ballots[i], before)))));
        });
        place = k.add(place, wide(ones(ballots[i])));
      }
      return {least, k.add(gathered, wide(sums.all))};
    };
    return k.loop(k.i64(0), k.i64(columns), atOnce(), {least, k.i64(0)},
                  turn)[1];
  }

  /// Sorts the first `size` of the list, which are behind a barrier, the
  /// largest first, for all threads to read: bitonic merges of runs that
  /// double, each mirrored first, so that the larger of two always goes to the
  /// front. What would be behind the end, the smallest of all, then stays
  /// there, and need not exist.
  void sort(Value size) {
    // The logarithm, rounded up.
    Value last =
        arith::TruncIOp::create(k.b, k.loc, i32, k.sub(size, k.i64(1)));
    Value doublings =
        k.sub(k.i64(32), wide(LLVM::CountLeadingZerosOp::create(
                             k.b, k.loc, i32, last, /*is_zero_poison=*/false)));
    Value one = k.i64(1);
    Value pairs = shiftRight(shiftLeft(one, doublings), one);
    k.loop(one, k.add(doublings, 1), 1, [&](Value doubling) {
      k.loop(k.i64(0), doubling, 1, [&](Value step) {
        Value log = k.sub(k.sub(doubling, one), step);
        Value distance = shiftLeft(one, log);
        Value below = k.sub(distance, one);
        // Mirrored all bits differ, else one.
        Value differs =
            k.select(k.equal(step, k.i64(0)), k.add(distance, below), distance);
        k.loop(own, pairs, threads, [&](Value pair) {
          Value front = k.add(shiftLeft(shiftRight(pair, log), k.add(log, 1)),
                              bits(pair, below));
          Value back = block.exclusiveOr(front, differs);
          k.ifThen(k.less(back, size), [&] {
            Value x = loadRank(front), y = loadRank(back);
            k.ifThen(reaches(y, x), [&] {
              storeRank(y, front);
              storeRank(x, back);
            });
          });
        });
        block.barrier();
      });
    });
  }

  const int64_t count, columns, threads;
  BlockBuilder block;
  KernelBuilder &k;
  const Type i32;
  /// The row, and where what is chosen goes.
  Value x, values, indices;
  Value own, lane, warp;
  /// In shared memory: ranks, and two slots of a number of every warp.
  Value list, counts;
};

} // namespace

LogicalResult cuda::emitTopKKernel(ModuleOp module, StringRef name,
                                   LaunchOp launch) {
  auto op = cast<TopKOp>(launch.getFirstOp());
  if (static_cast<int64_t>(op.getK()) > mostChosen)
    return launch.emitError()
           << "a GPU chooses " << mostChosen << " of a row at most";
  TopK(module, name, launch, op).emit();
  return success();
}
