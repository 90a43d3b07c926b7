//===- in_pieces.h - the host's part, on all threads --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_DEVICE_IN_PIECES_H
#define TFM_RUNTIME_DEVICE_IN_PIECES_H

#include "runtime/device/device.h"

#include <cstddef>
#include <functional>

namespace tfm {

/// Calls `work(piece, pieces)` once for each of `device.hostThreads()` pieces,
/// on these threads. Throws what it throws, of the first piece that does.
void inPieces(Device &device,
              const std::function<void(size_t piece, size_t pieces)> &work);

} // namespace tfm

#endif // TFM_RUNTIME_DEVICE_IN_PIECES_H
