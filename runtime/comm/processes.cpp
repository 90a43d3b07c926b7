//===- processes.cpp - the processes that work on one command -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/processes.h"

#include "runtime/comm/witness.h"

#include "runtime/support/control_groups.h"
#include "runtime/support/error.h"
#include "runtime/support/progress.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <fstream>
#include <functional>
#include <iterator>
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
  running.lock();
  guard = std::thread(&Deadline::watch, this);
}

Deadline::~Deadline() {
  running.unlock();
  guard.join();
}

void Deadline::watch() {
  std::chrono::duration<double> patience(std::min(seconds, 1e9));
  if (running.try_lock_for(patience)) {
    running.unlock();
    return;
  }
  say("error: " + message + "\n");
  dismissWitness(/*endsAll=*/true);
  _exit(1);
}

/// A checksum of the names of the control groups that this process is in.
static uint64_t groupsOfProcess() {
  std::ifstream file(ownControlGroups);
  const std::string names{std::istreambuf_iterator<char>(file), {}};
  return std::hash<std::string>()(names);
}

Processes::Introduction Processes::introduction() {
  Introduction own;
  own.host = ownHost();
  if (sched_getaffinity(0, sizeof own.processors, &own.processors) != 0)
    CPU_ZERO(&own.processors);
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

void Processes::fail() const {
  throw LostProcess(std::string("messages between processes have failed: ") +
                    transport.problem(&transport));
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

bool Processes::isOver(const Request &request) {
  int32_t state = transport.test(&transport, request.number);
  if (state == TFM_REQUEST_FAILED)
    fail();
  return state == TFM_REQUEST_OVER;
}

size_t Processes::notOver(std::span<Request> requests) {
  size_t left = 0;
  for (const Request &request : requests)
    if (!isOver(request))
      requests[left++] = request;
  return left;
}

void Processes::giveUp(std::span<const Request> waiting) const {
  std::string names;
  for (const Request &request : waiting)
    if (std::string name = this->name(request.peer);
        names.find(name) == std::string::npos)
      names += (names.empty() ? "" : ", ") + name;
  giveUp(names);
}

void Processes::giveUp(const std::string &whom) const {
  throw LostProcess(fmt::format("nothing has come from {} for {:g} s: it "
                                "hangs, waits for another one that does, or "
                                "needs more time (--timeout)",
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
  while (!pending.empty()) {
    size_t left = notOver(pending);
    bool moved = left < pending.size();
    pending.erase(pending.begin() + static_cast<ptrdiff_t>(left),
                  pending.end());
    if (moved)
      patience.reward();
    else if (!patience.wait())
      giveUp(pending);
  }
}

void Processes::gatherBytes(std::span<const std::byte> own,
                            std::span<std::byte> all) {
  // Through the first process: so it knows who is missing.
  auto part = [&](int rank) {
    return all.subspan(static_cast<size_t>(rank) * own.size(), own.size());
  };
  if (isFirst()) {
    std::ranges::copy(own, part(0).begin());
    for (int i = 1; i < count(); ++i)
      hear(i, part(i));
    wait();
    for (int i = 1; i < count(); ++i)
      say(i, all);
  } else {
    say(0, own);
    hear(0, all);
  }
  wait();
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
  own.resize(gather(uint64_t{own.size()})[0]);
  if (isFirst())
    for (int i = 1; i < count(); ++i)
      say(i, std::as_bytes(std::span(own)));
  else
    hear(0, std::as_writable_bytes(std::span(own)));
  wait();
  return own;
}

void Processes::meet() { (void)sum(0); }

void Processes::requireSame(std::string_view what, std::string_view checksum,
                            std::string_view advice) {
  constexpr size_t length = 32;
  std::string own(checksum);
  own.resize(length);
  std::string all = gatherBytes(std::as_bytes(std::span(own)));
  for (int i = 1; i < count(); ++i)
    if (all.compare(static_cast<size_t>(i) * length, length, all, 0, length))
      throw AgreedError(
          fmt::format("{} has {} than {}: {}", name(i), what, name(0), advice));
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
