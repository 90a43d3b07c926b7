//===- UnusedWarnings.h - warnings of what nothing uses ---------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_UNUSEDWARNINGS_H
#define TFM_FRONTEND_ELABORATE_UNUSEDWARNINGS_H

#include "compiler/frontend/Diagnostics.h"
#include "compiler/frontend/elaborate/Compilation.h"
#include "compiler/frontend/elaborate/InstanceTree.h"
#include "compiler/frontend/elaborate/Overrides.h"
#include "llvm/ADT/StringSet.h"

namespace tfm {

/// Warns of names that nothing reads, or that stand for two things, and of
/// parameters that no function reads, once everything is emitted.
class UnusedWarnings {
public:
  UnusedWarnings(Diagnostics &diags, const Compilation &compilation,
                 const InstanceTree &tree, const Overrides &overrides)
      : diags(diags), compilation(compilation), tree(tree),
        overrides(overrides) {}

  /// What needs no instances: values that a method computes in vain,
  /// hyperparameters, constants, imports.
  void warnAboutNames();
  void warnAboutParameters();
  /// Inputs of an encoder that the model does not read.
  void warnAboutPrompts();

private:
  /// Of one module; `outside` are names of members that are read anywhere.
  void warnAboutNames(const ast::Module &module,
                      const llvm::StringSet<> &outside);
  /// Of a method that nothing calls, where there is a model.
  void warnAboutMethod(const ast::Module &module, const ast::Member &member);
  /// Of a file: its constants and imports.
  void warnAboutItems(const Unit &unit);
  /// Of a name that a file does not define: that two of its imports do.
  void warnAboutDouble(const Unit &unit, llvm::StringRef name);
  void warnAboutValues(const ast::Method &method);

  Diagnostics &diags;
  const Compilation &compilation;
  const InstanceTree &tree;
  const Overrides &overrides;
};

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_UNUSEDWARNINGS_H
