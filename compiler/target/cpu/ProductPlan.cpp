//===- ProductPlan.cpp - which kernel computes a product ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/ProductPlan.h"
#include "compiler/target/cpu/CpuMachine.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace tfm;

ProductPlan tfm::planProduct(const MatmulSpec &spec, const CpuMachine &target) {
  if (auto plan = planGroupedPanels(spec, target))
    return *plan;
  if (auto plan = planGrouped(spec, target))
    return *plan;
  if (auto plan = planIntegerTiles(spec, target))
    return *plan;
  if (auto plan = planFewRows(spec, target))
    return *plan;
  return planMatmul(spec, target);
}

Kernel tfm::emitMatmul(OpBuilder &builder, ModuleOp module, StringRef name,
                       const MatmulSpec &spec, const CpuMachine &target) {
  return std::visit(
      llvm::makeVisitor(
          [&](const GroupedPanelsPlan &plan) {
            return emitGroupedPanels(builder, module, name, spec, target, plan);
          },
          [&](const GroupedPlan &plan) {
            return emitGrouped(builder, module, name, spec, target, plan);
          },
          [&](const IntegerTilesPlan &plan) {
            return emitIntegerTiles(builder, module, name, spec, target, plan);
          },
          [&](const FewRowsPlan &plan) {
            return emitFewRows(builder, module, name, spec, target, plan);
          },
          [&](const MatmulPlan &plan) {
            return emitMatmul(builder, module, name, spec, target, plan);
          }),
      planProduct(spec, target));
}
