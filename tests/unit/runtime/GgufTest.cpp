//===- GgufTest.cpp - tensors of llama.cpp ------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/formats/gguf.h"
#include "runtime/support/error.h"
#include "runtime/support/float16.h"
#include "tests/unit/runtime/TemporaryFolder.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <sys/mman.h>
#include <unistd.h>

using nlohmann::json;

namespace tfm {
namespace {

using test::messageOf;

/// Writes files as the format asks.
class Writer {
public:
  template <typename T> Writer &add(T value) {
    text.append(reinterpret_cast<const char *>(&value), sizeof value);
    return *this;
  }
  Writer &add(const char *words) {
    add(uint64_t{std::strlen(words)});
    text += words;
    return *this;
  }
  Writer &tensor(const char *name, const std::vector<uint64_t> &shape,
                 uint32_t type, uint64_t at) {
    add(name).add(static_cast<uint32_t>(shape.size()));
    for (uint64_t extent : shape)
      add(extent);
    return add(type).add(at);
  }
  std::string text;
};

/// A file without a place in a folder.
class Bytes {
public:
  explicit Bytes(const std::string &text) : file(memfd_create("gguf", 0)) {
    EXPECT_EQ(write(file, text.data(), text.size()),
              static_cast<ssize_t>(text.size()));
  }
  ~Bytes() { close(file); }
  Bytes(const Bytes &) = delete;
  Bytes &operator=(const Bytes &) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(file); }

private:
  int file;
};

/// The beginning of a file with so many tensors and values of metadata.
Writer begun(uint64_t tensors, uint64_t values) {
  Writer header;
  header.add(uint32_t{0x46554747}).add(uint32_t{3}).add(tensors).add(values);
  return header;
}

/// A matrix of every type, 2 rows of 32, one behind the other.
std::string file() {
  Writer header = begun(4, 6);
  header.add("general.architecture").add(uint32_t{8}).add("own");
  header.add("own.heads").add(uint32_t{4}).add(uint32_t{1});
  header.add("own.eps").add(uint32_t{6}).add(1e-5f);
  header.add("own.other").add(uint32_t{7}).add(uint8_t{1});
  header.add("tokenizer.tokens").add(uint32_t{9}).add(uint32_t{8});
  header.add(uint64_t{2}).add("a").add("b");
  header.add("own.list").add(uint32_t{9}).add(uint32_t{5});
  header.add(uint64_t{2}).add(int32_t{-1}).add(int32_t{7});
  header.tensor("q8", {32, 2}, 8, 0).tensor("q4", {32, 2}, 2, 96);
  header.tensor("q41", {32, 2}, 3, 160).tensor("f", {2}, 0, 224);
  header.text.resize((header.text.size() + 31) / 32 * 32);
  Writer data;
  for (int row = 0; row < 2; ++row) {
    data.add(toHalf(0.5f));
    for (int i = 0; i < 32; ++i)
      data.add(static_cast<int8_t>(row == 0 ? i - 100 : -i));
  }
  data.text.resize(96);
  for (int row = 0; row < 2; ++row) {
    data.add(toHalf(2.0f));
    for (int i = 0; i < 16; ++i)
      data.add(static_cast<uint8_t>(i | (15 - i) << 4));
  }
  data.text.resize(160);
  for (int row = 0; row < 2; ++row) {
    data.add(toHalf(2.0f)).add(toHalf(-3.0f));
    for (int i = 0; i < 16; ++i)
      data.add(static_cast<uint8_t>(i | (15 - i) << 4));
  }
  data.text.resize(224);
  data.add(1.5f).add(-2.5f);
  return header.text + data.text;
}

json family() {
  return json::parse(R"({
    "architecture": "own", "harmless": ["general.", "tokenizer."], "needed": [],
    "keys": {"heads": "num_heads", "eps": "norm_eps", "list": "list"},
    "frequencies": {}, "must": {}, "with": {}, "rows": {"q8": "vocab_size"}, "without": {"output": "tied", "f": "bare"},
    "tensors": {"q8": {"name": "a.weight", "halves_of": "num_heads"},
                "q4": {"name": "b.weight", "transposed": true},
                "f": {"name": "c.weight", "more": -1}}})");
}

std::vector<float> read(const GgufReader &reader, const std::string &name) {
  const TensorEntry *entry = reader.find(name);
  if (!entry)
    return {};
  std::vector<float> values(entry->elements());
  reader.readFloats(name, *entry, 0, values);
  return values;
}

