//===- Meetings.cpp - where threads of the emulator wait for each other ---===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tests/emulator/Machine.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/FormatVariadic.h"

#include <cstring>

using namespace tfm::emulator;
using llvm::formatv;

//===----------------------------------------------------------------------===//
// Lanes of a warp, and barriers of a block
//===----------------------------------------------------------------------===//

uint32_t Machine::needs(const Wait &wait) const {
  switch (wait.what) {
  case Wait::For::Barrier:
    // bar.sync is `.aligned`: of all threads of a warp, or of none.
    return ~0u;
  case Wait::For::Warp:
    return wait.object;
  default:
    return 0;
  }
}

/// The running thread is at `site`, which needs some lanes of its warp, or has
/// ended (0): no lane that waits elsewhere may need it there, but for those
/// that have been here and `wentOn`.
void Machine::checkConverged(Site site, uint32_t needed, uint32_t wentOn) {
  uint32_t number = current->id / 32, lane = current->id % 32;
  const Warp &warp = warps[number];
  uint32_t awaited = needed & ~wentOn, gone = awaited & warp.ended;
  uint32_t others = (site ? awaited : ~0u) & warp.waiting;
  if (warp.site == site)
    others &= ~warp.together;
  uint32_t elsewhere = 0;
  Site there = 0;
  for (; others; others &= others - 1) {
    uint32_t other = llvm::countr_zero(others);
    const Wait &wait = warp.waits[other];
    if (wait.site == site || !(needs(wait) >> lane & 1))
      continue;
    elsewhere |= 1u << other;
    there = wait.site;
  }
  if (elsewhere)
    fail(Fault::Kind::Divergence,
         formatv("{0} {1}, while {2} wait for it at {3}", name(*current),
                 site ? "is at " + location(site) : std::string("has ended"),
                 name(number, elsewhere), location(there)));
  if (gone)
    fail(Fault::Kind::Divergence,
         formatv("{0} is at {1}, but {2} have ended", name(*current),
                 location(site), name(number, gone)));
}

void Machine::collective(Site site, WarpOp op, uint32_t kind, uint32_t mask,
                         uint32_t *words) {
  uint32_t lane = current->id % 32, self = 1u << lane;
  if (!(mask & self))
    fail(Fault::Kind::Misuse, formatv("{0} is not in the mask {1:x} at {2}",
                                      name(*current), mask, location(site)));
  checkConverged(site, mask);
  std::vector<Collective> &pending = warps[current->id / 32].pending;
  auto here = llvm::find_if(pending, [&](const Collective &each) {
    return each.site == site && each.op == op && each.kind == kind &&
           each.mask == mask && !(each.arrived & self);
  });
  if (here == pending.end()) {
    pending.push_back({site, op, kind, mask, 0, current->id - lane, {}});
    here = std::prev(pending.end());
  }
  here->arrived |= self;
  here->words[lane] = words;
  if (here->arrived != mask)
    return leave({Wait::For::Warp, site, mask});
  Collective complete = *here;
  pending.erase(here);
  polls = 0;
  perform(complete);
  for (uint32_t other = 0; other < 32; ++other)
    if (other != lane && mask >> other & 1)
      wake(threads[complete.first + other]);
}

void Machine::perform(Collective &collective) {
  switch (collective.op) {
  case WarpOp::Synchronize: {
    std::vector<Thread *> lanes;
    for (uint32_t lane = 0; lane < 32; ++lane)
      if (collective.mask >> lane & 1)
        lanes.push_back(&threads[collective.first + lane]);
    return meet(lanes);
  }
  // Values go from lane to lane; memory is not ordered by that ("shfl.sync" and
  // the others promise nothing of the kind).
  case WarpOp::Shuffle:
    return shuffle(collective.words, collective.mask, collective.kind);
  case WarpOp::Vote:
    return vote(collective.words, collective.mask, collective.kind);
  case WarpOp::Reduce:
    if (!reduce(collective.words, collective.mask, collective.kind))
      fail(Fault::Kind::Misuse,
           formatv("no such reduction at {0}", location(collective.site)));
    return;
  case WarpOp::Elect:
    for (uint32_t lane = 0; lane < 32; ++lane)
      if (collective.mask >> lane & 1)
        collective.words[lane][0] =
            collective.mask >> lane << lane == collective.mask;
    return;
  case WarpOp::LoadMatrix:
    return loadMatrix(collective);
  case WarpOp::StoreMatrix:
    return storeMatrix(collective);
  case WarpOp::MultiplyBF16:
    return multiplyBF16(collective.words);
  case WarpOp::WarpgroupFence:
    readers[collective.first / 32].fenced = true;
    return;
  case WarpOp::WarpgroupMultiply:
    return multiplyWarpgroup(collective);
  case WarpOp::WarpgroupCommit: {
    Warpgroup &warp = readers[collective.first / 32];
    warp.groups.push_back(std::exchange(warp.open, {}));
    return;
  }
  case WarpOp::WarpgroupAwait: {
    Warpgroup &warp = readers[collective.first / 32];
    while (warp.groups.size() > collective.kind)
      warp.groups.erase(warp.groups.begin());
    warp.fenced = false;
    return;
  }
  case WarpOp::WarpgroupSums: {
    const Warpgroup &warp = readers[collective.first / 32];
    auto has = [&](const Group &group) {
      return group.sites.count(collective.kind) != 0;
    };
    if (has(warp.open) || llvm::any_of(warp.groups, has))
      fail(Fault::Kind::CopyInFlight,
           formatv("{0} read the sums of the product at {1} at {2}, which "
                   "nobody has waited for",
                   name(collective.first / 32, ~0u), location(collective.kind),
                   location(collective.site)));
    return;
  }
  }
}

