//===- Races.h - accesses to memory that nothing orders ---------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TESTS_EMULATOR_RACES_H
#define TFM_TESTS_EMULATOR_RACES_H

#include "llvm/ADT/DenseMap.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

namespace tfm::emulator {

/// An op of a kernel: an index into its program's table of locations.
using Site = uint32_t;

/// The time of a thread, and how far it is after the other threads of its block
/// (Lamport 1978; Mattern 1988). Time goes on where a thread tells others that
/// they are after it.
struct Clock {
  uint32_t own = 1;
  /// Up to which time of each thread what it did is ordered before what this
  /// one does; null where nothing is. Threads that a barrier let go share one.
  std::shared_ptr<const std::vector<uint32_t>> known;

  uint32_t of(uint32_t thread) const { return known ? (*known)[thread] : 0; }
};

/// Who wrote four bytes of memory last, and who has read them since. A *phase*
/// ends where all threads of a block meet at a barrier: what was done in an
/// earlier one is ordered before all that is done in a later one.
struct Cell {
  uint32_t writePhase = 0, writeClock = 0;
  uint32_t readPhase = 0;
  /// A set of readers (`Races`).
  uint32_t readers = 0;
  Site writeSite = 0, readSite = 0;
  /// Where the four bytes are told apart, counted from 1.
  uint32_t bytes = 0;
  uint32_t writer = 0;
};

/// The cells of a stretch of memory that begins at a multiple of four.
class Shadow {
public:
  explicit Shadow(size_t bytes) : words((bytes + 3) / 4) {}

  /// Calls `visit` for the cells of `size` bytes from `offset` on, until it
  /// returns something; whole words as long as nobody has touched a part of
  /// one.
  template <typename Visit>
  auto forEach(size_t offset, size_t size, Visit visit)
      -> decltype(visit(std::declval<Cell &>())) {
    for (size_t end = offset + size; offset < end;) {
      Cell &word = words[offset / 4];
      size_t step = std::min(end, offset / 4 * 4 + 4) - offset;
      if (step == 4 && !word.bytes) {
        if (auto found = visit(word))
          return found;
      } else {
        std::array<Cell, 4> &bytes = split(word);
        for (size_t i = 0; i < step; ++i)
          if (auto found = visit(bytes[offset % 4 + i]))
            return found;
      }
      offset += step;
    }
    return {};
  }

private:
  std::array<Cell, 4> &split(Cell &word) {
    if (!word.bytes) {
      parts.push_back({word, word, word, word});
      word.bytes = parts.size();
    }
    return parts[word.bytes - 1];
  }

  std::vector<Cell> words;
  std::deque<std::array<Cell, 4>> parts;
};

/// Finds two accesses to the same memory, one of them a write, that nothing
/// orders; reads of what a copy in flight is going to write; and reads of what
/// nobody has written.
class Races {
public:
  /// An earlier access that does not go together with a new one.
  struct Conflict {
    enum class Kind { Race, InFlight, Unwritten } kind;
    bool earlierWrote = false, otherBlock = false;
    /// Of its block.
    uint32_t thread = 0;
    Site site = 0;
  };

  /// All that was done before is ordered before what is done from now on.
  void beginLaunch();
  /// A block of so many threads begins, which nothing orders with the others of
  /// its launch.
  void beginBlock(uint32_t threads);
  /// All threads of the block have met.
  void beginPhase();

  /// Memory that each block has for itself must be written before it is read;
  /// what other blocks did to theirs does not count.
  enum class Memory { Global, Shared };
  /// A thread reads a cell.
  std::optional<Conflict> read(Cell &cell, Memory memory, uint32_t thread,
                               const Clock &clock, Site site);
  /// A thread writes a cell, or begins a copy to it that will arrive later.
  std::optional<Conflict> write(Cell &cell, Memory memory, uint32_t thread,
                                const Clock &clock, Site site,
                                bool inFlight = false);
  /// A thread waited for its copy to a cell, at `time` of its clock.
  void arrive(Cell &cell, uint32_t thread, uint32_t time) const;

private:
  /// Of several blocks.
  static constexpr uint32_t Many = ~0u;
  static constexpr uint32_t InFlight = ~0u;

  /// The first phase that counts.
  uint32_t begin(Memory memory) const {
    return memory == Memory::Shared ? block : launch;
  }
  std::optional<Conflict> afterWrite(const Cell &cell, Memory memory,
                                     uint32_t thread, const Clock &clock) const;
  uint32_t with(uint32_t readers, uint32_t thread, uint32_t time);
  uint32_t *timesOf(uint32_t readers) { return &times[readers * threads]; }

  /// The number of the current phase, of the block's first, of the launch's.
  uint32_t phase = 0, block = 0, launch = 0;
  uint32_t threads = 0;

  // Sets of readers are made once and never change: most cells are read by the
  // same threads in the same order, so that few sets serve all of them.
  /// For each set and thread the time at which it read; 0: not at all.
  std::vector<uint32_t> times;
  /// The set that comes of a set and one more reader: its thread and time.
  llvm::DenseMap<std::tuple<uint32_t, uint32_t, uint32_t>, uint32_t> steps;
};

} // namespace tfm::emulator

#endif // TFM_TESTS_EMULATOR_RACES_H
