//===- WeightsTest.cpp - parameters from a checkpoint -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/files/weights.h"
#include "runtime/device/cpu_device.h"
#include "runtime/error.h"
#include "runtime/model.h"
#include "tests/unit/runtime/TemporaryFolder.h"
#include "tests/unit/runtime/ToyModel.h"

#include <cmath>
#include <gtest/gtest.h>

namespace tfm {
namespace {

using test::messageOf;
using test::TemporaryFolder;

/// The toy model (`table` [14, 14] and `bias` [14]) and files for it.
class LoadParameters : public testing::Test {
protected:
  LoadParameters()
      : toy(test::ToyShape(), ""), device(1), model(toy.descriptor(), device),
        values(14 * 14, 2.0f), others(14 * 14, 3.0f) {}

  std::string write(const std::vector<FloatTensor> &tensors,
                    const std::string &name = "x") {
    AtomicFile file(folder / name);
    writeSafetensors(file, tensors, {});
    file.commit();
    return folder / name;
  }

  std::string load(const std::string &path) {
    return messageOf<InputError>(
        [&] { loadParameters(model, WeightFiles(path)); });
  }

  void expectProblem(const std::string &path, const std::string &part) {
    std::string message = load(path);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }

  float loaded() const {
    return model.readValue(model.parameters()[0]).values()[195];
  }

  FloatTensor tensor(const char *name, std::vector<int64_t> shape) const {
    return hostTensor(name, std::move(shape), values.data());
  }

