//===- float16.h - numbers of 16 bits -----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// bfloat16 (the upper half of a single) and IEEE 754 binary16, to and from
// single precision. Every number of 16 bits has its own in single precision;
// the other way takes the nearest, of two that are as near the even one, and
// infinity beyond the largest by half a step or more. NaN stays NaN.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_SUPPORT_FLOAT16_H
#define TFM_RUNTIME_SUPPORT_FLOAT16_H

#include <bit>
#include <cstdint>

namespace tfm {

inline constexpr float largestBFloat16 = 0x1.fep127f;
inline constexpr float largestHalf = 65504.0f;

constexpr float fromBFloat16(uint16_t number) {
  return std::bit_cast<float>(uint32_t{number} << 16);
}

constexpr uint16_t toBFloat16(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  // What is cut off may be all that tells a NaN from infinity.
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

constexpr float fromHalf(uint16_t half) {
  uint32_t sign = uint32_t{half & 0x8000u} << 16;
  uint32_t exponent = (half >> 10) & 0x1fu;
  uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0) { // zero or subnormal: mantissa * 2^-24
    float value = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -value : value;
  }
  if (exponent == 31)
    return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

/// F8_E5M2: a half without its low byte. F8_E4M3: without infinities, and one
/// NaN of each sign (Micikevicius et al. 2022).
constexpr float fromFloat8E5M2(uint8_t number) {
  return fromHalf(static_cast<uint16_t>(number << 8));
}
constexpr float fromFloat8E4M3(uint8_t number) {
  if ((number & 0x7fu) == 0x7fu)
    return std::bit_cast<float>(0x7fc00000u);
  // The same bits of a half stand for 2^-8 of the number.
  return fromHalf(static_cast<uint16_t>((number & 0x80u) << 8 | (number & 0x7fu)
                                                                    << 7)) *
         0x1p8f;
}

constexpr uint16_t toHalf(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  uint32_t sign = bits >> 16 & 0x8000u;
  uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t half;
  if (magnitude > 0x7f800000u)
    half = 0x7e00u | (magnitude >> 13 & 0x3ffu);
  else if (magnitude >= std::bit_cast<uint32_t>(65520.0f))
    half = 0x7c00u;
  else if (magnitude >= std::bit_cast<uint32_t>(0x1p-14f))
    half = (magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  else // subnormal: beside 0.5 a single has steps of 2^-24, as a half here
    half = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) -
           std::bit_cast<uint32_t>(0.5f);
  return static_cast<uint16_t>(sign | half);
}

} // namespace tfm

#endif // TFM_RUNTIME_SUPPORT_FLOAT16_H
