//===- Builtins.h - the functions of the language ---------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_BUILTINS_H
#define TFM_FRONTEND_ELABORATE_BUILTINS_H

#include "compiler/frontend/elaborate/ArgumentBinder.h"
#include "compiler/frontend/elaborate/Blame.h"
#include "compiler/frontend/elaborate/Budget.h"
#include "compiler/frontend/elaborate/CurrentFunction.h"
#include "compiler/frontend/elaborate/Dimensions.h"
#include "compiler/frontend/elaborate/Names.h"
#include "compiler/frontend/elaborate/Operators.h"
#include "compiler/frontend/elaborate/TableLookups.h"
#include "compiler/frontend/elaborate/Tensors.h"

namespace tfm {

/// What the functions of the language see of the rest.
struct BuiltinContext {
  const SourceManager &sources;
  Emitter &emitter;
  Budget &budget;
  Reporter &reporter;
  Names &names;
  Blame &blame;
  Dimensions &dimensions;
  Tensors &tensors;
  Operators &operators;
  TableLookups &lookups;
  CurrentFunction &current;
};

/// Calls functions of the language by their name.
class Builtins {
public:
  Builtins(const BuiltinContext &context, ArgumentBinder &arguments)
      : context(context), arguments(arguments) {}

  /// Calls a function that there is.
  SymbolicValue call(llvm::StringRef name, std::vector<CallArg> &args,
                     Range range, Scope &scope);
  static bool contains(llvm::StringRef name);
  /// Whether a function takes a tensor and an axis, or may: `max`.
  static bool takesAxis(llvm::StringRef name);
  /// The names of all of them.
  static std::vector<std::string> all();

private:
  BuiltinContext context;
  ArgumentBinder &arguments;
};

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_BUILTINS_H
