//===- source_input.cpp - what an encoder reads ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/data/source_input.h"

#include <algorithm>

namespace tfm {

void SourceInput::write(Model &model, const Sources &sources) const {
  if (!ids)
    return;
  int64_t rows = std::min(std::ssize(sources.counts), ids->shape[0]);
  {
    PendingWrite<int32_t> write = model.write<int32_t>(*ids);
    std::span<int32_t> to = write.values();
    std::ranges::fill(
        std::ranges::copy(
            std::span(sources.ids).first(static_cast<size_t>(rows * length())),
            to.begin())
            .out,
        to.end(), 0);
  }
  if (!present)
    return;
  PendingWrite<uint8_t> write = model.write<uint8_t>(*present);
  std::span<uint8_t> to = write.values();
  std::ranges::fill(to, uint8_t{1}); // softmax over nothing is no number
  for (int64_t row = 0; row < rows; ++row) {
    auto of = std::span(to).subspan(static_cast<size_t>(row * length()),
                                    static_cast<size_t>(length()));
    int64_t count = sources.counts[static_cast<size_t>(row)];
    std::ranges::fill(of.subspan(static_cast<size_t>(count)), uint8_t{0});
  }
}

} // namespace tfm