void Machine::barrier(Site site, uint32_t id, uint32_t count, bool waits) {
  uint32_t expected = count ? count : threadCount;
  if (id >= barriers.size() || expected % 32 || expected > threadCount)
    fail(Fault::Kind::Misuse,
         formatv("{0} is at barrier {1} of {2} threads at {3}", name(*current),
                 id, expected, location(site)));
  BlockBarrier &barrier = barriers[id];
  uint32_t &lanes = barrier.lanes[current->id / 32], wentOn = lanes;
  for (const Thread *other : barrier.waiting)
    if (other->id / 32 == current->id / 32)
      wentOn &= ~(1u << other->id % 32);
  checkConverged(site, ~0u, wentOn);
  if (barrier.arrived && barrier.expected != expected)
    fail(Fault::Kind::Misuse,
         formatv("{0} is at barrier {1} of {2} threads at {3}, which others "
                 "take for one of {4}",
                 name(*current), id, expected, location(site),
                 barrier.expected));
  polls = 0;
  barrier.expected = expected;
  ++barrier.arrived;
  lanes |= 1u << current->id % 32;
  if (waits)
    barrier.waiting.push_back(current);
  else
    tell(*current, barrier.clock);
  if (barrier.arrived < expected)
    return waits ? leave({Wait::For::Barrier, site, id}) : void();
  BlockBarrier complete = std::exchange(barrier, {});
  if (complete.waiting.size() == threadCount) {
    // What was known is of an earlier phase; times go on, since some may still
    // be told what they were.
    races.beginPhase();
    for (Thread &thread : threads)
      thread.clock.known = nullptr;
  } else {
    for (Thread *thread : complete.waiting)
      tell(*thread, complete.clock);
    for (Thread *thread : complete.waiting)
      hear(*thread, complete.clock);
  }
  for (Thread *thread : complete.waiting)
    if (thread != current)
      wake(*thread);
}

//===----------------------------------------------------------------------===//
// mbarrier objects
//===----------------------------------------------------------------------===//

void Machine::initBarrier(Site site, uint64_t address, uint32_t count) {
  check(*current, site, address, 8, 8, true);
  MBarrier &barrier = mbarriers[address] = {};
  barrier.expected = barrier.pending = count;
  barrier.maker = current->id;
}

void Machine::fenceBarriers() {
  for (auto &[address, barrier] : mbarriers)
    barrier.fenced |= barrier.maker == current->id;
}

void Machine::invalidateBarrier(Site site, uint64_t address) {
  mbarrier(site, address);
  check(*current, site, address, 8, 8, true);
  mbarriers.erase(address);
}

Machine::MBarrier &Machine::mbarrier(Site site, uint64_t address) {
  auto found = mbarriers.find(address);
  if (found == mbarriers.end())
    fail(Fault::Kind::Misuse,
         formatv("{0} uses {1} as an mbarrier, where none was made, at {2}",
                 name(*current), place(address), location(site)));
  // Whoever uses it is after its making, and before its end.
  check(*current, site, address, 8, 8, false);
  return found->second;
}

void Machine::countArrival(MBarrier &barrier, uint32_t count) {
  barrier.pending -= count;
  endPhase(barrier);
}

/// Where all have arrived.
void Machine::endPhase(MBarrier &barrier) {
  polls = 0;
  if (barrier.pending || barrier.bytes < barrier.announced)
    return;
  for (const MBarrier::Attached &piece : barrier.pieces)
    bring(piece.copy, piece.thread, piece.time);
  barrier.pieces.clear();
  barrier.announced = barrier.bytes = 0;
  for (const MBarrier::Attached &attached : barrier.copies)
    arriveAt(attached.copy, attached.thread, attached.time);
  barrier.copies.clear();
  ++barrier.phase;
  barrier.pending = barrier.expected;
  barrier.arrived.resize(threadCount);
  for (auto [known, news] : llvm::zip(barrier.arrived, barrier.arriving))
    known = std::max(known, news);
  barrier.arriving.clear();
  for (Thread *thread : std::exchange(barrier.waiting, {})) {
    hear(*thread, barrier.arrived);
    wake(*thread);
  }
}

uint64_t Machine::arrive(Site site, uint64_t address, uint32_t count) {
  MBarrier &barrier = mbarrier(site, address);
  if (count == 0 || count > barrier.pending)
    fail(
        Fault::Kind::Misuse,
        formatv("{0} arrives {1} times at an mbarrier that expects {2} more in "
                "this phase, at {3}",
                name(*current), count, barrier.pending, location(site)));
  uint64_t phase = barrier.phase;
  tell(*current, barrier.arriving);
  countArrival(barrier, count);
  return phase;
}

