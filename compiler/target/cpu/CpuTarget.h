//===- CpuTarget.h - the target cpu -----------------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CPU_CPUTARGET_H
#define TFM_TARGET_CPU_CPUTARGET_H

namespace tfm {

/// Makes the target `cpu` known (`KernelTarget`) and its passes.
void registerCpuTarget();

} // namespace tfm

#endif // TFM_TARGET_CPU_CPUTARGET_H
