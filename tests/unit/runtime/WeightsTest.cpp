//===- WeightsTest.cpp - parameters from a checkpoint -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/files/weights.h"
#include "runtime/device/cpu_device.h"
#include "runtime/files/matching.h"
#include "runtime/files/stored_tensor.h"
#include "runtime/model/model.h"
#include "runtime/support/error.h"
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
  expectProblem(write({table}),
                "`train --init` with --partial begins it fresh");
  EXPECT_EQ(load(write({tensor("table", {7, 28})})).find("--partial"),
            std::string::npos);
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
                        tensor("h.0.attn.masked_bias", {}),
                        tensor("h.0.attention.bias", {1, 1, 2, 2}),
                        tensor("h.0.attention.masked_bias", {}),
                        tensor("h.0.attention.rotary_emb.inv_freq", {4}),
                        tensor("embeddings.position_ids", {1, 8})})),
            "");
  expectProblem(write({table, bias, tensor("h.0.attn.bias", {14})}),
                "h.0.attn.bias is not a parameter");
}

TEST_F(LoadParameters, NormsOfOldCheckpoints) {
  tfm_model descriptor = toy.descriptor();
  std::vector<tfm_parameter> parameters(descriptor.parameters,
                                        descriptor.parameters + 2);
  parameters[0].name = "norm.weight";
  parameters[1].name = "norm.bias";
  descriptor.parameters = parameters.data();
  CpuDevice another(1);
  Model renamed(descriptor, another);
  WeightFiles weights(write(
      {tensor("bert.norm.gamma", {14, 14}), tensor("bert.norm.beta", {14})}));
  loadParameters(renamed, weights);
  EXPECT_EQ(renamed.readValue(parameters[0]).values()[0], 2.0f);
  EXPECT_EQ(storedNames(parameterTensors(renamed), weights),
            (std::vector<std::vector<std::string>>{{"bert.norm.gamma"},
                                                   {"bert.norm.beta"}}));
}

TEST(Weights, LayersAreListedTogether) {
  EXPECT_EQ(listed({}), "");
  EXPECT_EQ(listed({"h.0.a", "h.0.b", "h.1.a", "x", "h.10.a", "h.1.b2.0"}),
            "h.*.a (3 layers), h.0.b, x, h.1.b2.0");
}

TEST(Weights, NamesOfLayersThatAreCorrected) {
  const std::set<std::string> own = {"q.base.base.weight", "q.base.lora_a",
                                     "o.base.weight", "o.base.other.weight"};
  const NamePrefix none;
  EXPECT_EQ(none.modelName("q.weight", own), "q.base.base.weight");
  EXPECT_EQ(none.modelName("q.base.weight", own), "q.base.base.weight");
  EXPECT_EQ(none.modelName("o.weight", own), "o.base.weight");
  EXPECT_EQ(none.modelName("o.bias", own), "o.bias");
  EXPECT_EQ(none.modelName("k.weight", own), "k.weight");
  EXPECT_EQ(uncorrectedName("h.0.q.base.base.weight"), "h.0.q.weight");
  EXPECT_EQ(uncorrectedName("h.0.q.weight"), "h.0.q.weight");
  EXPECT_EQ(uncorrectedName("weight"), "weight");
}

// F8 with one scale, one for each output, and one for each block.
TEST_F(LoadParameters, EightBitsWithAnExponent) {
  auto file = [&](const std::string &type, const std::string &number,
                  const std::string &name, const std::string &shape,
                  const std::vector<float> &scales) {
    size_t scaleBytes = scales.size() * 4;
    std::string header =
        R"({"bias":{"dtype":"F32","shape":[14],"data_offsets":[0,56]},)"
        R"("table":{"dtype":")" +
        type + R"(","shape":[14,14],"data_offsets":[56,252]})" +
        (scales.empty() ? ""
                        : ",\"" + name + R"(":{"dtype":"F32","shape":)" +
                              shape + R"(,"data_offsets":[252,)" +
                              std::to_string(252 + scaleBytes) + "]}") +
        "}";
    std::string text(8, '\0');
    text[0] = static_cast<char>(header.size() & 255);
    text[1] = static_cast<char>(header.size() >> 8);
    text += header + std::string(56, '\0');
    for (int i = 0; i < 196; ++i)
      text += number;
    text.append(reinterpret_cast<const char *>(scales.data()), scaleBytes);
    folder.write("f8", text);
    return folder / "f8";
  };
  auto last = [&](const std::string &path) {
    EXPECT_EQ(load(path), "");
    return loaded();
  };
  std::vector<float> rows;
  for (int i = 1; i <= 14; ++i)
    rows.push_back(static_cast<float>(i));
  // 1.5, 448, -1.5 * 2^-5 and the largest of the other form.
  EXPECT_EQ(last(file("F8_E4M3", "\x3c", "", "", {})), 1.5f);
  EXPECT_EQ(last(file("F8_E4M3", "\x7e", "", "", {})), 448.0f);
  EXPECT_EQ(last(file("F8_E5M2", "\xaa", "", "", {})), -0.046875f);
  EXPECT_EQ(last(file("F8_E5M2", "\x7b", "", "", {})), 57344.0f);
  EXPECT_EQ(last(file("F8_E4M3", "\x01", "", "", {})), 0x1p-9f);
  EXPECT_EQ(last(file("F8_E4M3", "\x3c", "table_scale", "[]", {4})), 6.0f);
  EXPECT_EQ(last(file("F8_E4M3", "\x3c", "table_scale", "[14,1]", rows)),
            21.0f);
  EXPECT_EQ(last(file("F8_E4M3", "\x3c", "table_scale_inv", "[1,1]", {2})),
            3.0f);
  expectProblem(file("F8_E4M3", "\x3c", "table_scale_inv", "[7,2]", rows),
                "the scales of table are [7, 2]");
  expectProblem(file("F8_E4M3", "\x7f", "", "", {}), "has the value nan");
  expectProblem(file("F8_E8M0", "\x7f", "", "", {}), "has dtype F8_E8M0");
}

