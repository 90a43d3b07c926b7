//===- sample_inputs.h - inputs to time a function with -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_COMMANDS_SAMPLE_INPUTS_H
#define TFM_RUNTIME_COMMANDS_SAMPLE_INPUTS_H

#include "runtime/model/model.h"

namespace tfm {

/// Any tokens of the vocabulary, all of which count, masks that hide nothing,
/// zeros for what else a model takes, and for `update` a step so small that the
/// weights stay what they are. With a cache the tokens are the last of a
/// context of that many: all of it is read. Inputs share bytes with what a
/// function computes, so set them before every run.
void setSampleInputs(Model &model, const tfm_function &function,
                     int64_t vocabulary, int64_t context);

} // namespace tfm

#endif // TFM_RUNTIME_COMMANDS_SAMPLE_INPUTS_H
