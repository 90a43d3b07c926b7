//===- initialise.h - the first values of the parameters ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_TRAINING_INITIALISE_H
#define TFM_RUNTIME_TRAINING_INITIALISE_H

#include "runtime/model/model.h"

namespace tfm {

/// Fills one parameter as its `init` says. Element e takes its randomness from
/// the Philox block {e / 4, stream low, Stream::Initialise, stream high} of the
/// seed (four values a block), so a tensor's values depend on nothing but the
/// seed, its stream and its size.
void initialise(const tfm_parameter &parameter, uint64_t seed,
                std::span<float> out);

/// Fills all parameters of a model, on all its threads.
void initialise(Model &model, uint64_t seed);

} // namespace tfm

#endif // TFM_RUNTIME_TRAINING_INITIALISE_H
