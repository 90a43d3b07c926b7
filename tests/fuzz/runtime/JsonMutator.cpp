//===- JsonMutator.cpp - JSON that is nearly right ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tests/fuzz/runtime/JsonMutator.h"

#include <algorithm>
#include <cmath>

namespace tfm::fuzz {

namespace {

/// Numbers at the edges of the types that they are read into, as they are
/// spelt: some have no value of any type.
constexpr const char *numbers[] = {"0",
                                   "-0",
                                   "1",
                                   "-1",
                                   "2",
                                   "1.5",
                                   "0.0",
                                   "127",
                                   "255",
                                   "256",
                                   "65536",
                                   "2097151",
                                   "2097152",
                                   "2147483647",
                                   "2147483648",
                                   "-2147483648",
                                   "4294967295",
                                   "4294967296",
                                   "4611686018427387904",
                                   "9223372036854775807",
                                   "9223372036854775808",
                                   "-9223372036854775808",
                                   "18446744073709551615",
                                   "18446744073709551616",
                                   "1e-308",
                                   "4.9e-324",
                                   "1e-400",
                                   "1e38",
                                   "3.5e38",
                                   "1e308",
                                   "-1e308",
                                   "1e400",
                                   "-1e400"};

constexpr const char *strings[] = {"",
                                   " ",
                                   "a",
                                   "\n",
                                   "\t",
                                   "\r\n",
                                   "\x7f",
                                   "\xE2\x96\x81",
                                   "\xF0\x9F\x98\x80",
                                   "\xCC\x81",
                                   "<unk>",
                                   "<s>",
                                   "<0x0A>",
                                   "</w>",
                                   "..",
                                   "."};

Json extreme(Dice &dice) {
  switch (dice.below(8)) {
  case 0:
    return nullptr;
  case 1:
    return dice.oneIn(2);
  case 2:
    return Json::array();
  case 3:
    return Json::object();
  case 4:
    return dice.pick(strings);
  default: {
    Json number = Json::parse(dice.pick(numbers), nullptr, false);
    return number.is_discarded() ? Json(-1) : number; // no type holds it
  }
  }
}

Json nudged(const Json &number, Dice &dice) {
  if (number.is_number_float()) {
    double value = number.get<double>();
    switch (dice.below(6)) {
    case 0:
      return -value;
    case 1:
      return value * 2;
    case 2:
      return value / 2;
    case 3:
      return 1 - value;
    case 4:
      return std::nextafter(value, dice.oneIn(2) ? HUGE_VAL : -HUGE_VAL);
    default:
      return std::abs(value) < 1e15 ? Json(static_cast<int64_t>(value))
                                    : Json(0);
    }
  }
  auto value = number.get<uint64_t>();
  switch (dice.below(7)) {
  case 0:
    return value + 1;
  case 1:
    return value - 1;
  case 2:
    return value * 2;
  case 3:
    return value / 2;
  case 4:
    return -number.get<double>();
  case 5:
    return number.get<double>();
  default:
    return number.dump();
  }
}

void mutateObject(Json &object, Dice &dice, Keys keys, const Json &other) {
  auto at = object.empty()
                ? object.begin()
                : std::next(object.begin(),
                            static_cast<ptrdiff_t>(dice.below(object.size())));
  bool named = !keys.empty() && !dice.oneIn(4);
  std::string key = named ? std::string(dice.pick(keys))
                    : at != object.end() && dice.oneIn(2)
                        ? dice.bytes(at.key(), 4)
                        : std::string(dice.pick(strings));
  if (at == object.end() || dice.oneIn(3)) {
    object[key] = dice.oneIn(2) ? extreme(dice) : other;
  } else if (dice.oneIn(2)) {
    object.erase(at);
  } else {
    // Under another name, at the end.
    Json value = *at;
    if (dice.oneIn(2))
      object.erase(at);
    object[key] = std::move(value);
  }
}

void mutateArray(Json &array, Dice &dice, const Json &other) {
  if (array.empty() || dice.oneIn(4)) {
    auto at =
        array.begin() + static_cast<ptrdiff_t>(dice.below(array.size() + 1));
    array.insert(at, dice.oneIn(2) ? extreme(dice) : other);
    return;
  }
  size_t one = dice.below(array.size()), two = dice.below(array.size());
  switch (dice.below(4)) {
  case 0:
    array.erase(one);
    return;
  case 1: {
    Json copy = array[one];
    array.insert(array.begin() + static_cast<ptrdiff_t>(two), std::move(copy));
    return;
  }
  case 2:
    std::swap(array[one], array[two]);
    return;
  default: {
    // So many of the same that what adds up, or multiplies, shows.
    if (array.size() > 64)
      return;
    Json copy = array[one];
    for (size_t count = dice.below(40); count > 0; --count)
      array.push_back(copy);
  }
  }
}

/// A number of the text, spelt as any type's edge.
std::string replaceNumber(std::string text, Dice &dice) {
  size_t begin = dice.below(text.size() + 1);
  begin = text.find_first_of("0123456789", begin);
  if (begin == std::string::npos)
    return text;
  size_t end =
      std::min(text.find_first_not_of("0123456789.eE+-", begin), text.size());
  return text.replace(begin, end - begin, dice.pick(numbers));
}

} // namespace

std::vector<Json *> nodesOf(Json &root) {
  std::vector<Json *> nodes = {&root};
  for (size_t i = 0; i < nodes.size(); ++i)
    if (nodes[i]->is_structured())
      for (Json &child : *nodes[i])
        nodes.push_back(&child);
  return nodes;
}

void mutateTree(Json &root, Dice &dice, Keys keys) {
  std::vector<Json *> nodes = nodesOf(root);
  // Trees have many leaves and few places where their form is decided.
  std::vector<Json *> branches;
  for (Json *node : nodes)
    if (node->is_structured())
      branches.push_back(node);
  Json &node = *(branches.empty() || dice.oneIn(2) ? dice.pick(nodes)
                                                   : dice.pick(branches));
  Json other = *dice.pick(nodes);
  if (other.size() > 100)
    other = extreme(dice);
  if (dice.oneIn(5)) {
    node = dice.oneIn(2) ? extreme(dice) : std::move(other);
  } else if (node.is_object()) {
    mutateObject(node, dice, keys, other);
  } else if (node.is_array()) {
    mutateArray(node, dice, other);
  } else if (node.is_number() && !dice.oneIn(3)) {
    node = nudged(node, dice);
  } else if (node.is_string() && !dice.oneIn(3)) {
    node = dice.oneIn(3) ? node.get<std::string>() + dice.pick(strings)
                         : dice.bytes(node.get_ref<const std::string &>());
  } else if (dice.oneIn(4)) {
    node = dice.oneIn(2) ? Json::array({node}) : Json({{"a", node}});
  } else {
    node = extreme(dice);
  }
}

std::string textOf(const Json &root) {
  return root.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string mutateJson(std::string_view text, Dice &dice, Keys keys) {
  Json root = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded() || dice.oneIn(20))
    return dice.bytes(text);
  for (size_t changes = 1 + dice.below(3); changes > 0; --changes)
    mutateTree(root, dice, keys);
  std::string result = textOf(root);
  return dice.oneIn(8) ? replaceNumber(std::move(result), dice) : result;
}

std::string crossJson(std::string_view text, std::string_view other,
                      Dice &dice) {
  Json into = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  Json from = Json::parse(other, nullptr, /*allow_exceptions=*/false);
  if (into.is_discarded() || from.is_discarded())
    return std::string(text);
  // Members of the same name first: what is exchanged then has a meaning.
  if (into.is_object() && from.is_object() && !from.empty() && dice.oneIn(2)) {
    auto at = std::next(from.begin(),
                        static_cast<ptrdiff_t>(dice.below(from.size())));
    into[at.key()] = at.value();
  } else {
    Json value = *dice.pick(nodesOf(from));
    *dice.pick(nodesOf(into)) = std::move(value);
  }
  return textOf(into);
}

} // namespace tfm::fuzz
