//===- steps.h - the steps of a tokenizer.json --------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_TOKENIZER_STEPS_H
#define TFM_RUNTIME_TOKENIZER_STEPS_H

#include "runtime/tokenizer/pretokenizer.h"

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace tfm {

// A normalizer, a pre-tokenizer or a decoder is an object with a `type`, and
// of the type `Sequence` several, one after the other.

/// Empty for what is no object, or has none.
std::string stepType(const nlohmann::json &step);

/// Throws NotSupported: a `what` ("normalizer") that is not supported, with the
/// beginning of its JSON, and then `advice`.
[[noreturn]] void refuseStep(const char *what, const nlohmann::json &step,
                             const std::string &origin,
                             const char *advice = "");

/// Replacements one after the other multiply: throws InputError where those of
/// `what` can make a text so many times as long that a word of a file of some
/// lines would have gigabytes.
void requireBounded(const char *what, double growth, const std::string &origin);

/// What a Split or a Replace looks for, its `pattern`.
struct StepPattern {
  std::shared_ptr<const Pretokenizer> regex;
  /// What it finds has so many bytes at least, or none.
  size_t shortest;

  /// A regular expression, or a text as it is spelt; `refuseStep` for any
  /// other.
  static StepPattern read(const char *what, const nlohmann::json &step,
                          const std::string &origin);
};

/// SentencePiece's way with spaces: a character stands for each, and one may be
/// put before a text.
struct Metaspace {
  std::string space;
  bool prepends;      ///< where the text does not begin with it
  bool onlyFirst;     ///< before what begins the whole text
  bool splits = true; ///< pieces begin with it

  /// Nothing for a `prepend_scheme` that is none.
  static std::optional<Metaspace> read(const nlohmann::json &step);
};

} // namespace tfm

#endif // TFM_RUNTIME_TOKENIZER_STEPS_H
