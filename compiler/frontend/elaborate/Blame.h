//===- Blame.h - which hyperparameters an error is about --------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_BLAME_H
#define TFM_FRONTEND_ELABORATE_BLAME_H

#include "compiler/frontend/Diagnostics.h"
#include "compiler/frontend/elaborate/InstanceTree.h"

#include <map>

namespace tfm {

class Reporter;

/// Follows wrong numbers back to the hyperparameters of the model that they are
/// made of, so that each of these is reported once, with where it was set.
class Blame {
public:
  Blame(const SourceManager &sources, const Reporter &reporter,
        InstanceTree &tree)
      : sources(sources), reporter(reporter), tree(tree) {}

  /// Whether no error has been about this value yet, where it is a
  /// hyperparameter of the model: a wrong one shows in many places. From here
  /// on there has.
  bool isFirst(const SymbolicValue &value);
  /// Says of the model's hyperparameters that a number is made of, and of the
  /// caller's dimensions in it, where they were set.
  void noteOrigins(Diagnostic &d, const SymbolicValue &value);
  /// "set by `-D width=8`", or "set in" and the place.
  std::string originOf(llvm::StringRef hyperparameter) const;

  /// Where the hyperparameters of the model were set.
  std::map<std::string, Range> origins;
  /// Where the caller's dimensions come from that are not given on the command
  /// line, in words.
  std::map<std::string, std::string> dimOrigins;

private:
  const SourceManager &sources;
  const Reporter &reporter;
  InstanceTree &tree;
  /// Hyperparameters of the model that errors have been about, as they were.
  std::map<std::string, SymbolicValue> blamed;
};

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_BLAME_H
