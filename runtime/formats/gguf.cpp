//===- gguf.cpp - tensors in a file, as llama.cpp stores them -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/formats/gguf.h"

#include "runtime/formats/gguf_blocks.h"
#include "runtime/support/atomic_file.h"
#include "runtime/support/error.h"
#include "runtime/support/read_json.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <numbers>
#include <set>

using nlohmann::json;

namespace tfm {

bool isGguf(const std::string &path) { return path.ends_with(".gguf"); }

//===----------------------------------------------------------------------===//
// Where everything is
//===----------------------------------------------------------------------===//

namespace {

/// The numbers that stand for types of metadata.
enum ValueType : uint32_t {
  U8,
  I8,
  U16,
  I16,
  U32,
  I32,
  F32,
  Bool,
  String,
  Array,
  U64,
  I64,
  F64
};

/// Reads a file from its beginning on.
class Cursor {
public:
  using Read = std::function<void(void *, uint64_t, uint64_t)>;
  Cursor(uint64_t size, const std::string &path, Read read, uint64_t at = 0)
      : size(size), path(path), read(std::move(read)), at(at) {}

  [[noreturn]] void fail(const std::string &what) const {
    throw InputError(
        "{} is not a usable gguf file: {}. Copy or download it again", path,
        what);
  }

  /// Of what is there on purpose.
  [[noreturn]] void refuse(const std::string &what) const {
    throw InputError("{}: {}", path, what);
  }

  uint64_t position() const { return at; }

  template <typename T> T number() {
    T value;
    take(&value, sizeof value);
    return value;
  }

  std::string text() {
    std::string result(textLength(), '\0');
    take(result.data(), result.size());
    return result;
  }

  /// More elements than any key of a configuration has.
  static constexpr uint64_t most = 1024;

  json value(uint32_t type, int depth = 0) {
    switch (type) {
    case U8:
      return number<uint8_t>();
    case I8:
      return number<int8_t>();
    case U16:
      return number<uint16_t>();
    case I16:
      return number<int16_t>();
    case U32:
      return number<uint32_t>();
    case I32:
      return number<int32_t>();
    case F32:
      // What a person would write: 0.00001, not what lies nearest to it.
      return shortest(number<float>());
    case Bool:
      return number<uint8_t>() != 0;
    case String:
      return text();
    case Array:
      return list(most, depth);
    case U64:
      return number<uint64_t>();
    case I64:
      return number<int64_t>();
    case F64:
      return number<double>();
    default:
      fail(fmt::format("it has a value of the unknown type {}", type));
    }
  }

  /// A text that says so for one with more elements than `limit`.
  json list(uint64_t limit, int depth = 0) {
    auto type = number<uint32_t>();
    auto count = number<uint64_t>();
    if (depth > 3)
      fail("its lists are nested too deeply");
    require(count);
    if (count > limit) {
      skip(type, count, depth);
      return fmt::format("a list of {} elements", count);
    }
    json result = json::array();
    for (uint64_t i = 0; i < count; ++i)
      // Nobody reads what is longer than a configuration's.
      result.push_back(type == F32 && count > most ? json(number<float>())
                                                   : value(type, depth + 1));
    return result;
  }

private:
  /// Passes over so many elements of a list.
  void skip(uint32_t type, uint64_t count, int depth) {
    constexpr uint64_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    if (type != String && type != Array && type < std::size(sizes)) {
      require(count * sizes[type]);
      at += count * sizes[type];
      return;
    }
    for (uint64_t i = 0; i < count; ++i)
      if (type == String)
        at += textLength();
      else
        value(type, depth + 1);
  }

  /// A text, which no key takes for a number, where it is none.
  static json shortest(float number) {
    std::string text = fmt::format("{}", number);
    if (!std::isfinite(number))
      return text;
    return json::parse(
        text.find_first_of(".e") == std::string::npos ? text + ".0" : text);
  }

  /// Of a text that follows.
  uint64_t textLength() {
    auto length = number<uint64_t>();
    // As long as any template or list of words, in one piece.
    if (length > (uint64_t{1} << 24))
      fail(fmt::format("a text in it is said to have {} bytes", length));
    require(length);
    return length;
  }

