//===- jinja_methods.cpp - methods of texts, dictionaries, lists ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/chat/jinja_render.h"
#include "runtime/chat/jinja_text.h"
#include "runtime/support/utf8.h"

#include <algorithm>
#include <utf8proc.h>

namespace tfm::jinja {

namespace {

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
