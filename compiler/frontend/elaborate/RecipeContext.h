//===- RecipeContext.h - what the recipe takes and gives --------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_RECIPECONTEXT_H
#define TFM_FRONTEND_ELABORATE_RECIPECONTEXT_H

#include "compiler/frontend/Frontend.h"
#include "compiler/frontend/elaborate/Dimensions.h"
#include "compiler/frontend/elaborate/Expressions.h"
#include "compiler/frontend/elaborate/Names.h"
#include "compiler/frontend/elaborate/Overrides.h"
#include "compiler/frontend/recipe/Tokenizers.h"
#include "runtime/recipe_table.h"
#include "llvm/Support/JSON.h"

namespace tfm {

/// How long a sequence is where nothing says it.
inline constexpr int64_t defaultLength = recipe::integer("train.sequence");

/// What emitting functions needs to know of the recipe.
struct Training {
  bool present = false;
  int64_t batch = recipe::integer("train.batch");
  int64_t sequence = 0;
  Range lossRange;
  std::string lossKind{recipe::text("train.loss.kind")};
  std::optional<int64_t> ignore;
  double labelSmoothing = recipe::number("train.loss.label_smoothing");
  /// Further dimensions of the caller, and where the block names them.
  llvm::StringMap<int64_t> dims;
  llvm::StringMap<Range> dimRanges;
  /// Where `sample` stands, if it does, and its prompt.
  std::optional<Range> sampleRange;
  std::string samplePrompt;
};

/// All that `RecipeBuilder` sees of elaborating while it reads the blocks of
/// the main file, and what it leaves for the rest.
class RecipeContext {
public:
  RecipeContext(SourceManager &sources, Diagnostics &diags,
                const FrontendOptions &options, const Compilation &compilation,
                InstanceTree &tree, Overrides &overrides, Reporter &reporter,
                Names &names, Dimensions &dimensions, Expressions &expressions)
      : sources(sources), diags(diags), options(options),
        compilation(compilation), root(tree.root),
        recipeEntries(overrides.recipeEntries), tree(tree),
        overrides(overrides), reporter(reporter), names(names),
        dimensions(dimensions), expressions(expressions) {}

  SourceManager &sources;
  Diagnostics &diags;
  const FrontendOptions &options;
  const Compilation &compilation;
  /// The model; null where it could not be made.
  Node *const &root;
  std::map<std::string, std::vector<std::string>> &recipeEntries;

  const ast::Block *block(llvm::StringRef keyword) const {
    return compilation.block(keyword);
  }
  int64_t contextLength() const { return tree.contextLength(); }
  /// What the model's instances have; their names are final.
  std::deque<Param> &params() { return tree.params; }
  Override *findDefine(llvm::StringRef key) { return overrides.find(key); }
  const ast::Expr *useDefine(Override &define, Wanted wanted) {
    return overrides.use(define, wanted);
  }
  SymbolicValue eval(const ast::Expr &expr, Scope &scope) {
    return expressions.eval(expr, scope);
  }
  bool isUnknownWord(const ast::Expr &expr, const Scope &scope) {
    return names.isUnknownWord(expr, scope);
  }
  bool isTensorInteger(int64_t value, Range range) {
    return dimensions.isTensorInteger(value, range);
  }
  void suggest(Diagnostic &d, llvm::StringRef name,
               llvm::ArrayRef<std::string> candidates) {
    reporter.suggest(d, name, candidates);
  }

  /// The tokenizer of the main file, read at the first question; null, after
  /// its errors, without one. `range` is where it is needed, and with `token`
  /// for the id of that.
  const TokenizerInfo *resolveTokenizer(Range range,
                                        llvm::StringRef token = "");

  /// The recipe as docs/design.md has it.
  llvm::json::Object recipe;
  Training train;
  /// How many texts are generated together.
  int64_t generateBatch = recipe::integer("generate.batch");
  /// Where `generate.cache` names another type than that which it has anyway.
  std::optional<Range> cacheRange;
  /// How many tokens the recipe's tokenizer has, if it is known.
  std::optional<int64_t> tokenizerSize() const {
    const llvm::json::Object *found = recipe.getObject("tokenizer");
    return found ? found->getInteger("size") : std::nullopt;
  }

  /// Whether the data is arrays, which fill inputs of any names.
  bool hasArrays() const {
    const llvm::json::Object *data = recipe.getObject("data");
    return data && data->getString("kind") == "arrays";
  }

private:
  void reportNoTokenizer(Range range, llvm::StringRef token);

  InstanceTree &tree;
  Overrides &overrides;
  Reporter &reporter;
  Names &names;
  Dimensions &dimensions;
  Expressions &expressions;
  std::optional<TokenizerInfo> tokenizer;
  bool tokenizerTried = false;
};

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_RECIPECONTEXT_H
