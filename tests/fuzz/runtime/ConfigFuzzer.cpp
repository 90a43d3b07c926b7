//===- ConfigFuzzer.cpp - a config.json that is nearly right ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// The input is a config.json beside models of several families: a comparison,
// or an InputError.
//
//===----------------------------------------------------------------------===//

#include "runtime/files/hf_config.h"
#include "runtime/support/error.h"
#include "tests/fuzz/runtime/JsonInput.h"
#include "tests/fuzz/support/Folder.h"
#include "tests/fuzz/support/TimeLimit.h"

#include <cstdlib>

using namespace tfm::fuzz;

namespace {

constexpr const char *keys[] = {"activation_function",
                                "attn_logit_softcapping",
                                "factor",
                                "hidden_act",
                                "hidden_activation",
                                "layer_norm_eps",
                                "layer_norm_epsilon",
                                "layer_types",
                                "max_position_embeddings",
                                "max_window_layers",
                                "model_type",
                                "n_ctx",
                                "n_head",
                                "n_heads",
                                "n_layer",
                                "n_layers",
                                "n_positions",
                                "norm_eps",
                                "norm_epsilon",
                                "num_attention_heads",
                                "num_hidden_layers",
                                "num_key_value_heads",
                                "num_layers",
                                "partial_rotary_factor",
                                "rms_norm_eps",
                                "rope_parameters",
                                "rope_scaling",
                                "rope_theta",
                                "rope_type",
                                "rotary_dim",
                                "rotary_emb_base",
                                "rotary_pct",
                                "sliding_window",
                                "tie_word_embeddings",
                                "type",
                                "use_sliding_window"};

const tfm::ModelDescription models[] = {
    {R"({"activation": ["silu"], "attentions": 2, "context": 64, "eps": [1e-6],
         "head_width": [8], "heads": [6], "kv_heads": [2],
         "names": {"heads": "heads", "kv_heads": "kv_heads"},
         "rope_base": [10000], "rope_dims": [8], "softcap": [null],
         "tied": false, "window": [null]})",
     R"([{"name": "vocab", "value": 101}, {"name": "layers", "value": 2},
         {"name": "heads", "value": 6}, {"name": "kv_heads", "value": 2},
         {"name": "eps", "value": 1e-6}, {"name": "base", "value": 10000}])",
     "llama.tfm"},
    {R"({"activation": ["gelu_tanh", "silu"], "attentions": 4, "context": 32,
         "eps": [1e-5, 1e-6], "head_width": [4, 8], "heads": [2, 4],
         "kv_heads": [1, 2], "rope_base": [10000, 1000000.0],
         "rope_dims": [2, 4], "softcap": [50.0, null], "tied": true,
         "window": [4096, null]})",
     R"([{"name": "act", "value": "silu"}, {"name": "tied", "value": true}])",
     "several.tfm"},
    {"", "", "unknown.tfm"},
    // With the table of a family.
    {R"({"heads": [6], "attentions": 2})",
     R"([{"name": "heads", "value": 6}, {"name": "layers", "value": 2},
         {"name": "base", "value": 10000}, {"name": "act", "value": "silu"}])",
     "family.tfm",
     R"({"name": "own", "hyperparameters": ["heads", "layers", "base", "act",
         "window", "every"], "ignored": ["n_ctx"], "values": {"silu": "silu"},
         "keys": {
         "n_head": {"sets": "heads", "default": 6, "type": "integer",
                    "aliases": ["num_attention_heads"]},
         "n_layer": {"sets": "layers", "default": 2, "type": "integer",
                     "may_be_less": true},
         "rope_parameters.rope_theta": {"sets": "base", "default": 10000,
             "type": "number", "aliases": ["rope_scaling.rope_theta",
                                           "rope_theta"]},
         "rope_parameters.rope_type": {"must": "default", "default": "default"},
         "hidden_act": {"sets": "act", "default": "silu",
                        "words": {"silu": "silu", "gelu": "gelu"}},
         "sliding_window": {"sets": "window", "type": "integer",
             "default": null, "null": "none",
             "only_if": {"use_sliding_window": true}, "else": "none"},
         "use_sliding_window": {"must": [true, false, null]},
         "layer_types": {"sets": "every", "optional": true,
             "pattern": {"every": "full_attention",
                         "others": "sliding_attention"}},
         "model_type": {"harmless": "it names the family"}}})"}};

} // namespace

Keys tfm::fuzz::inputKeys() { return keys; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const Folder folder;
  folder.write("config.json", {reinterpret_cast<const char *>(data), size});
  TimeLimit limit(2);
  for (const tfm::ModelDescription &model : models)
    try {
      auto comparison = tfm::compareConfig(folder.path, model);
      // What differs says how to mend it.
      for (const tfm::ConfigKey &key : comparison.value().keys)
        if ((key.state == tfm::ConfigKey::State::Differs) == key.fix.empty())
          std::abort();
    } catch (const tfm::InputError &) {
      // What a user sees as a message.
    }
  return 0;
}
