//===- ParamMembers.h - declares the parameters of an instance --*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_PARAMMEMBERS_H
#define TFM_FRONTEND_ELABORATE_PARAMMEMBERS_H

#include "compiler/frontend/elaborate/ArgumentBinder.h"

namespace tfm {

class Builtins;
class Dimensions;
class Expressions;
struct Scope;

/// Declares the parameters of instances, each with its shape and initialiser,
/// or ties it to another one.
class ParamMembers {
public:
  ParamMembers(const SourceManager &sources, InstanceTree &tree,
               Reporter &reporter, Dimensions &dimensions, Builtins &builtins,
               Expressions &expressions)
      : sources(sources), tree(tree), reporter(reporter),
        dimensions(dimensions), builtins(builtins), expressions(expressions) {}

  /// Declares `param name: [...] = init`. The one of `ties` that it takes loses
  /// its expression.
  void declare(Node &node, const ast::Member &member, Scope &scope,
               std::vector<CallArg> &ties);

private:
  SymbolicValue evalInit(const SymbolicValue &value, Range range);

  const SourceManager &sources;
  InstanceTree &tree;
  Reporter &reporter;
  Dimensions &dimensions;
  Builtins &builtins;
  Expressions &expressions;
};

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_PARAMMEMBERS_H
