//===- memory_needed.cpp - what a build takes of memory -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/model/memory_needed.h"

#include "runtime/device/variant.h"
#include "runtime/support/error.h"
#include "runtime/support/memory.h"

#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <limits>

namespace tfm {

namespace {

/// What makes the caches of a build smaller.
std::string smallerCaches(const Recipe &recipe) {
  const GenerateSpec &generate = recipe.generate;
  std::string context =
      fmt::format("a shorter context (now {})", generate.context);
  std::string advice =
      generate.batch > 1
          ? fmt::format("a smaller generate.batch (now {}) or {}",
                        generate.batch, context)
          : context;
  if (generate.cache != "int8")
    advice += ", or with generate.cache = int8";
  return advice;
}

/// What makes the activations of training smaller.
std::string smallerSteps(const TrainSpec &train) {
  return fmt::format(
      "a smaller train.batch (now {}; a larger train.accumulate, now {}, makes "
      "up for it) or train.sequence (now {}){}",
      train.batch, train.accumulate, train.sequence,
      train.precision == "f32" ? ", or with train.precision = bf16" : "");
}

/// Weights, and what training keeps beside them from step to step.
uint64_t weightBytes(const tfm_variant &variant) {
  return variant.parameters.bytes + variant.copies.bytes;
}
uint64_t stateBytes(const tfm_variant &variant) {
  return variant.gradients.bytes + variant.sums.bytes + variant.optimizer.bytes;
}

/// What to build for generation with less, of which there is `limit`.
std::string smallerGeneration(const tfm_variant &variant, const Recipe &recipe,
                              uint64_t limit) {
  const std::string &kept = recipe.generate.weights;
  std::string fewerBits =
      kept == "int4"
          ? ""
          : ", or with fewer bits (generate.weights, now " + kept + ")";
  if (weightBytes(variant) > limit)
    return "build a smaller model" + fewerBits;
  return "build it with " + smallerCaches(recipe) +
         (weightBytes(variant) > variant.cache_bytes ? fewerBits : "");
}

/// What a training of which there is `limit` takes most of, and what to build
/// for less.
std::string trainingAdvice(const tfm_variant &variant, const Recipe &recipe,
                           uint64_t limit) {
  uint64_t kept = weightBytes(variant) + stateBytes(variant);
  if (kept > limit)
    return fmt::format("parameters, gradients and the optimizer's state alone "
                       "take {}: build a smaller model",
                       byteText(kept));
  if (variant.cache_bytes > variant.activations.bytes)
    return "most of what may be less is caches of the samples that it "
           "generates: build it with " +
           smallerCaches(recipe);
  return "most of what may be less is activations: build it with " +
         smallerSteps(recipe.train);
}

/// The same of everything else that a model does.
std::string otherAdvice(const tfm_variant &variant, const Recipe &recipe,
                        uint64_t limit) {
  if (weightBytes(variant) > limit)
    return "its weights alone take " + byteText(weightBytes(variant)) + ": " +
           smallerGeneration(variant, recipe, limit);
  if (variant.gradients.bytes > 0)
    return "some of it is for training alone: a build without the `train` "
           "block takes less";
  if (variant.cache_bytes > variant.activations.bytes)
    return "most of what may be less is what generation keeps of its texts: " +
           smallerGeneration(variant, recipe, limit);
  return "most of what may be less is what generation computes of a whole "
         "context: build it with a shorter context";
}

} // namespace

/// What there is for a variant; of a GPU it itself says when there is no more.
static uint64_t memoryFor(const tfm_variant &variant) {
  return variant.image_count > 0 ? std::numeric_limits<uint64_t>::max()
                                 : memoryLimit();
}

/// The bytes of sums that a process among so many never has.
static double sumsLeftOut(const tfm_variant &variant, const TrainSpec &train,
                          int64_t processes) {
  auto twos = [](int64_t count) {
    return std::countr_zero(static_cast<uint64_t>(count));
  };
  if (variant.sums.bytes == 0)
    return 0;
  return static_cast<double>(variant.sums.bytes) / twos(train.accumulate) *
         twos(processes);
}

void requireTrainingMemory(const tfm_model &model, const Recipe &recipe,
                           int64_t processes) {
  const TrainSpec &train = recipe.train;
  // Tokens and targets of a step stay beside the arena. In floating point, as
  // there may be more of them than can be counted.
  double step = 2.0 * sizeof(int32_t) * static_cast<double>(train.accumulate) *
                static_cast<double>(train.batch) *
                static_cast<double>(train.sequence);
  const tfm_variant &variant = chooseVariant(model);
  double arena = static_cast<double>(variant.arena_bytes) -
                 sumsLeftOut(variant, train, processes);
  uint64_t limit = memoryFor(variant);
  if (arena + step <= static_cast<double>(limit))
    return;
  auto text = [](double bytes) {
    return byteText(static_cast<uint64_t>(std::min(bytes, 1e19)));
  };
  auto activations = static_cast<double>(variant.activations.bytes),
       caches = static_cast<double>(variant.cache_bytes);
  double kept = arena - activations - caches;
  if (kept > static_cast<double>(limit))
    throw InputError(
        "training {} takes {} of memory, {} of them for parameters, gradients "
        "and the optimizer's state alone{}, but there is {}: build a smaller "
        "model",
        model.name, text(arena + step), text(kept),
        processes > 1 ? " (each process has all of them while it reads a "
                        "checkpoint, and the first while it writes one)"
                      : "",
        byteText(limit));
  if (caches > activations + step)
    throw InputError(
        "training {} takes {} of memory, with the samples that it generates "
        "(activations {}, caches {}), but there is {}: build it with {}",
        model.name, text(arena + step), text(activations), text(caches),
        byteText(limit), smallerCaches(recipe));
  throw InputError(
      "training {} takes {} of memory (activations {}, tokens of a step {}), "
      "but there is {}: build it with {}",
      model.name, text(arena + step), text(activations + caches), text(step),
      byteText(limit),
      step > activations && train.accumulate > 1
          ? fmt::format("a smaller train.accumulate (now {})", train.accumulate)
          : smallerSteps(train));
}

void requireGenerationMemory(const tfm_model &model, const Recipe &recipe) {
  const tfm_variant &variant = chooseVariant(model);
  uint64_t weights = weightBytes(variant), caches = variant.cache_bytes,
           limit = memoryFor(variant);
  if (weights + caches <= limit)
    return;
  throw InputError(
      "generating with {} takes {} of memory (weights {}, caches {}), but "
      "there is {}: {}",
      model.name, byteText(weights + caches), byteText(weights),
      byteText(caches), byteText(limit),
      smallerGeneration(variant, recipe, limit));
}

void requireMemoryTogether(const tfm_model &model, const Recipe &recipe,
                           bool trains, int64_t processes, int64_t together) {
  const tfm_variant &variant = chooseVariant(model);
  // The first has the caches of samples, and all hold of the optimizer's state,
  // and of masters that have copies, their own share.
  uint64_t each = weightBytes(variant) + variant.cache_bytes,
           all = each * static_cast<uint64_t>(together);
  if (trains) {
    uint64_t shared = variant.optimizer.bytes +
                      (variant.copies.bytes > 0 ? variant.parameters.bytes : 0);
    each = variant.arena_bytes - variant.cache_bytes - shared +
           shared / static_cast<uint64_t>(processes) -
           static_cast<uint64_t>(sumsLeftOut(variant, recipe.train, processes));
    all = each * static_cast<uint64_t>(together) + variant.cache_bytes;
  }
  if (all <= memoryFor(variant))
    return;
  throw InputError(
      "the {} processes on this machine take {} of memory together, {} each, "
      "but there is {}: start fewer of them on it, or build {} with {}",
      together, byteText(all), byteText(each), byteText(memoryFor(variant)),
      model.name, trains ? smallerSteps(recipe.train) : smallerCaches(recipe));
}

void requireArena(const tfm_model &model) {
  const tfm_variant &variant = chooseVariant(model);
  if (variant.arena_bytes > memoryFor(variant))
    refuseArena(model, /*trains=*/false);
}

void refuseArena(const tfm_model &model, bool trains,
                 const NoDeviceMemory *left) {
  const tfm_variant &variant = chooseVariant(model);
  uint64_t limit = left ? left->left : memoryLimit();
  std::string advice =
      left && variant.arena_bytes <= left->all && left->left < left->all
          ? "end what else uses that GPU, or take another one"
      : trains && variant.gradients.bytes > 0
          ? trainingAdvice(variant, recipeOf(model), limit)
          : otherAdvice(variant, recipeOf(model), limit);
  if (left)
    throw InputError(
        "{} needs {} of memory, and {} has {} left of {}: {}; or run with "
        "--device cpu",
        model.name, byteText(variant.arena_bytes), left->device,
        byteText(left->left), byteText(left->all), advice);
  throw InputError("{} needs {} of memory, more than there is: {}", model.name,
                   byteText(variant.arena_bytes), advice);
}

} // namespace tfm
