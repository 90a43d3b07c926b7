//===- MemoryPlan.cpp - what a build of a model takes in memory -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/driver/MemoryPlan.h"

#include "compiler/dialect/Attributes.h"
#include "compiler/dialect/Programs.h"
#include "compiler/driver/Compile.h"
#include "compiler/report/Flops.h"
#include "compiler/schedule/Attributes.h"
#include "compiler/schedule/SchedDialect.h"
#include "compiler/schedule/View.h"
#include "compiler/transforms/ReadRecipe.h"
#include "runtime/tfm_model.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/ErrorHandling.h"

#include <map>

using namespace tfm;

/// A total that planning has left at the module.
static int64_t total(mlir::ModuleOp module, llvm::StringRef name) {
  return module->getAttrOfType<mlir::IntegerAttr>(name).getInt();
}

namespace {

/// The type of the elements of every buffer: that of the views on it, by their
/// widest where they differ.
class ElementTypes {
public:
  explicit ElementTypes(mlir::ModuleOp module) {
    module.walk([&](sched::ViewOp view) {
      mlir::MemRefType type = view.getView().getType();
      Widest &widest = of[view.getBuffer()];
      if (int64_t span = viewOf(type).spanBytes(); span > widest.bytes)
        widest = {span, type.getElementType()};
    });
  }

  /// Adds the buffer's bytes under the name of their type; of a buffer that
  /// nothing looks at nobody knows it.
  void add(sched::BufferOp buffer, int64_t bytes,
           std::map<std::string, int64_t> &byType) const {
    if (auto found = of.find(buffer.getBuffer()); found != of.end())
      byType[dtypeOf(found->second.element)] += bytes;
  }

private:
  struct Widest {
    int64_t bytes = 0;
    mlir::Type element;
  };
  llvm::DenseMap<mlir::Value, Widest> of;
};

} // namespace

