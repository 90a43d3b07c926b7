//===- GroupedTerms.h - weights of 4 bits as numbers ------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `tfm.dequantise` says how the integers of groups lie in bytes.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_EMIT_GROUPEDTERMS_H
#define TFM_TARGET_EMIT_GROUPEDTERMS_H

#include "compiler/target/emit/KernelBuilder.h"

namespace tfm {

/// `lanes` bytes, as i32.
mlir::Value loadBytes(KernelBuilder &kb, mlir::Value ptr);
/// The integers in the low half of each, or in the high one where `high` is 1
/// and not 0, as f32.
mlir::Value integersOfHalf(KernelBuilder &kb, mlir::Value bytes,
                           mlir::Value high);
/// A bf16 as f32.
mlir::Value loadBf16(KernelBuilder &kb, mlir::Value ptr);

} // namespace tfm

#endif // TFM_TARGET_EMIT_GROUPEDTERMS_H
