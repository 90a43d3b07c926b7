//===- device/control_groups.cpp - what a container leaves a process ------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/support/control_groups.h"

#include <fstream>

namespace tfm {

void forEachControlGroup(
    const std::string &groups, const std::string &mount, std::string_view what,
    const std::function<void(const std::string &, int)> &visit) {
  // A line for each hierarchy: `0::/path` in version 2, `4:cpu,cpuacct:/path`
  // in version 1.
  std::ifstream lines(groups);
  for (std::string line; std::getline(lines, line);) {
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos)
      continue;
    std::string group = line.substr(second + 1);
    std::string controllers =
        "," + line.substr(first + 1, second - first - 1) + ",";
    std::string wanted = "," + std::string(what) + ",";
    bool isSecond = controllers == ",,";
    if (!isSecond && controllers.find(wanted) == std::string::npos)
      continue;
    std::string root = isSecond ? mount : mount + "/" + std::string(what);
    while (true) {
      visit(root + group, isSecond ? 2 : 1);
      if (group.empty())
        break;
      size_t last = group.rfind('/');
      group.erase(last == std::string::npos ? 0 : last);
    }
  }
}

} // namespace tfm
