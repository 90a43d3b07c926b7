//===- cpu_features.h - what processors may or may not have -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_DEVICE_CPU_FEATURES_H
#define TFM_RUNTIME_DEVICE_CPU_FEATURES_H

#include <array>
#include <string_view>

namespace tfm {

/// The instructions beyond the first x86-64 that machine code of a model may
/// use, by LLVM's names, which are those of `__builtin_cpu_supports`, too.
#define TFM_X86_FEATURES(X)                                                    \
  X("popcnt")                                                                  \
  X("lzcnt")                                                                   \
  X("bmi")                                                                     \
  X("bmi2")                                                                    \
  X("movbe")                                                                   \
  X("f16c")                                                                    \
  X("fma")                                                                     \
  X("avx2")                                                                    \
  X("avx512f")                                                                 \
  X("avx512cd")                                                                \
  X("avx512bw")                                                                \
  X("avx512dq")                                                                \
  X("avx512vl")                                                                \
  X("avx512ifma")                                                              \
  X("avx512vbmi")                                                              \
  X("avx512vbmi2")                                                             \
  X("avx512vnni")                                                              \
  X("avx512bitalg")                                                            \
  X("avx512vpopcntdq")                                                         \
  X("avx512bf16")                                                              \
  X("avx512fp16")                                                              \
  X("amx-tile")                                                                \
  X("amx-bf16")                                                                \
  X("amx-int8")                                                                \
  X("avxvnni")                                                                 \
  X("gfni")                                                                    \
  X("vaes")                                                                    \
  X("vpclmulqdq")

/// The same beyond the first AArch64, and where Linux says that the processor
/// has them: in which word of the auxiliary vector, by which bit.
#define TFM_AARCH64_FEATURES(X)                                                \
  X("dotprod", AT_HWCAP, HWCAP_ASIMDDP)                                        \
  X("bf16", AT_HWCAP2, HWCAP2_BF16)

#define TFM_NAME_OF(name, ...) std::string_view(name),
inline constexpr std::array x86Features = {TFM_X86_FEATURES(TFM_NAME_OF)};
inline constexpr std::array aarch64Features = {
    TFM_AARCH64_FEATURES(TFM_NAME_OF)};
#undef TFM_NAME_OF

} // namespace tfm

#endif // TFM_RUNTIME_DEVICE_CPU_FEATURES_H
