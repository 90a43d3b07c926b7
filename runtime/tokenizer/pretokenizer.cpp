//===- pretokenizer.cpp - cuts text into the pieces that BPE works in ---===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/tokenizer/pretokenizer.h"

#include "runtime/support/error.h"
#include "runtime/support/utf8.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <utility>
#include <vector>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#define TFM_SPACES                                                             \
  "\\x09-\\x0D\\x20\\x85\\xA0\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}"   \
  "\\x{202F}\\x{205F}\\x{3000}"

// All others.
#define TFM_NO_SPACES                                                          \
  "\\x{0}-\\x08\\x0E-\\x1F\\x21-\\x84\\x86-\\x9F\\xA1-\\x{167F}\\x{1681}-"     \
  "\\x{1FFF}\\x{200B}-\\x{2027}\\x{202A}-\\x{202E}\\x{2030}-\\x{205E}"         \
  "\\x{2060}-\\x{2FFF}\\x{3001}-\\x{D7FF}\\x{E000}-\\x{10FFFF}"

#define TFM_WORDS "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
// Outside of classes some of the first 256 characters are, too.
#define TFM_WORDS_ALONE TFM_WORDS "\\xB2\\xB3\\xB9\\xBC-\\xBE"

namespace tfm {

const char *const gpt2Pattern =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" TFM_SPACES
    "\\p{L}\\p{N}]+|[" TFM_SPACES "]+(?![^" TFM_SPACES "])|[" TFM_SPACES "]+";

std::string escapePattern(std::string_view text) {
  std::string pattern;
  for (char c : text) {
    if (std::strchr("\\^$.[|()?*+{}-]#", c) && c != 0)
      pattern += '\\';
    pattern += c;
  }
  return pattern;
}

/// What a class has in it in Oniguruma's terms, as far as PCRE2 takes others
/// (https://github.com/kkos/oniguruma/blob/master/doc/RE, UTS #18): `\s`,
/// `[:alpha:]`. Empty for all that mean the same.
static std::string_view contentOf(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> contents[] = {
      {"\\s", TFM_SPACES},
      {"\\S", TFM_NO_SPACES},
      {"\\w", TFM_WORDS},
      {"[:space:]", TFM_SPACES},
      {"[:^space:]", TFM_NO_SPACES},
      {"[:word:]", TFM_WORDS},
      {"[:alpha:]", "\\p{Alphabetic}"},
      {"[:^alpha:]", "\\P{Alphabetic}"},
      {"[:alnum:]", "\\p{Alphabetic}\\p{Nd}"},
      {"[:upper:]", "\\p{Uppercase}"},
      {"[:^upper:]", "\\P{Uppercase}"},
      {"[:lower:]", "\\p{Lowercase}"},
      {"[:^lower:]", "\\P{Lowercase}"},
      {"[:punct:]", "\\p{P}\\p{S}"}};
  for (const auto &[own, content] : contents)
    if (own == name)
      return content;
  return {};
}

/// `\p{Han}` as PCRE2 writes it: those whose script that is, not those that are
/// used with it, too. What is no script stays as it is.
static std::string propertyOf(std::string_view escape) {
  std::string script(escape);
  if (script.size() < 6 || script.find(':') != script.npos)
    return script;
  script.insert(script[3] == '^' ? 4 : 3, "sc:");
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code *code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(script.data()), script.size(),
                    PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr);
  bool isScript = code != nullptr;
  pcre2_code_free(code);
  return isScript ? script : std::string(escape);
}

/// How long what begins with a backslash is: `\n`, `\p{L}`.
static size_t lengthOfEscape(std::string_view rest) {
  // Behind others braces count.
  bool takesBraces = rest.size() > 2 && std::strchr("pPxogk", rest[1]) &&
                     rest[2] == '{' && rest.find('}') != rest.npos;
  if (takesBraces)
    return rest.find('}') + 1;
  return std::min<size_t>(2, rest.size());
}

