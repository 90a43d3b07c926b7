//===- Machine.h - a GPU that runs on the CPU -------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TESTS_EMULATOR_MACHINE_H
#define TFM_TESTS_EMULATOR_MACHINE_H

#include "tests/emulator/Fiber.h"
#include "tests/emulator/Races.h"
#include "tests/emulator/TensorMap.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace tfm::emulator {

/// Why a launch was given up.
struct Fault {
  enum class Kind {
    /// Two accesses that nothing orders, one of them a write.
    Race,
    /// An access to what a copy that nobody has waited for will write, or a
    /// write of what `wgmma` still reads.
    CopyInFlight,
    /// A kernel ended before it waited for a copy, or for `wgmma`.
    CopyNotAwaited,
    /// Shared memory was read that its block has not written.
    Unwritten,
    /// An access outside of all buffers, or of shared memory.
    OutOfBounds,
    /// An address that is no multiple of what the op claims.
    Misaligned,
    /// Threads of a warp that should meet do not.
    Divergence,
    /// Nobody can go on.
    Deadlock,
    /// Operands that an instruction does not take.
    Misuse,
  };
  Kind kind;
  /// One sentence: the kernel, the block, what happened where.
  std::string text;
};

/// A kernel in this machine's code, and how it is launched.
struct Kernel {
  std::string name;
  /// Calls the kernel with arguments that lie at these addresses.
  void (*run)(void *const *arguments) = nullptr;
  uint32_t arguments = 0;
  /// How many of them, the last ones, are `TensorMap`s.
  uint32_t tensors = 0;
  std::array<uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1};
  /// How many blocks a multiprocessor has room for, where any number of them
  /// does the same; else 0.
  uint32_t resident = 0;
  /// The arguments of which it counts on that nothing is written behind them
  /// while it runs.
  std::vector<uint32_t> onlyRead;
  /// Bytes of shared memory that the kernel declares, and those that a launch
  /// adds, which lie behind them.
  uint32_t staticShared = 0, dynamicShared = 0;
  /// Whether it reads shared memory through the async proxy, as `wgmma` does,
  /// which sees what threads wrote behind their `fence.proxy.async` alone.
  bool readsAsync = false;
  /// What `Site`s stand for.
  const std::vector<std::string> *sites = nullptr;
};

/// What all lanes of a warp do together.
enum class WarpOp : uint32_t {
  Synchronize,
  Shuffle,
  Vote,
  Reduce,
  Elect,
  LoadMatrix,
  StoreMatrix,
  MultiplyBF16,
  /// Of a warp of a warpgroup: what `wgmma` reads is in flight until awaited.
  WarpgroupFence,
  WarpgroupMultiply,
  WarpgroupCommit,
  WarpgroupAwait,
  /// The sums of a product, the site of which is the kind, are read.
  WarpgroupSums,
};

/// Registers that a lane brings to an op of its warp at most: four of A, a
/// descriptor and the sums of `wgmma`.
inline constexpr uint32_t WordCount = 6 + 128;

/// Where the shared memory of a block begins.
inline constexpr uint64_t SharedBase = 0x20000000;

/// A streaming multiprocessor that runs one block after the other, each thread
/// on a stack of its own. Shared memory lies at a fixed address below 4 GiB, so
/// that its pointers have 32 bits; there is one machine in a process. It begins
/// as NaN in every block, and so does what `cp.async` writes until somebody
/// waits for it.
class Machine {
public:
  Machine();
  ~Machine();
  Machine(const Machine &) = delete;
  Machine &operator=(const Machine &) = delete;

  /// Memory that kernels may read and write; without a buffer there is none.
  /// Nothing may lie in two.
  void addBuffer(llvm::StringRef name, void *begin, size_t bytes);
  void removeBuffer(const void *begin);

  /// Bytes from `begin` to before `end`.
  struct Range {
    uint64_t begin, end;
  };
  /// What of the buffers launches may write; none: all.
  void setWritable(std::optional<std::vector<Range>> ranges) {
    writable = std::move(ranges);
  }

  /// Threads that could go on take turns; with a seed they do in random order.
  void setOrder(unsigned seed) { order.seed(this->seed = seed); }

  /// How many rows of matrices `ldmatrix` of the last launch had to read by
  /// themselves, because others of their matrix lie in the same banks.
  uint64_t bankConflicts() const { return conflicts; }

  /// Runs all blocks; each argument lies at an address.
  std::optional<Fault> launch(const Kernel &kernel, void *const *arguments);

  /// The machine whose kernel runs on this thread: what kernels call
  /// (`Calls.cpp`) has no other way to it.
  static Machine &running();

