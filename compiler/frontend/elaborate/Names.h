//===- Names.h - the meaning of names ---------------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_NAMES_H
#define TFM_FRONTEND_ELABORATE_NAMES_H

#include "compiler/frontend/elaborate/Scope.h"

namespace tfm {

class UnitReader;
struct Compilation;

/// Looks names up: in a scope, in the file and what it imports, in std, among
/// the functions of the language.
class Names {
public:
  Names(const Compilation &compilation, UnitReader &units)
      : compilation(compilation), units(units) {}

  /// The meaning of a name, or nothing.
  std::optional<SymbolicValue> lookup(llvm::StringRef name, const Scope &scope);
  /// Whether that is an instance although a hyperparameter, which is none, has
  /// the name, too.
  static bool hidesHyperparameter(llvm::StringRef name, const Scope &scope);
  /// Whether an expression is a word alone that has no meaning.
  bool isUnknownWord(const ast::Expr &expr, const Scope &scope);
  /// What the module and its method declare.
  static std::vector<std::string> namesOfModule(const Scope &scope);
  /// The same, and everything of files that has a name here.
  std::vector<std::string> namesInScope(const Scope &scope) const;

private:
  const Compilation &compilation;
  UnitReader &units;
};

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_NAMES_H
