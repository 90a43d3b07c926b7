//===- ConfigTest.cpp - a model beside a config.json --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/files/hf_config.h"
#include "runtime/support/error.h"
#include "tests/unit/CompleteRecipe.h"
#include "tests/unit/runtime/TemporaryFolder.h"

#include <gtest/gtest.h>

namespace tfm {
namespace {

using test::messageOf;
using test::TemporaryFolder;

/// A small Llama.
const ModelDescription llama = {
    R"({"activation": ["silu"], "attentions": 2, "context": 64,
        "eps": [1e-6], "head_width": [8], "heads": [6], "kv_heads": [2],
        "names": {"heads": "heads", "kv_heads": "kv_heads"},
        "rope_base": [10000], "rope_dims": [8], "softcap": [null],
        "scale": [0.35355339059327379], "causal": [true], "parallel": [false],
        "norm_first": [true], "logit_cap": [null],
        "tied": false, "window": [null]})",
    R"([{"name": "vocab", "value": 101}, {"name": "width", "value": 48},
        {"name": "layers", "value": 2}, {"name": "heads", "value": 6},
        {"name": "kv_heads", "value": 2}, {"name": "eps", "value": 1e-6},
        {"name": "base", "value": 10000}])",
    "llama.tfm"};

/// What is said of each key, a line each: `n_head 4, 6: differs: ...`.
std::string compare(const std::string &config,
                    const ModelDescription &model = llama) {
  TemporaryFolder folder;
  folder.write("config.json", config);
  std::string text;
  std::optional<ConfigComparison> comparison =
      compareConfig(folder.path, model);
  EXPECT_TRUE(comparison);
  for (const ConfigKey &key : comparison->keys) {
    text += text.empty() ? "" : "\n";
    text += key.key + " " + key.stored + ", " + key.model + ": ";
    text += key.state == ConfigKey::State::Agrees        ? "agrees"
            : key.state == ConfigKey::State::NotCompared ? "not compared"
            : key.state == ConfigKey::State::Harmless    ? key.reason
                                                         : key.fix;
  }
  return text;
}

/// The same in a model with another fact.
std::string compareWith(const std::string &fact, const std::string &other,
                        const std::string &config) {
  ModelDescription model = llama;
  size_t at = model.facts.find(fact);
  EXPECT_NE(at, std::string::npos);
  model.facts.replace(at, fact.size(), other);
  return compare(config, model);
}

TEST(Config, WhereThereIsNone) {
  TemporaryFolder folder;
  EXPECT_FALSE(compareConfig(folder.path, llama));
  EXPECT_FALSE(compareConfig(folder / "none", llama));
  // A file of weights has none, whatever is beside it.
  folder.write("config.json", "{");
  EXPECT_FALSE(compareConfig(folder.write("x.safetensors", ""), llama));
}

