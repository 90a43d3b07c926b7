//===- closest.h - which name was meant ---------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_SUPPORT_CLOSEST_H
#define TFM_RUNTIME_SUPPORT_CLOSEST_H

#include <algorithm>
#include <string>
#include <vector>

namespace tfm {

/// How many letters to insert, drop or replace to make one word the other.
inline size_t editDistance(const std::string &from, const std::string &to) {
  std::vector<size_t> row(to.size() + 1);
  for (size_t j = 0; j <= to.size(); ++j)
    row[j] = j;
  for (size_t i = 1; i <= from.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= to.size(); ++j) {
      size_t replaced = diagonal + (from[i - 1] != to[j - 1]);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[to.size()];
}

/// The name that `word` most probably means, or empty: at most a third of its
/// letters differ, or it is how one name begins.
inline std::string closest(const std::string &word,
                           const std::vector<std::string> &names) {
  std::string guess;
  size_t best = (word.size() + 2) / 3 + 1, begun = 0;
  for (const std::string &name : names) {
    size_t distance = editDistance(word, name);
    if (distance < best) {
      best = distance;
      guess = name;
    }
    begun += name.starts_with(word);
  }
  for (const std::string &name : names)
    if (begun == 1 && word.size() >= 2 && name.starts_with(word))
      return name;
  return guess;
}

} // namespace tfm

#endif // TFM_RUNTIME_SUPPORT_CLOSEST_H