TEST(Gguf, ReadsEveryType) {
  Bytes bytes(file());
  GgufReader reader(bytes.path());
  std::vector<float> q8 = read(reader, "q8"), q4 = read(reader, "q4"),
                     q41 = read(reader, "q41");
  EXPECT_EQ(reader.find("q8")->shape, (std::vector<int64_t>{2, 32}));
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(q8[i], 0.5f * static_cast<float>(i - 100));
    EXPECT_EQ(q8[32 + i], -0.5f * static_cast<float>(i));
    int low = i < 16 ? i : 31 - i;
    EXPECT_EQ(q4[i], 2.0f * static_cast<float>(low - 8));
    EXPECT_EQ(q41[32 + i], 2.0f * static_cast<float>(low) - 3);
  }
  EXPECT_EQ(read(reader, "f"), (std::vector<float>{1.5f, -2.5f}));
  // Part of it.
  std::vector<float> part(3);
  reader.readFloats("q8", *reader.find("q8"), 31, part);
  EXPECT_EQ(part, (std::vector<float>{-34.5f, 0.0f, -0.5f}));
}

// What llama.cpp's own Python makes of random bits, to the bit.
TEST(Gguf, ReadsBlocksAsLlamaCppDoes) {
  GgufReader reader(TFM_FIXTURES "/gguf/blocks.gguf");
  int types = 0;
  for (const auto &[name, entry] : reader.header().tensors) {
    if (name.ends_with(".expected"))
      continue;
    ++types;
    EXPECT_EQ(entry.dtype, name);
    EXPECT_TRUE(isBlockType(entry.dtype)) << name;
    std::vector<float> values = read(reader, name),
                       expected = read(reader, name + ".expected");
    EXPECT_EQ(values.size(), 1024U);
    EXPECT_EQ(values, expected) << name;
    // A part that begins and ends within blocks.
    std::vector<float> part(301);
    reader.readFloats(name, entry, 399, part);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), expected.begin() + 399))
        << name;
  }
  EXPECT_EQ(types, 12);
}

TEST(Gguf, ReadsListsOfAnyLengthWhereTheyAreWanted) {
  Writer header = begun(0, 2);
  header.add("long").add(uint32_t{9}).add(uint32_t{8}).add(uint64_t{3000});
  for (int i = 0; i < 3000; ++i)
    header.add(std::to_string(i).c_str());
  header.add("number").add(uint32_t{4}).add(uint32_t{3});
  Bytes bytes(header.text);
  GgufReader reader(bytes.path());
  EXPECT_EQ(reader.metadata()["long"], "a list of 3000 elements");
  json list = reader.list("long");
  ASSERT_EQ(list.size(), 3000U);
  EXPECT_EQ(list[2999], "2999");
  EXPECT_TRUE(reader.list("number").is_null());
  EXPECT_TRUE(reader.list("other").is_null());
}

/// Factors of eight frequencies by Llama 3's formula, of base 500000.
std::vector<float> stretched(double factor, double original) {
  std::vector<float> factors;
  for (int i = 0; i < 8; ++i) {
    double turns = original / (2 * M_PI * std::pow(500000.0, i / 8.0));
    double of = turns > 4 ? 1
                : turns < 1
                    ? factor
                    : 1 / ((1 - (turns - 1) / 3) / factor + (turns - 1) / 3);
    factors.push_back(static_cast<float>(of));
  }
  return factors;
}

TEST(Gguf, TellsHowFrequenciesAreScaled) {
  auto configOf = [](std::vector<float> factors) {
    Writer header = begun(1, 2);
    header.add("general.architecture").add(uint32_t{8}).add("own");
    header.add("own.base").add(uint32_t{6}).add(500000.0f);
    header.tensor("freqs", {factors.size()}, 0, 0);
    header.text.resize((header.text.size() + 31) / 32 * 32);
    for (float factor : factors)
      header.add(factor);
    Bytes bytes(header.text);
    GgufReader reader(bytes.path());
    json table = family();
    table["keys"]["base"] = "rope_theta";
    table["rows"] = table["without"] = json::object();
    table["frequencies"]["freqs"] = json::parse(
        R"({"low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192})");
    json config = reader.config(table);
    reader.rename(table);
    EXPECT_TRUE(reader.header().tensors.empty()); // all is in the configuration
    return config;
  };
  json scaling = configOf(stretched(32, 8192))["rope_parameters"];
  EXPECT_EQ(scaling, json::parse(R"({"rope_type": "llama3", "factor": 32.0,
      "low_freq_factor": 1.0, "high_freq_factor": 4.0,
      "original_max_position_embeddings": 8192})"));
  for (auto factors : {stretched(32, 4096), std::vector<float>(8, NAN),
                       std::vector<float>(8, -1.0f)})
    EXPECT_NE(messageOf<InputError>([&] {
                configOf(factors);
              }).find("Llama 3's scaling"),
              std::string::npos);
}

