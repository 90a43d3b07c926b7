//===- ParameterRegions.cpp - where parameters lie ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/transforms/ParameterRegions.h"

#include "compiler/transforms/ReadRecipe.h"

#include "llvm/ADT/bit.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tfm;

int64_t tfm::paddedElements(ParamOp param) {
  constexpr int64_t cacheLine = 64;
  RankedTensorType type = param.getTensorType();
  return llvm::alignTo(type.getNumElements(),
                       cacheLine * 8 / type.getElementTypeBitWidth());
}

Type tfm::typeOfParameters(ModuleOp module) {
  Type type;
  for (auto param : module.getOps<ParamOp>()) {
    Type own = param.getTensorType().getElementType();
    if (type && own != type)
      llvm::report_fatal_error("parameters of two types in one region");
    type = own;
  }
  return type;
}

RegionSizes tfm::regionSizes(ModuleOp module, int64_t decayMinRank) {
  Optimizer rule;
  rule.decayMinRank = decayMinRank;
  RegionSizes sizes;
  for (auto param : module.getOps<ParamOp>())
    (!param.getTrainable() ? sizes.frozen
     : rule.decays(param)  ? sizes.decayed
                           : sizes.plain) += paddedElements(param);
  for (int64_t *size : {&sizes.decayed, &sizes.plain, &sizes.frozen})
    *size = llvm::alignTo(*size, kRegionRow);
  if (microStepsIfKnown(module) > 1)
    for (int64_t *size : {&sizes.decayed, &sizes.plain})
      // With what is filled up larger blocks may do.
      for (int64_t block = 0; block != regionBlock(*size);) {
        block = regionBlock(*size);
        *size = llvm::alignTo(*size, block * kRegionRow);
      }
  return sizes;
}

int64_t tfm::regionBlock(int64_t elements) {
  constexpr uint64_t longest = 64, share = 16;
  auto rows = static_cast<uint64_t>(elements / kRegionRow);
  return static_cast<int64_t>(
      llvm::bit_floor(std::clamp(rows / share, uint64_t{1}, longest)));
}
