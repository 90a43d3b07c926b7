//===- pretokenizer.cpp - cuts text into the pieces that BPE works in ---===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/tokenizer/pretokenizer.h"

#include "runtime/error.h"

#include <cstring>
#include <new>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#define TFM_SPACES                                                             \
  "\\x09-\\x0D\\x20\\x85\\xA0\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}"   \
  "\\x{202F}\\x{205F}\\x{3000}"

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

Pretokenizer::Pretokenizer(const std::string &pattern,
                           const std::string &origin) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()),
                       pattern.size(), PCRE2_UTF | PCRE2_UCP, &error, &offset,
                       nullptr);
  if (!code) {
    PCRE2_UCHAR message[256];
    pcre2_get_error_message(error, message, sizeof message);
    throw InputError(origin + ": cannot use the pattern " + pattern + ": " +
                     reinterpret_cast<const char *>(message));
  }
  compiled = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0;
}

Pretokenizer::~Pretokenizer() { pcre2_code_free(code); }

Pretokenizer::Cursor::Cursor(const Pretokenizer &owner, std::string_view text)
    : owner(owner), text(text),
      match(pcre2_match_data_create_from_pattern(owner.code, nullptr)) {
  if (!match)
    throw std::bad_alloc();
}

Pretokenizer::Cursor::~Cursor() { pcre2_match_data_free(match); }

bool Pretokenizer::Cursor::next(std::string_view &piece) {
  if (at == text.size())
    return false;
  if (end <= at) {
    auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    int found =
        owner.compiled
            ? pcre2_jit_match(owner.code, subject, text.size(), at,
                              PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, match,
                              nullptr)
            : pcre2_match(owner.code, subject, text.size(), at,
                          PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, match, nullptr);
    begin = end = text.size();
    if (found > 0) {
      begin = pcre2_get_ovector_pointer(match)[0];
      end = pcre2_get_ovector_pointer(match)[1];
    } else if (found != PCRE2_ERROR_NOMATCH) {
      // Too deep for the matcher (a pattern of the user's own): what is left
      // stays one piece, which BPE can encode all the same.
      begin = text.size();
    }
  }
  matched = at >= begin;
  size_t stop = matched ? end : begin;
  piece = text.substr(at, stop - at);
  at = stop;
  return true;
}

} // namespace tfm
