//===- RandomModel.h - random models for tests ------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TESTS_UNIT_CODEGEN_RANDOMMODEL_H
#define TFM_TESTS_UNIT_CODEGEN_RANDOMMODEL_H

#include <cstdint>
#include <string>

namespace tfm {

/// A small model with its recipe, as a user could write it.
struct RandomModel {
  std::string text;
  int64_t vocab = 0, context = 0;
  /// Micro-batches of an update.
  int64_t accumulate = 1;
};

/// Random compositions of the standard modules and of what the language has:
/// attention of every kind, norms, gated layers, repeats in repeats, with
/// layers that differ, that are shared, and that hand on two values, tied and
/// frozen weights,
/// constants, slices, dropout, and both kinds of loss.
RandomModel randomModel(unsigned seed);

/// Mixtures of experts of which so many rows choose a few that the rows of
/// each are computed by themselves: chosen by scores or by tokens, in layers of
/// a repeat or in one.
RandomModel randomMixture(unsigned seed);

} // namespace tfm

#endif // TFM_TESTS_UNIT_CODEGEN_RANDOMMODEL_H
