//===- SplitProducts.h - a product as a sum of several ----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_EMIT_SPLITPRODUCTS_H
#define TFM_TARGET_EMIT_SPLITPRODUCTS_H

#include "compiler/dialect/TfmDialect.h"

namespace tfm {

/// Replaces a matrix product of rank 2 by a batch of `parts` products, each of
/// as many of its terms, whose results are added up in order. `parts` divides
/// the number of terms.
void splitProduct(MatmulOp op, int64_t parts);

} // namespace tfm

#endif // TFM_TARGET_EMIT_SPLITPRODUCTS_H
