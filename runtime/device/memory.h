//===- memory.h - how much memory there is ------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_DEVICE_MEMORY_H
#define TFM_RUNTIME_DEVICE_MEMORY_H

#include <cstdint>
#include <string>

namespace tfm {

/// The bytes of memory that this process can have at most: those of the machine
/// and its swap, or fewer where `ulimit -v` or a container says so. `groups` is
/// a file that names the control groups of this process, `mount` where their
/// limits are (Linux's, of version 1 and 2). What needs more cannot work, and
/// is told so before the system ends the process for it.
uint64_t memoryLimit(const std::string &groups = "/proc/self/cgroup",
                     const std::string &mount = "/sys/fs/cgroup");

/// `474.7 MiB`, for messages; exact bytes below 1 KiB.
std::string byteText(uint64_t bytes);

} // namespace tfm

#endif // TFM_RUNTIME_DEVICE_MEMORY_H
