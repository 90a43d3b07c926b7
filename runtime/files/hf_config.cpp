//===- hf_config.cpp - a model beside a config.json ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/files/hf_config.h"

#include "runtime/error.h"
#include "runtime/files/atomic_file.h"
#include "runtime/files/family.h"
#include "runtime/files/gguf.h"
#include "runtime/files/read_json.h"
#include "runtime/recipe.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <nlohmann/json.hpp>

using nlohmann::json;
using State = tfm::ConfigKey::State;

namespace tfm {

namespace {

/// A value of config.json in the form of a fact; nothing where it is of another
/// kind, and so says nothing that is understood here.
using Wanted = std::optional<json>;

/// What functions are called in config.json (`ACT2FN` of transformers), and the
/// op that computes them; the language has none for the last ones.
constexpr std::pair<const char *, const char *> activations[] = {
    {"relu", "relu"},
    {"relu2", "relu_squared"},
    {"gelu", "gelu"},
    {"gelu_python", "gelu"},
    {"gelu_new", "gelu_tanh"},
    {"gelu_fast", "gelu_tanh"},
    {"gelu_accurate", "gelu_tanh"},
    {"gelu_pytorch_tanh", "gelu_tanh"},
    {"silu", "silu"},
    {"swish", "silu"},
    {"gelu_10", "none"},
    {"leaky_relu", "none"},
    {"linear", "none"},
    {"mish", "none"},
    {"quick_gelu", "none"},
    {"relu6", "none"}};

/// Keys that change what is computed in ways that graphs do not show, where
/// they are not null or false.
constexpr const char *unseen[] = {"alibi",
                                  "attn_config.alibi",
                                  "attn_config.clip_qkv",
                                  "clip_qkv",
                                  "embedding_multiplier",
                                  "logit_scale",
                                  "logits_scaling",
                                  "no_rope_layers",
                                  "relative_attention_max_distance",
                                  "relative_attention_num_buckets",
                                  "residual_multiplier"};

std::string textOf(const json &value) {
  if (value.is_null())
    return "none";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

Wanted integer(const json &value) {
  return value.is_number_unsigned() ? Wanted(value) : std::nullopt;
}

Wanted number(const json &value) {
  return value.is_number() ? Wanted(value) : std::nullopt;
}

Wanted flag(const json &value) {
  return value.is_boolean() ? Wanted(value) : std::nullopt;
}

class Comparer {
public:
  Comparer(const json &config, const ModelDescription &model)
      : config(config), source(model.source),
        facts(parse(model.facts, json::object())),
        hyperparameters(parse(model.hyperparameters, json::array())) {}

  std::vector<ConfigKey> run() {
    compareHeads();
    for (const char *key : {"layer_norm_epsilon", "layer_norm_eps",
                            "rms_norm_eps", "norm_epsilon", "norm_eps"})
      compare(key, "eps", number);
    compareActivation();
    compareRotation();
    compareWindow();
    auto cap = [](const json &value) {
      return value.is_null() ? Wanted(value) : number(value);
    };
    compare("attn_logit_softcapping", "softcap", cap);
    compare("final_logit_softcapping", "logit_cap", cap);
    compareScale();
    compare("use_parallel_residual", "parallel", flag);
    // Falcon's newer kind is parallel, whatever the key says.
    if (config.value("new_decoder_architecture", json()) != true)
      compare("parallel_attn", "parallel", flag);
    compare("do_layer_norm_before", "norm_first", flag);
    compare("use_bidirectional_attention", "causal",
            [](const json &value) -> Wanted {
              if (value.is_null())
                return json(true);
              return value.is_boolean() ? Wanted(!value.get<bool>())
                                        : std::nullopt;
            });
    compareTie();
    compareContext();
    for (const char *key : unseen)
      if (const json *stored = find(key);
          stored && !stored->is_null() && *stored != false)
        add(key, *stored);
    return std::move(keys);
  }

private:
  static json parse(const std::string &text, json empty) {
    return text.empty() ? std::move(empty) : json::parse(text);
  }

  /// A member, or a member of a member: `rope_parameters.rope_theta`.
  const json *find(const std::string &key) const {
    const json *at = &config;
    for (size_t begin = 0; begin <= key.size();) {
      size_t end = std::min(key.find('.', begin), key.size());
      if (!at->is_object())
        return nullptr;
      auto found = at->find(key.substr(begin, end - begin));
      if (found == at->end())
        return nullptr;
      at = &*found;
      begin = end + 1;
    }
    return at;
  }

  /// The values of a fact; null where they are not known.
  const json *values(const char *fact) const {
    auto found = facts.find(fact);
    return found == facts.end() ? nullptr : &*found;
  }

  /// The only value of a fact, where it has one.
  const json *single(const char *fact) const {
    const json *all = values(fact);
    return all && all->size() == 1 ? &all->front() : nullptr;
  }

  ConfigKey &add(const std::string &key, const json &stored) {
    ConfigKey &entry = keys.emplace_back();
    entry.key = key;
    entry.stored = stored.dump();
    return entry;
  }

  static void setHarmless(ConfigKey &entry, const char *reason) {
    entry.state = State::Harmless;
    entry.reason = reason;
  }

  /// The hyperparameter that a fact comes from, where the graph says its name:
  /// another one that happens to have the same value is another one.
  std::string hyperparameterOf(const char *fact) const {
    auto names = facts.find("names");
    std::string name = names == facts.end() ? "" : names->value(fact, "");
    bool exists = std::ranges::any_of(hyperparameters, [&](const json &entry) {
      return entry.at("name") == name;
    });
    return exists ? name : "";
  }

  std::string fixOf(const char *fact, const json &wanted) const {
    std::string name = wanted.is_number() ? hyperparameterOf(fact) : "";
    if (name.empty())
      return "change it in " + source;
    return "build it with -D " + name + "=" + wanted.dump();
  }

  /// Compares with a fact. Where the model has several values, one that is
  /// among them may be the right one.
  void judge(ConfigKey &entry, const char *fact, const Wanted &wanted) {
    const json *all = values(fact);
    if (!all)
      return;
    for (const json &value : *all)
      entry.model += (entry.model.empty() ? "" : ", ") + textOf(value);
    if (!wanted)
      return;
    bool has = std::ranges::any_of(
        *all, [&](const json &value) { return isEqual(value, *wanted); });
    if (has) {
      entry.state = all->size() == 1 ? State::Agrees : State::NotCompared;
      return;
    }
    entry.state = State::Differs;
    entry.fix = fixOf(fact, *wanted);
  }

  template <typename Convert>
  void compare(const char *key, const char *fact, Convert convert) {
    if (const json *stored = find(key))
      judge(add(key, *stored), fact, convert(*stored));
  }

  void compareHeads() {
    // Where there is not one attention in each layer, one of them may have a
    // part of the heads.
    bool oneEach = false;
    for (const char *key :
         {"n_layer", "num_hidden_layers", "n_layers", "num_layers"})
      if (const json *layers = find(key))
        oneEach = facts.value("attentions", json()) == *layers;
    for (const char *key : {"n_head", "num_attention_heads", "n_heads"})
      compare(key, "heads", [&](const json &value) {
        return oneEach ? integer(value) : std::nullopt;
      });
    compare("num_key_value_heads", "kv_heads",
            [&](const json &value) -> Wanted {
              const json *heads = single("heads"), *own = single("kv_heads");
              // Keys that are repeated for every head are the same attention.
              if (!oneEach || (heads && own && *heads == *own && value < *own))
                return std::nullopt;
              return integer(value);
            });
  }

  void compareActivation() {
    auto op = [](const json &value) -> Wanted {
      for (const auto &[name, computed] : activations)
        if (value == name)
          return json(computed);
      return std::nullopt;
    };
    compare("activation_function", "activation", op);
    compare("hidden_activation", "activation", op);
    const json *stored = find("hidden_act");
    if (!stored)
      return;
    ConfigKey &entry = add("hidden_act", *stored);
    const bool isFirstGemma = config.value("model_type", json()) == "gemma";
    if (!isFirstGemma && find("hidden_activation"))
      return setHarmless(entry, "`hidden_activation` is what counts");
    // Of the first Gemma it says "gelu" where the tanh form is meant.
    const bool isTanh = isFirstGemma && *stored == "gelu";
    judge(entry, "activation", isTanh ? json("gelu_tanh") : op(*stored));
  }

  /// What scores are multiplied by: the root of a width of its own, of that of
  /// the heads, or a number for each layer.
  void compareScale() {
    compare("query_pre_attn_scalar", "scale", [](const json &value) -> Wanted {
      if (!value.is_number() || !(value.get<double>() > 0))
        return std::nullopt;
      return json(1 / std::sqrt(value.get<double>()));
    });
    compare("attention_multiplier", "scale", number);
    const bool isByLayer =
        config.value("scale_attn_by_inverse_layer_idx", json()) == true;
    compare("scale_attn_weights", "scale", [&](const json &value) -> Wanted {
      const json *width = single("head_width");
      if (!width || !value.is_boolean() || isByLayer)
        return std::nullopt;
      return json(value == true ? 1 / std::sqrt(width->get<double>()) : 1.0);
    });
    const json *stored = find("scale_attn_by_inverse_layer_idx");
    if (!stored)
      return;
    ConfigKey &entry = add("scale_attn_by_inverse_layer_idx", *stored);
    if (!single("scale") || !stored->is_boolean() ||
        facts.value("attentions", json(0)) < 2)
      return;
    entry.model = "false";
    entry.state = isByLayer ? State::Differs : State::Agrees;
    entry.fix = isByLayer ? fixOf("scale", *stored) : "";
  }

  void compareRotation() {
    for (const char *key : {"rope_theta", "rope_parameters.rope_theta",
                            "rotary_emb_base", "rope_local_base_freq"})
      compare(key, "rope_base", number);
    for (const char *key : {"rope_scaling", "rope_parameters"})
      compareScaling(key);
    for (const char *key : {"partial_rotary_factor", "rotary_pct",
                            "rope_parameters.partial_rotary_factor"})
      compare(key, "rope_dims", [&](const json &share) -> Wanted {
        const json *width = single("head_width");
        if (!width || !share.is_number())
          return std::nullopt;
        double dims = width->get<double>() * share.get<double>();
        if (!(dims >= 0 && dims <= width->get<double>()))
          return std::nullopt;
        return json(static_cast<int64_t>(dims));
      });
    compare("rotary_dim", "rope_dims", integer);
  }

  /// The op that rotates knows no scaling of positions or frequencies.
  void compareScaling(const std::string &key) {
    const json *scaling = find(key);
    if (!scaling || !(scaling->is_null() || scaling->is_object()))
      return;
    json type = "default";
    if (scaling->is_object()) {
      type = scaling->value("rope_type", scaling->value("type", json()));
      if (type.is_null() && key == "rope_parameters")
        return; // one for each kind of layer, or none
    }
    ConfigKey &entry = add(scaling->is_object() ? key + ".rope_type" : key,
                           scaling->is_null() ? *scaling : type);
    if (!values("rope_base"))
      return;
    entry.model = "default";
    if (type == "default")
      entry.state = State::Agrees;
    for (const char *known : {"linear", "llama3", "yarn", "longrope", "su"})
      if (type == known && scaling->value("factor", json()) != 1.0) {
        entry.state = State::Differs;
        entry.fix = "`rope` has no such scaling: rotate with `sin` and `cos` "
                    "in " +
                    source;
      }
  }

  void compareWindow() {
    compare("sliding_window", "window", [&](const json &value) -> Wanted {
      const json *layers = find("layer_types");
      bool isOff =
          value.is_null() ||
          config.value("use_sliding_window", json()) == false ||
          (layers && layers->is_array() &&
           std::ranges::find(*layers, "sliding_attention") == layers->end());
      if (isOff)
        return json();
      // Which layers have it is not known.
      if (!integer(value) || (!layers && find("max_window_layers")))
        return std::nullopt;
      return value >= facts.value("context", json(0)) ? json() : value;
    });
  }

  void compareTie() {
    const json *stored = find("tie_word_embeddings");
    if (!stored)
      return;
    ConfigKey &entry = add("tie_word_embeddings", *stored);
    const json *tied = values("tied");
    if (!tied)
      return;
    entry.model = textOf(*tied);
    if (*tied == *stored) {
      entry.state = State::Agrees;
    } else if (*stored == true) {
      // An output layer in the file is not the one that is meant.
      entry.state = State::Differs;
      entry.fix = "give the output layer the weight of the embedding in " +
                  source + ", as `weight = embedding.weight`";
    } else if (*stored == false) {
      setHarmless(entry, "an output layer that is stored must equal the "
                         "embedding, or nothing is loaded");
    }
  }

  /// A shorter context computes the same; a longer one does, too, as long as
  /// tables of positions have that shape.
  void compareContext() {
    for (const char *key :
         {"n_positions", "max_position_embeddings", "n_ctx"}) {
      const json *stored = find(key), *own = values("context");
      if (!stored)
        continue;
      ConfigKey &entry = add(key, *stored);
      if (!own)
        continue;
      entry.model = textOf(*own);
      if (integer(*stored) && *own <= *stored)
        entry.state = State::Agrees;
    }
  }

  const json &config;
  const std::string &source;
  json facts, hyperparameters;
  std::vector<ConfigKey> keys;
};

/// Judges every key by the table of the model's family.
class FamilyJudge {
public:
  explicit FamilyJudge(const ModelDescription &model)
      : family(json::parse(model.family)) {
    if (!model.hyperparameters.empty())
      for (const json &entry : json::parse(model.hyperparameters))
        values[entry.at("name").get<std::string>()] = entry.at("value");
  }

  std::vector<ConfigKey> judge(const json &config) const {
    std::vector<ConfigKey> keys;
    auto ignored = family.at("ignored").get<std::vector<std::string>>();
    for (const FamilyKey &key : readByFamily(family, config, ignored)) {
      ConfigKey entry = judge(key);
      if (key.key == "model_type")
        judgeFamily(entry, config);
      // What is absent and means what the model has needs no line.
      if (!key.stored.empty() || entry.state == State::Differs)
        keys.push_back(std::move(entry));
    }
    return keys;
  }

  /// What the model is, as a config.json.
  json write() const {
    std::map<std::string, json> own;
    for (const auto &[name, value] : values)
      if (!value.is_null())
        own[name] = value;
    return writeByFamily(
        family, own, [&](const std::string &text) { return valueOf(text); });
  }

  /// Makes a config.json, which agrees with the model, say how much the model
  /// has of what may be less: the context.
  void adapt(nlohmann::ordered_json &config) const {
    for (const auto &[key, rule] : family.at("keys").items()) {
      auto own = values.find(rule.value("sets", ""));
      if (!rule.value("may_be_less", false) || own == values.end() ||
          !own->second.is_number())
        continue;
      std::vector<std::string> names = rule.value("aliases", json::array());
      names.push_back(key);
      auto place = [](std::string name) {
        std::ranges::replace(name, '.', '/');
        return nlohmann::ordered_json::json_pointer("/" + name);
      };
      std::erase_if(names, [&](const std::string &name) {
        return !config.contains(place(name));
      });
      if (names.empty() && !isEqual(own->second, rule.value("default", json())))
        names.push_back(key);
      for (const std::string &name : names)
        config[place(name)] = own->second;
    }
  }

private:
  /// Keys of another family may mean something else.
  void judgeFamily(ConfigKey &entry, const json &config) const {
    json own = family.value("model_type", json());
    if (own.is_null() || config.value("model_type", own) == own)
      return;
    entry.state = State::Differs;
    entry.model = textOf(own);
    entry.fix = "import that folder, these weights are of another family";
  }

  ConfigKey judge(const FamilyKey &key) const {
    ConfigKey entry;
    entry.key = key.key;
    entry.stored = key.stored.empty() ? "null" : key.stored;
    entry.reason = key.reason;
    switch (key.kind) {
    case FamilyKey::Kind::Harmless:
      entry.state = State::Harmless;
      break;
    case FamilyKey::Kind::Required:
      entry.state = State::Agrees;
      entry.model = key.text;
      break;
    case FamilyKey::Kind::Refused:
      entry.state = State::Differs;
      entry.fix = key.reason;
      entry.reason.clear();
      break;
    case FamilyKey::Kind::Sets:
      judgeValue(entry, key);
      break;
    }
    return entry;
  }

  /// Compares what a key sets with what the model has.
  void judgeValue(ConfigKey &entry, const FamilyKey &key) const {
    bool exists = std::ranges::any_of(
        family.at("hyperparameters"),
        [&](const json &name) { return name == key.hyperparameter; });
    std::optional<json> wanted = valueOf(key.text);
    if (!wanted || !exists)
      return;
    // What has no value in the binary is none.
    auto found = values.find(key.hyperparameter);
    json own = found == values.end() ? json() : found->second;
    entry.model = textOf(own);
    bool isLess = key.mayBeLess && own.is_number() && wanted->is_number() &&
                  own.get<double>() < wanted->get<double>();
    if (isLess || isEqual(own, *wanted)) {
      entry.state = key.reason.empty() ? State::Agrees : State::Harmless;
      return;
    }
    entry.state = State::Differs;
    entry.fix = "build it with -D " + key.hyperparameter + "=" + key.text;
    if (key.stored.empty())
      entry.fix = "it is absent, which means " + key.text + ": " + entry.fix;
  }

  /// What a text of the language comes to; nothing where nobody knows.
  std::optional<json> valueOf(const std::string &text) const {
    if (auto known = family.at("values").find(text);
        known != family.at("values").end())
      return *known;
    if (text == "none")
      return json();
    json literal = jsonOf(text);
    return literal.is_discarded() ? std::nullopt : std::optional(literal);
  }

  const json family;
  std::map<std::string, json> values;
};

/// What the table of the family that a config.json is of tells of a model
/// without a family, beside what was compared: what is harmless, and what
/// nobody can judge.
void addUnjudged(std::vector<ConfigKey> &keys, const json &config,
                 const std::string &table) {
  for (const FamilyKey &key : readByFamily(json::parse(table), config, {})) {
    bool isKnown = std::ranges::any_of(
        keys, [&](const ConfigKey &known) { return known.key == key.key; });
    if (isKnown || key.stored.empty())
      continue;
    ConfigKey &entry = keys.emplace_back();
    entry.key = key.key;
    entry.stored = key.stored;
    if (key.kind == FamilyKey::Kind::Harmless) {
      entry.state = State::Harmless;
      entry.reason = key.reason;
    }
  }
}

} // namespace

bool ConfigComparison::agrees() const {
  return std::ranges::none_of(
      keys, [](const ConfigKey &key) { return key.state == State::Differs; });
}

std::optional<ConfigComparison> compareConfig(const std::string &path,
                                              const ModelDescription &model) {
  const bool isOneFile = isGguf(path) && !isFolder(path);
  std::string file = isOneFile ? path : path + "/config.json";
  if (!isOneFile && (!isFolder(path) || !fileExists(file)))
    return std::nullopt;
  json config =
      isOneFile
          ? GgufReader(path).config(ggufOf(model.family, path))
          : jsonOf(readRegularFile(file, "the configuration of the weights"));
  if (!config.is_object())
    throw InputError(file + " is not a JSON object, so whether the model is "
                            "that of these weights is unknown: copy or "
                            "download it again, or remove it");
  std::vector<ConfigKey> shown = Comparer(config, model).run();
  if (model.family.empty()) {
    std::string type = config.value("model_type", json()).is_string()
                           ? config["model_type"].get<std::string>()
                           : std::string();
    if (std::string table = model.tableFor ? model.tableFor(type) : "";
        !table.empty())
      addUnjudged(shown, config, table);
    return ConfigComparison{file, std::move(shown)};
  }
  std::vector<ConfigKey> keys = FamilyJudge(model).judge(config);
  // A hyperparameter may have the right value and nothing compute with it.
  for (ConfigKey &key : keys)
    for (ConfigKey &other : shown)
      if (key.state == State::Agrees && other.state == State::Differs &&
          other.key == key.key)
        key = other;
  return ConfigComparison{file, std::move(keys)};
}

namespace {

ModelDescription describe(const tfm_model &model) {
  Recipe recipe = parseRecipe(model.recipe ? model.recipe : "");
  return {recipe.facts, model.hyperparameters ? model.hyperparameters : "",
          model.source, recipe.family};
}

/// The keys that a comparison finds different, for a message.
std::string differences(const std::vector<ConfigKey> &keys) {
  std::string text;
  for (const ConfigKey &key : keys)
    if (key.state == State::Differs)
      text +=
          fmt::format("\n  {} is {}{}{}: {}", key.key, key.stored,
                      key.model.empty() ? "" : ", here ", key.model, key.fix);
  return text;
}

} // namespace

std::string writeConfig(const tfm_model &model) {
  ModelDescription description = describe(model);
  if (description.family.empty())
    return "";
  FamilyJudge judge(description);
  json config;
  std::string problem;
  try {
    config = judge.write();
    problem = differences(judge.judge(config));
  } catch (const InputError &error) {
    problem = std::string("\n  ") + error.what();
  }
  if (!problem.empty())
    throw InputError("no config.json of its family describes this model:" +
                     problem);
  return config.dump(2) + "\n";
}

std::string adaptConfig(const std::string &folder, const tfm_model &model) {
  requireConfig(folder, model);
  const std::string path = folder + "/config.json";
  const std::string text =
      readRegularFile(path, "the configuration of the weights");
  auto config = nlohmann::ordered_json::parse(text);
  // What is exported has been read into floats.
  config.erase("quantization_config");
  ModelDescription description = describe(model);
  if (!description.family.empty()) {
    FamilyJudge(description).adapt(config);
    return config.dump(2) + "\n";
  }
  // A context that was made shorter: tables of positions have that shape.
  json facts =
      json::parse(description.facts.empty() ? "{}" : description.facts);
  if (facts.contains("context"))
    for (const char *key :
         {"n_positions", "max_position_embeddings", "n_ctx", "max_seq_len"})
      if (config.contains(key) && config[key].is_number_integer() &&
          config[key].get<int64_t>() > facts["context"].get<int64_t>())
        config[key] = facts["context"].get<int64_t>();
  return config.dump(2) + "\n";
}

std::string requireConfig(const std::string &weights, const tfm_model &model) {
  std::optional<ConfigComparison> comparison =
      compareConfig(weights, describe(model));
  if (!comparison)
    return "";
  if (comparison->agrees()) {
    std::vector<std::string> unjudged;
    for (const ConfigKey &key : comparison->keys)
      if (key.state == State::NotCompared && key.stored != "null")
        unjudged.push_back(key.key);
    if (unjudged.empty())
      return "";
    return fmt::format("whether {} computes with what {} says cannot be "
                       "compared: {}",
                       model.name, comparison->path, fmt::join(unjudged, ", "));
  }
  std::string message = fmt::format(
      "{} is of another model than {}, which would compute something else with "
      "these weights:",
      comparison->path, model.name);
  throw InputError(message + differences(comparison->keys) +
                   "\nIf it is the file that is wrong, correct it "
                   "or take the key out");
}

} // namespace tfm
