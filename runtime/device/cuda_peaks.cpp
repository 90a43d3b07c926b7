//===- cuda_peaks.cpp - what a GPU can do at most, measured ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda_peaks.h"

#include "runtime/tfm_model.h"

#include <algorithm>
#include <fmt/format.h>
#include <stdexcept>

namespace tfm {

using namespace cuda;

/// A full multiprocessor of any GPU since 8.0 has 2048 threads, or 1536.
static constexpr unsigned blockThreads = 256, blocksEach = 8;
/// Turns of a loop, of so many instructions that do not wait for each other.
static constexpr int turns = 2048, chains = 8;
/// Bytes that a thread takes at a time.
static constexpr size_t vector = 16;

std::string peakKernels() {
  // Each takes the memory and a number: of turns, or of vectors.
  std::string text = ".version 7.0\n.target sm_80\n.address_size 64\n";
  auto kernel = [&](const char *name, const std::string &registers,
                    const std::string &body) {
    text += fmt::format(
        ".visible .entry {}(.param .u64 memory, .param .u64 number)\n"
        ".reqntid {}, 1, 1\n{{\n"
        ".reg .pred %more;\n.reg .b32 %id, %block, %size, %grid;\n"
        ".reg .b64 %at, %first, %step, %number;\n{}"
        "ld.param.u64 %at, [memory];\nld.param.u64 %number, [number];\n"
        "mov.u32 %id, %tid.x;\nmov.u32 %block, %ctaid.x;\n"
        "mov.u32 %size, %ntid.x;\nmov.u32 %grid, %nctaid.x;\n"
        "mad.lo.u32 %id, %block, %size, %id;\n"
        "mul.wide.u32 %first, %id, {};\n"
        "mul.lo.u32 %grid, %grid, %size;\nmul.wide.u32 %step, %grid, {};\n"
        "{}ret;\n}}\n",
        name, blockThreads, registers, vector, vector, body);
  };
  // What threads compute is stored, or it would not be computed.
  auto repeated = [](const std::string &turn, const std::string &stored) {
    return "add.u64 %at, %at, %first;\nLoop:\n" + turn +
           "add.s64 %number, %number, -1;\nsetp.gt.s64 %more, %number, 0;\n"
           "@%more bra Loop;\n" +
           stored;
  };
  std::string zeros, turn, sums;
  for (int i = 0; i != chains; ++i) {
    zeros += fmt::format("mov.f32 %a{}, 0f00000000;\n", i);
    turn += fmt::format("fma.rn.f32 %a{0}, %a{0}, %x, %x;\n", i);
    sums += fmt::format("add.f32 %x, %x, %a{};\n", i);
  }
  kernel("tfm_peak_f32", fmt::format(".reg .f32 %a<{}>, %x;\n", chains),
         "mov.f32 %x, 0f3F000000;\n" + zeros +
             repeated(turn, sums + "st.global.f32 [%at], %x;\n"));
  zeros = turn = sums = "";
  for (int i = 0; i != 4 * chains; ++i) {
    zeros += fmt::format("mov.f32 %a{}, 0f00000000;\n", i);
    sums += fmt::format("add.f32 %x, %x, %a{};\n", i);
  }
  for (int i = 0; i != 4 * chains; i += 4)
    turn += fmt::format(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {{%a{0}, %a{1}, "
        "%a{2}, %a{3}}}, {{%b, %b, %b, %b}}, {{%b, %b}}, {{%a{0}, %a{1}, "
        "%a{2}, %a{3}}};\n",
        i, i + 1, i + 2, i + 3);
  kernel("tfm_peak_bf16_mma",
         fmt::format(".reg .f32 %a<{}>, %x;\n.reg .b32 %b;\n", 4 * chains),
         "mov.f32 %x, 0f00000000;\nmov.b32 %b, 0x3F803F80;\n" + zeros +
             repeated(turn, sums + "st.global.f32 [%at], %x;\n"));
  // Every thread takes what lies a grid further each time.
  auto passing = [](const std::string &turn, const std::string &stored) {
    return "mul.lo.u64 %number, %number, 16;\nadd.u64 %number, %number, %at;\n"
           "add.u64 %at, %at, %first;\n"
           "setp.ge.u64 %more, %at, %number;\n@%more bra End;\nLoop:\n" +
           turn +
           "add.u64 %at, %at, %step;\nsetp.lt.u64 %more, %at, %number;\n"
           "@%more bra Loop;\n" +
           stored + "End:\n";
  };
  std::string vectors = ".reg .b32 %v<4>, %x;\n";
  kernel("tfm_peak_read", vectors + ".reg .pred %never;\n.reg .b64 %to;\n",
         "mov.b32 %x, 0;\nadd.u64 %to, %at, %first;\n" +
             passing("ld.global.v4.b32 {%v0, %v1, %v2, %v3}, [%at];\n"
                     "xor.b32 %x, %x, %v0;\nxor.b32 %x, %x, %v1;\n"
                     "xor.b32 %x, %x, %v2;\nxor.b32 %x, %x, %v3;\n",
                     "setp.eq.u32 %never, %x, 0x12345678;\n"
                     "@%never st.global.b32 [%to], %x;\n"));
  kernel("tfm_peak_add", vectors,
         passing("ld.global.v4.b32 {%v0, %v1, %v2, %v3}, [%at];\n"
                 "add.u32 %v0, %v0, 1;\nadd.u32 %v1, %v1, 1;\n"
                 "add.u32 %v2, %v2, 1;\nadd.u32 %v3, %v3, 1;\n"
                 "st.global.v4.b32 [%at], {%v0, %v1, %v2, %v3};\n",
                 ""));
  return text;
}

CudaPeaks::CudaPeaks(const CudaDriver &driver, Stream stream,
                     int multiprocessors,
                     const std::vector<std::string_view> &products,
                     size_t reading)
    : driver(driver), stream(stream),
      blocks(blocksEach * static_cast<unsigned>(multiprocessors)) {
  measureToo(products);
  for (const Peak &peak : all)
    if (peak.products != TFM_PRODUCTS_F32 &&
        peak.products != TFM_PRODUCTS_BF16_MMA)
      throw std::logic_error("no GPU computes products of " +
                             std::string(peak.products));
  try {
    open(reading);
    measure();
  } catch (...) {
    close();
    throw;
  }
}

CudaPeaks::~CudaPeaks() { close(); }

void CudaPeaks::open(size_t reading) {
  std::string text = peakKernels();
  driver.check(driver.call.cuModuleLoadDataEx(&module, text.c_str(), 0, nullptr,
                                              nullptr),
               "load the kernels that measure it");
  for (Event &event : events)
    driver.check(driver.call.cuEventCreate(&event, eventWithTiming),
                 "make an event");
  size_t left = 0, total = 0;
  driver.check(driver.call.cuMemGetInfo_v2(&left, &total), "tell its memory");
  // Enough for a number of every thread.
  bytes = std::max<size_t>(std::min(left / 2, size_t{512} << 20),
                           size_t{blocks} * blockThreads * vector) /
          vector * vector;
  readBytes = std::clamp(reading / vector * vector, vector, bytes);
  driver.check(driver.call.cuMemAlloc_v2(&memory, bytes), "give memory");
  driver.check(driver.call.cuMemsetD8Async(memory, 0, bytes, stream),
               "clear memory");
}

void CudaPeaks::close() {
  if (memory)
    driver.call.cuMemFree_v2(memory);
  for (Event event : events)
    if (event)
      driver.call.cuEventDestroy_v2(event);
  if (module)
    driver.call.cuModuleUnload(module);
}

double CudaPeaks::time(const char *kernel, uint64_t number) {
  Function function = nullptr;
  driver.check(driver.call.cuModuleGetFunction(&function, module, kernel),
               "find a kernel");
  void *parameters[] = {&memory, &number};
  double best = 0;
  for (int i = 0; i != 2; ++i) {
    driver.check(driver.call.cuEventRecord(events[0], stream), "note the time");
    driver.check(driver.call.cuLaunchKernel(function, blocks, 1, 1,
                                            blockThreads, 1, 1, 0, stream,
                                            parameters, nullptr),
                 "run a kernel");
    driver.check(driver.call.cuEventRecord(events[1], stream), "note the time");
    driver.check(driver.call.cuEventSynchronize(events[1]), "go on");
    float milliseconds = 0;
    driver.check(
        driver.call.cuEventElapsedTime(&milliseconds, events[0], events[1]),
        "tell the time");
    double seconds = std::max(static_cast<double>(milliseconds), 1e-6) / 1e3;
    best = i == 0 ? seconds : std::min(best, seconds);
  }
  return best;
}

void CudaPeaks::measure() {
  auto size = static_cast<double>(bytes);
  double read = size / time("tfm_peak_read", bytes / vector);
  double added = 2 * size / time("tfm_peak_add", bytes / vector);
  bestBandwidth = std::max({bestBandwidth, read, added});
  auto some = static_cast<double>(readBytes);
  bestReading = std::max(
      bestReading, readBytes == bytes
                       ? read
                       : some / time("tfm_peak_read", readBytes / vector));
  double threads = static_cast<double>(blocks) * blockThreads;
  for (Peak &peak : all) {
    bool isMma = peak.products == TFM_PRODUCTS_BF16_MMA;
    // Of a warp's 32 threads together.
    double each = isMma ? 2.0 * 16 * 8 * 16 / 32 : 2.0;
    double operations = threads * turns * chains * each;
    peak.flops = std::max(
        peak.flops,
        operations / time(isMma ? "tfm_peak_bf16_mma" : "tfm_peak_f32", turns));
  }
}

} // namespace tfm
