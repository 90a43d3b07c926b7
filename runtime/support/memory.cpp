//===- memory.cpp - how much memory there is ----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/support/memory.h"

#include "runtime/support/control_groups.h"

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <limits>
#include <sys/resource.h>
#include <sys/sysinfo.h>

namespace tfm {

/// The lowest limit of the control groups of a process. A file that is not
/// there, or says "max", limits nothing.
static uint64_t limitOfGroups(const std::string &groups,
                              const std::string &mount) {
  uint64_t lowest = std::numeric_limits<uint64_t>::max();
  forEachControlGroup(
      groups, mount, "memory", [&](const std::string &folder, int version) {
        const char *file =
            version == 2 ? "/memory.max" : "/memory.limit_in_bytes";
        uint64_t limit = 0;
        if (std::ifstream(folder + file) >> limit && limit > 0)
          lowest = std::min(lowest, limit);
      });
  return lowest;
}

uint64_t memoryLimit(const std::string &groups, const std::string &mount) {
  uint64_t limit = std::numeric_limits<uint64_t>::max();
  struct sysinfo machine;
  if (sysinfo(&machine) == 0) {
    uint64_t memory = uint64_t{machine.totalram} * machine.mem_unit;
    limit = std::min(memory, limitOfGroups(groups, mount)) +
            uint64_t{machine.totalswap} * machine.mem_unit;
  }
  struct rlimit addresses;
  if (getrlimit(RLIMIT_AS, &addresses) == 0 &&
      addresses.rlim_cur != RLIM_INFINITY)
    limit = std::min<uint64_t>(limit, addresses.rlim_cur);
  return limit;
}

std::string byteText(uint64_t bytes) {
  auto value = static_cast<double>(bytes);
  if (bytes < 1024)
    return fmt::format("{} bytes", bytes);
  const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (value /= 1024; value >= 1024 && unit + 1 < std::size(units); ++unit)
    value /= 1024;
  return fmt::format("{:.1f} {}", value, units[unit]);
}

} // namespace tfm