// Also where the outputs of several matrices lie behind each other.
TEST(StoredTensors, OneScaleForManyAxes) {
  TemporaryFolder folder;
  std::string header =
      R"({"w":{"dtype":"F8_E4M3","shape":[6,4,4],"data_offsets":[0,96]},)"
      R"("w_scale":{"dtype":"F32","shape":[1],"data_offsets":[96,100]}})";
  std::string text(8, '\0');
  text[0] = static_cast<char>(header.size());
  const float scale = 4.0f;
  text += header + std::string(96, '\x3c');
  text.append(reinterpret_cast<const char *>(&scale), sizeof scale);
  folder.write("f8", text);
  WeightFiles weights(folder / "f8");
  EXPECT_EQ(StoredTensor(weights, "w").values(1), std::vector<float>(96, 6.0f));
}

// What only the file has is left out; what only the model has stays.
TEST_F(LoadParameters, Partly) {
  Unmatched unmatched;
  std::string path = write({tensor("transformer.table", {14, 14}),
                            tensor("classifier.weight", {2, 14})});
  expectProblem(path, "bias is missing");
  loadParameters(model, WeightFiles(path), &unmatched);
  EXPECT_EQ(loaded(), 2.0f);
  EXPECT_EQ(unmatched.fresh, std::vector<std::string>{"bias"});
  EXPECT_EQ(unmatched.leftOut, std::vector<std::string>{"classifier.weight"});
  EXPECT_EQ(storedNames(parameterTensors(model), WeightFiles(path))[1],
            std::vector<std::string>{"transformer.bias"});
  auto refused = [&](const std::vector<FloatTensor> &tensors) {
    return messageOf<InputError>([&] {
      loadParameters(model, WeightFiles(write(tensors)), &unmatched);
    });
  };
  EXPECT_NE(refused({tensor("x", {1})}).find("no tensor in common"),
            std::string::npos);
  EXPECT_NE(refused({tensor("table", {7, 28})}).find("table is [7, 28]"),
            std::string::npos);
}

// As the policy and the reference of a preference, of which one is meant.
TEST_F(LoadParameters, PartlyFromOneOfTwoThatFitAlike) {
  FloatTensor one = tensor("policy.table", {14, 14}),
              other = tensor("reference.table", {14, 14});
  auto load = [&](const std::string &path) {
    Unmatched unmatched;
    loadParameters(model, WeightFiles(path), &unmatched);
    return unmatched.leftOut;
  };
  std::string path = write({one, other}),
              message = messageOf<InputError>([&] { load(path); });
  EXPECT_NE(message.find("they have both policy and reference, which fit "
                         "alike"),
            std::string::npos)
      << message;
  EXPECT_EQ(load(write({one, other, tensor("reference.bias", {14})})),
            std::vector<std::string>{"policy.table"});
}

// Their names are those within it, and the rest stays as it is.
TEST_F(LoadParameters, OfAPart) {
  tfm_model descriptor = toy.descriptor();
  std::vector<tfm_parameter> parameters(descriptor.parameters,
                                        descriptor.parameters + 2);
  parameters[0].name = "policy.table";
  parameters[1].name = "bias";
  descriptor.parameters = parameters.data();
  CpuDevice another(1);
  Model two(descriptor, another);
  auto load = [&](const std::vector<FloatTensor> &tensors) {
    loadParameters(two, WeightFiles(write(tensors)), nullptr, "policy");
  };
  load({tensor("table", {14, 14})});
  EXPECT_EQ(two.readValue(parameters[0]).values()[0], 2.0f);
  EXPECT_EQ(two.readValue(parameters[1]).values()[0], 0.0f);
  std::string message = messageOf<InputError>(
      [&] { load({tensor("table", {14, 14}), tensor("bias", {14})}); });
  EXPECT_NE(message.find("bias is not a parameter of policy"),
            std::string::npos)
      << message;
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
