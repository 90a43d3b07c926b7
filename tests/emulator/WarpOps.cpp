//===- WarpOps.cpp - what the lanes of a warp do together -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sections are those of NVIDIA's "Parallel Thread Execution ISA", release 9.0.
//
//===----------------------------------------------------------------------===//

#include "tests/emulator/Machine.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <cstring>

using namespace tfm::emulator;
using llvm::formatv;

/// "Data Movement and Conversion Instructions: shfl.sync". `kind` as
/// `NVVM::ShflKind`: bfly, up, down, idx. Words: the value, the source lane or
/// the offset, the packed mask and clamp; then the value, and whether it came
/// from a lane in range.
void tfm::emulator::shuffle(llvm::ArrayRef<uint32_t *> words, uint32_t mask,
                            uint32_t kind) {
  std::array<uint32_t, 32> values{};
  for (uint32_t lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1)
      values[lane] = words[lane][0];
  for (uint32_t lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1))
      continue;
    uint32_t b = words[lane][1] & 31, clamp = words[lane][2] & 31,
             segment = words[lane][2] >> 8 & 31;
    int most = static_cast<int>((lane & segment) | (clamp & ~segment));
    int least = static_cast<int>(lane & segment);
    int from = static_cast<int>(lane);
    bool valid = false;
    switch (kind) {
    case 0:
      from = static_cast<int>(lane ^ b), valid = from <= most;
      break;
    case 1:
      from -= static_cast<int>(b), valid = from >= most;
      break;
    case 2:
      from += static_cast<int>(b), valid = from <= most;
      break;
    case 3:
      from = least | static_cast<int>(b & ~segment), valid = from <= most;
      break;
    }
    if (!valid)
      from = static_cast<int>(lane);
    // What a lane that does not take part would give is unpredictable.
    words[lane][0] = mask >> from & 1 ? values[from] : ~0u;
    words[lane][1] = valid;
  }
}

/// "Parallel Synchronization and Communication Instructions: vote.sync". `kind`
/// as `NVVM::VoteSyncKind`: any, all, ballot, uni. Words: the predicate; then
/// the result.
void tfm::emulator::vote(llvm::ArrayRef<uint32_t *> words, uint32_t mask,
                         uint32_t kind) {
  uint32_t ballot = 0;
  for (uint32_t lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1)
      ballot |= static_cast<uint32_t>(words[lane][0] & 1) << lane;
  uint32_t results[] = {ballot != 0, ballot == mask, ballot,
                        ballot == 0 || ballot == mask};
  for (uint32_t lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1)
      words[lane][0] = results[kind];
}

/// "Parallel Synchronization and Communication Instructions: redux.sync".
/// `kind` as `NVVM::ReduxKind`; false for those of floating-point numbers,
/// which need a newer GPU than any that we have code for. Words: the value;
/// then the result.
bool tfm::emulator::reduce(llvm::ArrayRef<uint32_t *> words, uint32_t mask,
                           uint32_t kind) {
  std::optional<uint32_t> result;
  for (uint32_t lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1))
      continue;
    uint32_t value = words[lane][0];
    if (!result) {
      result = value;
      continue;
    }
    auto a = static_cast<int32_t>(*result), b = static_cast<int32_t>(value);
    switch (kind) {
    case 1:
      *result += value;
      break;
    case 2:
      *result &= value;
      break;
    case 3:
      result = static_cast<uint32_t>(std::max(a, b));
      break;
    case 4:
      result = static_cast<uint32_t>(std::min(a, b));
      break;
    case 5:
      *result |= value;
      break;
    case 6:
      result = std::max(*result, value);
      break;
    case 7:
      result = std::min(*result, value);
      break;
    case 8:
      *result ^= value;
      break;
    default:
      return false;
    }
  }
  for (uint32_t lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1)
      words[lane][0] = *result;
  return true;
}

/// The low or the high half of a register as a number in bf16.
static float half(uint32_t word, unsigned which) {
  return llvm::bit_cast<float>(which ? word & 0xffff0000u : word << 16);
}

