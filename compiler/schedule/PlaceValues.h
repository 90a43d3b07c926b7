//===- PlaceValues.h - one function becomes a program -----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_SCHEDULE_PLACEVALUES_H
#define TFM_SCHEDULE_PLACEVALUES_H

#include "compiler/schedule/PermanentBuffers.h"
#include "compiler/target/KernelTarget.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tfm {

/// How the carried values of a repeat go from layer to layer.
struct CarriedPlan {
  View init;   ///< what the loop starts from
  View arg;    ///< what a layer reads
  View next;   ///< where a layer writes the next value
  View result; ///< what the loop leaves
  /// The stacked result that is the carried values themselves, or -1.
  int savedAs = -1;
};

/// Whether nothing else reads `value` or what it is a view of.
bool hasOneReader(mlir::Value value);

/// Makes the program of one function: loops are in PlaceLoops.cpp, the rest in
/// PlaceValues.cpp.
class ValuePlacer {
public:
  ValuePlacer(mlir::MLIRContext *context, PermanentBuffers &permanent,
              const KernelTarget &kernels, int64_t microSteps)
      : permanent(permanent), kernels(kernels), microSteps(microSteps),
        b(context), loc(b.getUnknownLoc()) {}

  /// Writes the program before `func`, which it leaves as it is.
  void placeFunction(mlir::func::FuncOp func);

private:
  // Buffers.
  mlir::Value allocate(llvm::StringRef name, int64_t bytes);
  View allocate(mlir::Value value);
  std::string freshName(mlir::Value value);

  // Views.
  /// Where `value` is; it must have been placed, or be a view of what has.
  View viewOf(mlir::Value value);
  /// Gives `value` a place: where its reader wants it if there is such a place,
  /// else a buffer of its own.
  View place(mlir::Value value);
  /// Where the reader of `value` wants it; invalid where none does. What the
  /// reader makes of it gets a place first, so this may allocate buffers.
  View makeWantedPlace(mlir::Value value);
  /// Whether what computes `value` can write it there, and what views it see it
  /// there.
  bool suits(mlir::Value value, const View &view) const;
  /// Whether all that views `value` in memory can do so where `view` is.
  bool canBeViewed(mlir::Value value, const View &view) const;
  /// Whether no kernel needs a copy of `value` that lies otherwise than `view`.
  bool canBeRead(mlir::Value value, const View &view) const;
  /// Whether `view` keeps the order of axes that `value` has to be stored in.
  bool fitsOrder(mlir::Value value, const View &view) const;
  /// The operand that a row kernel may write `value` over, which lies as it
  /// does; null where there is none.
  mlir::Value overwritten(mlir::Value value);
  /// Whether a product reads `value`, or what is going to be written over it.
  bool isForProduct(mlir::Value value);

  // Functions.
  /// An argument that names a region is that region, and one that names a
  /// gradient is what has been accumulated of it; any other is an input.
  void placeArgument(mlir::func::FuncOp func, mlir::BlockArgument arg);
  /// Adds the counter of random numbers to the inputs of what draws numbers.
  void addCounter(mlir::func::FuncOp func);
  /// Where a result goes: made there where its kernel can do so, else moved.
  View placeResult(mlir::func::FuncOp func, mlir::OpOperand &operand);
  void addOutputs(mlir::func::FuncOp func, llvm::ArrayRef<View> results);
  /// A buffer for an input or an output.
  View allocatePort(mlir::func::FuncOp func, llvm::StringRef name,
                    mlir::RankedTensorType type);
  /// Which text the caches of a segment are of, or all caches where there is no
  /// segment: null in front of the argument that says so.
  mlir::Value rowOf(mlir::Attribute segment) const;

  // Steps.
  void placeBlock(mlir::Block &block);
  void placeLoop(RepeatOp repeat);
  void placeTargets(RepeatOp repeat, llvm::ArrayRef<CarriedPlan> plans,
                    llvm::ArrayRef<View> updated, llvm::ArrayRef<View> stacked);
  void separateNext(RepeatOp repeat, llvm::ArrayRef<View> next);
  llvm::SmallVector<View> placeAll(mlir::ValueRange values);
  void placeConcat(ConcatOp concat);
  void placeKernel(sched::KernelOp kernel);
  View readable(sched::KernelOp kernel, unsigned input);
  std::vector<CarriedPlan> &planCarried(RepeatOp repeat);
  bool canWriteOver(mlir::Value arg, mlir::Value next, mlir::Block &block);
  bool accumulatesInPlace(mlir::Value arg, mlir::Value sum, mlir::Block &block);
  /// Brings `value` there if it is not there already.
  void moveTo(mlir::Value value, const View &to);
  mlir::Value emit(const View &view);
  void moveBody(sched::KernelOp kernel, sched::LaunchOp launch);

  PermanentBuffers &permanent;
  /// Whose kernels they are.
  const KernelTarget &kernels;
  int64_t microSteps;
  /// Where the next step goes.
  mlir::OpBuilder b;
  mlir::Location loc;
  llvm::SmallVector<sched::LoopOp> loops;
  /// The last buffer of the program, and of each loop in `loops`.
  llvm::SmallVector<mlir::Operation *> lastBuffers;
  mlir::Block *program = nullptr;
  int buffers = 0;
  mlir::Value rng;
  /// The number of a text: of all caches, or of those of each segment.
  llvm::SmallVector<mlir::Value> rows;
  /// The argument that a gradient has been accumulated in.
  llvm::DenseMap<mlir::Attribute, mlir::Value> accumulated;
  llvm::DenseMap<mlir::Value, View> views;
  /// What kernels compute whose buffers nothing else is in.
  llvm::DenseSet<mlir::Value> own;
  /// Places that results must take: outputs, gradients, a loop's next values.
  llvm::DenseMap<mlir::Value, View> wanted;
  /// The loop that stands for a repeat's layer.
  llvm::DenseMap<mlir::Value, mlir::Value> layers;
  llvm::DenseMap<mlir::Operation *, std::vector<CarriedPlan>> carriedPlans;
};

} // namespace tfm

#endif // TFM_SCHEDULE_PLACEVALUES_H
