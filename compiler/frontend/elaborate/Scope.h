//===- Scope.h - what names mean where an expression stands -----*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_SCOPE_H
#define TFM_FRONTEND_ELABORATE_SCOPE_H

#include "compiler/frontend/elaborate/InstanceTree.h"
#include "compiler/frontend/elaborate/Unit.h"

namespace tfm {

/// Where an expression stands: what its names mean.
struct Scope {
  const Unit *unit = nullptr;
  /// The instance whose body or method this is.
  Node *self = nullptr;
  /// Arguments and variables of a method.
  llvm::StringMap<SymbolicValue> locals;
  /// Dimensions bound by the caller (`B`, `T`).
  llvm::StringMap<Dim> dims;
  /// What `..` stands for.
  std::optional<Dims> ellipsis;
  /// Hyperparameters that are being bound (while an instance is made).
  const llvm::MapVector<llvm::StringRef, SymbolicValue> *binding = nullptr;
  /// The path that an instance made now gets, relative to `parent`.
  std::string pending = {};
  /// The node below which instances are made; null: `self`.
  Node *parent = nullptr;
  /// What a member is, or an element of the list that it is: of such a repeat
  /// the layers may come as several repeats, whose layers are numbered through.
  const ast::Expr *numbered = nullptr;
  /// Whether this is the body of a method: no instances are made here.
  bool inMethod = false;
  /// Whether this is a dimension in a signature.
  bool inSignature = false;
  /// The method and where it was called, for notes on its signature.
  std::string where = {};
  Range call = {};
};

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_SCOPE_H
