//===- family.cpp - what the keys of a config.json mean -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/files/family.h"

#include "runtime/files/graph_judge.h"
#include "runtime/support/error.h"
#include "runtime/support/read_json.h"
#include "runtime/support/utf8.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

using nlohmann::json;

namespace tfm {

std::vector<std::string> unusedTensors(const std::string &family) {
  if (family.empty())
    return {};
  return json::parse(family).value("unused", std::vector<std::string>());
}

bool isUnused(std::span<const std::string> unused, std::string_view tensor) {
  return std::ranges::any_of(unused, [&](std::string_view name) {
    return name.ends_with(".*")
               ? tensor.starts_with(name.substr(0, name.size() - 1))
               : tensor == name;
  });
}

json ggufOf(const std::string &family, const std::string &path) {
  json table = family.empty() ? json::object() : json::parse(family);
  if (!table.contains("gguf"))
    throw InputError(
        "{}: what its tensors are called in this model is unknown, as {}: "
        "import it (`tfmc import`), or name a safetensors file or a folder",
        path,
        family.empty() ? "the model's file names no `family`"
                       : "its family tells nothing of gguf files");
  return table["gguf"];
}

//===----------------------------------------------------------------------===//
// Reading a config.json
//===----------------------------------------------------------------------===//

bool isEqual(const json &a, const json &b) {
  if (a.is_number() && b.is_number())
    return a.get<float>() == b.get<float>();
  return a == b;
}

bool isOneOf(const json &value, const json &wanted) {
  return wanted.is_array() ? std::ranges::find(wanted, value) != wanted.end()
                           : value == wanted;
}

namespace {

/// Whether a value says nothing: null, false, or empty.
bool isEmpty(const json &value) {
  return value.is_null() || value == false ||
         (!value.is_primitive() && value.empty()) ||
         (value.is_string() && value.get_ref<const std::string &>().empty());
}

/// The beginning of a value, for messages.
std::string shown(const json &value) { return beginningOf(jsonText(value)); }

/// What `words` of a rule call a value.
std::string wordOf(const json &value) {
  return value.is_string() ? value.get<std::string>() : shown(value);
}

/// What a table does with a path: whether it has a rule for it, or for what is
/// within it.
enum class Listed { No, Within, Yes };
Listed listed(const json &rules, const std::string &path) {
  Listed found = Listed::No;
  auto look = [&](const std::string &name) {
    if (name == path)
      found = Listed::Yes;
    else if (found == Listed::No && name.starts_with(path + "."))
      found = Listed::Within;
  };
  for (const auto &[key, rule] : rules.items()) {
    look(key);
    for (const json &alias : rule.value("aliases", json::array()))
      look(alias.get_ref<const std::string &>());
  }
  return found;
}

class Reader {
public:
  Reader(const json &rules, const json &config,
         const std::vector<std::string> &ignored)
      : rules(rules), config(config), ignored(ignored) {}

  std::vector<FamilyKey> run() {
    for (const auto &[key, rule] : rules.items())
      read(key, rule);
    readUnlisted(config, "");
    return std::move(keys);
  }

  /// What a key says, or where it is absent what it means then.
  json effective(const std::string &key) const {
    auto rule = rules.find(key);
    if (rule == rules.end()) {
      const json *value = findKey(config, key);
      return value ? *value : json();
    }
    std::string name, problem;
    const json *value = stored(key, *rule, name, problem);
    return value ? *value : rule->value("default", json());
  }

