//===- packed.cpp - bytes in less room ------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/packed.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace tfm {

// A sequence is some bytes as they are (literals), and a match: a place before,
// and how many bytes from there on follow. The last one has no match.

/// The shortest match, how far back it may be, the bytes at the end that are
/// literals, and from where on before the end no match begins.
static constexpr size_t shortest = 4, farthest = 65535, lastLiterals = 5,
                        lastMatch = 12;
/// Lengths up to here are in the sequence's first byte.
static constexpr size_t inToken = 15;

static void appendLength(std::string &to, size_t length) {
  if (length < inToken)
    return;
  for (length -= inToken; length >= 255; length -= 255)
    to += '\xff';
  to += static_cast<char>(length);
}

static void appendSequence(std::string &to, std::string_view literals,
                           size_t distance, size_t match) {
  size_t more = match == 0 ? 0 : match - shortest;
  to += static_cast<char>(std::min(literals.size(), inToken) << 4 |
                          std::min(more, inToken));
  appendLength(to, literals.size());
  to += literals;
  if (match == 0)
    return;
  to += static_cast<char>(distance & 0xff);
  to += static_cast<char>(distance >> 8);
  appendLength(to, more);
}

std::string pack(std::string_view bytes) {
  constexpr unsigned hashBits = 16;
  constexpr int64_t nowhere = -1;
  // The newest place of each hash of four bytes, and of a place the one before
  // it with the same hash.
  std::vector<int64_t> newest(size_t{1} << hashBits, nowhere),
      before(bytes.size(), nowhere);
  auto hashAt = [&](size_t at) {
    uint32_t four = 0;
    std::memcpy(&four, bytes.data() + at, sizeof four);
    return (four * 2654435761u) >> (32 - hashBits);
  };
  auto note = [&](size_t at) {
    int64_t &last = newest[hashAt(at)];
    before[at] = last;
    last = static_cast<int64_t>(at);
  };
  std::string packed;
  size_t begin = 0;
  for (size_t at = 0; at + lastMatch <= bytes.size();) {
    size_t length = 0, from = 0, most = bytes.size() - lastLiterals - at;
    int tries = 64;
    for (int64_t place = newest[hashAt(at)];
         place != nowhere && tries-- > 0 &&
         at - static_cast<size_t>(place) <= farthest;
         place = before[static_cast<size_t>(place)]) {
      auto there = static_cast<size_t>(place);
      size_t same = 0;
      while (same < most && bytes[there + same] == bytes[at + same])
        ++same;
      if (same > length) {
        length = same;
        from = there;
      }
    }
    if (length < shortest) {
      note(at++);
      continue;
    }
    appendSequence(packed, bytes.substr(begin, at - begin), at - from, length);
    for (size_t end = at + length; at != end; ++at)
      note(at);
    begin = at;
  }
  appendSequence(packed, bytes.substr(begin), 0, 0);
  return packed;
}

std::string unpack(std::string_view packed, size_t size) {
  auto require = [](bool holds) {
    if (!holds)
      throw std::logic_error("packed bytes are damaged");
  };
  std::string bytes;
  bytes.reserve(size);
  size_t at = 0;
  auto next = [&] {
    require(at < packed.size());
    return static_cast<unsigned char>(packed[at++]);
  };
  auto lengthFrom = [&](size_t length) {
    if (length == inToken)
      for (unsigned char more = 255; more == 255; length += more)
        more = next();
    return length;
  };
  while (true) {
    unsigned char token = next();
    size_t literals = lengthFrom(token >> 4);
    require(literals <= packed.size() - at && literals <= size - bytes.size());
    bytes += packed.substr(at, literals);
    at += literals;
    if (at == packed.size())
      break;
    size_t distance = next();
    distance |= size_t{next()} << 8;
    size_t length = lengthFrom(token & 15) + shortest;
    require(distance > 0 && distance <= bytes.size() &&
            length <= size - bytes.size());
    // What follows may itself be a part of what is repeated.
    for (size_t from = bytes.size() - distance; length > 0; --length)
      bytes += bytes[from++];
  }
  require(bytes.size() == size);
  return bytes;
}

} // namespace tfm
