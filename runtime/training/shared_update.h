//===- shared_update.h - an update in parts -----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_TRAINING_SHARED_UPDATE_H
#define TFM_RUNTIME_TRAINING_SHARED_UPDATE_H

#include "runtime/model/model.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace tfm {

class Processes;

/// The end of an update, by blocks of rows of the parameters. Each process adds
/// up, updates and keeps the optimizer's state of its share of them, and then
/// has those of the others (ZeRO, stage 1: Rajbhandari et al. 2020). Its bits
/// depend on nothing but those of the gradients, which are added up as `RowSum`
/// does; not on how many processes there are, nor on what comes first.
///
/// Gradients go to their owners while the last micro-batch is computed, each
/// when nothing touches it any more (`tfm_place.gradient_done`), and parameters
/// to all while the first one of the next update is, which waits for each where
/// it is read (`tfm_place.value_used`).
///
/// Devices that exchange rows by themselves (`Device::link`) do so behind the
/// last micro-batch, and their sums have an order of their own.
class SharedUpdate {
public:
  virtual ~SharedUpdate() = default;

  /// A micro-batch is about to be computed: of an update the last one, to whose
  /// gradients as many sums as `waiting` are added then
  /// (`Model::addWaitingSum`), or another one, without `waiting`.
  virtual void begin(std::optional<int64_t> waiting) = 0;
  /// It was computed.
  virtual void end() = 0;
  /// Updates by `hyper`, as the input of `update` (tfm_model.h); returns the
  /// norm of all gradients before clipping. Where that is not finite nothing is
  /// changed.
  virtual float run(const std::array<float, 4> &hyper) = 0;
  /// Waits for the parameters of others: after `run` only `begin` goes without.
  virtual void awaitParameters() = 0;

  /// What the latest update took, by the clock (`now`).
  struct Times {
    /// When the last micro-batch was computed, gradients were added up, and
    /// parameters updated.
    double began = 0, summed = 0, updated = 0;
    /// Seconds, since the update before, of exchanges while micro-batches were
    /// computed, and of those that waited for parameters.
    double hidden = 0, waited = 0;
  };
  Times takeTimes() { return std::exchange(latest, {}); }

  /// Whether there are values that nobody has but their owner: masters, of
  /// which all that is computed reads copies in bf16.
  virtual bool keepsMasters() const = 0;
  /// Brings them to the first process.
  virtual void gatherMasters() = 0;
  /// Brings them and the optimizer's state to it.
  virtual void gatherState() = 0;
  /// Gives back the memory of what is of other processes.
  virtual void dropStateOfOthers() = 0;

protected:
  Times latest;
};

/// `processes` may be null: then all of it is done here. Throws InputError for
/// a variant that has no functions for it.
using ShareUpdate = std::unique_ptr<SharedUpdate>(Model &model,
                                                  Processes *processes);
/// Of shared_update.cpp. Models whose updates have one micro-batch, which
/// nobody shares, define it themselves, as null, and their programs have
/// nothing of that file, nor of what it needs (compiler/target/Descriptor.h).
extern "C" ShareUpdate *const tfm_share_update;

} // namespace tfm

#endif // TFM_RUNTIME_TRAINING_SHARED_UPDATE_H
