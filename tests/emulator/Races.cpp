//===- Races.cpp - accesses to memory that nothing orders -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tests/emulator/Races.h"

#include <algorithm>

using namespace tfm::emulator;
using Conflict = Races::Conflict;

void Races::beginLaunch() { launch = phase + 1; }

void Races::beginBlock(uint32_t threads) {
  this->threads = threads;
  beginPhase();
  block = phase;
}

void Races::beginPhase() {
  ++phase;
  // Set 0 is empty.
  times.assign(threads, 0);
  steps.clear();
}

std::optional<Conflict> Races::afterWrite(const Cell &cell, Memory memory,
                                          uint32_t thread,
                                          const Clock &clock) const {
  Conflict found{Conflict::Kind::Race, true, false, cell.writer,
                 cell.writeSite};
  if (cell.writePhase < begin(memory))
    return std::nullopt;
  if (cell.writePhase < block) {
    found.otherBlock = true;
    return found;
  }
  if (cell.writeClock == InFlight) {
    found.kind = Conflict::Kind::InFlight;
    return found;
  }
  if (cell.writePhase < phase || cell.writer == thread ||
      cell.writeClock <= clock.of(cell.writer))
    return std::nullopt;
  return found;
}

std::optional<Conflict> Races::read(Cell &cell, Memory memory, uint32_t thread,
                                    const Clock &clock, Site site) {
  if (memory == Memory::Shared && cell.writePhase < block)
    return Conflict{Conflict::Kind::Unwritten};
  if (auto found = afterWrite(cell, memory, thread, clock))
    return found;
  if (cell.readPhase < begin(memory))
    cell.readers = 0;
  else if (cell.readPhase < block)
    cell.readers = Many;
  else if (cell.readPhase < phase && cell.readers != Many)
    cell.readers = 0;
  if (cell.readers != Many)
    cell.readers = with(cell.readers, thread, clock.own);
  cell.readPhase = phase;
  cell.readSite = site;
  return std::nullopt;
}

std::optional<Conflict> Races::write(Cell &cell, Memory memory, uint32_t thread,
                                     const Clock &clock, Site site,
                                     bool inFlight) {
  if (auto found = afterWrite(cell, memory, thread, clock))
    return found;
  Conflict found{Conflict::Kind::Race, false, false, 0, cell.readSite};
  if (cell.readPhase >= begin(memory) &&
      (cell.readPhase < block || cell.readers == Many)) {
    found.otherBlock = true;
    return found;
  }
  if (cell.readPhase == phase) {
    const uint32_t *read = timesOf(cell.readers);
    for (uint32_t other = 0; other < threads; ++other)
      if (other != thread && read[other] > clock.of(other)) {
        found.thread = other;
        return found;
      }
  }
  cell.readPhase = 0;
  cell.readers = 0;
  cell.writer = thread;
  cell.writePhase = phase;
  cell.writeClock = inFlight ? InFlight : clock.own;
  cell.writeSite = site;
  return std::nullopt;
}

void Races::arrive(Cell &cell, uint32_t thread, uint32_t time) const {
  cell.writer = thread;
  cell.writePhase = phase;
  cell.writeClock = time;
}

uint32_t Races::with(uint32_t readers, uint32_t thread, uint32_t time) {
  if (timesOf(readers)[thread] == time)
    return readers;
  auto [step, isNew] =
      steps.try_emplace({readers, thread, time}, times.size() / threads);
  if (isNew) {
    times.resize(times.size() + threads);
    std::copy_n(timesOf(readers), threads, timesOf(step->second));
    timesOf(step->second)[thread] = time;
  }
  return step->second;
}
