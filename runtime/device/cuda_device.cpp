//===- cuda_device.cpp - a GPU of NVIDIA's --------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda_device.h"

#include "runtime/device/cuda_peaks.h"
#include "runtime/device/nccl.h"
#include "runtime/support/error.h"
#include "runtime/support/progress.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <lz4.h>
#include <span>
#include <stdexcept>

namespace tfm {

using namespace cuda;

CudaDevice::CudaDevice(const tfm_variant &variant, int number, int threads)
    : pool(threads) {
  try {
    open(variant, number);
  } catch (...) {
    close();
    throw;
  }
}

CudaDevice::~CudaDevice() { close(); }

void CudaDevice::open(const tfm_variant &variant, int number) {
  found = findGpu(driver, number);
  Result made = driver.call.cuDevicePrimaryCtxRetain(&context, found.device);
  if (made != success)
    throw UnusableGpu("the NVIDIA driver cannot make a context on " +
                          found.name + ": " + driver.nameOf(made),
                      /*isThere=*/true, "");
  driver.device = found.name + " (cuda:" + std::to_string(number) + ")";
  driver.check(driver.call.cuCtxSetCurrent(context), "use its context");
  driver.check(driver.call.cuStreamCreate(&stream, streamNonBlocking),
               "make a stream");
  loadKernels(variant);
}

void CudaDevice::close() {
  release();
  for (Staging &one : staged) {
    driver.call.cuEventDestroy_v2(one.done);
    driver.call.cuMemFreeHost(one.bytes);
  }
  for (Event time : times)
    driver.call.cuEventDestroy_v2(time);
  for (Module loaded : modules)
    if (loaded)
      driver.call.cuModuleUnload(loaded);
  if (stream)
    driver.call.cuStreamDestroy_v2(stream);
  if (context)
    driver.call.cuDevicePrimaryCtxRelease_v2(found.device);
}

int countGpus(const CudaDriver &driver) {
  int count = 0;
  Result counted = driver.call.cuDeviceGetCount(&count);
  if (counted != noDevice)
    driver.check(counted, "count its GPUs");
  if (count == 0)
    throw noGpu();
  return count;
}

CudaProperties findGpu(const CudaDriver &driver, int number) {
  int count = countGpus(driver);
  if (number >= count)
    throw InputError("there is no GPU cuda:{}, the last one is cuda:{}: take "
                     "that, or run with --device cpu",
                     number, count - 1);
  CudaProperties gpu;
  gpu.number = number;
  driver.check(driver.call.cuDeviceGet(&gpu.device, number), "find its GPU");
  char name[256] = {};
  driver.check(driver.call.cuDeviceGetName(name, sizeof(name) - 1, gpu.device),
               "name its GPU");
  gpu.name = name;
  driver.check(driver.call.cuDeviceTotalMem_v2(&gpu.memory, gpu.device),
               "tell the memory of its GPU");
  auto ask = [&](Attribute attribute, int &answer) {
    driver.check(
        driver.call.cuDeviceGetAttribute(&answer, attribute, gpu.device),
        "describe its GPU");
  };
  ask(capabilityMajor, gpu.major);
  ask(capabilityMinor, gpu.minor);
  ask(multiprocessors, gpu.multiprocessors);
  return gpu;
}

/// Of compute capabilities, to compare them.
static int capability(int major, int minor) { return major * 1000 + minor; }

/// Whether a GPU can run an image.
static bool fits(const tfm_image &image, const CudaProperties &gpu) {
  int has = capability(gpu.major, gpu.minor),
      needs = capability(image.major, image.minor);
  if (image.exact)
    return has == needs;
  if (image.kind == TFM_IMAGE_CUBIN && gpu.major != image.major)
    return false;
  return has >= needs;
}

void requireImage(const tfm_variant &variant, const CudaProperties &gpu) {
  std::span images(variant.images, static_cast<size_t>(variant.image_count));
  if (std::ranges::any_of(images, [&](const tfm_image &image) {
        return image.part == TFM_PART_COMMON && fits(image, gpu);
      }))
    return;
  const tfm_image &oldest =
      *std::ranges::min_element(images, {}, [](const tfm_image &image) {
        return capability(image.major, image.minor);
      });
  auto text = [](int major, int minor) {
    return std::to_string(major) + "." + std::to_string(minor);
  };
  throw UnusableGpu("the program has no code for " + gpu.name +
                        ", which has compute capability " +
                        text(gpu.major, gpu.minor) + " and not " +
                        text(oldest.major, oldest.minor) + " or newer",
                    /*isThere=*/true, "");
}

static std::string unpacked(const tfm_image &image) {
  std::string code(image.size, '\0');
  int size = LZ4_decompress_safe(static_cast<const char *>(image.data),
                                 code.data(), static_cast<int>(image.packed),
                                 static_cast<int>(image.size));
  if (size < 0 || static_cast<uint64_t>(size) != image.size)
    throw std::logic_error("the program's kernels are damaged");
  return code;
}

/// The first image of a part that runs here; null where forms do not run, or
/// there is no such part.
Module CudaDevice::loadPart(const tfm_variant &variant, tfm_image_part part) {
  bool ofForms = part == TFM_PART_FORMS;
  if (ofForms && !driver.call.cuTensorMapEncodeTiled)
    return nullptr;
  std::string log(8192, '\0');
  Result loaded = success;
  for (int64_t i = 0; i != variant.image_count; ++i) {
    const tfm_image &image = variant.images[i];
    if (image.part != part || !fits(image, found))
      continue;
    std::string code = unpacked(image);
    int options[] = {errorLogBuffer, errorLogBytes};
    void *values[] = {log.data(), reinterpret_cast<void *>(log.size())};
    Module made = nullptr;
    // Machine code may be too new for a driver that translates PTX.
    loaded =
        driver.call.cuModuleLoadDataEx(&made, code.data(), 2, options, values);
    if (loaded == success)
      return made;
  }
  if (loaded == success)
    return nullptr;
  bool isOld = loaded == unsupportedPtxVersion;
  std::string said = log.front() ? "\n" + std::string(log.c_str()) : "";
  if (!ofForms)
    throw UnusableGpu("the NVIDIA driver refuses the program's kernels: " +
                          driver.nameOf(loaded),
                      /*isThere=*/true,
                      isOld ? "it is too old, install a newer one" : "", said);
  say("note: the NVIDIA driver refuses the faster kernels for " + found.name +
      ": " + driver.nameOf(loaded) +
      (isOld ? ": it is too old, install a newer one" : "") +
      "; those for all GPUs run instead" + said + "\n");
  return nullptr;
}

void CudaDevice::loadKernels(const tfm_variant &variant) {
  requireImage(variant, found);
  auto &[common, general, forms] = modules;
  common = loadPart(variant, TFM_PART_COMMON);
  forms = loadPart(variant, TFM_PART_FORMS);
  if (!forms)
    general = loadPart(variant, TFM_PART_GENERAL);
  std::span all(variant.kernels, static_cast<size_t>(variant.kernel_count));
  kernels.resize(all.size());
  for (size_t i = 0; i != all.size(); ++i)
    kernels[i].launch = &all[i];
  for (size_t i = 0; i != all.size(); ++i)
    if (int64_t form = all[i].form; form >= 0) {
      // Nothing launches it by its own number.
      kernels[static_cast<size_t>(form)].launch = nullptr;
      if (forms)
        kernels[i].launch = &all[static_cast<size_t>(form)];
    }
  for (size_t i = 0; i != all.size(); ++i) {
    auto &[kernel, function] = kernels[i];
    if (!kernel)
      continue;
    Module module = all[i].form < 0 ? common : forms ? forms : general;
    driver.check(
        driver.call.cuModuleGetFunction(&function, module, kernel->name),
        "find a kernel");
    if (kernel->shared_bytes)
      driver.check(driver.call.cuFuncSetAttribute(
                       function, maxDynamicShared,
                       static_cast<int>(kernel->shared_bytes)),
                   "give a kernel its memory");
  }
}

CudaDevice &CudaDevice::keepContext() {
  Context kept = nullptr;
  driver.check(driver.call.cuDevicePrimaryCtxRetain(&kept, found.device),
               "keep a context");
  return *this;
}

void CudaDevice::allocate(size_t bytes, size_t, size_t) {
  if (arena)
    throw std::logic_error("a device has the arena of one model at a time");
  // What the driver gives begins at multiples of 256 bytes or more.
  bytes = std::max<size_t>(bytes, 1);
  size_t left = 0, all = 0;
  driver.check(driver.call.cuMemGetInfo_v2(&left, &all), "tell its memory");
  Result given =
      bytes > left ? outOfMemory : driver.call.cuMemAlloc_v2(&arena, bytes);
  if (given == outOfMemory)
    throw NoDeviceMemory(found.name, left, all);
  driver.check(given, "give memory");
  zero(0, bytes);
}

void CudaDevice::release() {
  if (!arena)
    return;
  // Not checked: what has gone wrong before was told where it was noticed.
  driver.call.cuStreamSynchronize(stream);
  for (Captured &one : graphs)
    driver.call.cuGraphExecDestroy(one.graph);
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

void CudaDevice::wait() const {
  checkWrites();
  driver.check(driver.call.cuStreamSynchronize(stream), "go on");
}

std::unique_ptr<DeviceLink> CudaDevice::link(Processes &processes) {
  return std::make_unique<NcclLink>(driver, found.device, stream, arena,
                                    processes);
}

std::unique_ptr<Peaks>
CudaDevice::peaks(const std::vector<std::string_view> &products,
                  size_t reading) {
  return std::make_unique<CudaPeaks>(driver, stream, found.multiprocessors,
                                     products, reading);
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

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
    if (queue.result == success && queue.recorded)
      queue.result = queue.note(launch);
  }

  /// Has the GPU note the time, between this launch and the next one.
  Result note(int64_t launch) {
    Result noted = success;
    if (count == device.times.size()) {
      noted = device.driver.call.cuEventCreate(&device.times.emplace_back(),
                                               eventWithTiming);
    }
    recorded[count].launch = static_cast<uint64_t>(launch);
    return noted != success ? noted
                            : device.driver.call.cuEventRecord(
                                  device.times[count++], device.stream);
  }

  CudaDevice &device;
  const tfm_function &function;
  /// Where times are noted; null: nowhere.
  tfm_event *recorded = nullptr;
  /// How many have been.
  size_t count = 0;
  Result result = success;
};

/// Has the driver write what the GPU is told of a tensor that begins at
/// `first`.
static Result encode(const CudaDriver &driver, const tfm_boxed_tensor &tensor,
                     uint64_t first, TensorMap &map) {
  unsigned box[TFM_MAX_BOXED_RANK], each[TFM_MAX_BOXED_RANK];
  for (uint32_t axis = 0; axis != tensor.rank; ++axis) {
    box[axis] = static_cast<unsigned>(tensor.box[axis]);
    each[axis] = 1;
  }
  return driver.call.cuTensorMapEncodeTiled(
      &map, tensorOfBf16, tensor.rank, reinterpret_cast<void *>(first),
      tensor.sizes, tensor.strides + 1, box, each, tensorNotInterleaved,
      tensorSwizzle128, tensorPromotion256, tensorZerosOutside);
}

Result CudaDevice::launch(int64_t number, const uint64_t *arguments) {
  auto [launched, function] = kernels[static_cast<size_t>(number)];
  const tfm_kernel &kernel = *launched;
  void *parameters[TFM_MAX_ARGUMENTS];
  TensorMap maps[4];
  size_t tensors = kernel.tensor_count;
  if (kernel.argument_count + tensors > std::size(parameters) ||
      tensors > std::size(maps))
    return invalidValue;
  for (uint32_t i = 0; i != kernel.argument_count; ++i)
    parameters[i] = const_cast<uint64_t *>(arguments + i);
  for (size_t i = 0; i != tensors; ++i) {
    const tfm_boxed_tensor &tensor = kernel.tensors[i];
    Result encoded =
        encode(driver, tensor, arguments[tensor.argument], maps[i]);
    if (encoded != success)
      return encoded;
    parameters[kernel.argument_count + i] = &maps[i];
  }
  uint32_t blocks = kernel.grid[0];
  if (kernel.resident)
    blocks = std::min(blocks, kernel.resident *
                                  static_cast<uint32_t>(found.multiprocessors));
  return driver.call.cuLaunchKernel(
      function, blocks, kernel.grid[1], kernel.grid[2], kernel.block[0],
      kernel.block[1], kernel.block[2], kernel.shared_bytes, stream, parameters,
      nullptr);
}

void CudaDevice::runRecorded(const tfm_function &function) {
  Queue queue(*this, function);
  queue.recorded = recorded;
  driver.check(driver.call.cuStreamSynchronize(stream), "go on");
  auto began = std::chrono::steady_clock::now().time_since_epoch();
  driver.check(queue.note(function.launch_count), "note the time");
  function.enqueue(arena, &queue);
  driver.check(queue.result, "run a kernel");
  driver.check(driver.call.cuStreamSynchronize(stream), "go on");
  for (size_t i = 0; i != queue.count; ++i) {
    float milliseconds = 0;
    driver.check(
        driver.call.cuEventElapsedTime(&milliseconds, times[0], times[i]),
        "tell the time");
    recorded[i].clock =
        static_cast<uint64_t>(std::chrono::nanoseconds(began).count()) +
        static_cast<uint64_t>(milliseconds * 1e6);
  }
  recorded += queue.count;
}

CudaDevice::Captured &
CudaDevice::capture(std::span<const tfm_function *const> functions) {
  driver.check(driver.call.cuStreamBeginCapture_v2(stream, captureThreadLocal),
               "record a function");
  Result queued = success;
  for (const tfm_function *function : functions) {
    Queue queue(*this, *function);
    function->enqueue(arena, &queue);
    if (queued == success)
      queued = queue.result;
  }
  Graph captured = nullptr;
  Result ended = driver.call.cuStreamEndCapture(stream, &captured);
  GraphExec graph = nullptr;
  Result made = success;
  if (queued == success && ended == success)
    made = driver.call.cuGraphInstantiateWithFlags(&graph, captured, 0);
  if (captured)
    driver.call.cuGraphDestroy(captured);
  driver.check(queued, "record a kernel");
  driver.check(ended, "record a function");
  driver.check(made, "make a graph of a function");
  return graphs.emplace_back(std::vector(functions.begin(), functions.end()),
                             graph);
}

void CudaDevice::run(std::span<const tfm_function *const> functions) {
  checkWrites();
  if (recorded) {
    for (const tfm_function *function : functions)
      runRecorded(*function);
    return;
  }
  auto known = std::ranges::find_if(graphs, [&](const Captured &one) {
    return std::ranges::equal(one.functions, functions);
  });
  Captured &one = known == graphs.end() ? capture(functions) : *known;
  driver.check(driver.call.cuGraphLaunch(one.graph, stream), "run a function");
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
  Event done = nullptr;
  driver.check(driver.call.cuEventCreate(&done, eventWithoutTiming),
               "make an event");
  Staging made = {nullptr, bytes, done, use};
  Result given = driver.call.cuMemHostAlloc(&made.bytes, bytes, 0);
  if (given != success)
    driver.call.cuEventDestroy_v2(done);
  driver.check(given, "give memory of the host");
  return staged.emplace_back(made);
}

CudaDevice::Staging &CudaDevice::stagedAt(const void *bytes) const {
  return *std::ranges::find(staged, bytes, &Staging::bytes);
}

/// Gives memory back of which there is more free than tokens and logits take:
/// that which parameters went through.
void CudaDevice::giveBack() const noexcept {
  constexpr size_t kept = size_t{64} << 20;
  size_t free = 0;
  for (auto one = staged.begin(); one != staged.end();) {
    auto next = std::next(one);
    if (one->use == Use::Free && (free += one->size) > kept) {
      free -= one->size;
      // A failure is one of an earlier step, which tells of it.
      driver.call.cuEventSynchronize(one->done);
      driver.call.cuEventDestroy_v2(one->done);
      driver.call.cuMemFreeHost(one->bytes);
      staged.erase(one);
    }
    one = next;
  }
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
  staging.use = Use::Free;
  giveBack();
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

void CudaDevice::endRead(const void *bytes) const noexcept {
  stagedAt(bytes).use = Use::Free;
  giveBack();
}

} // namespace tfm
