//===- learning_rate.h - the learning rate over time --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_TRAINING_LEARNING_RATE_H
#define TFM_RUNTIME_TRAINING_LEARNING_RATE_H

#include "runtime/recipe.h"

namespace tfm {

/// The learning rate of the update with index `step` (the first is 0) of
/// `steps` in all; `peak` is the optimizer's rate.
///
///   constant  peak
///   linear    from peak to `final` at `steps`
///   cosine    nanoGPT's: half a cosine from peak to `final` at `decay`
///   (absent:
///             `steps`), `final` afterwards
///   wsd       peak until `decay` steps before the end, then down to `final`
///             by `shape` (Hu et al. 2024, MiniCPM)
///   inverse_sqrt
///             peak times the root of `warmup` / `step` (Vaswani et al. 2017,
///             section 5.3), whatever `steps` is
///
/// All are preceded by `warmup` steps that rise in a line: as nanoGPT does for
/// cosine ((step + 1) / (warmup + 1)), else as transformers does (step /
/// warmup), which for wsd rises from `final`.
double learningRate(const ScheduleSpec &schedule, double peak, int64_t step,
                    int64_t steps);

} // namespace tfm

#endif // TFM_RUNTIME_TRAINING_LEARNING_RATE_H
