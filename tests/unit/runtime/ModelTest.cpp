//===- ModelTest.cpp - parameters in the types that builds keep them in ---===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/model/model.h"
#include "runtime/device/cpu_device.h"
#include "runtime/formats/safetensors.h"
#include "runtime/support/float16.h"
#include "runtime/training/initialise.h"
#include "tests/unit/runtime/ToyModel.h"

#include <array>
#include <atomic>
#include <gtest/gtest.h>
#include <random>

namespace tfm {
namespace {

/// How a parameter lies in the arena.
struct Kept {
  tfm_dtype dtype;
  bool inPanels = false, isTransposed = false;
};

/// A model of one parameter.
class OneParameter {
public:
  OneParameter(Kept kept, std::vector<int64_t> itsShape, int64_t outputAxis,
               int threads)
      : toy(test::ToyShape(), ""), shape(std::move(itsShape)), device(threads) {
    parameter.name = "weight";
    parameter.dtype = kept.dtype;
    parameter.rank = static_cast<int32_t>(shape.size());
    parameter.shape = shape.data();
    parameter.output_axis = outputAxis;
    OutputRows rows(shape, outputAxis);
    uint64_t values = (rows.terms() + 64) * (rows.outputs() + 64) * 4;
    place.scale = values;
    place.minimum = 2 * values;
    place.panel_outputs = kept.inPanels ? 32 : 0;
    place.transposed = kept.isTransposed;
    variant = toy.descriptor().variants[0];
    variant.places = &place;
    variant.arena_bytes = 3 * values;
    variant.function_count = variant.constant_count = 0;
    descriptor = toy.descriptor();
    descriptor.parameter_count = 1;
    descriptor.parameters = &parameter;
    descriptor.variants = &variant;
    model.emplace(descriptor, device);
  }

  /// What is kept of some numbers.
  std::vector<float> keep(const std::vector<float> &numbers) {
    std::atomic<size_t> most = 0;
    model->setValue(parameter, [&](size_t first, std::span<float> room) {
      most = std::max<size_t>(most, room.size());
      std::ranges::copy(std::span(numbers).subspan(first, room.size()),
                        room.begin());
    });
    // Never a copy of all of a large one.
    EXPECT_LE(most, std::max<size_t>(size_t{1} << 18, numbers.size() / 3));
    return read();
  }

  /// What is kept of the numbers that training begins with.
  std::vector<float> keepInitial(uint64_t seed) {
    initialise(*model, seed);
    return read();
  }

  tfm_parameter parameter = {};

private:
  std::vector<float> read() const {
    PendingRead<float> pending = model->readValue(parameter);
    return {pending.values().begin(), pending.values().end()};
  }

  test::ToyModel toy;
  std::vector<int64_t> shape;
  tfm_place place = {};
  tfm_variant variant;
  tfm_model descriptor;
  CpuDevice device;
  std::optional<Model> model;
};

/// The same of a tensor that is there as a whole.
std::vector<float> expected(Kept kept, const std::vector<float> &numbers,
                            const OutputRows &rows) {
  std::vector<float> result(numbers.size());
  if (kept.dtype == TFM_I8) {
    std::vector<int8_t> integers(numbers.size());
    std::vector<float> scales(rows.outputs());
    quantise(numbers, rows, integers, scales);
    dequantise(integers, scales, rows, result);
  } else if (kept.dtype == TFM_I4) {
    size_t groups = rows.outputs() * groupsOf(rows.terms());
    std::vector<uint8_t> integers(groups * TFM_GROUP_BYTES);
    std::vector<uint16_t> scales(groups), minima(groups);
    quantise(numbers, rows, integers, scales, minima);
    dequantise(integers, scales, minima, rows, result);
  } else {
    std::ranges::transform(numbers, result.begin(), [](float number) {
      return fromBFloat16(toBFloat16(number));
    });
  }
  return result;
}

// Matrices behind each other, outputs along either axis, rows that are read in
// parts, last groups and panels that are not full: with any number of threads
// the same bits as of the whole tensor.
TEST(Model, ValuesThatComeInPartsAreThoseOfTheWhole) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.1f, 0.02f);
  std::vector<Kept> all = {{TFM_I8},
                           {TFM_I8, /*inPanels=*/true},
                           {TFM_I4},
                           {TFM_BF16},
                           {TFM_BF16, false, /*isTransposed=*/true}};
  std::vector<std::vector<int64_t>> shapes = {
      {1, 1}, {5, 3}, {131, 1031}, {3, 77, 301}, {2, 2, 70, 3}, {71, 8209}};
  for (const std::vector<int64_t> &shape : shapes)
    for (int64_t fromEnd : {1, 2}) {
      int64_t axis = static_cast<int64_t>(shape.size()) - fromEnd;
      OutputRows rows(shape, axis);
      std::vector<float> numbers(rows.outputs() * rows.terms());
      for (float &number : numbers)
        number = normal(random);
      for (Kept kept : all)
        for (int threads : {1, 3})
          EXPECT_EQ(OneParameter(kept, shape, axis, threads).keep(numbers),
                    expected(kept, numbers, rows))
              << kept.dtype << kept.inPanels << kept.isTransposed << " of "
              << shapeText(shape) << " along " << axis << ", " << threads;
    }
}

// Of which four are drawn at a time, and rows have another number.
TEST(Model, InitialValuesThatComeInPartsAreThoseOfTheWhole) {
  Kept kept = {TFM_BF16, false, /*isTransposed=*/true};
  for (tfm_init init : {TFM_INIT_NORMAL, TFM_INIT_UNIFORM}) {
    OneParameter one(kept, {71, 8209}, /*outputAxis=*/1, /*threads=*/2);
    one.parameter.init = init;
    one.parameter.init_args[0] = -0.5;
    one.parameter.init_args[1] = 0.5;
    std::vector<float> numbers(71 * 8209);
    initialise(one.parameter, /*seed=*/3, numbers);
    EXPECT_EQ(one.keepInitial(3),
              expected(kept, numbers, OutputRows(std::array{71L, 8209L}, 1)));
  }
}

} // namespace
} // namespace tfm
