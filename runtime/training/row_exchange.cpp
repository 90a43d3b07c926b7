//===- row_exchange.cpp - rows that processes share ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/training/row_exchange.h"

#include "runtime/training/row_arithmetic.h"

#include <algorithm>

namespace tfm {

namespace {

size_t mostRowsOf(const std::vector<RowBlock> &blocks) {
  size_t most = 1;
  for (const RowBlock &block : blocks)
    most = std::max(most, block.count);
  return most;
}

} // namespace

std::vector<RowBlock> blocksOf(size_t first, size_t count, size_t rows) {
  std::vector<RowBlock> blocks;
  for (size_t at = 0; at < count; at += rows)
    blocks.push_back({first + at, std::min(rows, count - at)});
  return blocks;
}

RowExchange::RowExchange(Processes &processes, SharedRows &&newRows,
                         Channel channel, Order order, size_t mostRows)
    : processes(processes), rows(std::move(newRows)),
      me(static_cast<size_t>(processes.rank())),
      all(static_cast<size_t>(processes.count())),
      sliceRows(std::min(mostRows, mostRowsOf(rows.blocks))),
      window(rows.isHostMemory ? turnsUnderWay(sliceRows * all) : 1),
      channel(channel), order(order),
      slices((mostRowsOf(rows.blocks) + sliceRows - 1) / sliceRows),
      turns((rows.blocks.size() + all - 1) / all * slices), ended(turns),
      underWay(window * all) {}

RowBlock RowExchange::ownedBy(size_t rank, size_t turn) const {
  size_t number = blockOf(rank, turn), skipped = turn % slices * sliceRows;
  if (number >= rows.blocks.size() || skipped >= rows.blocks[number].count)
    return {0, 0};
  const RowBlock &block = rows.blocks[number];
  return {block.first + skipped, std::min(sliceRows, block.count - skipped)};
}

void RowExchange::send(size_t turn, size_t to, std::span<const float> values) {
  partners(turn)[to].to =
      processes.send(static_cast<int>(to), channel, std::as_bytes(values));
}

void RowExchange::receive(size_t turn, size_t from, std::span<float> values) {
  partners(turn)[from].from = processes.receive(static_cast<int>(from), channel,
                                                std::as_writable_bytes(values));
}

void RowExchange::begin() { received = sent = ended = 0; }

bool RowExchange::messagesAreOver(size_t turn) {
  for (Partner &partner : partners(turn))
    if (!processes.isOver(partner.to) || !processes.isOver(partner.from))
      return false;
  return true;
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
    if (moved) {
      patience.reward();
    } else if (!patience.wait()) {
      std::string names;
      for (Partner &partner : late->partners(late->ended)) {
        processes.nameIfLate(partner.to, names);
        processes.nameIfLate(partner.from, names);
      }
      if (!names.empty())
        processes.giveUp(names);
    }
  }
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

RowSum::RowSum(Processes &processes, SharedRows &&rows, Steps &steps)
    : RowExchange(processes, std::move(rows), Channel::Sums, Order::FirstToLast,
                  SumTurns::of(mostRowsOf(rows.blocks),
                               static_cast<size_t>(processes.count()))
                      .rows),
      steps(steps), room(window * all * sliceRows * TFM_ROW),
      terms(std::make_unique<const float *[]>(all)) {}

std::span<float> RowSum::roomFor(size_t turn, size_t rank, size_t count) {
  size_t place = turn % window * all + rank;
  return {&room[place * sliceRows * TFM_ROW], count * TFM_ROW};
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
  for (size_t rank = 0; rank < all; ++rank)
    if (RowBlock block = ownedBy(rank, turn); block.count > 0)
      partners(turn)[rank].read = rows.read(block);
  for (size_t rank = 0; rank < all; ++rank)
    if (rank != me && ownedBy(rank, turn).count > 0)
      send(turn, rank, partners(turn)[rank].read.values());
}

void RowSum::end(size_t turn) {
  RowBlock own = ownedBy(me, turn);
  if (own.count == 0)
    return;
  for (size_t rank = 0; rank < all; ++rank)
    terms[rank] = rank == me ? partners(turn)[me].read.values().data()
                             : roomFor(turn, rank, own.count).data();
  PendingWrite<float> sum = rows.write(own);
  addAsTree({terms.get(), all}, sum.values(), spare);
  steps.done(blockOf(me, turn), sum.values());
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

RowCopy::RowCopy(Processes &processes, SharedRows &&rows, To to,
                 Channel channel)
    : RowExchange(processes, std::move(rows), channel, Order::LastToFirst,
                  mostRowsOf(rows.blocks)),
      to(to) {}

void RowCopy::postReceives(size_t turn) {
  if (to == To::First && me != 0)
    return;
  for (size_t rank = 0; rank < all; ++rank) {
    RowBlock block = ownedBy(rank, turn);
    if (rank == me || block.count == 0)
      continue;
    PendingWrite<float> &written = partners(turn)[rank].written;
    written = rows.write(block);
    receive(turn, rank, written.values());
  }
}

void RowCopy::postSends(size_t turn) {
  RowBlock own = ownedBy(me, turn);
  if (own.count == 0 || (to == To::First && me == 0))
    return;
  PendingRead<float> &read = partners(turn)[me].read;
  read = rows.read(own);
  for (size_t rank = 0; rank < (to == To::All ? all : 1); ++rank)
    if (rank != me)
      send(turn, rank, read.values());
}

void RowCopy::end(size_t turn) {
  for (Partner &partner : partners(turn))
    partner.written = {}; // and so in the arena
}

} // namespace tfm
