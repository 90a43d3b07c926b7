//===- SafetensorsTest.cpp - tensors in a file --------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/safetensors.h"
#include "runtime/error.h"
#include "runtime/model.h"
#include "runtime/philox.h"
#include "tests/unit/runtime/TemporaryFolder.h"
#include "tests/unit/runtime/ToyModel.h"

#include <cstring>
#include <gtest/gtest.h>

namespace tfm {
namespace {

using test::contentOf;
using test::messageOf;
using test::TemporaryFolder;

std::string withHeader(const std::string &header, const std::string &data) {
  std::string length(8, '\0');
  for (int i = 0; i < 8; ++i)
    length[i] = static_cast<char>(header.size() >> (8 * i));
  return length + header + data;
}

std::string problemOf(const std::string &content) {
  TemporaryFolder folder;
  std::string path = folder.write("x.safetensors", content);
  std::string message =
      messageOf<InputError>([&] { SafetensorsReader reader(path); });
  EXPECT_TRUE(message.empty() || message.find(path) != std::string::npos)
      << "does not name the file: " << message;
  return message;
}

TEST(Safetensors, WritesWhatItReads) {
  TemporaryFolder folder;
  std::string path = folder / "x.safetensors";
  std::vector<float> a = {1, 2, 3, 4, 5, 6}, b = {-0.5f};
  {
    AtomicFile file(path);
    writeSafetensors(file,
                     {{"b.\"weight", {2, 3}, a.data()}, {"a", {}, b.data()}},
                     {{"step", "12"}});
    file.commit();
  }
  SafetensorsReader reader(path);
  EXPECT_EQ(reader.header().metadata.at("step"), "12");
  ASSERT_NE(reader.find("b.\"weight"), nullptr);
  EXPECT_EQ(reader.find("b.\"weight")->shape, (std::vector<int64_t>{2, 3}));
  std::vector<float> read(6);
  reader.readFloats("b", *reader.find("b.\"weight"), read.data());
  EXPECT_EQ(read, a);
  reader.readFloats("a", *reader.find("a"), read.data());
  EXPECT_EQ(read[0], -0.5f);
  EXPECT_EQ(reader.find("c"), nullptr);
  // The data begins at a multiple of eight bytes, as other readers like it.
  EXPECT_EQ((contentOf(path).size() - 28) % 8, 0u);
}

TEST(Safetensors, ReadsOtherFloats) {
  TemporaryFolder folder;
  std::string halves("\x00\x3c\x00\xc0\x01\x00\xff\x7b",
                     8);                    // 1, -2, 2^-24, max
  std::string brain("\x80\x3f\x20\xc1", 4); // 1, -10
  std::string path = folder.write(
      "x",
      withHeader(R"({"h":{"dtype":"F16","shape":[4],"data_offsets":[0,8]},)"
                 R"("b":{"dtype":"BF16","shape":[2],"data_offsets":[8,12]},)"
                 R"("i":{"dtype":"I8","shape":[1],"data_offsets":[12,13]}})",
                 halves + brain + "x"));
  SafetensorsReader reader(path);
  float out[4];
  reader.readFloats("h", *reader.find("h"), out);
  EXPECT_EQ(out[0], 1.0f);
  EXPECT_EQ(out[1], -2.0f);
  EXPECT_EQ(out[2], 0x1p-24f);
  EXPECT_EQ(out[3], 65504.0f);
  reader.readFloats("b", *reader.find("b"), out);
  EXPECT_EQ(out[0], 1.0f);
  EXPECT_EQ(out[1], -10.0f);
  EXPECT_THROW(reader.readFloats("i", *reader.find("i"), out), InputError);
}

TEST(Safetensors, RefusesWhatIsNotOne) {
  auto one = [](const std::string &dtype, const std::string &shape,
                const std::string &offsets) {
    return withHeader(R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape +
                          R"(,"data_offsets":)" + offsets + "}}",
                      "12345678");
  };
  EXPECT_EQ(problemOf(one("F32", "[2]", "[0,8]")), "");
  std::string bad[] = {
      "",
      "short",
      std::string(8, '\xff'),
      std::string(8, '\0'),
      withHeader("[1, 2]", ""),
      withHeader("{\"a\": 1}", ""),
      withHeader("not json", ""),
      withHeader(std::string(100000, '['), ""),
      one("F32", "[3]", "[0,8]"),
      one("F32", "[2]", "[0,16]"),
      one("F32", "[1]", "[4,8]"),
      one("F32", "[1]", "[0,4]"),
      one("F32", "[2]", "[8,0]"),
      one("F32", "[-2]", "[0,8]"),
      one("F32", "[1.5]", "[0,8]"),
      one("F32", "[4611686018427387904, 4]", "[0,8]"),
      one("X32", "[2]", "[0,8]"),
      one("F32", "[2]", "[0]"),
      one("F32", "\"2\"", "[0,8]"),
      withHeader(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                 R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                 "1234"),
      withHeader(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                 R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                 "1234"),
      withHeader(R"({"__metadata__":{"step":1}})", ""),
  };
  for (const std::string &content : bad)
    EXPECT_NE(problemOf(content), "") << content.substr(0, 200);
  EXPECT_NE(messageOf<InputError>([] { SafetensorsReader reader("/nowhere"); }),
            "");
  EXPECT_NE(messageOf<InputError>([] { SafetensorsReader reader("/tmp"); }),
            "");
}

// A file that lost its end anywhere is never taken for a whole one, and random
// damage never does worse than an error.
TEST(Safetensors, RefusesEveryTruncationAndSurvivesDamage) {
  TemporaryFolder folder;
  std::string path = folder / "x.safetensors";
  std::vector<float> values(16, 1.5f);
  {
    AtomicFile file(path);
    writeSafetensors(file,
                     {{"h.0.weight", {4, 2}, values.data()},
                      {"h.0.bias", {8}, values.data()}},
                     {{"step", "12"}});
    file.commit();
  }
  std::string whole = contentOf(path);
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(problemOf(whole.substr(0, size)), "") << size;
  for (uint32_t i = 0; i < 3000; ++i) {
    PhiloxBlock random = philox(3, {i, 0, 0, 0});
    std::string damaged = whole;
    damaged[random[0] % damaged.size()] = static_cast<char>(random[1]);
    damaged[random[2] % damaged.size()] = static_cast<char>(random[3]);
    try {
      parseSafetensorsHeader(
          std::string_view(damaged).substr(8, whole.size() - 8 - 64), 64, "x");
    } catch (const InputError &) {
      // The only thing that may be thrown.
    }
  }
}

TEST(LoadParameters, SaysWhatDiffers) {
  TemporaryFolder folder;
  test::ToyModel toy(test::ToyShape(), "");
  ThreadPool pool(1);
  Model model(toy.descriptor(), pool);
  std::vector<float> values(14 * 14, 2.0f);
  auto write = [&](const std::vector<FloatTensor> &tensors) {
    AtomicFile file(folder / "x");
    writeSafetensors(file, tensors, {});
    file.commit();
    return folder / "x";
  };
  auto load = [&](const std::string &path) {
    return messageOf<InputError>(
        [&] { loadParameters(model, SafetensorsReader(path)); });
  };
  auto contains = [](const std::string &text, const char *part) {
    return text.find(part) != std::string::npos;
  };
  FloatTensor table{"table", {14, 14}, values.data()};
  FloatTensor bias{"bias", {14}, values.data()};
  EXPECT_TRUE(contains(load(write({table})), "bias is missing"));
  EXPECT_TRUE(contains(load(write({table, bias, {"x", {1}, values.data()}})),
                       "x is not a parameter"));
  EXPECT_TRUE(contains(load(write({{"table", {7, 28}, values.data()}, bias})),
                       "table is [7, 28], the model's is [14, 14]"));
  EXPECT_EQ(model.value(model.parameters()[0])[0], 0.0f);
  EXPECT_EQ(load(write({table, bias})), "");
  EXPECT_EQ(model.value(model.parameters()[0])[195], 2.0f);
}

TEST(LoadParameters, TakesEqualTiesOnly) {
  TemporaryFolder folder;
  test::ToyModel toy(test::ToyShape(), "");
  const char *const aliases[] = {"head.weight"};
  tfm_model descriptor = toy.descriptor();
  std::vector<tfm_parameter> parameters(descriptor.parameters,
                                        descriptor.parameters + 2);
  parameters[0].alias_count = 1;
  parameters[0].aliases = aliases;
  descriptor.parameters = parameters.data();
  ThreadPool pool(1);
  Model model(descriptor, pool);
  std::vector<float> values(14 * 14, 2.0f), others(14 * 14, 3.0f);
  auto load = [&](const std::vector<FloatTensor> &tensors) {
    {
      AtomicFile file(folder / "x");
      writeSafetensors(file, tensors, {});
      file.commit();
    }
    return messageOf<InputError>(
        [&] { loadParameters(model, SafetensorsReader(folder / "x")); });
  };
  FloatTensor bias{"bias", {14}, values.data()};
  EXPECT_EQ(load({{"head.weight", {14, 14}, others.data()}, bias}), "");
  EXPECT_EQ(model.value(parameters[0])[0], 3.0f);
  EXPECT_EQ(load({{"table", {14, 14}, values.data()},
                  {"head.weight", {14, 14}, values.data()},
                  bias}),
            "");
  EXPECT_NE(load({{"table", {14, 14}, values.data()},
                  {"head.weight", {14, 14}, others.data()},
                  bias}),
            "");
}

} // namespace
} // namespace tfm
