//===- shared_update.h - an update in parts -----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_TRAINING_SHARED_UPDATE_H
#define TFM_RUNTIME_TRAINING_SHARED_UPDATE_H

#include "runtime/model/model.h"
#include "runtime/training/row_exchange.h"

#include <array>
#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace tfm {

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
class SharedUpdate final : public LaunchWatcher, private RowSum::Steps {
public:
  /// `processes` may be null: then all of it is done here. Throws InputError
  /// for a build that has no functions for it.
  SharedUpdate(Model &model, Processes *processes);

  /// A micro-batch is about to be computed: of an update the last one, to whose
  /// gradients as many sums as `waiting` are added then
  /// (`Model::addWaitingSum`), or another one, without `waiting`.
  void begin(std::optional<int64_t> waiting);
  /// It was computed.
  void end();
  /// Updates by `hyper`, as the input of `update` (tfm_model.h); returns the
  /// norm of all gradients before clipping. Where that is not finite nothing is
  /// changed.
  float run(const std::array<float, 4> &hyper);
  /// Waits for the parameters of others: after `run` only `begin` goes without.
  void awaitParameters();

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
  bool keepsMasters() const;
  /// Brings them to the first process.
  void gatherMasters() { gather(Model::Rows::Values); }
  /// Brings them and the optimizer's state to it.
  void gatherState();
  /// Gives back the memory of what is of other processes.
  void dropStateOfOthers();

private:
  /// The parameters that weight decay applies to, or the others.
  struct Part {
    const tfm_function *function;
    const tfm_buffer *row, *hyper, *scale;
    tfm_rows rows;
  };
  struct Block {
    const Part *part;
    RowBlock rows;
    /// Launches of `train` behind which nothing touches the gradients, and
    /// before which nothing reads the values.
    uint64_t gradientDone = 0, valueUsed = TFM_NONE;
    /// Whether others than its owner need the values, and their copies in bf16.
    bool sharesValues = true, sharesCopies = false;
  };

  /// Numbers of blocks, each behind what they are sorted by.
  using Sorted = std::vector<std::pair<uint64_t, size_t>>;

  void addPart(Part &part, const char *name, const tfm_rows &rows,
               std::span<Block> itsBlocks);
  /// Where keys are the same the earlier block comes first.
  Sorted sorted(uint64_t (*key)(const Block &)) const;
  /// Such that each process's own follow each other, for devices that exchange
  /// what they have in one piece.
  Sorted inRuns() const;
  /// Puts blocks in such an order.
  void put(const Sorted &order);
  /// Of each process then.
  std::vector<RowBlock> runs() const;
  std::vector<DeviceLink::Share> sharesOf(Model::Rows of) const;
  /// Has devices sum up gradients, and the squares of those of this process's.
  void sumOnDevices();
  /// All blocks, or of those that are not `wanted` no rows.
  SharedRows shared(Model::Rows of, bool Block::*wanted = nullptr) const;
  void gather(Model::Rows of);
  /// What is updated goes on on its way to all.
  void advanceCopies(size_t readyRounds);
  void launched(uint64_t launches) noexcept override;
  /// Adds what waits to gradients of this process's own.
  void prepare(const RowBlock &rows) override;
  /// Adds to the squares of a block of this process's own.
  void done(size_t block, std::span<const float> sums) override;
  /// The norm of what the owners have.
  float normOfGradients();
  /// The rounds of copies that have to be there before the launch behind the
  /// next one begins.
  size_t neededAfter(uint64_t launches);
  /// Waits for so many rounds of copies.
  void awaitCopies(size_t rounds);
  void update(const Block &block, const std::array<float, 4> &hyper,
              float scale);
  bool isOwn(size_t block) const { return block % count == rank; }
  /// Rounds whose gradients are done.
  size_t readyRounds() const {
    return ready == blocks.size() ? squares.size() : ready / count;
  }

  Model &model;
  Processes *processes;
  size_t rank = 0, count = 1;
  Part decayed, plain;
  /// In the order in which their gradients are done, and their numbers in the
  /// order of the rows. Block i belongs to process i % count.
  std::vector<Block> blocks;
  Sorted inOrder;
  /// Null where one process does it all, or devices do it by themselves.
  std::unique_ptr<RowExchange> sums;
  /// Of values, and where the build computes in bf16 of what it reads instead.
  std::unique_ptr<RowExchange> valueCopy, narrowCopy;
  std::array<RowExchange *, 2> bothCopies{};
  std::span<RowExchange *const> copies; ///< those that there are
  std::unique_ptr<DeviceLink> link;     ///< of such devices
  Times latest;
  int64_t waiting = 0;
  /// Whether this micro-batch is the last one of its update, and whether copies
  /// are under way.
  bool isSumming = false, isCopying = false;
  /// Blocks whose gradients are done.
  size_t ready = 0;
  /// Launches in their order, each with the rounds of copies up to one that has
  /// its parameters, and how many of these are behind.
  Sorted needs;
  size_t passed = 0;
  /// What went wrong in `launched`.
  std::exception_ptr failure;
  /// Sums of squares of this process's blocks, and of those of all.
  std::vector<double> squares, allSquares;
};

} // namespace tfm

#endif // TFM_RUNTIME_TRAINING_SHARED_UPDATE_H
