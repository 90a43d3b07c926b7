//===- ModelFacts.h - what a graph says of itself ---------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TRANSFORMS_MODELFACTS_H
#define TFM_TRANSFORMS_MODELFACTS_H

#include "mlir/IR/BuiltinOps.h"

#include <optional>
#include <string>

namespace tfm {

/// What the shapes of parameters do not show of a model, read from the
/// attributes and operands of `@forward` as the frontend hands it over: heads,
/// windows, epsilons, activations, rotary positions, a tied output layer. JSON;
/// docs/design.md, "Facts", has the fields. What is not certain is left out.
std::string modelFacts(mlir::ModuleOp module);

/// The factor of an op that multiplies, or divides, by one number.
std::optional<double> factorOf(mlir::Operation *op);

} // namespace tfm

#endif // TFM_TRANSFORMS_MODELFACTS_H
