//===- ArgumentBinder.h - binds arguments to parameters ---------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_ARGUMENTBINDER_H
#define TFM_FRONTEND_ELABORATE_ARGUMENTBINDER_H

#include "compiler/frontend/elaborate/InstanceTree.h"
#include "compiler/frontend/elaborate/Reporter.h"

namespace tfm {

/// An evaluated argument of a call.
struct CallArg {
  llvm::StringRef name;
  Range nameRange;
  Range range;
  SymbolicValue value;
  const ast::Expr *expr = nullptr;
};

/// Binds the arguments of a call to the names of parameters, of methods,
/// modules and functions of the language alike.
class ArgumentBinder {
public:
  ArgumentBinder(Reporter &reporter, const InstanceTree &tree)
      : reporter(reporter), tree(tree) {}

  /// Binds evaluated arguments to the names of parameters; reports E0401,
  /// E0402, E0403, E0414. Result: per parameter the argument, or null.
  /// Arguments with one of `furtherNames` are passed over; `isOpen` says that
  /// there may be others behind these.
  std::optional<std::vector<CallArg *>>
  bind(llvm::ArrayRef<llvm::StringRef> names, llvm::ArrayRef<bool> required,
       std::vector<CallArg> &args, Range range, llvm::StringRef callee,
       llvm::ArrayRef<llvm::StringRef> furtherNames = {}, bool isOpen = false);

private:
  Reporter &reporter;
  const InstanceTree &tree;
};

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_ARGUMENTBINDER_H
