//===- processes.cpp - the processes that work on one command -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/processes.h"

#include "runtime/comm/witness.h"

#include "runtime/support/atomic_file.h"
#include "runtime/support/checksum.h"
#include "runtime/support/control_groups.h"
#include "runtime/support/error.h"
#include "runtime/support/progress.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <ctime>
#include <fmt/format.h>
#include <functional>
#include <unistd.h>

namespace tfm {

std::array<char, 64> ownHost() {
  std::array<char, 64> host{};
  (void)gethostname(host.data(), host.size() - 1);
  return host;
}

Patience::Patience(double watch, double timeout)
    : watch(watch), timeout(timeout), last(now()) {}

bool Patience::wait() {
  constexpr useconds_t pause = 50; // us
  sched_yield();
  if (waited > watch)
    usleep(pause);
  return lasts();
}

bool Patience::lasts() {
  // A job that was stopped for a while has not waited meanwhile.
  double time = now();
  waited += std::min({time - last, 1.0, timeout / 4});
  last = time;
  return waited < timeout;
}

Deadline::Deadline(double seconds, std::string message)
    : seconds(seconds), message(std::move(message)) {
  sem_init(&over, 0, 0);
  isWatched = pthread_create(&guard, nullptr, watch, this) == 0;
}

Deadline::~Deadline() {
  sem_post(&over);
  if (isWatched)
    pthread_join(guard, nullptr);
}

void *Deadline::watch(void *deadline) {
  auto &own = *static_cast<Deadline *>(deadline);
  double end = now() + std::min(own.seconds, 1e9), whole = std::floor(end);
  timespec until{static_cast<time_t>(whole),
                 static_cast<long>((end - whole) * 1e9)};
  while (sem_clockwait(&own.over, CLOCK_MONOTONIC, &until) != 0)
    if (errno == ETIMEDOUT) {
      say("error: " + own.message + "\n");
      dismissWitness(/*endsAll=*/true);
      _exit(1);
    }
  return nullptr;
}

/// A checksum of the names of the control groups that this process is in.
static uint64_t groupsOfProcess() {
  if (!fileExists(ownControlGroups))
    return 0;
  return std::hash<std::string>()(
      readFile(ownControlGroups, "the control groups"));
}

Processes::Introduction Processes::introduction() {
  Introduction own;
  own.host = ownHost();
  (void)sched_getaffinity(0, sizeof own.processors, &own.processors);
  own.groups = groupsOfProcess();
  own.number = getpid();
  return own;
}

Processes::Processes(tfm_transport &transport, double timeout)
    : transport(transport), timeout(timeout),
      counts(static_cast<size_t>(count())) {
  members = gather(introduction());
  const Introduction &own = members[static_cast<size_t>(rank())];
  for (const Introduction &other : members) {
    bool isNeighbour = other.host == own.host;
    before += isNeighbour && &other < &own;
    sharing += isNeighbour && CPU_EQUAL(&other.processors, &own.processors);
    inMemory += isNeighbour && other.groups == own.groups;
  }
  // Messages move on where their library is asked for them: by TCP at a third
  // less than a network gives where that is every 50 us. But where there are
  // fewer processors than processes, others have more need of this one.
  watch = sharing > CPU_COUNT(&own.processors) ? 0.02 : 1;
}

std::string Processes::name(int rank) const {
  bool isKnown = members.begin() != members.end();
  const char *host =
      isKnown ? members[static_cast<size_t>(rank)].host.data() : "";
  return fmt::format("process {} ({})", rank, *host ? host : "?");
}

std::string Processes::list() const {
  std::string lines;
  int rank = 0;
  for (const Introduction &member : members)
    lines += fmt::format("process {} is {} on {}\n", rank++, member.number,
                         member.host.data());
  return lines;
}

/// Out of line, as both that lose one are.
[[noreturn]] static void lose(const std::string &why) {
  throw LostProcess(why);
}

void Processes::fail() const {
  lose(fmt::format("messages between processes have failed: {}",
                   transport.problem(&transport)));
}

Processes::Request Processes::send(int to, Channel channel,
                                   std::span<const std::byte> bytes) {
  int64_t number = transport.send(&transport, to, static_cast<int32_t>(channel),
                                  bytes.data(), bytes.size());
  if (number < 0)
    fail();
  return {number, to};
}

Processes::Request Processes::receive(int from, Channel channel,
                                      std::span<std::byte> bytes) {
  int64_t number =
      transport.receive(&transport, from, static_cast<int32_t>(channel),
                        bytes.data(), bytes.size());
  if (number < 0)
    fail();
  return {number, from};
}

bool Processes::isOver(Request &request) {
  if (request.isUnderWay()) {
    int32_t state = transport.test(&transport, request.number);
    if (state == TFM_REQUEST_FAILED)
      fail();
    if (state == TFM_REQUEST_OVER)
      request.number = -1;
  }
  return !request.isUnderWay();
}

void Processes::nameIfLate(Request &request, std::string &names) {
  if (isOver(request))
    return;
  std::string name = this->name(request.peer);
  if (names.find(name) != std::string::npos)
    return;
  if (!names.empty())
    names += ", ";
  names += name;
}

void Processes::giveUp(const std::string &whom) const {
  lose(fmt::format("nothing has come from {} for {:g} s: it hangs, waits for "
                   "another one that does, or needs more time (--timeout)",
                   whom, timeout));
}

void Processes::say(int to, std::span<const std::byte> bytes) {
  for (size_t at = 0; at < bytes.size(); at += TFM_TRANSPORT_BYTES)
    pending.push_back(
        send(to, Channel::Talk,
             bytes.subspan(at, std::min<size_t>(TFM_TRANSPORT_BYTES,
                                                bytes.size() - at))));
}

void Processes::hear(int from, std::span<std::byte> bytes) {
  for (size_t at = 0; at < bytes.size(); at += TFM_TRANSPORT_BYTES)
    pending.push_back(
        receive(from, Channel::Talk,
                bytes.subspan(at, std::min<size_t>(TFM_TRANSPORT_BYTES,
                                                   bytes.size() - at))));
}

void Processes::wait() {
  Patience patience = this->patience();
  for (size_t before = pending.size(); before > 0;) {
    size_t left = 0;
    for (Request &request : pending)
      left += !isOver(request);
    if (left < before) {
      patience.reward();
    } else if (!patience.wait()) {
      std::string late;
      for (Request &request : pending)
        nameIfLate(request, late);
      if (!late.empty())
        giveUp(late);
    }
    before = left;
  }
  pending.clear();
}

void Processes::spread(std::span<std::byte> bytes) {
  if (isFirst())
    for (int i = 1; i < count(); ++i)
      say(i, bytes);
  else
    hear(0, bytes);
  wait();
}

void Processes::gatherBytes(std::span<const std::byte> own,
                            std::span<std::byte> all) {
  // Through the first process: so it knows who is missing.
  if (isFirst()) {
    std::ranges::copy(own, all.begin());
    for (int i = 1; i < count(); ++i)
      hear(i, all.subspan(static_cast<size_t>(i) * own.size(), own.size()));
    wait();
  } else {
    say(0, own);
  }
  spread(all);
}

std::string Processes::gatherBytes(std::span<const std::byte> own) {
  std::string all(own.size() * static_cast<size_t>(count()), 0);
  gatherBytes(own, std::as_writable_bytes(std::span(all)));
  return all;
}

int64_t Processes::sum(int64_t own) {
  gather<int64_t>(std::span(&own, 1), counts);
  int64_t total = 0;
  for (int64_t each : counts)
    total += each;
  return total;
}

std::vector<std::string> Processes::collect(const std::string &own) {
  Gathered<uint64_t> sizes = gather(uint64_t{own.size()});
  std::vector<std::string> all(isFirst() ? static_cast<size_t>(count()) : 0);
  if (isFirst())
    all.front() = own;
  else
    say(0, std::as_bytes(std::span(own)));
  for (size_t i = 1; i < all.size(); ++i) {
    all[i].resize(sizes[i]);
    hear(static_cast<int>(i), std::as_writable_bytes(std::span(all[i])));
  }
  wait();
  return all;
}

std::string Processes::fromFirst(std::string own) {
  own.resize(ofFirst(own.size()));
  spread(std::as_writable_bytes(std::span(own)));
  return own;
}

void Processes::meet() { (void)sum(0); }

void Processes::requireSame(const char *what, const std::string &told,
                            const char *advice) {
  std::array<char, 16> own{};
  checksumOf(told).copy(own.data(), own.size());
  Gathered<std::array<char, 16>> all = gather(own);
  for (int i = 1; i < count(); ++i)
    if (all[static_cast<size_t>(i)] != all[0])
      throw AgreedError("{} has {} than {}: {}", name(i), what, name(0),
                        advice);
}

void Processes::leave() {
  // UCX over TCP is known to wait for ever here (openucx/ucx#8738), when all
  // that anybody wants has long been written.
  Deadline deadline(
      timeout, fmt::format("{}: all work is done, but {} has not ended for "
                           "{:g} s (MPI_Finalize): what was written is whole",
                           name(), transport.library, timeout));
  transport.leave(&transport);
}

} // namespace tfm
