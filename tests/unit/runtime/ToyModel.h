//===- ToyModel.h - a bigram model written by hand ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// logits[b, t] = table[tokens[b, t]] + bias: a descriptor with all the
// functions that a compiled model has, in plain C++, so that the runtime can be
// tested without a compiler. Two parameters: table [V, V] (decayed) and bias
// [V].
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TESTS_UNIT_RUNTIME_TOYMODEL_H
#define TFM_TESTS_UNIT_RUNTIME_TOYMODEL_H

#include "runtime/tfm_model.h"

#include <memory>
#include <string>
#include <vector>

namespace tfm::test {

struct ToyShape {
  int64_t vocabulary = 14;
  int64_t batch = 4;
  int64_t sequence = 9;
  int64_t rows = 4; ///< of `forward`
  int64_t context = 9;
  int64_t accumulate = 1;
  /// Above 0, `forward` also looks at earlier tokens, in a way that depends on
  /// their positions, and there are `prefill`, with chunks of this length, and
  /// `decode`.
  int64_t chunk = 0;
  int64_t ignore = -1;
  /// Whether `evaluate` says which targets are `right`, and their
  /// `surprisals`.
  bool measuresPredictions = true;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double eps = 1e-8;
  double weightDecay = 0.1;
  /// The loss becomes NaN at this update; -1: never.
  int64_t poisonedStep = -1;
};

/// Owns everything that its descriptor points to.
class ToyModel {
public:
  ToyModel(const ToyShape &shape, std::string recipe);
  ~ToyModel();
  const tfm_model &descriptor() const;

private:
  struct Parts;
  std::unique_ptr<Parts> parts;
};

/// A recipe for sums(count, max) with the characters tokenizer; `train` is the
/// inside of the train object.
std::string sumsRecipe(const ToyShape &shape, const std::string &train,
                       int64_t count = 2000);

} // namespace tfm::test

#endif // TFM_TESTS_UNIT_RUNTIME_TOYMODEL_H