  /// That so many bytes are left.
  void require(uint64_t count) const {
    if (count > size - at)
      fail("it is cut short, or damaged");
  }

  void take(void *out, uint64_t count) {
    require(count);
    char *next = static_cast<char *>(out);
    while (count > 0) {
      if (at < begin || at >= begin + buffer.size()) {
        begin = at;
        buffer.resize(std::min<uint64_t>(size - at, 1 << 16));
        read(buffer.data(), buffer.size(), at);
      }
      uint64_t part = std::min(count, begin + buffer.size() - at);
      std::memcpy(next, buffer.data() + (at - begin), part);
      next += part;
      at += part;
      count -= part;
    }
  }

  const uint64_t size;
  const std::string &path;
  const Read read;
  uint64_t at = 0, begin = 0;
  std::vector<char> buffer;
};

/// A tensor's name and entry.
std::pair<std::string, TensorEntry> readEntry(Cursor &cursor,
                                              uint64_t alignment) {
  std::string name = cursor.text();
  auto fail = [&](const std::string &what) {
    cursor.fail("the tensor " + name + " " + what);
  };
  TensorEntry entry;
  auto rank = cursor.number<uint32_t>();
  if (rank < 1 || rank > 4)
    fail(fmt::format("has {} axes", rank));
  uint64_t elements = 1;
  for (uint32_t i = 0; i < rank; ++i) {
    auto extent = cursor.number<uint64_t>();
    if (extent < 1 || extent > (uint64_t{1} << 40) ||
        __builtin_mul_overflow(elements, extent, &elements) ||
        elements > (uint64_t{1} << 48))
      fail("has a size that no tensor has");
    // The one that lies side by side is the first one there.
    entry.shape.insert(entry.shape.begin(), static_cast<int64_t>(extent));
  }
  auto number = cursor.number<uint32_t>();
  const GgufType *type = ggufType(number);
  if (!type)
    cursor.refuse(fmt::format(
        "the tensor {} is of the type {}, and those that are read are {}: take "
        "a file of these, as one of Q8_0 or Q4_K_M is, or the folder of the "
        "hub that it was made from",
        name, ggufTypeName(number), ggufTypesThatAreRead()));
  entry.dtype = type->name;
  if (static_cast<uint64_t>(entry.shape.back()) % type->elements != 0)
    fail(fmt::format("has rows of {} elements, no whole blocks of {}",
                     entry.shape.back(), type->elements));
  entry.begin = cursor.number<uint64_t>();
  if (entry.begin % alignment != 0 || entry.begin > (uint64_t{1} << 60))
    fail("does not begin where a tensor may");
  entry.end = entry.begin + elements / type->elements * type->bytes;
  return {std::move(name), std::move(entry)};
}

} // namespace

bool isBlockType(std::string_view dtype) {
  const GgufType *type = ggufType(dtype);
  return type && type->elements > 1;
}

std::function<void(void *, uint64_t, uint64_t)> GgufReader::reading() const {
  return [this](void *out, uint64_t count, uint64_t position) {
    file.readAt(out, count, position);
  };
}

GgufReader::GgufReader(const std::string &path, bool isWhole)
    : TensorFile(path, "the weights") {
  static_assert(std::endian::native == std::endian::little,
                "numbers are read as they lie there");
  Cursor cursor(file.size(), path, reading());
  if (file.size() < 24 || cursor.number<uint32_t>() != 0x46554747)
    cursor.fail("it does not begin as one");
  auto version = cursor.number<uint32_t>();
  if (version == 2U << 24 || version == 3U << 24)
    cursor.refuse("its numbers are those of a big-endian machine: convert the "
                  "model again, for a little-endian one");
  if (version != 2 && version != 3)
    cursor.refuse(fmt::format("its version is {}, not 2 or 3: convert the "
                              "model again, by a newer llama.cpp",
                              version));
  auto tensorCount = cursor.number<uint64_t>(),
       valueCount = cursor.number<uint64_t>();
  for (uint64_t i = 0; i < valueCount; ++i) {
    std::string key = cursor.text();
    auto type = cursor.number<uint32_t>();
    if (values.contains(key))
      cursor.fail("its metadata has " + key + " twice");
    if (type == Array)
      lists[key] = cursor.position();
    values[key] = cursor.value(type);
  }
  uint64_t alignment = 32;
  if (auto given = values.find("general.alignment"); given != values.end()) {
    alignment = given->is_number_unsigned() ? given->get<uint64_t>() : 0;
    if (!std::has_single_bit(alignment) || alignment > (1 << 20))
      cursor.fail("general.alignment is " + jsonText(*given));
  }
  for (uint64_t i = 0; i < tensorCount; ++i) {
    auto [name, entry] = readEntry(cursor, alignment);
    if (!parsed.tensors.try_emplace(name, entry).second)
      cursor.fail("the tensor " + name + " is there twice");
  }
  dataStart = (cursor.position() + alignment - 1) / alignment * alignment;
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const auto &[name, entry] : parsed.tensors) {
    if (entry.end > dataBytes())
      cursor.fail("the tensor " + name +
                  " reaches beyond the end of the file: it is cut short, or "
                  "damaged");
    ranges.emplace_back(entry.begin, entry.end);
  }
  std::ranges::sort(ranges);
  for (size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].first < ranges[i - 1].second)
      cursor.fail("its tensors overlap");
  if (isWhole)
    openParts();
}

