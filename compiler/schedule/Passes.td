//===- Passes.td - from the tfm dialect to a planned arena --------*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_SCHEDULE_PASSES_TD
#define TFM_SCHEDULE_PASSES_TD

include "mlir/Pass/PassBase.td"

def FormKernelsPass : Pass<"sched-form-kernels", "::mlir::ModuleOp"> {
  let summary = "outline the ops that share a kernel";
  let description = [{
    Every op that is not free goes into a `sched.kernel`; loops, concatenations
    and the views that readers reach memory through stay as they are. A reshape
    that strides cannot express becomes one that they can when its base is
    stored in the transposed order (`layouts`), else `sched.contiguous` copies
    what it reads. The module must be simplified, decomposed and legalized.
  }];
  let dependentDialects = ["::tfm::sched::SchedDialect"];
}

def ShareExponentialsPass : Pass<"sched-share-exponentials", "::mlir::ModuleOp"> {
  let summary = "a softmax from the terms of its sum";
  let description = [{
    Where a kernel computes `exp(x - lse)` beside the sum of `exp(x - max)` whose
    logarithm is in `lse`, as cross entropy and its derivative in one do, the
    terms of the sum are divided by it instead. In kernels alone: from one to
    the next a row's `lse` is all that is kept.
  }];
}

def SplitSumsPass : Pass<"sched-split-sums", "::mlir::ModuleOp"> {
  let summary = "long sums over rows in chunks";
  let description = [{
    A sum over many rows becomes `sched.reduce_chunks`, whose chunks threads
    share, and a kernel that folds the chunks. Into how many chunks depends on
    the target and the shape alone, never on the threads: so the bits of the sum
    do not, either.
  }];
  let options = [Option<"target", "target", "std::string", "\"cpu\"",
                        "whose kernels they are">];
  let dependentDialects = ["::tfm::sched::SchedDialect"];
}

def PlaceValuesPass : Pass<"sched-place-values", "::mlir::ModuleOp"> {
  let summary = "give every tensor that goes through memory a place";
  let description = [{
    Turns functions of kernels into `sched.program`. A value is written where
    its reader wants it: into its slice of a concatenation, under the transpose
    that makes a later reshape a view, into the gradient's slot, or into a
    loop's next carried value; else it gets a buffer of its own. What no kernel
    can read or write there is copied.

    Parameters get `sched.offset`, bytes from the start of their region, and
    `sched.decayed`, where weight decay applies to them.
  }];
  let options = [Option<"target", "target", "std::string", "\"cpu\"",
                        "which layouts its kernels accept">];
  let dependentDialects = ["::tfm::sched::SchedDialect"];
}

def GroupLaunchesPass : Pass<"sched-group-launches", "::mlir::ModuleOp"> {
  let summary = "launches that one kernel runs";
  let description = [{
    Where a kernel takes little longer than its launch, launches that follow each
    other and do not wait for each other go into a `sched.group`
    (`KernelTarget::groups`): products of the same row, keys and values on their
    way to their caches, queries and keys that are turned. What computes that row, and nobody else reads, goes in
    front of them, if each block had better do that for itself
    (`KernelTarget::computesInBlocks`): the norm before a product of one token.
  }];
  let options = [Option<"target", "target", "std::string", "\"cpu\"",
                        "whose kernels they are">];
  let dependentDialects = ["::tfm::sched::SchedDialect"];
}

def PlanMemoryPass : Pass<"sched-plan-memory", "::mlir::ModuleOp"> {
  let summary = "give every buffer its offset in the arena";
  let description = [{
    Buffers that live always lie behind each other; behind them lie the
    activations, where those of one program share bytes that are not live at
    one time, and programs share all of theirs. But what goes into `@update` may
    be written before `@train` runs, and what that gives be read after both.
    Sets `offset` and `live` of the buffers, and of the module:

    - `sched.arena`: bytes of the arena;
    - `sched.activations`: bytes of it for activations;
    - `sched.lower_bound`: the largest sum of the sizes of activations that
      live at one time, which no plan can do without.
  }];
  let dependentDialects = ["::tfm::sched::SchedDialect"];
}

#endif // TFM_SCHEDULE_PASSES_TD
