//===- Consts.h - constants, evaluated in f64 -------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_CONSTS_H
#define TFM_FRONTEND_ELABORATE_CONSTS_H

#include "compiler/frontend/Frontend.h"
#include "compiler/frontend/elaborate/Compilation.h"

namespace tfm {

/// A constant has no more elements.
inline constexpr size_t maxConstElements = 300'000'000;

class Dimensions;
class Expressions;
class Reporter;
struct Scope;

/// Declares, checks and computes the `const` tensors of files and modules.
class Consts {
public:
  Consts(const SourceManager &sources, const FrontendOptions &options,
         Compilation &compilation, Reporter &reporter, Dimensions &dimensions,
         Expressions &expressions)
      : sources(sources), options(options), compilation(compilation),
        reporter(reporter), dimensions(dimensions), expressions(expressions) {}

  /// Fills in the shape of `constant` from its declaration.
  void declare(Const &constant, const ast::Member &member, Scope &scope);
  /// Looks for mistakes in the formula, without computing it.
  void check(Const &constant);
  /// Computes the elements, once. False after errors.
  bool evaluate(Const &constant);

private:
  const SourceManager &sources;
  const FrontendOptions &options;
  Compilation &compilation;
  Reporter &reporter;
  Dimensions &dimensions;
  Expressions &expressions;
};

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_CONSTS_H
