//===- MaskedDropout.h - dropout by masks that are inputs -------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TESTS_UNIT_CODEGEN_MASKEDDROPOUT_H
#define TFM_TESTS_UNIT_CODEGEN_MASKEDDROPOUT_H

#include "mlir/IR/BuiltinOps.h"

namespace tfm {

/// Gives `@loss` a further argument for every dropout, in the order of their
/// sites: a float mask, 1 keeps and 0 drops, of the shape of what is dropped.
/// Attention with dropout becomes products and a softmax with the mask between
/// them. So compiled code can be compared with what another framework computed
/// from masks of its own. Dropout inside a repeat and attention with a window,
/// a mask or shared heads stay as they are. Returns the number of masks.
int64_t maskDropout(mlir::ModuleOp module);

} // namespace tfm

#endif // TFM_TESTS_UNIT_CODEGEN_MASKEDDROPOUT_H
