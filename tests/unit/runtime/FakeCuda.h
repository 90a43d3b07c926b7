//===- FakeCuda.h - a driver of NVIDIA's without a GPU ----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A library under the name of the driver's, which does nothing before somebody
// waits for it: as late as a GPU may be. Kernels are the test's.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TESTS_UNIT_RUNTIME_FAKECUDA_H
#define TFM_TESTS_UNIT_RUNTIME_FAKECUDA_H

#include <cstddef>
#include <string>

namespace tfm::test {

/// What the fake is like, and what it has seen.
struct FakeCuda {
  int gpus = 1;
  int capabilityMajor = 8, capabilityMinor = 0, multiprocessors = 1;
  size_t memory = size_t{1} << 30, left = memory;
  /// What it says of a module, which it then refuses; null: it takes all.
  const char *refusal = nullptr;
  int refusalNumber = 218;
  /// The code that alone it refuses; what it was asked to load.
  std::string refused, loaded;
  /// Runs a kernel: its name and its parameters.
  void (*runKernel)(const char *name, void **parameters) = nullptr;

  /// Tensors of which it was told since the last launch; where the one begins
  /// that this launch got behind its number.
  int tensors = 0;
  unsigned long long tensorOfLaunch = 0;
  /// Along the first axis of its grid.
  unsigned blocksOfLaunch = 0;

  int launches = 0, graphs = 0, graphLaunches = 0, liveAllocations = 0,
      liveContexts = 0;
};

/// The fake that `libcuda.so.1` is in this process, from the first call on.
FakeCuda &fakeCuda();

} // namespace tfm::test

#endif // TFM_TESTS_UNIT_RUNTIME_FAKECUDA_H
