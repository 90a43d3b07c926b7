//===- packed.h - bytes in less room ----------------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_PACKED_H
#define TFM_RUNTIME_PACKED_H

#include <string>
#include <string_view>

namespace tfm {

/// The bytes as a block of the LZ4 format (lz4.org, "LZ4 Block Format
/// Description"): what was there before is named by how far back it is. Of
/// kernels that is a fifth of them, and unpacking takes next to no code.
std::string pack(std::string_view bytes);

/// The `size` bytes that were packed. Throws std::logic_error where these are
/// not what `pack` makes of so many.
std::string unpack(std::string_view packed, size_t size);

} // namespace tfm

#endif // TFM_RUNTIME_PACKED_H
