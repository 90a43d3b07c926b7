//===- cuda_device.cpp - a GPU of NVIDIA's --------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda_device.h"

#include "runtime/error.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <stdexcept>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace tfm {

using namespace cuda;

CudaDevice::CudaDevice(const tfm_variant &variant, int number, int threads)
    : pool(threads), kernels(variant.kernels) {
  FoundGpu gpu = findGpu(driver, number);
  device = gpu.device;
  found = gpu.properties;
  driver.check(driver.call.cuDevicePrimaryCtxRetain(&context, device),
               "make a context");
  driver.check(driver.call.cuCtxSetCurrent(context), "use its context");
  driver.check(driver.call.cuStreamCreate(&stream, streamNonBlocking),
               "make a stream");
  loadKernels(variant);
}

CudaDevice::~CudaDevice() {
  release();
  for (Staging &one : staged) {
    driver.call.cuEventDestroy_v2(one.done);
    driver.call.cuMemFreeHost(one.bytes);
  }
  driver.call.cuModuleUnload(module);
  driver.call.cuStreamDestroy_v2(stream);
  driver.call.cuDevicePrimaryCtxRelease_v2(device);
}

FoundGpu findGpu(const CudaDriver &driver, int number) {
  int count = 0;
  Result counted = driver.call.cuDeviceGetCount(&count);
  if (counted != noDevice)
    driver.check(counted, "count its GPUs");
  if (count == 0)
    throw InputError("the NVIDIA driver finds no GPU: run with --device cpu");
  if (number >= count)
    throw InputError("there is no GPU cuda:" + std::to_string(number) +
                     ", the last one is cuda:" + std::to_string(count - 1));
  FoundGpu gpu = {};
  driver.check(driver.call.cuDeviceGet(&gpu.device, number), "find its GPU");
  char name[256] = {};
  driver.check(driver.call.cuDeviceGetName(name, sizeof(name) - 1, gpu.device),
               "name its GPU");
  gpu.properties.name = name;
  driver.check(
      driver.call.cuDeviceTotalMem_v2(&gpu.properties.memory, gpu.device),
      "tell the memory of its GPU");
  auto ask = [&](Attribute attribute, int &answer) {
    driver.check(
        driver.call.cuDeviceGetAttribute(&answer, attribute, gpu.device),
        "describe its GPU");
  };
  ask(capabilityMajor, gpu.properties.major);
  ask(capabilityMinor, gpu.properties.minor);
  ask(multiprocessors, gpu.properties.multiprocessors);
  return gpu;
}

/// Whether a GPU can run an image.
static bool fits(const tfm_image &image, const CudaProperties &gpu) {
  auto capability = [](int major, int minor) { return major * 1000 + minor; };
  int has = capability(gpu.major, gpu.minor),
      needs = capability(image.major, image.minor);
  if (image.exact)
    return has == needs;
  if (image.kind == TFM_IMAGE_CUBIN && gpu.major != image.major)
    return false;
  return has >= needs;
}

const tfm_image *findImage(const tfm_variant &variant,
                           const CudaProperties &gpu) {
  const tfm_image *end = variant.images + variant.image_count;
  const tfm_image *image =
      std::find_if(variant.images, end,
                   [&](const tfm_image &one) { return fits(one, gpu); });
  return image == end ? nullptr : image;
}

void CudaDevice::loadKernels(const tfm_variant &variant) {
  const tfm_image *image = findImage(variant, found);
  if (!image)
    throw InputError("the program has no code for " + found.name +
                     " (compute capability " + std::to_string(found.major) +
                     "." + std::to_string(found.minor) +
                     "): it needs 8.0 or newer, or --device cpu");
  std::string log(8192, '\0');
  int options[] = {errorLogBuffer, errorLogBytes};
  void *values[] = {log.data(), reinterpret_cast<void *>(log.size())};
  Result loaded =
      driver.call.cuModuleLoadDataEx(&module, image->data, 2, options, values);
  if (loaded != success)
    throw InputError("the NVIDIA driver refuses the program's kernels: " +
                     driver.nameOf(loaded) + "\n" + log.c_str());
  for (int64_t i = 0; i != variant.kernel_count; ++i) {
    const tfm_kernel &kernel = variant.kernels[i];
    Function function = nullptr;
    driver.check(
        driver.call.cuModuleGetFunction(&function, module, kernel.name),
        "find a kernel");
    if (kernel.shared_bytes)
      driver.check(
          driver.call.cuFuncSetAttribute(function, maxDynamicShared,
                                         static_cast<int>(kernel.shared_bytes)),
          "give a kernel its memory");
    functions.push_back(function);
  }
}

void CudaDevice::allocate(size_t bytes, size_t, size_t) {
  if (arena)
    throw std::logic_error("a device has the arena of one model at a time");
  // What the driver gives begins at multiples of 256 bytes or more.
  bytes = std::max<size_t>(bytes, 1);
  Result given = driver.call.cuMemAlloc_v2(&arena, bytes);
  if (given == outOfMemory)
    throw std::bad_alloc();
  driver.check(given, "give memory");
  zero(0, bytes);
}

void CudaDevice::release() {
  if (!arena)
    return;
  // Not checked: what has gone wrong before was told where it was noticed.
  driver.call.cuStreamSynchronize(stream);
  for (auto &[function, graph] : graphs)
    driver.call.cuGraphExecDestroy(graph);
  graphs.clear();
  driver.call.cuMemFree_v2(arena);
  arena = 0;
}

void CudaDevice::zero(uint64_t offset, size_t bytes) {
  driver.check(driver.call.cuMemsetD8Async(arena + offset, 0, bytes, stream),
               "clear memory");
}

