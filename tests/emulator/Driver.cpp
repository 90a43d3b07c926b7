//===- Driver.cpp - NVIDIA's driver on top of the emulator ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A library `libcuda.so.1` with what the runtime calls of the driver's
// (runtime/device/cuda_driver.h), so that whole programs train and generate on
// "a GPU" where there is none. Everything happens at once, but what is
// captured. The environment says what it is like:
//
//   TFM_EMULATED_KERNELS     a file with the module of kernels that the
//                            program's images were made of, as they are before
//                            PTX
//   TFM_EMULATED_COUNT       how many alike GPUs there are, 1 without it
//   TFM_EMULATED_MEMORY      bytes, 1 GiB without it
//   TFM_EMULATED_CAPABILITY  the compute capability, 8.0 without it
//   TFM_EMULATED_MULTIPROCESSORS  how many there are, 1 without it
//   TFM_EMULATED_LAUNCHES    after so many launches the GPU is lost
//   TFM_EMULATED_READS       a file that gets a line for each copy to the host:
//                            how many bytes
//   TFM_EMULATED_REFUSAL     what it says of every module, which it refuses
//   TFM_EMULATED_UUID        a number that tells it from others; without it
//                            every process has one of its own
//
// The kernels that `bench` measures a GPU with do nothing here.
// A fault of a kernel is written to standard error, and loses the GPU.
//
//===----------------------------------------------------------------------===//

#include "tests/emulator/Program.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Parser/Parser.h"
#include "runtime/device/cuda_driver.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <unistd.h>

using namespace tfm;
using namespace tfm::cuda;

namespace {

constexpr int invalidImage = 200, invalidPtx = 218, notFound = 500,
              launchFailed = 719;

using Clock = std::chrono::steady_clock;

} // namespace

namespace tfm::cuda {

// What handles point to.

struct CUevent_st {
  Clock::time_point time;
};

struct CUgraph_st {
  std::vector<std::function<void()>> launches;
};

struct CUgraphExec_st {
  CUgraph_st graph;
};

} // namespace tfm::cuda

namespace {

/// Memory that the program has been given.
struct Allocation {
  char *bytes;
  size_t size;
  bool onGpu;
};

/// What a launch was given, as it was then.
struct Arguments {
  std::vector<uint64_t> numbers;
  std::vector<TensorMap> tensors;
};

struct Gpu {
  Gpu() {
    if (const char *text = std::getenv("TFM_EMULATED_MEMORY"))
      memory = std::strtoull(text, nullptr, 10);
    if (const char *text = std::getenv("TFM_EMULATED_LAUNCHES"))
      launchesLeft = std::strtoll(text, nullptr, 10);
    if (const char *text = std::getenv("TFM_EMULATED_CAPABILITY"))
      std::sscanf(text, "%d.%d", &major, &minor);
    if (const char *text = std::getenv("TFM_EMULATED_MULTIPROCESSORS"))
      multiprocessors = static_cast<unsigned>(std::atoi(text));
  }

  size_t memory = size_t{1} << 30, taken = 0;
  int major = 8, minor = 0;
  unsigned multiprocessors = 1;
  std::optional<long long> launchesLeft;
  bool isLost = false;

  std::vector<Allocation> allocations;
  /// A graph that is being captured.
  Graph captured = nullptr;

  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  emulator::Machine machine;
  mlir::OwningOpRef<mlir::ModuleOp> kernels;
  std::optional<emulator::Program> program;

  /// What every call that could tell gives.
  Result state() const { return isLost ? launchFailed : success; }

  void lose(const std::string &why) {
    std::fprintf(stderr, "emulated GPU: %s\n", why.c_str());
    isLost = true;
  }

  Result allocate(size_t bytes, bool onGpu, void **made) {
    if (isLost)
      return launchFailed;
    size_t rounded = (bytes + 255) / 256 * 256;
    if (onGpu && rounded > memory - taken)
      return outOfMemory;
    auto *memory = static_cast<char *>(std::aligned_alloc(256, rounded));
    // No zeros: nobody promises them, and who wants some writes them.
    std::memset(memory, 0xAB, rounded);
    allocations.push_back({memory, bytes, onGpu});
    if (onGpu) {
      taken += rounded;
      machine.addBuffer("the device's memory", memory, bytes);
    }
    *made = memory;
    return success;
  }
  Result release(void *bytes, bool onGpu) {
    auto found = llvm::find_if(allocations, [&](const Allocation &one) {
      return one.bytes == bytes && one.onGpu == onGpu;
    });
    if (found == allocations.end())
      return invalidValue;
    if (onGpu) {
      taken -= (found->size + 255) / 256 * 256;
      machine.removeBuffer(bytes);
    }
    std::free(bytes);
    allocations.erase(found);
    return success;
  }
  /// Whether bytes lie in one allocation of that kind.
  bool has(const void *from, size_t bytes, bool onGpu) const {
    auto *first = static_cast<const char *>(from);
    return llvm::any_of(allocations, [&](const Allocation &one) {
      return one.onGpu == onGpu && first >= one.bytes &&
             first + bytes <= one.bytes + one.size;
    });
  }

