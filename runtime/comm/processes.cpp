//===- processes.cpp - the processes that work on one command -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/processes.h"

#include "runtime/comm/witness.h"

#include "runtime/error.h"
#include "runtime/progress.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <ctime>
#include <fmt/format.h>
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
  // A job that was stopped for a while has not waited meanwhile.
  double time = now();
  waited += std::min(time - last, 1.0);
  last = time;
  return waited < timeout;
}

Deadline::Deadline(double seconds, std::string message)
    : seconds(seconds), message(std::move(message)) {
  sem_init(&end, 0, 0);
  guard = std::thread(&Deadline::watch, this);
}

Deadline::~Deadline() {
  sem_post(&end);
  guard.join();
  sem_destroy(&end);
}

void Deadline::watch() {
  timespec until{};
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += static_cast<time_t>(std::min(seconds, 1e9));
  until.tv_nsec += static_cast<long>(std::fmod(seconds, 1) * 1e9);
  until.tv_sec += until.tv_nsec / 1'000'000'000;
  until.tv_nsec %= 1'000'000'000;
  while (sem_clockwait(&end, CLOCK_MONOTONIC, &until) != 0)
    if (errno == ETIMEDOUT) {
      say("error: " + message + "\n");
      dismissWitness(/*endsAll=*/true);
      _exit(1);
    }
}

Processes::Processes(tfm_transport &transport, double timeout)
    : transport(transport), timeout(timeout),
      members(static_cast<size_t>(count())),
      counts(static_cast<size_t>(count())) {
  Introduction own;
  own.host = ownHost();
  if (sched_getaffinity(0, sizeof own.processors, &own.processors) != 0)
    CPU_ZERO(&own.processors);
  own.number = getpid();
  gather<Introduction>(std::span(&own, 1), members);
  sharing = 0;
  for (const Introduction &other : members) {
    bool isNeighbour = other.host == own.host;
    before += isNeighbour && &other < &members[static_cast<size_t>(rank())];
    sharing += isNeighbour && CPU_EQUAL(&other.processors, &own.processors);
  }
  // Messages move on where their library is asked for them: by TCP at a third
  // less than a network gives where that is every 50 us. But where there are
  // fewer processors than processes, others have more need of this one.
  watch = sharing > CPU_COUNT(&own.processors) ? 0.02 : 1;
}

std::string Processes::name(int rank) const {
  const char *host = members[static_cast<size_t>(rank)].host.data();
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
    size_t before = pending.size();
    std::erase_if(pending,
                  [&](const Request &request) { return isOver(request); });
    if (pending.size() < before)
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

std::vector<std::byte> Processes::gatherBytes(std::span<const std::byte> own) {
  std::vector<std::byte> all(own.size() * static_cast<size_t>(count()));
  gatherBytes(own, all);
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

void Processes::meet() { (void)gather(char{0}); }

void Processes::requireSame(std::string_view what, std::string_view checksum,
                            std::string_view advice) {
  std::array<char, 32> own{};
  checksum.copy(own.data(), own.size());
  Gathered<std::array<char, 32>> all = gather(own);
  for (int i = 1; i < count(); ++i)
    if (all[static_cast<size_t>(i)] != all[0])
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
