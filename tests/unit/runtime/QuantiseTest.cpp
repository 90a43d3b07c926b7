//===- QuantiseTest.cpp - weights in 8 bits and in 4 --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/model/quantise.h"

#include "runtime/support/float16.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

namespace tfm {
namespace {

struct Quantised {
  std::vector<int8_t> integers;
  std::vector<float> scales;
};

Quantised quantised(const std::vector<float> &values, const OutputRows &rows) {
  Quantised result{std::vector<int8_t>(values.size()),
                   std::vector<float>(rows.outputs())};
  quantise(values, rows, result.integers, result.scales);
  return result;
}

// Every shape: outputs in rows and in columns, matrices behind each other, odd
// numbers of both, more columns than go in one block.
TEST(Quantise, IsNoFartherThanHalfAStep) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<std::vector<int64_t>> shapes = {
      {1, 1}, {1, 7}, {7, 1}, {5, 3}, {131, 67}, {3, 5, 129}, {2, 2, 70, 3}};
  for (const std::vector<int64_t> &shape : shapes)
    for (int64_t fromEnd : {1, 2}) {
      auto rank = static_cast<int64_t>(shape.size());
      OutputRows rows(shape, rank - fromEnd);
      std::vector<float> values(rows.outputs() * rows.terms());
      for (float &value : values)
        value = normal(random);
      Quantised found = quantised(values, rows);
      std::vector<float> back(values.size());
      dequantise(found.integers, found.scales, rows, back);
      // Where an element lies, written out.
      auto inner = static_cast<size_t>(shape[rank - 1]);
      auto outer = static_cast<size_t>(shape[rank - 2]);
      for (size_t at = 0; at < values.size(); ++at) {
        size_t matrix = at / (inner * outer), x = at / inner % outer,
               y = at % inner;
        bool isLast = fromEnd == 1;
        size_t output = isLast ? matrix * inner + y : matrix * outer + x;
        size_t term = isLast ? x : y;
        float scale = found.scales[output];
        EXPECT_LE(std::abs(back[at] - values[at]), scale * 0.5001f);
        EXPECT_EQ(back[at],
                  scale * static_cast<float>(
                              found.integers[output * rows.terms() + term]));
      }
    }
}

TEST(Quantise, UsesTheWholeRange) {
  OutputRows rows(std::vector<int64_t>{2, 4}, 0);
  Quantised found = quantised({-2, 1, 0.5f, 0, 3, 1.5f, -3, 0.1f}, rows);
  EXPECT_EQ(found.scales, (std::vector<float>{2 / 127.0f, 3 / 127.0f}));
  // 63.5 and 31.75, of two the even one.
  EXPECT_EQ(found.integers,
            (std::vector<int8_t>{-127, 64, 32, 0, 127, 64, -127, 4}));
}

TEST(Quantise, ZerosAndWhatIsNearlySoHaveTheScaleZero) {
  OutputRows rows(std::vector<int64_t>{3, 2}, 0);
  float tiny = std::numeric_limits<float>::denorm_min();
  Quantised found = quantised({0, -0.0f, tiny, -1e-38f, 1e-30f, 0}, rows);
  EXPECT_EQ(found.integers, (std::vector<int8_t>{0, 0, 0, 0, 127, 0}));
  EXPECT_EQ(found.scales[0], 0);
  EXPECT_EQ(found.scales[1], 0);
  EXPECT_GT(found.scales[2], 0);
}

TEST(Quantise, TheLargestNumbersStayFinite) {
  OutputRows rows(std::vector<int64_t>{1, 2}, 0);
  float most = std::numeric_limits<float>::max();
  Quantised found = quantised({most, -most}, rows);
  EXPECT_EQ(found.integers, (std::vector<int8_t>{127, -127}));
  std::vector<float> back(2);
  dequantise(found.integers, found.scales, rows, back);
  EXPECT_TRUE(std::isfinite(back[0]) && std::isfinite(back[1]));
}

// In panels, stored in parts of outputs and of terms, of every shape: where
// `tfm_place` says that a term lies, and back again.
TEST(Quantise, PanelsHoldRows) {
  std::mt19937 random(2);
  constexpr size_t width = 32;
  for (auto [matrices, outputs, terms] : {std::array<size_t, 3>{1, 32, 4},
                                          {1, 1, 1},
                                          {1, 33, 7},
                                          {3, 70, 13},
                                          {2, 64, 128},
                                          {1, 31, 3}}) {
    int64_t shape[] = {static_cast<int64_t>(matrices),
                       static_cast<int64_t>(outputs),
                       static_cast<int64_t>(terms)};
    OutputRows rows(shape, 1);
    Panels panels(rows, width);
    size_t groups = (terms + 3) / 4;
    size_t matrix = (outputs + width - 1) / width * groups * width * 4;
    ASSERT_EQ(panels.bytes(), matrices * matrix);
    std::vector<int8_t> integers(matrices * outputs * terms);
    for (int8_t &integer : integers)
      integer = static_cast<int8_t>(random() % 255 - 127);
    std::vector<uint8_t> stored(panels.bytes(), 0x55);
    size_t half = matrices * outputs / 2;
    panels.store(std::span(integers).first(half * terms), 0, 0, terms, stored);
    // Of the others the first terms last.
    size_t some = terms / 2 / 4 * 4;
    for (auto [first, count] :
         {std::pair{some, terms - some}, {size_t{0}, some}}) {
      std::vector<int8_t> part;
      for (size_t o = half; o < matrices * outputs; ++o)
        part.insert(part.end(), &integers[o * terms + first],
                    &integers[o * terms + first] + count);
      if (count > 0)
        panels.store(part, half, first, count, stored);
    }
    for (size_t m = 0; m < matrices; ++m)
      for (size_t o = 0; o < outputs; ++o)
        for (size_t t = 0; t < terms; ++t)
          ASSERT_EQ(
              stored[m * matrix + (o / width * groups + t / 4) * width * 4 +
                     o % width * 4 + t % 4],
              integers[(m * outputs + o) * terms + t] + 128);
    std::vector<int8_t> back(integers.size());
    panels.load(stored, back);
    EXPECT_EQ(back, integers);
  }
}

struct Grouped {
  std::vector<uint8_t> bytes;
  std::vector<uint16_t> scales, minima;
};

Grouped grouped(const std::vector<float> &values, const OutputRows &rows) {
  size_t groups = rows.outputs() * groupsOf(rows.terms());
  Grouped result{std::vector<uint8_t>(groups * TFM_GROUP_BYTES, 0xff),
                 std::vector<uint16_t>(groups), std::vector<uint16_t>(groups)};
  quantise(values, rows, result.bytes, result.scales, result.minima);
  return result;
}

std::vector<float> numbersOf(const Grouped &from, const OutputRows &rows) {
  std::vector<float> back(rows.outputs() * rows.terms());
  dequantise(from.bytes, from.scales, from.minima, rows, back);
  return back;
}

// As of 8 bits, and with terms that fill no group, and groups far from zero.
TEST(QuantiseGroups, IsNoFartherThanHalfAStep) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<std::vector<int64_t>> shapes = {
      {1, 1}, {1, 31}, {32, 3}, {5, 33}, {131, 67}, {3, 5, 129}, {2, 2, 70, 3}};
  for (const std::vector<int64_t> &shape : shapes)
    for (int64_t fromEnd : {1, 2})
      for (float middle : {0.0f, 1.0f, -300.0f}) {
        auto rank = static_cast<int64_t>(shape.size());
        OutputRows rows(shape, rank - fromEnd);
        std::vector<float> values(rows.outputs() * rows.terms());
        for (float &value : values)
          value = middle + normal(random);
        Grouped found = grouped(values, rows);
        std::vector<float> back = numbersOf(found, rows);
        size_t groups = groupsOf(rows.terms());
        for (size_t output = 0; output < rows.outputs(); ++output)
          for (size_t term = 0; term < rows.terms(); ++term) {
            size_t at = rows.begin(output) + term * rows.stride();
            float scale = fromBFloat16(
                found.scales[output * groups + term / TFM_GROUP_TERMS]);
            // The sum of a minimum and its steps is rounded, too.
            EXPECT_LE(std::abs(back[at] - values[at]),
                      scale * 0.501f + std::abs(middle) * 1e-7f);
          }
      }
}

