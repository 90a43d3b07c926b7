//===- shared_update.cpp - an update in parts ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/training/shared_update.h"

#include "runtime/device/variant.h"
#include "runtime/error.h"

#include <algorithm>
#include <cmath>

namespace tfm {

/// Of whole rows: in f32 within a row, in 16 sums as vectors have them, and in
/// f64 beyond.
static double sumOfSquares(std::span<const float> values) {
  constexpr size_t lanes = 16;
  double total = 0;
  for (size_t row = 0; row < values.size(); row += TFM_ROW) {
    std::array<float, lanes> sums{};
    for (size_t i = row; i < row + TFM_ROW; i += lanes)
      for (size_t lane = 0; lane < lanes; ++lane)
        sums[lane] += values[i + lane] * values[i + lane];
    for (float sum : sums)
      total += static_cast<double>(sum);
  }
  return total;
}

SharedUpdate::SharedUpdate(Model &model, Processes *processes)
    : model(model), processes(processes) {
  if (processes) {
    rank = static_cast<size_t>(processes->rank());
    count = static_cast<size_t>(processes->count());
  }
  addPart(TFM_UPDATE_DECAYED, model.variant().decayed);
  addPart(TFM_UPDATE_PLAIN, model.variant().plain);
  if (parts.empty() && model.rowCount() > 0)
    throw InputError(
        std::string("this build of ") + model.descriptor().name + " for " +
        model.variant().target +
        " has no updates that processes can share: train it with one");
}

void SharedUpdate::addPart(const char *name, const tfm_rows &rows) {
  if (rows.block == 0)
    return;
  const tfm_function &function = model.function(name);
  std::vector<size_t> begins =
      sharesOf(rows.count / rows.block, static_cast<int>(count));
  for (size_t &begin : begins)
    begin *= rows.block;
  parts.push_back({&function, &Model::input(function, "row"),
                   Model::findInput(function, "hyper"),
                   &Model::input(function, "scale"), rows, std::move(begins)});
}

SharedRows SharedUpdate::shared(const Part &part, Model::Rows of) {
  size_t before = part.rows.first;
  return {[this, of, before](size_t first, size_t rows) {
            return model.readRows(of, before + first, rows);
          },
          [this, of, before](size_t first, size_t rows) {
            return model.writeRows(of, before + first, rows);
          },
          part.begins};
}

float SharedUpdate::normOfGradients() {
  // A sum for each block, and these in their order: the same for any shares.
  size_t most = 0;
  for (size_t i = 0; i < count; ++i) {
    size_t blocks = 0;
    for (const Part &part : parts)
      blocks += (part.begins[i + 1] - part.begins[i]) / part.rows.block;
    most = std::max(most, blocks);
  }
  std::vector<double> own(most), all(most * count);
  size_t next = 0;
  for (const Part &part : parts)
    for (size_t row = part.begins[rank]; row < part.begins[rank + 1];
         row += part.rows.block)
      own[next++] =
          sumOfSquares(model
                           .readRows(Model::Rows::Gradients,
                                     part.rows.first + row, part.rows.block)
                           .values());
  if (processes)
    processes->gather<double>(own, all);
  else
    all = own;
  double total = 0;
  std::vector<size_t> used(count);
  for (const Part &part : parts)
    for (size_t i = 0; i < count; ++i)
      for (size_t row = part.begins[i]; row < part.begins[i + 1];
           row += part.rows.block)
        total += all[i * most + used[i]++];
  return static_cast<float>(std::sqrt(total));
}

float SharedUpdate::run(const std::array<float, 4> &hyper) {
  if (processes)
    for (const Part &part : parts)
      processes->sumToOwners(shared(part, Model::Rows::Gradients));
  float norm = normOfGradients();
  if (!std::isfinite(norm))
    return norm;
  // As `update` clips.
  float clip = hyper[3];
  float scale = clip > 0 ? std::min(1.0f, clip / (norm + 1e-6f)) : 1.0f;
  for (const Part &part : parts)
    for (size_t row = part.begins[rank]; row < part.begins[rank + 1];
         row += part.rows.block) {
      model.write<int32_t>(*part.row).values()[0] = static_cast<int32_t>(row);
      model.write<float>(*part.scale).values()[0] = scale;
      if (part.hyper)
        std::ranges::copy(hyper,
                          model.write<float>(*part.hyper).values().begin());
      model.run(*part.function);
    }
  if (processes) {
    for (const Part &part : parts)
      processes->spreadFromOwners(shared(part, Model::Rows::Values));
    model.parametersChanged();
  }
  return norm;
}

void SharedUpdate::gatherState() {
  if (!processes)
    return;
  for (Model::Rows state : model.stateRows())
    for (const Part &part : parts)
      processes->gatherAtFirst(shared(part, state));
}

void SharedUpdate::dropStateOfOthers() {
  for (Model::Rows state : model.stateRows())
    for (const Part &part : parts)
      for (auto [first, last] :
           {std::pair<size_t, size_t>{0, part.begins[rank]},
            {part.begins[rank + 1], part.rows.count}})
        if (first < last)
          model.discardRows(state, part.rows.first + first, last - first);
}

} // namespace tfm
