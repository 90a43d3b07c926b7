//===- MemoryPlan.cpp - what a build of a model takes in memory -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MemoryPlan.h"
#include "Output.h"

#include "compiler/dialect/Programs.h"
#include "compiler/driver/Compile.h"
#include "compiler/driver/Pipelines.h"
#include "compiler/schedule/SchedDialect.h"
#include "compiler/schedule/View.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/MathExtras.h"

using namespace tfm;

/// A total that planning has left at the module.
static int64_t total(mlir::ModuleOp module, llvm::StringRef name) {
  return module->getAttrOfType<mlir::IntegerAttr>(name).getInt();
}

/// What a program keeps alive, and up to where it reaches.
static MemoryPhase phaseOf(sched::ProgramOp program) {
  auto module = program->getParentOfType<mlir::ModuleOp>();
  MemoryPhase phase;
  phase.name = program.getSymName().str();
  std::optional<ProgramKind> kind = programKind(phase.name);
  phase.usesGradients =
      kind == ProgramKind::Train || kind == ProgramKind::Update;
  phase.usesOptimizer = kind == ProgramKind::Update;
  phase.usesCache = kind == ProgramKind::Prefill || kind == ProgramKind::Decode;
  int64_t start =
      total(module, "sched.arena") - total(module, "sched.activations");
  program.walk([&](sched::BufferOp buffer) {
    std::optional<llvm::ArrayRef<int64_t>> live = buffer.getLive();
    if (!live)
      return;
    int64_t size = llvm::alignTo(buffer.getBytes(), bufferAlignment);
    phase.activations =
        std::max(phase.activations,
                 static_cast<int64_t>(*buffer.getOffset()) + size - start);
    int64_t begin = (*live)[0], end = (*live)[1];
    if (static_cast<int64_t>(phase.live.size()) <= end)
      phase.live.resize(end + 1);
    for (int64_t at = begin; at <= end; ++at)
      phase.live[at] += size;
  });
  return phase;
}

const KernelTarget *tfm::findTarget(const std::string &target,
                                    const std::string &cpu) {
  registerTargets();
  llvm::Expected<std::vector<const KernelTarget *>> found =
      KernelTarget::variants(target, cpu);
  if (found && found->size() == 1)
    return found->front();
  messages() << "tfmc: error: "
             << (found ? "a plan is that of one CPU: name one with --cpu"
                       : llvm::toString(found.takeError()))
             << '\n';
  return nullptr;
}

MemoryReport tfm::planModelMemory(mlir::ModuleOp module,
                                  const KernelTarget &target) {
  MemoryReport memory;
  memory.target = target.kind();
  memory.machine = target.machine();
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
  if (failed(prepare(module, target)))
    llvm::report_fatal_error("the model could not be prepared for planning");
  if (failed(scheduleModel(module, target)))
    llvm::report_fatal_error("the model could not be scheduled for planning");
  for (auto buffer : module.getOps<sched::BufferOp>()) {
    switch (buffer.getKind()) {
    case sched::BufferKind::Parameter:
      memory.parameters += buffer.getBytes();
      break;
    case sched::BufferKind::Gradient:
      memory.gradients += buffer.getBytes();
      break;
    case sched::BufferKind::State:
      memory.optimizer += buffer.getBytes();
      break;
    case sched::BufferKind::Constant:
      memory.constants += buffer.getBytes();
      break;
    case sched::BufferKind::Cache:
      memory.cache += buffer.getBytes();
      break;
    case sched::BufferKind::Activation:
      break;
    }
  }
  // As a run goes through them.
  for (ProgramKind kind : builtPrograms())
    if (auto program = module.lookupSymbol<sched::ProgramOp>(nameOf(kind)))
      memory.phases.push_back(phaseOf(program));
  // What generation keeps counts with what it computes.
  int64_t activations = total(module, "sched.activations");
  memory.activations = activations + memory.cache;
  memory.arena = total(module, "sched.arena");
  // What outlives a step has a place of its own in any plan.
  memory.lowerBound =
      memory.arena - activations + total(module, "sched.lower_bound");
  return memory;
}
