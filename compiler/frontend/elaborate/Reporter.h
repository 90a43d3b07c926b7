//===- Reporter.h - errors, with the calls that led there -------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_REPORTER_H
#define TFM_FRONTEND_ELABORATE_REPORTER_H

#include "compiler/frontend/Diagnostics.h"
#include "compiler/frontend/elaborate/CallStack.h"

#include <set>
#include <tuple>

namespace tfm {

class Budget;
class SymbolicValue;
struct Compilation;

/// Reports errors with notes on the calls that led there; a mistake that shows
/// inside of std once for each place outside that led to it.
class Reporter {
public:
  Reporter(const SourceManager &sources, Diagnostics &diags,
           const Compilation &compilation, const CallStack &callStack,
           Budget &budget)
      : sources(sources), diags(diags), compilation(compilation),
        callStack(callStack), budget(budget) {}

  /// Help where something was chosen by the index of a layer in its module.
  static constexpr const char *choiceByLayer =
      "a choice that repeats at least twice may stand in the line of the "
      "`repeat`: `repeat(n) as i Block(window = if i % 2 == 0 then 64 else "
      "none)`; or list the layers, each with its own: `[Block(window = 64), "
      "Block(window = 32)]`";

  Diagnostic &error(ErrorCode code, Range range, const llvm::Twine &message);
  /// Takes note of a name that means a member although a hyperparameter of its
  /// module has it, too: an error there tells of both.
  void noteHiding(Range name) {
    hiding.insert({name.file, name.begin, name.end});
  }
  /// "did you mean", where one of the candidates is close.
  void suggest(Diagnostic &d, llvm::StringRef name,
               llvm::ArrayRef<std::string> candidates);
  /// `file:line:column`.
  std::string place(Range range) const;
  /// Of a place inside of std the call outside of it that led there, else null.
  const Call *callerOfStd(Range range) const;

  /// Whether nothing is reported: what counts on a requirement that failed is
  /// no news.
  bool isSilent = false;

private:
  const SourceManager &sources;
  Diagnostics &diags;
  const Compilation &compilation;
  const CallStack &callStack;
  Budget &budget;
  /// Errors inside of std by code and the place outside that led there.
  std::set<std::tuple<ErrorCode, uint32_t, uint32_t>> stdErrors;
  /// Where names stand that hide hyperparameters.
  std::set<std::tuple<uint32_t, uint32_t, uint32_t>> hiding;
};

/// Of a float where an integer is needed: how the integer is written.
void suggestInteger(Diagnostic &d, const SymbolicValue &value);

/// `cast(tokens, float)`: of an operand that is no name or member, `cast(...,
/// float)`.
std::string castOf(llvm::StringRef operand, llvm::StringRef type);

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_REPORTER_H