  //===--------------------------------------------------------------------===//
  // What a kernel asks for. None of these returns after a fault.
  //===--------------------------------------------------------------------===//

  /// The special register of that index in `specialRegisters`.
  uint32_t special(uint32_t index) const;
  void access(Site site, uint64_t address, uint32_t size, uint32_t alignment,
              bool writes);
  /// The lanes of `mask` bring up to `WordCount` words each and get some back.
  void collective(Site site, WarpOp op, uint32_t kind, uint32_t mask,
                  uint32_t *words);
  /// Of all threads of the block where `count` is 0.
  void barrier(Site site, uint32_t id, uint32_t count, bool waits);

  void copyAsync(Site site, uint64_t to, uint64_t from, uint32_t size,
                 uint32_t sourceSize);
  void commitCopies();
  /// Until at most so many groups are left.
  void awaitCopies(uint32_t groups);

  /// What this thread wrote to shared memory `wgmma` may read from now on.
  void fenceAsync();

  void initBarrier(Site site, uint64_t address, uint32_t count);
  void invalidateBarrier(Site site, uint64_t address);
  /// Returns the number of the phase.
  uint64_t arrive(Site site, uint64_t address, uint32_t count);
  /// Arrives when all copies of this thread have; the arrival is one of those
  /// that the barrier expects with `counted`.
  void arriveWithCopies(Site site, uint64_t address, bool counted);
  /// Arrives, and announces so many bytes of copies of boxes.
  uint64_t arriveBefore(Site site, uint64_t address, uint32_t bytes);
  /// Copies that go by themselves may arrive at barriers that this thread made.
  void fenceBarriers();
  /// Copies a box of a tensor; its bytes arrive at the barrier.
  void copyBox(Site site, uint64_t to, const TensorMap &tensor,
               std::array<int32_t, TensorMap::MaxRank> first, uint64_t barrier);
  void awaitParity(Site site, uint64_t address, uint32_t parity);
  /// Whether the phase of that number, or parity, is over.
  bool testPhase(Site site, uint64_t address, uint64_t phase, bool isParity);

private:
  struct Copy {
    uint64_t to, from;
    uint32_t size, sourceSize;
    Site site;
  };
  struct Wait {
    enum class For { Nothing, Warp, Barrier, Phase } what = For::Nothing;
    Site site = 0;
    /// The lanes it waits for; the barrier's number or address.
    uint32_t object = 0;
  };
  struct Thread {
    uint32_t id = 0;
    Fiber fiber;
    Clock clock;
    /// Copies since the last commit, and the groups before it.
    std::vector<Copy> open;
    std::vector<std::vector<Copy>> groups;
    /// Pieces of shared memory that it has written since its last fence of the
    /// async proxy.
    std::vector<uint32_t> unfenced;
  };
  /// What `wgmma` of a warp reads until it is waited for: groups of places in
  /// shared memory.
  struct Reading {
    Range bytes;
    Site site;
  };
  struct Group {
    std::vector<Reading> reads;
    /// The products.
    std::set<Site> sites;
  };
  struct Warpgroup {
    /// Whether registers are ordered before the next `wgmma`.
    bool fenced = false;
    Group open;
    std::vector<Group> groups;
  };
  /// What some lanes of a warp have come to and others not yet.
  struct Collective {
    Site site;
    WarpOp op;
    uint32_t kind, mask, arrived;
    uint32_t first;
    std::array<uint32_t *, 32> words;
  };
  /// What its lanes do lies together: each that arrives somewhere asks for all.
  struct Warp {
    std::vector<Collective> pending;
    std::array<Wait, 32> waits;
    /// Lanes that have ended, those that wait for others, and which of these
    /// have come to `site` since one last came elsewhere.
    uint32_t ended = 0, waiting = 0, together = 0;
    Site site = 0;
  };
  struct BlockBarrier {
    uint32_t expected = 0, arrived = 0;
    /// Which lanes of each warp.
    std::array<uint32_t, 32> lanes{};
    std::vector<Thread *> waiting;
    std::vector<uint32_t> clock;
  };
  /// An mbarrier object (PTX ISA, "Parallel Synchronization and Communication
  /// Instructions: mbarrier").
  struct MBarrier {
    uint32_t expected = 0, pending = 0;
    uint64_t phase = 0;
    std::vector<Thread *> waiting;
    /// The clocks of who has arrived in this phase; of all before it.
    std::vector<uint32_t> arriving, arrived;
    struct Attached {
      uint32_t thread, time;
      Copy copy;
    };
    std::vector<Attached> copies;
    /// Who made it, and whether they have fenced it since.
    uint32_t maker = 0;
    bool fenced = false;
    /// Bytes of boxes that were announced in this phase, and the pieces of
    /// those that have been asked for.
    uint64_t announced = 0, bytes = 0;
    std::vector<Attached> pieces;
  };
  struct Buffer {
    std::string name;
    size_t bytes;
    Shadow shadow;
  };
  struct Place {
    Shadow *shadow;
    size_t offset;
    Races::Memory memory;
  };

