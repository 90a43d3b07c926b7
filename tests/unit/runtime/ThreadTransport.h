//===- ThreadTransport.h - processes that are threads -----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TESTS_UNIT_RUNTIME_THREADTRANSPORT_H
#define TFM_TESTS_UNIT_RUNTIME_THREADTRANSPORT_H

#include "runtime/comm/processes.h"

#include <functional>

namespace tfm::test {

/// Runs `work` in `count` threads, each of which is a process to the runtime;
/// what is sent is copied, and on its way for `delay` seconds where it goes
/// through `Channel::Copies`; leaving takes as long. Returns when all have
/// returned. Rethrows what the one of the lowest rank throws.
void runProcesses(int count, const std::function<void(Processes &)> &work,
                  double timeout = 60, double delay = 0);

} // namespace tfm::test

#endif // TFM_TESTS_UNIT_RUNTIME_THREADTRANSPORT_H
