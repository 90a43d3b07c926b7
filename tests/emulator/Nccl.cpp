//===- Nccl.cpp - NVIDIA's collective operations among emulated GPUs ------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A library `libnccl.so.2` with what the runtime calls of NVIDIA's
// (runtime/device/nccl.h), for processes of one machine whose GPUs are the
// emulated ones: what lies on these is the process's own memory, and everything
// happens at once. Processes meet in a piece of shared memory, through which
// floats go a part at a time. The environment says what it is like:
//
//   TFM_EMULATED_NCCL_CALLS  after so many groups the others are out of reach
//
//===----------------------------------------------------------------------===//

#include "runtime/device/nccl.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <random>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

using namespace tfm::nccl;

namespace {

constexpr Result systemError = 2, invalidUsage = 5, remoteError = 6;
constexpr size_t part = 1 << 16; // floats
constexpr int mostProcesses = 8;

/// What processes share, beginning as zeros.
struct Meeting {
  std::atomic<int> arrived, rounds;
  float floats[mostProcesses][part];
};

} // namespace

namespace tfm::nccl {

struct ncclComm {
  Meeting *meeting;
  int count, rank;
  std::string name;
};

} // namespace tfm::nccl

namespace {

/// The operations of the group that is open.
std::vector<std::function<void()>> group;
bool isOpen = false, isLost = false;
long callsLeft = std::getenv("TFM_EMULATED_NCCL_CALLS")
                     ? std::atol(std::getenv("TFM_EMULATED_NCCL_CALLS"))
                     : -1;

/// Waits until all have come so far.
void meet(Communicator communicator) {
  Meeting &meeting = *communicator->meeting;
  int round = meeting.rounds;
  if (++meeting.arrived == communicator->count) {
    meeting.arrived = 0;
    ++meeting.rounds;
  } else {
    while (meeting.rounds == round)
      sched_yield();
  }
}

/// Goes through `count` floats: each process of `from` lays down a part of its
/// own, and `take` gets it.
void exchange(const float *own, size_t count, Communicator communicator,
              const std::function<void(size_t at, size_t floats)> &take) {
  for (size_t at = 0; at < count; at += part) {
    size_t floats = std::min(part, count - at);
    std::copy_n(own + at, floats,
                communicator->meeting->floats[communicator->rank]);
    meet(communicator);
    take(at, floats);
    meet(communicator);
  }
}

} // namespace

extern "C" {

Result ncclGetVersion(int *version) {
  *version = 22105;
  return success;
}

Result ncclGetUniqueId(UniqueId *id) {
  std::snprintf(id->internal, sizeof id->internal, "/tfm-nccl-%d-%08x",
                static_cast<int>(getpid()), std::random_device()());
  return success;
}

Result ncclCommInitRank(Communicator *communicator, int count, UniqueId id,
                        int rank) {
  if (count > mostProcesses)
    return invalidUsage;
  int file = shm_open(id.internal, O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, sizeof(Meeting)) != 0)
    return systemError;
  void *memory = mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE,
                      MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED)
    return systemError;
  *communicator =
      new ncclComm{static_cast<Meeting *>(memory), count, rank, id.internal};
  meet(*communicator);
  shm_unlink(id.internal);
  return success;
}

Result ncclCommDestroy(Communicator communicator) {
  munmap(communicator->meeting, sizeof(Meeting));
  delete communicator;
  return success;
}

Result ncclCommAbort(Communicator communicator) {
  return ncclCommDestroy(communicator);
}

Result ncclCommGetAsyncError(Communicator, Result *result) {
  *result = isLost ? remoteError : success;
  return success;
}

Result ncclGroupStart() {
  isOpen = true;
  return success;
}

Result ncclGroupEnd() {
  isOpen = false;
  if (callsLeft >= 0 && callsLeft-- == 0)
    isLost = true;
  if (!isLost)
    for (const auto &operation : group)
      operation();
  group.clear();
  return success;
}

Result ncclReduce(const void *from, void *to, size_t count, int type,
                  int operation, int root, Communicator communicator, Stream) {
  if (!isOpen || type != float32 || operation != sum)
    return invalidUsage;
  group.push_back([=] {
    auto *sums = static_cast<float *>(to);
    exchange(static_cast<const float *>(from), count, communicator,
             [&](size_t at, size_t floats) {
               if (communicator->rank != root)
                 return;
               for (size_t i = 0; i < floats; ++i) {
                 float all = 0;
                 for (int rank = 0; rank < communicator->count; ++rank)
                   all += communicator->meeting->floats[rank][i];
                 sums[at + i] = all;
               }
             });
    // What the others had is of no use: nobody may go on with it.
    if (communicator->rank != root)
      std::fill_n(sums, count, 0.0f / 0.0f);
  });
  return success;
}

Result ncclBroadcast(const void *from, void *to, size_t count, int type,
                     int root, Communicator communicator, Stream) {
  if (!isOpen || type != float32)
    return invalidUsage;
  group.push_back([=] {
    exchange(static_cast<const float *>(from), count, communicator,
             [&](size_t at, size_t floats) {
               std::copy_n(communicator->meeting->floats[root], floats,
                           static_cast<float *>(to) + at);
             });
  });
  return success;
}

const char *ncclGetErrorString(Result result) {
  return result == remoteError    ? "remote process exited"
         : result == invalidUsage ? "invalid usage"
                                  : "unhandled system error";
}

const char *ncclGetLastError(Communicator) { return ""; }

} // extern "C"
