//===- Overrides.h - what `-D name=value` sets ------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_OVERRIDES_H
#define TFM_FRONTEND_ELABORATE_OVERRIDES_H

#include "compiler/frontend/Frontend.h"
#include "compiler/frontend/elaborate/Compilation.h"
#include "compiler/frontend/elaborate/InstanceTree.h"
#include "llvm/ADT/StringSet.h"

#include <deque>
#include <map>

namespace tfm {

/// What an entry takes, which decides how an override of it is read: shells eat
/// quotes, so that a text comes without them. `Texts` may also be a list in
/// brackets, `TextOrId` an integer.
enum class Wanted { Value, Text, Texts, TextOrId };

/// One `-D key=text`.
struct Override {
  std::string key;
  std::string text;
  /// Null where the text is no expression: `problems` tell why.
  ast::Expr *value = nullptr;
  std::unique_ptr<Diagnostics> problems;
  Range range;
  bool used = false;
};

/// The overrides of the command line, parsed as sources of their own, and which
/// of them something used.
class Overrides {
public:
  Overrides(SourceManager &sources, Diagnostics &diags,
            const FrontendOptions &options, const Compilation &compilation,
            const InstanceTree &tree)
      : sources(sources), diags(diags), options(options),
        compilation(compilation), tree(tree) {}

  void parse();
  /// Null where there is none for `key`.
  Override *find(llvm::StringRef key);
  /// The expression of an override that something uses as `wanted`; null after
  /// its errors. A text is taken as it stands, but for one that begins with a
  /// quote, and for `none`.
  const ast::Expr *use(Override &define, Wanted wanted);
  /// Adds every name that one of them reads.
  void readNames(llvm::StringSet<> &read) const;
  /// Reports those that nothing used, with what could have been meant.
  void reportUnused();

  /// The entries that a block or a form of it has, by its path (`train`,
  /// `train.optimizer`): what can be overridden. Filled by who reads blocks.
  std::map<std::string, std::vector<std::string>> recipeEntries;

private:
  /// Reports what is wrong with the name of an override.
  Diagnostic &error(const Override &define, const llvm::Twine &message);
  // Of an override that nothing used: the model has no hyperparameter `name`,
  // the file no such block, or its block no such entry.
  void reportNoHyperparameter(const Override &define, llvm::StringRef name);
  void reportNoBlock(const Override &define, llvm::StringRef blockName,
                     llvm::StringRef entry);
  void reportNoEntry(const Override &define, llvm::StringRef blockName,
                     llvm::StringRef entry);
  /// Says what was most probably meant: what is called so `elsewhere`, else the
  /// `guess` among the `names` that there are, else one of these.
  static void suggest(Diagnostic &d, llvm::StringRef guess,
                      llvm::ArrayRef<std::string> elsewhere,
                      llvm::ArrayRef<std::string> names);

  SourceManager &sources;
  Diagnostics &diags;
  const FrontendOptions &options;
  const Compilation &compilation;
  const InstanceTree &tree;
  ast::File trees;
  std::vector<Override> overrides;
  /// Texts in the quotes that they came without.
  std::deque<std::string> quoted;
};

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_OVERRIDES_H
