//===- tensor_file.h - named tensors in a file --------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_FORMATS_TENSOR_FILE_H
#define TFM_RUNTIME_FORMATS_TENSOR_FILE_H

#include "runtime/support/regular_file.h"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace tfm {

/// Where a tensor lies in a file.
struct TensorEntry {
  /// F32, F16, BF16, F64, I32, ..., and of a gguf file Q8_0, Q4_0 and Q4_1.
  std::string dtype;
  std::vector<int64_t> shape;
  /// Bytes from the beginning of the tensors.
  uint64_t begin = 0;
  uint64_t end = 0;

  uint64_t elements() const;
};

struct TensorHeader {
  std::map<std::string, TensorEntry> tensors;
  std::map<std::string, std::string> metadata;
};

/// An open file; reads tensors on demand.
class TensorFile {
public:
  /// Throws InputError naming the file, and its `purpose` ("the weights").
  TensorFile(const std::string &path, std::string_view purpose);
  virtual ~TensorFile() = default;
  TensorFile(const TensorFile &) = delete;
  TensorFile &operator=(const TensorFile &) = delete;

  const std::string &path() const { return file.path(); }
  /// Whether a path is that of what is read here.
  virtual bool isRead(const std::string &path) const;
  const TensorHeader &header() const { return parsed; }
  /// Null if there is no such tensor.
  const TensorEntry *find(const std::string &name) const;
  /// Reads a tensor of any float type as f32, `entry.elements()` values. Throws
  /// InputError where the file has a checksum of it, and its bytes another.
  void readFloats(const std::string &name, const TensorEntry &entry,
                  float *out) const;
  /// The same of some elements, from `first` on, without a look at checksums;
  /// by any number of threads at a time.
  virtual void readFloats(const std::string &name, const TensorEntry &entry,
                          uint64_t first, std::span<float> out) const;
  /// Bytes of a tensor, from `first` on; also by any number of threads.
  virtual void readBytes(const TensorEntry &entry, uint64_t first,
                         std::span<char> out) const;
  /// Throws InputError where the file has a checksum of a tensor, and `data`,
  /// all of its bytes, another.
  virtual void requireUnchanged(const std::string &name,
                                std::span<const char> data) const = 0;
  /// The same of what is in the file.
  virtual void requireUnchanged(const std::string &name,
                                const TensorEntry &entry) const = 0;

protected:
  RegularFile file;
  TensorHeader parsed;
  uint64_t dataStart = 0;
};

} // namespace tfm

#endif // TFM_RUNTIME_FORMATS_TENSOR_FILE_H
