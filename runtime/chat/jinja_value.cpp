//===- jinja_value.cpp - what a chat template computes with -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/chat/jinja_value.h"

#include "runtime/support/utf8.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

using nlohmann::ordered_json;

namespace tfm::jinja {

const Value *Arguments::find(size_t place, std::string_view name) const {
  if (place < positional.size())
    return &positional[place];
  for (const auto &[key, value] : named)
    if (key == name)
      return &value;
  return nullptr;
}

void Arguments::require(const std::string &callee, const Parameters &takes,
                        size_t from) const {
  const auto &[least, places, names] = takes;
  size_t placed = positional.size() - from;
  for (const auto &[name, value] : named) {
    auto at =
        static_cast<size_t>(std::ranges::find(names, name) - names.begin());
    if (at == names.size() && std::ranges::count(names, anyName) == 0)
      throw Problem{callee + " is not supported with `" + name + "`"};
    if (at < std::min(placed, names.size()) && places != anyNumber)
      throw Problem{callee + " has `" + name + "` twice"};
  }
  size_t given = placed + named.size();
  if (placed <= places && given >= least)
    return;
  std::string count = std::to_string(least);
  bool isOne = least == 1 && (places == 1 || places == anyNumber);
  if (places == anyNumber)
    count = "at least " + count;
  else if (places != least)
    count += " to " + std::to_string(places);
  throw Problem{callee + " takes " + count +
                (isOne ? " argument" : " arguments") + ", not " +
                std::to_string(given)};
}

Value Value::undefined(std::string name) {
  Value value;
  value.text = std::move(name);
  return value;
}
Value Value::none() {
  Value value;
  value.kind = None;
  return value;
}
Value Value::boolean(bool flag) {
  Value value;
  value.kind = Bool;
  value.flag = flag;
  return value;
}
Value Value::number(int64_t integer) {
  Value value;
  value.kind = Int;
  value.integer = integer;
  return value;
}
Value Value::number(double real) {
  Value value;
  value.kind = Float;
  value.real = real;
  return value;
}
Value Value::string(std::string text) {
  Value value;
  value.kind = String;
  value.text = std::move(text);
  return value;
}
/// Counts what a list or dictionary holds.
static void nest(Value &value, const Value &inner) {
  constexpr int deepest = 200;
  value.depth = std::max(value.depth, inner.depth + 1);
  value.holdsNamespace |= inner.isNamespace || inner.holdsNamespace;
  if (value.depth > deepest)
    throw Problem{"lists are nested too deeply"};
}

void requireRoom(size_t bytes) {
  if (bytes > mostText)
    throw Problem{"this becomes longer than 32 MB"};
}

static thread_local uint64_t bytesLeft = UINT64_MAX;

Allowance::Allowance(uint64_t bytes)
    : before(std::exchange(bytesLeft, bytes)) {}
Allowance::~Allowance() { bytesLeft = before; }

void spend(uint64_t bytes) {
  if (bytes > bytesLeft)
    throw Problem{"the template runs for too long"};
  bytesLeft -= bytes;
}

Value Value::array(std::vector<Value> items) {
  Value value;
  value.kind = List;
  for (const Value &item : items)
    nest(value, item);
  value.list = std::make_shared<std::vector<Value>>(std::move(items));
  return value;
}
Value Value::object(Items items) {
  Value value;
  value.kind = Dict;
  value.dict = std::make_shared<Items>();
  for (auto &[key, item] : items) {
    if (!key.is(String) && !key.isNumber() && !key.is(None))
      throw Problem{std::string("a key is a text or a number, not ") +
                    key.describe()};
    nest(value, item);
    value.set(key, std::move(item));
  }
  return value;
}
Value Value::object(Members members) {
  Items items;
  for (auto &[name, member] : members)
    items.emplace_back(string(std::move(name)), std::move(member));
  return object(std::move(items));
}
Value Value::callable(std::string name, Function function) {
  Value value;
  value.kind = Callable;
  value.text = std::move(name);
  value.function = std::make_shared<Function>(std::move(function));
  return value;
}

Value Value::fromJson(const ordered_json &json) {
  if (json.is_null())
    return none();
  if (json.is_boolean())
    return boolean(json.get<bool>());
  if (json.is_number_integer() &&
      !(json.is_number_unsigned() &&
        json.get<uint64_t>() > std::numeric_limits<int64_t>::max()))
    return number(json.get<int64_t>());
  if (json.is_number())
    return number(json.get<double>());
  if (json.is_string())
    return string(json.get<std::string>());
  if (json.is_array()) {
    std::vector<Value> items;
    for (const ordered_json &item : json)
      items.push_back(fromJson(item));
    return array(std::move(items));
  }
  Members members;
  for (const auto &[key, item] : json.items())
    members.emplace_back(key, fromJson(item));
  return object(std::move(members));
}

double Value::asReal() const {
  return kind == Float ? real
         : kind == Int ? static_cast<double>(integer)
                       : static_cast<double>(flag);
}

int64_t Value::asInteger(const char *what) const {
  if (kind == Bool)
    return flag;
  if (kind != Int)
    throw Problem{std::string(what) + " is an integer, not " + describe()};
  return integer;
}

const std::string &Value::asText(const char *what) const {
  if (kind != String)
    throw Problem{std::string(what) + " is a text, not " + describe()};
  return text;
}

bool Value::truth() const {
  switch (kind) {
  case Undefined:
  case None:
    return false;
  case Bool:
    return flag;
  case Int:
    return integer != 0;
  case Float:
    return real != 0;
  case String:
    return !text.empty();
  case List:
    return !list->empty();
  case Dict:
    return isNamespace || !dict->empty();
  case Callable:
    return true;
  }
  return false;
}

Value *Value::find(std::string_view key) const {
  if (kind == Dict)
    for (auto &[name, value] : *dict)
      if (name.is(String) && name.text == key)
        return &value;
  return nullptr;
}

Value *Value::find(const Value &key) const {
  if (key.is(String))
    return find(key.text);
  if (kind == Dict)
    for (auto &[other, value] : *dict)
      if (equal(other, key))
        return &value;
  return nullptr;
}

void Value::set(const Value &key, Value value) const {
  if (Value *old = find(key))
    *old = std::move(value);
  else
    dict->emplace_back(key, std::move(value));
}

const char *Value::describe() const {
  switch (kind) {
  case Undefined:
    return "undefined";
  case None:
    return "none";
  case Bool:
    return "true or false";
  case Int:
    return "an integer";
  case Float:
    return "a number";
  case String:
    return "a text";
  case List:
    return "a list";
  case Dict:
    return "a dictionary";
  case Callable:
    return "a function";
  }
  return "";
}

/// The shortest digits that mean the number, as Python writes them.
static std::string realText(double real) {
  if (std::isnan(real))
    return "nan";
  if (std::isinf(real))
    return real < 0 ? "-inf" : "inf";
  char digits[64];
  double magnitude = std::fabs(real);
  bool isPlain = magnitude == 0 || (magnitude >= 1e-4 && magnitude < 1e16);
  auto result = std::to_chars(digits, digits + sizeof digits, real,
                              isPlain ? std::chars_format::fixed
                                      : std::chars_format::scientific);
  std::string text(digits, result.ptr);
  if (isPlain && text.find('.') == std::string::npos)
    text += ".0";
  return text;
}

std::string Value::str() const {
  switch (kind) {
  case Undefined:
    return "";
  case None:
    return "None";
  case Bool:
    return flag ? "True" : "False";
  case Int:
    return std::to_string(integer);
  case Float:
    return realText(real);
  case String:
    return text;
  case List:
  case Dict:
  case Callable:
    return repr();
  }
  return "";
}

std::string Value::repr() const {
  if (kind == String) {
    bool single = text.find('\'') != std::string::npos &&
                  text.find('"') == std::string::npos;
    char quote = single ? '"' : '\'';
    std::string result(1, quote);
    for (char c : text) {
      if (c == '\\' || c == quote)
        (result += '\\') += c;
      else if (c == '\n')
        result += "\\n";
      else if (c == '\t')
        result += "\\t";
      else if (c == '\r')
        result += "\\r";
      else
        result += c;
    }
    return result + quote;
  }
  if (kind == List) {
    std::string result = isTuple ? "(" : "[";
    for (size_t i = 0; i < list->size(); ++i) {
      result += (i ? ", " : "") + (*list)[i].repr();
      requireRoom(result.size());
    }
    if (isTuple && list->size() == 1)
      result += ",";
    return result + (isTuple ? ")" : "]");
  }
  if (kind == Dict) {
    std::string result = "{";
    for (const auto &[key, value] : *dict) {
      result +=
          (result.size() > 1 ? ", " : "") + key.repr() + ": " + value.repr();
      requireRoom(result.size());
    }
    return result + "}";
  }
  if (kind == Callable)
    return "<function " + text + ">";
  return kind == Undefined ? "Undefined" : str();
}

bool equal(const Value &a, const Value &b) {
  spend(sizeof(Value));
  if (a.isNumber() && b.isNumber())
    return a.is(Value::Float) || b.is(Value::Float)
               ? a.asReal() == b.asReal()
               : a.asInteger("") == b.asInteger("");
  if (a.kind != b.kind)
    return false;
  switch (a.kind) {
  case Value::String:
    spend(a.text.size());
    return a.text == b.text;
  case Value::List:
    return a.list == b.list || std::ranges::equal(*a.list, *b.list, equal);
  case Value::Dict:
    return a.dict == b.dict ||
           (a.dict->size() == b.dict->size() &&
            std::ranges::all_of(*a.dict, [&](const auto &member) {
              const Value *other = b.find(member.first);
              return other && equal(member.second, *other);
            }));
  case Value::Callable:
    return a.function == b.function;
  default:
    return true;
  }
}

int compare(const Value &a, const Value &b) {
  if (a.isNumber() && b.isNumber()) {
    if (!a.is(Value::Float) && !b.is(Value::Float)) {
      int64_t x = a.asInteger(""), y = b.asInteger("");
      return x < y ? -1 : x > y;
    }
    double x = a.asReal(), y = b.asReal();
    if (std::isnan(x) || std::isnan(y))
      throw Problem{"NaN has no order among numbers"};
    return x < y ? -1 : x > y;
  }
  spend(sizeof(Value) + std::min(a.text.size(), b.text.size()));
  if (a.is(Value::String) && b.is(Value::String))
    return a.text.compare(b.text);
  if (a.is(Value::List) && b.is(Value::List)) {
    for (size_t i = 0; i < a.list->size() && i < b.list->size(); ++i)
      if (!equal((*a.list)[i], (*b.list)[i]))
        return compare((*a.list)[i], (*b.list)[i]);
    return a.list->size() < b.list->size() ? -1
                                           : a.list->size() > b.list->size();
  }
  throw Problem{std::string("there is no order between ") + a.describe() +
                " and " + b.describe()};
}

bool contains(const Value &b, const Value &a) {
  switch (b.kind) {
  case Value::String:
    spend(b.text.size());
    return b.text.find(a.asText("what is looked for in a text")) !=
           std::string::npos;
  case Value::List:
    return std::ranges::any_of(
        *b.list, [&](const Value &item) { return equal(item, a); });
  case Value::Dict:
    return b.find(a) != nullptr;
  case Value::Undefined:
    return false;
  default:
    throw Problem{std::string("nothing is in ") + b.describe()};
  }
}

std::vector<std::string> charactersOf(std::string_view text) {
  std::vector<std::string> characters;
  spend(text.size() * sizeof(std::string));
  for (size_t at = 0; at < text.size();) {
    size_t bytes = decodeUtf8(text, at).bytes;
    characters.emplace_back(text.substr(at, bytes));
    at += bytes;
  }
  return characters;
}

std::vector<Value> itemsOf(const Value &value) {
  std::vector<Value> items;
  switch (value.kind) {
  case Value::List:
    spend(value.list->size() * sizeof(Value));
    return *value.list;
  case Value::Dict:
    for (const auto &[key, member] : *value.dict)
      items.push_back(key);
    return items;
  case Value::String:
    for (std::string &character : charactersOf(value.text))
      items.push_back(Value::string(std::move(character)));
    return items;
  case Value::Undefined:
    return items;
  default:
    throw Problem{std::string("there is nothing to go over in ") +
                  value.describe()};
  }
}

/// A text in JSON, its characters as they are, or as escapes where these are to
/// be `ascii`.
static std::string jsonString(std::string_view text, bool ascii) {
  if (ascii)
    return ordered_json(text).dump(-1, ' ', /*ensure_ascii=*/true,
                                   ordered_json::error_handler_t::replace);
  std::string result = "\"";
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      (result += '\\') += c;
    else if (c == '\n')
      result += "\\n";
    else if (c == '\t')
      result += "\\t";
    else if (c == '\r')
      result += "\\r";
    else if (c == '\b')
      result += "\\b";
    else if (c == '\f')
      result += "\\f";
    else if (byte < 0x20) {
      const char *digits = "0123456789abcdef";
      result += "\\u00";
      result += digits[byte >> 4];
      result += digits[byte & 15];
    } else {
      result += c;
    }
  }
  return result + "\"";
}

