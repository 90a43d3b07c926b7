//===- safetensors.cpp - tensors in a file, as Hugging Face stores them ---===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/formats/safetensors.h"

#include "runtime/support/checksum.h"
#include "runtime/support/error.h"
#include "runtime/support/float16.h"
#include "runtime/support/utf8.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

using nlohmann::json;
using nlohmann::ordered_json;

namespace tfm {

namespace {

constexpr uint64_t maximumHeader = 100'000'000;

/// In the metadata: the header's own checksum, and before the names of tensors.
constexpr const char *ownChecksum = "tfm.checksum";
constexpr const char *checksumPrefix = "tfm.checksum:";
constexpr const char *noChecksum = "0000000000000000";

/// Where the digits of the header's own checksum stand in its text.
size_t ownChecksumAt(std::string_view header, std::string_view digits) {
  std::string member = nlohmann::json(ownChecksum).dump() + ":\"";
  size_t at = header.find(member + std::string(digits) + '"');
  return at == std::string_view::npos ? at : at + member.size();
}

/// Bits of one element, 0 for a dtype that the format does not know.
uint64_t elementBits(std::string_view dtype) {
  static constexpr std::pair<std::string_view, uint64_t> sizes[] = {
      {"C64", 64},    {"F64", 64},    {"I64", 64},        {"U64", 64},
      {"F32", 32},    {"I32", 32},    {"U32", 32},        {"F16", 16},
      {"BF16", 16},   {"I16", 16},    {"U16", 16},        {"I8", 8},
      {"U8", 8},      {"BOOL", 8},    {"F8_E4M3", 8},     {"F8_E4M3FNUZ", 8},
      {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F8_E5M2FNUZ", 8}, {"F6_E2M3", 6},
      {"F6_E3M2", 6}, {"F4", 4}};
  for (const auto &[name, size] : sizes)
    if (name == dtype)
      return size;
  return 0;
}

/// A tensor's entry; the message says what is wrong with it, or is empty.
std::string parseEntry(const json &value, uint64_t dataBytes,
                       TensorEntry &entry) {
  if (!value.is_object() || !value.contains("dtype") ||
      !value["dtype"].is_string() || !value.contains("shape") ||
      !value["shape"].is_array() || !value.contains("data_offsets") ||
      !value["data_offsets"].is_array() || value["data_offsets"].size() != 2)
    return "needs dtype, shape and data_offsets";
  entry.dtype = value["dtype"].get<std::string>();
  uint64_t bits = elementBits(entry.dtype);
  if (bits == 0)
    return "has the unknown dtype " + beginningOf(entry.dtype);
  for (const json &size : value["shape"]) {
    if (!size.is_number_unsigned())
      return "has a shape that is not made of whole numbers";
    uint64_t extent = size.get<uint64_t>();
    if (extent > uint64_t{1} << 62 ||
        __builtin_mul_overflow(bits, extent, &bits))
      return "is too large";
    entry.shape.push_back(static_cast<int64_t>(extent));
  }
  const json &offsets = value["data_offsets"];
  if (!offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned())
    return "has offsets that are not whole numbers";
  entry.begin = offsets[0].get<uint64_t>();
  entry.end = offsets[1].get<uint64_t>();
  if (entry.begin > entry.end || entry.end > dataBytes)
    return "reaches beyond the end of the file: it is cut short or damaged";
  if (bits % 8 != 0 || entry.end - entry.begin != bits / 8)
    return "has a size that does not match its shape";
  return "";
}

/// The file's own table; the message says what is wrong with it, or is empty.
std::string parseMetadata(const json &value,
                          std::map<std::string, std::string> &metadata) {
  constexpr const char *wrong = "__metadata__ is not a table of strings";
  if (!value.is_object())
    return wrong;
  for (const auto &[key, entry] : value.items()) {
    if (!entry.is_string())
      return wrong;
    metadata[key] = entry.get<std::string>();
  }
  return "";
}

} // namespace

TensorHeader parseSafetensorsHeader(std::string_view text, uint64_t dataBytes,
                                    const std::string &path) {
  auto fail = [&](const std::string &what) {
    throw InputError(
        "{} is not a usable safetensors file: {}. Copy or download it again",
        path, what);
  };
  // Members are taken from the parser one by one, and none is kept: it looks
  // through those that it has at the end of each. It would also keep the last
  // of two of one name, which hides a tensor.
  TensorHeader result;
  std::set<std::string> names, fields; // of the header, and of a tensor
  std::string name, problem;
  bool isRepeated = false;
  auto take = [&](int depth, json::parse_event_t event, json &value) {
    using Event = json::parse_event_t;
    if (depth == 2 && event == Event::key && name != "__metadata__")
      isRepeated |= !fields.insert(value.get<std::string>()).second;
    if (depth != 1 || event == Event::object_start ||
        event == Event::array_start)
      return true;
    if (event == Event::key) {
      name = value.get<std::string>();
      isRepeated |= !names.insert(name).second;
      fields.clear();
      return true;
    }
    std::string wrong;
    if (name == "__metadata__") {
      wrong = parseMetadata(value, result.metadata);
    } else if (wrong = parseEntry(value, dataBytes, result.tensors[name]);
               !wrong.empty()) {
      wrong = "the tensor " + beginningOf(name) + " " + wrong;
    }
    if (problem.empty())
      problem = wrong;
    return false;
  };
  json header = json::parse(text, take, /*allow_exceptions=*/false);
  if (header.is_discarded() || !header.is_object())
    fail("its header is not JSON");
  if (isRepeated)
    fail("a tensor, or what is said of one, is listed twice");
  if (!problem.empty())
    fail(problem);

  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  ranges.reserve(result.tensors.size());
  for (const auto &[name, entry] : result.tensors)
    ranges.emplace_back(entry.begin, entry.end);
  std::sort(ranges.begin(), ranges.end());
  uint64_t position = 0;
  for (const auto &[begin, end] : ranges) {
    if (begin != position)
      fail("its tensors overlap or leave gaps");
    position = end;
  }
  if (position != dataBytes)
    fail("it holds more bytes than its tensors");
  return result;
}

SafetensorsReader::SafetensorsReader(const std::string &path,
                                     const TensorUse &use)
    : TensorFile(path, use.purpose) {
  unsigned char length[8];
  if (file.size() < sizeof length)
    throw InputError("{} is not a safetensors file: it has only {} bytes", path,
                     file.size());
  file.readAt(length, sizeof length, 0);
  if (std::memcmp(length, "PK\3\4", 4) == 0)
    throw InputError("{} is a zip file, {}", path, use.insteadOfZip);
  if (std::memcmp(length, "\x93NUMPY", 6) == 0)
    throw InputError("{} is an array of NumPy's, and no safetensors file: {}",
                     path, use.insteadOfText);
  // No header is as long as letters say.
  std::string start(std::min<uint64_t>(file.size(), 64), '\0');
  file.readAt(start.data(), start.size(), 0);
  if (start.starts_with("version https://git-lfs"))
    throw InputError("{} is a pointer of Git LFS, which stands for the file: "
                     "run `git lfs pull` where it was cloned",
                     path);
  if (std::all_of(length, std::end(length), [](unsigned char c) {
        return (c >= ' ' && c < 127) || (c >= '\t' && c <= '\r');
      }))
    throw InputError("{} is {}, and no safetensors file: {}", path,
                     length[0] == '{' || length[0] == '[' ? "JSON" : "text",
                     use.insteadOfText);
  uint64_t headerBytes = 0;
  for (int i = 7; i >= 0; --i)
    headerBytes = headerBytes << 8 | length[i];
  if (headerBytes > maximumHeader || headerBytes > file.size() - sizeof length)
    throw InputError(
        "{} is not a safetensors file, or it is cut short: its header is said "
        "to have {} bytes{}. Copy or download it again",
        path, headerBytes,
        headerBytes > maximumHeader ? "" : ", more than the file");
  std::string text(headerBytes, '\0');
  file.readAt(text.data(), headerBytes, sizeof length);
  dataStart = sizeof length + headerBytes;
  parsed = parseSafetensorsHeader(text, file.size() - dataStart, path);
  requireUnchangedHeader(std::move(text));
}

std::string SafetensorsReader::headerChecksum() const {
  auto found = parsed.metadata.find(ownChecksum);
  return found == parsed.metadata.end() ? "" : found->second;
}

void SafetensorsReader::requireUnchangedHeader(std::string text) const {
  // The first that begins so is the header's own, if it is there: where only
  // that of a tensor is, a bit of the name has flipped.
  auto first = parsed.metadata.lower_bound(ownChecksum);
  if (first == parsed.metadata.end() || !first->first.starts_with(ownChecksum))
    return;
  std::string digits = headerChecksum();
  size_t at = ownChecksumAt(text, digits);
  if (digits.size() == 16 && at != std::string::npos) {
    text.replace(at, digits.size(), noChecksum);
    if (checksumOf(text) == digits)
      return;
  }
  throw InputError("{} is damaged: its header is not what was written there "
                   "(its checksum is that of other bytes)",
                   path());
}

void SafetensorsReader::requireUnchanged(const std::string &name,
                                         std::span<const char> data) const {
  auto expected = parsed.metadata.find(checksumPrefix + name);
  if (expected != parsed.metadata.end() &&
      expected->second != checksumOf(data.data(), data.size()))
    throw InputError("{} is damaged: the tensor {} is not what was written "
                     "there (its checksum is that of other bytes)",
                     path(), name);
}

void SafetensorsReader::requireUnchanged(const std::string &name,
                                         const TensorEntry &entry) const {
  if (!parsed.metadata.contains(checksumPrefix + name))
    return;
  std::vector<char> raw(entry.end - entry.begin);
  readBytes(entry, 0, raw);
  requireUnchanged(name, raw);
}

float largestOf(StoredType type) {
  switch (type) {
  case StoredType::F32:
  case StoredType::INT8: // the scale is an f32
    break;
  case StoredType::BF16:
    return largestBFloat16;
  case StoredType::F16:
    return largestHalf;
  case StoredType::INT4:
    return largestBFloat16 / 2;
  }
  return std::numeric_limits<float>::max();
}

Reach reachOf(StoredType type, std::span<const int64_t> shape,
              int64_t outputAxis) {
  if (type == StoredType::BF16)
    return {"bf16", largestOf(type)};
  if (type == StoredType::F16)
    return {"f16", largestOf(type)};
  if (type == StoredType::F32 || outputAxis < 0)
    return {"f32", largestOf(StoredType::F32)};
  const size_t terms = OutputRows(shape, outputAxis).terms();
  const bool isInt8 = type == StoredType::INT8;
  // In 4 bits minima are added up apart from what is above them, which is at
  // most twice as much: three times, and room for rounding.
  return {std::string(isInt8 ? "int8" : "int4") + ", in sums of " +
              std::to_string(terms) + " terms,",
          largestWithIntegers(terms) / (isInt8 ? 1 : 4)};
}

size_t firstBeyond(std::span<const float> values, float largest) {
  // Of blocks without one compilers make vectors.
  constexpr size_t block = 4096;
  for (size_t at = 0; at < values.size(); at += block) {
    std::span<const float> part =
        values.subspan(at, std::min(block, values.size() - at));
    bool isBeyond = false;
    for (float value : part)
      isBeyond |= std::abs(value) > largest;
    if (isBeyond)
      return at + static_cast<size_t>(
                      std::ranges::find_if(part,
                                           [&](float value) {
                                             return std::abs(value) > largest;
                                           }) -
                      part.begin());
  }
  return values.size();
}

size_t FloatTensor::elements() const {
  size_t count = 1;
  for (int64_t extent : shape)
    count *= static_cast<size_t>(extent);
  return count;
}

FloatTensor hostTensor(std::string name, std::vector<int64_t> shape,
                       const float *values) {
  FloatTensor tensor{std::move(name), std::move(shape), nullptr};
  tensor.read = [values, count = tensor.elements()] {
    return PendingRead<float>({values, count});
  };
  return tensor;
}

/// The name that the format has for the type that a tensor gets.
static std::string_view nameOf(const FloatTensor &tensor, StoredType type) {
  switch (type) {
  case StoredType::F32:
    return "F32";
  case StoredType::BF16:
    return "BF16";
  case StoredType::F16:
    return "F16";
  case StoredType::INT8:
    return tensor.outputAxis < 0 ? "F32" : int8Type;
  case StoredType::INT4:
    return tensor.outputAxis < 0 ? "F32" : int4Type;
  }
  return "";
}

/// The header of a file with these tensors behind each other.
static std::string headerText(const std::vector<FloatTensor> &tensors,
                              const std::map<std::string, std::string> &meta,
                              StoredType type = StoredType::F32) {
  ordered_json header = ordered_json::object();
  // Straight into the map's vector: looking for duplicates would be quadratic,
  // and there are none.
  auto &members = header.get_ref<ordered_json::object_t &>();
  if (!meta.empty())
    members.emplace_back("__metadata__", meta);
  uint64_t position = 0;
  auto add = [&](const std::string &name, std::string_view dtype,
                 const std::vector<int64_t> &shape, size_t count) {
    uint64_t end = position + count * elementBits(dtype) / 8;
    members.emplace_back(name, ordered_json{{"dtype", dtype},
                                            {"shape", shape},
                                            {"data_offsets", {position, end}}});
    position = end;
  };
  for (const FloatTensor &tensor : tensors) {
    std::string_view dtype = nameOf(tensor, type);
    std::vector<int64_t> shape = tensor.shape;
    if (dtype != int8Type && dtype != int4Type) {
      add(tensor.name, dtype, shape, tensor.elements());
      continue;
    }
    OutputRows rows(shape, tensor.outputAxis);
    if (rows.areLast())
      std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
    auto addRows = [&](std::string_view suffix, std::string_view dtype,
                       size_t perRow) {
      add(tensor.name + std::string(suffix), dtype, shape,
          rows.outputs() * perRow);
    };
    if (dtype == int8Type) {
      addRows("", dtype, rows.terms());
      shape.pop_back();
      addRows(scaleSuffix, "F32", 1);
      continue;
    }
    size_t bytes = groupedBytes(rows.terms()), groups = groupsOf(rows.terms());
    shape.back() = static_cast<int64_t>(bytes);
    addRows("", dtype, bytes);
    shape.back() = static_cast<int64_t>(groups);
    addRows(scaleSuffix, "BF16", groups);
    addRows(minimumSuffix, "BF16", groups);
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

/// The integers that a device has, else those that are made of its values.
static Int8Rows int8Of(const FloatTensor &tensor) {
  if (tensor.readInt8)
    return tensor.readInt8();
  OutputRows rows(tensor.shape, tensor.outputAxis);
  Int8Rows made;
  made.integers.resize(tensor.elements());
  made.scales.resize(rows.outputs());
  quantise(tensor.read().values(), rows, made.integers, made.scales);
  return made;
}

static Int4Groups int4Of(const FloatTensor &tensor) {
  if (tensor.readInt4)
    return tensor.readInt4();
  OutputRows rows(tensor.shape, tensor.outputAxis);
  Int4Groups made;
  made.integers.resize(rows.outputs() * groupedBytes(rows.terms()));
  made.scales.resize(rows.outputs() * groupsOf(rows.terms()));
  made.minima.resize(made.scales.size());
  quantise(tensor.read().values(), rows, made.integers, made.scales,
           made.minima);
  return made;
}

template <typename T>
static void writeAll(AtomicFile &file, const std::vector<T> &values) {
  file.write(values.data(), values.size() * sizeof(T));
}

/// Writes values in a type of 16 bits, some at a time.
static void writeRounded(AtomicFile &file, std::span<const float> values,
                         StoredType type) {
  constexpr size_t block = size_t{1} << 16;
  std::vector<uint16_t> rounded(std::min(block, values.size()));
  for (size_t at = 0; at < values.size(); at += block) {
    std::span<const float> part =
        values.subspan(at, std::min(block, values.size() - at));
    if (type == StoredType::BF16)
      std::ranges::transform(part, rounded.begin(), toBFloat16);
    else
      std::ranges::transform(part, rounded.begin(), toHalf);
    file.write(rounded.data(), part.size() * sizeof(uint16_t));
  }
}

static void writeWith(const std::string &header, AtomicFile &file,
                      const std::vector<FloatTensor> &tensors,
                      StoredType type = StoredType::F32) {
  unsigned char length[8];
  for (int i = 0; i < 8; ++i)
    length[i] = static_cast<unsigned char>(uint64_t{header.size()} >> (8 * i));
  file.write(length, sizeof length);
  file.write(header);
  for (const FloatTensor &tensor : tensors) {
    std::string_view dtype = nameOf(tensor, type);
    if (dtype == int8Type) {
      Int8Rows rows = int8Of(tensor);
      writeAll(file, rows.integers);
      writeAll(file, rows.scales);
    } else if (dtype == int4Type) {
      Int4Groups groups = int4Of(tensor);
      writeAll(file, groups.integers);
      writeAll(file, groups.scales);
      writeAll(file, groups.minima);
    } else {
      PendingRead<float> read = tensor.read();
      std::span<const float> values = read.values();
      if (dtype == "F32")
        file.write(values.data(), values.size_bytes());
      else
        writeRounded(file, values, type);
    }
  }
}

void writeSafetensors(AtomicFile &file, const std::vector<FloatTensor> &tensors,
                      const std::map<std::string, std::string> &metadata,
                      StoredType type) {
  writeWith(headerText(tensors, metadata, type), file, tensors, type);
}

std::string
writeCheckedSafetensors(AtomicFile &file,
                        const std::vector<FloatTensor> &tensors,
                        std::map<std::string, std::string> metadata) {
  metadata[ownChecksum] = noChecksum;
  for (const FloatTensor &tensor : tensors) {
    PendingRead<float> read = tensor.read();
    std::span<const float> values = read.values();
    metadata[checksumPrefix + tensor.name] =
        checksumOf(values.data(), values.size_bytes());
  }
  std::string header = headerText(tensors, metadata);
  std::string checksum = checksumOf(header);
  header.replace(ownChecksumAt(header, noChecksum), checksum.size(), checksum);
  writeWith(header, file, tensors);
  return checksum;
}

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

} // namespace tfm
