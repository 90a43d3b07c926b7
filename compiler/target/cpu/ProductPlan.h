//===- ProductPlan.h - which kernel computes a product ----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CPU_PRODUCTPLAN_H
#define TFM_TARGET_CPU_PRODUCTPLAN_H

#include "compiler/target/cpu/FewRows.h"
#include "compiler/target/cpu/GroupedPanels.h"
#include "compiler/target/cpu/GroupedProduct.h"
#include "compiler/target/cpu/IntegerTiles.h"
#include "compiler/target/cpu/Matmul.h"
#include "compiler/target/cpu/MatmulPlan.h"
#include <variant>

namespace tfm {

/// The plan of the kernel that `emitMatmul` makes for a product.
using ProductPlan = std::variant<GroupedPanelsPlan, GroupedPlan,
                                 IntegerTilesPlan, FewRowsPlan, MatmulPlan>;

/// The first of them that there is; there is always the last.
ProductPlan planProduct(const MatmulSpec &spec, const CpuMachine &target);

} // namespace tfm

#endif // TFM_TARGET_CPU_PRODUCTPLAN_H
