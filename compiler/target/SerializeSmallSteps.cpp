//===- SerializeSmallSteps.cpp - small steps by one thread ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/schedule/Launches.h"
#include "compiler/target/KernelTarget.h"
#include "compiler/target/Passes.h"

namespace tfm {
#define GEN_PASS_DEF_SERIALIZESMALLSTEPSPASS
#include "compiler/target/Passes.h.inc"
} // namespace tfm

using namespace mlir;
using namespace tfm;
using namespace tfm::sched;

namespace {

struct SerializeSmallStepsPass
    : tfm::impl::SerializeSmallStepsPassBase<SerializeSmallStepsPass> {
  using SerializeSmallStepsPassBase::SerializeSmallStepsPassBase;

  void runOnOperation() override {
    const KernelTarget *known = KernelTarget::find(target, getOperation());
    if (!known)
      return signalPassFailure();
    for (auto program : getOperation().getOps<ProgramOp>())
      serialize(*program.getBlock(), *known);
  }

private:
  void serialize(Block &block, const KernelTarget &known) {
    auto isSmall = [&](Operation &op) {
      return known.stepSeconds(stepFlops(&op), stepBytes(&op)) <
             known.smallStepSeconds();
    };
    SmallVector<SmallVector<Operation *>> runs(1);
    for (Operation &op : block) {
      if (isKernelStep(op)) {
        if (!isSmall(op))
          runs.emplace_back();
        runs.back().push_back(&op);
      } else if (isa<LoopOp, SerialOp, GroupOp>(op)) {
        runs.emplace_back();
      }
      if (auto loop = dyn_cast<LoopOp>(op))
        serialize(*loop.getBlock(), known);
    }
    for (ArrayRef<Operation *> steps : runs) {
      if (steps.size() < 2)
        continue;
      // Where the last one stands: behind the views of all.
      OpBuilder b(steps.back());
      auto serial = SerialOp::create(b, steps.front()->getLoc(),
                                     !isSmall(*steps.front()));
      Block *body = b.createBlock(&serial.getBody());
      for (Operation *step : steps)
        step->moveBefore(body, body->end());
    }
  }
};

} // namespace
