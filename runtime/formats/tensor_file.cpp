//===- tensor_file.cpp - named tensors in a file ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/formats/tensor_file.h"

#include "runtime/support/atomic_file.h"
#include "runtime/support/error.h"
#include "runtime/support/float16.h"

#include <algorithm>

namespace tfm {

uint64_t TensorEntry::elements() const {
  uint64_t count = 1;
  for (int64_t extent : shape)
    count *= static_cast<uint64_t>(extent);
  return count;
}

TensorFile::TensorFile(const std::string &path, std::string_view purpose)
    : file(path, purpose) {}

bool TensorFile::isRead(const std::string &path) const {
  return isSameFile(file.path(), path);
}

const TensorEntry *TensorFile::find(const std::string &name) const {
  auto found = parsed.tensors.find(name);
  return found == parsed.tensors.end() ? nullptr : &found->second;
}

void TensorFile::readBytes(const TensorEntry &entry, uint64_t first,
                           std::span<char> out) const {
  file.readAt(out.data(), out.size(), dataStart + entry.begin + first);
}

void TensorFile::readFloats(const std::string &name, const TensorEntry &entry,
                            float *out) const {
  std::span<float> values(out, entry.elements());
  readFloats(name, entry, 0, values);
  if (entry.dtype == "F32")
    requireUnchanged(
        name, {reinterpret_cast<const char *>(out), values.size_bytes()});
  else
    requireUnchanged(name, entry);
}

void TensorFile::readFloats(const std::string &name, const TensorEntry &entry,
                            uint64_t first, std::span<float> out) const {
  if (entry.dtype == "F32")
    return readBytes(entry, first * sizeof(float),
                     {reinterpret_cast<char *>(out.data()), out.size_bytes()});
  auto convert = [&]<typename Stored>(auto toFloat) {
    // What a processor's cache holds beside what becomes of it.
    constexpr size_t most = size_t{1} << 15;
    std::vector<Stored> raw(std::min(most, out.size()));
    for (size_t at = 0; at < out.size(); at += most) {
      size_t count = std::min(most, out.size() - at);
      readBytes(entry, (first + at) * sizeof(Stored),
                {reinterpret_cast<char *>(raw.data()), count * sizeof(Stored)});
      for (size_t i = 0; i < count; ++i)
        out[at + i] = toFloat(raw[i]);
    }
  };
  if (entry.dtype == "F16")
    convert.operator()<uint16_t>(fromHalf);
  else if (entry.dtype == "BF16")
    convert.operator()<uint16_t>(fromBFloat16);
  else if (entry.dtype == "F8_E4M3")
    convert.operator()<uint8_t>(fromFloat8E4M3);
  else if (entry.dtype == "F8_E5M2")
    convert.operator()<uint8_t>(fromFloat8E5M2);
  else if (entry.dtype == "F64")
    convert.operator()<double>([](double x) { return static_cast<float>(x); });
  else
    throw InputError("{}: the tensor {} has dtype {}, but weights are F32, "
                     "F16, BF16, F8_E4M3, F8_E5M2 or F64",
                     path(), name, entry.dtype);
}

} // namespace tfm
