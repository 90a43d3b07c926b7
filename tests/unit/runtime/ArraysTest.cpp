//===- ArraysTest.cpp - examples that are rows of arrays ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/data/dataset.h"
#include "runtime/support/float16.h"
#include "tests/unit/runtime/TemporaryFolder.h"

#include <cstring>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <random>

namespace tfm {
namespace {

using test::messageOf;
using test::TemporaryFolder;

/// A safetensors file in the making.
class File {
public:
  template <typename T>
  File &add(const char *name, const char *dtype, std::vector<int64_t> shape,
            const std::vector<T> &values) {
    size_t begin = data.size();
    data.append(reinterpret_cast<const char *>(values.data()),
                values.size() * sizeof(T));
    header[name] = {{"dtype", dtype},
                    {"shape", shape},
                    {"data_offsets", {begin, data.size()}}};
    return *this;
  }

  std::string text() const {
    std::string head = header.dump();
    uint64_t length = head.size();
    std::string all(sizeof length, '\0');
    std::memcpy(all.data(), &length, sizeof length);
    return all + head + data;
  }

private:
  nlohmann::ordered_json header;
  std::string data;
};

/// A function that takes `x` [4, 2], `id` int[4], below 100, and `is` bool[4].
class Taker {
public:
  Taker() : rows(function(), 4) {}
  Taker(const Taker &) = delete;

  std::unique_ptr<Dataset> open(const std::string &path,
                                double validation = 0) {
    DataSpec spec;
    spec.kind = "arrays";
    spec.files = {path};
    spec.validation = validation;
    Recipe recipe;
    recipe.inputs["id"].ids = {0, 99};
    return openArrays(spec, arrayInputsOf(function(), recipe));
  }

  std::span<float> x(int64_t row) { return rows.inputs()[0].row<float>(row); }
  int32_t id(int64_t row) { return rows.inputs()[1].row<int32_t>(row)[0]; }
  bool is(int64_t row) { return rows.inputs()[2].row<uint8_t>(row)[0] != 0; }

  tfm_function function() const {
    tfm_function made = {};
    made.input_count = 3;
    made.inputs = inputs;
    return made;
  }