  Result load(const char *image, std::string &log);
  Result check(const char *image, bool ofForms, std::string &log) const;
  void launch(const emulator::Kernel &kernel, const Arguments &arguments);
};

/// The one of this process, never destroyed: as late as that nobody calls.
Gpu &gpu() {
  static Gpu &only = *new Gpu;
  return only;
}

template <typename T> T *at(Address address) {
  return reinterpret_cast<T *>(address);
}

} // namespace

/// What `bench` measures with: a module and all of its kernels.
static emulator::Kernel peaks;

Result Gpu::load(const char *image, std::string &log) {
  if (const char *refusal = std::getenv("TFM_EMULATED_REFUSAL")) {
    log = refusal;
    return invalidPtx;
  }
  // As an old driver says of machine code that is too new for it.
  if (llvm::StringRef(image).starts_with("\x7f"
                                         "ELF"))
    return invalidImage;
  bool ofForms = std::strstr(image, ".target sm_90a");
  const char *path = std::getenv("TFM_EMULATED_KERNELS");
  if (!path) {
    log = "TFM_EMULATED_KERNELS names no file";
    return invalidImage;
  }
  if (program)
    return check(image, ofForms, log);
  // Attributes of dialects that are no matter of kernels.
  context.allowUnregisteredDialects();
  context.loadDialect<mlir::LLVM::LLVMDialect, mlir::NVVM::NVVMDialect>();
  kernels = mlir::parseSourceFile<mlir::ModuleOp>(path, &context);
  if (!kernels) {
    log = std::string("cannot read ") + path;
    return invalidImage;
  }
  // The outer module is the file's.
  auto inner = kernels->getOps<mlir::ModuleOp>();
  llvm::Expected<emulator::Program> loaded = emulator::Program::load(
      inner.empty() ? *kernels : *inner.begin(), machine);
  if (!loaded) {
    log = llvm::toString(loaded.takeError());
    return invalidImage;
  }
  program.emplace(std::move(*loaded));
  return check(image, ofForms, log);
}

/// The PTX is of the same kernels, as far as names tell: of the forms for
/// sm_90a, of those that have one, or of those that have none.
Result Gpu::check(const char *image, bool ofForms, std::string &log) const {
  auto isIn = [&](const std::string &name) -> bool {
    return std::strstr(image, (".entry " + name + "(").c_str());
  };
  auto hasForm = [&](const emulator::Kernel &kernel) {
    return program->find(kernel.name + "_sm_90a") != nullptr;
  };
  bool haveForms =
      llvm::any_of(program->kernels(), [&](const emulator::Kernel &kernel) {
        return hasForm(kernel) && isIn(kernel.name);
      });
  for (const emulator::Kernel &kernel : program->kernels()) {
    bool isThere = isIn(kernel.name);
    if (isThere != (kernel.readsAsync
                        ? ofForms
                        : !ofForms && hasForm(kernel) == haveForms)) {
      log = (isThere ? "the PTX has " : "the PTX has no ") + kernel.name;
      return invalidPtx;
    }
  }
  return success;
}

void Gpu::launch(const emulator::Kernel &kernel, const Arguments &arguments) {
  if (isLost)
    return;
  if (launchesLeft && (*launchesLeft)-- <= 0)
    return lose("it is lost, as the test wants it");
  std::vector<void *> addresses;
  for (const uint64_t &number : arguments.numbers)
    addresses.push_back(const_cast<uint64_t *>(&number));
  for (const TensorMap &tensor : arguments.tensors)
    addresses.push_back(const_cast<TensorMap *>(&tensor));
  if (std::optional<emulator::Fault> fault =
          machine.launch(kernel, addresses.data()))
    lose(fault->text);
}

