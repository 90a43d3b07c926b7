//===- Expressions.h - evaluates expressions --------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_EXPRESSIONS_H
#define TFM_FRONTEND_ELABORATE_EXPRESSIONS_H

#include "compiler/frontend/elaborate/ArgumentBinder.h"
#include "compiler/frontend/elaborate/Budget.h"
#include "compiler/frontend/elaborate/Scope.h"

namespace tfm {

class Builtins;
class Dimensions;
class Emitter;
class Instances;
class MethodCalls;
class Names;
class Operators;
class RecipeContext;
class Repeats;
class Tensors;

/// Evaluates expressions: names, members, indices and conditions itself;
/// operators, calls, instances and repeats by asking who does these.
class Expressions {
public:
  Expressions(const SourceManager &sources, Emitter &emitter,
              const Compilation &compilation, Budget &budget,
              Reporter &reporter, Names &names, Dimensions &dimensions,
              Tensors &tensors, Operators &operators, Builtins &builtins,
              Instances &instances, Repeats &repeats, MethodCalls &methodCalls,
              RecipeContext &recipe)
      : sources(sources), emitter(emitter), compilation(compilation),
        budget(budget), reporter(reporter), names(names),
        dimensions(dimensions), tensors(tensors), operators(operators),
        builtins(builtins), instances(instances), repeats(repeats),
        methodCalls(methodCalls), recipe(recipe) {}

  /// The value of an expression. A tensor that it computes fits in any memory.
  SymbolicValue eval(const ast::Expr &expr, Scope &scope);
  std::vector<CallArg> evalArguments(const ast::Expr &call, Scope &scope);
  /// True or false; nothing after an error, which calls the expression `what`.
  std::optional<bool> evalCondition(const ast::Expr &expr, Scope &scope,
                                    llvm::StringRef what);
  /// False where a requirement does not hold, which is reported with the values
  /// of its names.
  bool checkRequire(const ast::Expr *condition, const ast::Expr *message,
                    Scope &scope);

private:
  SymbolicValue evalKind(const ast::Expr &expr, Scope &scope);
  SymbolicValue evalName(const ast::Expr &expr, Scope &scope);
  SymbolicValue evalMember(const ast::Expr &expr, Scope &scope);
  SymbolicValue evalCall(const ast::Expr &expr, Scope &scope);
  SymbolicValue evalIndex(const ast::Expr &expr, Scope &scope);
  /// Layer `index` of a list or repeat that has so many.
  SymbolicValue layerOf(Node &node, int64_t index);
  SymbolicValue evalIf(const ast::Expr &expr, Scope &scope);

  const SourceManager &sources;
  Emitter &emitter;
  const Compilation &compilation;
  Budget &budget;
  Reporter &reporter;
  Names &names;
  Dimensions &dimensions;
  Tensors &tensors;
  Operators &operators;
  Builtins &builtins;
  Instances &instances;
  Repeats &repeats;
  MethodCalls &methodCalls;
  RecipeContext &recipe;

  unsigned depth = 0;
  /// The member that is evaluated, if its name alone would be known.
  const ast::Expr *prefixed = nullptr;
};

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_EXPRESSIONS_H
