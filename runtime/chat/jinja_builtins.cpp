//===- jinja_builtins.cpp - filters and tests ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/chat/jinja_render.h"
#include "runtime/chat/jinja_text.h"
#include "runtime/support/utf8.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utf8proc.h>

namespace tfm::jinja {

namespace {

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

Value absolute(const Arguments &arguments) {
  const Value &x = arguments.positional[0];
  if (x.is(Value::Float))
    return Value::number(std::fabs(x.real));
  int64_t number = x.asInteger("`abs`");
  if (number == std::numeric_limits<int64_t>::min())
    throw Problem{"`abs` of the least integer is none"};
  return Value::number(std::abs(number));
}

Value orDefault(const Arguments &arguments) {
  const Value &x = arguments.positional[0];
  const Value *other = arguments.find(1, "default_value"),
              *alsoFalse = arguments.find(2, "boolean");
  bool isAbsent =
      x.is(Value::Undefined) || (alsoFalse && alsoFalse->truth() && !x.truth());
  return !isAbsent ? x : other ? *other : Value::string("");
}

Value sortedPairs(const Arguments &arguments) {
  Value all = pairs(arguments.positional[0]);
  std::vector<Value> keys;
  for (const Value &pair : *all.list) {
    keys.push_back((*pair.list)[0]);
    keys.back().text = lower(keys.back().text);
  }
  return Value::array(inOrder(*all.list, keys, /*falls=*/false));
}

Value firstOf(const Arguments &arguments) {
  std::vector<Value> items = itemsOf(arguments.positional[0]);
  return items.empty() ? Value::undefined("the first of nothing")
                       : items.front();
}

Value lastOf(const Arguments &arguments) {
  std::vector<Value> items = itemsOf(arguments.positional[0]);
  return items.empty() ? Value::undefined("the last of nothing") : items.back();
}

Value joined(const Arguments &arguments) {
  const Value *between = arguments.find(1, "d"),
              *member = arguments.find(2, "attribute");
  std::vector<Value> items = itemsOf(arguments.positional[0]);
  if (member)
    for (Value &item : items)
      item = memberOf(item, member->asText("a member's name"));
  return Value::string(join(items, between ? between->str() : ""));
}

Value replaced(const Arguments &arguments) {
  const Value *from = arguments.find(1, "old"), *to = arguments.find(2, "new"),
              *most = arguments.find(3, "count");
  return Value::string(replace(arguments.positional[0].str(), from->str(),
                               to->str(),
                               most ? most->asInteger("`count`") : -1));
}

Value reversed(const Arguments &arguments) {
  const Value &x = arguments.positional[0];
  std::vector<Value> items = itemsOf(x);
  std::ranges::reverse(items);
  return x.is(Value::String) ? Value::string(join(items, ""))
                             : Value::array(std::move(items));
}

Value sumOf(const Arguments &arguments) {
  Value sum = Value::number(int64_t{0});
  for (const Value &item : itemsOf(arguments.positional[0])) {
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

Value unique(const Arguments &arguments) {
  std::vector<Value> items, keys;
  for (const Value &item : itemsOf(arguments.positional[0])) {
    Value key = item;
    key.text = lower(key.text);
    if (std::ranges::any_of(keys,
                            [&](const Value &old) { return equal(old, key); }))
      continue;
    keys.push_back(std::move(key));
    items.push_back(item);
  }
  return Value::array(std::move(items));
}

Value lengthFilter(const Arguments &arguments) {
  return Value::number(lengthOf(arguments.positional[0]));
}

template <std::string (*change)(const std::string &)>
Value changedText(const Arguments &arguments) {
  return Value::string(change(arguments.positional[0].str()));
}

Value textOf(const Arguments &arguments) {
  return Value::string(arguments.positional[0].str());
}

template <bool byMember, bool keeps>
Value chosenItems(const Arguments &arguments) {
  return chosen(arguments, byMember, keeps);
}

/// Of filters that do not look at `none`.
template <Value (*filter)(const Arguments &)>
Value orNothing(const Arguments &arguments) {
  return arguments.positional[0].is(Value::None) ? Value::array({})
                                                 : filter(arguments);
}

struct Filter {
  std::string_view name;
  Parameters takes; ///< beside its value
  Value (*apply)(const Arguments &arguments);
};

const Filter filters[] = {
    {"abs", {}, absolute},
    {"capitalize", {}, changedText<capitalize>},
    {"count", {}, lengthFilter},
    {"d", {0, 2, {"default_value", "boolean"}}, orDefault},
    {"default", {0, 2, {"default_value", "boolean"}}, orDefault},
    {"dictsort", {}, sortedPairs},
    {"first", {}, firstOf},
    {"float", {}, [](const Arguments &a) { return toReal(a.positional[0]); }},
    {"indent",
     {0, 3, {"width", "first", "blank"}},
     [](const Arguments &a) { return Value::string(indented(a)); }},
    {"int",
     {0, 1, {"default"}},
     [](const Arguments &a) {
       const Value *absent = a.find(1, "default");
       return toInteger(a.positional[0],
                        absent ? absent->asInteger("`default`") : 0);
     }},
    {"items", {}, [](const Arguments &a) { return pairs(a.positional[0]); }},
    {"join", {0, 2, {"d", "attribute"}}, joined},
    {"last", {}, lastOf},
    {"length", {}, lengthFilter},
    {"list",
     {},
     [](const Arguments &a) { return Value::array(itemsOf(a.positional[0])); }},
    {"lower", {}, changedText<lower>},
    {"map", {0, anyNumber, {"attribute", "default"}}, orNothing<map>},
    {"max",
     {0, 2, {"case_sensitive", "attribute"}},
     [](const Arguments &a) { return extreme(a, /*isGreatest=*/true); }},
    {"min",
     {0, 2, {"case_sensitive", "attribute"}},
     [](const Arguments &a) { return extreme(a, /*isGreatest=*/false); }},
    {"reject", {0, anyNumber, {}}, orNothing<chosenItems<false, false>>},
    {"rejectattr",
     {1, anyNumber, {"attribute"}},
     orNothing<chosenItems<true, false>>},
    {"replace", {2, 3, {"old", "new", "count"}}, replaced},
    {"reverse", {}, reversed},
    {"safe", {}, textOf},
    {"select", {0, anyNumber, {}}, orNothing<chosenItems<false, true>>},
    {"selectattr",
     {1, anyNumber, {"attribute"}},
     orNothing<chosenItems<true, true>>},
    {"sort", {0, 3, {"reverse", "case_sensitive", "attribute"}}, sorted},
    {"string", {}, textOf},
    {"sum", {}, sumOf},
    {"title", {}, changedText<titleOfWords>},
    {"tojson",
     {0, 4, {"ensure_ascii", "indent", "separators", "sort_keys"}},
     [](const Arguments &a) {
       return Value::string(toJson(a.positional[0], jsonForm(a)));
     }},
    {"trim",
     {0, 1, {"chars"}},
     [](const Arguments &a) {
       return Value::string(strip(a.positional[0].str(), true, true,
                                  strippedBy(a.find(1, "chars"))));
     }},
    {"unique", {}, unique},
    {"upper", {}, changedText<upper>}};

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
  for (const Filter &filter : filters)
    if (name == filter.name) {
      arguments.require("the filter `" + std::string(name) + "`", filter.takes,
                        /*from=*/1);
      return filter.apply(arguments);
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

} // namespace tfm::jinja
