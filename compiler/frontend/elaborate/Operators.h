//===- Operators.h - operators on numbers and tensors -----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_OPERATORS_H
#define TFM_FRONTEND_ELABORATE_OPERATORS_H

#include "compiler/frontend/elaborate/Blame.h"
#include "compiler/frontend/elaborate/Budget.h"
#include "compiler/frontend/elaborate/Emitter.h"
#include "compiler/frontend/elaborate/Reporter.h"

namespace tfm {

class Expressions;
class Tensors;
struct Scope;

/// The operators of the language, on numbers, on numbers for each layer, and on
/// tensors.
class Operators {
public:
  Operators(const SourceManager &sources, Emitter &emitter, Budget &budget,
            Reporter &reporter, Blame &blame, Tensors &tensors,
            Expressions &expressions)
      : sources(sources), emitter(emitter), budget(budget), reporter(reporter),
        blame(blame), tensors(tensors), expressions(expressions) {}

  SymbolicValue evalUnary(const ast::Expr &expr, Scope &scope);
  SymbolicValue evalBinary(const ast::Expr &expr, Scope &scope);
  /// `op` of two values of which one is a tensor, element by element; `expr`
  /// says where they stand.
  SymbolicValue tensorArithmetic(llvm::StringRef op, const SymbolicValue &a,
                                 const SymbolicValue &b, const ast::Expr &expr);
  /// The same of two numbers, of which each may be one for each layer.
  SymbolicValue numberArithmetic(llvm::StringRef op, const SymbolicValue &a,
                                 const SymbolicValue &b, const ast::Expr &expr);

private:
  /// `x % n` of integers, where all of `n` are one positive number.
  SymbolicTensor remainder(const SymbolicTensor &x, const SymbolicTensor &n);
  SymbolicValue evalLogic(const ast::Expr &expr, Scope &scope);
  SymbolicValue arithmetic(llvm::StringRef op, const SymbolicValue &a,
                           const SymbolicValue &b, const ast::Expr &expr);
  /// Whether an operator divides by a number that is 0; reports E0407 then.
  bool dividesByZero(llvm::StringRef op, const SymbolicValue &by,
                     const ast::Expr &expr);
  /// A float; reports E0413 where it is infinite or no number.
  SymbolicValue finite(double number, llvm::StringRef what, Range range);
  /// What `combine` makes of two values, of which one at least is one for each
  /// layer: in each layer of its own.
  SymbolicValue
  inEachLayer(const SymbolicValue &a, const SymbolicValue &b,
              const ast::Expr &expr,
              llvm::function_ref<SymbolicValue(const SymbolicValue &,
                                               const SymbolicValue &)>
                  combine);
  SymbolicValue matmul(const SymbolicValue &a, const SymbolicValue &b,
                       const ast::Expr &expr);

  const SourceManager &sources;
  Emitter &emitter;
  Budget &budget;
  Reporter &reporter;
  Blame &blame;
  Tensors &tensors;
  Expressions &expressions;
};

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_OPERATORS_H