uint64_t GgufReader::dataBytes() const {
  return file.size() > dataStart ? file.size() - dataStart : 0;
}

int64_t GgufReader::partNumber(const char *key) const {
  const json value = values.value(key, json());
  const auto number = value.is_number_integer() ? value.get<int64_t>() : 0;
  return number == static_cast<int32_t>(number) ? number : 0;
}

void GgufReader::openParts() {
  const int64_t count = partNumber("split.count"),
                number = partNumber("split.no") + 1;
  if (count <= 1)
    return;
  const Cursor cursor(file.size(), path(), reading());
  auto ending = [&](int64_t part) {
    return fmt::format("-{:05}-of-{:05}.gguf", part, count);
  };
  const std::string own = ending(number);
  if (!path().ends_with(own))
    cursor.refuse(fmt::format("it is part {} of {} of a model, which are found "
                              "by their names: give it one that ends in {}",
                              number, count, own));
  const std::string stem = path().substr(0, path().size() - own.size());
  if (number != 1)
    cursor.refuse(fmt::format("it is part {} of {} of a model: name the first, "
                              "{}{}",
                              number, count, stem, ending(1)));
  uint64_t begin = dataBytes();
  for (int64_t part = 2; part <= count; ++part) {
    const std::string next = stem + ending(part);
    if (!folderHas(next))
      throw InputError("{} is missing: {} is the first of {} parts "
                       "of a model",
                       next, path(), count);
    std::unique_ptr<GgufReader> file(new GgufReader(next, /*isWhole=*/false));
    if (file->partNumber("split.count") != count ||
        file->partNumber("split.no") + 1 != part)
      throw InputError("{} does not say that it is part {} of {}, "
                       "as {} has them: copy or download both "
                       "again",
                       next, part, count, path());
    for (auto [name, entry] : file->header().tensors) {
      entry.begin += begin;
      entry.end += begin;
      if (!parsed.tensors.try_emplace(name, entry).second)
        cursor.fail("the tensor " + name + " is in two parts");
    }
    parts.push_back({begin, std::move(file)});
    begin += parts.back().file->dataBytes();
  }
  if (const auto tensors = partNumber("split.tensors.count");
      tensors != 0 && tensors != static_cast<int64_t>(parsed.tensors.size()))
    cursor.fail(fmt::format("all of its parts are said to have {} tensors, and "
                            "have {}",
                            tensors, parsed.tensors.size()));
}

bool GgufReader::isRead(const std::string &path) const {
  return TensorFile::isRead(path) ||
         std::ranges::any_of(
             parts, [&](const Part &part) { return part.file->isRead(path); });
}

json GgufReader::list(const std::string &key) const {
  auto place = lists.find(key);
  if (place == lists.end())
    return nullptr;
  return Cursor(file.size(), path(), reading(), place->second).list(UINT64_MAX);
}

