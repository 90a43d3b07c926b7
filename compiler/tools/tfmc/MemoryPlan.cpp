//===- MemoryPlan.cpp - what a build of a model takes in memory -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MemoryPlan.h"

#include "compiler/dialect/Programs.h"
#include "compiler/driver/Compile.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/MathExtras.h"

using namespace tfm;

/// What a program keeps alive, and up to where it reaches.
static MemoryPhase phaseOf(const Schedule &schedule, int program) {
  MemoryPhase phase;
  phase.name = schedule.programs[program].name;
  std::optional<ProgramKind> kind = programKind(phase.name);
  phase.usesGradients =
      kind == ProgramKind::Train || kind == ProgramKind::Update;
  phase.usesOptimizer = kind == ProgramKind::Update;
  phase.usesCache = kind == ProgramKind::Prefill || kind == ProgramKind::Decode;
  int64_t start = schedule.arenaBytes - schedule.activationBytes;
  for (const Buffer &buffer : schedule.buffers) {
    if (buffer.kind != BufferKind::Activation || buffer.program != program ||
        buffer.end < 0)
      continue;
    int64_t size = llvm::alignTo(buffer.bytes, bufferAlignment);
    phase.activations =
        std::max(phase.activations, buffer.offset + size - start);
    if (static_cast<int64_t>(phase.live.size()) <= buffer.end)
      phase.live.resize(buffer.end + 1);
    for (int64_t at = buffer.begin; at <= buffer.end; ++at)
      phase.live[at] += size;
  }
  return phase;
}

MemoryReport tfm::planModelMemory(mlir::ModuleOp module) {
  MemoryReport memory;
  // The batch and length of training where there is any, else of generation.
  auto function = findProgram(module, ProgramKind::Loss);
  if (!function)
    function = findProgram(module, ProgramKind::Forward);
  if (function && function.getNumArguments() != 0) {
    auto tokens =
        llvm::cast<mlir::RankedTensorType>(function.getArgumentTypes().front());
    memory.batch = tokens.getRank() > 0 ? tokens.getDimSize(0) : 1;
    memory.sequence = tokens.getRank() > 1 ? tokens.getDimSize(1) : 1;
  }
  // A report may have added these to count their FLOPs; planning makes them
  // itself.
  for (ProgramKind kind : {ProgramKind::Train, ProgramKind::UpdateDecayed,
                           ProgramKind::UpdatePlain})
    if (auto added = findProgram(module, kind))
      added.erase();
  if (failed(prepare(module)))
    llvm::report_fatal_error("the model could not be prepared for planning");
  Schedule schedule = scheduleModel(module);
  for (const Buffer &buffer : schedule.buffers) {
    switch (buffer.kind) {
    case BufferKind::Parameter:
      memory.parameters += buffer.bytes;
      break;
    case BufferKind::Gradient:
      memory.gradients += buffer.bytes;
      break;
    case BufferKind::State:
      memory.optimizer += buffer.bytes;
      break;
    case BufferKind::Constant:
      memory.constants += buffer.bytes;
      break;
    case BufferKind::Cache:
    case BufferKind::Activation:
      break;
    }
  }
  // As a run goes through them.
  for (ProgramKind kind : builtPrograms())
    for (size_t i = 0; i != schedule.programs.size(); ++i)
      if (schedule.programs[i].name == nameOf(kind))
        memory.phases.push_back(phaseOf(schedule, static_cast<int>(i)));
  // What generation keeps counts with what it computes.
  memory.cache = schedule.cacheBytes();
  memory.activations = schedule.activationBytes + memory.cache;
  memory.arena = schedule.arenaBytes;
  // What outlives a step has a place of its own in any plan.
  memory.lowerBound =
      schedule.arenaBytes - schedule.activationBytes + schedule.lowerBound;
  return memory;
}
