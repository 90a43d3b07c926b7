//===- jinja_builtins.cpp - filters, tests and methods ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/chat/jinja_render.h"
#include "runtime/tokenizer/utf8.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <utf8proc.h>

namespace tfm::jinja {

namespace {

/// Whether a character is one of those that `strip` takes off.
bool isStripped(std::string_view character, const std::string *of) {
  if (of)
    return of->find(character) != std::string::npos;
  return isSpace(decodeUtf8(character, 0).value);
}

std::string strip(const std::string &text, bool left, bool right,
                  const std::string *of) {
  std::vector<std::string> characters = charactersOf(text);
  size_t begin = 0, end = characters.size();
  while (left && begin < end && isStripped(characters[begin], of))
    ++begin;
  while (right && end > begin && isStripped(characters[end - 1], of))
    --end;
  std::string result;
  for (size_t i = begin; i < end; ++i)
    result += characters[i];
  return result;
}

/// The characters that an argument has taken off; null for blanks.
const std::string *strippedBy(const Value *argument) {
  return argument && !argument->is(Value::None) ? &argument->asText("`chars`")
                                                : nullptr;
}

/// The text with each character mapped, told whether a word begins there.
template <typename Map> std::string mapped(const std::string &text, Map map) {
  std::string result;
  bool inWord = false;
  for (const std::string &character : charactersOf(text)) {
    int32_t c = decodeUtf8(character, 0).value;
    if (c < 0) {
      result += character;
      continue;
    }
    appendUtf8(map(c, inWord), result);
    utf8proc_category_t category = utf8proc_category(c);
    inWord =
        category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
  }
  return result;
}

std::string replace(const std::string &text, const std::string &from,
                    const std::string &to, int64_t most) {
  std::string result;
  size_t at = 0;
  if (from.empty()) { // before every character and behind the last
    for (const std::string &character : charactersOf(text)) {
      if (most != 0) {
        result += to;
        --most;
      }
      result += character;
      requireRoom(result.size());
    }
    return most != 0 ? result + to : result;
  }
  for (size_t found = text.find(from); found != std::string::npos && most != 0;
       found = text.find(from, at), --most) {
    result.append(text, at, found - at);
    result += to;
    requireRoom(result.size());
    at = found + from.size();
  }
  return result + text.substr(at);
}

// Of two characters the other form is two, too.
std::string upper(const std::string &text) {
  return mapped(replace(text, "\u00DF", "SS", -1),
                [](int32_t c, bool) { return utf8proc_toupper(c); });
}
std::string lower(const std::string &text) {
  return mapped(replace(text, "\u0130", "i\u0307", -1),
                [](int32_t c, bool) { return utf8proc_tolower(c); });
}
std::string title(const std::string &text) {
  return mapped(text, [](int32_t c, bool inWord) {
    return inWord ? utf8proc_tolower(c) : utf8proc_totitle(c);
  });
}
/// The filter, which has its own idea of where a word begins: behind a blank or
/// one of `-({[<`.
std::string titleOfWords(const std::string &text) {
  bool begins = true;
  return mapped(text, [&](int32_t c, bool) {
    bool isFirst = begins;
    begins = isSpace(c) ||
             (c < 0x80 && std::string_view("-({[<").find(
                              static_cast<char>(c)) != std::string_view::npos);
    return isFirst ? utf8proc_toupper(c) : utf8proc_tolower(c);
  });
}
std::string capitalize(const std::string &text) {
  bool isFirst = true;
  return mapped(text, [&](int32_t c, bool) {
    return std::exchange(isFirst, false) ? utf8proc_totitle(c)
                                         : utf8proc_tolower(c);
  });
}

Value texts(std::vector<std::string> parts) {
  std::vector<Value> items;
  for (std::string &part : parts)
    items.push_back(Value::string(std::move(part)));
  return Value::array(std::move(items));
}

Value splitAt(const std::string &text, const Value *separator, int64_t most,
              bool fromRight) {
  std::vector<std::string> parts;
  if (!separator || separator->is(Value::None)) {
    std::vector<std::string> characters = charactersOf(text);
    for (size_t i = 0; i < characters.size();) {
      if (isStripped(characters[i], nullptr)) {
        ++i;
        continue;
      }
      std::string &word = parts.emplace_back();
      bool isLast = most >= 0 && static_cast<int64_t>(parts.size()) > most;
      while (i < characters.size() &&
             (isLast || !isStripped(characters[i], nullptr)))
        word += characters[i++];
      if (isLast)
        word = strip(word, false, true, nullptr);
    }
    return texts(std::move(parts));
  }
  const std::string &mark = separator->asText("the separator of `split`");
  if (mark.empty())
    throw Problem{"the separator of `split` is empty"};
  std::string_view rest = text;
  while (most < 0 || static_cast<int64_t>(parts.size()) < most) {
    size_t found = fromRight ? rest.rfind(mark) : rest.find(mark);
    if (found == std::string::npos)
      break;
    if (fromRight) {
      parts.emplace_back(rest.substr(found + mark.size()));
      rest.remove_suffix(rest.size() - found);
    } else {
      parts.emplace_back(rest.substr(0, found));
      rest.remove_prefix(found + mark.size());
    }
  }
  parts.emplace_back(rest);
  if (fromRight)
    std::ranges::reverse(parts);
  return texts(std::move(parts));
}

/// The lines of a text, which end where Python's do, each with its end if
/// `withEnds`.
std::vector<std::string> linesOf(const std::string &text,
                                 bool withEnds = false) {
  std::vector<std::string> lines;
  bool isOpen = false, isReturn = false;
  for (const std::string &character : charactersOf(text)) {
    int32_t c = decodeUtf8(character, 0).value;
    bool isPair = std::exchange(isReturn, c == '\r') && c == '\n';
    bool ends = (c >= '\n' && c <= '\r') || (c >= 0x1C && c <= 0x1E) ||
                c == 0x85 || c == 0x2028 || c == 0x2029;
    if (!isPair && !std::exchange(isOpen, !ends))
      lines.emplace_back();
    if (withEnds || !ends)
      lines.back() += character;
  }
  return lines;
}

/// `startswith` and `endswith` take a text or a tuple of them.
bool beginsOrEnds(std::string_view text, const Value &with, bool begins) {
  if (with.is(Value::List))
    return std::ranges::any_of(*with.list, [&](const Value &one) {
      return beginsOrEnds(text, one, begins);
    });
  const std::string &part = with.asText(begins ? "what `startswith` looks for"
                                               : "what `endswith` looks for");
  return begins ? text.starts_with(part) : text.ends_with(part);
}

std::string join(const std::vector<Value> &items, const std::string &between) {
  std::string result;
  for (size_t i = 0; i < items.size(); ++i) {
    result += (i ? between : "") + items[i].str();
    requireRoom(result.size());
  }
  return result;
}

int64_t lengthOf(const Value &value) {
  switch (value.kind) {
  case Value::String:
    return static_cast<int64_t>(countCodePoints(value.text));
  case Value::List:
    return static_cast<int64_t>(value.list->size());
  case Value::Dict:
    return static_cast<int64_t>(value.dict->size());
  case Value::Undefined:
    return 0;
  default:
    throw Problem{std::string(value.describe()) + " has no length"};
  }
}

Value pairs(const Value &dict) {
  std::vector<Value> items;
  if (dict.is(Value::Undefined))
    return Value::array({});
  if (!dict.is(Value::Dict))
    throw Problem{std::string("a dictionary has items, not ") +
                  dict.describe()};
  for (const auto &[key, member] : *dict.dict) {
    Value pair = Value::array({key, member});
    pair.isTuple = true;
    items.push_back(std::move(pair));
  }
  return Value::array(std::move(items));
}

/// `a.b.c` of an item, for the filters that look at a member of each.
Value memberOf(const Value &item, std::string_view path) {
  Value value = item;
  while (!path.empty()) {
    size_t dot = std::min(path.find('.'), path.size());
    const Value *found = value.find(path.substr(0, dot));
    value = found ? *found : Value::undefined(std::string(path));
    path.remove_prefix(std::min(dot + 1, path.size()));
  }
  return value;
}

/// `select`, `reject`, and the same by a member.
Value chosen(const Arguments &arguments, bool byMember, bool keeps) {
  std::vector<Value> result;
  size_t next = byMember ? 2 : 1;
  const Value *member = byMember ? arguments.find(1, "attribute") : nullptr;
  const Value *test = arguments.find(next, "");
  for (const Value &item : itemsOf(arguments.positional[0])) {
    Value value =
        byMember ? memberOf(item, member->asText("a member's name")) : item;
    bool holds = value.truth();
    if (test) {
      Arguments inner;
      inner.positional = {value};
      for (size_t i = next + 1; i < arguments.positional.size(); ++i)
        inner.positional.push_back(arguments.positional[i]);
      std::optional<bool> answer =
          applyTest(test->asText("a test's name"), inner);
      if (!answer)
        throw Problem{"the test `" + test->text + "` is not supported"};
      holds = *answer;
    }
    if (holds == keeps)
      result.push_back(item);
  }
  return Value::array(std::move(result));
}

Value map(const Arguments &arguments) {
  std::vector<Value> result;
  const Value *member = arguments.find(SIZE_MAX, "attribute");
  const Value *absent = arguments.find(SIZE_MAX, "default");
  for (const Value &item : itemsOf(arguments.positional[0])) {
    if (member) {
      Value found = memberOf(item, member->asText("a member's name"));
      result.push_back(absent && found.is(Value::Undefined) ? *absent : found);
      continue;
    }
    if (arguments.positional.size() < 2)
      throw Problem{"`map` takes a filter or `attribute`"};
    Arguments inner;
    inner.positional = {item};
    inner.positional.insert(inner.positional.end(),
                            arguments.positional.begin() + 2,
                            arguments.positional.end());
    const std::string &name = arguments.positional[1].asText("a filter's name");
    std::optional<Value> mapped = applyFilter(name, inner);
    if (!mapped)
      throw Problem{"the filter `" + name + "` is not supported"};
    result.push_back(std::move(*mapped));
  }
  return Value::array(std::move(result));
}

/// The items by their keys; equal ones stay as they are.
std::vector<Value> inOrder(const std::vector<Value> &items,
                           const std::vector<Value> &keys, bool falls) {
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, [&](size_t a, size_t b) {
    int sign = compare(keys[a], keys[b]);
    return sign == 0 ? a < b : (sign < 0) != falls;
  });
  std::vector<Value> result;
  for (size_t i : order)
    result.push_back(items[i]);
  return result;
}

/// By what items are compared: a member of theirs, if one is named, and texts
/// without regard to case unless that counts.
std::vector<Value> keysOf(const std::vector<Value> &items, const Value *caseful,
                          const Value *member) {
  std::vector<Value> keys;
  for (const Value &item : items) {
    keys.push_back(member ? memberOf(item, member->asText("a member's name"))
                          : item);
    if (keys.back().is(Value::String) && !(caseful && caseful->truth()))
      keys.back().text = lower(keys.back().text);
  }
  return keys;
}

Value sorted(const Arguments &arguments) {
  std::vector<Value> items = itemsOf(arguments.positional[0]);
  const Value *reverse = arguments.find(1, "reverse");
  std::vector<Value> keys = keysOf(items, arguments.find(2, "case_sensitive"),
                                   arguments.find(3, "attribute"));
  return Value::array(inOrder(items, keys, reverse && reverse->truth()));
}

/// The least item, or the greatest; the first of equal ones.
Value extreme(const Arguments &arguments, bool isGreatest) {
  std::vector<Value> items = itemsOf(arguments.positional[0]);
  if (items.empty())
    return Value::undefined("the extreme of nothing");
  std::vector<Value> keys = keysOf(items, arguments.find(1, "case_sensitive"),
                                   arguments.find(2, "attribute"));
  size_t best = 0;
  for (size_t i = 1; i < keys.size(); ++i)
    if (int sign = compare(keys[i], keys[best]);
        isGreatest ? sign > 0 : sign < 0)
      best = i;
  return items[best];
}

/// The number that a text is, as Python reads it: blanks around it, a sign
/// before it.
template <typename Number>
std::optional<Number> numberIn(const std::string &text) {
  std::string bare = strip(text, true, true, nullptr);
  if (bare.starts_with('+') && !bare.starts_with("+-"))
    bare.erase(0, 1);
  Number number = 0;
  const char *end = bare.data() + bare.size();
  auto read = std::from_chars(bare.data(), end, number);
  return !bare.empty() && read.ec == std::errc() && read.ptr == end
             ? std::optional(number)
             : std::nullopt;
}

/// Python's `text.format(...)` with arguments by place and by name, as they
/// are.
std::string formatted(const std::string &text, const Arguments &arguments) {
  std::string result;
  size_t next = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '{' && text[i] != '}') {
      result += text[i];
      continue;
    }
    if (text.substr(i + 1, 1) == text.substr(i, 1)) {
      result += text[i++];
      continue;
    }
    size_t end = text.find('}', i);
    if (text[i] == '}' || end == std::string::npos)
      throw Problem{"`format` finds a brace without its other one"};
    const std::string field = text.substr(i + 1, end - i - 1);
    if (field.find_first_of("!:.[{") != std::string::npos)
      throw Problem{"`format` is not supported with `{" + field + "}`"};
    std::optional<int64_t> place = numberIn<int64_t>(field);
    if (field.empty())
      place = next++;
    const Value *found =
        arguments.find(place ? static_cast<size_t>(*place) : SIZE_MAX, field);
    if (!found)
      throw Problem{"`format` has no argument for `{" + field + "}`"};
    result += found->str();
    requireRoom(result.size());
    i = end;
  }
  return result;
}

