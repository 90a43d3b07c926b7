//===- CompiledModel.cpp - a model compiled into this process -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tests/unit/codegen/CompiledModel.h"
#include "compiler/target/cpu/CpuMachine.h"

#include "compiler/dialect/TfmDialect.h"
#include "compiler/driver/Compile.h"
#include "compiler/driver/Pipelines.h"
#include "runtime/support/float16.h"
#include "tests/unit/codegen/EmulatedGpu.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

using namespace tfm;

namespace {

/// Gives each piece to whoever comes first, also all to one thread.
struct Pool {
  std::mutex mutex;
  std::condition_variable changed;
  int64_t launch = 0, given = 0, computed = 0;
  std::function<void(uint64_t)> between;
};

/// One of its threads: at which launch it is, and whether it has a piece of it.
struct Worker {
  Pool &pool;
  size_t scratchBytes;
  int64_t launch = 0;
  bool computes = false;
  /// Whether it computed the last piece of the launch.
  bool wasLast = false;
};

/// What memory of a CPU and of a GPU is aligned to at least.
constexpr size_t CacheLine = 64, GpuAlignment = 256;

/// The first byte of `storage` that is a multiple of `alignment`; there are as
/// many more than are needed.
char *aligned(std::vector<char> &storage, size_t alignment = CacheLine) {
  return reinterpret_cast<char *>(
      llvm::alignAddr(storage.data(), llvm::Align(alignment)));
}

/// Of the piece that a worker computes: it has. With the pool's lock held.
void countPiece(Worker &worker, int64_t count) {
  worker.wasLast = ++worker.pool.computed == count;
  worker.computes = false;
}

/// Nothing that a piece leaves in scratch is of use to another: these are NaN.
void poison(tfm_thread *thread) {
  auto &worker = *static_cast<Worker *>(thread->pool);
  memset(thread->scratch, 0xff, worker.scratchBytes);
}

int64_t finishPiece(tfm_thread *thread) {
  auto &worker = *static_cast<Worker *>(thread->pool);
  std::unique_lock lock(worker.pool.mutex);
  countPiece(worker, thread->count);
  if (worker.wasLast)
    poison(thread);
  return worker.wasLast;
}

int64_t claimNext(tfm_thread *thread) {
  auto &worker = *static_cast<Worker *>(thread->pool);
  Pool &pool = worker.pool;
  std::unique_lock lock(pool.mutex);
  if (worker.computes)
    countPiece(worker, thread->count);
  if (worker.wasLast) {
    worker.wasLast = false;
    ++pool.launch;
    if (pool.between)
      pool.between(pool.launch);
    pool.given = pool.computed = 0;
    pool.changed.notify_all();
  }
  worker.computes = pool.launch == worker.launch && pool.given < thread->count;
  if (worker.computes) {
    poison(thread);
    return pool.given++;
  }
  pool.changed.wait(lock, [&] { return pool.launch > worker.launch; });
  ++worker.launch;
  return -1;
}

} // namespace

/// The CPU that is asked for; null where none is.
static const char *namedCpu() { return std::getenv("TFM_TEST_CPU"); }

/// Tolerances are to hold for the code of any CPU that can run here: the one
/// that is asked for, else the fastest.
static std::string testedCpu() {
  if (const char *cpu = namedCpu())
    return cpu;
  return llvm::cantFail(CpuMachine::native()).withTiles() ? "native+amx"
                                                          : "native";
}

CpuMachine tfm::testedMachine() {
  return llvm::cantFail(CpuMachine::named(namedCpu() ? namedCpu() : "native"));
}

bool tfm::testsGpu() {
  const char *target = std::getenv("TFM_TEST_TARGET");
  return target && llvm::StringRef(target).starts_with("cuda");
}

/// Whether it is one of compute capability 9.0.
static bool testsForms() {
  return testsGpu() &&
         llvm::StringRef(std::getenv("TFM_TEST_TARGET")).ends_with("sm_90a");
}

const KernelTarget &tfm::testedTarget() {
  registerTargets();
  if (testsGpu())
    return *llvm::cantFail(KernelTarget::named("cuda"));
  if (const char *cpu = namedCpu())
    return *llvm::cantFail(KernelTarget::named(std::string("cpu:") + cpu));
  return nativeTarget();
}

