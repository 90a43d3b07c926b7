//===- LayerAlias.cpp - further names of stacked parameters ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/LayerAlias.h"

using namespace tfm;

std::string tfm::layerAlias(llvm::StringRef alias, ParamOp param,
                            size_t layer) {
  std::string result;
  llvm::SmallVector<int64_t> indices;
  llvm::ArrayRef<int64_t> shape =
      param.getTensorType().getShape().take_front(param.getNumStackedDims());
  for (size_t i = shape.size(); i-- > 0; layer /= shape[i])
    indices.insert(indices.begin(), layer % shape[i]);
  size_t next = 0;
  llvm::SmallVector<llvm::StringRef> parts;
  alias.split(parts, '.');
  for (llvm::StringRef part : parts) {
    result += result.empty() ? "" : ".";
    auto [period, first] = part.split("*+");
    int64_t step = 1, offset = 0;
    bool counts = part == "*" || (!period.getAsInteger(10, step) &&
                                  !first.getAsInteger(10, offset));
    if (counts && next < indices.size())
      result += std::to_string(indices[next++] * step + offset);
    else
      result += part;
  }
  return result;
}
