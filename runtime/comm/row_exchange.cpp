//===- row_exchange.cpp - rows that processes share ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/row_exchange.h"

#include "runtime/comm/row_arithmetic.h"
#include "runtime/comm/sum_turns.h"

#include <algorithm>
#include <bit>

namespace tfm {

namespace {

size_t mostRowsOf(const std::vector<RowBlock> &blocks) {
  size_t most = 1;
  for (const RowBlock &block : blocks)
    most = std::max(most, block.count);
  return most;
}

SumTurns turnsOf(const SharedRows &rows, Processes &processes) {
  return SumTurns::of(mostRowsOf(rows.blocks),
                      static_cast<size_t>(processes.count()));
}

size_t windowOf(const SharedRows &rows, size_t rowsOfTurn) {
  return rows.isHostMemory ? turnsUnderWay(rowsOfTurn) : 1;
}

} // namespace

std::vector<RowBlock> blocksOf(size_t first, size_t count, size_t rows) {
  std::vector<RowBlock> blocks;
  for (size_t at = 0; at < count; at += rows)
    blocks.push_back({first + at, std::min(rows, count - at)});
  return blocks;
}

RowExchange::RowExchange(Processes &processes, const SharedRows &rows,
                         Channel channel, Order order, size_t sliceRows,
                         size_t window)
    : processes(processes), rows(rows),
      me(static_cast<size_t>(processes.rank())),
      all(static_cast<size_t>(processes.count())), window(window),
      channel(channel), order(order), sliceRows(sliceRows) {
  slices = (mostRowsOf(rows.blocks) + sliceRows - 1) / sliceRows;
  turns = (rows.blocks.size() + all - 1) / all * slices;
  ended = turns;
  pending.resize(window);
  for (std::vector<Processes::Request> &requests : pending)
    requests.reserve(2 * all);
}

RowBlock RowExchange::ownedBy(size_t rank, size_t turn) const {
  size_t number = blockOf(rank, turn), skipped = turn % slices * sliceRows;
  if (number >= rows.blocks.size() || skipped >= rows.blocks[number].count)
    return {0, 0};
  const RowBlock &block = rows.blocks[number];
  return {block.first + skipped, std::min(sliceRows, block.count - skipped)};
}

void RowExchange::send(size_t turn, size_t to, std::span<const float> values) {
  pending[slot(turn)].push_back(
      processes.send(static_cast<int>(to), channel, std::as_bytes(values)));
}

void RowExchange::receive(size_t turn, size_t from, std::span<float> values) {
  pending[slot(turn)].push_back(processes.receive(
      static_cast<int>(from), channel, std::as_writable_bytes(values)));
}

void RowExchange::begin() { received = sent = ended = 0; }

bool RowExchange::messagesAreOver(size_t turn) {
  std::vector<Processes::Request> &requests = pending[slot(turn)];
  while (!requests.empty() && processes.isOver(requests.back()))
    requests.pop_back();
  return requests.empty();
}

bool RowExchange::advance(size_t readyRounds) {
  size_t ready = readyRounds * slices;
  bool moved = false;
  while (true) {
    size_t open = std::min(turns, ended + window);
    for (; received < open; ++received)
      postReceives(received);
    for (; sent < std::min(open, ready); ++sent) {
      postSends(sent);
      moved = true;
    }
    if (ended == sent || !messagesAreOver(ended))
      return moved;
    end(ended++);
    moved = true;
  }
}

void RowExchange::finish(std::span<RowExchange *const> exchanges,
                         size_t count) {
  Processes &processes = exchanges.front()->processes;
  Patience patience = processes.patience();
  while (true) {
    bool moved = false;
    RowExchange *late = nullptr;
    for (RowExchange *exchange : exchanges) {
      moved |= exchange->advance(exchange->rounds());
      if (exchange->ended < count * exchange->slices)
        late = exchange;
    }
    if (!late)
      return;
    if (moved)
      patience.reward();
    else if (!patience.wait()) {
      // Messages are asked in turn: those behind one that is late may be over.
      std::vector<Processes::Request> &requests =
          late->pending[late->slot(late->ended)];
      std::erase_if(requests, [&](const Processes::Request &request) {
        return processes.isOver(request);
      });
      if (!requests.empty())
        processes.giveUp(requests);
    }
  }
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

RowSum::RowSum(Processes &processes, const SharedRows &rows, Steps steps)
    : RowExchange(processes, rows, Channel::Sums, Order::FirstToLast,
                  turnsOf(rows, processes).rows,
                  windowOf(rows, turnsOf(rows, processes).rows *
                                     static_cast<size_t>(processes.count()))),
      steps(std::move(steps)), mostRows(turnsOf(rows, processes).rows) {
  room.resize(window * all * mostRows * TFM_ROW);
  reads.resize(window * all);
  terms.resize(all);
}

std::span<float> RowSum::roomFor(size_t turn, size_t rank, size_t count) {
  return std::span(room).subspan((slot(turn) * all + rank) * mostRows * TFM_ROW,
                                 count * TFM_ROW);
}

void RowSum::postReceives(size_t turn) {
  RowBlock own = ownedBy(me, turn);
  for (size_t rank = 0; rank < all; ++rank)
    if (rank != me && own.count > 0)
      receive(turn, rank, roomFor(turn, rank, own.count));
}

void RowSum::postSends(size_t turn) {
  for (size_t rank = 0; rank < all; ++rank)
    if (RowBlock block = ownedBy(rank, turn); block.count > 0)
      steps.prepare(block);
  // All of them are asked for before one is waited for.
  auto read = [&](size_t rank) -> PendingRead<float> & {
    return reads[slot(turn) * all + rank];
  };
  for (size_t rank = 0; rank < all; ++rank)
    if (RowBlock block = ownedBy(rank, turn); block.count > 0)
      read(rank) = rows.read(block.first, block.count);
  for (size_t rank = 0; rank < all; ++rank)
    if (rank != me && ownedBy(rank, turn).count > 0)
      send(turn, rank, read(rank).values());
}

void RowSum::end(size_t turn) {
  RowBlock own = ownedBy(me, turn);
  if (own.count == 0)
    return;
  for (size_t rank = 0; rank < all; ++rank)
    terms[rank] = rank == me ? reads[slot(turn) * all + me].values().data()
                             : roomFor(turn, rank, own.count).data();
  PendingWrite<float> sum = rows.write(own.first, own.count);
  addAsTree(terms, sum.values(), spare);
  steps.done(blockOf(me, turn), sum.values());
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

RowCopy::RowCopy(Processes &processes, const SharedRows &rows, To to,
                 Channel channel)
    : RowExchange(processes, rows, channel, Order::LastToFirst,
                  mostRowsOf(rows.blocks),
                  windowOf(rows, mostRowsOf(rows.blocks) *
                                     static_cast<size_t>(processes.count()))),
      to(to) {
  reads.resize(window);
  writes.resize(window);
  for (std::vector<PendingWrite<float>> &each : writes)
    each.reserve(all);
}

void RowCopy::postReceives(size_t turn) {
  if (to == To::First && me != 0)
    return;
  for (size_t rank = 0; rank < all; ++rank) {
    RowBlock block = ownedBy(rank, turn);
    if (rank == me || block.count == 0)
      continue;
    std::vector<PendingWrite<float>> &written = writes[slot(turn)];
    written.push_back(rows.write(block.first, block.count));
    receive(turn, rank, written.back().values());
  }
}

void RowCopy::postSends(size_t turn) {
  RowBlock own = ownedBy(me, turn);
  if (own.count == 0 || (to == To::First && me == 0))
    return;
  PendingRead<float> &read = reads[slot(turn)];
  read = rows.read(own.first, own.count);
  for (size_t rank = 0; rank < (to == To::All ? all : 1); ++rank)
    if (rank != me)
      send(turn, rank, read.values());
}

void RowCopy::end(size_t turn) { writes[slot(turn)].clear(); }

} // namespace tfm
