//===- arrays.cpp - examples that are rows of arrays ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/data/checked_ranges.h"
#include "runtime/data/dataset.h"
#include "runtime/data/texts.h"
#include "runtime/formats/safetensors.h"
#include "runtime/support/atomic_file.h"
#include "runtime/support/checksum.h"
#include "runtime/support/error.h"
#include "runtime/support/float16.h"
#include "runtime/support/utf8.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <map>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace tfm {

std::vector<ArrayInput> arrayInputsOf(const tfm_function &function,
                                      const Recipe &recipe) {
  std::vector<ArrayInput> inputs;
  for (int32_t i = 0; i < function.input_count; ++i) {
    const tfm_buffer &buffer = function.inputs[i];
    const std::string name = buffer.name;
    if (isOfStep(name))
      continue;
    ArrayInput input = {
        name, buffer.dtype, {buffer.shape + 1, buffer.shape + buffer.rank}, {}};
    if (auto fact = recipe.inputs.find(name); fact != recipe.inputs.end()) {
      input.words = fact->second.dims;
      input.ids = fact->second.ids;
      input.ignored = fact->second.ignored;
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

bool holdsArrays(const DataSpec &data) { return data.kind == "arrays"; }

const char *numpyType(tfm_dtype type) {
  return type == TFM_F32 ? "float32" : type == TFM_I32 ? "int32" : "bool";
}

namespace {

constexpr TensorUse dataUse = {
    "the data file",
    "such as NumPy's .npz: write arrays by "
    "`safetensors.numpy.save_file(arrays, FILE)`",
    "write arrays by `safetensors.numpy.save_file(arrays, FILE)`"};

/// What may be given for an input of a type.
const char *storedTypes(tfm_dtype type) {
  return type == TFM_F32   ? "floats (F32, F64, F16 or BF16)"
         : type == TFM_I32 ? "integers (I8 to I64, or U8 to U64)"
                           : "truth values (BOOL, or U8)";
}

/// The arrays of a file, by the inputs that they fill. They are read when they
/// are wanted, so a file may be larger than memory.
class ArrayFile {
public:
  ArrayFile(const std::string &path, std::span<const ArrayInput> inputs)
      : file(path, dataUse), inputs(inputs) {
    for (const ArrayInput &input : inputs)
      addArray(input);
    if (count() == 0)
      fail("has no examples");
    for (const auto &[name, entry] : file.header().tensors)
      if (std::ranges::find(inputs, name, &ArrayInput::name) == inputs.end())
        unread.push_back(beginningOf(name));
  }

  const std::string &path() const { return file.path(); }
  /// Examples.
  int64_t count() const { return arrays.front().entry->shape.front(); }
  /// Arrays that fill nothing, as messages call them.
  const std::vector<std::string> &others() const { return unread; }

  /// Fills a row with an example of the array for `input`. Throws InputError
  /// where a value cannot be had. Allocates nothing.
  template <typename T>
  void read(size_t input, int64_t example, std::span<T> row) const {
    (this->*arrays[input].read)(input,
                                static_cast<uint64_t>(example) * row.size(),
                                row.data(), row.size());
  }

  /// Reads what is to be looked at first.
  void check() const {
    constexpr size_t most = 4096;
    alignas(int64_t) std::array<char, most * sizeof(float)> some;
    for (size_t input = 0; input < arrays.size(); ++input) {
      const TensorEntry *entry = arrays[input].entry;
      const Read read = arrays[input].read;
      const uint64_t all = entry->elements();
      forCheckedRanges(all, (entry->end - entry->begin) / all,
                       [&](uint64_t from, uint64_t to) {
                         for (uint64_t at = from; at < to; at += most)
                           (this->*read)(input, at, some.data(),
                                         std::min<uint64_t>(to - at, most));
                       });
    }
  }

private:
  using Read = void (ArrayFile::*)(size_t input, uint64_t first, void *out,
                                   size_t count) const;
  struct Array {
    const TensorEntry *entry;
    Read read;
  };

  [[noreturn]] void fail(const std::string &what) const {
    throw InputError("the data file {} {}", path(), what);
  }

  void addArray(const ArrayInput &input) {
    const TensorEntry *entry = file.find(input.name);
    if (!entry) {
      std::vector<std::string> names;
      for (const auto &[name, other] : file.header().tensors)
        names.push_back("`" + beginningOf(name) + "`");
      fail(fmt::format(
          "has no array `{}`, which the model takes ({}): it has "
          "{}",
          input.name, shapeFor(input, "examples"),
          names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
    }
    Read read = readerOf(input.type, entry->dtype);
    if (!read) {
      const bool areNumbers = input.name == TFM_IN_TARGETS && input.ids &&
                              readerOf(TFM_F32, entry->dtype);
      fail(fmt::format(
          "has {} in the array `{}`, but the model takes {}: {}write it by "
          "{}.astype(numpy.{})",
          entry->dtype, input.name, storedTypes(input.type),
          areNumbers ? "build it with -D train.loss=mse where it is to learn "
                       "these numbers; where they are classes, "
                     : "",
          input.name, numpyType(input.type)));
    }
    if (entry->shape.empty() ||
        !std::ranges::equal(std::span(entry->shape).subspan(1), input.shape))
      failOfShape(input, *entry);
    arrays.push_back({entry, read});
    if (int64_t examples = entry->shape.front(); examples != count())
      fail(fmt::format("has {} examples in the array `{}`, but {} in `{}`: "
                       "their first axis counts the same examples",
                       count(), inputs.front().name, examples, input.name));
  }

  /// `[examples, 16, 3]`
  static std::string shapeFor(const ArrayInput &input,
                              const std::string &first) {
    std::string text = "[" + first;
    for (int64_t size : input.shape)
      text += fmt::format(", {}", size);
    return text + "]";
  }

  [[noreturn]] void failOfShape(const ArrayInput &input,
                                const TensorEntry &entry) const {
    std::string what =
        fmt::format("has the array `{}` {}, but the model takes {}", input.name,
                    shapeText(entry.shape), shapeFor(input, "examples"));
    if (!input.words.empty())
      what += fmt::format(", [{}]", fmt::join(input.words, ", "));
    // What the build may have instead: one size for each word.
    std::map<std::string, int64_t> sizes;
    bool canFit = entry.shape.size() == input.shape.size() + 1 &&
                  input.words.size() == entry.shape.size();
    for (size_t axis = 1; canFit && axis < entry.shape.size(); ++axis) {
      const std::string &word = input.words[axis];
      auto [size, isNew] = sizes.emplace(word, entry.shape[axis]);
      canFit = size->second == entry.shape[axis] && entry.shape[axis] > 0 &&
               (isName(word) || entry.shape[axis] == input.shape[axis - 1]);
    }
    std::string defines;
    for (size_t axis = 1; canFit && axis < entry.shape.size(); ++axis)
      if (auto size = sizes.extract(input.words[axis]);
          size && size.mapped() != input.shape[axis - 1])
        defines += fmt::format(" -D {}={}", entryOf(size.key()), size.mapped());
    fail(what + (canFit ? ": build it with" + defines
                        : adviceOnLastAxis(input, entry.shape)));
  }

  /// What to do where all that differs is a last axis of one element.
  static std::string adviceOnLastAxis(const ArrayInput &input,
                                      const std::vector<int64_t> &stored) {
    if (stored.empty())
      return "";
    std::span<const int64_t> given = std::span(stored).subspan(1),
                             taken = input.shape;
    if (!taken.empty() && taken.back() == 1 &&
        std::ranges::equal(given, taken.first(taken.size() - 1)))
      return fmt::format(": give it the last axis by {}[..., None]",
                         input.name);
    if (!given.empty() && given.back() == 1 &&
        std::ranges::equal(taken, given.first(given.size() - 1)))
      return fmt::format(": take its last axis away by {}[..., 0]", input.name);
    return "";
  }

  /// What sets a size: `train.sequence`, `train.S`, or a hyperparameter.
  static std::string entryOf(const std::string &word) {
    bool isOfCaller = std::isupper(static_cast<unsigned char>(word[0])) != 0;
    return !isOfCaller ? word : "train." + (word == "T" ? "sequence" : word);
  }

  static bool isName(const std::string &word) {
    return !word.empty() &&
           !std::isdigit(static_cast<unsigned char>(word[0])) &&
           std::ranges::all_of(word, [](unsigned char c) {
             return std::isalnum(c) || c == '_';
           });
  }

  /// Reads elements as they lie in the file.
  template <typename Stored>
  void readStored(size_t input, uint64_t first, std::span<Stored> out) const {
    file.readBytes(*arrays[input].entry, first * sizeof(Stored),
                   {reinterpret_cast<char *>(out.data()), out.size_bytes()});
  }

  /// Reads elements and has `convert` turn each into what the input takes.
  /// Where `isGood` is not true of one, throws.
  template <typename Stored, typename T, typename IsGood, typename Convert>
  void readEach(size_t input, uint64_t first, std::span<T> out, IsGood isGood,
                Convert convert) const {
    auto requireGood = [&](std::span<const Stored> read, uint64_t at) {
      auto wrong = std::ranges::find_if_not(read, isGood);
      if (wrong == read.end())
        return;
      at += static_cast<uint64_t>(wrong - read.begin());
      if constexpr (std::is_same_v<Stored, double>)
        if (std::isfinite(*wrong))
          failOfValue(input, at, fmt::format("{}", *wrong),
                      /*isTooLarge=*/true);
      // What is of 16 bits stands for a float.
      failOfValue(input, at,
                  sizeof(Stored) == sizeof(uint16_t)
                      ? fmt::format("{}", convert(*wrong))
                      : fmt::format("{}", *wrong));
    };
    if constexpr (std::is_same_v<Stored, T>) {
      readStored(input, first, out);
      requireGood(out, first);
    } else {
      std::array<Stored, 4096> some;
      for (size_t done = 0; done < out.size(); done += some.size()) {
        auto read =
            std::span(some).first(std::min(out.size() - done, some.size()));
        readStored(input, first + done, read);
        requireGood(read, first + done);
        std::ranges::transform(read, out.begin() + static_cast<ptrdiff_t>(done),
                               convert);
      }
    }
  }

  template <typename Stored>
  void readNumbers(size_t input, uint64_t first, void *out,
                   size_t count) const {
    auto convert = [](Stored value) { return static_cast<float>(value); };
    readEach<Stored>(
        input, first, std::span(static_cast<float *>(out), count),
        [&](Stored value) { return std::isfinite(convert(value)); }, convert);
  }

  /// Of 16 bits.
  template <float (*convert)(uint16_t)>
  void readHalves(size_t input, uint64_t first, void *out, size_t count) const {
    readEach<uint16_t>(
        input, first, std::span(static_cast<float *>(out), count),
        [](uint16_t bits) { return std::isfinite(convert(bits)); }, convert);
  }

  /// An integer of so many bytes; what no `int64_t` holds as the largest.
  static int64_t integerAt(const char *bytes, unsigned width, bool isSigned) {
    uint64_t raw = 0;
    std::memcpy(&raw, bytes, width);
    const unsigned unused = 64 - 8 * width;
    if (isSigned)
      return static_cast<int64_t>(raw << unused) >> unused;
    return static_cast<int64_t>(
        std::min<uint64_t>(raw, std::numeric_limits<int64_t>::max()));
  }

  template <unsigned width, bool isSigned>
  void readIntegers(size_t input, uint64_t first, void *out,
                    size_t count) const {
    readIntegersOf(width, isSigned, input, first,
                   std::span(static_cast<int32_t *>(out), count));
  }

  void readIntegersOf(unsigned width, bool isSigned, size_t input,
                      uint64_t first, std::span<int32_t> out) const {
    const ArrayInput &of = inputs[input];
    using Limits = std::numeric_limits<int32_t>;
    const auto [least, most] =
        of.ids.value_or(std::array<int64_t, 2>{Limits::min(), Limits::max()});
    std::array<char, 8 * 4096> some;
    for (size_t done = 0; done < out.size();) {
      size_t count = std::min(out.size() - done, some.size() / width);
      file.readBytes(*arrays[input].entry, (first + done) * width,
                     {some.data(), count * width});
      for (size_t i = 0; i < count; ++i) {
        int64_t value = integerAt(&some[i * width], width, isSigned);
        if ((value < least || value > most) && value != of.ignored)
          failOfValue(input, first + done + i, std::to_string(value));
        out[done + i] = static_cast<int32_t>(value);
      }
      done += count;
    }
  }

  void readFlags(size_t input, uint64_t first, void *out, size_t count) const {
    readEach<uint8_t>(
        input, first, std::span(static_cast<uint8_t *>(out), count),
        [](uint8_t value) { return value <= 1; },
        [](uint8_t value) { return value; });
  }

  /// Null where an array of this dtype cannot fill an input of this type.
  static Read readerOf(tfm_dtype type, std::string_view dtype) {
    struct Form {
      tfm_dtype type;
      std::string_view dtype;
      Read read;
    };
    static constexpr Form forms[] = {
        {TFM_F32, "F32", &ArrayFile::readNumbers<float>},
        {TFM_F32, "F64", &ArrayFile::readNumbers<double>},
        {TFM_F32, "F16", &ArrayFile::readHalves<fromHalf>},
        {TFM_F32, "BF16", &ArrayFile::readHalves<fromBFloat16>},
        {TFM_I32, "I8", &ArrayFile::readIntegers<1, true>},
        {TFM_I32, "U8", &ArrayFile::readIntegers<1, false>},
        {TFM_I32, "I16", &ArrayFile::readIntegers<2, true>},
        {TFM_I32, "U16", &ArrayFile::readIntegers<2, false>},
        {TFM_I32, "I32", &ArrayFile::readIntegers<4, true>},
        {TFM_I32, "U32", &ArrayFile::readIntegers<4, false>},
        {TFM_I32, "I64", &ArrayFile::readIntegers<8, true>},
        {TFM_I32, "U64", &ArrayFile::readIntegers<8, false>},
        {TFM_U8, "BOOL", &ArrayFile::readFlags},
        {TFM_U8, "U8", &ArrayFile::readFlags}};
    for (const Form &form : forms)
      if (form.type == type && form.dtype == dtype)
        return form.read;
    return nullptr;
  }

  static std::string takenIds(const std::array<int64_t, 2> &ids) {
    const auto &[first, last] = ids;
    return first > last
               ? "no id has a row in all that the model looks up by it"
               : fmt::format("the model takes ids from {} to {}", first, last);
  }

  /// Of element `at` of an array.
  [[noreturn]] void failOfValue(size_t input, uint64_t at,
                                const std::string &value,
                                bool isTooLarge = false) const {
    const ArrayInput &of = inputs[input];
    std::vector<uint64_t> place(of.shape.size() + 1);
    for (size_t axis = of.shape.size(); axis > 0; --axis) {
      auto size = static_cast<uint64_t>(of.shape[axis - 1]);
      place[axis] = at % size;
      at /= size;
    }
    place[0] = at;
    std::string taken = isTooLarge ? "the model takes floats of 32 bits, up to "
                                     "3.4e38: scale these numbers"
                        : of.type == TFM_F32
                            ? "the model takes finite numbers: put one in "
                              "its place, as numpy.nan_to_num does"
                        : of.type == TFM_U8 ? "truth values are 0 and 1"
                        : of.ids ? takenIds(*of.ids)
                                 : "the model takes integers of 32 bits";
    if (of.ids && of.ignored)
      taken += fmt::format(", and {} where no target counts", *of.ignored);
    else if (of.ids && value == "-100") // as PyTorch leaves targets out
      taken += ": `cross_entropy(ignore = -100)` leaves them out";
    fail(fmt::format("has {} at {}[{}], in its example {}, but {}", value,
                     of.name, fmt::join(place, ", "), place[0], taken));
  }

  SafetensorsReader file;
  std::span<const ArrayInput> inputs;
  std::vector<Array> arrays;
  std::vector<std::string> unread;
};

/// Files, one after the other.
class ArrayFiles {
public:
  ArrayFiles(const DataSpec &data, std::span<const ArrayInput> inputs) {
    if (data.files.empty())
      throw InputError("the model names no data file: use --data FILE");
    for (const std::string &name : data.files) {
      files.push_back(std::make_unique<ArrayFile>(
          locateFile(name, data.directory, "the data file", "--data"), inputs));
      ends.push_back(count() + files.back()->count());
    }
    for (const auto &file : files)
      file->check();
  }

  int64_t count() const { return ends.empty() ? 0 : ends.back(); }

  template <typename T>
  void read(size_t input, int64_t example, std::span<T> row) const {
    auto end = std::ranges::upper_bound(ends, example);
    const ArrayFile &file = *files[static_cast<size_t>(end - ends.begin())];
    file.read(input, example - (*end - file.count()), row);
  }

  const std::vector<std::unique_ptr<ArrayFile>> &all() const { return files; }

private:
  std::vector<std::unique_ptr<ArrayFile>> files;
  std::vector<int64_t> ends; ///< of each, among the examples of all
};

class Arrays : public Dataset {
public:
  Arrays(const DataSpec &data, std::vector<ArrayInput> wanted)
      : inputs(std::move(wanted)), files(data, inputs) {
    trainCount = files.count();
    if (!data.validationFiles.empty()) {
      others.emplace(validationOf(data), inputs);
    } else {
      trainCount = trainingShare(files.count(), data.validation);
      if (data.splitSeed) {
        order.resize(static_cast<size_t>(files.count()));
        std::iota(order.begin(), order.end(), 0);
        shuffleForSplit(order, *data.splitSeed);
      }
    }
    requireTrainingPart(data, trainCount, files.count(),
                        fmt::format("{}", fmt::join(data.files, ", ")));
  }

  int64_t starts(Part part) const override { return windows(part); }
  int64_t windows(Part part) const override {
    return part == Part::Train ? trainCount
           : others            ? others->count()
                               : files.count() - trainCount;
  }
  int64_t windowStart(Part, int64_t window) const override { return window; }

  void requireFills(const tfm_function &function) const override {
    Rows rows(function, /*count=*/0);
    if (!std::ranges::equal(
            rows.inputs(), inputs, {},
            [](const Rows::Input &input) {
              return std::string_view(input.buffer->name);
            },
            &ArrayInput::name))
      throw std::logic_error("functions of a model that take other arrays");
  }

  int64_t fill(Part part, int64_t start, Rows &rows,
               int64_t row) const override {
    size_t number = 0;
    for (Rows::Input &input : rows.inputs())
      std::visit(
          [&]<typename T>(const std::vector<T> &) {
            read(part, start, number++, input.row<T>(row));
          },
          input.values);
    return rows.losses();
  }

  bool isStream() const override { return false; }
  DataUnit unit(int64_t) const override { return {"examples", 1}; }

  std::string checksum(std::initializer_list<Part> parts, int64_t, bool,
                       int64_t mostPieces) const override {
    Checksum checksum;
    std::vector<RowValues> row;
    int64_t numbers = 0;
    for (const ArrayInput &input : inputs) {
      size_t count = Model::elements(static_cast<int32_t>(input.shape.size()),
                                     input.shape.data());
      row.push_back(rowValues(input.type, count));
      numbers += static_cast<int64_t>(count);
    }
    int64_t most = std::max<int64_t>((mostPieces << 16) / numbers, 1);
    for (Part part : parts) {
      int64_t all = windows(part), wanted = std::min(all, most);
      checksum.add(&all, sizeof all);
      for (int64_t i = 0; i < wanted; ++i)
        for (size_t input = 0; input < inputs.size(); ++input)
          std::visit(
              [&]<typename T>(std::vector<T> &values) {
                read(part, i * all / wanted, input, std::span(values));
                checksum.add(values.data(), values.size() * sizeof(T));
              },
              row[input]);
    }
    return checksum.text();
  }

  std::vector<std::string> notes() const override {
    std::vector<std::string> notes;
    auto add = [&](const ArrayFiles &of) {
      for (const auto &file : of.all())
        if (!file->others().empty())
          notes.push_back(fmt::format(
              "nothing in the model is called {}, as {} of {} {}",
              fmt::join(file->others(), ", "),
              file->others().size() == 1 ? "an array" : "arrays", file->path(),
              file->others().size() == 1 ? "is" : "are"));
    };
    add(files);
    if (others)
      add(*others);
    return notes;
  }

private:
  template <typename T>
  void read(Part part, int64_t start, size_t input, std::span<T> row) const {
    if (part == Part::Validation && others)
      return others->read(input, start, row);
    int64_t place = part == Part::Train ? start : trainCount + start;
    files.read(input, order.empty() ? place : order[static_cast<size_t>(place)],
               row);
  }

  std::vector<ArrayInput> inputs;
  ArrayFiles files;
  std::optional<ArrayFiles> others; ///< `data.validation_files`
  /// With a seed of the split, which example is where.
  std::vector<int64_t> order;
  int64_t trainCount = 0;
};

} // namespace

std::unique_ptr<Dataset> openArrays(const DataSpec &data,
                                    std::vector<ArrayInput> inputs) {
  return std::make_unique<Arrays>(withFiles(data), std::move(inputs));
}

} // namespace tfm