Value toInteger(const Value &value, int64_t absent) {
  if (value.isNumber() && !value.is(Value::Float))
    return Value::number(value.asInteger(""));
  double real = value.is(Value::Float) ? value.real : NAN;
  if (value.is(Value::String)) {
    if (std::optional<int64_t> number = numberIn<int64_t>(value.text))
      return Value::number(*number);
    real = numberIn<double>(value.text).value_or(NAN);
  }
  return Value::number(std::fabs(real) < 9e18 ? static_cast<int64_t>(real)
                                              : absent);
}

Value toReal(const Value &value) {
  if (value.isNumber())
    return Value::number(value.asReal());
  return Value::number(
      value.is(Value::String) ? numberIn<double>(value.text).value_or(0) : 0.0);
}

std::string indented(const Arguments &arguments) {
  const std::string &text = arguments.positional[0].asText("what is indented");
  const Value *width = arguments.find(1, "width");
  const Value *first = arguments.find(2, "first");
  const Value *blank = arguments.find(3, "blank");
  std::string space =
      width && width->is(Value::String)
          ? width->text
          : std::string(static_cast<size_t>(std::clamp<int64_t>(
                            width ? width->asInteger("`width`") : 4, 0, 1000)),
                        ' ');
  std::string result;
  bool isFirst = true;
  for (const std::string &line : linesOf(text + "\n")) {
    bool wants = isFirst ? first && first->truth()
                         : !line.empty() || (blank && blank->truth());
    result += (isFirst ? "" : "\n") + (wants ? space : "") + line;
    isFirst = false;
  }
  return result;
}

