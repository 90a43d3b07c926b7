//===- LowerKernels.cpp - kernels to the llvm dialect, as a pass ----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/Lower.h"
#include "compiler/target/cpu/Passes.h"

namespace tfm::cpu {
#define GEN_PASS_DEF_LOWERKERNELSPASS
#include "compiler/target/cpu/Passes.h.inc"
} // namespace tfm::cpu

namespace {

struct LowerKernelsPass
    : tfm::cpu::impl::LowerKernelsPassBase<LowerKernelsPass> {
  using LowerKernelsPassBase::LowerKernelsPassBase;

  void runOnOperation() override {
    if (failed(tfm::lowerToLLVMDialect(getOperation(), roundsToBf16)))
      signalPassFailure();
  }
};

} // namespace