void CudaDevice::runOnHost(void (*work)(void *, tfm_thread *), void *context) {
  pool.run(work, context);
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

namespace {

uint64_t clockNow() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  uint64_t ticks = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#endif
}

} // namespace

/// Where a function leaves its launches.
struct CudaDevice::Queue : tfm_queue {
  Queue(CudaDevice &device, const tfm_function &function)
      : tfm_queue{&Queue::launchOne}, device(device), function(function) {}

  static void launchOne(tfm_queue *self, int64_t launch,
                        const uint64_t *arguments) {
    auto &queue = *static_cast<Queue *>(self);
    // A model's code is none that an exception can pass.
    if (queue.result == success)
      queue.result = queue.device.launch(queue.function.launches[launch].kernel,
                                         arguments);
    if (queue.result == success && queue.device.recorded)
      queue.result = queue.device.note(static_cast<uint64_t>(launch));
  }

  CudaDevice &device;
  const tfm_function &function;
  Result result = success;
};

Result CudaDevice::launch(int64_t number, const uint64_t *arguments) {
  const tfm_kernel &kernel = kernels[number];
  // More than any kernel has: one for each thing that it reads or writes.
  void *parameters[256];
  if (kernel.argument_count > std::size(parameters))
    return invalidValue;
  for (uint32_t i = 0; i != kernel.argument_count; ++i)
    parameters[i] = const_cast<uint64_t *>(arguments + i);
  return driver.call.cuLaunchKernel(
      functions[static_cast<size_t>(number)], kernel.grid[0], kernel.grid[1],
      kernel.grid[2], kernel.block[0], kernel.block[1], kernel.block[2],
      kernel.shared_bytes, stream, parameters, nullptr);
}

Result CudaDevice::note(uint64_t launch) {
  Result result = driver.call.cuStreamSynchronize(stream);
  *recorded++ = {launch, clockNow()};
  return result;
}

void CudaDevice::run(const tfm_function &function) {
  checkWrites();
  forgetReads();
  Queue queue(*this, function);
  if (recorded) {
    driver.check(note(static_cast<uint64_t>(function.launch_count)), "go on");
    function.enqueue(arena, &queue);
    driver.check(queue.result, "run a kernel");
    return;
  }
  GraphExec &graph = graphs[&function];
  if (!graph) {
    driver.check(
        driver.call.cuStreamBeginCapture_v2(stream, captureThreadLocal),
        "record a function");
    function.enqueue(arena, &queue);
    Graph captured = nullptr;
    Result ended = driver.call.cuStreamEndCapture(stream, &captured);
    driver.check(queue.result, "record a kernel");
    driver.check(ended, "record a function");
    Result made = driver.call.cuGraphInstantiateWithFlags(&graph, captured, 0);
    driver.call.cuGraphDestroy(captured);
    driver.check(made, "make a graph of a function");
  }
  driver.check(driver.call.cuGraphLaunch(graph, stream), "run a function");
}

//===----------------------------------------------------------------------===//
// Memory of the host
//===----------------------------------------------------------------------===//

/// Memory for `bytes` bytes in a state: of what is free, once the GPU is done
/// with it, or more.
CudaDevice::Staging &CudaDevice::stage(size_t bytes, Use use) const {
  bytes = std::max<size_t>(bytes, 64);
  for (Staging &one : staged)
    if (one.use == Use::Free && one.size >= bytes && one.size / 4 <= bytes) {
      driver.check(driver.call.cuEventSynchronize(one.done), "go on");
      one.use = use;
      return one;
    }
  Staging made = {nullptr, bytes, nullptr, use};
  driver.check(driver.call.cuMemHostAlloc(&made.bytes, bytes, 0),
               "give memory of the host");
  driver.check(driver.call.cuEventCreate(&made.done, eventWithoutTiming),
               "make an event");
  return staged.emplace_back(made);
}

CudaDevice::Staging &CudaDevice::stagedAt(const void *bytes) const {
  auto one =
      std::find_if(staged.begin(), staged.end(), [&](const Staging &staging) {
        return staging.bytes == bytes;
      });
  return *one;
}

/// Whatever was read may have gone with the next write or run.
void CudaDevice::forgetReads() {
  for (Staging &one : staged)
    if (one.use == Use::Read)
      one.use = Use::Free;
}

void *CudaDevice::beginWrite(uint64_t, size_t bytes) {
  return stage(bytes, Use::Write).bytes;
}

void CudaDevice::endWrite(void *from, uint64_t offset, size_t bytes) noexcept {
  Staging &staging = stagedAt(from);
  Result copied =
      driver.call.cuMemcpyHtoDAsync_v2(arena + offset, from, bytes, stream);
  if (copied == success)
    copied = driver.call.cuEventRecord(staging.done, stream);
  if (failed == success)
    failed = copied;
  forgetReads();
  staging.use = Use::Free;
}

/// What went wrong with a write is told by the next run or read.
void CudaDevice::checkWrites() const { driver.check(failed, "write memory"); }

Device::HostBytes CudaDevice::beginRead(uint64_t offset, size_t bytes) const {
  checkWrites();
  Staging &to = stage(bytes, Use::Read);
  driver.check(
      driver.call.cuMemcpyDtoHAsync_v2(to.bytes, arena + offset, bytes, stream),
      "read memory");
  driver.check(driver.call.cuEventRecord(to.done, stream), "read memory");
  return {to.bytes, /*isPending=*/true};
}

void CudaDevice::finishRead(const void *bytes) const {
  driver.check(driver.call.cuEventSynchronize(stagedAt(bytes).done), "go on");
}

} // namespace tfm
