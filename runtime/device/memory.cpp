//===- memory.cpp - how much memory there is ----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/memory.h"

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <limits>
#include <sys/resource.h>
#include <sys/sysinfo.h>

namespace tfm {

/// The lowest limit of a control group and those around it; a file that is not
/// there, or says "max", limits nothing. In a container its own group is often
/// all that can be seen, at the root.
static uint64_t limitOfGroup(const std::string &mount, std::string group,
                             const char *file) {
  uint64_t lowest = std::numeric_limits<uint64_t>::max();
  while (true) {
    uint64_t limit = 0;
    if (std::ifstream(mount + group + "/" + file) >> limit && limit > 0)
      lowest = std::min(lowest, limit);
    if (group.empty())
      return lowest;
    size_t last = group.rfind('/');
    group.erase(last == std::string::npos ? 0 : last);
  }
}

/// The lowest limit of the control groups of a process. `groups` has a line for
/// each hierarchy: `0::/path` in version 2, `4:memory:/path` in version 1.
static uint64_t limitOfGroups(const std::string &groups,
                              const std::string &mount) {
  uint64_t lowest = std::numeric_limits<uint64_t>::max();
  std::ifstream lines(groups);
  for (std::string line; std::getline(lines, line);) {
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos)
      continue;
    std::string path = line.substr(second + 1);
    std::string controllers =
        "," + line.substr(first + 1, second - first - 1) + ",";
    if (controllers == ",,")
      lowest = std::min(lowest, limitOfGroup(mount, path, "memory.max"));
    else if (controllers.find(",memory,") != std::string::npos)
      lowest = std::min(lowest, limitOfGroup(mount + "/memory", path,
                                             "memory.limit_in_bytes"));
  }
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