  /// The condition of a rule that does not hold, in words.
  std::string unmetCondition(const json &rule) const {
    const json conditions = rule.value("only_if", json::object());
    for (const auto &[other, wanted] : conditions.items()) {
      json value = effective(other);
      if (!isOneOf(value, wanted))
        return other + " is " + shown(value);
    }
    return "";
  }

private:
  /// What a key says under any of its names; `name` becomes the one that it
  /// has. Nothing where it is absent.
  const json *stored(const std::string &key, const json &rule,
                     std::string &name, std::string &problem) const {
    std::vector<std::string> names = {key};
    for (const json &alias : rule.value("aliases", json::array()))
      names.push_back(alias.get<std::string>());
    const json *value = nullptr;
    name = key;
    for (const std::string &other : names) {
      const json *found = findKey(config, other);
      if (!found || (value && found->is_null()))
        continue;
      if (value && !value->is_null() && *found != *value)
        problem = fmt::format("its other name {} is {}: which of the two "
                              "is meant is unknown",
                              other, shown(*found));
      if (!value || value->is_null()) {
        value = found;
        name = other;
      }
    }
    // One that is absent is so where the file has the others of its kind.
    for (const std::string &other : names)
      if (size_t dot = other.rfind('.');
          !value && dot != other.npos &&
          findKey(config, other.substr(0, dot))) {
        name = other;
        break;
      }
    return value;
  }

  void read(const std::string &key, const json &rule) {
    FamilyKey entry;
    std::string problem;
    const json *value = stored(key, rule, entry.key, problem);
    if (value)
      entry.stored =
          value->dump(-1, ' ', false, json::error_handler_t::replace);
    entry.hyperparameter = rule.value("sets", "");
    entry.mayBeLess = rule.value("may_be_less", false);
    std::string unmet = unmetCondition(rule);
    if (rule.contains("harmless")) {
      entry.kind = FamilyKey::Kind::Harmless;
      entry.reason = rule["harmless"].get<std::string>();
    } else if (!problem.empty()) {
      entry.reason = problem;
    } else if (!unmet.empty()) {
      entry.reason = "it is not used, as " + unmet;
      entry.kind = FamilyKey::Kind::Harmless;
      if (rule.contains("else")) {
        entry.text = rule["else"].get<std::string>();
        entry.kind = FamilyKey::Kind::Sets;
      }
    } else {
      json meant = value ? *value : rule.value("default", json());
      if (!value && rule.contains("must") && !rule.contains("default"))
        return;
      if (meant.is_null() && rule.value("optional", false))
        return;
      if (std::string wrong = lengthProblem(rule, meant); !wrong.empty())
        entry.reason = wrong;
      else if (rule.contains("must"))
        require(entry, rule, meant);
      else
        set(entry, rule, meant, value != nullptr);
    }
    // What is absent and decides nothing needs no line.
    if (value || entry.kind == FamilyKey::Kind::Sets ||
        entry.kind == FamilyKey::Kind::Refused)
      keys.push_back(std::move(entry));
  }

  /// What is wrong with how many entries a list has, or nothing.
  std::string lengthProblem(const json &rule, const json &list) const {
    const std::string counts = rule.value("length", "");
    if (counts.empty() || !list.is_array())
      return "";
    json count = effective(counts);
    if (count == list.size())
      return "";
    return fmt::format("it has {} entries, but {} is {}", list.size(), counts,
                       shown(count));
  }

  static void require(FamilyKey &entry, const json &rule, const json &value) {
    const json &wanted = rule["must"];
    bool isMet =
        rule.value("each", false) && value.is_array()
            ? std::ranges::all_of(
                  value, [&](const json &one) { return isOneOf(one, wanted); })
            : isOneOf(value, wanted);
    entry.text = shown(wanted);
    if (isMet) {
      entry.kind = FamilyKey::Kind::Required;
      return;
    }
    std::string values;
    for (const json &one : wanted.is_array() ? wanted : json::array({wanted}))
      values += (values.empty() ? "" : " or ") + shown(one);
    entry.reason = "this family computes with " + values + " alone";
    if (rule.contains("reason"))
      entry.reason += ": " + rule["reason"].get<std::string>();
  }