/// How `tojson` writes.
JsonForm jsonForm(const Arguments &arguments) {
  auto given = [&](size_t place, const char *name) {
    const Value *value = arguments.find(place, name);
    return value && !value->is(Value::None) ? value : nullptr;
  };
  JsonForm form;
  if (const Value *ascii = given(1, "ensure_ascii"))
    form.ascii = ascii->truth();
  if (const Value *sorts = given(4, "sort_keys"))
    form.sorts = sorts->truth();
  if (const Value *indent = given(2, "indent")) {
    form.indent = std::clamp<int64_t>(indent->asInteger("`indent`"), 0, 100);
    form.comma = ",";
  }
  if (const Value *between = given(3, "separators")) {
    std::vector<Value> texts = itemsOf(*between);
    if (texts.size() != 2)
      throw Problem{"`separators` are two texts"};
    form.comma = texts[0].asText("a separator");
    form.colon = texts[1].asText("a separator");
  }
  return form;
}

/// The filters, and what each takes beside its value.
const std::pair<std::string_view, Parameters> filters[] = {
    {"abs", {}},
    {"capitalize", {}},
    {"count", {}},
    {"d", {0, 2, {"default_value", "boolean"}}},
    {"default", {0, 2, {"default_value", "boolean"}}},
    {"dictsort", {}},
    {"first", {}},
    {"float", {}},
    {"indent", {0, 3, {"width", "first", "blank"}}},
    {"int", {0, 1, {"default"}}},
    {"items", {}},
    {"join", {0, 2, {"d", "attribute"}}},
    {"last", {}},
    {"length", {}},
    {"list", {}},
    {"lower", {}},
    {"map", {0, anyNumber, {"attribute", "default"}}},
    {"max", {0, 2, {"case_sensitive", "attribute"}}},
    {"min", {0, 2, {"case_sensitive", "attribute"}}},
    {"reject", {0, anyNumber, {}}},
    {"rejectattr", {1, anyNumber, {"attribute"}}},
    {"replace", {2, 3, {"old", "new", "count"}}},
    {"reverse", {}},
    {"safe", {}},
    {"select", {0, anyNumber, {}}},
    {"selectattr", {1, anyNumber, {"attribute"}}},
    {"sort", {0, 3, {"reverse", "case_sensitive", "attribute"}}},
    {"string", {}},
    {"sum", {}},
    {"title", {}},
    {"tojson", {0, 4, {"ensure_ascii", "indent", "separators", "sort_keys"}}},
    {"trim", {0, 1, {"chars"}}},
    {"unique", {}},
    {"upper", {}}};