TEST(Config, IsAnObject) {
  TemporaryFolder folder;
  // Reading on would take all of the stack.
  std::string deep = R"({"n_head": )" + std::string(500'000, '[') +
                     std::string(500'000, ']') + "}";
  for (const auto &[text, why] :
       std::vector<std::pair<std::string, std::string>>{
           {"", "it is empty"},
           {"{", "it ends too early"},
           {"[]", "it is an array"},
           {"3", "it is a number"},
           {"\"{}\"", "it is a string"},
           {"true", "it is a truth value"},
           {"null", "it is null"},
           {"{\"n_head\": NaN}", "it goes wrong at character 12"},
           {"{\n\"n_head\": 4,}\n", "it goes wrong in line 2 at character 13"},
           {"\xff\xfe{", "it goes wrong at character 1"},
           {deep, "its brackets are nested more than 100 deep"}}) {
    std::string path = folder.write("config.json", text);
    std::string message =
        messageOf<InputError>([&] { compareConfig(folder.path, llama); });
    EXPECT_TRUE(
        message.starts_with(path + " is not a JSON object (" + why + "), so"))
        << message;
  }
  folder.write("config.json", std::string(100000, '['));
  EXPECT_THROW(compareConfig(folder.path, llama), InputError);
  EXPECT_EQ(compare("{}"), "");
}

TEST(Config, Heads) {
  EXPECT_EQ(compare(R"({"n_layer": 2, "n_head": 6})"), "n_head 6, 6: agrees");
  EXPECT_EQ(compare(R"({"num_hidden_layers": 2, "num_attention_heads": 4,
                  "num_key_value_heads": 4})"),
            "num_attention_heads 4, 6: build it with -D heads=4\n"
            "num_key_value_heads 4, 2: build it with -D kv_heads=4");
  // Without one attention a layer nobody knows.
  EXPECT_EQ(compare(R"({"num_hidden_layers": 1, "n_head": 4})"),
            "n_head 4, 6: not compared");
  EXPECT_EQ(compare(R"({"n_head": 4})"), "n_head 4, 6: not compared");
  EXPECT_EQ(compareWith("[6]", "[3, 6]", R"({"n_layer": 2, "n_head": 6})"),
            "n_head 6, 3, 6: not compared");
  EXPECT_EQ(
      compareWith("\"heads\": [6],", "", R"({"n_layer": 2, "n_head": 4})"),
      "n_head 4, : not compared");
  // Keys that are repeated for all heads.
  EXPECT_EQ(compareWith("\"kv_heads\": [2]", "\"kv_heads\": [6]",
                        R"({"n_layer": 2, "num_key_value_heads": 2})"),
            "num_key_value_heads 2, 6: not compared");
}

TEST(Config, ValuesOfAnotherKind) {
  for (std::string value :
       {"null", "\"4\"", "[4]", "{}", "-4", "4.5", "true", "1e300"}) {
    std::string config = R"({"n_layer": 2)";
    for (const char *key :
         {"n_head", "num_key_value_heads", "max_position_embeddings",
          "hidden_act", "partial_rotary_factor", "tie_word_embeddings"})
      // The last one is a flag.
      if (value != "true" || std::string(key) != "tie_word_embeddings")
        config += std::string(", \"") + key + "\": " + value;
    std::istringstream lines(compare(config + "}"));
    for (std::string line; std::getline(lines, line);)
      EXPECT_TRUE(line.ends_with(": not compared")) << line;
  }
}

TEST(Config, Epsilon) {
  EXPECT_EQ(compare(R"({"rms_norm_eps": 1e-06})"),
            "rms_norm_eps 1e-06, 1e-06: agrees");
  // As single precision has it.
  EXPECT_TRUE(compare(R"({"layer_norm_eps": 9.999999974752427e-07})")
                  .ends_with(": agrees"));
  EXPECT_EQ(compare(R"({"layer_norm_epsilon": 1e-5})"),
            "layer_norm_epsilon 1e-05, 1e-06: change it in llama.tfm");
  // One of two may be meant, or neither.
  EXPECT_EQ(compareWith("[1e-6]", "[1e-6, 1e-5]", R"({"norm_eps": 1e-5})"),
            "norm_eps 1e-05, 1e-06, 1e-05: not compared");
  EXPECT_EQ(compareWith("[1e-6]", "[1e-6, 1e-5]", R"({"norm_eps": 1e-3})"),
            "norm_eps 0.001, 1e-06, 1e-05: change it in llama.tfm");
}

TEST(Config, Activation) {
  EXPECT_EQ(compare(R"({"hidden_act": "silu"})"),
            "hidden_act \"silu\", silu: agrees");
  EXPECT_EQ(compare(R"({"hidden_act": "swish"})"),
            "hidden_act \"swish\", silu: agrees");
  EXPECT_EQ(compare(R"({"activation_function": "gelu_new"})"),
            "activation_function \"gelu_new\", silu: change it in llama.tfm");
  EXPECT_EQ(compare(R"({"hidden_act": "swoosh"})"),
            "hidden_act \"swoosh\", silu: not compared");
  // Of those that transformers has the language lacks some.
  for (const char *name : {"quick_gelu", "mish"})
    EXPECT_TRUE(compare(std::string(R"({"hidden_act": ")") + name + "\"}")
                    .ends_with("change it in llama.tfm"));
  EXPECT_EQ(compareWith("silu", "relu_squared", R"({"hidden_act": "relu2"})"),
            "hidden_act \"relu2\", relu_squared: agrees");
  // Gemma: another key, or another meaning.
  EXPECT_EQ(compareWith("silu", "gelu_tanh",
                        R"({"hidden_act": "gelu",
                            "hidden_activation": "gelu_pytorch_tanh"})"),
            "hidden_act \"gelu\", : `hidden_activation` is what counts\n"
            "hidden_activation \"gelu_pytorch_tanh\", gelu_tanh: agrees");
  EXPECT_EQ(compareWith("silu", "gelu_tanh",
                        R"({"hidden_act": "gelu", "model_type": "gemma"})"),
            "hidden_act \"gelu\", gelu_tanh: agrees");
  EXPECT_EQ(compareWith("silu", "gelu_tanh",
                        R"({"hidden_act": "relu", "model_type": "gemma"})"),
            "hidden_act \"relu\", gelu_tanh: change it in llama.tfm");
  EXPECT_EQ(compareWith("silu", "gelu_tanh", R"({"hidden_act": "gelu"})"),
            "hidden_act \"gelu\", gelu_tanh: change it in llama.tfm");
}