void Machine::arriveWithCopies(Site site, uint64_t address, bool counted) {
  MBarrier &barrier = mbarrier(site, address);
  uint32_t time = current->clock.own;
  tell(*current, barrier.arriving);
  auto attach = [&](std::vector<Copy> &copies) {
    for (const Copy &copy : copies)
      barrier.copies.push_back({current->id, time, copy});
    copies.clear();
  };
  llvm::for_each(current->groups, attach);
  attach(current->open);
  // Without `.noinc` the arrival is one more than the barrier expects.
  if (counted)
    countArrival(barrier, 1);
}

uint64_t Machine::arriveBefore(Site site, uint64_t address, uint32_t bytes) {
  mbarrier(site, address).announced += bytes;
  return arrive(site, address, 1);
}

/// "Data Movement and Conversion Instructions: cp.async.bulk.tensor", with
/// ".tile" and the swizzling of 128 bytes ("Tensors: Swizzling Modes").
void Machine::copyBox(Site site, uint64_t to, const TensorMap &tensor,
                      std::array<int32_t, TensorMap::MaxRank> first,
                      uint64_t address) {
  MBarrier &barrier = mbarrier(site, address);
  auto misuse = [&](const char *what) {
    fail(Fault::Kind::Misuse, formatv("{0} copies a box {1} at {2}",
                                      name(*current), what, location(site)));
  };
  if (tensor.magic != TensorMap::Magic)
    misuse("of what is no tensor");
  if (!barrier.fenced)
    misuse("whose barrier was made without a fence");
  constexpr uint32_t alignment = 128, pieceBytes = 16;
  if (to % alignment)
    fail(Fault::Kind::Misaligned,
         formatv("{0} copies a box to {1}, which is no multiple of {2}, at {3}",
                 name(*current), place(to), alignment, location(site)));
  constexpr uint32_t pieceElements = pieceBytes / TensorMap::ElementBytes;
  uint32_t time = current->clock.own;
  uint32_t rowBytes = tensor.box[0] * TensorMap::ElementBytes, rows = 1;
  for (uint32_t axis = 1; axis < tensor.rank; ++axis)
    rows *= tensor.box[axis];
  for (uint32_t row = 0; row != rows; ++row) {
    bool exists = true;
    uint64_t from = tensor.first;
    for (uint32_t axis = 1, rest = row; axis < tensor.rank;
         rest /= tensor.box[axis++]) {
      int64_t index = first[axis] + int64_t{rest % tensor.box[axis]};
      exists &= index >= 0 && index < tensor.sizes[axis];
      from += static_cast<uint64_t>(index) * tensor.strides[axis - 1];
    }
    for (uint32_t piece = 0; piece != rowBytes / pieceBytes; ++piece) {
      int64_t column = first[0] + int64_t{piece} * pieceElements;
      if (column < 0)
        misuse("that begins before its tensor");
      int64_t count = std::clamp<int64_t>(tensor.sizes[0] - column, 0,
                                          exists ? pieceElements : 0);
      uint64_t at = to + uint64_t{row} * rowBytes + piece * pieceBytes;
      at ^= (at >> 7 & 7) << 4;
      Copy copy{at,
                from + static_cast<uint64_t>(column) * TensorMap::ElementBytes,
                pieceBytes,
                static_cast<uint32_t>(count) * TensorMap::ElementBytes, site};
      if (copy.sourceSize)
        check(*current, site, copy.from, copy.sourceSize,
              TensorMap::ElementBytes, false);
      check(*current, site, at, pieceBytes, pieceBytes, true, true);
      std::memset(reinterpret_cast<void *>(at), 0xff, pieceBytes);
      barrier.pieces.push_back({current->id, time, copy});
    }
  }
  tell(*current, barrier.arriving);
  barrier.bytes += uint64_t{rows} * rowBytes;
  if (barrier.bytes > barrier.announced)
    misuse("of more bytes than were announced to its barrier");
  endPhase(barrier);
}

void Machine::awaitParity(Site site, uint64_t address, uint32_t parity) {
  MBarrier &barrier = mbarrier(site, address);
  if ((barrier.phase & 1) != (parity & 1))
    return hear(*current, barrier.arrived);
  barrier.waiting.push_back(current);
  leave({Wait::For::Phase, site, static_cast<uint32_t>(address)});
}

bool Machine::testPhase(Site site, uint64_t address, uint64_t phase,
                        bool isParity) {
  MBarrier &barrier = mbarrier(site, address);
  if (isParity ? (barrier.phase & 1) != (phase & 1) : barrier.phase > phase) {
    hear(*current, barrier.arrived);
    return true;
  }
  if (++polls > 4 * threadCount) {
    // Everybody had the time to change something.
    Wait &wait = warps[current->id / 32].waits[current->id % 32];
    wait = {Wait::For::Phase, site, static_cast<uint32_t>(address)};
    fault = deadlock();
    scheduler.resume(current->fiber);
  }
  wake(*current);
  leave({});
  return false;
}
