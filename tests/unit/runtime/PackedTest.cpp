//===- PackedTest.cpp - bytes in less room --------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/packed.h"

#include <gtest/gtest.h>
#include <random>
#include <stdexcept>

namespace tfm::test {
namespace {

// Bytes of `kinds` values, with parts that come again, some over each other.
std::string someBytes(std::mt19937 &random, size_t size, unsigned kinds) {
  std::string bytes;
  while (bytes.size() < size) {
    if (bytes.size() > 10 && random() % 4 == 0) {
      size_t from = random() % bytes.size(), count = random() % 600;
      for (size_t i = 0; i != count; ++i)
        bytes += bytes[from + i];
    } else {
      bytes += static_cast<char>(random() % kinds);
    }
  }
  bytes.resize(size);
  return bytes;
}

// Whatever is packed comes out again, whatever its length.
TEST(Packed, GivesBytesBack) {
  std::mt19937 random(1);
  for (unsigned kinds : {1u, 2u, 20u, 256u})
    for (size_t size = 0; size < 40; ++size) {
      std::string bytes = someBytes(random, size, kinds);
      EXPECT_EQ(unpack(pack(bytes), size), bytes);
    }
  // Longer than matches reach, and than lengths in one byte say.
  for (unsigned kinds : {1u, 3u, 256u}) {
    std::string bytes = someBytes(random, 200000, kinds);
    EXPECT_EQ(unpack(pack(bytes), bytes.size()), bytes);
  }
}

// What comes again takes next to no room.
TEST(Packed, IsSmall) {
  EXPECT_LT(pack(std::string(100000, 'x')).size(), 500u);
  std::string text;
  for (int i = 0; i != 1000; ++i)
    text += "fma.rn.f32 %f" + std::to_string(i) + ", %f1, %f2, %f3;\n";
  EXPECT_LT(pack(text).size(), text.size() / 4);
}

// A block by the hand of its description: 3 literals, 8 bytes from 3 back, 5
// literals.
TEST(Packed, IsOfTheFormat) {
  EXPECT_EQ(unpack(std::string_view("\x34"
                                    "abc\x03\x00\x50"
                                    "vwxyz",
                                    12),
                   16),
            "abcabcabcabvwxyz");
  EXPECT_EQ(unpack(std::string_view("\x00", 1), 0), "");
}

// Whatever else it is given, it does not read or write beyond an end.
TEST(Packed, RefusesWhatIsDamaged) {
  std::mt19937 random(2);
  std::string bytes = someBytes(random, 3000, 5), packed = pack(bytes);
  EXPECT_THROW(unpack(packed, bytes.size() + 1), std::logic_error);
  EXPECT_THROW(unpack(packed, bytes.size() - 1), std::logic_error);
  EXPECT_THROW(unpack("", 0), std::logic_error);
  for (size_t size = 0; size != packed.size(); ++size)
    EXPECT_THROW(unpack(std::string_view(packed).substr(0, size), bytes.size()),
                 std::logic_error);
  for (size_t i = 0; i != packed.size(); ++i) {
    std::string other = packed;
    other[i] = static_cast<char>(random());
    try {
      EXPECT_EQ(unpack(other, bytes.size()).size(), bytes.size());
    } catch (const std::logic_error &) { // as good
    }
  }
}

} // namespace
} // namespace tfm::test
