//===- Hyperparameters.h - binds and checks hyperparameters -----*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_HYPERPARAMETERS_H
#define TFM_FRONTEND_ELABORATE_HYPERPARAMETERS_H

#include "compiler/frontend/elaborate/ArgumentBinder.h"
#include "compiler/frontend/elaborate/Blame.h"
#include "compiler/frontend/elaborate/Budget.h"
#include "compiler/frontend/elaborate/Overrides.h"

namespace tfm {

class Expressions;
class Names;
struct Scope;

/// Gives the hyperparameters of an instance their values: from arguments, for
/// the model from the command line, or from defaults; and checks their types.
class Hyperparameters {
public:
  Hyperparameters(const SourceManager &sources, const Compilation &compilation,
                  Budget &budget, Reporter &reporter, CallStack &callStack,
                  ArgumentBinder &arguments, Overrides &overrides, Blame &blame,
                  Names &names, Expressions &expressions)
      : sources(sources), compilation(compilation), budget(budget),
        reporter(reporter), callStack(callStack), arguments(arguments),
        overrides(overrides), blame(blame), names(names),
        expressions(expressions) {}

  /// Fills `node.hyperparameters`. Arguments that are parameters (`weight =
  /// embedding.weight`) are no hyperparameters, and go to `ties`. False after
  /// errors in the call itself.
  bool bind(const ast::Module &decl, const Unit *unit,
            std::vector<CallArg> &args, Range range, Node &node, bool isRoot,
            std::vector<CallArg> &ties);

private:
  /// `width` of `M` takes an integer, not what was `found`.
  Diagnostic &wrong(const ast::Parameter &parameter,
                    const SymbolicValue &defaultValue, Range range,
                    const ast::Module &decl, const llvm::Twine &found);
  /// Reports a word of the command line that has no meaning where a number is
  /// wanted; whether it did.
  bool reportWord(const ast::Expr &expr, const ast::Parameter &parameter,
                  const SymbolicValue &defaultValue, const ast::Module &decl,
                  const Scope &scope);
  SymbolicValue check(const ast::Parameter &parameter, SymbolicValue value,
                      const SymbolicValue &defaultValue, Range range,
                      const ast::Module &decl);

  const SourceManager &sources;
  const Compilation &compilation;
  Budget &budget;
  Reporter &reporter;
  CallStack &callStack;
  ArgumentBinder &arguments;
  Overrides &overrides;
  Blame &blame;
  Names &names;
  Expressions &expressions;
};

/// Whether this is a function of the language that makes an initialiser:
/// `normal`.
bool isInitName(llvm::StringRef name);
/// Whether a value is, or has, a tensor that is computed.
bool holdsTensor(const SymbolicValue &value);
/// What to write instead, where no tensor can be.
inline constexpr llvm::StringRef tensorHelp =
    "tensors are computed in `forward`; fixed ones are `const`";

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_HYPERPARAMETERS_H