  TemporaryFolder folder;
  test::ToyModel toy;
  CpuDevice device;
  Model model;
  std::vector<float> values, others;
};

TEST_F(LoadParameters, SaysWhatDiffers) {
  FloatTensor table = tensor("table", {14, 14}), bias = tensor("bias", {14});
  expectProblem(write({table}), "bias is missing");
  expectProblem(write({table, bias, tensor("x", {1})}), "x is not a parameter");
  expectProblem(write({tensor("table", {7, 28}), bias}),
                "table is [7, 28], the model's is [14, 14]");
  expectProblem(write({table, bias, tensor("model.table", {14, 14})}),
                "are both the parameter table");
  EXPECT_EQ(loaded(), 0.0f);
  EXPECT_EQ(load(write({table, bias})), "");
  EXPECT_EQ(loaded(), 2.0f);
}

TEST_F(LoadParameters, WithAndWithoutAPrefix) {
  EXPECT_EQ(load(write({tensor("transformer.table", {14, 14}),
                        tensor("transformer.bias", {14})})),
            "");
  EXPECT_EQ(loaded(), 2.0f);
  // The model's names may be the longer ones.
  tfm_model descriptor = toy.descriptor();
  std::vector<tfm_parameter> parameters(descriptor.parameters,
                                        descriptor.parameters + 2);
  parameters[0].name = "model.table";
  parameters[1].name = "model.bias";
  descriptor.parameters = parameters.data();
  CpuDevice another(1);
  Model longer(descriptor, another);
  loadParameters(longer, WeightFiles(write({tensor("table", {14, 14}),
                                            tensor("bias", {14})})));
  EXPECT_EQ(longer.readValue(parameters[0]).values()[0], 2.0f);
}

TEST_F(LoadParameters, BuffersAreNoWeights) {
  FloatTensor table = tensor("table", {14, 14}), bias = tensor("bias", {14});
  EXPECT_EQ(load(write({table, bias, tensor("h.0.attn.bias", {1, 1, 2, 2}),
                        tensor("h.0.attn.masked_bias", {})})),
            "");
  expectProblem(write({table, bias, tensor("h.0.attn.bias", {14})}),
                "h.0.attn.bias is not a parameter");
}

// A checkpoint may hold the output layer beside the embedding that this model
// computes it with, but only if they are equal.
TEST_F(LoadParameters, AStoredOutputLayerMustBeTheTiedOne) {
  FloatTensor table = tensor("transformer.table", {14, 14}),
              bias = tensor("transformer.bias", {14});
  EXPECT_EQ(load(write({table, bias, tensor("lm_head.weight", {14, 14})})), "");
  FloatTensor own = hostTensor("lm_head.weight", {14, 14}, others.data());
  expectProblem(write({table, bias, own}),
                "lm_head.weight differs from transformer.table");
  expectProblem(write({table, bias, tensor("lm_head.weight", {7, 28})}),
                "lm_head.weight is not a parameter");
}

TEST_F(LoadParameters, TakesEqualTiesOnly) {
  const char *const aliases[] = {"head.weight"};
  tfm_model descriptor = toy.descriptor();
  std::vector<tfm_parameter> parameters(descriptor.parameters,
                                        descriptor.parameters + 2);
  parameters[0].alias_count = 1;
  parameters[0].aliases = aliases;
  descriptor.parameters = parameters.data();
  CpuDevice another(1);
  Model tied(descriptor, another);
  auto loadTied = [&](const std::vector<FloatTensor> &tensors) {
    return messageOf<InputError>(
        [&] { loadParameters(tied, WeightFiles(write(tensors))); });
  };
  FloatTensor bias = tensor("bias", {14});
  FloatTensor head = hostTensor("head.weight", {14, 14}, others.data());
  EXPECT_EQ(loadTied({head, bias}), "");
  EXPECT_EQ(tied.readValue(parameters[0]).values()[0], 3.0f);
  EXPECT_EQ(loadTied({tensor("table", {14, 14}),
                      tensor("head.weight", {14, 14}), bias}),
            "");
  EXPECT_NE(loadTied({tensor("table", {14, 14}), head, bias}), "");
}

TEST_F(LoadParameters, FromShards) {
  expectProblem(folder.path, "neither model.safetensors nor");
  folder.write("pytorch_model.bin", "PK");
  expectProblem(folder.path, "must be saved as safetensors first");
  write({tensor("table", {14, 14})}, "one.safetensors");
  write({tensor("bias", {14})}, "two.safetensors");
  auto index = [&](const std::string &map) {
    folder.write("model.safetensors.index.json",
                 "{\"metadata\": {}, \"weight_map\": " + map + "}");
    return folder.path;
  };
  EXPECT_EQ(load(index(R"({"table": "one.safetensors",
                           "bias": "two.safetensors"})")),
            "");
  EXPECT_EQ(loaded(), 2.0f);
  expectProblem(index(R"({"table": "one.safetensors",
                          "bias": "three.safetensors"})"),
                "three.safetensors is missing");
  expectProblem(index(R"({"table": "two.safetensors",
                          "bias": "two.safetensors"})"),
                "two.safetensors does not hold table");
  expectProblem(index(R"({"table": "one.safetensors"})"), "bias is missing");
  expectProblem(index(R"({"table": "../one.safetensors"})"),
                "names no file for table");
  expectProblem(index("3"), "weight_map");
  folder.write("model.safetensors.index.json", "{");
  expectProblem(folder.path, "model.safetensors.index.json");
  // A single file goes before shards.
  write({tensor("table", {14, 14}), tensor("bias", {14})}, "model.safetensors");
  EXPECT_EQ(load(folder.path), "");
}

TEST_F(LoadParameters, RefusesWhatIsNotANumberAndLoadsNothing) {
  EXPECT_EQ(load(write({tensor("table", {14, 14}), tensor("bias", {14})})), "");
  for (float bad : {std::nanf(""), INFINITY, -INFINITY})
    for (size_t at : {size_t{0}, others.size() - 1}) {
      std::vector<float> damaged = others;
      damaged[at] = bad;
      FloatTensor table = hostTensor("table", {14, 14}, damaged.data());
      expectProblem(write({tensor("bias", {14}), table}),
                    "the tensor table has the value " + std::to_string(bad) +
                        " (element " + std::to_string(at) + ")");
      for (const tfm_parameter &parameter : model.parameters())
        for (float value : model.readValue(parameter).values())
          EXPECT_EQ(value, 0.0f);
    }
}

} // namespace
} // namespace tfm
