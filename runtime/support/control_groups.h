//===- device/control_groups.h - what a container leaves a process -*- C++ -*-//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_SUPPORT_CONTROL_GROUPS_H
#define TFM_RUNTIME_SUPPORT_CONTROL_GROUPS_H

#include <functional>
#include <string>
#include <string_view>

namespace tfm {

/// The file that names the control groups of this process, and the folder that
/// they are in (Linux's, of version 1 and 2).
inline constexpr const char *ownControlGroups = "/proc/self/cgroup";
inline constexpr const char *controlGroupMount = "/sys/fs/cgroup";

/// Visits the folders of the control groups that limit `what` (`memory`,
/// `cpu`) of a process, its own and those around it, and tells their version.
/// In a container its own group is often all that can be seen, at the root.
void forEachControlGroup(
    const std::string &groups, const std::string &mount, std::string_view what,
    const std::function<void(const std::string &folder, int version)> &visit);

} // namespace tfm

#endif // TFM_RUNTIME_SUPPORT_CONTROL_GROUPS_H