  static constexpr int64_t shape[] = {4, 2};
  const tfm_buffer inputs[3] = {{"x", TFM_F32, 2, shape, 0},
                                {"id", TFM_I32, 1, shape, 0},
                                {"is", TFM_U8, 1, shape, 0}};
  Rows rows;
};

/// Three examples, in the types that inputs have themselves.
File plain() {
  File file;
  file.add<float>("x", "F32", {3, 2}, {1, 2, 3, 4, 5, 6})
      .add<int32_t>("id", "I32", {3}, {7, 8, 9})
      .add<uint8_t>("is", "BOOL", {3}, {1, 0, 1});
  return file;
}

TEST(Arrays, FillRowsOfTheirNames) {
  TemporaryFolder folder;
  Taker taker;
  std::unique_ptr<Dataset> data =
      taker.open(folder.write("a.safetensors", plain().text()), 0.34);
  data->requireFills(taker.function());
  EXPECT_EQ(data->windows(Part::Train), 1);
  ASSERT_EQ(data->windows(Part::Validation), 2);
  data->fill(Part::Validation, 1, taker.rows, 3);
  EXPECT_EQ(taker.x(3)[0], 5);
  EXPECT_EQ(taker.x(3)[1], 6);
  EXPECT_EQ(taker.id(3), 9);
  EXPECT_TRUE(taker.is(3));
  data->fill(Part::Validation, 0, taker.rows, 2);
  EXPECT_EQ(taker.id(2), 8);
  EXPECT_FALSE(taker.is(2));
  EXPECT_EQ(taker.x(3)[0], 5);
}

TEST(Arrays, AreReadInManyTypes) {
  TemporaryFolder folder;
  Taker taker;
  auto second = [&](const File &file) {
    taker.open(folder.write("a.safetensors", file.text()))
        ->fill(Part::Train, 1, taker.rows, 0);
  };
  auto floats = [&]<typename T>(const char *dtype, std::vector<T> values) {
    second(File()
               .add<T>("x", dtype, {2, 2}, values)
               .template add<int32_t>("id", "I32", {2}, {0, 0})
               .template add<uint8_t>("is", "U8", {2}, {0, 1}));
    EXPECT_EQ(taker.x(0)[0], -0.5f) << dtype;
    EXPECT_EQ(taker.x(0)[1], 1024.0f) << dtype;
    EXPECT_TRUE(taker.is(0));
  };
  floats.operator()<double>("F64", {0, 0, -0.5, 1024});
  floats.operator()<uint16_t>("F16", {0, 0, toHalf(-0.5f), toHalf(1024.0f)});
  floats.operator()<uint16_t>("BF16",
                              {0, 0, toBFloat16(-0.5f), toBFloat16(1024.0f)});
  auto integers = [&]<typename T>(const char *dtype) {
    second(File()
               .add<T>("id", dtype, {2}, {T{0}, T{99}})
               .template add<float>("x", "F32", {2, 2}, {0, 0, 0, 0})
               .template add<uint8_t>("is", "U8", {2}, {0, 1}));
    EXPECT_EQ(taker.id(0), 99) << dtype;
  };
  integers.operator()<int8_t>("I8");
  integers.operator()<uint8_t>("U8");
  integers.operator()<int16_t>("I16");
  integers.operator()<uint16_t>("U16");
  integers.operator()<uint32_t>("U32");
  integers.operator()<int64_t>("I64");
  integers.operator()<uint64_t>("U64");
}

TEST(Arrays, HaveAChecksumOfAllThatTheyFill) {
  TemporaryFolder folder;
  Taker taker;
  auto checksum = [&](const std::string &text) {
    return taker.open(folder.write("a.safetensors", text))
        ->checksum({Part::Train}, /*sequence=*/1);
  };
  std::string text = plain().text();
  const std::string before = checksum(text);
  EXPECT_EQ(checksum(plain().add<float>("unread", "F32", {1}, {1}).text()),
            before);
  text.back() = 0;
  EXPECT_NE(checksum(text), before);
}

TEST(Arrays, OfAFileThatChangesAreAnError) {
  TemporaryFolder folder;
  Taker taker;
  std::string text = plain().text();
  std::unique_ptr<Dataset> data =
      taker.open(folder.write("a.safetensors", text));
  folder.write("a.safetensors", text.substr(0, text.size() - 1));
  EXPECT_NE(messageOf<InputError>([&] {
              data->fill(Part::Train, 2, taker.rows, 0);
            }).find("a.safetensors"),
            std::string::npos);
}

// Whatever the bytes are: rows, or a message that names the file.
TEST(Arrays, OfDamagedFilesAreRowsOrAMessage) {
  TemporaryFolder folder;
  Taker taker;
  std::mt19937 dice(1);
  const std::string whole = plain().text();
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string text = whole;
    for (uint32_t flips = 1 + dice() % 3; flips > 0; --flips)
      text[dice() % text.size()] = static_cast<char>(dice());
    if (dice() % 4 == 0)
      text.resize(dice() % text.size());
    std::string path = folder.write("a.safetensors", text);
    try {
      std::unique_ptr<Dataset> data = taker.open(path);
      for (int64_t at = 0; at < data->windows(Part::Train); ++at) {
        data->fill(Part::Train, at, taker.rows, 0);
        EXPECT_GE(taker.id(0), 0);
        EXPECT_LT(taker.id(0), 100);
      }
    } catch (const InputError &error) {
      ++refused;
      EXPECT_NE(std::string(error.what()).find(path), std::string::npos)
          << error.what();
    }
  }
  EXPECT_GT(refused, 1000);
}

} // namespace
} // namespace tfm
