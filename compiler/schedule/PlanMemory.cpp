//===- PlanMemory.cpp - offsets in the arena ------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/Programs.h"
#include "compiler/schedule/ArenaPlanner.h"
#include "compiler/schedule/Attributes.h"
#include "compiler/schedule/Lifetimes.h"
#include "compiler/schedule/Passes.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/SetVector.h"

namespace tfm::sched {
#define GEN_PASS_DEF_PLANMEMORYPASS
#include "compiler/schedule/Passes.h.inc"
} // namespace tfm::sched

using namespace mlir;
using namespace tfm;
using namespace tfm::sched;

namespace {

/// What one step of training hands from program to program: what goes into
/// `update` may be written before `train` runs, and what that gives be read
/// after both (`Device::run`). Nothing else of either lies there.
struct HandedOver {
  HandedOver(ProgramOp train, ProgramOp update) {
    if (!train || !update)
      return;
    auto add = [&](auto ports) {
      for (auto port : ports) {
        auto view = port.getView().template getDefiningOp<ViewOp>();
        auto buffer = view.getBuffer().template getDefiningOp<BufferOp>();
        if (buffer.getKind() == BufferKind::Activation)
          buffers.insert(buffer);
      }
    };
    add(train.getBlock()->getOps<OutputOp>());
    add(update.getBlock()->getOps<InputOp>());
  }

  llvm::SetVector<Operation *> buffers;
};

struct PlanMemoryPass : tfm::sched::impl::PlanMemoryPassBase<PlanMemoryPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    Builder b(&getContext());
    int64_t permanent = 0, activations = 0, bound = 0;
    // Places one behind the other.
    auto place = [&](BufferOp buffer, int64_t &end) {
      buffer.setOffsetAttr(b.getI64IntegerAttr(end));
      end += buffer.getArenaBytes();
    };
    for (auto buffer : module.getOps<BufferOp>())
      place(buffer, permanent);
    auto programOf = [&](ProgramKind kind) {
      return module.lookupSymbol<ProgramOp>(nameOf(kind));
    };
    HandedOver handed(programOf(ProgramKind::Train),
                      programOf(ProgramKind::Update));
    int64_t first = permanent;
    for (Operation *buffer : handed.buffers)
      place(cast<BufferOp>(buffer), first);
    // Programs run one at a time, so their activations share the same bytes.
    for (auto program : module.getOps<ProgramOp>()) {
      SmallVector<BufferOp> buffers;
      SmallVector<LiveInterval> intervals;
      for (auto &[op, life] : lifetimesOf(program)) {
        auto buffer = cast<BufferOp>(op);
        buffer.setLiveAttr(b.getDenseI64ArrayAttr({life.begin, life.end}));
        if (handed.buffers.contains(buffer))
          continue;
        buffers.push_back(buffer);
        intervals.push_back({buffer.getArenaBytes(), life.begin, life.end});
      }
      bool isOfStep = llvm::any_of(handed.buffers, [&](Operation *buffer) {
        return program->isProperAncestor(buffer);
      });
      int64_t base = isOfStep ? first : permanent;
      activations =
          std::max(activations, base - permanent + planIntervals(intervals));
      bound = std::max(bound, base - permanent + mostLive(intervals));
      for (auto [buffer, interval] : llvm::zip_equal(buffers, intervals))
        buffer.setOffsetAttr(b.getI64IntegerAttr(base + interval.offset));
    }
    module->setAttr(arenaAttribute,
                    b.getI64IntegerAttr(permanent + activations));
    module->setAttr(activationsAttribute, b.getI64IntegerAttr(activations));
    module->setAttr(lowerBoundAttribute, b.getI64IntegerAttr(bound));
  }
};

} // namespace
