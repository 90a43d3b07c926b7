//===- RowReductions.cpp - steps of sums and maxima -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/emit/RowReductions.h"

#include "compiler/dialect/TfmDialect.h"
#include "compiler/schedule/SchedDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace tfm;

bool tfm::isMaximum(Operation *reduction) {
  if (auto chunks = dyn_cast<sched::ReduceChunksOp>(reduction))
    return chunks.getMaximum();
  if (!isa<ReduceSumOp, ReduceMaxOp>(reduction))
    llvm::report_fatal_error("no row kernel reduces by " +
                             reduction->getName().getStringRef());
  return isa<ReduceMaxOp>(reduction);
}

bool tfm::keepsNan(Operation *maximum) {
  // Chunks may be of either kind.
  auto max = dyn_cast<ReduceMaxOp>(maximum);
  return !max || max.getKeepsNan();
}

double tfm::neutralOf(Operation *reduction) {
  return isMaximum(reduction) ? -infinity : 0;
}

Value tfm::combine(KernelBuilder &k, Operation *reduction, Value a, Value b) {
  if (!isMaximum(reduction))
    return k.addf(a, b);
  if (keepsNan(reduction))
    return arith::MaximumFOp::create(k.b, k.loc, a, b);
  Value greater =
      arith::CmpFOp::create(k.b, k.loc, arith::CmpFPredicate::OGT, a, b);
  return k.select(greater, a, b);
}
