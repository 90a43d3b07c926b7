//===- Outcome.h - what comes of a model on a device ------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TESTS_UNIT_RUNTIME_OUTCOME_H
#define TFM_TESTS_UNIT_RUNTIME_OUTCOME_H

#include "runtime/device/device.h"
#include "tests/unit/runtime/ToyModel.h"

#include <string>
#include <vector>

namespace tfm::test {

struct Outcome {
  std::string steps; ///< of the first run, as its log has them
  std::vector<float> parameters;
  std::vector<double> losses;
  double validation = 0;
  std::vector<int32_t> generated, cached;

  bool operator==(const Outcome &) const = default;
};

/// The model that `outcomeOn` trains.
ToyModel toyOfOutcome();

/// Everything that reaches the arena: initial values, training with several
/// micro-batches, validation, a checkpoint that is written and read again,
/// texts with and without a cache.
Outcome outcomeOn(const tfm_model &descriptor, Device &device,
                  const std::string &folder);

} // namespace tfm::test

#endif // TFM_TESTS_UNIT_RUNTIME_OUTCOME_H
