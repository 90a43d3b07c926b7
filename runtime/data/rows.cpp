//===- rows.cpp - what data fill of a function ----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/data/rows.h"

#include <algorithm>
#include <stdexcept>

namespace tfm {

/// Elements of a row.
static size_t widthOf(const tfm_buffer &buffer) {
  return Model::elements(buffer.rank - 1, buffer.shape + 1);
}

RowValues rowValues(tfm_dtype type, size_t count) {
  switch (type) {
  case TFM_F32:
    return std::vector<float>(count);
  case TFM_I32:
    return std::vector<int32_t>(count);
  case TFM_U8:
    return std::vector<uint8_t>(count, 1);
  case TFM_BF16:
  case TFM_I8:
  case TFM_I4:
    break; // of weights alone
  }
  throw std::logic_error("an input of a type that no data have");
}

bool isOfStep(std::string_view input) {
  return input == TFM_IN_COUNT || input == TFM_IN_RNG;
}

Rows::Rows(const tfm_function &function, int64_t count) : rows(count) {
  for (int32_t i = 0; i < function.input_count; ++i) {
    const tfm_buffer &buffer = function.inputs[i];
    if (isOfStep(buffer.name))
      continue;
    size_t width = widthOf(buffer);
    all.push_back(
        {&buffer, width,
         rowValues(buffer.dtype, static_cast<size_t>(count) * width)});
  }
  auto findIds = [&](std::string_view name) {
    size_t input = find(name);
    return input != none && all[input].buffer->dtype == TFM_I32 ? input : none;
  };
  tokensInput = findIds(TFM_IN_TOKENS);
  targetsInput = findIds(TFM_IN_TARGETS);
  sourceInput = findIds(TFM_IN_SOURCE);
  presentInput = find(TFM_IN_PRESENT);
  if (targetsInput == none && tokensInput != none)
    unread.resize(all[tokensInput].width);
  if (const tfm_buffer *losses = Model::findOutput(function, TFM_OUT_LOSSES)) {
    lossWidth = static_cast<int64_t>(widthOf(*losses));
    hasTargetEach =
        targetsInput != none &&
        std::ranges::equal(std::span(losses->shape, losses->rank),
                           std::span(all[targetsInput].buffer->shape,
                                     all[targetsInput].buffer->rank));
  }
}

int64_t Rows::takenBy(const tfm_function &function) {
  std::span inputs(function.inputs, static_cast<size_t>(function.input_count));
  auto first = std::ranges::find_if_not(
      inputs, isOfStep, [](const tfm_buffer &input) { return input.name; });
  if (first == inputs.end())
    throw InputError("the model takes no inputs that data could fill");
  return first->shape[0];
}

size_t Rows::find(std::string_view name) const {
  auto found = std::ranges::find_if(
      all, [&](const Input &input) { return name == input.buffer->name; });
  return found == all.end() ? none : static_cast<size_t>(found - all.begin());
}

void Rows::setSource(int64_t row, std::span<const int32_t> text,
                     int32_t padding) {
  std::span<int32_t> source = all[sourceInput].row<int32_t>(row);
  text = text.first(std::min(text.size(), source.size()));
  std::ranges::fill(std::ranges::copy(text, source.begin()).out, source.end(),
                    padding);
  if (presentInput == none)
    return;
  std::span<uint8_t> present = all[presentInput].row<uint8_t>(row);
  std::ranges::fill(present.first(text.size()), uint8_t{1});
  std::ranges::fill(present.subspan(text.size()), uint8_t{0});
}

int64_t Rows::counting(int64_t row, int64_t valid,
                       std::optional<int32_t> ignored) {
  if (!ignored || !hasTargetEach)
    return valid;
  auto of = targets(row).first(static_cast<size_t>(valid));
  return valid - std::ranges::count(of, *ignored);
}

void Rows::write(Model &model, int64_t first) const {
  for (const Input &input : all)
    std::visit(
        [&]<typename T>(const std::vector<T> &values) {
          PendingWrite<T> write = model.write<T>(*input.buffer);
          std::ranges::copy(std::span(values).subspan(
                                static_cast<size_t>(first) * input.width,
                                write.values().size()),
                            write.values().begin());
        },
        input.values);
}

void Rows::writeTo(const tfm_function &function, Model &model,
                   int64_t first) const {
  for (int32_t i = 0; i < function.input_count; ++i) {
    const tfm_buffer &buffer = function.inputs[i];
    const Input &input = all[find(buffer.name)];
    int64_t some = std::min(rows - first, buffer.shape[0]);
    size_t width = widthOf(buffer);
    std::visit(
        [&]<typename T>(const std::vector<T> &values) {
          PendingWrite<T> write = model.write<T>(buffer);
          std::span<T> to = write.values();
          std::ranges::fill(to, std::is_same_v<T, uint8_t> ? T{1} : T{0});
          for (int64_t row = 0; row < some; ++row)
            std::copy_n(values.begin() +
                            (first + row) * static_cast<int64_t>(input.width),
                        std::min(input.width, width),
                        to.begin() + row * static_cast<int64_t>(width));
        },
        input.values);
  }
}

bool Rows::haveAllOf(const tfm_function &function) const {
  return std::all_of(function.inputs, function.inputs + function.input_count,
                     [&](const tfm_buffer &input) {
                       size_t found = find(input.name);
                       return found != none &&
                              all[found].buffer->dtype == input.dtype;
                     });
}

} // namespace tfm
