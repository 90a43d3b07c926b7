//===- AgainstTest.cpp - a model beside a checkpoint ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tied.h"

#include "compiler/report/Against.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <cmath>
#include <cstring>
#include <map>

using namespace tfm;
using namespace tfm::test;
using State = TensorComparison::State;

namespace {

/// The tensors of the small model, as a checkpoint that agrees would have them.
std::vector<CheckpointTensor> agreeing(const ModelReport &report,
                                       const std::string &prefix = "") {
  std::vector<CheckpointTensor> tensors;
  for (const TensorReport &tensor : report.tensors)
    tensors.push_back({prefix + tensor.name, "F32", tensor.shape});
  return tensors;
}

std::string textOf(const Comparison &comparison, bool all = false) {
  std::string text;
  llvm::raw_string_ostream os(text);
  writeComparison(comparison, "dir", all, os);
  return text;
}

/// A folder that is removed with everything in it.
class TemporaryFolder {
public:
  TemporaryFolder() {
    EXPECT_FALSE(llvm::sys::fs::createUniqueDirectory("tfm-against", path));
  }
  ~TemporaryFolder() { llvm::sys::fs::remove_directories(path); }

  std::string file(llvm::StringRef name) const {
    llvm::SmallString<128> full(path);
    llvm::sys::path::append(full, name);
    return full.str().str();
  }
  /// Writes a file; returns its path.
  std::string write(llvm::StringRef name, llvm::StringRef bytes) const {
    std::error_code error;
    llvm::raw_fd_ostream os(file(name), error);
    EXPECT_FALSE(error);
    os << bytes;
    return file(name);
  }
  std::string str() const { return path.str().str(); }

private:
  llvm::SmallString<128> path;
};

/// A safetensors file of zeros with the given header and number of data bytes.
std::string safetensors(const std::string &header, size_t dataBytes) {
  std::string bytes(8, '\0');
  uint64_t size = header.size();
  std::memcpy(bytes.data(), &size, sizeof(size));
  return bytes + header + std::string(dataBytes, '\0');
}

} // namespace

TEST(Against, AgreesWithAndWithoutPrefix) {
  ModelReport report = tiedReport();
  Comparison plain = compareWithCheckpoint(report, agreeing(report));
  EXPECT_TRUE(plain.agrees());
  EXPECT_EQ(plain.prefix, "");
  EXPECT_EQ(textOf(plain),
            "dir: 9 of 9 tensors match in name, shape and type\n");

  Comparison prefixed =
      compareWithCheckpoint(report, agreeing(report, "transformer."));
  EXPECT_TRUE(prefixed.agrees());
  EXPECT_EQ(prefixed.prefix, "transformer.");
  EXPECT_EQ(textOf(prefixed), "dir: 9 of 9 tensors match in name, shape and "
                              "type (under the prefix `transformer.`)\n");
  Comparison wrapped =
      compareWithCheckpoint(report, agreeing(report, "module._orig_mod."));
  EXPECT_TRUE(wrapped.agrees());
  EXPECT_EQ(wrapped.prefix, "module._orig_mod.");
}

TEST(Against, TheModelMayHaveThePrefix) {
  ModelReport report = tiedReport();
  std::vector<CheckpointTensor> tensors = agreeing(report);
  for (TensorReport &tensor : report.tensors)
    tensor.name = "model." + tensor.name;
  Comparison comparison = compareWithCheckpoint(report, tensors);
  EXPECT_TRUE(comparison.agrees());
  EXPECT_EQ(comparison.prefix, "-model.");
}

// Quantised weights are read, with all that belongs to them.
TEST(Against, QuantisedWeightsNeedTheirScales) {
  ModelReport report = tiedReport();
  std::vector<CheckpointTensor> tensors = agreeing(report);
  tensors[0].dtype = "I8";
  EXPECT_EQ(compareWithCheckpoint(report, tensors).count(State::Dtype), 1);
  tensors[0].isQuantised = true;
  EXPECT_TRUE(compareWithCheckpoint(report, tensors).agrees());
  tensors[0].problem = "its scales are missing";
  Comparison comparison = compareWithCheckpoint(report, tensors);
  EXPECT_EQ(comparison.count(State::Dtype), 1);
  EXPECT_NE(textOf(comparison).find("its scales are missing"),
            std::string::npos)
      << textOf(comparison);
}

TEST(Against, ATerminalObeysNoName) {
  ModelReport report = tiedReport();
  std::vector<CheckpointTensor> tensors = agreeing(report);
  tensors.push_back({"\x1b[31mred", "F32", {2}});
  std::string text = textOf(compareWithCheckpoint(report, tensors));
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
  EXPECT_NE(text.find("[31mred"), std::string::npos) << text;
}

