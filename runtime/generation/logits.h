//===- logits.h - what may follow a text --------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_GENERATION_LOGITS_H
#define TFM_RUNTIME_GENERATION_LOGITS_H

#include <cstdint>
#include <span>
#include <vector>

namespace tfm {

/// The largest logits of a vocabulary and whose they are, the largest first, of
/// equals that of the smaller id; those that are not numbers come before all.
struct Candidates {
  std::span<const float> logits;
  std::span<const int32_t> ids;
};

/// Who has the logits of some texts, and can be asked for more or less of them.
class LogitRows {
public:
  virtual ~LogitRows() = default;
  /// Those of all tokens [vocabulary].
  virtual std::span<const float> all(int64_t row) = 0;
  /// Fewer than there are tokens; none where nobody has chosen any.
  virtual Candidates candidates(int64_t row) = 0;
};

/// The logits of the token that follows a text. Where a device has computed
/// them, only what is asked for is brought from there.
class Logits {
public:
  Logits() = default;
  /// What the host has anyway: there is no reason to choose candidates.
  Logits(std::span<const float> whole) : whole(whole) {}
  Logits(const std::vector<float> &whole) : whole(whole) {}
  Logits(LogitRows &rows, int64_t row) : rows(&rows), row(row) {}

  std::span<const float> all() const { return rows ? rows->all(row) : whole; }
  operator std::span<const float>() const { return all(); }
  Candidates candidates() const {
    return rows ? rows->candidates(row) : Candidates();
  }

private:
  std::span<const float> whole;
  LogitRows *rows = nullptr;
  int64_t row = 0;
};

} // namespace tfm

#endif // TFM_RUNTIME_GENERATION_LOGITS_H