/// The most first.
static BytesByType sorted(const std::map<std::string, int64_t> &byType) {
  BytesByType list(byType.begin(), byType.end());
  llvm::sort(list, [](const auto &a, const auto &b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  return list;
}

/// Adds the `bytes` of all parameters, which may be of several types; what
/// fills up lines and regions counts with the type of most of them.
static void addParameters(mlir::ModuleOp module, int64_t bytes,
                          std::map<std::string, int64_t> &byType) {
  for (auto param : module.getOps<ParamOp>()) {
    int64_t own = contiguousView(param.getTensorType()).numBytes();
    byType[dtypeOf(param.getTensorType().getElementType())] += own;
    bytes -= own;
  }
  if (byType.empty())
    return;
  auto most = llvm::max_element(
      byType, [](const auto &a, const auto &b) { return a.second < b.second; });
  most->second += bytes;
}

/// Visits the activations of a program with the first and last launch during
/// which they are alive.
static void forEachActivation(
    sched::ProgramOp program,
    llvm::function_ref<void(sched::BufferOp, int64_t, int64_t)> visit) {
  program.walk([&](sched::BufferOp buffer) {
    if (std::optional<llvm::ArrayRef<int64_t>> live = buffer.getLive())
      visit(buffer, (*live)[0], (*live)[1]);
  });
}

/// What a program keeps alive, and up to where it reaches.
static MemoryPhase phaseOf(sched::ProgramOp program,
                           const ElementTypes &types) {
  auto module = program->getParentOfType<mlir::ModuleOp>();
  MemoryPhase phase;
  phase.name = program.getSymName().str();
  std::optional<ProgramKind> kind = programKind(phase.name);
  phase.usesGradients =
      kind == ProgramKind::Train || kind == ProgramKind::Update;
  phase.usesOptimizer = kind == ProgramKind::Update;
  phase.usesCache = kind && (kind == ProgramKind::Encode ||
                             llvm::is_contained(cachedPrograms(), *kind));
  int64_t start =
      total(module, arenaAttribute) - total(module, activationsAttribute);
  forEachActivation(
      program, [&](sched::BufferOp buffer, int64_t begin, int64_t end) {
        int64_t size = buffer.getArenaBytes();
        phase.activations =
            std::max(phase.activations,
                     static_cast<int64_t>(*buffer.getOffset()) + size - start);
        if (static_cast<int64_t>(phase.live.size()) <= end)
          phase.live.resize(end + 1);
        for (int64_t at = begin; at <= end; ++at)
          phase.live[at] += size;
      });
  int64_t fullest = llvm::max_element(phase.live) - phase.live.begin();
  std::map<std::string, int64_t> byType;
  forEachActivation(program,
                    [&](sched::BufferOp buffer, int64_t begin, int64_t end) {
                      if (begin <= fullest && fullest <= end)
                        types.add(buffer, buffer.getArenaBytes(), byType);
                    });
  phase.liveTypes = sorted(byType);
  return phase;
}

/// The shape of the tokens that a program takes; empty where it takes none.
static llvm::ArrayRef<int64_t> tokensOf(sched::ProgramOp program) {
  for (auto input : program.getBlock()->getOps<sched::InputOp>())
    if (input.getName() == TFM_IN_TOKENS)
      return input.getView().getType().getShape();
  return {};
}

/// The activations of @train that forward leaves to backward: alive when the
/// loss is written, and read after that. What goes into the function and comes
/// out of it is none of them.
static BytesByType savedTypes(sched::ProgramOp train,
                              const ElementTypes &types) {
  llvm::DenseSet<mlir::Value> ports;
  std::optional<int64_t> loss;
  for (mlir::Operation &op : train.getBody().getOps()) {
    if (!isa<sched::InputOp, sched::OutputOp>(op))
      continue;
    auto view = op.getOperand(0).getDefiningOp<sched::ViewOp>();
    auto buffer = view.getBuffer().getDefiningOp<sched::BufferOp>();
    ports.insert(buffer.getBuffer());
    std::optional<llvm::ArrayRef<int64_t>> live = buffer.getLive();
    if (isa<sched::OutputOp>(op) && live)
      loss = std::min(loss.value_or((*live)[0]), (*live)[0]);
  }
  std::map<std::string, int64_t> byType;
  if (loss)
    forEachActivation(train, [&](sched::BufferOp buffer, int64_t begin,
                                 int64_t end) {
      if (begin <= *loss && *loss < end && !ports.contains(buffer.getBuffer()))
        types.add(buffer, buffer.getArenaBytes(), byType);
    });
  return sorted(byType);
}

void tfm::prepareForPlan(mlir::ModuleOp module, const KernelTarget &target,
                         FlopsReport *flops) {
  // A report may have added these to count their FLOPs; preparing makes them
  // itself.
  for (ProgramKind kind : {ProgramKind::Train, ProgramKind::UpdateDecayed,
                           ProgramKind::UpdatePlain})
    if (auto added = findProgram(module, kind))
      added.erase();
  if (failed(prepare(module, target)))
    llvm::report_fatal_error("the model could not be prepared for planning");
  if (flops)
    if (llvm::Error error = countProducts(module, *flops))
      llvm::report_fatal_error(std::move(error));
}

/// A type as recipes name it.
static std::string wordOf(mlir::FailureOr<mlir::Type> type) {
  if (failed(type))
    return "f32";
  return type->isInteger()
             ? "int" + std::to_string(type->getIntOrFloatBitWidth())
             : dtypeOf(*type);
}

/// The types of the recipe, as it names them.
static void addPrecision(mlir::ModuleOp module, MemoryReport &memory) {
  if (mlir::FailureOr<mlir::FloatType> precision = precisionOf(module);
      succeeded(precision))
    memory.precision = dtypeOf(*precision);
  memory.weights = wordOf(weightsOfGeneration(module));
  memory.cacheType = wordOf(cacheOfGeneration(module));
}

/// The batch and length of training where there is any, else of generation.
static void addBatch(mlir::ModuleOp module, MemoryReport &memory) {
  auto function = findProgram(module, ProgramKind::Loss);
  if (!function)
    function = findProgram(module, ProgramKind::Forward);
  if (!function || function.getNumArguments() == 0)
    return;
  auto first =
      llvm::cast<mlir::RankedTensorType>(function.getArgumentTypes().front());
  memory.batch = first.getRank() > 0 ? first.getDimSize(0) : 1;
  if (auto tokens = findArgument(function, TFM_IN_TOKENS))
    if (auto type = llvm::cast<mlir::RankedTensorType>(
            function.getArgumentTypes()[*tokens]);
        type.getRank() > 1)
      memory.sequence = type.getDimSize(1);
  // Of the sequence that the model goes over, whatever else it is given.
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto type =
        llvm::dyn_cast<mlir::RankedTensorType>(function.getArgumentTypes()[i]);
    auto dims = function.getArgAttrOfType<mlir::ArrayAttr>(i, dimsAttribute);
    if (!type || !dims || dims.size() != static_cast<size_t>(type.getRank()))
      continue;
    for (auto [axis, name] :
         llvm::enumerate(dims.getAsRange<mlir::StringAttr>())) {
      if (name.getValue() == "B")
        memory.batch = type.getDimSize(axis);
      else if (name.getValue() == "T")
        memory.sequence = type.getDimSize(axis);
    }
  }
}

/// What outlives a program.
static void addBuffers(mlir::ModuleOp module, const ElementTypes &types,
                       MemoryReport &memory) {
  std::map<std::string, int64_t> parameters, gradients, optimizer, constants,
      cache;
  for (auto buffer : module.getOps<sched::BufferOp>()) {
    int64_t bytes = buffer.getArenaBytes(); // with what fills up its last line
    switch (buffer.getKind()) {
    case sched::BufferKind::Parameter:
      memory.parameters += bytes;
      addParameters(module, bytes, parameters);
      break;
    case sched::BufferKind::ParameterCopy:
      // What products read of parameters is counted with them.
      memory.parameters += bytes;
      types.add(buffer, bytes, parameters);
      break;
    case sched::BufferKind::Gradient:
      // Sums of gradients that wait for others are the runtime's.
      memory.gradients += bytes;
      gradients["f32"] += bytes;
      break;
    case sched::BufferKind::State:
      memory.optimizer += bytes;
      types.add(buffer, bytes, optimizer);
      break;
    case sched::BufferKind::Constant:
      memory.constants += bytes;
      types.add(buffer, bytes, constants);
      break;
    case sched::BufferKind::Cache:
      memory.cache += bytes;
      types.add(buffer, bytes, cache);
      break;
    case sched::BufferKind::Activation:
      break;
    }
  }
  memory.types = {{"parameters", sorted(parameters)},
                  {"gradients", sorted(gradients)},
                  {"optimizer", sorted(optimizer)},
                  {"constants", sorted(constants)},
                  {"cache", sorted(cache)}};
}

/// What programs keep alive, in the order in which a run goes through them.
static void addPhases(mlir::ModuleOp module, const ElementTypes &types,
                      MemoryReport &memory) {
  if (auto train =
          module.lookupSymbol<sched::ProgramOp>(nameOf(ProgramKind::Train)))
    memory.types.emplace_back("saved", savedTypes(train, types));
  for (ProgramKind kind : builtPrograms())
    // Copying parameters takes no memory of its own, and a part of an update no
    // other than all of it.
    if (auto program = module.lookupSymbol<sched::ProgramOp>(nameOf(kind));
        program && kind != ProgramKind::Refresh &&
        kind != ProgramKind::Squares && kind != ProgramKind::UpdateDecayed &&
        kind != ProgramKind::UpdatePlain)
      memory.phases.push_back(phaseOf(program, types));
}

/// How many tokens programs of generation take at once.
static void addGeneration(mlir::ModuleOp module, MemoryReport &memory) {
  for (ProgramKind kind : cachedPrograms())
    if (auto program = module.lookupSymbol<sched::ProgramOp>(nameOf(kind))) {
      llvm::ArrayRef<int64_t> tokens = tokensOf(program);
      if (tokens.empty())
        return; // nothing that texts are made with
      if (kind == ProgramKind::Decode)
        memory.texts = tokens[0];
      else if (int64_t chunk = tokens[0] * tokens[1];
               !llvm::is_contained(memory.chunks, chunk))
        memory.chunks.push_back(chunk);
    }
}

MemoryReport tfm::planModelMemory(mlir::ModuleOp module,
                                  const KernelTarget &target,
                                  FlopsReport *flops,
                                  const ShareRequest &shares) {
  MemoryReport memory;
  addPrecision(module, memory);
  memory.target = target.kind();
  memory.machine = target.machine();
  addBatch(module, memory);
  prepareForPlan(module, target, flops);
  if (failed(scheduleModel(module, target)))
    llvm::report_fatal_error("the model could not be scheduled for planning");
  ElementTypes types(module);
  addBuffers(module, types, memory);
  addPhases(module, types, memory);
  addGeneration(module, memory);
  // What generation keeps counts with what it computes.
  int64_t activations = total(module, activationsAttribute);
  memory.activations = activations + memory.cache;
  memory.arena = total(module, arenaAttribute);
  // What outlives a step has a place of its own in any plan.
  memory.lowerBound =
      memory.arena - activations + total(module, lowerBoundAttribute);
  memory.shared = planShares(module, target, memory, shares);
  return memory;
}
