//===- ChooseLayers.h - layers that rows choose -----------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TRANSFORMS_CHOOSELAYERS_H
#define TFM_TRANSFORMS_CHOOSELAYERS_H

#include "mlir/IR/BuiltinOps.h"

namespace tfm {

/// Whether rows choose layers of a repeat: the other rows need not be computed
/// there.
bool choosesLayers(mlir::ModuleOp module);

} // namespace tfm

#endif // TFM_TRANSFORMS_CHOOSELAYERS_H
