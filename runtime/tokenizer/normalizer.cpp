//===- normalizer.cpp - what is done to a text before it is cut ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/tokenizer/normalizer.h"

#include "runtime/support/error.h"
#include "runtime/support/utf8.h"
#include "runtime/tokenizer/steps.h"
#include "runtime/tokenizer/vocabulary.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <utf8proc.h>

using nlohmann::json;

namespace tfm {

bool isPunctuation(int32_t c) {
  if (c < 0x80)
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') ||
           (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
  utf8proc_category_t category = utf8proc_category(c);
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

bool isNumeric(int32_t c) {
  utf8proc_category_t category = utf8proc_category(c);
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

static constexpr char base64Digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string encodeBase64(std::string_view bytes) {
  std::string text;
  for (size_t at = 0; at < bytes.size(); at += 3) {
    uint32_t group = 0;
    for (size_t i = 0; i < 3; ++i)
      group = group << 8 |
              (at + i < bytes.size() ? static_cast<uint8_t>(bytes[at + i]) : 0);
    for (size_t i = 0; i < 4; ++i)
      text += at + i <= bytes.size() ? base64Digits[group >> (18 - 6 * i) & 63]
                                     : '=';
  }
  return text;
}

std::string decodeBase64(std::string_view text, const std::string &origin) {
  while (!text.empty() && text.back() == '=')
    text.remove_suffix(1);
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (char c : text) {
    size_t digit = std::string_view(base64Digits).find(c);
    if (digit == std::string_view::npos)
      throw InputError("{}: a table of its normalizer is not base64", origin);
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>(bits >> count & 255);
    }
  }
  return bytes;
}

namespace {

/// The text in a normal form of Unicode.
std::string normalForm(const std::string &text, int options) {
  utf8proc_uint8_t *out = nullptr;
  utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t *>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &out,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | options));
  if (size < 0)
    throw std::bad_alloc();
  std::string result(reinterpret_cast<char *>(out), static_cast<size_t>(size));
  std::free(out);
  return result;
}

/// The text with each character given to `visit(c, result)`.
template <typename Visit>
std::string mapCharacters(std::string_view text, Visit visit) {
  std::string result;
  result.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    CodePoint c = decodeUtf8(text, at);
    at += c.bytes;
    visit(c.value, result);
  }
  return result;
}

std::string lowercase(const std::string &text) {
  return mapCharacters(text, [](int32_t c, std::string &result) {
    appendUtf8(c == 0x130 ? 'i' : utf8proc_tolower(c), result);
    if (c == 0x130) // the only character whose small form is two
      appendUtf8(0x307, result);
  });
}

std::string withoutMarks(const std::string &text, bool onlyNonspacing) {
  return mapCharacters(text, [&](int32_t c, std::string &result) {
    utf8proc_category_t category = utf8proc_category(c);
    bool isMark = category == UTF8PROC_CATEGORY_MN ||
                  (!onlyNonspacing && (category == UTF8PROC_CATEGORY_MC ||
                                       category == UTF8PROC_CATEGORY_ME));
    if (!isMark)
      appendUtf8(c, result);
  });
}

/// BERT's: no control characters, and one kind of space.
std::string cleanText(const std::string &text) {
  return mapCharacters(text, [](int32_t c, std::string &result) {
    bool isSpace = isWhiteSpace(c);
    utf8proc_category_t category = utf8proc_category(c);
    // Some are younger than the tables that tokenizers has.
    bool isYoung = c == 0x890 || c == 0x891 || c == 0x8E2 || c == 0x110CD ||
                   (c >= 0x13430 && c <= 0x13438);
    bool isControl = category == UTF8PROC_CATEGORY_CC ||
                     category == UTF8PROC_CATEGORY_CO ||
                     (category == UTF8PROC_CATEGORY_CF && !isYoung);
    if (c == '\t' || c == '\n' || c == '\r')
      result += ' ';
    else if (c == 0 || c == 0xFFFD || isControl)
      return;
    else if (isSpace)
      result += ' ';
    else
      appendUtf8(c, result);
  });
}

/// BERT's: Chinese characters are words.
std::string partChinese(const std::string &text) {
  return mapCharacters(text, [](int32_t c, std::string &result) {
    bool isChinese =
        (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
        (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
        (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
        (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
    if (isChinese)
      result += ' ';
    appendUtf8(c, result);
    if (isChinese)
      result += ' ';
  });
}

std::string stripped(const std::string &text, bool left, bool right) {
  size_t begin = 0, end = text.size();
  while (left && begin < end) {
    CodePoint c = decodeUtf8(text, begin);
    if (!isWhiteSpace(c.value))
      break;
    begin += c.bytes;
  }
  while (right && end > begin) {
    size_t last = end - 1;
    while (last > begin && (text[last] & 0xC0) == 0x80)
      --last;
    if (!isWhiteSpace(decodeUtf8(text, last).value))
      break;
    end = last;
  }
  return text.substr(begin, end - begin);
}

/// SentencePiece's table of what becomes what: a double-array trie (Aoe 1989;
/// the layout is that of Darts-clone) and texts that end in 0.
class CharacterMap {
public:
  CharacterMap(std::string_view bytes, const std::string &origin) {
    uint32_t size = 0;
    if (bytes.size() >= sizeof size)
      std::memcpy(&size, bytes.data(), sizeof size);
    if (bytes.size() < sizeof size || size > bytes.size() - sizeof size ||
        size % sizeof(uint32_t) != 0 || size == 0)
      throw InputError("{}: the table of its normalizer is damaged", origin);
    units.resize(size / sizeof(uint32_t));
    std::memcpy(units.data(), bytes.data() + sizeof size, size);
    texts = bytes.substr(sizeof size + size);
  }

  /// Grapheme by grapheme where they are short, else character by character.
  std::string apply(const std::string &text) const {
    std::string result;
    for (size_t at = 0; at < text.size();) {
      size_t end = graphemeEnd(text, at);
      std::string_view grapheme = std::string_view(text).substr(at, end - at);
      const char *mapped = grapheme.size() < 6 ? find(grapheme) : nullptr;
      if (mapped) {
        result += mapped;
      } else {
        for (size_t i = 0; i < grapheme.size();) {
          std::string_view character =
              grapheme.substr(i, decodeUtf8(grapheme, i).bytes);
          i += character.size();
          if (const char *own = find(character))
            result += own;
          else
            result += character;
        }
      }
      at = end;
    }
    return result;
  }

  /// The bytes of the longest text in the table.
  size_t longest() const {
    size_t most = 0, last = 0;
    for (size_t i = 0; i < texts.size(); ++i)
      if (texts[i] == 0) {
        most = std::max(most, i - last);
        last = i + 1;
      }
    return std::max(most, texts.size() - last);
  }

private:
  static size_t graphemeEnd(std::string_view text, size_t at) {
    utf8proc_int32_t state = 0;
    CodePoint last = decodeUtf8(text, at);
    size_t end = at + last.bytes;
    while (end < text.size()) {
      CodePoint next = decodeUtf8(text, end);
      if (utf8proc_grapheme_break_stateful(last.value, next.value, &state))
        break;
      last = next;
      end += next.bytes;
    }
    return end;
  }

  /// What the shortest beginning of a text that is in the table becomes; null
  /// where none is.
  const char *find(std::string_view key) const {
    auto offset = [](uint32_t unit) {
      return size_t{unit >> 10} << ((unit & (1u << 9)) >> 6);
    };
    size_t node = offset(units[0]);
    for (char c : key) {
      auto byte = static_cast<unsigned char>(c);
      node ^= byte;
      if (byte == 0 || node >= units.size())
        return nullptr;
      uint32_t unit = units[node];
      if ((unit & (1u << 31 | 0xFF)) != byte)
        return nullptr;
      node ^= offset(unit);
      if (node >= units.size())
        return nullptr;
      if (unit >> 8 & 1) {
        size_t place = units[node] & ((1u << 31) - 1);
        return place < texts.size() ? texts.c_str() + place : nullptr;
      }
    }
    return nullptr;
  }

  std::vector<uint32_t> units;
  std::string texts;
};

/// One step, and how many times as long a text may become by it, but for
/// normal forms.
struct Step {
  std::function<std::string(std::string)> apply;
  double growth = 1;
};

Step toForm(int options) {
  return {[=](const std::string &text) { return normalForm(text, options); }};
}

bool flag(const json &step, const char *name, bool absent) {
  const json &given = member(step, name);
  return given.is_boolean() ? given.get<bool>() : absent;
}

Step strip(const json &step) {
  bool left = flag(step, "strip_left", true),
       right = flag(step, "strip_right", true);
  return {[=](const std::string &text) { return stripped(text, left, right); }};
}

Step prepend(const json &step) {
  auto prefix = step.at("prepend").get<std::string>();
  return {[=](std::string text) { return text.empty() ? text : prefix + text; },
          1.0 + static_cast<double>(prefix.size())};
}

Step asBert(const json &step) {
  bool cleans = flag(step, "clean_text", true),
       parts = flag(step, "handle_chinese_chars", true),
       lowers = flag(step, "lowercase", true);
  bool strips = flag(step, "strip_accents", lowers);
  return {[=](std::string text) {
    if (cleans)
      text = cleanText(text);
    if (parts)
      text = partChinese(text);
    if (strips)
      text = withoutMarks(normalForm(text, UTF8PROC_DECOMPOSE),
                          /*onlyNonspacing=*/true);
    return lowers ? lowercase(text) : text;
  }};
}

Step mapByTable(const std::string &base64, const std::string &origin) {
  auto map =
      std::make_shared<CharacterMap>(decodeBase64(base64, origin), origin);
  return {[=](const std::string &text) { return map->apply(text); },
          static_cast<double>(std::max<size_t>(1, map->longest()))};
}

Step replace(const json &step, const std::string &origin) {
  auto to = step.at("content").get<std::string>();
  StepPattern pattern = StepPattern::read("normalizer", step, origin);
  double each =
      static_cast<double>(to.size()) / static_cast<double>(pattern.shortest);
  return {[to, regex = pattern.regex](const std::string &whole) {
            Pretokenizer::Cursor cursor(*regex, whole);
            std::string result;
            for (std::string_view piece; cursor.next(piece);)
              result += cursor.isMatch() ? std::string_view(to) : piece;
            return result;
          },
          // Nothing is replaced around every byte, and the byte stays.
          pattern.regex->matchesEmpty() ? 1 + 2 * each : std::max(1.0, each)};
}

void readSteps(const json &value, const std::string &origin,
               std::vector<Step> &steps) {
  if (value.is_null())
    return;
  std::string type = stepType(value);
  if (type == "Sequence") {
    for (const json &step : value.at("normalizers"))
      readSteps(step, origin, steps);
  } else if (type == "NFC") {
    steps.push_back(toForm(UTF8PROC_COMPOSE));
  } else if (type == "NFKC") {
    steps.push_back(toForm(UTF8PROC_COMPOSE | UTF8PROC_COMPAT));
  } else if (type == "NFD") {
    steps.push_back(toForm(UTF8PROC_DECOMPOSE));
  } else if (type == "NFKD") {
    steps.push_back(toForm(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT));
  } else if (type == "Lowercase") {
    steps.push_back({lowercase});
  } else if (type == "StripAccents") {
    steps.push_back({[](const std::string &text) {
      return withoutMarks(text, /*onlyNonspacing=*/false);
    }});
  } else if (type == "Strip") {
    steps.push_back(strip(value));
  } else if (type == "Prepend") {
    steps.push_back(prepend(value));
  } else if (type == "BertNormalizer") {
    steps.push_back(asBert(value));
  } else if (type == "Precompiled") {
    const json &table = member(value, "precompiled_charsmap");
    if (!table.is_null() && table != "")
      steps.push_back(mapByTable(table.get_ref<const std::string &>(), origin));
  } else if (type == "Replace" && member(value, "pattern").is_object()) {
    steps.push_back(replace(value, origin));
  } else {
    refuseStep("normalizer", value, origin);
  }
}

} // namespace

Normalizer Normalizer::read(const json &value, const std::string &origin) {
  std::vector<Step> steps;
  readSteps(value, origin, steps);
  if (steps.size() > 64)
    throw InputError("{}: its normalizer has more than 64 steps", origin);
  Normalizer result;
  double growth = 1;
  for (Step &step : steps) {
    growth *= step.growth;
    result.steps.push_back(std::move(step.apply));
  }
  requireBounded("normalizer", growth, origin);
  return result;
}

std::string Normalizer::apply(std::string_view text) const {
  std::string result(text);
  for (const auto &step : steps)
    result = step(std::move(result));
  return result;
}

} // namespace tfm
