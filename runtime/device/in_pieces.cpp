//===- in_pieces.cpp - the host's part, on all threads ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/in_pieces.h"

#include <exception>
#include <limits>
#include <mutex>

namespace tfm {

void inPieces(Device &device,
              const std::function<void(size_t piece, size_t pieces)> &work) {
  struct Shared {
    const std::function<void(size_t, size_t)> &work;
    std::mutex mutex;
    int64_t failed = std::numeric_limits<int64_t>::max();
    std::exception_ptr failure;
  } shared{work, {}, std::numeric_limits<int64_t>::max(), {}};
  auto share = [](void *context, tfm_thread *thread) {
    auto &shared = *static_cast<Shared *>(context);
    for (int64_t piece; (piece = thread->claim(thread)) >= 0;) {
      try {
        shared.work(static_cast<size_t>(piece),
                    static_cast<size_t>(thread->count));
      } catch (...) {
        std::lock_guard lock(shared.mutex);
        if (piece < shared.failed) {
          shared.failed = piece;
          shared.failure = std::current_exception();
        }
      }
    }
  };
  device.runOnHost(share, &shared);
  if (shared.failure)
    std::rethrow_exception(shared.failure);
}

} // namespace tfm
