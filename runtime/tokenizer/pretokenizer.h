//===- pretokenizer.h - cuts text into the pieces that BPE works in -----===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_TOKENIZER_PRETOKENIZER_H
#define TFM_RUNTIME_TOKENIZER_PRETOKENIZER_H

#include <cstddef>
#include <string>
#include <string_view>

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;

namespace tfm {

/// GPT-2's pattern. `\s` is written out: PCRE2's has U+180E, Unicode's not.
extern const char *const gpt2Pattern;

/// The pattern that finds a text as it is spelt.
std::string escapePattern(std::string_view text);

/// A compiled pattern (PCRE2, with its just-in-time compiler where the system
/// permits). Immutable; each thread matches with its own `Cursor`.
class Pretokenizer {
public:
  /// Throws InputError naming `origin` for a pattern that PCRE2 does not take.
  Pretokenizer(const std::string &pattern, const std::string &origin);
  ~Pretokenizer();
  Pretokenizer(const Pretokenizer &) = delete;
  Pretokenizer &operator=(const Pretokenizer &) = delete;

  /// Whether an empty text may match: between two characters, say.
  bool matchesEmpty() const { return empty; }

  /// Walks through a text that is valid UTF-8: matches, and what lies between
  /// matches. A match may be empty, but not where another one ends.
  class Cursor {
  public:
    Cursor(const Pretokenizer &owner, std::string_view text);
    ~Cursor();
    Cursor(const Cursor &) = delete;
    Cursor &operator=(const Cursor &) = delete;
    /// False at the end.
    bool next(std::string_view &piece);
    /// Whether the last piece was a match.
    bool isMatch() const { return matched; }

  private:
    void find();

    const Pretokenizer &owner;
    std::string_view text;
    size_t at = 0;
    /// The match that was found, at `at` or beyond a gap; none has this begin.
    static constexpr size_t none = std::string_view::npos;
    size_t begin = none;
    size_t end = 0;
    /// Whether the next one is still to be found.
    bool matched = true;
    pcre2_real_match_data_8 *match;
  };

private:
  pcre2_real_code_8 *code = nullptr;
  bool compiled = false;
  bool empty = false;
};

} // namespace tfm

#endif // TFM_RUNTIME_TOKENIZER_PRETOKENIZER_H
