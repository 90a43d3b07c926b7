//===- checksum.h - whether bytes are those that were written -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_SUPPORT_CHECKSUM_H
#define TFM_RUNTIME_SUPPORT_CHECKSUM_H

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace tfm {

/// XXH3 of 64 bits (Collet 2019) over bytes that come piece by piece. It finds
/// damage, at the speed of memory; it does not keep out who wants to deceive.
class Checksum {
public:
  Checksum();
  ~Checksum();
  Checksum(Checksum &&other) noexcept;
  Checksum &operator=(Checksum &&other) noexcept;

  void add(const void *data, size_t size);
  /// Of everything so far: 16 hexadecimal digits, as `xxhsum -H3` prints them.
  std::string text() const;

private:
  struct State;
  std::unique_ptr<State> state;
};

/// The checksum of one piece.
std::string checksumOf(const void *data, size_t size);
inline std::string checksumOf(std::string_view text) {
  return checksumOf(text.data(), text.size());
}

} // namespace tfm

#endif // TFM_RUNTIME_SUPPORT_CHECKSUM_H
