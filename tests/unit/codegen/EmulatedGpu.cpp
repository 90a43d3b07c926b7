//===- EmulatedGpu.cpp - a model's kernels in the emulator ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tests/unit/codegen/EmulatedGpu.h"

#include "compiler/schedule/Launches.h"
#include "compiler/schedule/SchedDialect.h"
#include "compiler/schedule/View.h"
#include "tests/unit/emulator/Recorder.h"

#include "gtest/gtest.h"

using namespace tfm;

/// The one of this process.
static emulator::Machine &machine() {
  static emulator::Machine machine;
  return machine;
}

EmulatedGpu::EmulatedGpu(mlir::ModuleOp schedule, const tfm_variant &variant,
                         llvm::MutableArrayRef<char> arena, bool hasForms)
    : schedule(schedule), variant(variant), arena(arena), hasForms(hasForms) {
  emulator::recordLaunches();
  llvm::Expected<emulator::Program> loaded = emulator::Program::load(
      schedule.lookupSymbol<mlir::ModuleOp>("kernels"), machine());
  if (loaded)
    program.emplace(std::move(*loaded));
  else
    ADD_FAILURE() << toString(loaded.takeError());
}

using Range = emulator::Machine::Range;

/// The same bytes in ranges that do not touch.
static std::vector<Range> merged(std::vector<Range> ranges) {
  llvm::sort(ranges,
             [](const Range &a, const Range &b) { return a.begin < b.begin; });
  std::vector<Range> result;
  for (const Range &range : ranges)
    if (!result.empty() && range.begin <= result.back().end)
      result.back().end = std::max(result.back().end, range.end);
    else
      result.push_back(range);
  return result;
}

std::optional<emulator::Fault> EmulatedGpu::launch(mlir::Operation *step,
                                                   emulator::Kernel kernel,
                                                   const tfm_kernel &record,
                                                   const uint64_t *arguments) {
  std::vector<Range> operands, written;
  const uint64_t *next = arguments;
  for (mlir::Operation *part : partsOf(step)) {
    llvm::SmallVector<mlir::Value> reads, writes;
    if (auto launch = llvm::dyn_cast<sched::LaunchOp>(part)) {
      reads = launch.getReads();
      writes = launch.getWrites();
    } else if (auto copy = llvm::dyn_cast<sched::CopyOp>(part)) {
      reads = {copy.getFrom()};
      writes = {copy.getTo()};
    } else {
      writes = {llvm::cast<sched::FillOp>(part).getTo()};
    }
    llvm::erase_if(reads, isOfBlocks);
    llvm::erase_if(writes, isOfBlocks);
    std::vector<Range> rows;
    // Behind all buffers, the random state and the layer are the rows.
    const uint64_t *row = next + reads.size() + writes.size() + 2;
    auto add = [&](mlir::Value value, bool isWritten) {
      auto type = llvm::cast<mlir::MemRefType>(value.getType());
      uint64_t begin = *next++;
      if (auto view = value.getDefiningOp<sched::ViewOp>(); view.getRow()) {
        begin += *reinterpret_cast<const uint32_t *>(*row) * *view.getRowStep();
        rows.push_back({*row, *row + sizeof(uint32_t)});
        ++row;
      }
      operands.push_back(
          {begin, begin + static_cast<uint64_t>(viewOf(type).spanBytes())});
      if (isWritten)
        written.push_back(operands.back());
    };
    for (mlir::Value value : reads)
      add(value, false);
    for (mlir::Value value : writes)
      add(value, true);
    // The random state, four numbers, where there is one; the layer has no
    // place.
    operands.push_back(*next ? Range{*next, *next + 16} : Range{0, 0});
    operands.push_back({0, 0});
    llvm::append_range(operands, rows);
    next = row;
  }
  for (uint32_t number : kernel.onlyRead)
    for (const Range &range : written)
      if (operands[number].begin < range.end &&
          range.begin < operands[number].end)
        return emulator::Fault{emulator::Fault::Kind::Misuse,
                               kernel.name + " writes behind argument " +
                                   std::to_string(number) +
                                   ", which it says it only reads"};
  std::vector<Range> all = operands;
  auto first = reinterpret_cast<uint64_t>(arena.data());
  all = merged(std::move(all));
  for (const Range &range : all)
    machine().addBuffer(
        "the operands from byte " + std::to_string(range.begin - first) +
            " of the arena on",
        reinterpret_cast<void *>(range.begin), range.end - range.begin);
  machine().setWritable(merged(std::move(written)));
  std::vector<void *> addresses;
  for (uint32_t i = 0; i < record.argument_count; ++i)
    addresses.push_back(const_cast<uint64_t *>(arguments + i));
  std::vector<emulator::TensorMap> maps(record.tensor_count);
  for (auto [map, tensor] : llvm::zip_equal(
           maps, llvm::ArrayRef(record.tensors, record.tensor_count))) {
    std::vector<uint32_t> box(tensor.box, tensor.box + tensor.rank);
    EXPECT_TRUE(emulator::TensorMap::make(
        map, reinterpret_cast<void *>(arguments[tensor.argument]), tensor.rank,
        tensor.sizes, tensor.strides + 1, box.data()));
    addresses.push_back(&map);
  }
  if (kernel.resident)
    kernel.grid[0] =
        std::min(kernel.grid[0], kernel.resident * multiprocessors);
  auto fault = machine().launch(kernel, addresses.data());
  machine().setWritable(std::nullopt);
  for (const Range &range : all)
    machine().removeBuffer(reinterpret_cast<void *>(range.begin));
  return fault;
}

void EmulatedGpu::run(const tfm_function &function, unsigned order) {
  struct Queue : tfm_queue {
    EmulatedGpu &gpu;
    const tfm_function &function;
    llvm::SmallVector<mlir::Operation *> steps;
    bool failed = false;
  } queue{{}, *this, function, {}};
  forEachStep(
      llvm::cast<sched::ProgramOp>(schedule.lookupSymbol(function.name)),
      [&](mlir::Operation *step, int64_t) { queue.steps.push_back(step); });
  queue.launch = [](tfm_queue *base, int64_t launch,
                    const uint64_t *arguments) {
    auto &queue = *static_cast<Queue *>(base);
    EmulatedGpu &gpu = queue.gpu;
    if (queue.failed || !gpu.program)
      return;
    const tfm_kernel *kernels = gpu.variant.kernels;
    int64_t number = queue.function.launches[launch].kernel;
    if (gpu.hasForms && kernels[number].form >= 0)
      number = kernels[number].form;
    const tfm_kernel &kernel = kernels[number];
    const emulator::Kernel *found = gpu.program->find(kernel.name);
    queue.failed = true;
    ASSERT_TRUE(found) << kernel.name;
    // What the driver would be told is what the kernel was made for.
    ASSERT_TRUE(llvm::equal(kernel.grid, found->grid)) << kernel.name;
    ASSERT_TRUE(llvm::equal(kernel.block, found->block)) << kernel.name;
    ASSERT_EQ(kernel.shared_bytes, found->dynamicShared) << kernel.name;
    auto fault = gpu.launch(queue.steps[launch], *found, kernel, arguments);
    ASSERT_FALSE(fault) << queue.function.name << ": " << fault->text;
    queue.failed = false;
  };
  machine().setOrder(order);
  multiprocessors = std::max(order, 1u);
  function.enqueue(reinterpret_cast<uint64_t>(arena.data()), &queue);
}
