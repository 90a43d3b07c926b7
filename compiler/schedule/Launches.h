//===- Launches.h - what the steps of a program do --------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A step is a `sched.launch`, `sched.copy` or `sched.fill`, several small ones
// in a `sched.serial`, or several launches in a `sched.group`.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_SCHEDULE_LAUNCHES_H
#define TFM_SCHEDULE_LAUNCHES_H

#include "compiler/schedule/SchedDialect.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <string>

namespace tfm {

/// Whether a program counts an op as one step.
bool isStep(mlir::Operation &op);
/// Visits the steps of a program in order, each with how often it runs.
void forEachStep(sched::ProgramOp program,
                 llvm::function_ref<void(mlir::Operation *, int64_t)> visit);

/// The layer that each loop around a step is at, by the loop's argument.
using LayersNow = llvm::SmallDenseMap<mlir::Value, int64_t>;
/// Visits the steps of a program as often as they run, in order.
void forEachRun(
    sched::ProgramOp program,
    llvm::function_ref<void(mlir::Operation *, const LayersNow &)> visit);

/// What kernels compute of a step: itself, or those in a `sched.serial`.
llvm::SmallVector<mlir::Operation *> kernelSteps(mlir::Operation *step);
/// The launches, copies and fills of a step: itself, or those in it.
llvm::SmallVector<mlir::Operation *> partsOf(mlir::Operation *step);
/// Whether a view is one of memory that each block of a kernel has for itself,
/// in a `sched.group`.
bool isOfBlocks(mlir::Value view);
/// The part of a step that has most to do.
mlir::Operation *largestStep(mlir::Operation *step);

/// The argument of its launch that an operand is read from; null where there is
/// no operand, or it is computed.
mlir::BlockArgument argumentOf(mlir::Value operand);

/// The same of what a kernel writes a value to; null where it does not.
mlir::BlockArgument writtenArgumentOf(mlir::Value value);
/// The largest power of two, up to `bufferAlignment`, of which every byte that
/// a view (`sched.view`) begins at is a multiple.
int64_t alignmentOf(mlir::Value view);
/// Whether nothing that a launch, copy or fill writes, or another launch of its
/// group, lies over what it reads as that operand, which stays what it is until
/// the step is over.
bool isOnlyRead(mlir::Operation *step, unsigned operand);
/// The ops that a launch computes and that are not free or are written.
llvm::SmallVector<mlir::Operation *> computedOps(sched::LaunchOp launch);

/// A step as a line of text: `matmul 768x128x512 (add gelu)`; of several the
/// largest, `row 1x768 (add) and 3 more`.
std::string describe(mlir::Operation *step);
/// The path of the module whose text a step computes, or the derivative of;
/// empty for the model itself, and where none is known.
std::string pathOf(mlir::Operation *step);
/// The floating-point operations of a step: those of its ops (`flopsOf`), so of
/// the pairs that attention sees alone.
int64_t stepFlops(mlir::Operation *step);
/// The same for matrix products and attention; 0 for other steps.
int64_t stepProductFlops(mlir::Operation *step);
/// Bytes of all that a step reads and writes, each once; of tables the rows
/// that it chooses, or changes.
int64_t stepBytes(mlir::Operation *step);

/// The rows and columns in which a copy or fill walks its target: as few rows
/// as possible where `from` (null: a fill) and `to` lie in one piece.
Domain copyDomain(mlir::MemRefType from, mlir::MemRefType to);

} // namespace tfm

#endif // TFM_SCHEDULE_LAUNCHES_H