// One tensor with and without the prefix: loading could not tell which is
// meant.
TEST(Against, OneTensorUnderTwoNames) {
  ModelReport report = tiedReport();
  std::vector<CheckpointTensor> tensors = agreeing(report, "transformer.");
  const TensorReport &first = report.tensors.front();
  tensors.push_back({first.name, "F32", first.shape});
  Comparison comparison = compareWithCheckpoint(report, tensors);
  EXPECT_FALSE(comparison.agrees());
  EXPECT_EQ(comparison.count(State::Unexpected), 1);
  EXPECT_EQ(comparison.tensors.back().name, first.name);
}

// The head may be stored beside the embedding that it is tied to, under the
// alias or (where the model has no alias for it) under its usual name; or
// alone.
TEST(Against, TiedHead) {
  ModelReport report = tiedReport();
  std::vector<CheckpointTensor> both = agreeing(report, "transformer.");
  both.push_back({"lm_head.weight", "F32", {11, 8}});
  Comparison comparison = compareWithCheckpoint(report, both);
  EXPECT_TRUE(comparison.agrees());
  EXPECT_EQ(comparison.count(State::Matches), 9);

  ModelReport without = report;
  without.tensors[0].aliases.clear();
  comparison = compareWithCheckpoint(without, both);
  EXPECT_TRUE(comparison.agrees());
  EXPECT_EQ(comparison.count(State::Tied), 1);

  // A part of a model without a head: loading takes what is equal, too.
  ModelReport body = without;
  body.tensors[0].usedBy.resize(1);
  EXPECT_EQ(compareWithCheckpoint(body, both).count(State::Tied), 1);
  // What the family does without is not looked at.
  comparison =
      compareWithCheckpoint(body, both, R"({"unused": ["lm_head.weight"]})");
  EXPECT_EQ(comparison.count(State::Tied), 0);
  EXPECT_EQ(comparison.count(State::Buffer), 1);

  // Another shape is no copy of the embedding, whatever it is called.
  std::vector<CheckpointTensor> wide = both;
  wide.back().shape = {11, 9};
  EXPECT_FALSE(compareWithCheckpoint(report, wide).agrees());
  both.back().shape = {11, 9};
  EXPECT_FALSE(compareWithCheckpoint(without, both).agrees());

  std::vector<CheckpointTensor> alone = agreeing(report);
  alone[0].name = "lm_head.weight";
  EXPECT_TRUE(compareWithCheckpoint(report, alone).agrees());
}

TEST(Against, BuffersAreNoWeights) {
  ModelReport report = tiedReport();
  std::vector<CheckpointTensor> tensors = agreeing(report);
  tensors.push_back({"h.0.attn.bias", "F32", {1, 1, 6, 6}});
  tensors.push_back({"h.0.attn.masked_bias", "F32", {}});
  Comparison comparison = compareWithCheckpoint(report, tensors);
  EXPECT_TRUE(comparison.agrees());
  EXPECT_EQ(textOf(comparison), "dir: 9 of 9 tensors match in name, shape and "
                                "type, 2 ignored as buffers\n");
  // A bias of a layer is a weight that the model lacks.
  tensors.push_back({"h.1.attn.bias", "F32", {8}});
  EXPECT_FALSE(compareWithCheckpoint(report, tensors).agrees());
}

TEST(Against, EveryDifferenceIsNamed) {
  ModelReport report = tiedReport();
  std::vector<CheckpointTensor> tensors = agreeing(report);
  tensors[0].shape = {8, 11};
  tensors[1].dtype = "I32";
  tensors[2].dtype = "BF16";
  tensors[8].name = "ln_f.gain";
  Comparison comparison = compareWithCheckpoint(report, tensors);
  EXPECT_FALSE(comparison.agrees());
  EXPECT_EQ(
      textOf(comparison),
      "wte.weight   shape differs  [11, 8] here, [8, 11] in the checkpoint\n"
      "wpe.weight   dtype differs  f32 here, I32 in the checkpoint\n"
      "ln_f.weight  missing        [8] here, not in the checkpoint\n"
      "ln_f.gain    unexpected     [8] in the checkpoint, not here\n"
      "dir: 6 of 9 tensors match in name, shape and type, 1 with another "
      "shape, 1 with another dtype, "
      "1 missing, 1 unexpected\n");
}

