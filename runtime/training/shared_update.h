//===- shared_update.h - an update in parts -----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_TRAINING_SHARED_UPDATE_H
#define TFM_RUNTIME_TRAINING_SHARED_UPDATE_H

#include "runtime/comm/processes.h"
#include "runtime/model.h"

#include <array>
#include <vector>

namespace tfm {

/// The end of an update, by rows of the parameters. Each process adds up,
/// updates and keeps the optimizer's state of its share of them, and then has
/// those of the others (ZeRO, stage 1: Rajbhandari et al. 2020). Its bits
/// depend on nothing but those of the gradients, which are added up as
/// `Processes` does; not on how many processes there are.
class SharedUpdate {
public:
  /// `processes` may be null: then all of it is done here. Throws InputError
  /// for a build that has no functions for it.
  SharedUpdate(Model &model, Processes *processes);

  /// Updates by `hyper`, as the input of `update` (tfm_model.h); returns the
  /// norm of all gradients before clipping. Where that is not finite nothing is
  /// changed.
  float run(const std::array<float, 4> &hyper);

  /// Brings the optimizer's state of all parameters to the first process.
  void gatherState();
  /// Gives back the memory of the state that is of other processes.
  void dropStateOfOthers();

private:
  /// The parameters that weight decay applies to, or the others.
  struct Part {
    const tfm_function *function;
    const tfm_buffer *row, *hyper, *scale;
    tfm_rows rows;
    /// Where the shares of the processes begin; whole blocks.
    std::vector<size_t> begins;
  };

  void addPart(const char *name, const tfm_rows &rows);
  SharedRows shared(const Part &part, Model::Rows of);
  /// The norm of what the owners have.
  float normOfGradients();

  Model &model;
  Processes *processes;
  size_t rank = 0, count = 1;
  std::vector<Part> parts;
};

} // namespace tfm

#endif // TFM_RUNTIME_TRAINING_SHARED_UPDATE_H