/// Appends the class that begins at `at` and returns where it ends. What a
/// class within it has is its own; `refuse` throws for what PCRE2 has not.
template <typename Refuse>
static size_t takeClass(std::string_view pattern, size_t at, Refuse refuse,
                        std::string &result) {
  size_t first = at;
  at += pattern.substr(at).starts_with("[^") ? 2 : 1;
  // A bracket that stands first is one of the class.
  at += pattern.substr(at).starts_with("]") ? 1 : 0;
  result += pattern.substr(first, at - first);
  for (int64_t within = 1; within > 0 && at < pattern.size();) {
    std::string_view rest = pattern.substr(at);
    size_t named = rest.starts_with("[:") ? rest.find(":]") : rest.npos;
    size_t length = named != rest.npos ? named + 2
                    : rest[0] == '\\'  ? lengthOfEscape(rest)
                                       : 1;
    if (rest.starts_with("&&"))
      refuse("an intersection of classes");
    if (rest.starts_with("[^") && named == rest.npos)
      refuse("what is not in a class within a class");
    bool opens = rest[0] == '[' && named == rest.npos, closes = rest[0] == ']';
    within += opens ? 1 : closes ? -1 : 0;
    std::string_view item = rest.substr(0, length);
    std::string_view content = contentOf(item);
    if (item == "\\W" || (content.empty() && item.starts_with("[:^")))
      refuse("what is in no class within a class");
    if (!content.empty())
      result += content;
    else if (item.starts_with("\\p") || item.starts_with("\\P"))
      result += propertyOf(item);
    else if (!opens && (!closes || within == 0))
      result += item;
    at += length;
  }
  return at;
}

/// What begins with a backslash and stands alone, in PCRE2's terms.
static std::string inPcreOf(std::string_view escape) {
  constexpr std::pair<std::string_view, const char *> forms[] = {
      {"\\s", "[" TFM_SPACES "]"},
      {"\\S", "[^" TFM_SPACES "]"},
      {"\\w", "[" TFM_WORDS_ALONE "]"},
      {"\\W", "[^" TFM_WORDS_ALONE "]"},
      {"\\b", "(?:(?<=[" TFM_WORDS_ALONE "])(?![" TFM_WORDS_ALONE
              "])|(?<![" TFM_WORDS_ALONE "])(?=[" TFM_WORDS_ALONE "]))"},
      {"\\B", "(?:(?<=[" TFM_WORDS_ALONE "])(?=[" TFM_WORDS_ALONE
              "])|(?<![" TFM_WORDS_ALONE "])(?![" TFM_WORDS_ALONE "]))"}};
  for (const auto &[own, form] : forms)
    if (own == escape)
      return form;
  return propertyOf(escape);
}

/// Whether braces count how often something comes: `{3}`, `{1,3}`.
static bool isCount(std::string_view braces) {
  return braces.size() > 2 &&
         braces.find_first_not_of("0123456789,", 1) == braces.size() - 1;
}