TEST(Gguf, SpeaksTheWordsOfAFamily) {
  Bytes bytes(file());
  GgufReader reader(bytes.path());
  EXPECT_EQ(reader.config(family()),
            json::parse(R"({"num_heads": 1, "norm_eps": 1e-05, "tied": true,
                            "bare": false, "vocab_size": 2, "list": [-1, 7],
                            "own.other": true})"));
  std::vector<float> q8 = read(reader, "q8"), q4 = read(reader, "q4");
  reader.rename(family());
  // One row of each half: they stay where they are.
  EXPECT_EQ(read(reader, "a.weight"), q8);
  EXPECT_EQ(reader.find("b.weight")->shape, (std::vector<int64_t>{32, 2}));
  std::vector<float> turned = read(reader, "b.weight");
  for (size_t i = 0; i < 64; ++i)
    EXPECT_EQ(turned[i], q4[i % 2 * 32 + i / 2]);
  EXPECT_EQ(read(reader, "c.weight"), (std::vector<float>{0.5f, -3.5f}));
  EXPECT_EQ(read(reader, "q41").size(), 64U);
  json needing = family();
  needing["keys"]["depth"] = "num_layers";
  needing["needed"] = {"eps", "nobody's", "depth"};
  EXPECT_NE(messageOf<InputError>([&] {
              reader.config(needing);
            }).find("own.depth is absent, and nothing else says it"),
            std::string::npos);
  json other = family();
  other["architecture"] = "llama";
  EXPECT_NE(messageOf<InputError>([&] {
              reader.config(other);
            }).find("general.architecture is \"own\""),
            std::string::npos);
}

// What no key of a configuration can be is none that is absent: it would have
// its default.
TEST(Gguf, SaysWhatIsNoValue) {
  Writer header = begun(0, 4);
  header.add("general.architecture").add(uint32_t{8}).add("own");
  header.add("own.eps").add(uint32_t{6}).add(std::nanf(""));
  header.add("own.heads").add(uint32_t{9}).add(uint32_t{0}).add(uint64_t{2000});
  header.text.resize(header.text.size() + 2000);
  header.add("own.count").add(uint32_t{4}).add(uint32_t{1});
  Bytes bytes(header.text);
  GgufReader reader(bytes.path());
  EXPECT_EQ(reader.metadata()["own.eps"], "nan");
  EXPECT_EQ(reader.metadata()["own.heads"], "a list of 2000 elements");
  // The same key twice, under two names.
  json table = family();
  table["keys"]["count"] = "num_heads";
  EXPECT_NE(
      messageOf<InputError>([&] { reader.config(table); }).find("num_heads"),
      std::string::npos);
}

TEST(Gguf, ShowsTextsOfAnyBytes) {
  Writer header = begun(0, 1);
  header.add("general.alignment").add(uint32_t{8}).add("\xff");
  Bytes bytes(header.text);
  EXPECT_NE(messageOf<InputError>([&] {
              GgufReader reader(bytes.path());
            }).find("general.alignment is \"\xEF\xBF\xBD\""),
            std::string::npos);
}

// Most files in the world are of such types, and whole.
TEST(Gguf, NamesTypesThatAreNotRead) {
  Writer header = begun(1, 0);
  header.tensor("blk.0.attn_q.weight", {256, 2}, 16, 0);
  Bytes bytes(header.text);
  std::string message =
      messageOf<InputError>([&] { GgufReader reader(bytes.path()); });
  EXPECT_NE(message.find("blk.0.attn_q.weight is of the type IQ2_XXS"),
            std::string::npos);
  EXPECT_EQ(message.find("download it again"), std::string::npos);
}

/// A part of a model: tensors of two numbers, the first of which is `first`.
std::string part(uint16_t number, uint16_t count, float first,
                 std::initializer_list<const char *> names) {
  Writer header = begun(names.size(), 3);
  header.add("split.no").add(uint32_t{2}).add(number);
  header.add("split.count").add(uint32_t{2}).add(count);
  header.add("split.tensors.count").add(uint32_t{5}).add(int32_t{3});
  uint64_t at = 0;
  for (const char *name : names)
    header.tensor(name, {2}, 0, std::exchange(at, at + 32));
  header.text.resize((header.text.size() + 31) / 32 * 32);
  for (size_t i = 0; i < names.size(); ++i, first += 2) {
    header.add(first).add(first + 1);
    header.text.resize((header.text.size() + 31) / 32 * 32);
  }
  return header.text;
}