/// One of these.
Value applied(std::string_view name, const Arguments &arguments) {
  const Value &x = arguments.positional[0];
  auto text = [&] { return x.str(); };
  auto argument = [&](size_t place, const char *key) {
    return arguments.find(place, key);
  };
  if (name == "trim")
    return Value::string(
        strip(text(), true, true, strippedBy(argument(1, "chars"))));
  if (name == "length" || name == "count")
    return Value::number(lengthOf(x));
  if (name == "tojson")
    return Value::string(toJson(x, jsonForm(arguments)));
  if (name == "default" || name == "d") {
    const Value *other = argument(1, "default_value");
    const Value *alsoFalse = argument(2, "boolean");
    bool isAbsent = x.is(Value::Undefined) ||
                    (alsoFalse && alsoFalse->truth() && !x.truth());
    return !isAbsent ? x : other ? *other : Value::string("");
  }
  if (name == "upper")
    return Value::string(upper(text()));
  if (name == "lower")
    return Value::string(lower(text()));
  if (name == "title")
    return Value::string(titleOfWords(text()));
  if (name == "capitalize")
    return Value::string(capitalize(text()));
  if (name == "string" || name == "safe")
    return Value::string(text());
  if (name == "replace") {
    const Value *from = argument(1, "old"), *to = argument(2, "new"),
                *most = argument(3, "count");
    return Value::string(replace(text(), from->str(), to->str(),
                                 most ? most->asInteger("`count`") : -1));
  }
  if (name == "join") {
    const Value *between = argument(1, "d"), *member = argument(2, "attribute");
    std::vector<Value> items = itemsOf(x);
    if (member)
      for (Value &item : items)
        item = memberOf(item, member->asText("a member's name"));
    return Value::string(join(items, between ? between->str() : ""));
  }
  if (name == "first" || name == "last") {
    std::vector<Value> items = itemsOf(x);
    if (items.empty())
      return Value::undefined("the " + std::string(name) + " of nothing");
    return name == "first" ? items.front() : items.back();
  }
  if (name == "list")
    return Value::array(itemsOf(x));
  if (name == "reverse") {
    std::vector<Value> items = itemsOf(x);
    std::ranges::reverse(items);
    return x.is(Value::String) ? Value::string(join(items, ""))
                               : Value::array(std::move(items));
  }
  if (name == "items")
    return pairs(x);
  if (name == "dictsort") {
    Value all = pairs(x);
    std::vector<Value> keys;
    for (const Value &pair : *all.list) {
      keys.push_back((*pair.list)[0]);
      keys.back().text = lower(keys.back().text);
    }
    return Value::array(inOrder(*all.list, keys, /*falls=*/false));
  }
  if (name == "int") {
    const Value *absent = argument(1, "default");
    return toInteger(x, absent ? absent->asInteger("`default`") : 0);
  }
  if (name == "float")
    return toReal(x);
  if (name == "abs") {
    if (x.is(Value::Float))
      return Value::number(std::fabs(x.real));
    int64_t number = x.asInteger("`abs`");
    if (number == std::numeric_limits<int64_t>::min())
      throw Problem{"`abs` of the least integer is none"};
    return Value::number(std::abs(number));
  }
  if (name == "indent")
    return Value::string(indented(arguments));
  constexpr std::string_view overItems[] = {"select", "reject", "selectattr",
                                            "rejectattr", "map"};
  if (x.is(Value::None) && std::ranges::count(overItems, name) > 0)
    return Value::array({}); // which they do not look at
  if (name == "select" || name == "reject")
    return chosen(arguments, /*byMember=*/false, name == "select");
  if (name == "selectattr" || name == "rejectattr")
    return chosen(arguments, /*byMember=*/true, name == "selectattr");
  if (name == "map")
    return map(arguments);
  if (name == "sort")
    return sorted(arguments);
  if (name == "min" || name == "max")
    return extreme(arguments, name == "max");
  if (name == "unique") {
    std::vector<Value> items, keys;
    for (const Value &item : itemsOf(x)) {
      Value key = item;
      key.text = lower(key.text);
      if (std::ranges::any_of(
              keys, [&](const Value &old) { return equal(old, key); }))
        continue;
      keys.push_back(std::move(key));
      items.push_back(item);
    }
    return Value::array(std::move(items));
  }
  Value sum = Value::number(int64_t{0}); // the last one, `sum`
  for (const Value &item : itemsOf(x)) {
    if (item.isNumber() && (item.is(Value::Float) || sum.is(Value::Float))) {
      sum = Value::number(sum.asReal() + item.asReal());
      continue;
    }
    int64_t total = 0;
    if (__builtin_add_overflow(sum.integer, item.asInteger("`sum`"), &total))
      throw Problem{"`sum` is beyond 64 bits"};
    sum = Value::number(total);
  }
  return sum;
}

