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
#include "mlir/IR/Matchers.h"

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

std::optional<Picked> tfm::pickedBy(Operation *reduction) {
  if (!isa<ReduceSumOp>(reduction))
    return std::nullopt;
  auto chosen = reduction->getOperand(0).getDefiningOp<SelectOp>();
  if (!chosen || !matchPattern(chosen.getB(), m_AnyZeroFloat()))
    return std::nullopt;
  auto compare = chosen.getCondition().getDefiningOp<CompareOp>();
  if (!compare || compare.getKind() != CompareKind::eq)
    return std::nullopt;
  auto columns = compare.getA().getDefiningOp<IotaOp>();
  auto number = compare.getB().getDefiningOp<BroadcastOp>();
  RankedTensorType type = tensorType(chosen.getY());
  if (!columns || !number ||
      static_cast<int64_t>(columns.getAxis()) != type.getRank() - 1)
    return std::nullopt;
  // One for each row.
  SmallVector<int64_t> ofRows(type.getShape());
  ofRows.back() = 1;
  if (tensorType(number.getX()).getShape() != ArrayRef(ofRows))
    return std::nullopt;
  return Picked{chosen.getA(), number.getX()};
}

Value tfm::combine(KernelBuilder &k, Operation *reduction, Value a, Value b) {
  if (!isMaximum(reduction))
    return k.addf(a, b);
  if (keepsNan(reduction))
    return arith::MaximumFOp::create(k.b, k.loc, a, b);
  // An instruction of a GPU, and three of a processor.
  if (k.lanes == 1)
    return arith::MaxNumFOp::create(k.b, k.loc, a, b);
  Value greater =
      arith::CmpFOp::create(k.b, k.loc, arith::CmpFPredicate::OGT, a, b);
  return k.select(greater, a, b);
}