  std::optional<Fault> runBlock();
  static void enter();
  void leave(Wait wait);
  void wake(Thread &thread);
  void end();
  [[noreturn]] void fail(Fault::Kind kind, std::string text);
  Fault deadlock() const;

  std::string name(const Thread &thread) const;
  std::string name(uint32_t warp, uint32_t lanes) const;
  std::string place(uint64_t address) const;
  const std::string &location(Site site) const;
  std::string waitsFor(const Wait &wait) const;

  bool mayWrite(uint64_t address, uint32_t size) const;
  Place find(Site site, uint64_t address, uint32_t size, bool writes);
  void check(Thread &thread, Site site, uint64_t address, uint32_t size,
             uint32_t alignment, bool writes, bool inFlight = false);
  void arriveAt(const Copy &copy, uint32_t thread, uint32_t time);
  void bring(const Copy &copy, uint32_t thread, uint32_t time);

  void tell(Thread &thread, std::vector<uint32_t> &clock) const;
  void hear(Thread &thread, const std::vector<uint32_t> &clock) const;
  void meet(llvm::ArrayRef<Thread *> those) const;
  const Wait &waitOf(const Thread &thread) const {
    return warps[thread.id / 32].waits[thread.id % 32];
  }
  bool hasEnded(const Thread &thread) const {
    return warps[thread.id / 32].ended >> thread.id % 32 & 1;
  }
  /// Which lanes of the thread's warp must come to where it waits.
  uint32_t needs(const Wait &wait) const;
  void checkConverged(Site site, uint32_t needed, uint32_t wentOn = 0);

  void perform(Collective &collective);
  void loadMatrix(Collective &collective);
  void storeMatrix(Collective &collective);
  void multiplyWarpgroup(Collective &collective);
  void readAsync(const Collective &collective, Range bytes);
  void checkNotRead(const Thread &thread, Site site, uint64_t address,
                    uint32_t size);
  void noteWritten(Thread &thread, uint64_t address, uint32_t size);
  void checkRows(const Collective &collective, uint32_t count, bool writes);

  MBarrier &mbarrier(Site site, uint64_t address);
  void countArrival(MBarrier &barrier, uint32_t count);
  void endPhase(MBarrier &barrier);

  std::map<uint64_t, Buffer> buffers;
  std::pair<const uint64_t, Buffer> *lastBuffer = nullptr;
  std::optional<std::vector<Range>> writable;
  char *shared, *stacks;
  Shadow sharedShadow;
  Races races;
  unsigned seed = 0;
  std::mt19937 order;

  // Of the launch that runs.
  const Kernel *kernel = nullptr;
  void *const *arguments = nullptr;
  std::array<uint32_t, 3> blockIndex{};
  uint32_t threadCount = 0;
  // Of the block that runs.
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<Warpgroup> readers; ///< by warp
  /// How often threads have written each piece of 16 bytes of shared memory
  /// that they have not fenced since.
  std::vector<uint16_t> unfenced;
  std::array<BlockBarrier, 16> barriers;
  std::map<uint32_t, MBarrier> mbarriers;
  std::deque<Thread *> ready;
  Fiber scheduler;
  Thread *current = nullptr;
  uint32_t endedCount = 0;
  /// How often in a row somebody looked at a phase that was not over.
  uint32_t polls = 0;
  std::optional<Fault> fault;
  uint64_t conflicts = 0;
};

/// What `nvvm.read.ptx.sreg.` is followed by.
extern const llvm::ArrayRef<llvm::StringLiteral> specialRegisters;

/// What lanes bring and take in registers; those of ldmatrix and stmatrix are
/// `Machine`'s, which knows about memory.
void shuffle(llvm::ArrayRef<uint32_t *> words, uint32_t mask, uint32_t kind);
void vote(llvm::ArrayRef<uint32_t *> words, uint32_t mask, uint32_t kind);
bool reduce(llvm::ArrayRef<uint32_t *> words, uint32_t mask, uint32_t kind);
void multiplyBF16(llvm::ArrayRef<uint32_t *> words);

} // namespace tfm::emulator

#endif // TFM_TESTS_EMULATOR_MACHINE_H