//===----------------------------------------------------------------------===//
// In the words of a family
//===----------------------------------------------------------------------===//

namespace {

/// More would be a file that is none of a model.
constexpr int64_t mostExperts = 65536;

/// A name, where a pattern has it with one `*` for a number.
bool matches(const std::string &pattern, const std::string &name,
             std::string &number) {
  size_t star = pattern.find('*');
  number.clear();
  if (star == std::string::npos)
    return pattern == name;
  std::string_view rest = name;
  std::string_view first = std::string_view(pattern).substr(0, star),
                   last = std::string_view(pattern).substr(star + 1);
  if (!rest.starts_with(first) || rest.size() < first.size() + last.size() ||
      !rest.ends_with(last))
    return false;
  rest.remove_prefix(first.size());
  rest.remove_suffix(last.size());
  number = rest;
  return !number.empty() && std::ranges::all_of(number, [](char c) {
    return c >= '0' && c <= '9';
  });
}

} // namespace

json GgufReader::config(const json &gguf) const {
  json result = json::object();
  const std::string architecture = gguf.at("architecture").get<std::string>();
  auto set = [&](const std::string &key, const std::string &said,
                 const json &value, bool isUnknown = false) {
    json &place = isUnknown ? result[key] : placeOf(result, key);
    if (!place.is_null() && place != value)
      throw InputError("{}: {} is {}, and before it {} was {}", path(), said,
                       jsonText(value), key, jsonText(place));
    place = value;
  };
  if (json own = values.value("general.architecture", json());
      own != architecture)
    throw InputError(
        "{}: general.architecture is {}, and this family is \"{}\"", path(),
        jsonText(own), architecture);
  for (const auto &[key, value] : values.items()) {
    bool isHarmless =
        std::ranges::any_of(gguf.at("harmless"), [&](const json &prefix) {
          return key.starts_with(prefix.get_ref<const std::string &>());
        });
    // What is of no architecture tells who made the file, and of its tokens.
    std::string own = key;
    bool isOfModel = own.starts_with(architecture + ".");
    if (isOfModel)
      own = own.substr(architecture.size() + 1);
    if (isHarmless || (!isOfModel && !gguf.at("keys").contains(key)))
      continue;
    auto known = gguf.at("keys").find(own);
    bool isUnknown = known == gguf.at("keys").end();
    set(isUnknown ? key : known->get<std::string>(), key, value, isUnknown);
  }
  // What a config.json leaves out has the default of a class, this has none.
  for (const json &key : gguf.at("needed"))
    if (const std::string name = key.get<std::string>();
        !parsed.tensors.empty() && gguf.at("keys").contains(name) &&
        !values.contains(architecture + "." + name))
      throw InputError("{}: {}.{} is absent, and nothing else says "
                       "it: download or convert the file again",
                       path(), architecture, name);
  for (const auto &[tensor, key] : gguf.at("rows").items())
    if (const TensorEntry *entry = find(tensor))
      set(key.get<std::string>(), tensor, entry->shape.front());
  for (const auto &[tensor, key] : gguf.at("without").items())
    set(key.get<std::string>(), tensor, find(tensor) == nullptr);
  for (const auto &[tensor, key] : gguf.at("with").items())
    if (find(tensor))
      set(key.get<std::string>(), tensor, true);
  for (const auto &[key, rule] : gguf.at("must").items())
    if (const json &value = placeOf(result, key); value != rule.at("is"))
      throw InputError(
          "{}: {} is {}, not {}: {}. Take the folder of the hub that it was "
          "made from",
          path(), key, jsonText(value), jsonText(rule["is"]),
          rule.at("reason").get<std::string>());
  for (const auto &[tensor, scaling] : gguf.at("frequencies").items())
    if (find(tensor)) {
      json own = scalingBy(tensor, scaling, result);
      const json told = placeOf(result, "rope_parameters.rope_type");
      if (!told.is_null() && told != "none")
        throw InputError(
            "{}: rotation is scaled by {}, and by rope.scaling.type, which is "
            "{}: take the folder of the hub that the file was made from",
            path(), tensor, jsonText(told));
      result["rope_parameters"].update(own);
    }
  return result;
}

