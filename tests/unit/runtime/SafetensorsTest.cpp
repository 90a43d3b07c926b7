//===- SafetensorsTest.cpp - tensors in a file --------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/formats/safetensors.h"
#include "runtime/philox.h"
#include "runtime/support/error.h"
#include "runtime/support/float16.h"
#include "tests/unit/runtime/TemporaryFolder.h"

#include <cmath>
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
                     {hostTensor("b.\"weight", {2, 3}, a.data()),
                      hostTensor("a", {}, b.data())},
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

// All types of safetensors 0.8.0; what is of no use here is in nobody's way.
TEST(Safetensors, KnowsTypesThatItDoesNotRead) {
  TemporaryFolder folder;
  for (const auto &[dtype, elements, bytes] : {std::tuple("F4", 6, 3),
                                               {"F6_E2M3", 4, 3},
                                               {"F6_E3M2", 4, 3},
                                               {"F8_E8M0", 3, 3},
                                               {"F8_E4M3FNUZ", 3, 3},
                                               {"F8_E5M2FNUZ", 3, 3},
                                               {"BOOL", 3, 3},
                                               {"U8", 3, 3},
                                               {"I8", 3, 3},
                                               {"I16", 1, 2},
                                               {"U16", 1, 2},
                                               {"I32", 1, 4},
                                               {"U32", 1, 4},
                                               {"C64", 1, 8},
                                               {"I64", 1, 8},
                                               {"U64", 1, 8}}) {
    std::string path = folder.write(
        "x.safetensors",
        withHeader(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                   R"("b":{"dtype":")" +
                       std::string(dtype) + R"(","shape":[)" +
                       std::to_string(elements) + R"(],"data_offsets":[4,)" +
                       std::to_string(4 + bytes) + "]}}",
                   std::string("\0\0\x80\x3f", 4) +
                       std::string(static_cast<size_t>(bytes), 'x')));
    SafetensorsReader reader(path);
    std::vector<float> out(8);
    reader.readFloats("a", *reader.find("a"), out.data());
    EXPECT_EQ(out[0], 1.0f);
    EXPECT_EQ(messageOf<InputError>([&] {
                reader.readFloats("b", *reader.find("b"), out.data());
              }),
              path + ": the tensor b has dtype " + dtype +
                  ", but weights are F32, F16, BF16, F8_E4M3, F8_E5M2 or F64");
  }
}

// Every pattern of a type of 16 bits is written and read as the same bits; what
// lies between is rounded.
TEST(Safetensors, WritesTypesOf16Bits) {
  TemporaryFolder folder;
  for (StoredType type : {StoredType::BF16, StoredType::F16}) {
    bool isHalf = type == StoredType::F16;
    std::vector<float> values;
    for (uint32_t i = 0; i < 65536; ++i)
      values.push_back(isHalf ? fromHalf(static_cast<uint16_t>(i))
                              : fromBFloat16(static_cast<uint16_t>(i)));
    // Two beside a number of both types, one in the middle of two of bfloat16.
    std::vector<float> rounded = {1.0f + 0x1p-20f, -3.0f - 0x1p-20f,
                                  1.0f + 0x1.8p-7f};
    std::string path = folder / "x.safetensors";
    {
      AtomicFile file(path);
      writeSafetensors(file,
                       {hostTensor("odd", {3}, rounded.data()),
                        hostTensor("all", {256, 256}, values.data())},
                       {}, type);
      file.commit();
    }
    SafetensorsReader reader(path);
    ASSERT_NE(reader.find("all"), nullptr);
    EXPECT_EQ(reader.find("all")->dtype, isHalf ? "F16" : "BF16");
    EXPECT_EQ(reader.find("all")->shape, (std::vector<int64_t>{256, 256}));
    EXPECT_EQ(reader.find("all")->end - reader.find("all")->begin, 131072u);
    std::vector<float> read(65536);
    reader.readFloats("all", *reader.find("all"), read.data());
    for (size_t i = 0; i < read.size(); ++i)
      EXPECT_TRUE(std::memcmp(&read[i], &values[i], sizeof(float)) == 0 ||
                  (std::isnan(read[i]) && std::isnan(values[i])))
          << i;
    reader.readFloats("odd", *reader.find("odd"), read.data());
    EXPECT_EQ(read[0], 1.0f);
    EXPECT_EQ(read[1], -3.0f);
    EXPECT_EQ(read[2], isHalf ? 1.0f + 0x1.8p-7f : 1.0f + 0x1p-6f);
  }
}

TEST(Safetensors, KnowsWhatATypeReachesTo) {
  float next = std::nextafter(65504.0f, INFINITY);
  std::vector<float> values = {
      1.0f,  -65504.0f,   65504.0f,
      -next, 0x1.fep127f, std::nextafter(0x1.fep127f, INFINITY)};
  EXPECT_EQ(firstBeyond(values, largestOf(StoredType::F16)), 3u);
  EXPECT_EQ(firstBeyond(values, largestOf(StoredType::BF16)), 5u);
  EXPECT_EQ(firstBeyond(values, largestOf(StoredType::F32)), 6u);
  EXPECT_EQ(firstBeyond(values, largestOf(StoredType::INT4)), 4u);
  EXPECT_EQ(firstBeyond(values, largestOf(StoredType::INT8)), 6u);
  // Behind more than a block, too.
  values.insert(values.begin(), 5000, 1.0f);
  EXPECT_EQ(firstBeyond(values, largestOf(StoredType::F16)), 5003u);
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
      one("F4", "[15]", "[0,8]"),
      one("F6_E2M3", "[8]", "[0,8]"),
      one("F32", "[2]", "[0]"),
      one("F32", "\"2\"", "[0,8]"),
      withHeader(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                 R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                 "1234"),
      withHeader(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                 R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                 "1234"),
      withHeader(R"({"__metadata__":{"step":1}})", ""),
      // A header that claims ten gigabytes, and one with negative offsets.
      std::string("\x00\x00\x00\x40\x02\x00\x00\x00{}", 10),
      one("F32", "[2]", "[-8,0]"),
      // More bytes than tensors, and tensors that overlap by half.
      withHeader(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                 "12345678"),
      withHeader(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                 R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                 "123456789012"),
  };
  for (const std::string &content : bad)
    EXPECT_NE(problemOf(content), "") << content.substr(0, 200);
  for (const auto &[content, expected] :
       {std::pair("version https://git-lfs.github.com/spec/v1\noid sha256:1",
                  "is a pointer of Git LFS"),
        {"{\n  \"model_type\": \"gpt2\"}", "is JSON, and no safetensors file"},
        {"First Citizen", "is text, and no safetensors file"}})
    EXPECT_NE(problemOf(content).find(expected), std::string::npos)
        << problemOf(content);
  // A file that really is that large: its header is never read.
  TemporaryFolder folder;
  std::string large = folder.write(
      "large.safetensors", std::string("\x00\x00\x00\x40\x02\x00\x00\x00{", 9));
  std::filesystem::resize_file(large, 11'000'000'000);
  EXPECT_NE(messageOf<InputError>([&] {
              SafetensorsReader reader(large);
            }).find("its header is said to have 9663676416 bytes"),
            std::string::npos);
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
                     {hostTensor("h.0.weight", {4, 2}, values.data()),
                      hostTensor("h.0.bias", {8}, values.data())},
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

} // namespace
} // namespace tfm
