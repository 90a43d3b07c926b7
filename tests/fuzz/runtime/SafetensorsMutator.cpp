//===- SafetensorsMutator.cpp - containers that are nearly right --------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tests/fuzz/runtime/SafetensorsMutator.h"

#include "tests/fuzz/runtime/JsonMutator.h"

#include <algorithm>

namespace tfm::fuzz {

namespace {

constexpr const char *keys[] = {"dtype", "shape", "data_offsets",
                                "__metadata__", "format"};

struct Type {
  const char *name;
  uint64_t bytes;
};
constexpr Type types[] = {{"F32", 4},  {"F16", 2},     {"BF16", 2}, {"F64", 8},
                          {"I64", 8},  {"I32", 4},     {"I16", 2},  {"I8", 1},
                          {"U8", 1},   {"BOOL", 1},    {"U64", 8},  {"U32", 4},
                          {"U16", 2},  {"F8_E4M3", 1}, {"C64", 8},  {"F4", 1},
                          {"F32 ", 4}, {"f32", 4}};

/// Bit patterns whose values are special, as f32, f16 or f64.
constexpr std::string_view patterns[] = {
    std::string_view("\0\0\x80\x7f", 4),
    std::string_view("\0\0\xc0\x7f", 4),
    std::string_view("\0\0\x80\xff", 4),
    std::string_view("\1\0\0\0", 4),
    std::string_view("\0\x7c", 2),
    std::string_view("\xff\xff", 2),
    std::string_view("\0\0\0\0\0\0\xf0\x7f", 8)};

/// A file in its three parts.
struct Container {
  uint64_t length = 0; ///< of the header, as it is written
  std::string header;
  std::string data;

  explicit Container(std::string_view bytes) {
    if (bytes.size() >= 8)
      for (int i = 7; i >= 0; --i)
        length = length << 8 |
                 static_cast<unsigned char>(bytes[static_cast<size_t>(i)]);
    bytes.remove_prefix(std::min<size_t>(8, bytes.size()));
    uint64_t cut = std::min<uint64_t>(length, bytes.size());
    header = bytes.substr(0, cut);
    data = bytes.substr(cut);
  }

  std::string text() const {
    std::string result;
    for (int i = 0; i < 8; ++i)
      result += static_cast<char>(length >> (8 * i));
    return result + header + data;
  }
};

class Mutation {
public:
  Mutation(Container &container, Dice &dice, std::span<const char *const> names)
      : file(container), dice(dice), names(names),
        header(Json::parse(container.header, nullptr, false)) {
    if (!header.is_object())
      header = Json::object();
  }

  void run() {
    for (size_t changes = dice.below(3); changes > 0; --changes)
      changeTensors();
    // What was broken before mostly becomes right again.
    if (!dice.oneIn(4))
      layOut();
    if (dice.oneIn(3)) {
      Json &metadata = header["__metadata__"];
      if (!metadata.is_object())
        metadata = Json::object();
      metadata[dice.pick(names)] = dice.oneIn(2) ? "pt" : dice.bytes("step");
    }
    bool inTree = dice.oneIn(3);
    if (inTree)
      mutateTree(header, dice, keys);
    file.header = textOf(header);
    if (dice.oneIn(2))
      file.header.append((8 - file.header.size() % 8) % 8, ' ');
    file.length = file.header.size();
    if (!inTree && dice.oneIn(2))
      breakBytes();
  }

private:
  void changeTensors() {
    if (header.empty() || dice.oneIn(3)) {
      Type type = dice.pick(std::span(types).first(dice.oneIn(3) ? 18 : 4));
      Json shape = Json::array();
      uint64_t bytes = type.bytes;
      for (size_t rank = dice.below(4); rank > 0; --rank) {
        size_t extent = dice.below(5);
        shape.push_back(extent);
        bytes *= extent;
      }
      std::string name = dice.oneIn(4) ? dice.bytes("a.weight")
                                       : std::string(dice.pick(names));
      // JSON's own layer: no two tensors of a name.
      header[name] = {
          {"dtype", type.name},
          {"shape", shape},
          {"data_offsets", {file.data.size(), file.data.size() + bytes}}};
      std::string_view pattern = dice.pick(patterns);
      while (bytes > 0 && bytes < 4096) {
        size_t part = std::min<uint64_t>(bytes, pattern.size());
        file.data += dice.oneIn(8) ? std::string(pattern.substr(0, part))
                                   : std::string(part, '\x3d');
        bytes -= part;
      }
      return;
    }
    auto at = std::next(header.begin(),
                        static_cast<ptrdiff_t>(dice.below(header.size())));
    Json &entry = at.value();
    switch (dice.below(4)) {
    case 0:
      header.erase(at);
      return;
    case 1: {
      Json copy = entry;
      header[dice.pick(names)] = std::move(copy);
      return;
    }
    case 2:
      if (entry.is_object() && entry.contains("dtype"))
        entry["dtype"] = dice.pick(types).name;
      return;
    default:
      if (entry.is_object() && entry.contains("shape"))
        mutateTree(entry["shape"], dice, {});
    }
  }

