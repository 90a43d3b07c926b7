//===- SchedDialect.td - the sched dialect ------------------------*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_SCHEDULE_SCHEDDIALECT_TD
#define TFM_SCHEDULE_SCHEDDIALECT_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/DialectBase.td"
include "mlir/IR/EnumAttr.td"

def Sched_Dialect : Dialect {
  let name = "sched";
  let cppNamespace = "::tfm::sched";
  let summary = "Kernels over one statically planned arena";
  let description = [{
    A compiled model is a schedule of kernels over one arena: which kernels run,
    in what order, on which bytes. A function of the tfm dialect becomes one in
    these steps and some between them (docs/design.md):

    1. `sched-form-kernels` outlines the ops that share a kernel into
       `sched.kernel`, still on tensors;
    2. `sched-split-sums` cuts long sums over rows into chunks;
    3. `sched-place-values` gives every tensor that goes through memory a place:
       functions become `sched.program`, kernels `sched.launch` on strided views
       of `sched.buffer`;
    4. `sched-plan-memory` gives every buffer its offset in the arena.

    What a kernel computes stays in the ops of the tfm dialect, inside of
    regions that are isolated from above, so that two launches of one kernel
    are equal IR.
  }];
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::tfm::TfmDialect"];
}

#endif // TFM_SCHEDULE_SCHEDDIALECT_TD
