//===- GroupLaunches.cpp - launches that one kernel runs ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/schedule/Launches.h"
#include "compiler/schedule/Passes.h"
#include "compiler/target/KernelTarget.h"

#include "mlir/IR/IRMapping.h"
#include <vector>

namespace tfm::sched {
#define GEN_PASS_DEF_GROUPLAUNCHESPASS
#include "compiler/schedule/Passes.h.inc"
} // namespace tfm::sched

using namespace mlir;
using namespace tfm;
using namespace tfm::sched;

namespace {

BufferOp bufferOf(Value view) {
  return view.getDefiningOp<ViewOp>().getBuffer().getDefiningOp<BufferOp>();
}

/// The buffers that a launch reads, those with numbers of rows among them.
llvm::SmallDenseSet<Operation *> readBy(LaunchOp launch) {
  llvm::SmallDenseSet<Operation *> buffers;
  for (Value operand : launch->getOperands())
    if (auto view = operand.getDefiningOp<ViewOp>())
      if (Value row = view.getRow())
        buffers.insert(bufferOf(row));
  for (Value read : launch.getReads())
    buffers.insert(bufferOf(read));
  return buffers;
}

/// The buffer whose rows a product multiplies; null of another launch.
BufferOp rowsOf(LaunchOp launch) {
  auto product = dyn_cast_or_null<MatmulOp>(launch.getFirstOp());
  BlockArgument rows = product ? argumentOf(product.getA()) : BlockArgument();
  return rows ? bufferOf(launch.getReads()[rows.getArgNumber()]) : nullptr;
}

/// The arguments that a kernel has for a launch: what that reads and writes,
/// the state of random numbers, and the layer.
size_t argumentsOf(LaunchOp launch) { return launch->getNumOperands() + 2; }

/// Whether the second of two launches may begin before the first is over.
bool areIndependent(LaunchOp first, LaunchOp second) {
  auto touches = [](LaunchOp writer, LaunchOp other) {
    auto read = readBy(other);
    return llvm::any_of(writer.getWrites(), [&](Value to) {
      return read.contains(bufferOf(to)) ||
             llvm::any_of(other.getWrites(), [&](Value too) {
               return bufferOf(to) == bufferOf(too);
             });
    });
  };
  return !touches(first, second) && !touches(second, first);
}

struct GroupLaunchesPass
    : tfm::sched::impl::GroupLaunchesPassBase<GroupLaunchesPass> {
  using GroupLaunchesPassBase::GroupLaunchesPassBase;

  void runOnOperation() override {
    const KernelTarget *known = KernelTarget::find(target, getOperation());
    if (!known)
      return signalPassFailure();
    for (auto program : getOperation().getOps<ProgramOp>())
      group(*program.getBlock(), *known);
  }

private:
  /// Launches that follow each other, none of which needs another.
  struct Run {
    SmallVector<LaunchOp> launches;
    /// What computes the row that all of them read; null where each does not
    /// read the same, or had better not compute it.
    LaunchOp own = nullptr;

    /// Whether the kernel would still have no more arguments than there may be.
    bool hasRoomFor(LaunchOp launch) const {
      size_t count = argumentsOf(launch);
      for (LaunchOp other : launches)
        count += argumentsOf(other);
      return count <= TFM_MAX_ARGUMENTS;
    }
  };

  void group(Block &block, const KernelTarget &known) {
    std::vector<Run> runs;
    SmallVector<LaunchOp> rows;
    Operation *last = nullptr;
    for (Operation &op : block) {
      auto loop = dyn_cast<LoopOp>(op);
      if (loop)
        group(*loop.getBlock(), known);
      if (!loop && !isKernelStep(op))
        continue;
      auto launch = dyn_cast<LaunchOp>(op);
      if (launch && known.groups(launch)) {
        bool joins = !runs.empty() && runs.back().launches.back() == last &&
                     runs.back().hasRoomFor(launch) &&
                     llvm::all_of(runs.back().launches, [&](LaunchOp other) {
                       return rowsOf(other) == rowsOf(launch) &&
                              areIndependent(other, launch);
                     });
        if (!joins)
          runs.emplace_back();
        runs.back().launches.push_back(launch);
      }
      if (launch && launch.getWrites().size() == 1)
        rows.push_back(launch);
      last = &op;
    }
    llvm::erase_if(rows,
                   [&](LaunchOp one) { return !goInFront(one, runs, known); });
    for (Run &run : runs) {
      llvm::erase_if(run.launches, [&](LaunchOp launch) {
        return llvm::is_contained(rows, launch);
      });
      make(run);
    }
    for (LaunchOp one : rows) {
      BufferOp buffer = bufferOf(one.getWrites().front());
      one.erase();
      for (Operation *view : llvm::make_early_inc_range(buffer->getUsers()))
        view->erase();
      buffer.erase();
    }
  }

  /// Has `rows` in front of the runs that read what it computes, if these are
  /// all that do, and their blocks had better compute it for themselves.
  static bool goInFront(LaunchOp rows, std::vector<Run> &runs,
                        const KernelTarget &known) {
    BufferOp buffer = bufferOf(rows.getWrites().front());
    auto read = readBy(rows);
    if (buffer.getKind() != BufferKind::Activation || read.contains(buffer))
      return false;
    llvm::SmallDenseSet<Operation *> readers;
    for (Operation *user : buffer->getUsers()) {
      auto view = cast<ViewOp>(user);
      if (!view.getLayers().empty() || view.getRow())
        return false;
      readers.insert_range(view->getUsers());
    }
    readers.erase(rows);
    SmallVector<Run *> found;
    size_t count = 0;
    for (Run &run : runs) {
      size_t ofRun = llvm::count_if(run.launches, [&](LaunchOp launch) {
        return readers.contains(launch) && known.computesInBlocks(rows, launch);
      });
      if (ofRun != run.launches.size() || !run.hasRoomFor(rows))
        continue;
      found.push_back(&run);
      count += ofRun;
    }
    if (found.empty() || count != readers.size() ||
        llvm::any_of(found, [&](Run *run) { return run->own; }))
      return false;
    // What it reads must still be there.
    LaunchOp last = found.back()->launches.back();
    for (Operation *op = rows->getNextNode(); op != last->getNextNode();
         op = op->getNextNode())
      if (isa<LoopOp>(op) || writesAny(op, read))
        return false;
    for (Run *run : found)
      run->own = rows;
    return true;
  }

  static bool writesAny(Operation *op,
                        const llvm::SmallDenseSet<Operation *> &buffers) {
    auto writes = [&](Value to) { return buffers.contains(bufferOf(to)); };
    if (auto launch = dyn_cast<LaunchOp>(op))
      return llvm::any_of(launch.getWrites(), writes);
    return isKernelStep(*op) && writes(op->getOperands().back());
  }

  /// Makes a group of a run, if it is more than one launch.
  static void make(Run &run) {
    if (run.launches.size() + (run.own ? 1 : 0) < 2)
      return;
    // Where the last one stands: behind the views of all.
    OpBuilder b(run.launches.back());
    auto group = GroupOp::create(b, run.launches.front().getLoc(),
                                 static_cast<bool>(run.own), SymbolRefAttr());
    Block *body = b.createBlock(&group.getBody());
    IRMapping ofBlocks;
    if (run.own) {
      BufferOp buffer = bufferOf(run.own.getWrites().front());
      b.clone(*buffer, ofBlocks);
      for (Operation *view : buffer->getUsers())
        if (llvm::any_of(view->getUsers(), [&](Operation *step) {
              return step == run.own || llvm::is_contained(run.launches, step);
            }))
          b.clone(*view, ofBlocks);
      b.clone(*run.own, ofBlocks);
    }
    for (LaunchOp launch : run.launches) {
      launch->moveBefore(body, body->end());
      for (OpOperand &operand : launch->getOpOperands())
        operand.set(ofBlocks.lookupOrDefault(operand.get()));
    }
  }
};

} // namespace
