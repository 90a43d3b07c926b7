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

/// Adds a parameter to those of its rate.
static void add(ParameterRegions::Region &region, ParamOp param) {
  double rate = param.getTrainable() ? param.getRateOrOne() : 1;
  auto *range = llvm::find_if(region.ranges,
                              [&](const auto &of) { return of.rate == rate; });
  if (range == region.ranges.end()) {
    region.ranges.emplace_back();
    range = &region.ranges.back();
    range->rate = rate;
  }
  range->parameters.push_back(param);
  range->elements += paddedElements(param);
}

ParameterRegions tfm::parameterRegions(ModuleOp module, int64_t decayMinRank) {
  Optimizer rule;
  rule.decayMinRank = decayMinRank;
  ParameterRegions regions;
  for (auto param : module.getOps<ParamOp>())
    add(!param.getTrainable() ? regions.frozen
        : rule.decays(param)  ? regions.decayed
                              : regions.plain,
        param);
  for (auto *region : {&regions.decayed, &regions.plain, &regions.frozen})
    for (auto &range : region->ranges) {
      range.firstRow = region->elements / regionRow;
      region->elements += llvm::alignTo(range.elements, regionRow);
    }
  if (microStepsIfKnown(module) > 1)
    for (auto *region : {&regions.decayed, &regions.plain})
      // With what is filled up larger blocks may do.
      for (int64_t block = 0; block != regionBlock(region->elements);) {
        block = regionBlock(region->elements);
        region->elements = llvm::alignTo(region->elements, block * regionRow);
      }
  return regions;
}

int64_t tfm::regionBlock(int64_t elements) {
  constexpr uint64_t longest = 64, share = 16;
  auto rows = static_cast<uint64_t>(elements / regionRow);
  return static_cast<int64_t>(
      llvm::bit_floor(std::clamp(rows / share, uint64_t{1}, longest)));
}