/// A key in JSON, where all are texts.
static std::string keyText(const Value &key) {
  return key.is(Value::String) ? key.text : toJson(key);
}

static std::string jsonText(const Value &value, const JsonForm &form,
                            int64_t depth) {
  std::string inner = form.indent < 0 ? "" : "\n", outer = inner;
  if (form.indent >= 0) {
    inner.append(static_cast<size_t>(form.indent * (depth + 1)), ' ');
    outer.append(static_cast<size_t>(form.indent * depth), ' ');
  }
  std::string result;
  auto add = [&](const std::string &item) {
    result += (result.empty() ? "" : form.comma) + inner + item;
    requireRoom(result.size());
  };
  switch (value.kind) {
  case Value::None:
    return "null";
  case Value::Bool:
    return value.flag ? "true" : "false";
  case Value::Int:
  case Value::Float:
    return value.str();
  case Value::String:
    return jsonString(value.text, form.ascii);
  case Value::List:
    for (const Value &item : *value.list)
      add(jsonText(item, form, depth + 1));
    return result.empty() ? "[]" : "[" + result + outer + "]";
  case Value::Dict: {
    Items members = *value.dict;
    if (form.sorts)
      std::ranges::sort(members, [](const auto &a, const auto &b) {
        return compare(a.first, b.first) < 0;
      });
    for (const auto &[key, member] : members)
      add(jsonString(keyText(key), form.ascii) + form.colon +
          jsonText(member, form, depth + 1));
    return result.empty() ? "{}" : "{" + result + outer + "}";
  }
  case Value::Undefined:
  case Value::Callable:
    break;
  }
  throw Problem{std::string("JSON cannot hold ") + value.describe()};
}

std::string toJson(const Value &value, const JsonForm &form) {
  return jsonText(value, form, 0);
}

} // namespace tfm::jinja