/// "Warp Level Matrix Multiply-Accumulate Instructions: Matrix Fragments for
/// mma.m16n8k16 with floating point type". Words: four of A, two of B (two bf16
/// each), four of C (f32); then four of D. Products are exact in f32; they are
/// added up in the order of k here, which is for the hardware to choose.
void tfm::emulator::multiplyBF16(llvm::ArrayRef<uint32_t *> words) {
  float a[16][16], b[16][8], d[16][8];
  for (unsigned lane = 0; lane < 32; ++lane) {
    unsigned group = lane >> 2, inGroup = lane % 4;
    const uint32_t *w = words[lane];
    for (unsigned i = 0; i < 8; ++i) {
      unsigned row = i < 2 || (i >= 4 && i < 6) ? group : group + 8;
      unsigned column = inGroup * 2 + (i & 1) + (i < 4 ? 0 : 8);
      a[row][column] = half(w[i / 2], i & 1);
    }
    for (unsigned i = 0; i < 4; ++i) {
      unsigned row = inGroup * 2 + (i & 1) + (i < 2 ? 0 : 8);
      b[row][group] = half(w[4 + i / 2], i & 1);
    }
    for (unsigned i = 0; i < 4; ++i)
      d[i < 2 ? group : group + 8][inGroup * 2 + (i & 1)] =
          llvm::bit_cast<float>(w[6 + i]);
  }
  for (unsigned row = 0; row < 16; ++row)
    for (unsigned k = 0; k < 16; ++k)
      for (unsigned column = 0; column < 8; ++column)
        d[row][column] += a[row][k] * b[k][column];
  for (unsigned lane = 0; lane < 32; ++lane) {
    unsigned group = lane >> 2, inGroup = lane % 4;
    for (unsigned i = 0; i < 4; ++i)
      words[lane][i] = llvm::bit_cast<uint32_t>(
          d[i < 2 ? group : group + 8][inGroup * 2 + (i & 1)]);
  }
}

/// The lanes 8 i to 8 i + 7 say where the rows of matrix i lie, 16 bytes each.
void Machine::checkRows(const Collective &collective, uint32_t count,
                        bool writes) {
  for (uint32_t lane = 0; lane < 8 * count; ++lane)
    check(threads[collective.first + lane], collective.site,
          collective.words[lane][0], 16, 16, writes);
}

/// "Warp Level Matrix Multiply-Accumulate Instructions: Warp-level matrix load
/// instruction: ldmatrix", of matrices of 8 by 8 elements of 16 bits. A thread
/// gets of each matrix the elements 2 (lane % 4) and the one after it of row
/// lane / 4, or with `.trans` of that column. `kind`: the number of matrices,
/// and 8 more with `.trans`.
void Machine::loadMatrix(Collective &collective) {
  uint32_t count = collective.kind & 7;
  bool transposed = collective.kind & 8;
  checkRows(collective, count, false);
  const uint16_t *rows[32];
  for (uint32_t lane = 0; lane < 8 * count; ++lane)
    rows[lane] = reinterpret_cast<const uint16_t *>(
        static_cast<uintptr_t>(collective.words[lane][0]));
  // A turn reads the rows of a matrix, 16 bytes of each of 8 lines of banks.
  for (uint32_t first = 0; first < 8 * count; first += 8) {
    uint32_t lines = 0;
    for (uint32_t lane = first; lane < first + 8; ++lane)
      lines |= 1u << (collective.words[lane][0] / 16 % 8);
    conflicts += 8 - llvm::popcount(lines);
  }
  for (uint32_t lane = 0; lane < 32; ++lane)
    for (uint32_t i = 0; i < count; ++i) {
      uint32_t one = lane / 4, other = lane % 4 * 2;
      uint32_t low =
          transposed ? rows[8 * i + other][one] : rows[8 * i + one][other];
      uint32_t high = transposed ? rows[8 * i + other + 1][one]
                                 : rows[8 * i + one][other + 1];
      collective.words[lane][i] = low | high << 16;
    }
}

/// "Warp Level Matrix Multiply-Accumulate Instructions: Warp-level matrix store
/// instruction: stmatrix": where `ldmatrix` would get them from. Words: the
/// address, then a register for each matrix.
void Machine::storeMatrix(Collective &collective) {
  uint32_t count = collective.kind & 7;
  bool transposed = collective.kind & 8;
  checkRows(collective, count, true);
  uint16_t *rows[32];
  for (uint32_t lane = 0; lane < 8 * count; ++lane)
    rows[lane] = reinterpret_cast<uint16_t *>(
        static_cast<uintptr_t>(collective.words[lane][0]));
  for (uint32_t lane = 0; lane < 32; ++lane)
    for (uint32_t i = 0; i < count; ++i) {
      uint32_t one = lane / 4, other = lane % 4 * 2;
      uint32_t word = collective.words[lane][1 + i];
      (transposed ? rows[8 * i + other][one] : rows[8 * i + one][other]) =
          static_cast<uint16_t>(word);
      (transposed ? rows[8 * i + other + 1][one]
                  : rows[8 * i + one][other + 1]) =
          static_cast<uint16_t>(word >> 16);
    }
}

namespace {

/// "Asynchronous Warpgroup Level Matrix Instructions: Matrix Descriptor
/// Format", of 128-byte swizzling, which is all that our kernels use.
struct Descriptor {
  Descriptor(uint32_t low, uint32_t high)
      : start((low & 0x3fff) << 4), leading((low >> 16 & 0x3fff) << 4),
        stride((high & 0x3fff) << 4), base(high >> 17 & 7),
        swizzle(high >> 30) {}
  uint32_t start, leading, stride, base, swizzle;