TEST(Config, Rotation) {
  EXPECT_EQ(compare(R"({"rope_theta": 10000.0})"),
            "rope_theta 10000.0, 10000: agrees");
  EXPECT_EQ(compare(R"({"rope_parameters": {"rope_theta": 500000,
                        "rope_type": "default"}})"),
            "rope_parameters.rope_theta 500000, 10000: change it in llama.tfm\n"
            "rope_parameters.rope_type \"default\", default: agrees");
  EXPECT_EQ(compare(R"({"rope_scaling": null})"),
            "rope_scaling null, default: agrees");
  for (const char *type : {"llama3", "linear", "yarn"})
    EXPECT_EQ(compare(std::string(R"({"rope_scaling": {"factor": 8.0,
                          "type": ")") +
                      type + "\"}}"),
              std::string("rope_scaling.type \"") + type +
                  "\", default: `rope` has no such scaling: rotate with `sin` "
                  "and `cos` in llama.tfm");
  // Only of texts that are longer; of another kind of positions; by nothing.
  for (const char *scaling :
       {R"({"type": "dynamic", "factor": 2.0})", R"({"type": "mrope"})",
        R"({"type": "linear", "factor": 1.0})", R"({"type": 3})"})
    EXPECT_TRUE(compare(std::string(R"({"rope_scaling": )") + scaling + "}")
                    .ends_with("not compared"))
        << scaling;
  // One for each kind of layer.
  EXPECT_EQ(compare(R"({"rope_parameters": {"full_attention": {}}})"), "");
  EXPECT_EQ(compare(R"({"partial_rotary_factor": 1.0})"),
            "partial_rotary_factor 1.0, 8: agrees");
  EXPECT_EQ(compare(R"({"rotary_pct": 0.25})"),
            "rotary_pct 0.25, 8: change it in llama.tfm");
  EXPECT_EQ(compareWith("\"rope_base\": [10000],", "",
                        R"({"rope_theta": 5, "rope_scaling": null})"),
            "rope_scaling null, : not compared\nrope_theta 5, : not compared");
}

TEST(Config, Window) {
  EXPECT_EQ(compare(R"({"sliding_window": null})"),
            "sliding_window null, none: agrees");
  // No text is as long.
  EXPECT_EQ(compare(R"({"sliding_window": 64})"),
            "sliding_window 64, none: agrees");
  EXPECT_EQ(compare(R"({"sliding_window": 32})"),
            "sliding_window 32, none: change it in llama.tfm");
  EXPECT_TRUE(compare(R"({"sliding_window": 32, "use_sliding_window": false,
                          "max_window_layers": 2})")
                  .ends_with("agrees"));
  EXPECT_TRUE(compare(R"({"sliding_window": 32, "use_sliding_window": true,
                          "max_window_layers": 2})")
                  .ends_with("not compared"));
  EXPECT_TRUE(compare(R"({"sliding_window": 32,
                          "layer_types": ["full_attention"]})")
                  .ends_with("agrees"));
  const std::string none = "\"window\": [null]", some = "\"window\": [32]";
  EXPECT_EQ(compareWith(none, some, R"({"sliding_window": 32, "layer_types":
                        ["full_attention", "sliding_attention"]})"),
            "sliding_window 32, 32: agrees");
  EXPECT_EQ(compareWith(none, some, R"({"sliding_window": null})"),
            "sliding_window null, 32: change it in llama.tfm");
  EXPECT_EQ(compare(R"({"attn_logit_softcapping": 50.0})"),
            "attn_logit_softcapping 50.0, none: change it in llama.tfm");
  EXPECT_EQ(compare(R"({"attn_logit_softcapping": null})"),
            "attn_logit_softcapping null, none: agrees");
}

