//===- Safetensors.cpp - fixtures as tensors ------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tests/unit/oracle/Safetensors.h"

#include "llvm/Support/Endian.h"
#include "llvm/Support/MemoryBuffer.h"
#include "gtest/gtest.h"

using namespace tfm::oracle;

namespace {

std::unique_ptr<llvm::MemoryBuffer> open(const std::string &path) {
  auto buffer =
      llvm::MemoryBuffer::getFile(std::string(TFM_FIXTURES) + "/" + path);
  if (buffer)
    return std::move(*buffer);
  ADD_FAILURE() << path << ": " << buffer.getError().message();
  return llvm::MemoryBuffer::getMemBuffer("");
}

template <typename T> void convert(const char *bytes, std::vector<double> &to) {
  for (size_t i = 0; i < to.size(); ++i) {
    T value;
    std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
    to[i] = static_cast<double>(value);
  }
}

} // namespace

std::map<std::string, Tensor>
tfm::oracle::readFixture(const std::string &path) {
  std::map<std::string, Tensor> result;
  std::unique_ptr<llvm::MemoryBuffer> buffer = open(path);
  llvm::StringRef bytes = buffer->getBuffer();
  if (bytes.size() < 8)
    return result;
  uint64_t size = llvm::support::endian::read64le(bytes.data());
  auto header = llvm::json::parse(bytes.substr(8, size));
  if (!header) {
    ADD_FAILURE() << path << ": " << llvm::toString(header.takeError());
    return result;
  }
  llvm::StringRef data = bytes.drop_front(8 + size);
  for (auto &[name, value] : *header->getAsObject()) {
    if (name == "__metadata__")
      continue;
    const llvm::json::Object &entry = *value.getAsObject();
    std::vector<int64_t> shape;
    for (const llvm::json::Value &axis : *entry.getArray("shape"))
      shape.push_back(*axis.getAsInteger());
    Tensor tensor(shape);
    const char *first =
        data.data() + *(*entry.getArray("data_offsets"))[0].getAsInteger();
    llvm::StringRef dtype = *entry.getString("dtype");
    if (dtype == "F32")
      convert<float>(first, tensor.data);
    else if (dtype == "F64")
      convert<double>(first, tensor.data);
    else if (dtype == "I32")
      convert<int32_t>(first, tensor.data);
    else if (dtype == "I64")
      convert<int64_t>(first, tensor.data);
    else if (dtype == "U8" || dtype == "BOOL")
      convert<uint8_t>(first, tensor.data);
    else
      ADD_FAILURE() << path << ": dtype " << dtype.str();
    result[name.str()] = std::move(tensor);
  }
  return result;
}

llvm::json::Value tfm::oracle::readFixtureJson(const std::string &path) {
  auto value = llvm::json::parse(open(path)->getBuffer());
  if (value)
    return std::move(*value);
  ADD_FAILURE() << path << ": " << llvm::toString(value.takeError());
  return nullptr;
}
