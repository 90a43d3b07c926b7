//===- MatmulPlan.h - what a product's kernel reads in place ----*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CPU_MATMULPLAN_H
#define TFM_TARGET_CPU_MATMULPLAN_H

#include "compiler/target/cpu/ProductKernel.h"

namespace tfm {

/// Of the host's memory, in bytes.
inline constexpr int64_t pageBytes = 4096;

/// Elements along k in a slot of a panel.
int64_t elementsPerSlot(Terms terms);
/// Whether the micro-kernel can read A where it lies.
bool canReadA(const MatmulSpec &spec, Terms terms, const Matrix &a);
/// Whether it can read B where it lies.
bool canReadB(const MatmulSpec &spec, Terms terms, const Matrix &b,
              int64_t lanes);
/// Whether a tile's sums are stored to C as they are, else they go through
/// scratch.
bool storesSums(const MatmulSpec &spec, Terms terms, int64_t lanes);

} // namespace tfm

#endif // TFM_TARGET_CPU_MATMULPLAN_H
