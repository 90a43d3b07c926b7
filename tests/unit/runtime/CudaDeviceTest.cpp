//===- CudaDeviceTest.cpp - a GPU as the runtime sees it ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/choose_device.h"
#include "runtime/device/cpu_device.h"
#include "runtime/device/cuda_device.h"
#include "runtime/device/cuda_peaks.h"
#include "runtime/device/variant.h"
#include "runtime/model/model.h"
#include "runtime/support/error.h"
#include "runtime/support/memory.h"
#include "tests/unit/runtime/FakeCuda.h"
#include "tests/unit/runtime/Outcome.h"
#include "tests/unit/runtime/TemporaryFolder.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <dlfcn.h>
#include <fstream>
#include <gtest/gtest.h>
#include <lz4.h>
#include <set>
#include <utility>

using namespace std::string_view_literals;

namespace tfm::test {

FakeCuda &fakeCuda() {
  static FakeCuda *found = [] {
    // From here on it is what `libcuda.so.1` names in this process.
    void *library = dlopen(TFM_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
    if (!library)
      throw std::runtime_error(dlerror());
    return reinterpret_cast<FakeCuda *(*)()>(
        dlsym(library, "fakeCudaOfLibrary"))();
  }();
  return *found;
}

namespace {

constexpr size_t mostFunctions = 16;

/// The functions of the model that is on the fake.
const tfm_function *onFake = nullptr;

/// The kernels that have run.
std::set<std::string> haveRun;

/// A kernel of the fake is a whole function of the toy model, whose number is
/// its name, with `form` behind it where it is one; its argument is the arena.
void runFunction(const char *name, void **parameters) {
  haveRun.insert(name);
  auto claim = [](tfm_thread *thread) -> int64_t {
    // 0 and -1 in turns.
    bool isNew = thread->pool == nullptr;
    thread->pool = isNew ? thread : nullptr;
    return isNew ? 0 : -1;
  };
  tfm_thread thread = {.index = 0,
                       .count = 1,
                       .claim = claim,
                       .finish = [](tfm_thread *) -> int64_t { return 1; },
                       .scratch = nullptr,
                       .pool = nullptr,
                       .events = nullptr};
  onFake[std::stoul(name)].run(*reinterpret_cast<void **>(parameters[0]),
                               &thread);
}

void enqueueOne(uint64_t arena, tfm_queue *queue) {
  queue->launch(queue, 0, &arena);
}

/// A block of LZ4 of three bytes.
std::string packed(const char *bytes) {
  std::string block(64, '\0');
  int size = LZ4_compress_default(bytes, block.data(), 3,
                                  static_cast<int>(block.size()));
  block.resize(static_cast<size_t>(size));
  return block;
}

/// A model as it would be compiled for a GPU too: its functions have a launch
/// each.
class GpuModel {
public:
  explicit GpuModel(const tfm_model &onCpu) : model(onCpu) {
    const tfm_variant &cpu = onCpu.variants[0];
    functions.assign(cpu.functions, cpu.functions + cpu.function_count);
    launches.resize(functions.size());
    for (size_t i = 0; i != functions.size(); ++i) {
      names[i] = std::to_string(i);
      kernels.push_back({names[i].c_str(),
                         {1, 1, 1},
                         {32, 1, 1},
                         /*shared_bytes=*/0,
                         /*resident=*/0,
                         /*argument_count=*/1,
                         /*tensor_count=*/0,
                         /*tensors=*/nullptr,
                         /*form=*/-1});
      launches[i] = {"", "", TFM_PRODUCTS_F32,       1,
                     0,  0,  static_cast<int64_t>(i)};
      functions[i].run = nullptr;
      functions[i].enqueue = enqueueOne;
      functions[i].launches = &launches[i];
      functions[i].launch_count = 1;
    }
    variants = {cpu, cpu};
    tfm_variant &gpu = variants[0];
    gpu.target = "cuda";
    gpu.machine = gpu.features = "sm_80";
    gpu.functions = functions.data();
    gpu.kernel_count = static_cast<int64_t>(kernels.size());
    gpu.kernels = kernels.data();
    images = {{TFM_IMAGE_CUBIN, 9, 0, 0, 0, code[0].data(), code[0].size(), 3},
              {TFM_IMAGE_PTX, 8, 0, 0, 0, code[1].data(), code[1].size(), 3}};
    gpu.image_count = static_cast<int64_t>(images.size());
    gpu.images = images.data();
    model.variants = variants.data();
    model.variant_count = 2;
    onFake = cpu.functions;
    fakeCuda() = {};
    fakeCuda().runKernel = runFunction;
  }
  ~GpuModel() { fakeCuda() = {}; }

  /// Has every kernel have a form for compute capability 9.0, which has boxes
  /// of its operand copied.
  void addForms() {
    for (size_t i = 0; i != functions.size(); ++i) {
      kernels[i].form = static_cast<int64_t>(kernels.size());
      tfm_kernel form = kernels[i];
      form.name = (formNames[i] = names[i] + "form").c_str();
      form.form = -1;
      form.grid[0] = 100;
      form.resident = 2;
      form.tensor_count = 1;
      form.tensors = &tensor;
      kernels.push_back(form);
    }
    for (tfm_image &image : images)
      image.part = TFM_PART_GENERAL;
    images.insert(images.begin(), {TFM_IMAGE_PTX, 9, 0, 1, TFM_PART_FORMS,
                                   code[2].data(), code[2].size(), 3});
    images.push_back({TFM_IMAGE_PTX, 8, 0, 0, TFM_PART_COMMON, code[3].data(),
                      code[3].size(), 3});
    tfm_variant &gpu = variants[0];
    gpu.kernel_count = static_cast<int64_t>(kernels.size());
    gpu.kernels = kernels.data();
    gpu.image_count = static_cast<int64_t>(images.size());
    gpu.images = images.data();
  }

  tfm_model model;
  std::vector<tfm_image> images;

private:
  tfm_boxed_tensor tensor = {
      .argument = 0, .rank = 1, .sizes = {64}, .strides = {2}, .box = {8}};
  std::array<std::string, 4> code = {packed("sm"), packed("tx"), packed("hx"),
                                     packed("cx")};
  std::vector<tfm_function> functions;
  std::vector<tfm_launch> launches;
  std::array<std::string, mostFunctions> names, formNames;
  std::vector<tfm_kernel> kernels;
  std::array<tfm_variant, 2> variants;
};

// Training, checkpoints and generation on a GPU that does everything as late as
// it may give the bits of a CPU; what is asked for at once is captured once for
// an arena, and launched as one graph from then on. Nothing is left over.
TEST(CudaDevice, ComputesWhatACpuDoes) {
  TemporaryFolder folder;
  ToyModel toy = toyOfOutcome();
  CpuDevice cpu(1);
  Outcome expected = outcomeOn(toy.descriptor(), cpu, folder / "cpu");
  GpuModel gpu(toy.descriptor());
  {
    tfm_model model = modelFor(gpu.model, "auto");
    std::unique_ptr<Device> device = makeDevice(model, "auto", 1);
    EXPECT_EQ(outcomeOn(model, *device, folder / "gpu"), expected);
  }
  FakeCuda &fake = fakeCuda();
  // `update` is in two graphs, with `train` in another.
  EXPECT_GT(fake.launches, fake.graphs);
  EXPECT_LE(fake.graphs, 2 * gpu.model.variants[0].function_count);
  EXPECT_GT(fake.graphLaunches, 5 * fake.graphs);
  EXPECT_EQ(fake.liveAllocations, 0);
}

// A step of training is one graph, which is launched once.
TEST(CudaDevice, RunsAStepAtOnce) {
  ToyModel toy = toyOfOutcome();
  GpuModel gpu(toy.descriptor());
  tfm_model model = modelFor(gpu.model, "cuda");
  std::unique_ptr<Device> device = makeDevice(model, "cuda", 1);
  Model onGpu(model, *device);
  haveRun.clear();
  for (int step = 0; step != 3; ++step)
    onGpu.run(onGpu.function(TFM_TRAIN), onGpu.function(TFM_UPDATE));
  device->wait();
  EXPECT_EQ(haveRun.size(), 2u);
  EXPECT_EQ(fakeCuda().graphs, 1);
  EXPECT_EQ(fakeCuda().launches, 2);
  EXPECT_EQ(fakeCuda().graphLaunches, 3);
}

// What each launch took is found by waiting for it: no graph then.
TEST(CudaDevice, NotesWhenLaunchesAreOver) {
  ToyModel toy = toyOfOutcome();
  GpuModel gpu(toy.descriptor());
  tfm_model model = modelFor(gpu.model, "cuda");
  std::unique_ptr<Device> device = makeDevice(model, "cuda", 1);
  Model onGpu(model, *device);
  std::array<tfm_event, 2> events = {};
  device->recordInto(events.data());
  const tfm_function &update = onGpu.function(TFM_UPDATE);
  device->run(update);
  device->recordInto(nullptr);
  EXPECT_EQ(events[0].launch, 1u);
  EXPECT_EQ(events[1].launch, 0u);
  EXPECT_LE(events[0].clock, events[1].clock);
  EXPECT_EQ(fakeCuda().graphs, 0);
}

// Forms of kernels are launched where the GPU is exactly what they are for, and
// the driver takes them; the others elsewhere, and nothing is lost but speed,
// which a note says where it is the driver's fault.
TEST(CudaDevice, LaunchesFormsOfKernelsWhereTheyRun) {
  ToyModel toy = toyOfOutcome();
  std::string said;
  unsigned blocks = 0;
  auto run = [&](int major, const char *refused, int multiprocessors = 132) {
    GpuModel gpu(toy.descriptor());
    gpu.addForms();
    fakeCuda().capabilityMajor = major;
    fakeCuda().multiprocessors = multiprocessors;
    fakeCuda().refused = refused;
    haveRun.clear();
    tfm_model model = modelFor(gpu.model, "cuda");
    testing::internal::CaptureStderr();
    std::unique_ptr<Device> device = makeDevice(model, "cuda", 1);
    said = testing::internal::GetCapturedStderr();
    Model onGpu(model, *device);
    device->run(onGpu.function(TFM_UPDATE));
    device->wait();
    EXPECT_EQ(haveRun.size(), 1u);
    bool isForm = haveRun.begin()->ends_with("form");
    EXPECT_EQ(fakeCuda().tensorOfLaunch != 0, isForm);
    blocks = fakeCuda().blocksOfLaunch;
    return isForm;
  };
  EXPECT_TRUE(run(9, ""));
  EXPECT_EQ(said, "");
  EXPECT_FALSE(run(9, "hx"));
  EXPECT_EQ(said, "note: the NVIDIA driver refuses the faster kernels for "
                  "Fake: CUDA_ERROR_INVALID_PTX (as the test wants it); those "
                  "for all GPUs run instead\n");
  EXPECT_FALSE(run(8, ""));
  EXPECT_EQ(said, "");
  EXPECT_FALSE(run(10, ""));
  EXPECT_EQ(said, "");
  // Forms' blocks live until all is done: no more than have room.
  EXPECT_TRUE(run(9, "", 78));
  EXPECT_EQ(blocks, 100u);
  EXPECT_TRUE(run(9, "", 16));
  EXPECT_EQ(blocks, 32u);
  EXPECT_FALSE(run(8, "", 16));
  EXPECT_EQ(blocks, 1u);
}

// A GPU is taken where the build has code for it and the machine one that runs
// it; else the processors are, but where somebody asks for it.
TEST(CudaDevice, IsChosenWhereItRuns) {
  ToyModel toy = toyOfOutcome();
  GpuModel gpu(toy.descriptor());
  auto target = [&](std::string_view device) {
    return std::string_view(chooseVariant(modelFor(gpu.model, device)).target);
  };
  EXPECT_EQ(target("auto"), "cuda");
  EXPECT_EQ(target("cuda:1"), "cuda");
  EXPECT_EQ(target("cpu"), "cpu");
  fakeCuda().capabilityMajor = 7;
  EXPECT_EQ(target("auto"), "cpu");
  fakeCuda().capabilityMajor = 9;
  EXPECT_EQ(target("auto"), "cuda");
  // What others have of its memory counts where the model is going to run.
  auto running = [&] {
    return std::string_view(
        chooseVariant(modelFor(gpu.model, "auto", /*runs=*/true)).target);
  };
  EXPECT_EQ(running(), "cuda");
  fakeCuda().left = 100;
  EXPECT_EQ(running(), "cpu");
  EXPECT_EQ(target("auto"), "cuda");
  fakeCuda().left = fakeCuda().memory;
  fakeCuda().refusal = "ptxas: line 7: no";
  EXPECT_EQ(running(), "cpu");
  fakeCuda().refusal = nullptr;
  fakeCuda().gpus = 0;
  EXPECT_EQ(target("auto"), "cpu");
  for (const char *name : {"auto", "cpu", "cuda", "cuda:0", "cuda:12"})
    EXPECT_TRUE(isDeviceName(name)) << name;
  for (const char *name : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x"})
    EXPECT_FALSE(isDeviceName(name)) << name;
}

// Damaged kernels are refused before a driver sees them.
TEST(CudaDevice, RefusesDamagedKernels) {
  ToyModel toy = toyOfOutcome();
  GpuModel gpu(toy.descriptor());
  tfm_model model = modelFor(gpu.model, "cuda");
  auto load = [&] {
    std::unique_ptr<Device> device = makeDevice(model, "cuda", 1);
    Model onGpu(model, *device);
  };
  load();
  for (auto [packed, size] :
       {std::pair(2u, 3u), {4u, 2u}, {4u, 4u}, {0u, 3u}}) {
    gpu.images[1].packed = packed;
    gpu.images[1].size = size;
    EXPECT_THROW(load(), std::logic_error) << packed << " for " << size;
  }
}

// What keeps a program from a GPU is said in words.
TEST(CudaDevice, SaysWhyItDoesNotRun) {
  ToyModel toy = toyOfOutcome();
  GpuModel gpu(toy.descriptor());
  FakeCuda &fake = fakeCuda();
  auto said = [&](const char *device, bool trains = false) {
    return messageOf<InputError>([&] {
      tfm_model model = modelFor(gpu.model, device);
      std::unique_ptr<Device> made = makeDevice(model, device, 1);
      Model onGpu(model, *made, trains);
    });
  };
  EXPECT_EQ(said("cuda"), "");
  EXPECT_EQ(said("cuda:1"),
            "there is no GPU cuda:1, the last one is cuda:0: take that, or run "
            "with --device cpu");
  fake.refusal = "ptxas: line 7: no";
  EXPECT_EQ(said("cuda"), "the NVIDIA driver refuses the program's kernels: "
                          "CUDA_ERROR_INVALID_PTX (as the test wants it): "
                          "run with --device cpu\nptxas: line 7: no");
  fake.refusal = nullptr;
  fake.capabilityMajor = 7;
  fake.capabilityMinor = 5;
  EXPECT_EQ(said("cuda"),
            "the program has no code for Fake, which has compute capability "
            "7.5 and not 8.0 or newer: run with --device cpu");
  fake.capabilityMajor = 8;
  fake.left = 100;
  std::string needs =
      "Toy needs " + byteText(gpu.model.variants[0].arena_bytes);
  EXPECT_EQ(said("cuda"),
            needs + " of memory, and Fake has 100 bytes left of 1.0 GiB: end "
                    "what else uses that GPU, or take another one; or run with "
                    "--device cpu");
  const auto all = std::exchange(fake.memory, 100);
  EXPECT_EQ(said("cuda"),
            needs + " of memory, and Fake has 100 bytes left of 100 bytes: its "
                    "weights alone take 840 bytes: build a smaller model, or "
                    "with fewer bits (generate.weights, now f32); or run with "
                    "--device cpu");
  fake.left = fake.memory = 30000;
  for (bool trains : {false, true})
    EXPECT_EQ(said("cuda", trains),
              needs + " of memory, and Fake has 29.3 KiB left of 29.3 KiB: " +
                  (trains ? "most of what may be less is activations: build it "
                            "with a smaller train.batch (now 4; a larger "
                            "train.accumulate, now 3, makes up for it) or "
                            "train.sequence (now 9), or with train.precision = "
                            "bf16"
                          : "some of it is for training alone: a build without "
                            "the `train` block takes less") +
                  "; or run with --device cpu");
  fake.left = fake.memory = all;
  fake.gpus = 0;
  EXPECT_EQ(said("cuda"),
            "the NVIDIA driver finds no GPU: run with --device cpu");
  EXPECT_EQ(messageOf<InputError>([&] { modelFor(toy.descriptor(), "cuda"); }),
            "--device cuda, but Toy was built for CPUs alone: build it with "
            "`tfmc build --target cuda`");
  EXPECT_EQ(fake.liveAllocations, 0);
  EXPECT_EQ(fake.liveContexts, 0);
}

// Machine code is loaded where it fits; where the driver does not know it, it
// translates the text.
TEST(CudaDevice, LoadsTheFirstCodeThatRuns) {
  ToyModel toy = toyOfOutcome();
  GpuModel gpu(toy.descriptor());
  FakeCuda &fake = fakeCuda();
  auto loaded = [&] {
    fake.loaded.clear();
    makeDevice(modelFor(gpu.model, "cuda"), "cuda", 1);
    return fake.loaded;
  };
  EXPECT_EQ(loaded(), "tx ");
  fake.capabilityMajor = 9;
  EXPECT_EQ(loaded(), "sm ");
  fake.capabilityMinor = 2;
  EXPECT_EQ(loaded(), "sm ");
  fake.refused = "sm";
  EXPECT_EQ(loaded(), "sm tx ");
  fake.capabilityMajor = 10;
  EXPECT_EQ(loaded(), "tx ");
}

// A driver that is too old for the kernels says so by a number of its own.
TEST(CudaDevice, SaysThatTheDriverIsTooOld) {
  ToyModel toy = toyOfOutcome();
  GpuModel gpu(toy.descriptor());
  fakeCuda().refusal = "";
  fakeCuda().refusalNumber = 222;
  EXPECT_EQ(messageOf<InputError>(
                [&] { makeDevice(modelFor(gpu.model, "cuda"), "cuda", 1); }),
            "the NVIDIA driver refuses the program's kernels: CUDA_ERROR (as "
            "the test wants it): it is too old, install a newer one, or run "
            "with --device cpu");
}

// A GPU that is there and cannot be used is no secret; one that is not there is
// no news.
TEST(CudaDevice, NotesWhyAGpuIsNotUsed) {
  ToyModel toy = toyOfOutcome();
  GpuModel gpu(toy.descriptor());
  FakeCuda &fake = fakeCuda();
  auto noted = [&] {
    testing::internal::CaptureStderr();
    (void)modelFor(gpu.model, "auto");
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(noted(), "");
  fake.gpus = 0;
  EXPECT_EQ(noted(), "");
  fake.gpus = 1;
  fake.capabilityMajor = 7;
  EXPECT_EQ(noted(), "note: no GPU is used: the program has no code for Fake, "
                     "which has compute capability 7.0 and not 8.0 or newer\n");
  fake.capabilityMajor = 8;
  fake.memory = 100;
  EXPECT_EQ(noted(), "note: no GPU is used: Fake has 100 bytes of memory, and "
                     "Toy takes " +
                         byteText(gpu.model.variants[0].arena_bytes) + "\n");
}

// Memory that large tensors went through is given back: a checkpoint does not
// keep the whole state in memory that cannot be swapped.
TEST(CudaDevice, KeepsLittleMemoryOfTheHost) {
  ToyModel toy = toyOfOutcome();
  GpuModel gpu(toy.descriptor());
  tfm_model model = modelFor(gpu.model, "cuda");
  std::unique_ptr<Device> device = makeDevice(model, "cuda", 1);
  constexpr size_t floats = size_t{8} << 20;
  device->allocate(floats * sizeof(float), 64, 0);
  int before = fakeCuda().liveAllocations;
  for (size_t count = floats; count > floats / 64; count /= 2) {
    std::ranges::fill(device->write<float>(0, count).values(), 2.0f);
    for (int i = 0; i != 3; ++i) {
      PendingRead<float> one = device->read<float>(0, count),
                         other = device->read<float>(
                             (count - 1) * sizeof(float), 1);
      EXPECT_EQ(one.values()[count - 1], 2.0f);
      EXPECT_EQ(other.values()[0], 2.0f);
    }
  }
  EXPECT_LE(fakeCuda().liveAllocations, before + 6);
}

// What a GPU has computed is read when other functions have been asked to run:
// the value is that of then.
TEST(CudaDevice, ReadsWhatWas) {
  ToyModel toy = toyOfOutcome();
  GpuModel gpu(toy.descriptor());
  tfm_model model = modelFor(gpu.model, "cuda");
  CpuDevice cpu(1);
  std::unique_ptr<Device> onGpu = makeDevice(model, "cuda", 1);
  for (Device *device : {onGpu.get(), static_cast<Device *>(&cpu)}) {
    device->allocate(64, 64, 0);
    device->write<float>(0, 1).values()[0] = 1.0f;
    PendingValue<float> was(device->read<float>(0, 1));
    device->write<float>(0, 1).values()[0] = 2.0f;
    EXPECT_EQ(was.value(), 1.0f);
    EXPECT_EQ(device->read<float>(0, 1).values()[0], 2.0f);
  }
}

// What measures a GPU is assembled when it measures, so here where there is an
// assembler.
TEST(CudaPeaks, HasKernelsThatAssemble) {
  if (std::system("ptxas --version > /dev/null 2>&1") != 0)
    GTEST_SKIP() << "there is no ptxas";
  TemporaryFolder folder;
  std::ofstream(folder / "peaks.ptx") << peakKernels();
  for (const char *capability : {"sm_80", "sm_90"})
    EXPECT_EQ(
        std::system(("ptxas -arch=" + std::string(capability) + " " +
                     (folder / "peaks.ptx") + " -o " + (folder / "peaks.cubin"))
                        .c_str()),
        0);
}

} // namespace
} // namespace tfm::test