  /// Where element `outer` along M or N and `term` along K lies: "Canonical
  /// Layouts", ((8,m),(T,2k)):((8T,SBO),(1,T)) along K, and
  /// ((T,8,m),(8,k)):((1,T,LBO),(8T,SBO)) along M or N, with Swizzle<3,4,3> of
  /// the address.
  uint64_t addressOf(uint32_t outer, uint32_t term, bool alongOuter) const {
    uint32_t at = start;
    if (alongOuter)
      at += outer % 64 * 2 + outer / 64 * leading + term % 8 * 128 +
            term / 8 * stride;
    else
      at += outer % 8 * 128 + outer / 8 * stride + term * 2;
    return (SharedBase & ~uint64_t(0x3ffff)) + (at ^ (at >> 7 & 7) << 4);
  }
};

} // namespace

/// "Asynchronous Warpgroup Level Matrix Multiply-Accumulate: Register Fragments
/// and Shared Memory Matrix Layouts", of wgmma.mma_async.m64nNk16 with bf16: a
/// warp's 16 rows of the 64. Words: the descriptor of A or its four registers,
/// the descriptor of B, and the sums; then the sums.
void Machine::multiplyWarpgroup(Collective &collective) {
  uint32_t n = collective.kind & 0xffff;
  bool alongM = collective.kind >> 16 & 1, alongN = collective.kind >> 17 & 1,
       fromZero = collective.kind >> 18 & 1,
       fromRegisters = collective.kind >> 19 & 1;
  uint32_t ofA = fromRegisters ? 4 : 2, beforeSums = ofA + 2;
  auto misuse = [&](const char *what) {
    fail(Fault::Kind::Misuse,
         formatv("{0} {1} at {2}", name(collective.first / 32, ~0u), what,
                 location(collective.site)));
  };
  const uint32_t *words = collective.words[0];
  uint32_t firstOfDescriptors = fromRegisters ? ofA : 0;
  for (uint32_t lane = 1; lane < 32; ++lane)
    if (!std::equal(words + firstOfDescriptors, words + beforeSums,
                    collective.words[lane] + firstOfDescriptors))
      misuse("multiply by different descriptors");
  auto descriptor = [&](uint32_t word) {
    Descriptor each(words[word], words[word + 1]);
    if (each.swizzle != 1 || each.base != 0)
      misuse("multiply what is not swizzled by 128 bytes");
    return each;
  };
  readers[collective.first / 32].open.sites.insert(collective.site);
  if (!readers[collective.first / 32].fenced)
    misuse("multiply without wgmma.fence before it");
  uint32_t firstRow = collective.first / 32 % 4 * 16;
  // Rows of 8 elements that lie together.
  auto value = [&](const Descriptor &from, uint32_t outer, uint32_t term,
                   bool alongOuter) {
    uint64_t address = from.addressOf(outer, term, alongOuter);
    if (alongOuter ? outer % 8 == 0 : term % 8 == 0)
      readAsync(collective, {address, address + 16});
    uint16_t bits;
    std::memcpy(&bits, reinterpret_cast<const void *>(address), 2);
    return llvm::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  };
  float a[16][16];
  std::vector<float> b(size_t{16} * n);
  if (fromRegisters) {
    for (uint32_t lane = 0; lane < 32; ++lane)
      for (uint32_t i = 0; i < 8; ++i)
        a[lane / 4 + i / 2 % 2 * 8][lane % 4 * 2 + i % 2 + i / 4 * 8] =
            half(collective.words[lane][i / 2], i % 2);
  } else {
    Descriptor from = descriptor(0);
    for (uint32_t row = 0; row < 16; ++row)
      for (uint32_t term = 0; term < 16; ++term)
        a[row][term] = value(from, firstRow + row, term, alongM);
  }
  Descriptor ofB = descriptor(ofA);
  for (uint32_t column = 0; column < n; ++column)
    for (uint32_t term = 0; term < 16; ++term)
      b[term * n + column] = value(ofB, column, term, alongN);
  for (uint32_t lane = 0; lane < 32; ++lane)
    for (uint32_t i = 0; i < n / 2; ++i) {
      uint32_t row = lane / 4 + i / 2 % 2 * 8,
               column = i / 4 * 8 + lane % 4 * 2 + i % 2;
      auto sum =
          fromZero
              ? 0.0f
              : llvm::bit_cast<float>(collective.words[lane][beforeSums + i]);
      for (uint32_t term = 0; term < 16; ++term)
        sum += a[row][term] * b[term * n + column];
      collective.words[lane][i] = llvm::bit_cast<uint32_t>(sum);
    }
}
