//===- ThreadTransport.cpp - processes that are threads -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tests/unit/runtime/ThreadTransport.h"

#include "runtime/support/progress.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>
#include <unistd.h>

namespace tfm::test {

namespace {

/// What is on its way, by sender, receiver and channel.
struct Mail {
  std::mutex mutex;
  struct Letter {
    std::vector<char> bytes;
    double arrives;
  };
  std::map<std::tuple<int, int, int>, std::deque<Letter>> boxes;
  double delay = 0;
};

struct Member : tfm_transport {
  Mail *mail = nullptr;
  struct Receive {
    int from, channel;
    char *bytes;
    uint64_t count;
  };
  std::vector<Receive> receives;

  static int64_t sendTo(tfm_transport *self, int32_t to, int32_t channel,
                        const void *bytes, uint64_t count) {
    auto &me = *static_cast<Member *>(self);
    const auto *begin = static_cast<const char *>(bytes);
    bool isCopy = channel == static_cast<int32_t>(Channel::Copies);
    double late = isCopy ? me.mail->delay : 0;
    std::lock_guard lock(me.mail->mutex);
    me.mail->boxes[{me.rank, to, channel}].push_back(
        {{begin, begin + count}, now() + late});
    me.receives.push_back({-1, channel, nullptr, 0}); // over at once
    return static_cast<int64_t>(me.receives.size()) - 1;
  }

  static int64_t receiveFrom(tfm_transport *self, int32_t from, int32_t channel,
                             void *bytes, uint64_t count) {
    auto &me = *static_cast<Member *>(self);
    me.receives.push_back({from, channel, static_cast<char *>(bytes), count});
    return static_cast<int64_t>(me.receives.size()) - 1;
  }

  static int32_t testRequest(tfm_transport *self, int64_t request) {
    auto &me = *static_cast<Member *>(self);
    Receive &receive = me.receives[static_cast<size_t>(request)];
    if (receive.from < 0)
      return TFM_REQUEST_OVER;
    // What was asked for first comes first.
    for (int64_t i = 0; i < request; ++i)
      if (const Receive &earlier = me.receives[static_cast<size_t>(i)];
          earlier.from == receive.from && earlier.channel == receive.channel)
        return TFM_REQUEST_PENDING;
    std::lock_guard lock(me.mail->mutex);
    auto &box = me.mail->boxes[{receive.from, me.rank, receive.channel}];
    if (box.empty() || box.front().arrives > now())
      return TFM_REQUEST_PENDING;
    if (box.front().bytes.size() != receive.count)
      return TFM_REQUEST_FAILED;
    std::ranges::copy(box.front().bytes, receive.bytes);
    box.pop_front();
    receive.from = -1;
    return TFM_REQUEST_OVER;
  }

  static void leaveAll(tfm_transport *self) {
    usleep(static_cast<useconds_t>(static_cast<Member *>(self)->mail->delay *
                                   1e6));
  }

  static const char *problemOf(tfm_transport *) {
    return "a message has another size than was asked for";
  }
};

} // namespace

void runProcesses(int count, const std::function<void(Processes &)> &work,
                  double timeout, double delay) {
  Mail mail;
  mail.delay = delay;
  std::vector<std::exception_ptr> failures(static_cast<size_t>(count));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank)
    threads.emplace_back([&, rank] {
      Member member;
      static_cast<tfm_transport &>(member) = {.rank = rank,
                                              .size = count,
                                              .library = "threads",
                                              .send = Member::sendTo,
                                              .receive = Member::receiveFrom,
                                              .test = Member::testRequest,
                                              .problem = Member::problemOf,
                                              .leave = Member::leaveAll,
                                              .abort = nullptr};
      member.mail = &mail;
      try {
        Processes processes(member, timeout);
        work(processes);
      } catch (...) {
        failures[static_cast<size_t>(rank)] = std::current_exception();
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const std::exception_ptr &failure : failures)
    if (failure)
      std::rethrow_exception(failure);
}

} // namespace tfm::test