// Of models that look alike in names and shapes.
TEST(Config, WhatTheGraphShows) {
  const std::string fix = ": change it in llama.tfm";
  // Agrees, differs, and cannot be judged without the fact.
  auto judged = [&](const std::string &key, const std::string &right,
                    const std::string &wrong, const std::string &fact) {
    SCOPED_TRACE(key);
    auto config = [&](const std::string &value) {
      return "{\"" + key + "\": " + value + "}";
    };
    EXPECT_TRUE(compare(config(right)).ends_with(": agrees"));
    EXPECT_TRUE(compare(config(wrong)).ends_with(fix))
        << compare(config(wrong));
    for (const std::string &value : {right, wrong})
      EXPECT_TRUE(
          compareWith(fact, "", config(value)).ends_with(": not compared"));
    EXPECT_TRUE(compare(config("[]")).ends_with(": not compared"));
  };
  const std::string scale = R"("scale": [0.35355339059327379],)";
  judged("query_pre_attn_scalar", "8", "16.0", scale);
  judged("attention_multiplier", "0.3535533905932738", "0.5", scale);
  judged("scale_attn_weights", "true", "false", scale);
  judged("scale_attn_by_inverse_layer_idx", "false", "true", scale);
  judged("use_bidirectional_attention", "false", "true",
         R"("causal": [true],)");
  judged("use_parallel_residual", "false", "true", R"("parallel": [false],)");
  judged("parallel_attn", "false", "true", R"("parallel": [false],)");
  judged("do_layer_norm_before", "true", "false", R"("norm_first": [true],)");
  judged("final_logit_softcapping", "null", "30.0", R"("logit_cap": [null],)");
  EXPECT_EQ(compare(R"({"use_bidirectional_attention": null})"),
            "use_bidirectional_attention null, true: agrees");
  EXPECT_EQ(compareWith("\"logit_cap\": [null]", "\"logit_cap\": [30]",
                        R"({"final_logit_softcapping": 30.0})"),
            "final_logit_softcapping 30.0, 30: agrees");
  // Each layer by a number of its own, or one of them.
  EXPECT_TRUE(compareWith("\"attentions\": 2", "\"attentions\": 1",
                          R"({"scale_attn_by_inverse_layer_idx": true})")
                  .ends_with("not compared"));
  // It is parallel in any case.
  EXPECT_EQ(compare(R"({"parallel_attn": true,
                        "new_decoder_architecture": true})"),
            "");
  // What no graph shows, and what is none of it.
  EXPECT_EQ(compare(R"({"relative_attention_max_distance": 128,
                        "alibi": false, "clip_qkv": null})"),
            "relative_attention_max_distance 128, : not compared");
}

TEST(Config, TieAndContext) {
  EXPECT_EQ(compare(R"({"tie_word_embeddings": false})"),
            "tie_word_embeddings false, false: agrees");
  EXPECT_NE(compare(R"({"tie_word_embeddings": true})")
                .find("give the output layer the weight of the embedding"),
            std::string::npos);
  EXPECT_TRUE(compareWith("\"tied\": false", "\"tied\": true",
                          R"({"tie_word_embeddings": false})")
                  .ends_with("must equal the embedding, or nothing is loaded"));
  EXPECT_EQ(compare(R"({"n_positions": 64, "max_position_embeddings": 128,
                        "n_ctx": 32})"),
            "max_position_embeddings 128, 64: agrees\n"
            "n_ctx 32, 64: not compared\n"
            "n_positions 64, 64: agrees");
}

// A hyperparameter is named where the graph says it; one that has the same
// value may be another.
TEST(Config, WhichHyperparameter) {
  ModelDescription model = llama;
  model.hyperparameters = R"([{"name": "eps", "value": 1e-6},
                              {"name": "layers", "value": 6}])";
  EXPECT_EQ(
      compare(R"({"rms_norm_eps": 1e-5, "n_layer": 2, "n_head": 4})", model),
      "n_head 4, 6: change it in llama.tfm\n"
      "rms_norm_eps 1e-05, 1e-06: change it in llama.tfm");
  // What a build without facts cannot know.
  EXPECT_EQ(compare(R"({"rms_norm_eps": 1e-5, "n_layer": 2, "n_head": 4})",
                    {"", "", "x.tfm"}),
            "n_head 4, : not compared\nrms_norm_eps 1e-05, : not compared");
}

TEST(Config, IsRequired) {
  TemporaryFolder folder;
  std::string path = folder.write(
      "config.json", R"({"rms_norm_eps": 1e-5, "hidden_act": "relu",
                         "rope_theta": 10000})");
  tfm_model model = {};
  std::string recipe = test::completeRecipe("{\"facts\": " + llama.facts + "}");
  model.name = "Llama";
  model.source = "llama.tfm";
  model.recipe = recipe.c_str();
  model.hyperparameters = llama.hyperparameters.c_str();
  EXPECT_EQ(
      messageOf<InputError>([&] { requireConfig(folder.path, model); }),
      path + " is of another model than Llama, which would compute something "
             "else with these weights:\n"
             "  hidden_act is \"relu\", here silu: change it in llama.tfm\n"
             "  rms_norm_eps is 1e-05, here 1e-06: change it in llama.tfm\n"
             "If it is the file that is wrong, correct it or take the key out");
  folder.write("config.json", R"({"rms_norm_eps": 1e-6})");
  EXPECT_EQ(requireConfig(folder.path, model), "");
  EXPECT_EQ(requireConfig(folder / "model.safetensors", model), "");
  // What cannot be compared is said.
  folder.write("config.json", R"({"rms_norm_eps": 1e-6, "n_head": 3,
                                  "alibi": true, "hidden_act": null})");
  EXPECT_EQ(requireConfig(folder.path, model),
            "whether Llama computes with what " + path +
                " says cannot be compared: alibi, n_head");
}

} // namespace
} // namespace tfm