json GgufReader::scalingBy(const std::string &tensor, json scaling,
                           const json &config) const {
  const TensorEntry &entry = *find(tensor);
  std::vector<float> factors(entry.elements());
  decode(tensor, entry, 0, factors);
  auto number = [](const json &object, const char *key, double otherwise) {
    const json value = object.value(key, json());
    return value.is_number() ? value.get<double>() : otherwise;
  };
  if (const json width = config.value("head_dim", json());
      width.is_number_integer() &&
      width.get<int64_t>() != static_cast<int64_t>(2 * factors.size()))
    throw InputError("{}: the tensor {} has {} factors for heads "
                     "of {}: two elements are turned by each",
                     path(), tensor, factors.size(), jsonText(width));
  const double factor = *std::ranges::max_element(factors),
               low = number(scaling, "low_freq_factor", 0),
               high = number(scaling, "high_freq_factor", 0),
               original =
                   number(scaling, "original_max_position_embeddings", 0),
               base = number(config, "rope_theta", 10000);
  for (size_t i = 0; i < factors.size(); ++i) {
    // Llama 3: waves that are long beside the context are stretched by the
    // factor, short ones are not, and those between by something between.
    double wave = 2 * std::numbers::pi *
                  std::pow(base, static_cast<double>(i) /
                                     static_cast<double>(factors.size()));
    double smooth =
        std::clamp((original / wave - low) / (high - low), 0.0, 1.0);
    double expected = 1 / ((1 - smooth) / factor + smooth);
    // They were computed in f32. What is no number is not near to any.
    if (!(std::abs(factors[i] - expected) <= 1e-4 * expected))
      throw InputError(
          "{}: the tensor {} divides frequency {} by {}, and Llama 3's scaling "
          "({}, base {}) by {:.6g}: take the folder of the hub that the file "
          "was made from",
          path(), tensor, i, factors[i], jsonText(scaling), base, expected);
  }
  scaling["rope_type"] = "llama3";
  scaling["factor"] = factor;
  return scaling;
}

void GgufReader::rename(const json &gguf) {
  const json all = config(gguf);
  std::map<std::string, TensorEntry> renamed;
  for (auto &[name, entry] : parsed.tensors) {
    if (gguf.at("frequencies").contains(name))
      continue; // `all` has what it says
    std::string own = name, number;
    Change change;
    for (const auto &[pattern, rule] : gguf.at("tensors").items()) {
      if (!matches(pattern, name, number))
        continue;
      own = rule.is_string() ? rule.get<std::string>()
                             : rule.at("name").get<std::string>();
      if (size_t star = own.find('*'); star != std::string::npos)
        own.replace(star, 1, number);
      if (rule.is_string())
        break;
      change.isTransposed = rule.value("transposed", false);
      change.more = rule.value("more", 0.0f);
      if (rule.contains("halves_of")) {
        const json &given = rule["halves_of"];
        std::string key;
        json heads;
        for (const json &each : given.is_array() ? given : json::array({given}))
          if (heads.is_null()) {
            key = each.get<std::string>();
            heads = all.value(key, json());
          }
        change.heads = heads.is_number_integer() ? heads.get<int64_t>() : 0;
        if (change.heads < 1 || entry.shape.front() % 2 != 0 ||
            entry.shape.front() / 2 % change.heads != 0)
          throw InputError(
              "{}: the tensor {} has {} rows, which are not those of {} {}",
              path(), name, entry.shape.front(), jsonText(heads), key);
      }
      break;
    }
    if (change.isTransposed && entry.shape.size() == 2)
      std::swap(entry.shape[0], entry.shape[1]);
    auto add = [&](const std::string &name, const TensorEntry &part) {
      if (!renamed.try_emplace(name, part).second)
        throw InputError("{}: two of its tensors are {}", path(), name);
      changes[name] = change;
    };
    const size_t star = own.find('*');
    if (star == own.npos) {
      add(own, entry);
      continue;
    }
    // Experts, one after the other.
    const int64_t count = entry.shape.size() == 3 ? entry.shape[0] : 0;
    if (count < 1 || count > mostExperts)
      throw InputError(
          "{}: the tensor {} is [{}], not [experts, outputs, inputs] of 1 to "
          "{} experts",
          path(), name, fmt::join(entry.shape, ", "), mostExperts);
    const uint64_t bytes =
        (entry.end - entry.begin) / static_cast<uint64_t>(count);
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t begin = entry.begin + static_cast<uint64_t>(i) * bytes;
      add(std::string(own).replace(star, 1, std::to_string(i)),
          {entry.dtype,
           {entry.shape[1], entry.shape[2]},
           begin,
           begin + bytes});
    }
  }
  parsed.tensors = std::move(renamed);
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