/// The targets of a kind for a list of machines.
static std::vector<const KernelTarget *> targetsOf(llvm::StringRef kind,
                                                   llvm::StringRef machines) {
  registerTargets();
  return llvm::cantFail(KernelTarget::variants(kind, machines));
}

CompiledModel::CompiledModel(mlir::ModuleOp module)
    : CompiledModel(module,
                    testsGpu() ? targetsOf("cuda", "native")
                               : targetsOf("cpu", testedCpu()),
                    0) {}

CompiledModel::CompiledModel(mlir::ModuleOp module, llvm::StringRef cpus,
                             size_t number)
    : CompiledModel(module, targetsOf("cpu", cpus), number) {}

CompiledModel::~CompiledModel() = default;

CompiledModel::CompiledModel(mlir::ModuleOp module,
                             llvm::ArrayRef<const KernelTarget *> targets,
                             size_t number) {
  std::vector<mlir::OwningOpRef<mlir::ModuleOp>> schedules;
  std::vector<ScheduledModel> variants;
  for (const KernelTarget *target : targets) {
    schedules.push_back(module.clone());
    bool scheduled = succeeded(scheduleModel(*schedules.back(), *target));
    assert(scheduled && "scheduling failed");
    (void)scheduled;
    variants.push_back({*schedules.back(), *target});
  }
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> llvmModule = emitModel(variants, context);
  assert(llvmModule && "emission failed");
  schedule = std::move(schedules[number]);
  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream os(object);
  // What the host does for a GPU is code of the host.
  bool onGpu = targets.front()->kind() == "cuda";
  const KernelTarget &host = onGpu ? nativeTarget() : *targets.front();
  llvm::cantFail(host.writeObject(*llvmModule, os));
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  jit = llvm::cantFail(llvm::orc::LLJITBuilder().create());
  llvm::cantFail(
      jit->addObjectFile(std::make_unique<llvm::SmallVectorMemoryBuffer>(
          std::move(object), false)));
  model = llvm::cantFail(jit->lookup("tfm_model_descriptor"))
              .toPtr<const tfm_model *>();
  variant = &model->variants[number];
  storage.resize(variant->arena_bytes + GpuAlignment);
  arena = aligned(storage, onGpu ? GpuAlignment : CacheLine);
  for (int i = 0; i < variant->constant_count; ++i)
    memcpy(arena + variant->constants[i].offset, variant->constants[i].data,
           variant->constants[i].size);
  if (onGpu)
    gpu = std::make_unique<EmulatedGpu>(
        *schedule, *variant, llvm::MutableArrayRef(arena, variant->arena_bytes),
        testsForms());
}

/// Where in its regions a parameter begins, in elements.
static int64_t elementOf(ParamOp param) {
  return param->getAttrOfType<mlir::IntegerAttr>("sched.offset").getInt() / 4;
}

void CompiledModel::setParameter(llvm::StringRef symbol,
                                 const oracle::Tensor &value) {
  copiesAreStale = variant->copies.bytes != 0;
  auto param = schedule.get().lookupSymbol<ParamOp>(symbol);
  auto offset = param->getAttrOfType<mlir::IntegerAttr>("sched.offset");
  mlir::Type element = param.getTensorType().getElementType();
  auto *region = reinterpret_cast<char *>(
                     this->region(sched::BufferKind::Parameter).data()) +
                 offset.getInt();
  for (double number : value.data) {
    auto store = [&](auto stored) {
      std::memcpy(region, &stored, sizeof stored);
      region += sizeof stored;
    };
    if (element.isBF16())
      store(toBFloat16(static_cast<float>(number)));
    else if (element.isInteger(8))
      store(static_cast<int8_t>(static_cast<int64_t>(number)));
    else
      store(static_cast<float>(number));
  }
}

oracle::Tensor CompiledModel::slot(llvm::StringRef symbol,
                                   sched::BufferKind kind) const {
  auto param = schedule.get().lookupSymbol<ParamOp>(symbol);
  mlir::RankedTensorType type = param.getTensorType();
  oracle::Tensor result;
  result.data.clear();
  result.shape.assign(type.getShape().begin(), type.getShape().end());
  llvm::append_range(
      result.data, region(kind).slice(elementOf(param), type.getNumElements()));
  return result;
}