TEST(Gguf, ReadsModelsInParts) {
  test::TemporaryFolder folder;
  auto name = [&](int number) {
    return "m-0000" + std::to_string(number) + "-of-00003.gguf";
  };
  auto problem = [&](int number) {
    return messageOf<InputError>(
        [&] { GgufReader reader(folder / name(number)); });
  };
  folder.write(name(1), part(0, 3, 0, {}));
  folder.write(name(2), part(1, 3, 1, {"a", "b"}));
  EXPECT_EQ(problem(1), folder / name(3) +
                            " is missing: " + (folder / name(1)) +
                            " is the first of 3 parts of a model");
  folder.write(name(3), part(2, 3, 5, {"c"}));
  {
    GgufReader reader(folder / name(1));
    EXPECT_TRUE(reader.isRead(folder / name(3)));
    EXPECT_EQ(read(reader, "a"), (std::vector<float>{1, 2}));
    EXPECT_EQ(read(reader, "b"), (std::vector<float>{3, 4}));
    EXPECT_EQ(read(reader, "c"), (std::vector<float>{5, 6}));
  }
  EXPECT_NE(problem(2).find("it is part 2 of 3 of a model: name the first, " +
                            (folder / name(1))),
            std::string::npos);
  for (auto [bytes, words] :
       {std::pair(part(1, 3, 5, {"c"}), "does not say that it is part 3 of 3"),
        std::pair(part(2, 3, 5, {"b"}), "the tensor b is in two parts"),
        std::pair(part(2, 3, 5, {"c", "d"}), "to have 3 tensors, and have 4"),
        std::pair(part(2, 3, 5, {"c"}).substr(0, 150), "is not a usable")}) {
    folder.write(name(3), bytes);
    EXPECT_NE(problem(1).find(words), std::string::npos) << problem(1);
  }
}

TEST(Gguf, TurnsRowsOfTheHeadsThatTheFileCounts) {
  auto readBy = [](const char *heads) {
    Writer header = begun(1, 2);
    header.add("general.architecture").add(uint32_t{8}).add("own");
    header.add("own.heads").add(uint32_t{4}).add(uint32_t{2});
    header.tensor("q8", {1, 8}, 0, 0);
    header.text.resize((header.text.size() + 31) / 32 * 32);
    for (int row = 0; row < 8; ++row)
      header.add(static_cast<float>(row));
    Bytes bytes(header.text);
    GgufReader reader(bytes.path());
    json table = family();
    table["tensors"]["q8"]["halves_of"] = json::parse(heads);
    reader.rename(table);
    return read(reader, "a.weight");
  };
  std::vector<float> turned = {0, 2, 1, 3, 4, 6, 5, 7};
  EXPECT_EQ(readBy(R"("num_heads")"), turned);
  EXPECT_EQ(readBy(R"(["num_groups", "num_heads"])"), turned);
  EXPECT_NE(messageOf<InputError>([&] {
              readBy(R"("num_groups")");
            }).find("q8 has 8 rows, which are not those of null num_groups"),
            std::string::npos);
}

TEST(Gguf, RefusesWhatIsDamaged) {
  const std::string right = file();
  for (size_t size = 0; size < right.size(); ++size) {
    Bytes cut(right.substr(0, size));
    EXPECT_NE(messageOf<InputError>([&] {
                GgufReader reader(cut.path());
              }).find(cut.path() + " is not a usable gguf file"),
              std::string::npos)
        << size;
  }
}

TEST(Gguf, EndsWhateverTheBytesAre) {
  const std::string right = file();
  std::mt19937 dice(7);
  int refused = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string bytes = right;
    for (int change = 0; change < 1 + i % 3; ++change)
      bytes[dice() % bytes.size()] =
          static_cast<char>(dice() % 2 ? dice() : (dice() % 2 ? 0xff : 0));
    try {
      Bytes changed(bytes);
      GgufReader reader(changed.path());
      reader.rename(family());
      for (const auto &[name, entry] : reader.header().tensors)
        read(reader, name);
    } catch (const InputError &) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_LT(refused, 4000);
}

} // namespace
} // namespace tfm