  static void set(FamilyKey &entry, const json &rule, const json &value,
                  bool isStored) {
    entry.kind = FamilyKey::Kind::Sets;
    if (value.is_null() && rule.contains("null")) {
      entry.text = rule["null"].get<std::string>();
      return;
    }
    if (!isStored && !rule.contains("default")) {
      entry.kind = FamilyKey::Kind::Refused;
      entry.reason = "this family needs it";
      return;
    }
    std::optional<std::string> text, takes;
    if (rule.contains("words")) {
      const json &words = rule["words"];
      const std::string word = wordOf(value);
      if (words.contains(word)) {
        text = words[word].get<std::string>();
      } else {
        std::string known;
        for (const auto &[name, meaning] : words.items())
          known += (known.empty() ? "" : ", ") + name;
        takes = "one of " + known;
      }
    } else if (rule.contains("pattern")) {
      const json &pattern = rule["pattern"];
      bool isPeriodic = pattern.contains("every");
      text = isPeriodic ? periodOf(value, pattern) : firstOf(value, pattern);
      const json &named = pattern[isPeriodic ? "every" : "first"];
      takes = fmt::format("a list where {} {} and all others are {}{}",
                          isPeriodic ? "every n-th is" : "the first are",
                          shown(named), shown(pattern["others"]),
                          placesIn(value, named, pattern["others"]));
    } else {
      takes = literal(text, value, rule);
    }
    if (text) {
      entry.text = *text;
      return;
    }
    entry.kind = FamilyKey::Kind::Refused;
    entry.reason = "it takes " + *takes;
  }

  /// Which entries of a list are `named`, or the first that may not be in it: a
  /// message shows no more than the beginning of a long list.
  static std::string placesIn(const json &list, const json &named,
                              const json &others) {
    if (!list.is_array() || list.empty())
      return "";
    std::string places;
    size_t count = 0;
    for (size_t i = 0; i < list.size(); ++i) {
      if (list[i] != named && list[i] != others)
        return fmt::format(", and entry {} of this one is {}", i + 1,
                           shown(list[i]));
      if (list[i] == named && ++count <= 13)
        places += (count == 1 ? "" : ", ") +
                  (count == 13 ? "..." : std::to_string(i + 1));
    }
    return fmt::format("; {} {} {} of the {} here", shown(named),
                       count == 1 ? "is entry" : "are entries", places,
                       list.size());
  }

  /// Every how many entries of a list are `every`, the last of each group being
  /// it; `none` where no one is.
  static std::optional<std::string> periodOf(const json &list,
                                             const json &pattern) {
    if (!list.is_array() || list.empty())
      return std::nullopt;
    size_t period = 0;
    for (size_t i = 0; i < list.size() && period == 0; ++i)
      if (list[i] == pattern["every"])
        period = i + 1;
    for (size_t i = 0; i < list.size(); ++i) {
      bool isLast = period != 0 && (i + 1) % period == 0;
      if (list[i] != pattern[isLast ? "every" : "others"])
        return std::nullopt;
    }
    return period == 0 ? "none" : std::to_string(period);
  }

  /// How many entries of a list are `first` before all are `others`; `none`
  /// where none of them is.
  static std::optional<std::string> firstOf(const json &list,
                                            const json &pattern) {
    if (!list.is_array() || list.empty())
      return std::nullopt;
    auto end = std::ranges::find_if(
        list, [&](const json &one) { return one != pattern["first"]; });
    if (!std::all_of(end, list.end(),
                     [&](const json &one) { return one == pattern["others"]; }))
      return std::nullopt;
    return end == list.end() ? "none" : std::to_string(end - list.begin());
  }

  /// Whether a text can stand in the language, which has no other escapes.
  static bool isWritable(const json &value) {
    return value.is_string() &&
           std::ranges::none_of(value.get_ref<const std::string &>(),
                                [](char c) {
                                  return c >= 0 && c < ' ' && c != '\n' &&
                                         c != '\t' && c != '\r';
                                });
  }

  /// Escapes, and commas in lists, are as in JSON.
  static std::string quoted(const json &value) {
    return value.dump(-1, ' ', false, json::error_handler_t::replace);
  }