llvm::MutableArrayRef<float>
CompiledModel::region(sched::BufferKind kind) const {
  for (auto buffer : schedule.get().getOps<sched::BufferOp>())
    if (buffer.getKind() == kind)
      return {reinterpret_cast<float *>(arena + *buffer.getOffset()),
              static_cast<size_t>(buffer.getBytes() / 4)};
  llvm_unreachable("no such region");
}

oracle::Tensor CompiledModel::gradient(llvm::StringRef symbol) const {
  return slot(symbol, sched::BufferKind::Gradient);
}

oracle::Tensor CompiledModel::parameter(llvm::StringRef symbol) const {
  return slot(symbol, sched::BufferKind::Parameter);
}

llvm::ArrayRef<float> CompiledModel::parameters() const {
  return region(sched::BufferKind::Parameter);
}

llvm::ArrayRef<float> CompiledModel::gradients() const {
  return region(sched::BufferKind::Gradient);
}

void CompiledModel::clearGradients() {
  llvm::fill(region(sched::BufferKind::Gradient), 0.0f);
}

oracle::Tensor CompiledModel::read(const tfm_buffer &buffer) const {
  oracle::Tensor result;
  result.data.clear();
  int64_t n = 1;
  for (int i = 0; i < buffer.rank; ++i) {
    result.shape.push_back(buffer.shape[i]);
    n *= buffer.shape[i];
  }
  const char *from = arena + buffer.offset;
  for (int64_t i = 0; i < n; ++i)
    result.data.push_back(
        buffer.dtype == TFM_F32   ? reinterpret_cast<const float *>(from)[i]
        : buffer.dtype == TFM_I32 ? reinterpret_cast<const int32_t *>(from)[i]
                                  : from[i]);
  return result;
}

std::vector<oracle::Tensor>
CompiledModel::run(llvm::StringRef name, llvm::ArrayRef<oracle::Tensor> inputs,
                   int threads) {
  if (copiesAreStale) {
    copiesAreStale = false;
    run(TFM_REFRESH, {}, threads);
  }
  const tfm_function *function = nullptr;
  for (int i = 0; i < variant->function_count; ++i)
    if (name == variant->functions[i].name)
      function = &variant->functions[i];
  assert(function &&
         static_cast<size_t>(function->input_count) == inputs.size());
  // What another function left there is of no use to this one.
  if (gpu)
    schedule->lookupSymbol(name)->walk([&](sched::BufferOp buffer) {
      if (buffer.getKind() == sched::BufferKind::Activation &&
          buffer.getOffset())
        memset(arena + *buffer.getOffset(), 0xff, buffer.getBytes());
    });
  for (auto [i, input] : llvm::enumerate(inputs)) {
    const tfm_buffer &buffer = function->inputs[i];
    for (auto [j, value] : llvm::enumerate(input.data)) {
      char *to = arena + buffer.offset;
      if (buffer.dtype == TFM_F32)
        reinterpret_cast<float *>(to)[j] = static_cast<float>(value);
      else if (buffer.dtype == TFM_I32)
        reinterpret_cast<int32_t *>(to)[j] = static_cast<int32_t>(value);
      else
        to[j] = static_cast<char>(value);
    }
  }
  if (gpu)
    gpu->run(*function, threads);
  else
    runOnThreads(*function, threads);
  std::vector<oracle::Tensor> results;
  for (int i = 0; i < function->output_count; ++i)
    results.push_back(read(function->outputs[i]));
  return results;
}

void CompiledModel::runOnThreads(const tfm_function &function, int threads) {
  Pool pool;
  pool.between = betweenLaunches;
  std::vector<std::thread> workers;
  std::vector<std::vector<char>> scratch(
      threads, std::vector<char>(variant->scratch_bytes + CacheLine));
  for (int i = 0; i < threads; ++i)
    workers.emplace_back([&, i] {
      Worker worker{pool, variant->scratch_bytes};
      tfm_thread thread{.index = i,
                        .count = threads,
                        .claim = claimNext,
                        .finish = finishPiece,
                        .scratch = aligned(scratch[i]),
                        .pool = &worker,
                        .events = nullptr};
      function.run(arena, &thread);
    });
  for (std::thread &worker : workers)
    worker.join();
}
