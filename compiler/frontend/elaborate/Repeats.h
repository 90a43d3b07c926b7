//===- Repeats.h - repeated layers ------------------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_REPEATS_H
#define TFM_FRONTEND_ELABORATE_REPEATS_H

#include "compiler/frontend/elaborate/Blame.h"
#include "compiler/frontend/elaborate/Budget.h"
#include "compiler/frontend/elaborate/Reporter.h"

namespace tfm {

class Expressions;
class Instances;
struct CallArg;
struct Scope;

/// Makes `repeat(n) Block(...)` a node with as many bodies as the layers have
/// different ones: what differs with a period is unrolled over it, numbers that
/// differ without one become a number for each layer. What else differs makes a
/// list of several nodes, where a list may stand (`Scope::numbered`).
class Repeats {
public:
  Repeats(const Diagnostics &diags, InstanceTree &tree, Budget &budget,
          Reporter &reporter, Blame &blame, Expressions &expressions,
          Instances &instances)
      : diags(diags), tree(tree), budget(budget), reporter(reporter),
        blame(blame), expressions(expressions), instances(instances) {}

  SymbolicValue evalRepeat(const ast::Expr &expr, Scope &scope);

private:
  /// How many layers a repeat has.
  std::optional<Dim> countOf(const ast::Expr &expr, Scope &scope);
  /// Reports what a `repeat` cannot repeat, unless that is poison.
  void reportNoModule(const SymbolicValue &value, Range range);
  /// Those of `repeat(n) Block(...)`, below the node that is the parent in
  /// `inner`.
  SymbolicValue repeatModule(const ast::Expr &expr, const SymbolicValue &module,
                             Scope &inner);
  /// The arguments of `Block(...)` for each layer up to the first with an
  /// error, once where no layer has an index; empty where the budget is spent.
  std::vector<std::vector<CallArg>> evalLayers(const ast::Expr &expr,
                                               Scope &inner);

  const Diagnostics &diags;
  InstanceTree &tree;
  Budget &budget;
  Reporter &reporter;
  Blame &blame;
  Expressions &expressions;
  Instances &instances;
};

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_REPEATS_H
