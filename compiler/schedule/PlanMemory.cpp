//===- PlanMemory.cpp - offsets in the arena ------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/schedule/ArenaPlanner.h"
#include "compiler/schedule/Lifetimes.h"
#include "compiler/schedule/Passes.h"
#include "compiler/schedule/View.h"

#include "mlir/IR/Builders.h"
#include "llvm/Support/MathExtras.h"

namespace tfm::sched {
#define GEN_PASS_DEF_PLANMEMORYPASS
#include "compiler/schedule/Passes.h.inc"
} // namespace tfm::sched

using namespace mlir;
using namespace tfm;
using namespace tfm::sched;

namespace {

struct PlanMemoryPass : tfm::sched::impl::PlanMemoryPassBase<PlanMemoryPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    Builder b(&getContext());
    int64_t permanent = 0, activations = 0, bound = 0;
    for (auto buffer : module.getOps<BufferOp>()) {
      buffer.setOffsetAttr(b.getI64IntegerAttr(permanent));
      permanent += llvm::alignTo(buffer.getBytes(), bufferAlignment);
    }
    // Programs run one at a time, so their activations share the same bytes.
    for (auto program : module.getOps<ProgramOp>()) {
      auto lifetimes = lifetimesOf(program);
      SmallVector<LiveInterval> intervals;
      for (auto &[buffer, life] : lifetimes)
        intervals.push_back(
            {static_cast<int64_t>(llvm::alignTo(
                 cast<BufferOp>(buffer).getBytes(), bufferAlignment)),
             life.begin, life.end});
      activations = std::max(activations, planIntervals(intervals));
      bound = std::max(bound, mostLive(intervals));
      for (auto [entry, interval] : llvm::zip_equal(lifetimes, intervals)) {
        auto buffer = cast<BufferOp>(entry.first);
        buffer.setOffsetAttr(b.getI64IntegerAttr(permanent + interval.offset));
        buffer.setLiveAttr(
            b.getDenseI64ArrayAttr({interval.begin, interval.end}));
      }
    }
    module->setAttr("sched.arena",
                    b.getI64IntegerAttr(permanent + activations));
    module->setAttr("sched.activations", b.getI64IntegerAttr(activations));
    module->setAttr("sched.lower_bound", b.getI64IntegerAttr(bound));
  }
};

} // namespace
