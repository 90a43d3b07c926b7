//===- gguf_blocks.h - numbers as llama.cpp stores them -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Elements that lie side by side in a row are a block: integers of few bits,
// and the scales (and minima) that they are of. The layouts are those of
// https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_FORMATS_GGUF_BLOCKS_H
#define TFM_RUNTIME_FORMATS_GGUF_BLOCKS_H

#include <cstdint>
#include <string>
#include <string_view>

namespace tfm {

/// A type of tensors.
struct GgufType {
  uint32_t number; ///< in files
  std::string_view name;
  uint64_t elements; ///< of a block: 1 where every element stands alone
  uint64_t bytes;    ///< of a block
  /// Computes the elements of a block; null where one stands alone. In f32, in
  /// the order of llama.cpp, so that the bits are the same.
  void (*decode)(const uint8_t *block, float *out);
};

/// The most elements that a block has.
inline constexpr uint64_t ggufMostElements = 256;

/// Null for what is not read.
const GgufType *ggufType(uint32_t number);
const GgufType *ggufType(std::string_view name);
/// For messages: the name of any type, or its number.
std::string ggufTypeName(uint32_t number);
/// For messages: the names of those that are read.
std::string ggufTypesThatAreRead();

} // namespace tfm

#endif // TFM_RUNTIME_FORMATS_GGUF_BLOCKS_H
