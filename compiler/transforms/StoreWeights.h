//===- StoreWeights.h - where products have the outputs of weights --------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TRANSFORMS_STOREWEIGHTS_H
#define TFM_TRANSFORMS_STOREWEIGHTS_H

#include "compiler/dialect/TfmDialect.h"

#include <optional>

namespace tfm {

/// The axis of one layer of a parameter along which all that read it, products
/// and gathers alone, have their outputs; nothing where there is none, so that
/// it cannot be stored in integers.
std::optional<int64_t> outputAxisOf(ParamOp param,
                                    llvm::ArrayRef<GetParamOp> gets);

} // namespace tfm

#endif // TFM_TRANSFORMS_STOREWEIGHTS_H
