//===- DataFit.h - whether the data of a recipe fits its model --*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_DATAFIT_H
#define TFM_FRONTEND_ELABORATE_DATAFIT_H

#include "compiler/frontend/elaborate/CallerDims.h"
#include "compiler/frontend/elaborate/Emitter.h"

namespace tfm {

/// Holds a model against the `data` and `tokenizer` of its recipe; without
/// `data` everything fits. Reports E0221.
class DataFit {
public:
  DataFit(const Compilation &compilation, Reporter &reporter,
          CallerDims &callerDims, const RecipeContext &recipe)
      : compilation(compilation), reporter(reporter), callerDims(callerDims),
        recipe(recipe) {}

  /// Whether data can fill the inputs of a training step.
  bool fills(const ast::Method &entry, llvm::ArrayRef<Emitter::Input> inputs);
  /// Whether a model's own `loss` gives one number for each target.
  bool isLossPerTarget(const SymbolicTensor &losses, const ast::Method &loss);
  /// Whether there are logits for all tokens.
  bool tokensFit(const SymbolicTensor &logits, const ast::Method &forward);

private:
  /// The same of arrays.
  bool arraysFill(const ast::Method &entry,
                  llvm::ArrayRef<Emitter::Input> inputs);
  /// Whether data can fill what an encoder reads; reports at `range` what it
  /// lacks.
  bool fillsSource(const Emitter::Input &source, Range range);

  const Compilation &compilation;
  Reporter &reporter;
  CallerDims &callerDims;
  const RecipeContext &recipe;
};

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_DATAFIT_H
