//===- predict.cpp - the command predict ----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/commands/commands.h"

#include "runtime/device/choose_device.h"
#include "runtime/files/run_folder.h"
#include "runtime/files/weights.h"
#include "runtime/support/atomic_file.h"
#include "runtime/support/error.h"
#include "runtime/support/progress.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tfm {

namespace {

/// A result of `forward`, of all examples.
class Result {
public:
  /// Throws InputError where it has no row for each of `batch` examples.
  Result(const tfm_buffer &buffer, std::string name, int64_t batch,
         int64_t examples)
      : buffer(buffer), name(std::move(name)) {
    if (buffer.rank == 0 || buffer.shape[0] != batch)
      throw InputError(fmt::format(
          "the result `{}` of `forward` is [{}], without a row for each of {} "
          "examples: give it the first axis `B`",
          this->name, fmt::join(buffer.shape, buffer.shape + buffer.rank, ", "),
          batch));
    width = Model::elements(buffer.rank - 1, buffer.shape + 1);
    values.resize(static_cast<size_t>(examples) * width);
  }

  /// Takes the first `count` rows that the model gave as those from `first` on.
  void take(const Model &model, int64_t first, int64_t count) {
    switch (buffer.dtype) {
    case TFM_F32:
      return takeAs<float>(model, first, count);
    case TFM_I32:
      return takeAs<int32_t>(model, first, count);
    case TFM_U8:
      return takeAs<uint8_t>(model, first, count);
    case TFM_BF16: // of weights alone
    case TFM_I8:
    case TFM_I4:
      break;
    }
    throw std::logic_error("a result of a type that no function gives");
  }

  /// In how many rows there is a NaN.
  int64_t rowsWithoutNumber() const {
    int64_t count = 0;
    for (size_t at = 0; at < values.size(); at += width)
      count +=
          std::ranges::any_of(std::span(values).subspan(at, width),
                              [](float value) { return std::isnan(value); });
    return count;
  }

  FloatTensor tensor() const {
    std::vector<int64_t> shape(buffer.shape, buffer.shape + buffer.rank);
    shape[0] = static_cast<int64_t>(values.size() / width);
    return hostTensor(name, shape, values.data());
  }

private:
  template <typename T>
  void takeAs(const Model &model, int64_t first, int64_t count) {
    PendingRead<T> read =
        model.read<T>(buffer, 0, static_cast<size_t>(count) * width);
    std::ranges::transform(read.values(),
                           values.begin() + first * static_cast<int64_t>(width),
                           [](T value) { return static_cast<float>(value); });
  }

  const tfm_buffer &buffer;
  std::string name;
  size_t width = 0;
  std::vector<float> values;
};

} // namespace

void predict(const tfm_model &descriptor, const PredictCommand &command) {
  Recipe recipe = recipeOf(descriptor);
  if (!holdsArrays(recipe.data))
    throw InputError(fmt::format(
        "{} predicts from arrays alone, and its data is {}: `logits` writes "
        "what it makes of a text. Name arrays in `data` and build it again",
        descriptor.name,
        recipe.data.kind.empty() ? "none" : "`" + recipe.data.kind + "`"));
  requireNoRunFile(command.out);
  requireNotRead(command.out, command, descriptor);
  const tfm_function *function = findFunction(descriptor, TFM_FORWARD);
  if (!function)
    throw Model::missing(descriptor, TFM_FORWARD);
  DataSpec spec = dataOf(descriptor, recipe, command.data);
  spec.validation = 0;
  spec.validationFiles.clear();
  std::unique_ptr<Dataset> data =
      openArrays(spec, arrayInputsOf(*function, recipe));
  std::unique_ptr<Device> device =
      makeDevice(descriptor, command.device, threadCount(command, descriptor),
                 command.processes);
  Model model(descriptor, *device);
  WeightFiles(command.weights, familyOf(descriptor)).requireNoneIs(command.out);
  loadWeights(command, model);

  const tfm_function &forward = model.function(TFM_FORWARD);
  Rows rows(forward, Rows::takenBy(forward));
  const int64_t examples = data->windows(Part::Train);
  std::vector<Result> results;
  for (int32_t i = 0; i < forward.output_count; ++i)
    results.emplace_back(
        forward.outputs[i],
        forward.output_count == 1 ? "output" : "output." + std::to_string(i),
        rows.count(), examples);
  for (int64_t first = 0; first < examples; first += rows.count()) {
    const int64_t count = std::min(rows.count(), examples - first);
    for (int64_t row = 0; row < rows.count(); ++row)
      if (row < count)
        data->fill(Part::Train, first + row, rows, row);
      else
        rows.clear(row, /*target=*/0);
    rows.write(model);
    model.run(forward);
    for (Result &result : results)
      result.take(model, first, count);
  }

  AtomicFile file(command.out);
  std::vector<FloatTensor> tensors;
  for (const Result &result : results)
    tensors.push_back(result.tensor());
  writeSafetensors(file, tensors, {{"model", descriptor.name}});
  file.commit();
  for (const Result &result : results)
    if (int64_t bad = result.rowsWithoutNumber(); bad > 0)
      say(fmt::format("warning: of {} of {} examples results are not numbers: "
                      "the weights are damaged, or training has diverged\n",
                      bad, examples));
}

} // namespace tfm
