//===- CallerDims.h - the dimensions that the caller decides ----*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_CALLERDIMS_H
#define TFM_FRONTEND_ELABORATE_CALLERDIMS_H

#include "compiler/frontend/elaborate/RecipeContext.h"

#include "llvm/ADT/StringSet.h"

namespace tfm {

/// The dimensions `B`, `T`, ... of the function that is being emitted, and the
/// shapes that its inputs have with them.
class CallerDims {
public:
  CallerDims(Diagnostics &diags, const Compilation &compilation,
             const InstanceTree &tree, Overrides &overrides, Blame &blame,
             Names &names, Dimensions &dimensions, Expressions &expressions,
             const RecipeContext &recipe)
      : diags(diags), compilation(compilation), tree(tree),
        overrides(overrides), blame(blame), names(names),
        dimensions(dimensions), expressions(expressions), recipe(recipe) {}

  /// A function begins, with these `B` and `T` where the command line gives no
  /// others; `batchEntry` of the recipe says how many `B` is, nothing where
  /// that is one sequence.
  void begin(int64_t newBatch, int64_t newSequence, llvm::StringRef batchEntry);
  /// The dimension that the caller decides under this name.
  Dim get(llvm::StringRef name);
  /// The sizes of a type in a signature; nothing after errors, which say
  /// "a dimension of `what`".
  std::optional<Dims> evalDims(const ast::TypeExpr &type,
                               const llvm::Twine &what);
  /// How many tokens `forward` takes while generating.
  int64_t generationLength() const;

  /// Whether there is a function, of which a dimension is known.
  bool isEmpty() const { return dims.empty(); }
  bool contains(llvm::StringRef name) const { return dims.contains(name); }
  /// Reports the dimensions that the recipe gives a size, and that no function
  /// has had.
  void reportUnasked();

private:
  Diagnostics &diags;
  const Compilation &compilation;
  const InstanceTree &tree;
  Overrides &overrides;
  Blame &blame;
  Names &names;
  Dimensions &dimensions;
  Expressions &expressions;
  const RecipeContext &recipe;

  llvm::StringMap<Dim> dims;
  llvm::StringSet<> everAsked;
  int64_t batch = 1;
  llvm::StringRef batchEntry;
  int64_t sequence = defaultLength;
};

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_CALLERDIMS_H
