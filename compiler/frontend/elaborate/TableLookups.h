//===- TableLookups.h - which ids choose rows of which tables ---*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_TABLELOOKUPS_H
#define TFM_FRONTEND_ELABORATE_TABLELOOKUPS_H

#include "compiler/frontend/elaborate/CallerDims.h"
#include "compiler/frontend/elaborate/Emitter.h"

namespace tfm {

/// Every `gather` and `cross_entropy` of the functions that are emitted, and
/// whether the ids stay within their tables.
class TableLookups {
public:
  TableLookups(const SourceManager &sources, Diagnostics &diags,
               Emitter &emitter, const Compilation &compilation,
               const InstanceTree &tree, Reporter &reporter,
               CallStack &callStack, CallerDims &callerDims,
               const RecipeContext &recipe)
      : sources(sources), diags(diags), emitter(emitter),
        compilation(compilation), tree(tree), reporter(reporter),
        callStack(callStack), callerDims(callerDims), recipe(recipe) {}

  /// Remembers a `gather` of the rows of what the user calls `table`, or, where
  /// that is empty, logits for a target.
  void add(Emitter::Handle result, std::string table, const Dim &rows,
           Range ids);
  size_t size() const { return lookups.size(); }
  /// Reports ids that choose rows outside of a table, of the lookups from
  /// `first` on. Their function is finished.
  void checkGathers(size_t first);
  /// The same for a target that the loss leaves out and that is no token: it
  /// stands in the input `targets` of a loss of the model's own.
  void checkIgnored(size_t first, Emitter::Handle targets);
  /// The same for those that the tokenizer's tokens would choose, in all
  /// functions.
  void checkTokens();

private:
  /// One of them, and how it was reached.
  struct Lookup {
    Emitter::Handle result;
    std::string table;
    Dim rows;
    Range ids;
    CallStack calls;
  };
  /// The place of a lookup in the user's own files, with `calls` as they are
  /// there.
  Range placeOf(const Lookup &lookup, CallStack &calls) const;
  Diagnostic &error(ErrorCode code, const Lookup &lookup,
                    const llvm::Twine &message);
  /// `the table `p` has context = 16 rows`.
  static std::string rowsOf(const Lookup &lookup);
  /// What to write where token ids choose rows of a table that has too few.
  std::string helpWithTable(const Lookup &lookup) const;
  void warnAboutTable(const Lookup &least, int64_t count);

  const SourceManager &sources;
  Diagnostics &diags;
  Emitter &emitter;
  const Compilation &compilation;
  const InstanceTree &tree;
  Reporter &reporter;
  CallStack &callStack;
  CallerDims &callerDims;
  const RecipeContext &recipe;

  std::vector<Lookup> lookups;
};

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_TABLELOOKUPS_H
