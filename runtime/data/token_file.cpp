//===- token_file.cpp - token ids in a file -----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/data/token_file.h"

#include "runtime/data/checked_ranges.h"
#include "runtime/support/atomic_file.h"
#include "runtime/support/error.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <fmt/format.h>
#include <limits>
#include <utility>

namespace tfm {

namespace {

constexpr std::string_view numpyMagic = "\x93NUMPY";

/// llm.c's forms (dev/data/data_common.py there).
constexpr uint64_t llmcHeaderBytes = 256 * 4;
struct LlmcForm {
  uint32_t magic, version;
  unsigned width;
};
constexpr LlmcForm llmcForms[] = {{20240520, 1, 2}, {20240801, 7, 4}};

/// An unsigned number, little-endian.
uint64_t numberAt(const char *bytes, unsigned width) {
  uint64_t number = 0;
  for (unsigned i = 0; i < width; ++i)
    number |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return number;
}

/// What stands behind `'key':` in the header of an array, a Python dictionary.
std::string_view entryOf(std::string_view header, std::string_view key) {
  size_t at = header.find(fmt::format("'{}':", key));
  if (at == std::string_view::npos)
    return {};
  header.remove_prefix(at + key.size() + 3);
  header.remove_prefix(std::min(header.find_first_not_of(' '), header.size()));
  char last = header.starts_with('(') ? ')' : ',';
  size_t end = header.find(last);
  if (end == std::string_view::npos)
    return {};
  return header.substr(0, last == ')' ? end + 1 : end);
}

} // namespace

TokenFile::TokenFile(std::string name, int64_t vocabulary)
    : path(std::move(name)), vocabulary(vocabulary) {
  if (path != standardInput && isRegularFile(path))
    file.emplace(path, "the data file");
  else
    kept = readFile(path, "the data file");
  if (fileBytes() == 0)
    throw InputError("the data file {} is empty", path);
  readHeader();
  if (ids == 0)
    throw InputError("the data file {} has no token ids", path);
  checkIds();
}

template <typename Id>
void TokenFile::readAs(int64_t first, std::span<int32_t> out) const {
  std::array<Id, 4096> some;
  for (int64_t done = 0, all = std::ssize(out); done < all;) {
    int64_t count = std::min(all - done, std::ssize(some));
    readBytes(some.data(), static_cast<uint64_t>(count) * sizeof(Id),
              begin + static_cast<uint64_t>(first + done) * sizeof(Id));
    Id least = 0, largest = 0;
    for (int64_t i = 0; i < count; ++i) {
      out[done + i] = static_cast<int32_t>(some[i]);
      least = std::min(least, some[i]);
      largest = std::max(largest, some[i]);
    }
    if (least < 0 || std::cmp_greater_equal(largest, vocabulary)) {
      auto wrong = std::ranges::find_if(some, [&](Id id) {
        return id < 0 || std::cmp_greater_equal(id, vocabulary);
      });
      failOfId(first + done + (wrong - some.begin()), std::to_string(*wrong));
    }
    done += count;
  }
}

void TokenFile::read(int64_t first, std::span<int32_t> out) const {
  static_assert(std::endian::native == std::endian::little,
                "ids are read as they lie in the file");
  switch (width) {
  case 1:
    return isSigned ? readAs<int8_t>(first, out) : readAs<uint8_t>(first, out);
  case 2:
    return isSigned ? readAs<int16_t>(first, out)
                    : readAs<uint16_t>(first, out);
  case 4:
    return isSigned ? readAs<int32_t>(first, out)
                    : readAs<uint32_t>(first, out);
  default:
    return isSigned ? readAs<int64_t>(first, out)
                    : readAs<uint64_t>(first, out);
  }
}

void TokenFile::readHeader() {
  std::array<char, numpyMagic.size()> magic;
  if (fileBytes() >= magic.size()) {
    readBytes(magic.data(), magic.size(), 0);
    if (std::string_view(magic.data(), magic.size()) == numpyMagic)
      return readNumpyHeader();
  }
  if (readLlmcHeader())
    return;
  width = vocabulary > 65536 ? 4 : 2;
  if (fileBytes() % width != 0)
    throw InputError("the data file {} is not made of {}-bit token ids", path,
                     8 * width);
  ids = static_cast<int64_t>(fileBytes() / width);
  requireNoHalves();
}

void TokenFile::requireNoHalves() const {
  std::array<char, 16384> some;
  uint64_t count = std::min<uint64_t>(fileBytes(), some.size()) / width;
  readBytes(some.data(), count * width, 0);
  uint64_t even = 0, odd = 0;
  for (uint64_t i = 0; i < count; ++i)
    (i % 2 == 0 ? even : odd) |= numberAt(some.data() + i * width, width);
  if (count >= 64 && even != 0 && odd == 0)
    throw InputError(
        "the data file {} looks like ids of {} bits or more, where {} are read "
        "for a vocabulary of {}: every second one is 0. Write it by "
        "ids.astype(numpy.uint{}).tofile(FILE), or of any type by "
        "numpy.save(\"FILE.npy\", ids)",
        path, 16 * width, 8 * width, vocabulary, 8 * width);
}

void TokenFile::readNumpyHeader() {
  auto fail = [&](const std::string &why) {
    throw InputError("the data file {} {}", path, why);
  };
  const std::string cutOff = "is cut off: it ends within its header";
  // The magic, two bytes of the version, the length of the dictionary.
  std::array<char, 12> start;
  if (fileBytes() < start.size())
    fail(cutOff);
  readBytes(start.data(), start.size(), 0);
  unsigned lengthBytes = start[6] == 1 ? 2 : 4;
  uint64_t length = numberAt(start.data() + 8, lengthBytes);
  begin = 8 + lengthBytes + length;
  // NumPy itself refuses a longer one.
  if (length > 10000 || begin > fileBytes())
    fail(cutOff);
  std::string header(length, ' ');
  readBytes(header.data(), length, 8 + lengthBytes);

  std::string_view type = entryOf(header, "descr"),
                   shape = entryOf(header, "shape");
  // '<u2', '|u1', '<i8', ...: the order of bytes, the kind, how many.
  bool isInteger =
      type.size() == 5 && (type[1] == '<' || type[1] == '|') &&
      (type[2] == 'u' || type[2] == 'i') &&
      std::string_view("1248").find(type[3]) != std::string_view::npos;
  uint64_t count = 0;
  bool isOneDimension = shape.size() > 3 && shape.ends_with(",)");
  if (isOneDimension) {
    const char *last = shape.data() + shape.size() - 2;
    auto [end, error] = std::from_chars(shape.data() + 1, last, count);
    isOneDimension = end == last;
    if (error == std::errc::result_out_of_range)
      count = std::numeric_limits<uint64_t>::max();
  }
  if (!isInteger || !isOneDimension)
    fail(fmt::format(
        "is a NumPy array of type {} and shape {}, but token ids are integers "
        "in one dimension: save it by numpy.save(FILE, "
        "ids.reshape(-1).astype(numpy.{}))",
        type, shape, vocabulary > 65536 ? "uint32" : "uint16"));
  isSigned = type[2] == 'i';
  width = static_cast<unsigned>(type[3] - '0');
  if (count > (fileBytes() - begin) / width)
    fail(fmt::format("is cut off: it should have {} token ids, and has {}",
                     count, (fileBytes() - begin) / width));
  ids = static_cast<int64_t>(count);
}

bool TokenFile::readLlmcHeader() {
  std::array<char, 12> start;
  if (fileBytes() < start.size())
    return false;
  readBytes(start.data(), start.size(), 0);
  if (std::string_view(start.data(), 4) == "PK\3\4")
    throw InputError("the data file {} is a zip file, such as NumPy's .npz: "
                     "save its ids as .npy",
                     path);
  const auto *form =
      std::ranges::find(llmcForms, numberAt(start.data(), 4), &LlmcForm::magic);
  if (form == std::end(llmcForms))
    return false;
  if (uint64_t version = numberAt(start.data() + 4, 4);
      version != form->version)
    throw InputError("the data file {}, one of llm.c's, is of "
                     "version {}: what is read is version {}",
                     path, version, form->version);
  begin = llmcHeaderBytes;
  width = form->width;
  uint64_t count = numberAt(start.data() + 8, 4),
           there = fileBytes() < begin ? 0 : (fileBytes() - begin) / width;
  if (count > there)
    throw InputError("the data file {}, one of llm.c's, is cut off: it should "
                     "have {} token ids, and has {}",
                     path, count, there);
  ids = static_cast<int64_t>(count);
  return true;
}

void TokenFile::checkIds() const {
  // No number of so many bits is too large, or less than 0.
  if (!isSigned && width < 4 && vocabulary >= int64_t{1} << (8 * width))
    return;
  std::array<int32_t, 4096> some;
  forCheckedRanges(
      static_cast<uint64_t>(ids), width, [&](int64_t from, int64_t to) {
        for (int64_t at = from; at < to; at += std::ssize(some))
          read(at, std::span(some).first(std::min(to - at, std::ssize(some))));
      });
}

void TokenFile::failOfId(int64_t place, const std::string &id) const {
  throw InputError(
      "the data file {} has the token id {} at place {} (byte {}), but the "
      "vocabulary has {} tokens: write it with this model's tokenizer",
      path, id, place, begin + static_cast<uint64_t>(place) * width,
      vocabulary);
}

void TokenFile::readBytes(void *out, uint64_t count, uint64_t position) const {
  if (file)
    file->readAt(out, count, position);
  else
    std::memcpy(out, kept.data() + position, count);
}

} // namespace tfm
