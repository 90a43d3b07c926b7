//===- Passes.td - from a planned arena to kernels ----------------*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_PASSES_TD
#define TFM_TARGET_PASSES_TD

include "mlir/Pass/PassBase.td"

def SerializeSmallStepsPass : Pass<"sched-serialize-small-steps", "::mlir::ModuleOp"> {
  let summary = "small steps by one thread, without a hand-over";
  let description = [{
    Steps that take less than to hand over from one to the next
    (`KernelTarget::smallStepSeconds`) go into a `sched.serial` with the step
    before them, which threads share and the last of which runs them: norms,
    scales and caches of a token behind a product. Those at the beginning of a
    program or a layer one thread runs by themselves.
  }];
  let options = [Option<"target", "target", "std::string", "\"cpu\"",
                        "by whose costs: KIND or KIND:MACHINE">];
  let dependentDialects = ["::tfm::sched::SchedDialect"];
}

def EmitKernelsPass : Pass<"sched-emit-kernels", "::mlir::ModuleOp"> {
  let summary = "the code of every launch, copy and fill";
  let description = [{
    Adds a module `@kernels` with a function for every kernel that the programs
    run, as the target emits it, and names it at each step (`kernel`). Steps that
    do the same run the same kernel, so that 48 layers are as much code as one.
    Of `@kernels`, `sched.scratch` is how many bytes each thread needs for any of
    its functions.
  }];
  let options = [Option<"target", "target", "std::string", "\"cpu\"",
                        "whose kernels they are: KIND or KIND:MACHINE">];
  let dependentDialects = ["::tfm::sched::SchedDialect"];
}

#endif // TFM_TARGET_PASSES_TD
