//===- Signatures.h - shapes of arguments and results -----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_SIGNATURES_H
#define TFM_FRONTEND_ELABORATE_SIGNATURES_H

#include "compiler/frontend/elaborate/CallStack.h"
#include "compiler/frontend/elaborate/Reporter.h"
#include "compiler/frontend/elaborate/Scope.h"

namespace tfm {

class Dimensions;
class Expressions;
class Names;
class Tensors;

/// Where floats are wanted: an integer, or one for each layer, as such;
/// anything else as it is.
SymbolicValue asFloat(const SymbolicValue &value);

/// Holds values against the types that signatures and assignments declare, and
/// binds the dimensions that the caller decides.
class Signatures {
public:
  Signatures(const SourceManager &sources, CallStack &callStack,
             Reporter &reporter, Names &names, Dimensions &dimensions,
             Tensors &tensors, Expressions &expressions)
      : sources(sources), callStack(callStack), reporter(reporter),
        names(names), dimensions(dimensions), tensors(tensors),
        expressions(expressions) {}

  /// Whether a tensor that messages call `what` has the declared type; `code`
  /// is of errors in its sizes. With `bindDims` capitals that nothing has bound
  /// yet take their size from it.
  bool checkShape(const SymbolicTensor &tensor, const ast::TypeExpr &type,
                  Scope &scope, Range range,
                  llvm::function_ref<std::string()> what, ErrorCode code,
                  bool bindDims);
  /// What `type`, which has no shape, makes of a value that `what` names;
  /// poison after an error where it is of another type.
  SymbolicValue checkValue(const SymbolicValue &value,
                           const ast::TypeExpr &type, Range range,
                           llvm::function_ref<std::string()> what);
  /// The argument as the method sees it, or poison.
  SymbolicValue checkArgument(const ast::Parameter &parameter,
                              SymbolicValue value, Scope &scope, Range range,
                              llvm::StringRef callee);
  /// The result as the caller sees it, or poison.
  SymbolicValue checkResult(SymbolicValue value, const ast::Method &method,
                            Scope &scope, Range range, llvm::StringRef where);
  /// What a method that failed would have returned, as its signature says it:
  /// with it, the caller's own mistakes show in the same run. Poison where the
  /// signature does not say enough. Nothing of this is ever emitted.
  SymbolicValue promisedResult(const ast::Method &method, Scope &scope);

private:
  /// Of a dimension `size` of an argument of an instance's `forward`, which is
  /// another one than `actual`: where the instance was given it.
  void noteInstance(Diagnostic &d, const Node &node, llvm::StringRef size,
                    const Dim &actual);

  const SourceManager &sources;
  CallStack &callStack;
  Reporter &reporter;
  Names &names;
  Dimensions &dimensions;
  Tensors &tensors;
  Expressions &expressions;
};

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_SIGNATURES_H
