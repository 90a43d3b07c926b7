//===- FakeCuda.cpp - a driver of NVIDIA's without a GPU ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tests/unit/runtime/FakeCuda.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

using tfm::test::FakeCuda;

namespace {

using Step = std::function<void()>;
enum Known { success = 0, outOfMemory = 2, noDevice = 100, refused = 218 };

struct Driver {
  FakeCuda fake;
  /// What has been asked for and is not done.
  std::vector<Step> pending;
  /// A graph that is being captured.
  std::vector<Step> *captured = nullptr;
  std::map<std::string, std::string> functions;

  void ask(Step step) {
    (captured ? *captured : pending).push_back(std::move(step));
  }
  void catchUp() {
    std::vector<Step> steps;
    steps.swap(pending);
    for (const Step &step : steps)
      step();
  }
};

Driver &driver() {
  static Driver only;
  return only;
}

template <typename T> T *at(unsigned long long address) {
  return reinterpret_cast<T *>(address);
}

} // namespace

extern "C" {

FakeCuda *fakeCudaOfLibrary() { return &driver().fake; }

int cuInit(unsigned) { return success; }
int cuDriverGetVersion(int *version) {
  *version = 12000;
  return success;
}
int cuDeviceGetCount(int *count) {
  *count = driver().fake.gpus;
  return driver().fake.gpus > 0 ? success : noDevice;
}
int cuDeviceGet(int *device, int number) {
  *device = number;
  return success;
}
int cuDeviceGetName(char *name, int size, int) {
  std::strncpy(name, "Fake", static_cast<size_t>(size));
  return success;
}
int cuDeviceGetUuid(char *bytes, int device) {
  std::memset(bytes, device, 16);
  return success;
}
int cuDeviceTotalMem_v2(size_t *bytes, int) {
  *bytes = driver().fake.memory;
  return success;
}
int cuDeviceGetAttribute(int *value, int attribute, int) {
  *value = attribute == 75   ? driver().fake.capabilityMajor
           : attribute == 76 ? driver().fake.capabilityMinor
                             : driver().fake.multiprocessors;
  return success;
}
int cuDevicePrimaryCtxRetain(void **context, int) {
  ++driver().fake.liveContexts;
  *context = &driver();
  return success;
}
int cuDevicePrimaryCtxRelease_v2(int) {
  --driver().fake.liveContexts;
  return success;
}
int cuCtxSetCurrent(void *) { return success; }
int cuMemGetInfo_v2(size_t *left, size_t *all) {
  *left = driver().fake.left;
  *all = driver().fake.memory;
  return success;
}
int cuMemAlloc_v2(unsigned long long *address, size_t bytes) {
  if (bytes > driver().fake.left)
    return outOfMemory;
  void *memory = std::malloc(bytes);
  std::memset(memory, 0xAB, bytes);
  ++driver().fake.liveAllocations;
  *address = reinterpret_cast<unsigned long long>(memory);
  return success;
}
int cuMemFree_v2(unsigned long long address) {
  --driver().fake.liveAllocations;
  std::free(at<void>(address));
  return success;
}
int cuMemHostAlloc(void **memory, size_t bytes, unsigned) {
  *memory = std::malloc(bytes);
  std::memset(*memory, 0xAB, bytes);
  ++driver().fake.liveAllocations;
  return success;
}
int cuMemFreeHost(void *memory) {
  --driver().fake.liveAllocations;
  std::free(memory);
  return success;
}
int cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t bytes,
                         void *) {
  driver().ask([=] { std::memcpy(at<void>(to), from, bytes); });
  return success;
}
int cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t bytes,
                         void *) {
  driver().ask([=] { std::memcpy(to, at<void>(from), bytes); });
  return success;
}
int cuMemsetD8Async(unsigned long long to, unsigned char value, size_t bytes,
                    void *) {
  driver().ask([=] { std::memset(at<void>(to), value, bytes); });
  return success;
}
int cuStreamCreate(void **stream, unsigned) {
  *stream = &driver();
  return success;
}
int cuStreamDestroy_v2(void *) { return success; }
int cuStreamQuery(void *) {
  driver().catchUp();
  return success;
}
int cuStreamSynchronize(void *) {
  driver().catchUp();
  return success;
}
int cuStreamBeginCapture_v2(void *, int) {
  driver().captured = new std::vector<Step>;
  return success;
}
int cuStreamEndCapture(void *, void **graph) {
  *graph = driver().captured;
  driver().captured = nullptr;
  return success;
}
int cuGraphInstantiateWithFlags(void **made, void *graph, unsigned long long) {
  ++driver().fake.graphs;
  *made = new std::vector<Step>(*static_cast<std::vector<Step> *>(graph));
  return success;
}
int cuGraphLaunch(void *graph, void *) {
  ++driver().fake.graphLaunches;
  for (const Step &step : *static_cast<std::vector<Step> *>(graph))
    driver().ask(step);
  return success;
}
int cuGraphExecDestroy(void *graph) {
  delete static_cast<std::vector<Step> *>(graph);
  return success;
}
int cuGraphDestroy(void *graph) {
  delete static_cast<std::vector<Step> *>(graph);
  return success;
}
int cuModuleLoadDataEx(void **module, const void *code, unsigned count,
                       int *options, void **values) {
  std::string text = static_cast<const char *>(code);
  driver().fake.loaded += text + " ";
  if (text == driver().fake.refused)
    return refused;
  const char *refusal = driver().fake.refusal;
  for (unsigned i = 0; refusal && i != count; ++i)
    if (options[i] == 5)
      std::strcpy(static_cast<char *>(values[i]), refusal);
  *module = &driver();
  return refusal ? driver().fake.refusalNumber : success;
}
int cuModuleUnload(void *) { return success; }
int cuModuleGetFunction(void **function, void *, const char *name) {
  *function = &(driver().functions[name] = name);
  return success;
}
int cuFuncSetAttribute(void *, int, int) { return success; }
int cuTensorMapEncodeTiled(void *map, int, unsigned, void *first,
                           const uint64_t *, const uint64_t *, const unsigned *,
                           const unsigned *, int, int, int, int) {
  ++driver().fake.tensors;
  std::memcpy(map, &first, sizeof(first));
  return success;
}
int cuLaunchKernel(void *function, unsigned blocks, unsigned, unsigned,
                   unsigned, unsigned, unsigned, unsigned, void *,
                   void **parameters, void **) {
  ++driver().fake.launches;
  driver().fake.blocksOfLaunch = blocks;
  // As every kernel of a model: here one number of 8 bytes.
  unsigned long long first = 0;
  std::memcpy(&first, parameters[0], sizeof(first));
  if (std::exchange(driver().fake.tensors, 0))
    std::memcpy(&driver().fake.tensorOfLaunch, parameters[1], sizeof(first));
  const std::string &name = *static_cast<std::string *>(function);
  driver().ask([=] {
    unsigned long long number = first;
    void *given[] = {&number};
    driver().fake.runKernel(name.c_str(), given);
  });
  return success;
}
int cuEventCreate(void **event, unsigned) {
  *event = &driver();
  return success;
}
int cuEventRecord(void *, void *) { return success; }
int cuEventSynchronize(void *) {
  driver().catchUp();
  return success;
}
int cuEventElapsedTime(float *milliseconds, void *, void *) {
  *milliseconds = 0;
  return success;
}
int cuEventDestroy_v2(void *) { return success; }
int cuGetErrorName(int result, const char **name) {
  *name = result == refused ? "CUDA_ERROR_INVALID_PTX" : "CUDA_ERROR";
  return success;
}
int cuGetErrorString(int, const char **meaning) {
  *meaning = "as the test wants it";
  return success;
}

} // extern "C"
