//===- ParamTest.cpp - parameters and their names -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/TfmDialect.h"
#include "tests/unit/oracle/Gradients.h"

#include "gtest/gtest.h"

using namespace tfm;
using namespace tfm::oracle;

namespace {

using Names = std::vector<std::string>;

/// The checkpoint's names of the only parameter of `text`.
Names layerNames(llvm::StringRef text) {
  TestModule test(text);
  EXPECT_TRUE(test.module);
  Names names;
  for (auto param : test.module.get().getOps<ParamOp>())
    llvm::append_range(names, param.getLayerNames());
  return names;
}

TEST(Param, OneTensorHasItsOwnName) {
  EXPECT_EQ(layerNames(R"(
    tfm.param @wte.weight : tensor<5x3xf32> {init = {kind = "zeros"}})"),
            (Names{"wte.weight"}));
}

TEST(Param, LayersCountFromZero) {
  EXPECT_EQ(layerNames(R"(
    tfm.param @"h.*.ln.weight" : tensor<3x8xf32> {init = {kind = "ones"}})"),
            (Names{"h.0.ln.weight", "h.1.ln.weight", "h.2.ln.weight"}));
}

// Row-major: the innermost repeat counts fastest, as the tensor is stacked.
TEST(Param, NestedLayersInRowMajorOrder) {
  EXPECT_EQ(layerNames(R"(
    tfm.param @"a.*.b.*.w" : tensor<2x3x8xf32> {init = {kind = "ones"}})"),
            (Names{"a.0.b.0.w", "a.0.b.1.w", "a.0.b.2.w", "a.1.b.0.w",
                   "a.1.b.1.w", "a.1.b.2.w"}));
}

TEST(Param, GivenNamesWin) {
  EXPECT_EQ(layerNames(R"(
    tfm.param @"h.*.w" : tensor<2x8xf32>
      {init = {kind = "ones"}, names = ["first.w", "last.w"]})"),
            (Names{"first.w", "last.w"}));
}

TEST(Param, RankOfOneLayer) {
  TestModule test(R"(
    tfm.param @"a.*.b.*.w" : tensor<2x3x8x4xf32> {init = {kind = "ones"}})");
  auto param = *test.module.get().getOps<ParamOp>().begin();
  EXPECT_EQ(param.getNumStackedDims(), 2);
  EXPECT_EQ(param.getTensorType().getRank(), 4);
  EXPECT_TRUE(param.getTrainable());
}

} // namespace
