//===- initialise.cpp - the first values of the parameters --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/initialise.h"

#include "runtime/philox.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tfm {

namespace {

/// The random numbers of one parameter.
class Source {
public:
  Source(uint64_t seed, uint64_t stream) : seed(seed), stream(stream) {}

  PhiloxBlock block(uint64_t index) const {
    return philox(seed, Stream::Initialise, static_cast<uint32_t>(index),
                  static_cast<uint32_t>(stream),
                  static_cast<uint32_t>(stream >> 32) ^
                      static_cast<uint32_t>(index >> 32) << 16);
  }

private:
  uint64_t seed;
  uint64_t stream;
};

/// Two standard normal numbers from 64 random bits (Box and Muller 1958).
void normalPair(uint32_t a, uint32_t b, float out[2]) {
  double u = (static_cast<double>(a) + 0.5) * 0x1p-32; // never 0
  double radius = std::sqrt(-2 * std::log(u));
  double angle = 2 * std::numbers::pi * static_cast<double>(b) * 0x1p-32;
  out[0] = static_cast<float>(radius * std::cos(angle));
  out[1] = static_cast<float>(radius * std::sin(angle));
}

void fillNormal(const Source &source, double mean, double deviation,
                std::span<float> out) {
  for (size_t i = 0; i < out.size(); i += 4) {
    PhiloxBlock block = source.block(i / 4);
    float values[4];
    normalPair(block[0], block[1], values);
    normalPair(block[2], block[3], values + 2);
    for (size_t j = 0; j < std::min<size_t>(4, out.size() - i); ++j)
      out[i + j] = static_cast<float>(mean + deviation * values[j]);
  }
}

void fillUniform(const Source &source, double low, double high,
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

void fillTruncatedNormal(const Source &source, double mean, double deviation,
                         std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    double u =
        (static_cast<double>(source.block(i / 4)[i % 4]) + 0.5) * 0x1p-32;
    out[i] = static_cast<float>(mean + deviation * truncatedNormal(u));
  }
}

} // namespace

void initialise(const tfm_parameter &parameter, uint64_t seed,
                std::span<float> out) {
  const double *args = parameter.init_args;
  Source source(seed, parameter.init_stream);
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

void initialise(Model &model, uint64_t seed) {
  for (const tfm_parameter &parameter : model.parameters())
    initialise(parameter, seed, model.value(parameter));
}

} // namespace tfm
