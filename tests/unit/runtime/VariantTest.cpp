//===- VariantTest.cpp - which code of a model this machine runs ----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/variant.h"

#include "runtime/support/error.h"
#include "tests/unit/runtime/TemporaryFolder.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <vector>

namespace tfm {

namespace {

/// A model with a variant for each of these machines and their features.
struct Variants {
  explicit Variants(
      const std::vector<std::pair<const char *, const char *>> &machines) {
    for (auto [machine, features] : machines) {
      tfm_variant variant{};
      variant.machine = machine;
      variant.features = features;
      list.push_back(variant);
    }
    model.abi = TFM_ABI_VERSION;
    model.variant_count = static_cast<int64_t>(list.size());
    model.variants = list.data();
  }
  std::vector<tfm_variant> list;
  tfm_model model{};
};

TEST(Variant, TheFirstThatFitsIsChosen) {
  Variants variants({{"future", "telepathy"}, {"any", ""}, {"other", ""}});
  EXPECT_STREQ(chooseVariant(variants.model).machine, "any");
}

TEST(Variant, WhereNoneFitsTheMessageSaysWhatIsMissing) {
  Variants variants({{"future", "telepathy,clairvoyance"}, {"past", "abacus"}});
  EXPECT_EQ(
      test::messageOf<InputError>([&] { chooseVariant(variants.model); }),
      "this processor lacks instructions that the program was compiled "
      "for (past: abacus); build it on this machine, or for others of its kind "
      "with `tfmc build --cpu portable`");
}

#ifdef __x86_64__
TEST(Variant, WhereNoBuildRunsTheMessageDoesNotAdviseAnother) {
  constexpr Machine old = {[](std::string_view feature) {
                             return feature == "popcnt" || feature == "avx2";
                           },
                           [] { return false; }};
  Variants variants({{"new", "popcnt,fma,avx2,avx512f"}, {"least", "fma"}});
  EXPECT_EQ(
      test::messageOf<InputError>([&] { chooseVariant(variants.model, old); }),
      "this processor lacks instructions that the program was compiled "
      "for (least: fma); no build runs on it: AVX2 and FMA are the least");
}
#endif

TEST(Variant, WhatComputesNothingNeedsNoInstructions) {
  Variants variants({{"future", "telepathy"}, {"past", "abacus"}});
  tfm_model read = withoutCode(variants.model);
  EXPECT_EQ(read.variant_count, 1);
  EXPECT_STREQ(chooseVariant(read).machine, "past");
  EXPECT_STREQ(variants.list.back().features, "abacus");
  Variants some({{"future", "telepathy"}, {"any", ""}});
  EXPECT_EQ(withoutCode(some.model).variants, some.list.data());
}

// A processor with tiles whose system does not let programs use them.
constexpr Machine withoutItsTiles = {
    [](std::string_view feature) { return feature != "telepathy"; },
    [] { return false; }};

TEST(Variant, WhereTheSystemKeepsTilesToItselfSlowerCodeRuns) {
  Variants variants({{"new+amx", "avx2,amx-tile,amx-bf16"}, {"new", "avx2"}});
  testing::internal::CaptureStderr();
  EXPECT_STREQ(chooseVariant(variants.model, withoutItsTiles).machine, "new");
  chooseVariant(variants.model, withoutItsTiles); // says it once
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "note: the system does not let this program use the processor's "
            "tiles (AMX), so that it runs slower code without them\n");
}

TEST(Variant, WhereTheSystemKeepsTilesToItselfAndThereIsNoOtherCode) {
  Variants variants({{"future", "telepathy"}, {"new+amx", "avx2,amx-tile"}});
  EXPECT_EQ(test::messageOf<InputError>(
                [&] { chooseVariant(variants.model, withoutItsTiles); }),
            "the system does not let this program use the processor's tiles "
            "(AMX), which its code for new+amx needs; build it with code "
            "without them, too: `tfmc build --cpu new`");
  // Where something else is missing, too, the processor lacks it.
  Variants others({{"future+amx", "telepathy,amx-tile"}});
  EXPECT_EQ(test::messageOf<InputError>(
                [&] { chooseVariant(others.model, withoutItsTiles); }),
            "this processor lacks instructions that the program was compiled "
            "for (future+amx: telepathy,amx-tile); build it on this machine, "
            "or for others "
            "of its kind with `tfmc build --cpu portable`");
}

TEST(Variant, AnotherInterfaceIsABug) {
  Variants variants({{"any", ""}});
  variants.model.abi = TFM_ABI_VERSION - 1;
  EXPECT_THROW(chooseVariant(variants.model), std::logic_error);
}

// What is known of this machine is what it says of itself.
TEST(Variant, KnowsTheFeaturesOfThisMachine) {
#ifdef __x86_64__
  EXPECT_EQ(missingFeatures("avx2").empty(),
            static_cast<bool>(__builtin_cpu_supports("avx2")));
  EXPECT_EQ(missingFeatures("avx512bf16,fma").empty(),
            __builtin_cpu_supports("avx512bf16") &&
                __builtin_cpu_supports("fma"));
#endif
}

} // namespace
} // namespace tfm
