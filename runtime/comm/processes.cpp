//===- processes.cpp - the processes that work on one command -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/processes.h"

#include "runtime/error.h"
#include "runtime/progress.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <fmt/format.h>
#include <memory>
#include <sched.h>
#include <unistd.h>

namespace tfm {

namespace {

/// What a process tells of itself.
struct Introduction {
  std::array<char, 64> host{};
  cpu_set_t processors{};
  int64_t number = getpid();
};

Introduction introduction() {
  Introduction own;
  (void)gethostname(own.host.data(), own.host.size() - 1);
  if (sched_getaffinity(0, sizeof own.processors, &own.processors) != 0)
    CPU_ZERO(&own.processors);
  return own;
}

/// Floats that are added up at a time: what stays in the first cache.
constexpr size_t blockFloats = 1024;

/// The sum of a block of `terms`: where it lies, which is `out` or a term.
const float *addBlock(std::span<const float *const> terms, size_t first,
                      size_t count, float *out, std::vector<float> &spare,
                      size_t depth) {
  if (terms.size() == 1)
    return terms.front() + first;
  size_t half = std::bit_ceil(terms.size()) / 2;
  // The left sum waits for the right one.
  auto place = [&](size_t side) {
    return spare.data() + (2 * depth + side) * blockFloats;
  };
  const float *left =
      addBlock(terms.first(half), first, count, place(0), spare, depth + 1);
  const float *right =
      addBlock(terms.subspan(half), first, count, place(1), spare, depth + 1);
  for (size_t i = 0; i < count; ++i)
    out[i] = left[i] + right[i];
  return out;
}

} // namespace

void addAsTree(std::span<const float *const> terms, std::span<float> sum) {
  size_t depth = static_cast<size_t>(std::bit_width(terms.size()));
  std::vector<float> spare(2 * (depth + 1) * blockFloats);
  for (size_t first = 0; first < sum.size(); first += blockFloats) {
    size_t count = std::min(blockFloats, sum.size() - first);
    float *out = sum.data() + first;
    const float *found = addBlock(terms, first, count, out, spare, 0);
    if (found != out)
      std::copy_n(found, count, out);
  }
}

std::vector<size_t> sharesOf(size_t rows, int count) {
  std::vector<size_t> begins;
  for (size_t i = 0; i <= static_cast<size_t>(count); ++i)
    begins.push_back(rows * i / static_cast<size_t>(count));
  return begins;
}

Processes::Processes(tfm_transport &transport, double timeout)
    : transport(transport), timeout(timeout) {
  // Until all are named.
  for (int i = 0; i < count(); ++i)
    hosts.emplace_back("?");
  Introduction own = introduction();
  std::vector<Introduction> all = gather(own);
  sharing = 0;
  for (int i = 0; i < count(); ++i) {
    const Introduction &other = all[static_cast<size_t>(i)];
    hosts[static_cast<size_t>(i)] = other.host.data();
    numbers.push_back(other.number);
    sharing +=
        other.host == own.host && CPU_EQUAL(&other.processors, &own.processors);
  }
}

std::string Processes::name(int rank) const {
  return fmt::format("process {} ({})", rank, hosts[static_cast<size_t>(rank)]);
}

std::string Processes::list() const {
  std::string lines;
  for (size_t i = 0; i < hosts.size(); ++i)
    lines += fmt::format("process {} is {} on {}\n", i, numbers[i], hosts[i]);
  return lines;
}

void Processes::fail() const {
  throw InputError(std::string("messages between processes have failed: ") +
                   transport.problem(&transport));
}

void Processes::send(int to, const void *bytes, size_t count) {
  int64_t number = transport.send(&transport, to, bytes, count);
  if (number < 0)
    fail();
  pending.push_back({number, to});
}

void Processes::receive(int from, void *bytes, size_t count) {
  int64_t number = transport.receive(&transport, from, bytes, count);
  if (number < 0)
    fail();
  pending.push_back({number, from});
}

void Processes::send(int to, std::string_view bytes) {
  for (size_t at = 0; at < bytes.size(); at += TFM_TRANSPORT_BYTES)
    send(to, bytes.data() + at,
         std::min<size_t>(TFM_TRANSPORT_BYTES, bytes.size() - at));
}

void Processes::receive(int from, std::span<char> bytes) {
  for (size_t at = 0; at < bytes.size(); at += TFM_TRANSPORT_BYTES)
    receive(from, bytes.data() + at,
            std::min<size_t>(TFM_TRANSPORT_BYTES, bytes.size() - at));
}

void Processes::wait() {
  // The others may be in need of the processor that this one waits on; who
  // waits long does not even look often.
  constexpr double patience = 0.02;
  constexpr useconds_t pause = 50; // us
  double last = now(), waited = 0;
  while (!pending.empty()) {
    size_t before = pending.size();
    std::erase_if(pending, [&](const Request &request) {
      int32_t state = transport.test(&transport, request.number);
      if (state == TFM_REQUEST_FAILED)
        fail();
      return state == TFM_REQUEST_OVER;
    });
    if (pending.size() < before) {
      waited = 0;
      continue;
    }
    sched_yield();
    if (waited > patience)
      usleep(pause);
    // A job that was stopped for a while has not waited meanwhile.
    double time = now();
    waited += std::min(time - last, 1.0);
    last = time;
    if (waited < timeout)
      continue;
    std::string names;
    for (const Request &request : pending)
      if (std::string name = this->name(request.peer);
          names.find(name) == std::string::npos)
        names += (names.empty() ? "" : ", ") + name;
    throw InputError(fmt::format("nothing has come from {} for {:g} s: it "
                                 "hangs, or needs more time (--timeout)",
                                 names, timeout));
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
      receive(i, part(i).data(), own.size());
    wait();
    for (int i = 1; i < count(); ++i)
      send(i, all.data(), all.size());
  } else {
    send(0, own.data(), own.size());
    receive(0, all.data(), all.size());
  }
  wait();
}

int64_t Processes::sum(int64_t own) {
  int64_t total = 0;
  for (int64_t each : gather(own))
    total += each;
  return total;
}

std::vector<std::string> Processes::collect(const std::string &own) {
  std::vector<uint64_t> sizes = gather(uint64_t{own.size()});
  std::vector<std::string> all;
  if (!isFirst()) {
    send(0, own);
    wait();
    return all;
  }
  for (uint64_t size : sizes)
    all.emplace_back(size, '\0');
  all.front() = own;
  for (size_t i = 1; i < all.size(); ++i)
    receive(static_cast<int>(i), all[i]);
  wait();
  return all;
}

std::string Processes::fromFirst(std::string own) {
  own.resize(gather(uint64_t{own.size()}).front());
  if (isFirst())
    for (int i = 1; i < count(); ++i)
      send(i, own);
  else
    receive(0, own);
  wait();
  return own;
}

void Processes::meet() { (void)gather(char{0}); }

void Processes::requireSame(std::string_view what, std::string_view checksum,
                            std::string_view advice) {
  std::array<char, 32> own{};
  checksum.copy(own.data(), own.size());
  std::vector<std::array<char, 32>> all = gather(own);
  for (int i = 1; i < count(); ++i)
    if (all[static_cast<size_t>(i)] != all.front())
      throw AgreedError(
          fmt::format("{} has {} than {}: {}", name(i), what, name(0), advice));
}

size_t SharedRows::longestShare() const {
  size_t longest = 0;
  for (size_t i = 0; i + 1 < begins.size(); ++i)
    longest = std::max(longest, share(i));
  return longest;
}

void Processes::sumToOwners(const SharedRows &rows) {
  auto me = static_cast<size_t>(rank()), all = static_cast<size_t>(count());
  size_t longest = rows.longestShare();
  // All of a round is to stay in a cache until it is added up.
  constexpr size_t rowsOfRound = 1024;
  size_t slice = std::min(
      longest, std::clamp<size_t>(rowsOfRound / all, 4, rowsOfRound / 2));
  room.resize(all * slice * TFM_ROW);
  std::vector<PendingRead<float>> sent;
  std::vector<const float *> terms(all);
  for (size_t at = 0; at < longest; at += slice) {
    auto length = [&](size_t rank) {
      return at < rows.share(rank) ? std::min(slice, rows.share(rank) - at) : 0;
    };
    sent.clear();
    for (size_t i = 0; i < all; ++i)
      if (i != me && length(me) > 0)
        receive(static_cast<int>(i), &room[i * slice * TFM_ROW],
                length(me) * TFM_ROW * sizeof(float));
    for (size_t i = 0; i < all; ++i)
      if (length(i) > 0)
        sent.push_back(rows.read(rows.begins[i] + at, length(i)));
    size_t next = 0;
    std::span<const float> own;
    for (size_t i = 0; i < all; ++i) {
      if (length(i) == 0)
        continue;
      std::span<const float> values = sent[next++].values();
      if (i == me)
        own = values;
      else
        send(static_cast<int>(i), values.data(), values.size_bytes());
    }
    wait();
    if (length(me) == 0)
      continue;
    for (size_t i = 0; i < all; ++i)
      terms[i] = i == me ? own.data() : &room[i * slice * TFM_ROW];
    PendingWrite<float> sum = rows.write(rows.begins[me] + at, length(me));
    addAsTree(terms, sum.values());
  }
}

void Processes::send(const SharedRows &rows, bool toAll) {
  auto me = static_cast<size_t>(rank()), all = static_cast<size_t>(count());
  constexpr size_t slice = size_t{1} << 14; // 64 MiB
  size_t longest = rows.longestShare();
  for (size_t at = 0; at < longest; at += slice) {
    auto length = [&](size_t rank) {
      return at < rows.share(rank) ? std::min(slice, rows.share(rank) - at) : 0;
    };
    PendingRead<float> mine;
    if (length(me) > 0)
      mine = rows.read(rows.begins[me] + at, length(me));
    std::span<const float> own = mine.values();
    // They are in the arena when what is in this list goes.
    std::vector<std::unique_ptr<PendingWrite<float>>> written;
    for (size_t i = 0; i < all; ++i) {
      if (i == me || length(i) == 0 || (!toAll && !isFirst()))
        continue;
      written.emplace_back(
          new PendingWrite<float>(rows.write(rows.begins[i] + at, length(i))));
      std::span<float> values = written.back()->values();
      receive(static_cast<int>(i), values.data(), values.size_bytes());
    }
    for (size_t i = 0; i < (toAll ? all : 1); ++i)
      if (i != me && !own.empty())
        send(static_cast<int>(i), own.data(), own.size_bytes());
    wait();
  }
}

} // namespace tfm
