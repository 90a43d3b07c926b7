//===- token_file.h - token ids in a file -------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_DATA_TOKEN_FILE_H
#define TFM_RUNTIME_DATA_TOKEN_FILE_H

#include "runtime/support/regular_file.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace tfm {

/// Token ids of a file, which may be larger than memory: they are read where
/// they are wanted. Of what is no regular file, such as a pipe, all are kept.
///
/// Its form is one of three, little-endian:
/// - ids alone, of 16 bits, or 32 where the vocabulary has more than 65,536, as
///   nanoGPT writes them;
/// - NumPy's `.npy` with integers in one dimension (numpy.lib.format);
/// - llm.c's: 256 integers of 32 bits (20240520, 1, number of ids; or 20240801,
///   7, number of ids), then ids of 16 bits, or 32 of the second.
class TokenFile {
public:
  /// Throws InputError that names the file where it cannot be read, has no ids,
  /// is cut off, seems to be of wider ids, or has ids that the vocabulary
  /// lacks: of a very large file only its ends are looked at here, and the
  /// others by `read`.
  TokenFile(std::string path, int64_t vocabulary);

  int64_t count() const { return ids; }
  /// Those from `first` on. Throws InputError as above. Allocates nothing.
  void read(int64_t first, std::span<int32_t> out) const;

private:
  void readHeader();
  void readNumpyHeader();
  bool readLlmcHeader();
  void requireNoHalves() const;
  void checkIds() const;
  template <typename Id>
  void readAs(int64_t first, std::span<int32_t> out) const;
  [[noreturn]] void failOfId(int64_t place, const std::string &id) const;
  uint64_t fileBytes() const { return file ? file->size() : kept.size(); }
  void readBytes(void *out, uint64_t count, uint64_t position) const;

  std::string path;
  int64_t vocabulary;
  std::optional<RegularFile> file;
  /// The bytes of what is no regular file.
  std::string kept;
  /// The first id's place, in bytes, and the bytes of each.
  uint64_t begin = 0;
  unsigned width = 0;
  bool isSigned = false;
  int64_t ids = 0;
};

} // namespace tfm

#endif // TFM_RUNTIME_DATA_TOKEN_FILE_H