/// Nothing where there is no such test; `other()` is the value beside `x` that
/// some tests take.
template <typename Other>
std::optional<bool> holds(std::string_view name, const Value &x, Other other) {
  if (name == "defined")
    return !x.is(Value::Undefined);
  if (name == "undefined")
    return x.is(Value::Undefined);
  if (name == "none")
    return x.is(Value::None);
  if (name == "string")
    return x.is(Value::String);
  if (name == "mapping")
    return x.is(Value::Dict);
  if (name == "iterable")
    return x.is(Value::String) || x.is(Value::List) || x.is(Value::Dict) ||
           x.is(Value::Undefined);
  if (name == "sequence")
    return x.is(Value::String) || x.is(Value::List) || x.is(Value::Dict) ||
           x.is(Value::Undefined);
  if (name == "number")
    return x.isNumber();
  if (name == "integer")
    return x.is(Value::Int);
  if (name == "float")
    return x.is(Value::Float);
  if (name == "boolean")
    return x.is(Value::Bool);
  if (name == "callable")
    return x.is(Value::Callable);
  if (name == "true")
    return x.is(Value::Bool) && x.flag;
  if (name == "false")
    return x.is(Value::Bool) && !x.flag;
  if (name == "odd")
    return x.asInteger("what is odd") % 2 != 0;
  if (name == "even")
    return x.asInteger("what is even") % 2 == 0;
  if (name == "divisibleby") {
    int64_t by = other().asInteger("what divides");
    if (by == 0)
      throw Problem{"division by zero"};
    // Of the least integer no machine has the remainder of -1.
    return by == -1 || x.asInteger("what is divided") % by == 0;
  }
  if (name == "equalto" || name == "eq" || name == "==")
    return equal(x, other());
  if (name == "ne" || name == "!=")
    return !equal(x, other());
  if (name == "gt" || name == "greaterthan" || name == ">")
    return compare(x, other()) > 0;
  if (name == "ge" || name == ">=")
    return compare(x, other()) >= 0;
  if (name == "lt" || name == "lessthan" || name == "<")
    return compare(x, other()) < 0;
  if (name == "le" || name == "<=")
    return compare(x, other()) <= 0;
  if (name == "in")
    return contains(other(), x);
  if (name == "lower")
    return lower(x.str()) == x.str() && upper(x.str()) != x.str();
  if (name == "upper")
    return upper(x.str()) == x.str() && lower(x.str()) != x.str();
  return std::nullopt;
}

} // namespace

