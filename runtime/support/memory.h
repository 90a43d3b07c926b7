//===- memory.h - how much memory there is ------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_SUPPORT_MEMORY_H
#define TFM_RUNTIME_SUPPORT_MEMORY_H

#include "runtime/support/control_groups.h"
#include <cstdint>
#include <string>

namespace tfm {

/// The bytes of memory that this process can have at most: those of the machine
/// and its swap, or fewer where `ulimit -v` or a container says so
/// (`forEachControlGroup`). What needs more cannot work, and is told so before
/// the system ends the process for it.
uint64_t memoryLimit(const std::string &groups = ownControlGroups,
                     const std::string &mount = controlGroupMount);

/// `474.7 MiB`, for messages; exact bytes below 1 KiB.
std::string byteText(uint64_t bytes);

} // namespace tfm

#endif // TFM_RUNTIME_SUPPORT_MEMORY_H
