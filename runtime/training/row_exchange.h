//===- row_exchange.h - rows that processes share -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_TRAINING_ROW_EXCHANGE_H
#define TFM_RUNTIME_TRAINING_ROW_EXCHANGE_H

#include "runtime/comm/processes.h"
#include "runtime/device/device.h"
#include "runtime/training/sum_turns.h"

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace tfm {

/// Some rows of TFM_ROW floats.
struct RowBlock {
  size_t first, count;
};

/// Rows of which every process has its own, or a copy, at the same places of
/// its device, in blocks: block i belongs to process i % N. What is next to
/// each other is thus everybody's, so that all send and receive all the time.
struct SharedRows {
  std::vector<RowBlock> blocks;
  DeviceRows memory;
  /// Whether what was read is a view, which stays (`Device::isHostMemory`).
  bool isHostMemory = false;

  PendingRead<float> read(const RowBlock &block) const {
    return memory.read(block.first, block.count);
  }
  PendingWrite<float> write(const RowBlock &block) const {
    return memory.write(block.first, block.count);
  }
};

/// Brings rows from process to process, in turns: in each all send some rows of
/// N blocks. A few turns are under way at the same time, and end in their
/// order. All there is to be had is made once: an exchange allocates nothing.
class RowExchange {
public:
  virtual ~RowExchange() = default;
  RowExchange(const RowExchange &) = delete;
  RowExchange &operator=(const RowExchange &) = delete;

  /// N blocks that follow each other, one of each process's, are a round.
  size_t rounds() const { return turns / slices; }
  /// Begins with the first round again; the exchange before must be over.
  void begin();
  /// Does what can be done without waiting, so many rounds being such as they
  /// are to be sent, in the order in which they are. Returns whether there was
  /// anything.
  bool advance(size_t readyRounds);
  /// Goes on until so many rounds are over, or all; all are ready.
  void finish() { finish(std::array{this}, rounds()); }
  /// The same of several with as many rounds, which go on side by side.
  static void finish(std::span<RowExchange *const> exchanges, size_t count);
  bool isOver() const { return ended == turns; }

protected:
  enum class Order { FirstToLast, LastToFirst };
  /// `mostRows`: of a block in a turn; a divisor of those of blocks that have
  /// more.
  RowExchange(Processes &processes, SharedRows &&rows, Channel channel,
              Order order, size_t mostRows);

  /// What process `rank` owns of a turn; no rows where that is nothing.
  RowBlock ownedBy(size_t rank, size_t turn) const;
  /// The number of that block.
  size_t blockOf(size_t rank, size_t turn) const {
    size_t round = turn / slices;
    return (order == Order::FirstToLast ? round : rounds() - 1 - round) * all +
           rank;
  }

  /// What there is of a process in a turn that is under way: values that go to
  /// it or come from it, and the messages that bring them.
  struct Partner {
    PendingRead<float> read;
    PendingWrite<float> written;
    Processes::Request to, from;
  };
  /// By rank.
  std::span<Partner> partners(size_t turn) {
    return {&underWay[turn % window * all], all};
  }

  virtual void postReceives(size_t turn) = 0;
  virtual void postSends(size_t turn) = 0;
  /// All messages of the turn have come and gone.
  virtual void end(size_t turn) = 0;

  void send(size_t turn, size_t to, std::span<const float> values);
  void receive(size_t turn, size_t from, std::span<float> values);
  Processes &processes;
  const SharedRows rows;
  size_t me, all;
  size_t sliceRows; ///< of a block in a turn
  size_t window;

private:
  bool messagesAreOver(size_t turn);

  Channel channel;
  Order order;
  size_t slices, turns;
  /// How many turns receive, send, and are over.
  size_t received = 0, sent = 0, ended = 0;
  std::vector<Partner> underWay;
};

/// The sum over all processes of what each has, in its owner's place; of the
/// others the values stay. It is that of a balanced binary tree over the ranks,
/// so that its bits depend on nothing else.
class RowSum final : public RowExchange {
public:
  /// Who has to do with a sum besides.
  class Steps {
  public:
    virtual ~Steps() = default;
    /// Rows are about to be read here, of one's own and of others.
    virtual void prepare(const RowBlock &rows) = 0;
    /// Rows of a block of one's own are summed up; blocks and rows come in
    /// their order.
    virtual void done(size_t block, std::span<const float> sums) = 0;
  };
  RowSum(Processes &processes, SharedRows &&rows, Steps &steps);

private:
  void postReceives(size_t turn) override;
  void postSends(size_t turn) override;
  void end(size_t turn) override;

  /// What another process sends to be added up.
  std::span<float> roomFor(size_t turn, size_t rank, size_t count);

  Steps &steps;
  std::vector<float> room, spare;
  std::unique_ptr<const float *[]> terms; ///< by rank
};

/// What its owner has, in every process, or in the first one alone. The last
/// round comes first.
class RowCopy final : public RowExchange {
public:
  enum class To { All, First };
  /// `channel`: of those that are under way at the same time each has its own.
  RowCopy(Processes &processes, SharedRows &&rows, To to,
          Channel channel = Channel::Copies);

private:
  void postReceives(size_t turn) override;
  void postSends(size_t turn) override;
  void end(size_t turn) override;

  To to;
};

/// Rows that all processes have, in blocks of `rows` of them.
std::vector<RowBlock> blocksOf(size_t first, size_t count, size_t rows);

} // namespace tfm

#endif // TFM_RUNTIME_TRAINING_ROW_EXCHANGE_H