  /// Sets `text` to a value in the language; returns what the rule takes.
  static std::string literal(std::optional<std::string> &text,
                             const json &value, const json &rule) {
    const std::string type = rule.value("type", "");
    if (type == "integer") {
      int64_t least = rule.value("least", int64_t{1});
      // As large as any size of a tensor.
      int64_t most = rule.value("most", (int64_t{1} << 40) - 1);
      bool isTooLarge = value.is_number() && value.get<double>() > double(most);
      if (value.is_number_integer() && !isTooLarge &&
          value.get<int64_t>() >= least)
        text = std::to_string(value.get<int64_t>());
      return isTooLarge ? fmt::format("an integer of at most {}", most)
                        : fmt::format("an integer of at least {}", least);
    }
    if (type == "number") {
      constexpr double limit = std::numeric_limits<float>::max();
      double least = rule.value("least", -limit),
             most = rule.value("most", limit);
      if (value.is_number() && value.get<double>() >= least &&
          value.get<double>() <= most)
        text = value.dump();
      // A float stays one.
      if (text && text->find_first_of(".e") == std::string::npos)
        *text += ".0";
      return least == -limit ? "a number"
             : most == limit
                 ? fmt::format("a number of at least {}", least)
                 : fmt::format("a number from {} to {}", least, most);
    }
    if (type == "flag") {
      if (value.is_boolean())
        text = value.dump();
      return "true or false";
    }
    if (type == "texts") {
      const json list = value.is_string() ? json::array({value}) : value;
      if (list.is_array() && std::ranges::all_of(list, isWritable))
        text = list.empty() ? "none" : quoted(list);
      return "a text, or a list of texts";
    }
    if (isWritable(value))
      text = quoted(value);
    return "a text";
  }

  bool isHarmless(const std::string &key) const {
    auto rule = rules.find(key);
    return rule != rules.end() && rule->contains("harmless");
  }

  void readUnlisted(const json &object, const std::string &prefix) {
    for (const auto &[name, value] : object.items()) {
      if (isEmpty(value))
        continue;
      const std::string path = prefix + name;
      // A dot in a name is not one between names: what such a key sets is not
      // set, but what is harmless is so under any name.
      Listed state = listed(rules, path);
      if (name.find('.') != std::string::npos && !isHarmless(path))
        state = Listed::No;
      if (state == Listed::Yes)
        continue;
      if (state == Listed::Within && value.is_object()) {
        readUnlisted(value, path + ".");
        continue;
      }
      FamilyKey entry;
      entry.isListed = false;
      entry.key = path;
      entry.stored = value.dump(-1, ' ', false, json::error_handler_t::replace);
      entry.reason = state == Listed::Within ? "it takes an object"
                                             : "this family does not know it";
      if (std::ranges::find(ignored, path) != ignored.end()) {
        entry.kind = FamilyKey::Kind::Harmless;
        entry.reason = "it is ignored, as the model's file says";
      }
      keys.push_back(std::move(entry));
    }
  }

  const json &rules, &config;
  const std::vector<std::string> &ignored;
  std::vector<FamilyKey> keys;
};

/// Makes a config.json of what hyperparameters are.
class Writer {
public:
  using ValueOf = std::function<std::optional<json>(const std::string &)>;
  Writer(const json &rules, const std::map<std::string, json> &values,
         const ValueOf &valueOf)
      : rules(rules), values(values), valueOf(valueOf) {}

  json run() {
    // Lists are as long as another key says.
    for (bool isList : {false, true})
      for (const auto &[key, rule] : rules.items())
        if (rule.contains("pattern") == isList)
          write(key, rule);
    // What only some values of other keys need.
    static const std::vector<std::string> none;
    for (const auto &[key, rule] : rules.items())
      if (!Reader(rules, config, none).unmetCondition(rule).empty())
        erase(key);
    return std::move(config);
  }

private:
  json &place(const std::string &key) { return placeOf(config, key); }
  void erase(const std::string &key) {
    size_t dot = key.rfind('.');
    json &object =
        dot == std::string::npos ? config : place(key.substr(0, dot));
    if (!object.is_object())
      return;
    object.erase(dot == std::string::npos ? key : key.substr(dot + 1));
    if (dot != std::string::npos && object.empty())
      erase(key.substr(0, dot));
  }

