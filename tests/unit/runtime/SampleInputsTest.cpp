//===- SampleInputsTest.cpp - inputs to time a function with --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/commands/sample_inputs.h"
#include "runtime/device/cpu_device.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

using namespace tfm;

namespace {

constexpr int64_t grid[] = {2, 8}, one[] = {1}, four[] = {4};
constexpr char untouched = 0x5a;

/// A model without code: nothing but an arena whose bytes are all `untouched`
/// and a function with some inputs.
struct Inputs {
  explicit Inputs(std::vector<tfm_buffer> list)
      : buffers(std::move(list)), device(1), model(descriptor(), device) {
    std::fill_n(device.arenaBytes(), bytes, untouched);
    function.name = "train";
    function.input_count = static_cast<int32_t>(buffers.size());
    function.inputs = buffers.data();
    function.output_count = 1;
    function.outputs = &losses;
  }

  static const tfm_model &descriptor() {
    static const tfm_variant variant = [] {
      tfm_variant result{};
      result.features = "";
      result.arena_bytes = bytes;
      result.arena_alignment = 64;
      return result;
    }();
    static const tfm_model empty = [] {
      tfm_model model{};
      model.abi = TFM_ABI_VERSION;
      model.name = "Empty";
      model.variant_count = 1;
      model.variants = &variant;
      return model;
    }();
    return empty;
  }

  /// Whether the bytes from `begin` to `end` are what they were.
  bool isUntouched(size_t begin, size_t end) {
    const char *arena = device.arenaBytes();
    return std::all_of(arena + begin, arena + end,
                       [](char byte) { return byte == untouched; });
  }

  /// What lies in the arena at an offset.
  template <typename T> const T *at(size_t offset) {
    return reinterpret_cast<const T *>(device.arenaBytes() + offset);
  }

  static constexpr size_t bytes = 512;
  const tfm_buffer losses = {TFM_OUT_LOSSES, TFM_F32, 2, grid, 0};
  std::vector<tfm_buffer> buffers;
  CpuDevice device;
  Model model;
  tfm_function function{};
};

// A truth value takes one byte and a number four: what lies behind an input is
// never written, and the input is written to its end.
TEST(SampleInputs, FillEachTypeToItsEndAndNoFurther) {
  Inputs inputs({{"tokens", TFM_I32, 2, grid, 0},
                 {"present", TFM_U8, 2, grid, 128},
                 {"scale", TFM_F32, 2, grid, 256}});
  setSampleInputs(inputs.model, inputs.function, 7, 20);
  const auto *tokens = inputs.at<int32_t>(0);
  EXPECT_TRUE(std::all_of(tokens, tokens + 16,
                          [](int32_t id) { return 0 <= id && id < 7; }));
  EXPECT_LT(std::count(tokens, tokens + 16, tokens[0]), 16);
  EXPECT_TRUE(inputs.isUntouched(64, 128));
  // A mask without a single true value gives rows of attention that see
  // nothing.
  const auto *present = inputs.at<uint8_t>(128);
  EXPECT_EQ(std::count(present, present + 16, 1), 16);
  EXPECT_TRUE(inputs.isUntouched(144, 256));
  const auto *scale = inputs.at<float>(256);
  EXPECT_EQ(std::count(scale, scale + 16, 0.0f), 16);
  EXPECT_TRUE(inputs.isUntouched(320, Inputs::bytes));
}

// All losses count, and an update changes nothing but divides by no zero.
TEST(SampleInputs, KnowWhatTheRuntimesInputsMean) {
  Inputs inputs({{"tokens", TFM_I32, 2, grid, 0},
                 {"targets", TFM_F32, 2, grid, 64},
                 {"count", TFM_F32, 0, nullptr, 128},
                 {"length", TFM_I32, 1, one, 192},
                 {"position", TFM_I32, 1, one, 196},
                 {"hyper", TFM_F32, 1, four, 256}});
  setSampleInputs(inputs.model, inputs.function, 7, 20);
  const auto *targets = inputs.at<float>(64);
  EXPECT_EQ(std::count(targets, targets + 16, 0.0f), 16);
  EXPECT_EQ(*inputs.at<float>(128), 16.0f);
  EXPECT_EQ(*inputs.at<int32_t>(192), 8);
  EXPECT_EQ(*inputs.at<int32_t>(196), 12) << "the last 8 of 20";
  const auto *hyper = inputs.at<float>(256);
  EXPECT_EQ(std::vector<float>(hyper, hyper + 4),
            (std::vector<float>{0, 1, 1, 0}));
}

// What is unknown is an error: nothing is filled as if it were an integer.
TEST(SampleInputs, RefuseATypeThatTheyDoNotKnow) {
  // The next number that has no name yet.
  Inputs inputs({{"odd", static_cast<tfm_dtype>(3), 2, grid, 0}});
  EXPECT_THROW(setSampleInputs(inputs.model, inputs.function, 7, 20),
               std::logic_error);
  EXPECT_TRUE(inputs.isUntouched(0, Inputs::bytes));
  EXPECT_THROW((void)inputs.model.read<float>(inputs.buffers[0]),
               std::logic_error);
}

} // namespace