// What docs/cli.md says of bytes: term 0 and term 16 share the first one, and
// terms that a last group lacks are zeros.
TEST(QuantiseGroups, TwoTermsOfAGroupLieInAByte) {
  OutputRows rows(std::vector<int64_t>{1, 34}, 0);
  std::vector<float> values(34);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i % 16);
  Grouped found = grouped(values, rows);
  ASSERT_EQ(found.bytes.size(), 32u);
  for (size_t i = 0; i < 16; ++i)
    EXPECT_EQ(found.bytes[i], i | i << 4);
  EXPECT_EQ(found.bytes[16], 0);
  EXPECT_EQ(found.bytes[17], 15);
  for (size_t i = 18; i < 32; ++i)
    EXPECT_EQ(found.bytes[i], 0);
  EXPECT_EQ(fromBFloat16(found.scales[0]), 1);
  EXPECT_EQ(fromBFloat16(found.minima[0]), 0);
}

TEST(QuantiseGroups, ExtremeNumbersStayFinite) {
  OutputRows rows(std::vector<int64_t>{4, 2}, 0);
  float most = std::numeric_limits<float>::max(),
        tiny = std::numeric_limits<float>::denorm_min();
  std::vector<float> values = {most, -most, 0, tiny, 3, 3, -1e-38f, 1e30f};
  Grouped found = grouped(values, rows);
  std::vector<float> back = numbersOf(found, rows);
  for (float value : back)
    EXPECT_TRUE(std::isfinite(value));
  EXPECT_NEAR(back[0] / most, 1, 0.04);
  EXPECT_NEAR(back[1] / most, -1, 0.01);
  EXPECT_EQ(found.scales[1], 0);
  EXPECT_EQ(found.minima[1], 0);
  EXPECT_EQ(found.scales[2], 0);
  EXPECT_EQ(back[4], 3);
  EXPECT_EQ(back[5], 3);
  EXPECT_EQ(back[6], 0);
}

} // namespace
} // namespace tfm
