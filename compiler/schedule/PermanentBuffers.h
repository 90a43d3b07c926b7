//===- PermanentBuffers.h - what outlives a program -------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_SCHEDULE_PERMANENTBUFFERS_H
#define TFM_SCHEDULE_PERMANENTBUFFERS_H

#include "compiler/dialect/Programs.h"
#include "compiler/schedule/SchedDialect.h"
#include "compiler/schedule/View.h"
#include "compiler/transforms/ParameterRegions.h"
#include "compiler/transforms/ReadRecipe.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"

namespace tfm {

/// The buffers of the module: regions of parameters, their copies, gradients
/// and optimizer state, each in the same order (parameters that decay, other
/// trained ones, frozen ones), the caches of generation, and constants.
class PermanentBuffers {
public:
  /// Makes the regions, and gives every `tfm.param` its `sched.offset` and
  /// `sched.decayed`. Without `@train` there are no gradients and no state,
  /// without `@refresh` no copies.
  PermanentBuffers(mlir::ModuleOp module,
                   const std::optional<Optimizer> &optimizer);

  /// The parameter, or its copy, whichever has elements of that type.
  View parameter(llvm::StringRef name, mlir::Type element) const;
  View gradient(llvm::StringRef name) const;
  bool isGradient(const View &view) const {
    return view.buffer && view.buffer == gradients;
  }
  /// A part of a region, as rows of `regionRow`, from that of the number
  /// `row` on where it has one; or a cache [..., B, heads, T,
  /// d], which begins to exist here. It has as many rows (B) as the function
  /// that takes the most; of a type with fewer it is the first ones, or, where
  /// it has one, that of the number `row`.
  View region(const ArenaRegion &region, mlir::RankedTensorType type,
              mlir::Value row);
  View constant(ConstantOp op);

private:
  mlir::Value add(sched::BufferKind kind, llvm::StringRef name, int64_t bytes,
                  mlir::ElementsAttr value = {});
  View ofParameter(llvm::StringRef name, mlir::Type element,
                   mlir::Value region) const;
  View cache(int64_t number, mlir::RankedTensorType type, mlir::Value row);

  /// At the module's beginning.
  mlir::OpBuilder b;
  mlir::Operation *last = nullptr;
  mlir::Location loc;
  mlir::Value parameters, copies, gradients, state[2];
  ParameterRegions regions;
  /// In bytes, from the start of their region.
  llvm::StringMap<std::pair<ParamOp, int64_t>> offsets;
  llvm::DenseMap<int64_t, mlir::Value> caches;
  /// How a cache lies in memory. Where attention keeps that of several texts,
  /// positions of keys and values come before texts: what short texts fill lies
  /// together, and touches few pages.
  struct CacheLayout {
    /// Those of the function that takes the most.
    int64_t rows = 1;
    bool isOfAttention = true;

    View view(mlir::RankedTensorType type) const;
  };
  llvm::DenseMap<int64_t, CacheLayout> layouts;
  llvm::DenseMap<mlir::Attribute, mlir::Value> constants;
};

} // namespace tfm

#endif // TFM_SCHEDULE_PERMANENTBUFFERS_H
