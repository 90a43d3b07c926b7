//===- Habits.h - words of other languages and libraries --------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What users write who come from Python and its tensor libraries, and what says
// the same here.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_SYNTAX_HABITS_H
#define TFM_FRONTEND_SYNTAX_HABITS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace tfm {

/// What to write instead of a statement that begins with `word`, or empty.
llvm::StringRef statementHabit(llvm::StringRef word);

/// What to write instead of the function, method, module or constant `name`, or
/// empty.
llvm::StringRef nameHabit(llvm::StringRef name);

/// What stands for an entry `name` of a recipe's block, or empty.
llvm::StringRef entryHabit(llvm::StringRef name);
/// The same of what stands at `path` in the recipe (`train`,
/// `train.optimizer`), which has the entries that are `known`.
llvm::StringRef entryHabit(llvm::StringRef path, llvm::StringRef name,
                           llvm::ArrayRef<std::string> known);
/// What to write instead of an entry of an optimizer or a schedule, one of
/// those that are `known`.
llvm::StringRef argumentHabit(llvm::StringRef name,
                              llvm::ArrayRef<std::string> known);
/// The one of the words `known` that others call `word`, or empty.
llvm::StringRef wordHabit(llvm::StringRef word,
                          llvm::ArrayRef<llvm::StringRef> known);

} // namespace tfm

#endif // TFM_FRONTEND_SYNTAX_HABITS_H