extern "C" {

Result cuInit(unsigned) { return success; }
Result cuDriverGetVersion(int *version) {
  *version = 12000;
  return success;
}
Result cuDeviceGetCount(int *count) {
  const char *text = std::getenv("TFM_EMULATED_COUNT");
  *count = text ? std::atoi(text) : 1;
  return success;
}
Result cuDeviceGet(DeviceNumber *device, int number) {
  *device = number;
  return success;
}
Result cuDeviceGetName(char *name, int size, DeviceNumber) {
  std::snprintf(name, static_cast<size_t>(size), "Emulated GPU");
  return success;
}
Result cuDeviceGetUuid(Uuid *uuid, DeviceNumber) {
  const char *text = std::getenv("TFM_EMULATED_UUID");
  std::snprintf(uuid->bytes, sizeof uuid->bytes, "%d",
                text ? std::atoi(text) : getpid());
  return success;
}
Result cuDeviceTotalMem_v2(size_t *bytes, DeviceNumber) {
  *bytes = gpu().memory;
  return success;
}
Result cuDeviceGetAttribute(int *value, int attribute, DeviceNumber) {
  *value = attribute == capabilityMajor ? gpu().major
           : attribute == capabilityMinor
               ? gpu().minor
               : static_cast<int>(gpu().multiprocessors);
  return success;
}
Result cuDevicePrimaryCtxRetain(Context *context, DeviceNumber) {
  *context = reinterpret_cast<Context>(&gpu());
  return success;
}
Result cuDevicePrimaryCtxRelease_v2(DeviceNumber) { return success; }
Result cuCtxSetCurrent(Context) { return success; }
Result cuMemGetInfo_v2(size_t *left, size_t *all) {
  *left = gpu().memory - gpu().taken;
  *all = gpu().memory;
  return gpu().state();
}
Result cuMemAlloc_v2(Address *address, size_t bytes) {
  void *made = nullptr;
  Result result = gpu().allocate(bytes, /*onGpu=*/true, &made);
  *address = reinterpret_cast<Address>(made);
  return result;
}
Result cuMemFree_v2(Address address) {
  return gpu().release(at<void>(address), /*onGpu=*/true);
}
Result cuMemHostAlloc(void **memory, size_t bytes, unsigned) {
  return gpu().allocate(bytes, /*onGpu=*/false, memory);
}
Result cuMemFreeHost(void *memory) {
  return gpu().release(memory, /*onGpu=*/false);
}
Result cuMemcpyHtoDAsync_v2(Address to, const void *from, size_t bytes,
                            Stream) {
  if (!gpu().has(at<void>(to), bytes, /*onGpu=*/true) ||
      !gpu().has(from, bytes, /*onGpu=*/false) || gpu().captured)
    return invalidValue;
  std::memcpy(at<void>(to), from, bytes);
  return gpu().state();
}
Result cuMemcpyDtoHAsync_v2(void *to, Address from, size_t bytes, Stream) {
  if (!gpu().has(at<void>(from), bytes, /*onGpu=*/true) ||
      !gpu().has(to, bytes, /*onGpu=*/false) || gpu().captured)
    return invalidValue;
  std::memcpy(to, at<void>(from), bytes);
  if (const char *path = std::getenv("TFM_EMULATED_READS"))
    if (std::FILE *file = std::fopen(path, "a")) {
      std::fprintf(file, "%zu\n", bytes);
      std::fclose(file);
    }
  return gpu().state();
}
Result cuMemsetD8Async(Address to, unsigned char value, size_t bytes, Stream) {
  if (!gpu().has(at<void>(to), bytes, /*onGpu=*/true) || gpu().captured)
    return invalidValue;
  std::memset(at<void>(to), value, bytes);
  return gpu().state();
}
Result cuStreamCreate(Stream *stream, unsigned) {
  *stream = reinterpret_cast<Stream>(&gpu());
  return success;
}
Result cuStreamDestroy_v2(Stream) { return success; }
Result cuStreamQuery(Stream) { return gpu().state(); }
Result cuStreamSynchronize(Stream) { return gpu().state(); }
Result cuStreamBeginCapture_v2(Stream, int) {
  gpu().captured = new CUgraph_st;
  return gpu().state();
}
Result cuStreamEndCapture(Stream, Graph *graph) {
  *graph = std::exchange(gpu().captured, nullptr);
  return gpu().state();
}
Result cuGraphInstantiateWithFlags(GraphExec *made, Graph graph,
                                   unsigned long long) {
  *made = new CUgraphExec_st{*graph};
  return gpu().state();
}
Result cuGraphLaunch(GraphExec graph, Stream) {
  for (const std::function<void()> &launch : graph->graph.launches)
    launch();
  return gpu().state();
}
Result cuGraphExecDestroy(GraphExec graph) {
  delete graph;
  return success;
}
Result cuGraphDestroy(Graph graph) {
  delete graph;
  return success;
}
Result cuModuleLoadDataEx(Module *module, const void *image, unsigned count,
                          int *options, void **values) {
  if (std::strstr(static_cast<const char *>(image), ".entry tfm_peak_")) {
    *module = reinterpret_cast<Module>(&peaks);
    return gpu().state();
  }
  std::string log;
  Result loaded = gpu().load(static_cast<const char *>(image), log);
  char *text = nullptr;
  size_t room = 0;
  for (unsigned i = 0; i != count; ++i) {
    if (options[i] == errorLogBuffer)
      text = static_cast<char *>(values[i]);
    if (options[i] == errorLogBytes)
      room = reinterpret_cast<size_t>(values[i]);
  }
  if (text && room)
    std::snprintf(text, room, "%s", log.c_str());
  *module = reinterpret_cast<Module>(&gpu());
  return loaded;
}
Result cuModuleUnload(Module module) {
  if (module == reinterpret_cast<Module>(&gpu()))
    gpu().program.reset();
  return success;
}
Result cuModuleGetFunction(Function *function, Module module,
                           const char *name) {
  const emulator::Kernel *kernel = module == reinterpret_cast<Module>(&peaks)
                                       ? &peaks
                                       : gpu().program->find(name);
  *function =
      reinterpret_cast<Function>(const_cast<emulator::Kernel *>(kernel));
  return kernel ? success : notFound;
}
Result cuFuncSetAttribute(Function, int, int) { return gpu().state(); }
Result cuLaunchKernel(Function function, unsigned gridX, unsigned gridY,
                      unsigned gridZ, unsigned blockX, unsigned blockY,
                      unsigned blockZ, unsigned shared, Stream,
                      void **parameters, void **) {
  auto &kernel = *reinterpret_cast<const emulator::Kernel *>(function);
  if (&kernel == &peaks)
    return gpu().state();
  // What the kernel was made for, with no more blocks than have room.
  emulator::Kernel launched = kernel;
  if (kernel.resident)
    launched.grid[0] = std::min(
        {gridX, kernel.grid[0], kernel.resident * gpu().multiprocessors});
  if (launched.grid != std::array{gridX, gridY, gridZ} ||
      kernel.block != std::array{blockX, blockY, blockZ} ||
      kernel.dynamicShared != shared)
    return invalidValue;
  Arguments arguments;
  for (uint32_t i = 0; i != kernel.arguments; ++i)
    if (i < kernel.arguments - kernel.tensors)
      arguments.numbers.push_back(*static_cast<uint64_t *>(parameters[i]));
    else
      arguments.tensors.push_back(*static_cast<TensorMap *>(parameters[i]));
  auto launch = [launched, arguments] { gpu().launch(launched, arguments); };
  if (gpu().captured)
    gpu().captured->launches.emplace_back(launch);
  else
    launch();
  return gpu().state();
}
Result cuTensorMapEncodeTiled(TensorMap *map, int type, unsigned rank,
                              void *first, const uint64_t *sizes,
                              const uint64_t *strides, const unsigned *box,
                              const unsigned *each, int interleave, int swizzle,
                              int, int outside) {
  static_assert(sizeof(emulator::TensorMap) <= sizeof(TensorMap));
  emulator::TensorMap made;
  if (type != tensorOfBf16 || interleave != tensorNotInterleaved ||
      swizzle != tensorSwizzle128 || outside != tensorZerosOutside ||
      !std::all_of(each, each + rank, [](unsigned one) { return one == 1; }) ||
      !emulator::TensorMap::make(made, first, rank, sizes, strides, box))
    return invalidValue;
  std::memcpy(map->bytes, &made, sizeof made);
  return gpu().state();
}
Result cuEventCreate(Event *event, unsigned) {
  *event = new CUevent_st{};
  return gpu().state();
}
Result cuEventRecord(Event event, Stream) {
  event->time = Clock::now();
  return gpu().state();
}
Result cuEventSynchronize(Event) { return gpu().state(); }
Result cuEventElapsedTime(float *milliseconds, Event from, Event to) {
  *milliseconds =
      std::chrono::duration<float, std::milli>(to->time - from->time).count();
  return gpu().state();
}
Result cuEventDestroy_v2(Event event) {
  delete event;
  return success;
}
Result cuGetErrorName(Result result, const char **name) {
  *name = result == launchFailed  ? "CUDA_ERROR_LAUNCH_FAILED"
          : result == invalidPtx  ? "CUDA_ERROR_INVALID_PTX"
          : result == outOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY"
                                  : "CUDA_ERROR";
  return success;
}
Result cuGetErrorString(Result result, const char **meaning) {
  *meaning = result == launchFailed ? "unspecified launch failure" : "no";
  return success;
}

} // extern "C"
