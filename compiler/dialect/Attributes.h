//===- Attributes.h - what passes leave for later ones ----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_DIALECT_ATTRIBUTES_H
#define TFM_DIALECT_ATTRIBUTES_H

#include "llvm/ADT/StringRef.h"

namespace tfm {

/// Of a module: the model's name, its file, its hyperparameters, its modules,
/// the shapes of its results as they were written, its recipe (JSON), what
/// other tools tell of its architecture (JSON), and what prevents generation
/// with a cache.
inline constexpr llvm::StringLiteral modelAttribute = "tfm.model",
                                     sourceAttribute = "tfm.source",
                                     hyperparametersAttribute =
                                         "tfm.hyperparameters",
                                     modulesAttribute = "tfm.modules",
                                     resultsAttribute = "tfm.results",
                                     recipeAttribute = "tfm.recipe",
                                     factsAttribute = "tfm.facts",
                                     wholeSequenceAttribute =
                                         "tfm.whole_sequence";

/// Of a function: the shapes that its methods' calls have, in their order.
inline constexpr llvm::StringLiteral shapesAttribute = "tfm.shapes";

/// Of an argument or a result: what it is called; its axes as they were
/// written; the region of the arena that it is; the parameter whose gradient it
/// is; the text of several that a part of a cache is of; and that it is the
/// number of a row where others begin.
inline constexpr llvm::StringLiteral nameAttribute = "tfm.name",
                                     dimsAttribute = "tfm.dims",
                                     regionAttribute = "tfm.region",
                                     gradientAttribute = "tfm.gradient",
                                     segmentAttribute = "tfm.segment",
                                     rowAttribute = "tfm.row";

/// Of an op: the user's words for its value, and for one that is a `const`.
inline constexpr llvm::StringLiteral valueAttribute = "tfm.value",
                                     constAttribute = "tfm.const";

} // namespace tfm

#endif // TFM_DIALECT_ATTRIBUTES_H
