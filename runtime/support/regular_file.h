//===- regular_file.h - a file that is read anywhere --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_SUPPORT_REGULAR_FILE_H
#define TFM_RUNTIME_SUPPORT_REGULAR_FILE_H

#include <cstdint>
#include <string>
#include <string_view>

namespace tfm {

/// An open file whose bytes are read wherever they are wanted, by any number of
/// threads at a time.
class RegularFile {
public:
  /// Throws InputError that names `purpose` ("the weights") and the file, also
  /// where it is no regular one but a folder or a pipe.
  RegularFile(std::string path, std::string_view purpose);
  ~RegularFile();
  RegularFile(RegularFile &&other) noexcept;
  RegularFile &operator=(RegularFile &&) = delete;

  const std::string &path() const { return name; }
  /// Bytes that it had when it was opened.
  uint64_t size() const { return bytes; }
  /// Copies `count` bytes from `position` on; throws InputError that names the
  /// file where it has become too short. Allocates nothing.
  void readAt(void *out, uint64_t count, uint64_t position) const;

private:
  std::string name;
  int file = -1;
  uint64_t bytes = 0;
};

} // namespace tfm

#endif // TFM_RUNTIME_SUPPORT_REGULAR_FILE_H
