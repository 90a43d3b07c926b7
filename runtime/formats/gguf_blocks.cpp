//===- gguf_blocks.cpp - numbers as llama.cpp stores them ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/formats/gguf_blocks.h"

#include "runtime/support/float16.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <iterator>
#include <span>
#include <vector>

namespace tfm {

namespace {

/// A number of 16 bits at a place of a block.
float halfAt(const uint8_t *at) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return fromHalf(bits);
}

float asFloat(int value) { return static_cast<float>(value); }

void decodeQ8_0(const uint8_t *block, float *out) {
  float scale = halfAt(block);
  for (int i = 0; i < 32; ++i)
    out[i] = scale * asFloat(static_cast<int8_t>(block[2 + i]));
}

/// Of 16 bytes the low halves are the first 16 elements, the high ones the
/// others. `highBits` has a fifth bit of each.
template <typename Value>
void decodeHalves(const uint8_t *bytes, uint32_t highBits, Value value,
                  float *out) {
  for (int i = 0; i < 16; ++i) {
    int first = static_cast<int>(highBits >> i & 1) << 4,
        second = static_cast<int>(highBits >> (i + 16) & 1) << 4;
    out[i] = value((bytes[i] & 15) | first);
    out[i + 16] = value((bytes[i] >> 4) | second);
  }
}

uint32_t wordAt(const uint8_t *at) {
  uint32_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

void decodeQ4_0(const uint8_t *block, float *out) {
  float scale = halfAt(block);
  decodeHalves(
      block + 2, 0, [&](int bits) { return scale * asFloat(bits - 8); }, out);
}

void decodeQ4_1(const uint8_t *block, float *out) {
  float scale = halfAt(block), least = halfAt(block + 2);
  decodeHalves(
      block + 4, 0, [&](int bits) { return scale * asFloat(bits) + least; },
      out);
}

void decodeQ5_0(const uint8_t *block, float *out) {
  float scale = halfAt(block);
  decodeHalves(
      block + 6, wordAt(block + 2),
      [&](int bits) { return scale * asFloat(bits - 16); }, out);
}

void decodeQ5_1(const uint8_t *block, float *out) {
  float scale = halfAt(block), least = halfAt(block + 2);
  decodeHalves(
      block + 8, wordAt(block + 4),
      [&](int bits) { return scale * asFloat(bits) + least; }, out);
}

/// The "K" types are 256 elements, parts of which have scales of few bits,
/// which a scale of the whole block multiplies.
void decodeQ2_K(const uint8_t *block, float *out) {
  const uint8_t *scales = block, *bytes = block + 16;
  float scale = halfAt(block + 80), minimum = halfAt(block + 82);
  // Of each 32 bytes four parts of 32 elements, two bits from the lowest up.
  for (int part = 0; part < 16; ++part) {
    float own = scale * asFloat(scales[part] & 15),
          least = minimum * asFloat(scales[part] >> 4);
    const uint8_t *from = bytes + part / 8 * 32 + part % 2 * 16;
    int shift = part / 2 % 4 * 2;
    for (int i = 0; i < 16; ++i)
      *out++ = own * asFloat(from[i] >> shift & 3) - least;
  }
}

void decodeQ3_K(const uint8_t *block, float *out) {
  const uint8_t *high = block, *bytes = block + 32, *scales = block + 96;
  float scale = halfAt(block + 108);
  for (int part = 0; part < 16; ++part) {
    // Six bits: four in one of eight bytes, two in one of the four behind.
    int low = part < 8 ? scales[part] & 15 : scales[part - 8] >> 4;
    int rest = scales[8 + part % 4] >> (part / 4 * 2) & 3;
    float own = scale * asFloat((low | rest << 4) - 32);
    const uint8_t *from = bytes + part / 8 * 32 + part % 2 * 16;
    int shift = part / 2 % 4 * 2;
    for (int i = 0; i < 16; ++i) {
      bool hasHigh = high[part % 2 * 16 + i] >> (part / 2) & 1;
      *out++ = own * asFloat((from[i] >> shift & 3) - (hasHigh ? 0 : 4));
    }
  }
}

/// Scale and minimum of one of eight parts, six bits each in twelve bytes.
struct ScaleAndMinimum {
  int scale, minimum;
};
ScaleAndMinimum scaleOf(const uint8_t *bytes, int part) {
  if (part < 4)
    return {bytes[part] & 63, bytes[part + 4] & 63};
  return {(bytes[part + 4] & 15) | (bytes[part - 4] >> 6) << 4,
          (bytes[part + 4] >> 4) | (bytes[part] >> 6) << 4};
}

/// Q4_K, and Q5_K, which has `high` with a fifth bit of each.
void decodeWithMinima(const uint8_t *block, const uint8_t *high,
                      const uint8_t *bytes, float *out) {
  float scale = halfAt(block), minimum = halfAt(block + 2);
  for (int part = 0; part < 8; ++part) {
    ScaleAndMinimum own = scaleOf(block + 4, part);
    float step = scale * asFloat(own.scale),
          least = minimum * asFloat(own.minimum);
    const uint8_t *from = bytes + part / 2 * 32;
    for (int i = 0; i < 32; ++i) {
      int bits = part % 2 == 0 ? from[i] & 15 : from[i] >> 4;
      if (high)
        bits |= (high[i] >> part & 1) << 4;
      *out++ = step * asFloat(bits) - least;
    }
  }
}

void decodeQ4_K(const uint8_t *block, float *out) {
  decodeWithMinima(block, nullptr, block + 16, out);
}

void decodeQ5_K(const uint8_t *block, float *out) {
  decodeWithMinima(block, block + 16, block + 48, out);
}

void decodeQ6_K(const uint8_t *block, float *out) {
  const uint8_t *low = block, *high = block + 128, *scales = block + 192;
  float scale = halfAt(block + 208);
  for (int part = 0; part < 16; ++part) {
    float own = scale * asFloat(static_cast<int8_t>(scales[part]));
    // Halves of 128 elements: of 64 bytes first the low bits, then the high.
    int half = part / 8, quarter = part / 2 % 4;
    const uint8_t *from = low + half * 64 + quarter % 2 * 32 + part % 2 * 16;
    const uint8_t *rest = high + half * 32 + part % 2 * 16;
    for (int i = 0; i < 16; ++i) {
      int bits = quarter < 2 ? from[i] & 15 : from[i] >> 4;
      bits |= (rest[i] >> (quarter * 2) & 3) << 4;
      *out++ = own * asFloat(bits - 32);
    }
  }
}

/// What the four bits of the types "IQ4" stand for.
constexpr int8_t unevenValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                     1,    13,   25,  38,  53,  69,  89,  113};

void decodeIQ4_NL(const uint8_t *block, float *out) {
  float scale = halfAt(block);
  decodeHalves(
      block + 2, 0,
      [&](int bits) { return scale * asFloat(unevenValues[bits]); }, out);
}

void decodeIQ4_XS(const uint8_t *block, float *out) {
  float scale = halfAt(block);
  uint32_t high = block[2] | block[3] << 8;
  const uint8_t *low = block + 4;
  for (int part = 0; part < 8; ++part) {
    int bits = low[part / 2] >> (part % 2 * 4) & 15;
    bits |= static_cast<int>(high >> (2 * part) & 3) << 4;
    float own = scale * asFloat(bits - 32);
    decodeHalves(
        block + 8 + part * 16, 0,
        [&](int value) { return own * asFloat(unevenValues[value]); },
        out + part * 32);
  }
}

constexpr GgufType types[] = {{0, "F32", 1, 4, nullptr},
                              {1, "F16", 1, 2, nullptr},
                              {30, "BF16", 1, 2, nullptr},
                              {8, "Q8_0", 32, 34, decodeQ8_0},
                              {6, "Q5_0", 32, 22, decodeQ5_0},
                              {7, "Q5_1", 32, 24, decodeQ5_1},
                              {2, "Q4_0", 32, 18, decodeQ4_0},
                              {3, "Q4_1", 32, 20, decodeQ4_1},
                              {10, "Q2_K", 256, 84, decodeQ2_K},
                              {11, "Q3_K", 256, 110, decodeQ3_K},
                              {12, "Q4_K", 256, 144, decodeQ4_K},
                              {13, "Q5_K", 256, 176, decodeQ5_K},
                              {14, "Q6_K", 256, 210, decodeQ6_K},
                              {20, "IQ4_NL", 32, 18, decodeIQ4_NL},
                              {23, "IQ4_XS", 256, 136, decodeIQ4_XS}};

template <typename Key, typename Member>
const GgufType *find(const Key &key, Member member) {
  const GgufType *type = std::ranges::find(types, key, member);
  return type == std::end(types) ? nullptr : type;
}

} // namespace

const GgufType *ggufType(uint32_t number) {
  return find(number, &GgufType::number);
}

const GgufType *ggufType(std::string_view name) {
  return find(name, &GgufType::name);
}

std::string ggufTypeName(uint32_t number) {
  if (const GgufType *type = ggufType(number))
    return std::string(type->name);
  constexpr std::pair<uint32_t, const char *> others[] = {
      {9, "Q8_1"},     {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"},
      {18, "IQ3_XXS"}, {19, "IQ1_S"}, {21, "IQ3_S"},   {22, "IQ2_S"},
      {24, "I8"},      {25, "I16"},   {26, "I32"},     {27, "I64"},
      {28, "F64"},     {29, "IQ1_M"}, {34, "TQ1_0"},   {35, "TQ2_0"},
      {39, "MXFP4"}};
  for (const auto &[own, name] : others)
    if (own == number)
      return name;
  return std::to_string(number);
}

std::string ggufTypesThatAreRead() {
  std::vector<std::string_view> names;
  for (const GgufType &type : types)
    names.push_back(type.name);
  return fmt::format("{} and {}",
                     fmt::join(std::span(names).first(names.size() - 1), ", "),
                     names.back());
}

} // namespace tfm
