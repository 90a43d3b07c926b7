//===- PlanMemory.cpp - offsets in the arena ------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/Programs.h"
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

/// When the activations of one program, or of some that run one behind the
/// other, are in use.
class Timeline {
public:
  /// Of what is there already, results are read after this program, too, and
  /// what goes into this one was written before all of them.
  void append(ProgramOp program) {
    auto life = lifetimesOf(program);
    auto isOf = [&](Operation *buffer, auto ports) {
      return llvm::any_of(ports, [&](auto port) {
        auto view = port.getView().template getDefiningOp<ViewOp>();
        return view.getBuffer().getDefiningOp() == buffer;
      });
    };
    int64_t first = end, last = end;
    for (auto &[buffer, own] : life)
      last = std::max(last, first + own.end + 1);
    for (size_t i = 0; i != buffers.size(); ++i)
      if (isResult[i])
        intervals[i].end = last - 1;
    for (auto &[op, own] : life) {
      auto buffer = cast<BufferOp>(op);
      buffer.setLiveAttr(
          DenseI64ArrayAttr::get(buffer.getContext(), {own.begin, own.end}));
      buffers.push_back(buffer);
      isResult.push_back(isOf(op, program.getBlock()->getOps<OutputOp>()));
      bool isGiven = isOf(op, program.getBlock()->getOps<InputOp>());
      intervals.push_back({static_cast<int64_t>(llvm::alignTo(buffer.getBytes(),
                                                              bufferAlignment)),
                           isGiven ? 0 : first + own.begin, first + own.end});
    }
    end = last;
  }

  SmallVector<BufferOp> buffers;
  SmallVector<LiveInterval> intervals;

private:
  SmallVector<bool> isResult;
  int64_t end = 0;
};

struct PlanMemoryPass : tfm::sched::impl::PlanMemoryPassBase<PlanMemoryPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    Builder b(&getContext());
    int64_t permanent = 0, activations = 0, bound = 0;
    for (auto buffer : module.getOps<BufferOp>()) {
      buffer.setOffsetAttr(b.getI64IntegerAttr(permanent));
      permanent += llvm::alignTo(buffer.getBytes(), bufferAlignment);
    }
    // Programs run one at a time, so their activations share the same bytes. A
    // step of training is two of them, asked for at once (`Device::run`).
    auto train = module.lookupSymbol<ProgramOp>(nameOf(ProgramKind::Train)),
         update = module.lookupSymbol<ProgramOp>(nameOf(ProgramKind::Update));
    for (auto program : module.getOps<ProgramOp>()) {
      if (program == update && train)
        continue;
      Timeline timeline;
      timeline.append(program);
      if (program == train && update)
        timeline.append(update);
      activations = std::max(activations, planIntervals(timeline.intervals));
      bound = std::max(bound, mostLive(timeline.intervals));
      for (auto [buffer, interval] :
           llvm::zip_equal(timeline.buffers, timeline.intervals))
        buffer.setOffsetAttr(b.getI64IntegerAttr(permanent + interval.offset));
    }
    module->setAttr("sched.arena",
                    b.getI64IntegerAttr(permanent + activations));
    module->setAttr("sched.activations", b.getI64IntegerAttr(activations));
    module->setAttr("sched.lower_bound", b.getI64IntegerAttr(bound));
  }
};

} // namespace