std::optional<Value> applyFilter(std::string_view name,
                                 const Arguments &arguments) {
  for (const auto &[filter, takes] : filters)
    if (name == filter) {
      arguments.require("the filter `" + std::string(name) + "`", takes,
                        /*from=*/1);
      return applied(name, arguments);
    }
  return std::nullopt;
}

std::optional<bool> applyTest(std::string_view name,
                              const Arguments &arguments) {
  const std::string test = "the test `" + std::string(name) + "`";
  size_t takes = 0;
  std::optional<bool> result =
      holds(name, arguments.positional[0], [&]() -> const Value & {
        takes = 1;
        arguments.require(test, {1, 1, {}}, /*from=*/1);
        return arguments.positional[1];
      });
  if (result)
    arguments.require(test, {takes, takes, {}}, /*from=*/1);
  return result;
}

namespace {

/// Between which places `find` and the like look: the arguments behind the
/// first one, as Python's slices have them.
std::pair<int64_t, int64_t> rangeIn(int64_t size, const Arguments &given) {
  auto place = [&](size_t i, int64_t absent) {
    const Value *value = given.find(i, "");
    if (!value || value->is(Value::None))
      return absent;
    int64_t at = value->asInteger("a place");
    return std::max<int64_t>(at < 0 ? at + size : at, 0);
  };
  return {place(1, 0), std::min(place(2, size), size)};
}

/// That part of a text, and how many characters are before it; nothing where it
/// would end before it begins.
struct Part {
  int64_t begin;
  std::string_view text;
};
std::optional<Part> partOf(std::string_view text, const Arguments &given) {
  if (given.positional.size() == 1)
    return Part{0, text};
  auto [begin, end] =
      rangeIn(static_cast<int64_t>(countCodePoints(text)), given);
  if (begin > end)
    return std::nullopt;
  auto bytesOf = [&](int64_t characters) {
    size_t at = 0;
    for (; characters > 0; --characters)
      at += decodeUtf8(text, at).bytes;
    return at;
  };
  size_t from = bytesOf(begin);
  return Part{begin, text.substr(from, bytesOf(end) - from)};
}

//===----------------------------------------------------------------------===//
// What methods do
//===----------------------------------------------------------------------===//

Value items(const Value &self, const Arguments &) { return pairs(self); }
Value keys(const Value &self, const Arguments &) {
  return Value::array(itemsOf(self));
}
Value values(const Value &self, const Arguments &) {
  std::vector<Value> items;
  for (const auto &[key, member] : *self.dict)
    items.push_back(member);
  return Value::array(std::move(items));
}
Value get(const Value &self, const Arguments &given) {
  const Value *found = self.find(given.positional[0]);
  const Value *absent = given.find(1, "");
  return found ? *found : absent ? *absent : Value::none();
}

Value index(const Value &self, const Arguments &given) {
  auto [begin, end] = rangeIn(static_cast<int64_t>(self.list->size()), given);
  for (int64_t i = begin; i < end; ++i)
    if (equal((*self.list)[static_cast<size_t>(i)], given.positional[0]))
      return Value::number(i);
  throw Problem{"the list does not hold this value"};
}
Value countItems(const Value &self, const Arguments &given) {
  return Value::number(static_cast<int64_t>(
      std::ranges::count_if(*self.list, [&](const Value &item) {
        return equal(item, given.positional[0]);
      })));
}

template <std::string (*map)(const std::string &)>
Value mappedText(const Value &self, const Arguments &) {
  return Value::string(map(self.text));
}

template <bool left, bool right>
Value stripped(const Value &self, const Arguments &given) {
  return Value::string(
      strip(self.text, left, right, strippedBy(given.find(0, ""))));
}

template <bool fromRight>
Value split(const Value &self, const Arguments &given) {
  const Value *most = given.find(1, "maxsplit");
  return splitAt(self.text, given.find(0, "sep"),
                 most ? most->asInteger("`maxsplit`") : -1, fromRight);
}

Value splitLines(const Value &self, const Arguments &given) {
  const Value *withEnds = given.find(0, "keepends");
  return texts(linesOf(self.text, withEnds && withEnds->truth()));
}

template <bool begins>
Value hasAtEnd(const Value &self, const Arguments &given) {
  std::optional<Part> part = partOf(self.text, given);
  return Value::boolean(part &&
                        beginsOrEnds(part->text, given.positional[0], begins));
}

template <bool last> Value find(const Value &self, const Arguments &given) {
  const std::string &what = given.positional[0].asText("what it looks for");
  std::optional<Part> part = partOf(self.text, given);
  size_t at = !part  ? std::string::npos
              : last ? part->text.rfind(what)
                     : part->text.find(what);
  return Value::number(at == std::string::npos
                           ? int64_t{-1}
                           : part->begin + static_cast<int64_t>(countCodePoints(
                                               part->text.substr(0, at))));
}

Value countTexts(const Value &self, const Arguments &given) {
  const std::string &what = given.positional[0].asText("what it looks for");
  std::optional<Part> part = partOf(self.text, given);
  size_t count = 0;
  if (part && what.empty()) // before every character and behind the last
    count = countCodePoints(part->text) + 1;
  else if (part)
    for (size_t i = part->text.find(what); i != std::string::npos;
         i = part->text.find(what, i + what.size()))
      ++count;
  return Value::number(static_cast<int64_t>(count));
}

Value replaceTexts(const Value &self, const Arguments &given) {
  const Value *most = given.find(2, "count");
  return Value::string(replace(self.text,
                               given.positional[0].asText("what is replaced"),
                               given.positional[1].asText("what replaces it"),
                               most ? most->asInteger("`count`") : -1));
}

Value joinTexts(const Value &self, const Arguments &given) {
  std::vector<Value> items = itemsOf(given.positional[0]);
  for (const Value &item : items)
    (void)item.asText("what is joined");
  return Value::string(join(items, self.text));
}

Value format(const Value &self, const Arguments &given) {
  return Value::string(formatted(self.text, given));
}

template <bool begins>
Value withoutEnd(const Value &self, const Arguments &given) {
  const std::string &part = given.positional[0].asText("what is removed");
  if (!beginsOrEnds(self.text, given.positional[0], begins))
    return self;
  return Value::string(
      begins ? self.text.substr(part.size())
             : self.text.substr(0, self.text.size() - part.size()));
}

bool isDigit(int32_t c) { return utf8proc_category(c) == UTF8PROC_CATEGORY_ND; }
bool isLetter(int32_t c) {
  utf8proc_category_t category = utf8proc_category(c);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}
template <bool (*holds)(int32_t)>
Value isOfAll(const Value &self, const Arguments &) {
  std::vector<std::string> characters = charactersOf(self.text);
  return Value::boolean(
      !characters.empty() &&
      std::ranges::all_of(characters, [](const std::string &character) {
        return holds(decodeUtf8(character, 0).value);
      }));
}

/// A method, and of what it is one.
struct Method {
  Value::Kind of;
  std::string_view name;
  Parameters takes;
  Value (*call)(const Value &self, const Arguments &given);
};

const Method methods[] = {
    {Value::Dict, "get", {1, 2, {}}, get},
    {Value::Dict, "items", {}, items},
    {Value::Dict, "keys", {}, keys},
    {Value::Dict, "values", {}, values},
    {Value::List, "count", {1, 1, {}}, countItems},
    {Value::List, "index", {1, 3, {}}, index},
    {Value::String, "capitalize", {}, mappedText<capitalize>},
    {Value::String, "count", {1, 3, {}}, countTexts},
    {Value::String, "endswith", {1, 3, {}}, hasAtEnd<false>},
    {Value::String, "find", {1, 3, {}}, find<false>},
    {Value::String, "format", {0, anyNumber, {anyName}}, format},
    {Value::String, "isalpha", {}, isOfAll<isLetter>},
    {Value::String, "isdigit", {}, isOfAll<isDigit>},
    {Value::String, "isspace", {}, isOfAll<isSpace>},
    {Value::String, "join", {1, 1, {}}, joinTexts},
    {Value::String, "lower", {}, mappedText<lower>},
    {Value::String, "lstrip", {0, 1, {}}, stripped<true, false>},
    {Value::String, "removeprefix", {1, 1, {}}, withoutEnd<true>},
    {Value::String, "removesuffix", {1, 1, {}}, withoutEnd<false>},
    {Value::String, "replace", {2, 3, {"", "", "count"}}, replaceTexts},
    {Value::String, "rfind", {1, 3, {}}, find<true>},
    {Value::String, "rsplit", {0, 2, {"sep", "maxsplit"}}, split<true>},
    {Value::String, "rstrip", {0, 1, {}}, stripped<false, true>},
    {Value::String, "split", {0, 2, {"sep", "maxsplit"}}, split<false>},
    {Value::String, "splitlines", {0, 1, {"keepends"}}, splitLines},
    {Value::String, "startswith", {1, 3, {}}, hasAtEnd<true>},
    {Value::String, "strip", {0, 1, {}}, stripped<true, true>},
    {Value::String, "title", {}, mappedText<title>},
    {Value::String, "upper", {}, mappedText<upper>}};

} // namespace

Value methodOf(const Value &object, const std::string &name) {
  for (const Method &method : methods)
    if (object.is(method.of) && name == method.name)
      return Value::callable(
          name, [self = object, &method](const Arguments &given) {
            given.require("`." + std::string(method.name) + "`", method.takes);
            return method.call(self, given);
          });
  return Value::undefined(name);
}

} // namespace tfm::jinja