  /// Every tensor behind the one before it, with as many bytes as its shape and
  /// type ask for, out of those that it had.
  void layOut() {
    std::string data;
    for (auto &[name, entry] : header.items()) {
      if (!entry.is_object() || !entry.contains("data_offsets"))
        continue;
      uint64_t bytes = 0;
      for (const Type &type : types)
        if (entry.contains("dtype") && entry["dtype"] == type.name)
          bytes = type.bytes;
      if (entry.contains("shape") && entry["shape"].is_array())
        for (const Json &extent : entry["shape"]) {
          uint64_t size =
              extent.is_number_unsigned() ? extent.get<uint64_t>() : 1;
          bytes = size > 4096 ? 4096 : std::min<uint64_t>(bytes * size, 4096);
        }
      const Json &offsets = entry["data_offsets"];
      uint64_t begin = offsets.is_array() && !offsets.empty() &&
                               offsets[0].is_number_unsigned()
                           ? offsets[0].get<uint64_t>()
                           : 0;
      std::string own =
          begin < file.data.size() ? file.data.substr(begin, bytes) : "";
      own.resize(bytes, '\x3e');
      entry["data_offsets"] = {data.size(), data.size() + bytes};
      data += own;
    }
    file.data = std::move(data);
  }

  void breakBytes() {
    switch (dice.below(7)) {
    case 0:
      file.length += dice.oneIn(2) ? 1 : ~uint64_t{0};
      break;
    case 1:
      file.length = uint64_t{1} << dice.below(64);
      break;
    case 2:
      file.data.resize(dice.below(file.data.size() + 1));
      break;
    case 3:
      file.data += '\0';
      break;
    case 4:
      file.data = dice.bytes(file.data);
      break;
    case 5:
      if (!file.data.empty()) {
        std::string_view pattern = dice.pick(patterns);
        size_t at = dice.below(file.data.size());
        file.data.replace(at, std::min(pattern.size(), file.data.size() - at),
                          pattern.substr(0, file.data.size() - at));
      }
      break;
    default:
      // The same header twice in one has every key twice, as a tree cannot.
      if (dice.oneIn(2) && file.header.size() > 2 && header.size() > 0) {
        std::string inner = textOf(header);
        inner.back() = ',';
        file.header = inner + textOf(header).substr(1);
      } else {
        file.header = dice.bytes(file.header);
      }
      file.length = file.header.size();
    }
  }

  Container &file;
  Dice &dice;
  std::span<const char *const> names;
  Json header;
};

} // namespace

std::string mutateSafetensors(std::string_view bytes, Dice &dice,
                              std::span<const char *const> names) {
  if (dice.oneIn(20))
    return dice.bytes(bytes);
  Container container(bytes);
  Mutation(container, dice, names).run();
  return container.text();
}

} // namespace tfm::fuzz
