//===- ProgramBuilder.h - one function becomes launches ---------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_CODEGEN_SCHEDULE_PROGRAMBUILDER_H
#define TFM_CODEGEN_SCHEDULE_PROGRAMBUILDER_H

#include "compiler/codegen/schedule/BuildSchedule.h"
#include "compiler/codegen/schedule/Fuse.h"
#include "compiler/dialect/TfmDialect.h"
#include "compiler/transforms/Optimizer.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tfm {

/// How the carried values of a repeat go from layer to layer.
struct CarriedPlan {
  View init;   ///< what the loop starts from
  View arg;    ///< what a layer reads
  View target; ///< where a layer writes the next value
  View result; ///< what the loop leaves
  /// The stacked result that is the carried values themselves, or -1.
  int savedAs = -1;
};

/// Whether nothing else reads `value` or what it is a view of.
bool hasOneReader(mlir::Value value);

/// Schedules one function: the places of values are in PlaceValues.cpp, loops
/// in ScheduleLoops.cpp, the rest in BuildSchedule.cpp.
class ProgramBuilder {
public:
  ProgramBuilder(Schedule &schedule, int program,
                 const ScheduleOptions &options)
      : schedule(schedule), program(program), options(options) {}

  void build(mlir::func::FuncOp func, Program &out);

private:
  // Buffers.
  int allocate(const std::string &name, int64_t bytes);
  View allocate(mlir::Value value);
  /// A buffer as the place of a value: row-major, or so that the transpose in
  /// `layouts` is.
  View viewInto(int buffer, mlir::Value value) const;
  std::string freshName(mlir::Value value);
  /// Makes the view's buffer live until now.
  void touch(const View &view);

  // Views.
  /// Where `value` is; it must have been placed, or be a view of what has.
  View viewOf(mlir::Value value);
  static View throughViewOp(mlir::Operation *op, const View &from);
  View parameterView(llvm::StringRef name, int region);
  View constantView(ConstantOp op);
  /// Gives `value` a place: where its reader wants it if there is such a place,
  /// else a buffer of its own.
  View place(mlir::Value value);
  View wantedPlace(mlir::Value value);
  void findLayouts(mlir::Block &block);
  View trialView(mlir::Value value);

  // Steps.
  void scheduleBlock(std::vector<Step> &steps);
  void scheduleLoop(RepeatOp repeat, std::vector<Step> &steps);
  bool fitsLayout(mlir::Value value, const View &view) const;
  llvm::SmallVector<View> placeStacked(RepeatOp repeat, size_t carried);
  void scheduleConcat(ConcatOp concat, std::vector<Step> &steps);
  void scheduleGroup(const Group &group, std::vector<Step> &steps);
  View readable(mlir::Value value, const Group &group,
                std::vector<Step> &steps);
  View placePartials(mlir::Value result, const Launch &launch,
                     std::vector<std::unique_ptr<Launch>> &folds);
  std::vector<CarriedPlan> &planCarried(RepeatOp repeat);
  bool canWriteOver(mlir::Value arg, mlir::Value next, mlir::Block &block);
  bool accumulatesInPlace(mlir::Value arg, mlir::Value sum, mlir::Block &block);
  void push(std::unique_ptr<Launch> launch, std::vector<Step> &steps);
  /// Brings `value` to `target` if it is not there already.
  void moveTo(mlir::Value value, const View &target, std::vector<Step> &steps);
  /// The rows of a kernel that only copies.
  static Domain copyDomain(const View &target, bool contiguousSource);

  struct LoopState {
    int64_t begin = 0;
    llvm::SmallVector<int> touched;
    mlir::Operation *op = nullptr;
  };

  Schedule &schedule;
  int program;
  const ScheduleOptions &options;
  int64_t time = 0;
  llvm::SmallVector<LoopState> loops;
  /// Depth of the loops around each buffer's allocation.
  std::vector<size_t> home;
  llvm::DenseMap<mlir::Value, View> views;
  /// Places that results must take: outputs, gradients, a loop's next values.
  llvm::DenseMap<mlir::Value, View> targets;
  /// The order of axes in which a value is stored, where not its own.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<int64_t>> layouts;
  llvm::DenseMap<mlir::Operation *, std::vector<CarriedPlan>> carriedPlans;
  const FusedBlock *fused = nullptr;
};

} // namespace tfm

#endif // TFM_CODEGEN_SCHEDULE_PROGRAMBUILDER_H
