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
  SymbolicValue evalList(const ast::Expr &expr, Scope &scope);
  SymbolicValue evalName(const ast::Expr &expr, Scope &scope);
  /// Reports a name that means nothing, with what may be meant.
  void reportUnknown(const ast::Expr &expr, Scope &scope);
  /// Adds to the report what `name` is most probably to be, one of those that
  /// are `known` or a word of another language.
  void suggestName(Diagnostic &d, llvm::StringRef name,
                   std::vector<std::string> known, const Scope &scope);

  SymbolicValue evalMember(const ast::Expr &expr, Scope &scope);
  /// What stands before the `.` of a member.
  SymbolicValue evalBase(const ast::Expr &member, Scope &scope);
  SymbolicValue memberOfTokenizer(const ast::Expr &expr);
  SymbolicValue memberOfModule(Node &node, const ast::Expr &expr);
  /// Of a list, a repeat, or one of its layers.
  SymbolicValue memberOfLayers(Node &node, const ast::Expr &expr);
  /// `x.T`, the member `expr` of a tensor.
  SymbolicValue transposed(const SymbolicValue &object, const ast::Expr &expr,
                           const Scope &scope);
  /// `member` of a tensor, or its call, as the call of a function:
  /// `mean(x, axis = 1)` for `x.mean(1)`.
  std::string asFunction(const ast::Expr &member) const;
  void reportNoTensorMember(const ast::Expr &expr, const Scope &scope);
  void reportNoMember(const Node &node, const ast::Expr &expr);

  /// Says what something that cannot be called hides under its name.
  void noteHidden(Diagnostic &d, const ast::Expr &name, const Scope &scope);
  SymbolicValue evalCall(const ast::Expr &expr, Scope &scope);

  SymbolicValue evalIndex(const ast::Expr &expr, Scope &scope);
  /// Layer `index` of a list or repeat that has so many.
  SymbolicValue layerOf(Node &node, int64_t index);
  /// Which of `size` elements the one subscript of a list means.
  std::optional<int64_t> indexInto(int64_t size, const ast::Expr &expr,
                                   Scope &scope);
  SymbolicValue slice(const SymbolicTensor &tensor, const ast::Expr &expr,
                      Scope &scope);
  /// Those from `begin` up to, but without `end` of an axis.
  struct Places {
    Dim begin, end;
  };
  /// The places that the subscript of an axis means, at least one; nothing
  /// after errors.
  std::optional<Places> evalSubscript(const ast::Expr &expr, size_t axis,
                                      const SymbolicTensor &tensor,
                                      Scope &scope);
  /// Reports places that the axis has not, or that are none.
  void reportNoPlaces(const Places &places, const ast::Expr &expr, size_t axis,
                      const SymbolicTensor &tensor);
  /// A number in a subscript of `object`, for that axis.
  std::optional<Dim> evalBound(const ast::Expr &bound, llvm::StringRef object,
                               size_t axis, Scope &scope);

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
  /// The call whose callee is evaluated.
  const ast::Expr *called = nullptr;
};

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_EXPRESSIONS_H
