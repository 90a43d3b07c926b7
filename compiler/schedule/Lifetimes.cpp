//===- Lifetimes.cpp - when the buffers of a program are in use -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/schedule/Lifetimes.h"

#include "compiler/schedule/Launches.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace tfm;
using namespace tfm::sched;

namespace {

class Walker {
public:
  explicit Walker(ProgramOp program) {
    // In the order of the buffers, which the planner breaks ties by.
    program.walk<WalkOrder::PreOrder>([&](BufferOp buffer) {
      if (!isa<GroupOp>(buffer->getParentOp())) // no part of the arena
        lifetimes.insert({buffer.getOperation(), Lifetime()});
    });
    walk(*program.getBlock());
    for (OutputOp output : program.getBlock()->getOps<OutputOp>())
      use(output.getView(), time, time);
    lifetimes.remove_if([](auto &entry) { return entry.second.end < 0; });
  }

  llvm::MapVector<Operation *, Lifetime> lifetimes;

private:
  struct Loop {
    LoopOp op;
    int64_t begin;
    llvm::SetVector<Operation *> used = {};
  };

  void walk(Block &block) {
    for (Operation &op : block) {
      if (auto input = dyn_cast<InputOp>(op)) {
        use(input.getView(), 0, 0);
      } else if (auto loop = dyn_cast<LoopOp>(op)) {
        loops.push_back({loop, time});
        walk(*loop.getBlock());
        Loop done = loops.pop_back_val();
        for (Operation *buffer : done.used)
          extend(buffer, done.begin, time - 1);
      } else if (isStep(op)) {
        for (Operation *part : partsOf(&op))
          for (Value operand : part->getOperands())
            if (isa<MemRefType>(operand.getType()))
              use(operand, time, time);
        ++time;
      }
    }
  }

  void use(Value value, int64_t begin, int64_t end) {
    auto view = value.getDefiningOp<ViewOp>();
    // Each step finds out anew which row it is in.
    if (view.getRow())
      use(view.getRow(), begin, end);
    Operation *buffer = view.getBuffer().getDefiningOp();
    // Of all the loops around it, the outermost one that does not hold it.
    for (Loop &loop : loops)
      if (!loop.op->isAncestor(buffer)) {
        loop.used.insert(buffer);
        return;
      }
    extend(buffer, begin, end);
  }

  void extend(Operation *buffer, int64_t begin, int64_t end) {
    auto known = lifetimes.find(buffer);
    if (known == lifetimes.end()) // it outlives the program
      return;
    known->second.begin = std::min(known->second.begin, begin);
    known->second.end = std::max(known->second.end, end);
  }

  int64_t time = 0;
  SmallVector<Loop> loops;
};

} // namespace

llvm::MapVector<Operation *, Lifetime> tfm::lifetimesOf(ProgramOp program) {
  return std::move(Walker(program).lifetimes);
}