/// A pattern of Oniguruma's, as tokenizer.json has them, in PCRE2's terms: a
/// `+` behind braces repeats what they count, `^` and `$` are the ends of lines
/// (PCRE2_MULTILINE below), and `(?m)` has `.` match their ends. Throws
/// NotSupported for intersections of classes and `\h`.
static std::string inPcre(std::string_view pattern, const std::string &origin) {
  auto refuse = [&](const char *what) {
    throw NotSupported("{}: the pattern {} has {}, which is not supported",
                       origin, pattern, what);
  };
  std::string result;
  // Where in the result begins what a count would count, and open groups.
  size_t item = 0;
  std::vector<size_t> groups;
  for (size_t at = 0, end = 0; at < pattern.size(); at = end) {
    std::string_view rest = pattern.substr(at);
    char c = rest[0];
    end = at + 1;
    if (c == '{') {
      size_t close = rest.find('}');
      std::string_view braces = rest.substr(0, close + 1);
      if (close != rest.npos && isCount(braces)) {
        end = at + braces.size();
        if (pattern.substr(end).starts_with("+")) {
          ++end;
          result.insert(item, "(?:");
          result += std::string(braces) + ")+";
        } else {
          result += braces;
        }
        continue;
      }
    } else if (c == '\\' && rest.size() > 1) {
      if (rest[1] == 'h' || rest[1] == 'H')
        refuse("\\h");
      end = at + lengthOfEscape(rest);
      item = result.size();
      result += inPcreOf(rest.substr(0, end - at));
      continue;
    } else if (c == '[') {
      item = result.size();
      end = takeClass(pattern, at, refuse, result);
      continue;
    }
    bool isPart = c == '+' || c == '*' || c == '?' ||
                  (static_cast<unsigned char>(c) & 0xC0) == 0x80;
    if (c == ')' && !groups.empty()) {
      item = groups.back();
      groups.pop_back();
    } else if (!isPart) {
      item = result.size();
    }
    if (c == '(') {
      groups.push_back(result.size());
      if (rest.starts_with("(?m)") || rest.starts_with("(?m:")) {
        result += "(?s";
        end = at + 3;
        continue;
      }
    }
    result += pattern.substr(at, end - at);
  }
  return result;
}

static std::string messageOf(int error) {
  PCRE2_UCHAR message[256];
  pcre2_get_error_message(error, message, sizeof message);
  return reinterpret_cast<const char *>(message);
}

Pretokenizer::Pretokenizer(const std::string &pattern,
                           const std::string &origin) {
  std::string translated = inPcre(pattern, origin);
  int error = 0;
  PCRE2_SIZE offset = 0;
  code = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &offset, nullptr);
  if (!code)
    throw NotSupported("{}: cannot use the pattern {}: {}", origin, pattern,
                       messageOf(error));
  compiled = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0;
  uint32_t isEmpty = 0;
  pcre2_pattern_info(code, PCRE2_INFO_MATCHEMPTY, &isEmpty);
  empty = isEmpty != 0;
}

Pretokenizer::~Pretokenizer() { pcre2_code_free(code); }

Pretokenizer::Cursor::Cursor(const Pretokenizer &owner, std::string_view text)
    : owner(owner), text(text),
      match(pcre2_match_data_create_from_pattern(owner.code, nullptr)) {
  if (!match)
    throw std::bad_alloc();
}

Pretokenizer::Cursor::~Cursor() { pcre2_match_data_free(match); }

/// As Oniguruma's binding for Rust walks, which the tokenizers of the hub use.
void Pretokenizer::Cursor::find() {
  auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  bool isFirst = at == 0 && begin == none;
  begin = none;
  // At the end there is no more than nothing.
  for (size_t from = at; from < text.size() ||
                         (from == text.size() && owner.empty && from > 0);) {
    int found = PCRE2_ERROR_JIT_STACKLIMIT;
    if (owner.compiled)
      found = pcre2_jit_match(owner.code, subject, text.size(), from,
                              PCRE2_NO_UTF_CHECK, match, nullptr);
    // The one that takes no stack is slower.
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)
      found = pcre2_match(owner.code, subject, text.size(), from,
                          PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, match, nullptr);
    if (found == PCRE2_ERROR_NOMATCH)
      return;
    if (found < 0)
      throw InputError(
          "the pattern of the tokenizer finds no end in this text: {}",
          messageOf(found));
    const size_t *place = pcre2_get_ovector_pointer(match);
    if (place[0] < place[1] || place[1] != at || isFirst) {
      begin = place[0];
      end = place[1];
      return;
    }
    from += from < text.size() ? decodeUtf8(text, from).bytes : 1;
  }
}

bool Pretokenizer::Cursor::next(std::string_view &piece) {
  if (matched)
    find();
  if (at == text.size() && begin == none)
    return false;
  matched = at == begin;
  size_t stop = matched ? end : std::min(begin, text.size());
  piece = text.substr(at, stop - at);
  at = stop;
  return true;
}

} // namespace tfm
