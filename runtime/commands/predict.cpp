//===- predict.cpp - the command predict ----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/commands/commands.h"

#include "runtime/device/choose_device.h"
#include "runtime/files/find_tokenizer.h"
#include "runtime/files/run_folder.h"
#include "runtime/files/weights.h"
#include "runtime/files/written_by.h"
#include "runtime/generation/logits_source.h"
#include "runtime/support/atomic_file.h"
#include "runtime/support/error.h"
#include "runtime/support/progress.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>

namespace tfm {

namespace {

/// A function that takes and gives `[B, T, ...]`, for examples that may have
/// fewer than its positions.
struct Positions {
  int64_t taken; ///< by the function
  int64_t used;  ///< by an example, the first ones
};

/// A result of `forward`, of all examples.
class Result {
public:
  /// Throws InputError where it has no row for each example, or not a part of
  /// it for each of their positions, where there are some unused. What an axis
  /// counts `dims` says, and not its size, which another may have, too.
  Result(const tfm_buffer &buffer, std::string name,
         const std::vector<std::string> &dims, int64_t examples,
         const std::optional<Positions> &positions)
      : buffer(buffer), name(std::move(name)),
        shape(buffer.shape, buffer.shape + buffer.rank) {
    if (dims.empty() || dims[0] != "B")
      throw InputError(
          "the result `{}` of `forward` is [{}], without a row for "
          "each example: give it the first axis `B`",
          this->name, fmt::join(dims, ", "));
    stride = Model::elements(buffer.rank - 1, buffer.shape + 1);
    if (positions && (dims.size() < 2 || dims[1] != "T"))
      failOfPositions(*positions);
    if (positions)
      shape[1] = positions->used;
    width = Model::elements(buffer.rank - 1, shape.data() + 1);
    shape[0] = examples;
    values.resize(static_cast<size_t>(examples) * width);
  }

