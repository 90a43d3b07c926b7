//===- FakeCuda.cpp - a driver of NVIDIA's without a GPU ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tests/unit/runtime/FakeCuda.h"

#include "runtime/device/cuda_driver.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

using tfm::test::FakeCuda;
using namespace tfm::cuda;

namespace {

using Step = std::function<void()>;
constexpr int refused = 218;

} // namespace

namespace tfm::cuda {

// What handles point to.

struct CUfunc_st {
  std::string name;
};

struct CUgraph_st {
  std::vector<Step> steps;
};

struct CUgraphExec_st {
  CUgraph_st graph;
};

} // namespace tfm::cuda

namespace {

struct Driver {
  FakeCuda fake;
  /// What has been asked for and is not done.
  std::vector<Step> pending;
  /// A graph that is being captured.
  Graph captured = nullptr;
  std::map<std::string, CUfunc_st> functions;

  void ask(Step step) {
    (captured ? captured->steps : pending).push_back(std::move(step));
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

template <typename T> T *at(Address address) {
  return reinterpret_cast<T *>(address);
}

} // namespace

extern "C" {

FakeCuda *fakeCudaOfLibrary() { return &driver().fake; }

Result cuInit(unsigned) { return success; }
Result cuDriverGetVersion(int *version) {
  *version = 12000;
  return success;
}
Result cuDeviceGetCount(int *count) {
  *count = driver().fake.gpus;
  return driver().fake.gpus > 0 ? success : noDevice;
}
Result cuDeviceGet(DeviceNumber *device, int number) {
  *device = number;
  return success;
}
Result cuDeviceGetName(char *name, int size, DeviceNumber) {
  std::strncpy(name, "Fake", static_cast<size_t>(size));
  return success;
}
Result cuDeviceGetUuid(Uuid *uuid, DeviceNumber device) {
  std::memset(uuid->bytes, device, sizeof uuid->bytes);
  return success;
}
Result cuDeviceTotalMem_v2(size_t *bytes, DeviceNumber) {
  *bytes = driver().fake.memory;
  return success;
}
Result cuDeviceGetAttribute(int *value, int attribute, DeviceNumber) {
  *value = attribute == capabilityMajor   ? driver().fake.capabilityMajor
           : attribute == capabilityMinor ? driver().fake.capabilityMinor
                                          : driver().fake.multiprocessors;
  return success;
}
Result cuDevicePrimaryCtxRetain(Context *context, DeviceNumber) {
  ++driver().fake.liveContexts;
  *context = reinterpret_cast<Context>(&driver());
  return success;
}
Result cuDevicePrimaryCtxRelease_v2(DeviceNumber) {
  --driver().fake.liveContexts;
  return success;
}
Result cuCtxSetCurrent(Context) { return success; }
Result cuMemGetInfo_v2(size_t *left, size_t *all) {
  *left = driver().fake.left;
  *all = driver().fake.memory;
  return success;
}
Result cuMemAlloc_v2(Address *address, size_t bytes) {
  if (bytes > driver().fake.left)
    return outOfMemory;
  void *memory = std::malloc(bytes);
  std::memset(memory, 0xAB, bytes);
  ++driver().fake.liveAllocations;
  *address = reinterpret_cast<Address>(memory);
  return success;
}
Result cuMemFree_v2(Address address) {
  --driver().fake.liveAllocations;
  std::free(at<void>(address));
  return success;
}
Result cuMemHostAlloc(void **memory, size_t bytes, unsigned) {
  *memory = std::malloc(bytes);
  std::memset(*memory, 0xAB, bytes);
  ++driver().fake.liveAllocations;
  return success;
}
Result cuMemFreeHost(void *memory) {
  --driver().fake.liveAllocations;
  std::free(memory);
  return success;
}
Result cuMemcpyHtoDAsync_v2(Address to, const void *from, size_t bytes,
                            Stream) {
  driver().ask([=] { std::memcpy(at<void>(to), from, bytes); });
  return success;
}
Result cuMemcpyDtoHAsync_v2(void *to, Address from, size_t bytes, Stream) {
  driver().ask([=] { std::memcpy(to, at<void>(from), bytes); });
  return success;
}
Result cuMemsetD8Async(Address to, unsigned char value, size_t bytes, Stream) {
  driver().ask([=] { std::memset(at<void>(to), value, bytes); });
  return success;
}
Result cuStreamCreate(Stream *stream, unsigned) {
  *stream = reinterpret_cast<Stream>(&driver());
  return success;
}
Result cuStreamDestroy_v2(Stream) { return success; }
Result cuStreamQuery(Stream) {
  driver().catchUp();
  return success;
}
Result cuStreamSynchronize(Stream) {
  driver().catchUp();
  return success;
}
Result cuStreamBeginCapture_v2(Stream, int) {
  driver().captured = new CUgraph_st;
  return success;
}
Result cuStreamEndCapture(Stream, Graph *graph) {
  *graph = std::exchange(driver().captured, nullptr);
  return success;
}
Result cuGraphInstantiateWithFlags(GraphExec *made, Graph graph,
                                   unsigned long long) {
  ++driver().fake.graphs;
  *made = new CUgraphExec_st{*graph};
  return success;
}
Result cuGraphLaunch(GraphExec graph, Stream) {
  ++driver().fake.graphLaunches;
  for (const Step &step : graph->graph.steps)
    driver().ask(step);
  return success;
}
Result cuGraphExecDestroy(GraphExec graph) {
  delete graph;
  return success;
}
Result cuGraphDestroy(Graph graph) {
  delete graph;
  return success;
}
Result cuModuleLoadDataEx(Module *module, const void *code, unsigned count,
                          int *options, void **values) {
  std::string text = static_cast<const char *>(code);
  driver().fake.loaded += text + " ";
  if (text == driver().fake.refused)
    return refused;
  const char *refusal = driver().fake.refusal;
  for (unsigned i = 0; refusal && i != count; ++i)
    if (options[i] == errorLogBuffer)
      std::strcpy(static_cast<char *>(values[i]), refusal);
  *module = reinterpret_cast<Module>(&driver());
  return refusal ? driver().fake.refusalNumber : success;
}
Result cuModuleUnload(Module) { return success; }
Result cuModuleGetFunction(Function *function, Module, const char *name) {
  *function = &(driver().functions[name] = {name});
  return success;
}
Result cuFuncSetAttribute(Function, int, int) { return success; }
Result cuTensorMapEncodeTiled(TensorMap *map, int, unsigned, void *first,
                              const uint64_t *, const uint64_t *,
                              const unsigned *, const unsigned *, int, int, int,
                              int) {
  ++driver().fake.tensors;
  std::memcpy(map->bytes, &first, sizeof(first));
  return success;
}
Result cuLaunchKernel(Function function, unsigned blocks, unsigned, unsigned,
                      unsigned, unsigned, unsigned, unsigned, Stream,
                      void **parameters, void **) {
  ++driver().fake.launches;
  driver().fake.blocksOfLaunch = blocks;
  // As every kernel of a model: here one number of 8 bytes.
  unsigned long long first = 0;
  std::memcpy(&first, parameters[0], sizeof(first));
  if (std::exchange(driver().fake.tensors, 0))
    std::memcpy(&driver().fake.tensorOfLaunch, parameters[1], sizeof(first));
  driver().ask([name = function->name, first] {
    unsigned long long number = first;
    void *given[] = {&number};
    driver().fake.runKernel(name.c_str(), given);
  });
  return success;
}
Result cuEventCreate(Event *event, unsigned) {
  *event = reinterpret_cast<Event>(&driver());
  return success;
}
Result cuEventRecord(Event, Stream) { return success; }
Result cuEventSynchronize(Event) {
  driver().catchUp();
  return success;
}
Result cuEventElapsedTime(float *milliseconds, Event, Event) {
  *milliseconds = 0;
  return success;
}
Result cuEventDestroy_v2(Event) { return success; }
Result cuGetErrorName(Result result, const char **name) {
  *name = result == refused ? "CUDA_ERROR_INVALID_PTX" : "CUDA_ERROR";
  return success;
}
Result cuGetErrorString(Result, const char **meaning) {
  *meaning = "as the test wants it";
  return success;
}

} // extern "C"
