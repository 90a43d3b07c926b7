//===- Diagnostics.h - errors in the user's words ---------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_DIAGNOSTICS_H
#define TFM_FRONTEND_DIAGNOSTICS_H

#include "compiler/frontend/Source.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/Twine.h"

#include <algorithm>
#include <deque>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace llvm {
class raw_ostream;
}

namespace tfm {

/// The number of an error: `E0203`. Its page is `errors/E0203.md`.
using ErrorCode = unsigned;

/// Of what is no mistake of the user's.
constexpr ErrorCode bugCode = 999;

/// One error or warning: where, what, how the place was reached, and what may
/// help.
struct Diagnostic {
  ErrorCode code = 0;
  Range range;
  std::string message;
  /// Stands behind the caret line; may be empty.
  std::string label;
  std::vector<std::string> notes;
  std::vector<std::string> helps;
  bool isWarning = false;

  Diagnostic &withLabel(const llvm::Twine &text) {
    label = text.str();
    return *this;
  }
  Diagnostic &note(const llvm::Twine &text) {
    notes.push_back(text.str());
    return *this;
  }
  Diagnostic &help(const llvm::Twine &text) {
    helps.push_back(text.str());
    return *this;
  }
};

/// Collects the errors of a compilation. The same mistake (code and place) is
/// kept once, however often elaboration meets it, and nothing else about a
/// place where the lexer found no token; at most 50 are kept.
class Diagnostics {
public:
  explicit Diagnostics(const SourceManager &sources) : sources(sources) {}

  /// Reports an error. The reference stays valid; what is added to a
  /// duplicate is dropped.
  Diagnostic &error(ErrorCode code, Range range, const llvm::Twine &message);

  /// The same for what is no error, but most probably not meant.
  Diagnostic &warning(ErrorCode code, Range range, const llvm::Twine &message);

  /// Takes over what another one reports, each place once.
  void add(const Diagnostics &other);

  /// Drops all errors behind the first `count`: what was tried may fail.
  void dropBehind(size_t count) { kept.resize(std::min(count, kept.size())); }

  /// Takes what is said of an error that is not reported.
  Diagnostic &ignored() { return dropped = Diagnostic(); }

  bool hasErrors() const { return !kept.empty(); }
  /// Whether one of the errors is a bug of the compiler.
  bool hasBug() const;
  /// Whether no further error will be kept: nothing more need be looked for.
  bool isFull() const;
  size_t size() const { return kept.size(); }
  const std::deque<Diagnostic> &errors() const { return kept; }

  bool hasWarnings() const { return !warnings.empty(); }

  /// Prints all errors and warnings in the order of their places:
  ///
  ///   file:line:col: error[E0203]: message
  ///      27 | source line
  ///         |   ^^^^ label
  ///   note: ...
  ///   help: ...
  void print(llvm::raw_ostream &os, bool color = false) const;
  std::string str() const;

private:
  const SourceManager &sources;
  std::deque<Diagnostic> kept;
  std::deque<Diagnostic> warnings;
  Diagnostic dropped;
  std::set<std::tuple<ErrorCode, uint32_t, uint32_t>> seen;
};

/// The candidate that `name` most probably means, or empty: at most a third of
/// its letters differ, of a short name one, their order or that some are left
/// out, or it is `name` without a word before or behind it.
std::string closestName(llvm::StringRef name,
                        llvm::ArrayRef<std::string> candidates);

/// The page on a code, in Markdown; empty where there is no such code.
llvm::StringRef explanation(ErrorCode code);

/// Every code that has a page, ascending.
std::vector<ErrorCode> explainedCodes();

} // namespace tfm

#endif // TFM_FRONTEND_DIAGNOSTICS_H
