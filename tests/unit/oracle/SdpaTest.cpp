//===- SdpaTest.cpp - attention against PyTorch ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// tests/fixtures/sdpa: values and gradients of every variant, computed by
// PyTorch in f64 and rounded to f32.
//
//===----------------------------------------------------------------------===//

#include "tests/unit/oracle/Gradients.h"
#include "tests/unit/oracle/Safetensors.h"

#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

using namespace tfm::oracle;

namespace {

/// Rounding the reference to f32 moves it by up to 2^-24 of itself.
constexpr double tolerance = 6e-8;

class Sdpa : public testing::TestWithParam<const char *> {};
TEST_P(Sdpa, ValuesAndGradients) {
  std::string name = GetParam();
  auto tensors = readFixture("sdpa/sdpa.safetensors");
  llvm::json::Value cases = readFixtureJson("sdpa/cases.json");
  const llvm::json::Object *options = cases.getAsObject()->getObject(name);
  ASSERT_TRUE(options);
  auto at = [&](const char *what) { return tensors.at(name + "." + what); };

  std::vector<Tensor> inputs = {at("q"), at("k"), at("v")};
  std::string arguments, types;
  for (const char *what : {"q", "k", "v"}) {
    std::string type = "tensor<" + spell(at(what).shape, "f32") + ">";
    arguments += llvm::formatv("%{0}: {1}, ", what, type).str();
    types += type + ", ";
  }
  std::string mask;
  if (auto kind = options->getString("mask")) {
    inputs.push_back(at("mask"));
    std::string type = "tensor<" +
                       spell(at("mask").shape, *kind == "bool" ? "i1" : "f32") +
                       ">";
    arguments += "%mask: " + type + ", ";
    types += type + ", ";
    mask = "mask %mask";
  }
  arguments.resize(arguments.size() - 2);
  types.resize(types.size() - 2);
  std::string out = "tensor<" + spell(at("out").shape, "f32") + ">";
  TestModule test(
      llvm::formatv(
          "func.func @f({0}) -> {1} {{\n"
          "  %out, %lse = tfm.attention %q, %k, %v {2} {{{3}scale = {4:E17} : "
          "f64} : {5}\n  return %out : {1}\n}",
          arguments, out, mask,
          options->getBoolean("causal").value_or(false) ? "causal, " : "",
          *options->getNumber("scale"), types)
          .str());
  ASSERT_TRUE(test.function("f"));

  auto values = evaluateOrFail(test.function("f"), inputs);
  ASSERT_EQ(values.size(), 1u);
  EXPECT_LE(relativeError(values[0], at("out")), tolerance);
  inputs.push_back(at("grad_out"));
  auto gradients = evaluateOrFail(addVJP(test.function("f"), "g"), inputs);
  ASSERT_GE(gradients.size(), 3u);
  EXPECT_LE(relativeError(gradients[0], at("grad_q")), tolerance);
  EXPECT_LE(relativeError(gradients[1], at("grad_k")), tolerance);
  EXPECT_LE(relativeError(gradients[2], at("grad_v")), tolerance);
}
INSTANTIATE_TEST_SUITE_P(
    All, Sdpa,
    testing::Values("plain", "causal", "bool_mask", "additive_mask", "scale",
                    "gqa", "mqa", "cross", "cross_value_width", "cross_causal",
                    "empty_row", "large_scores"),
    [](const auto &info) { return std::string(info.param); });

} // namespace
