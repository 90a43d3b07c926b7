//===- lookahead.cpp - tokens that may come next --------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/generation/lookahead.h"

#include <algorithm>

namespace tfm {

void lookUp(std::span<const int32_t> text, size_t most,
            std::vector<int32_t> &to) {
  // What is equal by chance is short; what is long enough need not be longer.
  constexpr size_t least = 3, enough = 16;
  if (text.size() <= least)
    return;
  size_t longest = least - 1, found = 0;
  for (size_t end = text.size() - 1; end >= least && longest < enough; --end) {
    if (text[end - 1] != text.back())
      continue;
    size_t length = 1, limit = std::min(end, enough);
    while (length < limit &&
           text[end - 1 - length] == text[text.size() - 1 - length])
      ++length;
    if (length > longest) {
      longest = length;
      found = end;
    }
  }
  size_t before = to.size(), length = text.size() - found;
  for (size_t i = 0; found > 0 && i < most; ++i)
    to.push_back(i < length ? text[found + i] : to[before + i - length]);
}

bool LookaheadAccount::wants() {
  if (pause > 0)
    --pause;
  return pause == 0 && usual > 0;
}

void LookaheadAccount::plain(double seconds) {
  usual = usual == 0 ? seconds : usual + (seconds - usual) / 8;
}

void LookaheadAccount::ahead(double seconds, size_t tokens) {
  constexpr double most = 4;
  constexpr int64_t longestPause = 512;
  double gain = static_cast<double>(tokens) - seconds / usual;
  saved = std::min(saved + gain, most);
  if (gain > 0)
    nextPause = 32;
  if (saved >= 0)
    return;
  saved = 0;
  pause = nextPause;
  nextPause = std::min(2 * nextPause, longestPause);
}

} // namespace tfm
