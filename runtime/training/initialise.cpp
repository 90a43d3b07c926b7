//===- initialise.cpp - the first values of the parameters --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/training/initialise.h"

#include "runtime/philox.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <vector>

namespace tfm {

namespace {

/// The random numbers of one parameter.
class RandomNumbers {
public:
  /// Block 0 is that of element `first`, a multiple of 4.
  RandomNumbers(uint64_t seed, uint64_t stream, uint64_t first)
      : seed(seed), stream(stream), first(first / 4) {}

  PhiloxBlock block(uint64_t index) const {
    index += first;
    return philox(seed, Stream::Initialise, static_cast<uint32_t>(index),
                  static_cast<uint32_t>(stream),
                  static_cast<uint32_t>(stream >> 32) ^
                      static_cast<uint32_t>(index >> 32) << 16);
  }

private:
  uint64_t seed;
  uint64_t stream;
  uint64_t first;
};

// The functions below are written out instead of taken from libm: they are
// several times faster (a large model has 10^8 values), and the same bits on
// any machine.

/// log(x), 0 < x < 1, to 1e-15: by the series of atanh around 1.
double naturalLog(double x) {
  auto bits = std::bit_cast<uint64_t>(x);
  // x = mantissa * 2^exponent with the mantissa in [sqrt(1/2), sqrt(2)).
  auto exponent = static_cast<int64_t>(bits - std::bit_cast<uint64_t>(
                                                  std::numbers::sqrt2 / 2)) >>
                  52;
  auto mantissa =
      std::bit_cast<double>(bits - (static_cast<uint64_t>(exponent) << 52));
  double s = (mantissa - 1) / (mantissa + 1);
  double z = s * s;
  double series = 1.0 / 19;
  for (int i = 17; i > 0; i -= 2)
    series = series * z + 1.0 / i;
  return static_cast<double>(exponent) * std::numbers::ln2 + 2 * s * series;
}

/// cos and sin of `turn` * 2 pi / 2^32, to 1e-15: by their series in the eighth
/// of a turn around the nearest quarter.
void cosSin(uint32_t turn, double &cosine, double &sine) {
  uint32_t quarter = (turn + (1u << 29)) >> 30;
  double x = static_cast<double>(static_cast<int32_t>(turn - (quarter << 30))) *
             (std::numbers::pi * 0x1p-31);
  double z = x * x;
  double c = 1, s = 1;
  for (int i = 16; i > 0; i -= 2) {
    c = 1 - c * z * (1.0 / (i * (i - 1)));
    s = 1 - s * z * (1.0 / (i * (i + 1)));
  }
  s *= x;
  bool odd = quarter & 1;
  double across = odd ? s : c, up = odd ? c : s;
  cosine = ((quarter + 1) & 2) ? -across : across;
  sine = (quarter & 2) ? -up : up;
}

/// Two standard normal numbers from 64 random bits (Box and Muller 1958).
void normalPair(uint32_t a, uint32_t b, double out[2]) {
  double u = (static_cast<double>(a) + 0.5) * 0x1p-32; // never 0
  double radius = std::sqrt(-2 * naturalLog(u));
  double cosine, sine;
  cosSin(b, cosine, sine);
  out[0] = radius * cosine;
  out[1] = radius * sine;
}

void fillNormal(const RandomNumbers &source, double mean, double deviation,
                std::span<float> out) {
  for (size_t i = 0; i < out.size(); i += 4) {
    PhiloxBlock block = source.block(i / 4);
    double values[4];
    normalPair(block[0], block[1], values);
    normalPair(block[2], block[3], values + 2);
    for (size_t j = 0; j < std::min<size_t>(4, out.size() - i); ++j)
      out[i + j] = static_cast<float>(mean + deviation * values[j]);
  }
}

void fillUniform(const RandomNumbers &source, double low, double high,
                 std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    double u = static_cast<double>(source.block(i / 4)[i % 4]) * 0x1p-32;
    out[i] = static_cast<float>(low + (high - low) * u);
  }
}

/// Inverse of the normal distribution function within two deviations: Newton's
/// method on erf, which the narrow range makes converge from 0.
double truncatedNormal(double u) {
  const double edge = std::erf(std::numbers::sqrt2); // P(|x| < 2)
  double target = edge * (2 * u - 1);                // erf(x / sqrt 2)
  double x = 0;
  for (int i = 0; i < 60; ++i) {
    double error = std::erf(x / std::numbers::sqrt2) - target;
    double slope = std::sqrt(2 / std::numbers::pi) * std::exp(-x * x / 2);
    double next = std::clamp(x - error / slope, -2.0, 2.0);
    if (std::abs(next - x) < 1e-12)
      return next;
    x = next;
  }
  return x;
}

void fillTruncatedNormal(const RandomNumbers &source, double mean,
                         double deviation, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    double u =
        (static_cast<double>(source.block(i / 4)[i % 4]) + 0.5) * 0x1p-32;
    out[i] = static_cast<float>(mean + deviation * truncatedNormal(u));
  }
}

/// The elements of a parameter from `first` on.
void fill(const tfm_parameter &parameter, uint64_t seed, uint64_t first,
          std::span<float> out) {
  // Numbers are drawn four at a time.
  if (uint64_t before = first % 4) {
    std::vector<float> whole(before + out.size());
    fill(parameter, seed, first - before, whole);
    std::ranges::copy(std::span(whole).subspan(before), out.begin());
    return;
  }
  const double *args = parameter.init_args;
  RandomNumbers source(seed, parameter.init_stream, first);
  switch (parameter.init) {
  case TFM_INIT_ZEROS:
    std::fill(out.begin(), out.end(), 0.0f);
    break;
  case TFM_INIT_ONES:
    std::fill(out.begin(), out.end(), 1.0f);
    break;
  case TFM_INIT_CONSTANT:
    std::fill(out.begin(), out.end(), static_cast<float>(args[0]));
    break;
  case TFM_INIT_NORMAL:
    fillNormal(source, args[0], args[1], out);
    break;
  case TFM_INIT_UNIFORM:
    fillUniform(source, args[0], args[1], out);
    break;
  case TFM_INIT_TRUNCATED_NORMAL:
    fillTruncatedNormal(source, args[0], args[1], out);
    break;
  }
}

/// Before any thread begins: a value that nothing fills would stay zero.
void requireKnown(const tfm_parameter &parameter) {
  if (parameter.init > TFM_INIT_CONSTANT)
    throw std::logic_error(
        "a parameter begins in a way that this runtime does not know");
}

} // namespace

void initialise(const tfm_parameter &parameter, uint64_t seed,
                std::span<float> out) {
  requireKnown(parameter);
  fill(parameter, seed, 0, out);
}

void initialise(Model &model, uint64_t seed) {
  std::ranges::for_each(model.parameters(), requireKnown);
  for (const tfm_parameter &parameter : model.parameters())
    model.setValue(parameter, [&](size_t first, std::span<float> values) {
      fill(parameter, seed, first, values);
    });
}

} // namespace tfm
