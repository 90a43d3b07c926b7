//===- Flops.cpp - floating-point operations by the kind of op ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/report/Flops.h"

#include "compiler/dialect/TfmDialect.h"

using namespace mlir;
using namespace tfm;

void tfm::countFlops(Region &region, int64_t executions,
                     llvm::StringMap<int64_t> &byKind) {
  for (Operation &op : region.getOps()) {
    if (auto repeat = dyn_cast<RepeatOp>(op)) {
      countFlops(repeat.getBody(),
                 executions * static_cast<int64_t>(repeat.getCount()), byKind);
      continue;
    }
    if (int64_t flops = flopsOf(&op))
      byKind[op.getName().stripDialect()] += executions * flops;
  }
}