void GgufReader::readBytes(const TensorEntry &entry, uint64_t first,
                           std::span<char> out) const {
  auto behind = std::ranges::upper_bound(parts, entry.begin, {}, &Part::begin);
  if (behind == parts.begin())
    return TensorFile::readBytes(entry, first, out);
  const auto &[begin, part] = *std::prev(behind);
  part->file.readAt(out.data(), out.size(),
                    part->dataStart + (entry.begin - begin) + first);
}

void GgufReader::decode(const std::string &name, const TensorEntry &entry,
                        uint64_t first, std::span<float> out) const {
  const GgufType *type = ggufType(entry.dtype);
  if (type->elements == 1)
    return TensorFile::readFloats(name, entry, first, out);
  // Whole blocks, of the first and the last of which a part may be wanted.
  const uint64_t elements = type->elements;
  uint64_t last = first + out.size(), begin = first / elements,
           end = (last + elements - 1) / elements;
  std::vector<char> raw((end - begin) * type->bytes);
  readBytes(entry, begin * type->bytes, raw);
  std::array<float, ggufMostElements> values;
  for (uint64_t block = begin; block < end; ++block) {
    const char *from = raw.data() + (block - begin) * type->bytes;
    type->decode(reinterpret_cast<const uint8_t *>(from), values.data());
    uint64_t wanted = std::max(first, block * elements),
             behind = std::min(last, (block + 1) * elements);
    std::copy_n(values.data() + (wanted - block * elements), behind - wanted,
                out.data() + (wanted - first));
  }
}

void GgufReader::rearrange(std::vector<float> &values, const TensorEntry &entry,
                           const Change &by) {
  auto rows = static_cast<size_t>(entry.shape.front()),
       columns = values.size() / rows;
  if (by.isTransposed && entry.shape.size() == 2) {
    std::vector<float> result(values.size());
    for (size_t i = 0; i < rows; ++i)
      for (size_t j = 0; j < columns; ++j)
        result[i * columns + j] = values[j * rows + i];
    values = std::move(result);
  }
  if (by.heads > 0) {
    std::vector<float> result(values.size());
    size_t each = rows / static_cast<size_t>(by.heads), half = each / 2;
    for (size_t row = 0; row < rows; ++row) {
      size_t place = row % each;
      size_t from = row - place + 2 * (place % half) + place / half;
      std::copy_n(values.begin() + static_cast<ptrdiff_t>(from * columns),
                  columns,
                  result.begin() + static_cast<ptrdiff_t>(row * columns));
    }
    values = std::move(result);
  }
}

void GgufReader::readFloats(const std::string &name, const TensorEntry &entry,
                            uint64_t first, std::span<float> out) const {
  auto found = changes.find(name);
  const Change by = found == changes.end() ? Change() : found->second;
  if (by.heads > 0 || by.isTransposed) {
    std::lock_guard guard(lock);
    if (rearrangedName != name) {
      rearrangedName.clear();
      rearranged.resize(entry.elements());
      decode(name, entry, 0, rearranged);
      rearrange(rearranged, entry, by);
      rearrangedName = name;
    }
    std::ranges::copy(std::span(rearranged).subspan(first, out.size()),
                      out.begin());
  } else {
    decode(name, entry, first, out);
  }
  if (by.more != 0)
    for (float &value : out)
      value += by.more;
}

} // namespace tfm