  /// What is to be done where all positions have a part in a result.
  [[noreturn]] static void failOfPositions(const Positions &positions) {
    throw InputError(
        "`forward` looks at {0} tokens at once, and its result cannot be told "
        "from what fills up an example of {1}: train the model with as many as "
        "it looks at (-D train.sequence={0}, or -D context={1})",
        positions.taken, positions.used);
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

  /// The rows in which there is a NaN.
  std::vector<int64_t> rowsWithoutNumber() const {
    std::vector<int64_t> rows;
    for (size_t at = 0; at < values.size(); at += width)
      if (std::ranges::any_of(std::span(values).subspan(at, width),
                              [](float value) { return std::isnan(value); }))
        rows.push_back(static_cast<int64_t>(at / width));
    return rows;
  }

  /// That of an example.
  std::span<const float> row(int64_t example) const {
    return std::span(values).subspan(static_cast<size_t>(example) * width,
                                     width);
  }

  FloatTensor tensor() const { return hostTensor(name, shape, values.data()); }

private:
  template <typename T>
  void takeAs(const Model &model, int64_t first, int64_t count) {
    PendingRead<T> read =
        model.read<T>(buffer, 0, static_cast<size_t>(count) * stride);
    for (int64_t row = 0; row < count; ++row)
      std::ranges::transform(
          read.values().subspan(static_cast<size_t>(row) * stride, width),
          values.begin() + (first + row) * static_cast<int64_t>(width),
          [](T value) { return static_cast<float>(value); });
  }

  const tfm_buffer &buffer;
  std::string name;
  std::vector<int64_t> shape; ///< of all examples
  size_t stride = 0;          ///< elements of a row as `forward` gives it
  size_t width = 0;           ///< those of it that are taken
  std::vector<float> values;
};

/// Where a model of `tokens` alone looks at more of them than it is trained
/// with, as it generates longer texts.
std::optional<Positions> unusedPositions(const tfm_function &forward,
                                         const tfm_function *evaluated) {
  const tfm_buffer *all = Model::findInput(forward, TFM_IN_TOKENS);
  const tfm_buffer *trained =
      evaluated ? Model::findInput(*evaluated, TFM_IN_TOKENS) : nullptr;
  if (forward.input_count != 1 || !all || !trained || all->rank != 2 ||
      trained->rank != 2 || trained->shape[1] >= all->shape[1])
    return std::nullopt;
  return Positions{all->shape[1], trained->shape[1]};
}

/// Throws InputError where the results of the first example, which row 0 has,
/// depend on what stands in positions that it does not use.
void requireOwnResults(Model &model, const tfm_function &forward, Rows &rows,
                       const Positions &positions, std::span<Result> results) {
  if (model.find(TFM_DECODE)) // what can be evaluated with a cache is causal
    return;
  std::vector<float> values;
  auto resultsBefore = [&](std::span<const int32_t> right) {
    {
      PendingWrite<int32_t> write =
          model.write<int32_t>(Model::input(forward, TFM_IN_TOKENS));
      std::ranges::fill(write.values(), 0);
      auto behind =
          std::ranges::copy(rows.tokens(0), write.values().begin()).out;
      std::ranges::copy(right, behind);
    }
    model.run(forward);
    values.clear();
    for (Result &result : results) {
      result.take(model, 0, 1);
      std::ranges::copy(result.row(0), std::back_inserter(values));
    }
    return std::span<const float>(values);
  };
  // What looks no token up in a table takes all integers.
  constexpr int64_t some = 256;
  const int64_t vocabulary = vocabularyOf(model.descriptor());
  if (!staysTheSame(static_cast<size_t>(positions.taken - positions.used),
                    vocabulary > 0 ? vocabulary : some, resultsBefore))
    Result::failOfPositions(positions);
}

} // namespace

void predict(const tfm_model &descriptor, const PredictCommand &command) {
  Recipe recipe = recipeOf(descriptor);
  if (!holdsArrays(recipe.data))
    throw InputError(
        "{} predicts from arrays alone, and its data is {}: `logits` writes "
        "what it makes of a text. Name arrays in `data` and build it again",
        descriptor.name,
        recipe.data.kind.empty() ? "none" : "`" + recipe.data.kind + "`");
  requireNoRunFile(command.out);
  requireNotRead(command.out, command, descriptor);
  requireNoOtherKind(command.out);
  requireWrittenBy(command.out, "predict", "write to another file");
  const tfm_function *function = findFunction(descriptor, TFM_FORWARD);
  if (!function)
    throw Model::missing(descriptor, TFM_FORWARD);
  DataSpec spec = dataOf(descriptor, recipe, command.data);
  spec.validation = 0;
  spec.validationFiles.clear();
  // Results come in the order of the files.
  spec.splitSeed.reset();
  // An example has as many tokens as those of training had.
  const tfm_function *evaluated = findFunction(descriptor, TFM_EVALUATE);
  const std::optional<Positions> positions =
      unusedPositions(*function, evaluated);
  tfm_function taken = *function;
  if (positions)
    taken.inputs = &Model::input(*evaluated, TFM_IN_TOKENS);
  std::unique_ptr<Dataset> data =
      openArrays(spec, arrayInputsOf(taken, recipe));
  std::unique_ptr<Device> device =
      makeDevice(descriptor, command.device, threadCount(command, descriptor),
                 command.processes);
  Model model(descriptor, *device);
  WeightFiles(command.weights, familyOf(descriptor)).requireNoneIs(command.out);
  loadWeights(command, model);

  const tfm_function &forward = model.function(TFM_FORWARD);
  Rows rows(taken, Rows::takenBy(forward));
  const int64_t examples = data->windows(Part::Train);
  std::vector<Result> results;
  for (int32_t i = 0; i < forward.output_count; ++i)
    results.emplace_back(
        forward.outputs[i],
        forward.output_count == 1 ? "output" : "output." + std::to_string(i),
        recipe.results.at(static_cast<size_t>(i)), examples, positions);
  if (positions) {
    data->fill(Part::Train, 0, rows, 0);
    requireOwnResults(model, forward, rows, *positions, results);
  }
  for (int64_t first = 0; first < examples; first += rows.count()) {
    const int64_t count = std::min(rows.count(), examples - first);
    for (int64_t row = 0; row < rows.count(); ++row)
      data->fill(Part::Train, (first + row) % examples, rows, row);
    rows.writeTo(forward, model, 0);
    model.run(forward);
    for (Result &result : results)
      result.take(model, first, count);
  }

  AtomicFile file(command.out);
  std::vector<FloatTensor> tensors;
  for (const Result &result : results)
    tensors.push_back(result.tensor());
  writeSafetensors(file, tensors,
                   {{"model", descriptor.name}, {writtenByKey, "predict"}});
  file.commit();
  for (const Result &result : results)
    if (std::vector<int64_t> bad = result.rowsWithoutNumber(); !bad.empty())
      say(fmt::format(
          "warning: of {} of {} examples results are not numbers{}\n",
          bad.size(), examples,
          std::ssize(bad) == examples
              ? ": the weights are damaged, or training has diverged"
              : fmt::format(", the first of them example {} (from 0): what it "
                            "reads is too large for the model, or the weights "
                            "are damaged",
                            bad.front())));
}

} // namespace tfm
