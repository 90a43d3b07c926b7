//===- LayerAlias.h - further names of stacked parameters -------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_DIALECT_LAYERALIAS_H
#define TFM_DIALECT_LAYERALIAS_H

#include "compiler/dialect/TfmDialect.h"
#include <string>

namespace tfm {

/// The alias of one layer of a parameter, counted as its names are
/// (ParamOp::getLayerNames): its `*`, and those that are part of a number (of
/// turn i of `3*+1` it is `3 * i + 1`), count as the parameter's own do.
std::string layerAlias(llvm::StringRef alias, ParamOp param, size_t layer);

} // namespace tfm

#endif // TFM_DIALECT_LAYERALIAS_H