// What loading refuses is found where the values are read: copies that differ,
// and values that are not finite.
TEST(Against, Values) {
  ModelReport report = tiedReport();
  TemporaryFolder folder;
  std::vector<CheckpointTensor> both = agreeing(report);
  both.push_back({"lm_head.weight", "F32", {11, 8}});
  std::string header;
  size_t size = 0;
  std::map<std::string, size_t> starts;
  for (const CheckpointTensor &tensor : both) {
    size_t bytes = sizeof(float), begin = size;
    std::string shape;
    for (int64_t extent : tensor.shape) {
      bytes *= extent;
      shape += (shape.empty() ? "" : ",") + std::to_string(extent);
    }
    size += bytes;
    starts[tensor.name] = begin;
    header += (header.empty() ? "{\"" : ",\"") + tensor.name +
              R"(":{"dtype":"F32","shape":[)" + shape +
              R"(],"data_offsets":[)" + std::to_string(begin) + "," +
              std::to_string(size) + "]}";
  }
  const std::string zeros = safetensors(header + "}", size);
  // The text of a comparison in which element 3 of a tensor has a value.
  auto compare = [&](const ModelReport &model, const std::string &name,
                     float value) {
    std::string bytes = zeros;
    std::memcpy(bytes.data() + bytes.size() - size + starts.at(name) +
                    3 * sizeof(float),
                &value, sizeof(float));
    std::string path = folder.write("model.safetensors", bytes);
    Comparison comparison = compareWithCheckpoint(model, both);
    EXPECT_TRUE(comparison.agrees());
    EXPECT_FALSE(static_cast<bool>(compareValues(path, comparison)));
    std::string text = textOf(comparison);
    EXPECT_EQ(comparison.agrees(), llvm::StringRef(text).count('\n') == 1);
    return text;
  };
  const std::string all = "dir: 9 of 9 tensors match in name, shape and type";
  EXPECT_EQ(compare(report, "ln_f.weight", 1), all + "\n");
  EXPECT_EQ(
      compare(report, "ln_f.weight", INFINITY),
      "ln_f.weight  not finite  element 3 is inf\n"
      "dir: 8 of 9 tensors match in name, shape and type, 1 not finite\n");
  EXPECT_EQ(compare(report, "lm_head.weight", 1),
            "wte.weight  copy differs  lm_head.weight and wte.weight are one "
            "tensor here\n"
            "dir: 8 of 9 tensors match in name, shape and type, 1 unlike their "
            "copies\n");
  // The same where the model has no alias for it.
  report.tensors[0].aliases.clear();
  EXPECT_EQ(compare(report, "ln_f.weight", 1), all + ", 1 tied\n");
  EXPECT_EQ(compare(report, "lm_head.weight", 1),
            "lm_head.weight  copy differs  the model ties it to wte.weight\n" +
                all + ", 1 unlike their copies\n");
}

TEST(Against, ReadsAFileAFolderAndShards) {
  TemporaryFolder folder;
  std::string one = safetensors(
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8);
  std::string two = safetensors(
      R"({"b.c":{"dtype":"BF16","shape":[1,3],"data_offsets":[0,6]}})", 6);
  std::string file = folder.write("one.safetensors", one);
  auto single = readCheckpoint(file);
  ASSERT_TRUE(static_cast<bool>(single));
  ASSERT_EQ(single->size(), 1U);
  EXPECT_EQ((*single)[0].name, "a");

  folder.write("two.safetensors", two);
  folder.write(
      "model.safetensors.index.json",
      R"({"weight_map": {"a": "one.safetensors", "b.c": "two.safetensors"}})");
  auto sharded = readCheckpoint(folder.str());
  ASSERT_TRUE(static_cast<bool>(sharded));
  ASSERT_EQ(sharded->size(), 2U);
  EXPECT_EQ((*sharded)[1].dtype, "BF16");
  EXPECT_EQ((*sharded)[1].shape, (std::vector<int64_t>{1, 3}));

  folder.write("model.safetensors", one);
  auto whole = readCheckpoint(folder.str());
  ASSERT_TRUE(static_cast<bool>(whole));
  EXPECT_EQ(whole->size(), 1U);
}

TEST(Against, BadCheckpointsNameTheFile) {
  TemporaryFolder folder;
  auto errorOf = [&](const std::string &path) {
    auto result = readCheckpoint(path);
    EXPECT_FALSE(static_cast<bool>(result)) << path;
    return result ? "" : llvm::toString(result.takeError());
  };
  EXPECT_EQ(errorOf(folder.str()),
            "there are no weights in " + folder.str() +
                ": the folder has neither model.safetensors nor "
                "model.safetensors.index.json");
  folder.write("adapter_config.json", "{}");
  EXPECT_NE(
      errorOf(folder.str()).find("; adapter_config.json is of an adapter"),
      std::string::npos);
  for (const char *bytes : {"", "abc", "\x10\0\0\0\0\0\0\0{\"a\":"}) {
    std::string file = folder.write("bad.safetensors", bytes);
    EXPECT_NE(errorOf(file).find(file), std::string::npos);
  }
  EXPECT_NE(errorOf(folder.file("none.safetensors")).find("none.safetensors"),
            std::string::npos);
  std::string index = folder.file("model.safetensors.index.json");
  folder.write("model.safetensors.index.json", "{}");
  EXPECT_EQ(errorOf(folder.str()),
            index + ": there is no \"weight_map\" of tensors to files. Copy or "
                    "download it again");
  folder.write("model.safetensors.index.json",
               R"({"weight_map": {"a": "gone.safetensors"}})");
  EXPECT_NE(errorOf(folder.str()).find("gone.safetensors"), std::string::npos);
}