  void write(const std::string &key, const json &rule) {
    if (rule.contains("must") && !rule.contains("default") &&
        !rule.value("optional", false)) {
      const json &must = rule["must"];
      const json first = !must.is_array() ? must
                         : must.empty()   ? json()
                                          : must.front();
      if (!first.is_null())
        place(key) = first;
    }
    if (!rule.contains("sets"))
      return;
    const std::string name = rule["sets"].get<std::string>();
    auto found = values.find(name);
    const json value = found == values.end() ? json() : found->second;
    auto means = [&](const char *member) {
      if (!rule.contains(member))
        return false;
      std::optional<json> meant = valueOf(rule[member].get<std::string>());
      return meant && isEqual(*meant, value);
    };
    if (rule.contains("pattern"))
      writePattern(key, rule, value);
    else if (rule.contains("words"))
      writeWord(key, rule, value);
    else if (means("null") && rule.value("default", json()).is_null())
      place(key) = nullptr;
    else if (value.is_number() && rule.value("type", "") == "number" &&
             !rule.contains("is_whole"))
      place(key) = value.get<double>();
    else if (!value.is_null())
      place(key) = value;
    else if (means("null"))
      place(key) = nullptr;
    else if (!rule.value("optional", false) && !means("else"))
      throw InputError("no value of {} says that `{}` is none", key, name);
  }

  void writeWord(const std::string &key, const json &rule, const json &value) {
    auto means = [&](const std::string &word) {
      auto text = rule["words"].find(word);
      if (text == rule["words"].end())
        return false;
      std::optional<json> meant = valueOf(text->get<std::string>());
      return meant && isEqual(*meant, value);
    };
    // Of several the one that the class has by default.
    const json usual = rule.value("default", json());
    if (means(wordOf(usual))) {
      place(key) = usual;
      return;
    }
    for (const auto &[word, text] : rule["words"].items())
      if (means(word)) {
        json list = jsonOf(word);
        place(key) = list.is_array() ? list : json(word);
        return;
      }
    throw InputError("no value of {} says that `{}` is {}", key,
                     rule["sets"].get<std::string>(), shown(value));
  }

  void writePattern(const std::string &key, const json &rule,
                    const json &value) {
    static const std::vector<std::string> none;
    json count =
        Reader(rules, config, none).effective(rule.value("length", ""));
    // No model has more layers.
    if (!count.is_number_unsigned() || count.get<uint64_t>() > 65536)
      return;
    const json &pattern = rule["pattern"];
    bool isPeriodic = pattern.contains("every");
    std::optional<uint64_t> number;
    if (value.is_number_unsigned())
      number = value.get<uint64_t>();
    json list = json::array();
    for (uint64_t i = 1; i <= count.get<uint64_t>(); ++i) {
      bool isOne = isPeriodic
                       ? number && i % std::max<uint64_t>(1, *number) == 0
                       : !number || i <= *number;
      list.push_back(isOne ? pattern[isPeriodic ? "every" : "first"]
                           : pattern["others"]);
    }
    place(key) = std::move(list);
  }

  const json &rules;
  const std::map<std::string, json> &values;
  const ValueOf &valueOf;
  json config = json::object();
};

} // namespace

json writeByFamily(
    const json &family, const std::map<std::string, json> &values,
    const std::function<std::optional<json>(const std::string &)> &valueOf) {
  json config = Writer(family.at("keys"), values, valueOf).run();
  for (const char *member : {"model_type", "architecture"})
    if (family.contains(member))
      config[member] = family[member];
  if (auto name = config.find("architecture"); name != config.end()) {
    config["architectures"] = json::array({*name});
    config.erase("architecture");
  }
  return config;
}

std::vector<FamilyKey> readByFamily(const json &family, const json &config,
                                    const std::vector<std::string> &ignored,
                                    const char *part) {
  return Reader(family.at(part), config, ignored).run();
}

std::optional<json> ownPart(const json &family, const json &config) {
  const json keys = family.value("part_of", json::object());
  auto type = config.find("model_type");
  if (type == config.end() || !type->is_string())
    return std::nullopt;
  auto key = keys.find(type->get<std::string>());
  auto part =
      key == keys.end() ? config.end() : config.find(key->get<std::string>());
  if (part == config.end() || !part->is_object())
    return std::nullopt;
  json own = *part;
  own["model_type"] = family.at("model_type");
  for (const auto &[name, value] : config.items())
    if (name != "model_type" && listed(family.at("keys"), name) != Listed::No)
      own[name] = value;
  return own;
}

} // namespace tfm
