//===- memory_needed.h - what a build takes of memory ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_MODEL_MEMORY_NEEDED_H
#define TFM_RUNTIME_MODEL_MEMORY_NEEDED_H

#include "runtime/device/device.h"
#include "runtime/recipe.h"
#include "runtime/tfm_model.h"

namespace tfm {

// An arena costs nothing until it is touched, so that each command asks for
// what it is going to touch, before it does anything else. What they throw is
// an InputError with how much it takes, how much there is, and what to build
// with less.

/// Training: all of the arena, and the tokens of a step beside it. Of several
/// processes each has that, too, as long as a checkpoint is written or read;
/// but of `train.sum = tree` the fewer sums wait the more processes there are.
void requireTrainingMemory(const tfm_model &model, const Recipe &recipe,
                           int64_t processes = 1);

/// Generation: the weights, and the caches of all texts that a build continues
/// together.
void requireGenerationMemory(const tfm_model &model, const Recipe &recipe);

/// What processes take of one machine's memory, of which `together` share it:
/// while they train, or generate. That each would have room alone has been
/// asked before.
void requireMemoryTogether(const tfm_model &model, const Recipe &recipe,
                           bool trains, int64_t processes, int64_t together);

/// Every function of a build, one after the other: all of the arena.
void requireArena(const tfm_model &model);
/// Says that there is less memory than the arena has, and what to build so that
/// the model trains, or does all else, with less; of a device `left` is what
/// that has.
[[noreturn]] void refuseArena(const tfm_model &model, bool trains,
                              const NoDeviceMemory *left = nullptr);

} // namespace tfm

#endif // TFM_RUNTIME_MODEL_MEMORY_NEEDED_H
