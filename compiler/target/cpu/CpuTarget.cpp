//===- CpuTarget.cpp - the target cpu -------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/CpuTarget.h"

#include "compiler/target/KernelTarget.h"
#include "compiler/target/cpu/Attention.h"
#include "compiler/target/cpu/CpuMachine.h"
#include "compiler/target/cpu/Kernels.h"
#include "compiler/target/cpu/Lower.h"
#include "compiler/target/cpu/MatmulPlan.h"
#include "compiler/target/cpu/MicroKernel.h"
#include "compiler/target/cpu/Passes.h"
#include "compiler/target/cpu/Program.h"
#include "compiler/target/cpu/Terms.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/MemoryBufferRef.h"
#include "llvm/TargetParser/Host.h"

using namespace mlir;
using namespace tfm;

namespace {

class CpuTarget final : public KernelTarget {
public:
  explicit CpuTarget(CpuMachine machine)
      : cpu(std::move(machine)), machineName(cpu.name()) {}

  StringRef kind() const override { return "cpu"; }
  StringRef machine() const override { return machineName; }
  std::string features() const override { return cpu.requirements(); }
  std::string identity() const override {
    return machineName + " " + cpu.features;
  }
  std::vector<std::string> faster(const Numbers &numbers) const override {
    // Of all processors with AVX-512, and of all with AArch64, some have
    // instructions for narrow numbers.
    bool isLevel = machineName == "x86-64-v4",
         isGeneric = machineName == "generic";
    std::vector<std::string> names;
    bool suitsTiles =
        numbers.precision.isBF16() || numbers.weights.isInteger(8);
    if (suitsTiles && !cpu.bf16Tiles) {
      if (std::optional<CpuMachine> tiles = cpu.withTiles())
        names.push_back(cpu.isNative ? "native+amx" : tiles->name());
      else if (isLevel)
        names.emplace_back("sapphirerapids+amx");
    }
    // Their pairs of bf16 are twice as fast as f32, those of others are not.
    if (numbers.precision.isBF16() && (isLevel || isGeneric))
      names.emplace_back(isLevel ? "znver4" : "neoverse-n2");
    if ((numbers.weights.isInteger() || numbers.cache.isInteger()) &&
        (isLevel || isGeneric))
      names.emplace_back(isLevel ? "cascadelake" : "neoverse-n1");
    return names;
  }
  StringRef triple() const override { return cpu.triple; }

  void addTensorPasses(OpPassManager &passes) const override {
    passes.addPass(cpu::createSplitProductsPass());
    if (cpu.multipliesIntegers())
      passes.addPass(cpu::createQuantiseActivationsPass());
  }

  bool choosesLayers() const override { return true; }
  bool scansRows() const override { return true; }
  PromptChunks promptChunks() const override {
    // A product of 256 rows packs each panel of weights for 18 or more tiles;
    // one of 8 waits for memory on every machine, and with tiles for integers
    // one of 64 nearly does.
    return {.longest = 256,
            .shorter = 32,
            .segment = 16,
            .segments = cpu.int8Tiles ? 4 : 2,
            .few = fewQueries,
            .ringMultiple = keysTogether};
  }
  /// As the micro-kernel for quads reads them.
  WeightPanels weightPanels() const override {
    if (!cpu.multipliesIntegers())
      return {};
    return {.outputs = cpu.lanes * cpu.tileVectors(),
            .mostTerms = mostQuadTerms};
  }
  bool readsWeightsByOutputs() const override { return cpu.readsInOrder; }
  /// A vector that crosses the end of a cache line takes two loads; rows that
  /// are pages apart meet in one set of the first-level cache.
  int64_t operandRowStride(Type element, int64_t elements) const override {
    constexpr int64_t little = 16;
    int64_t line = cacheLine / elementBytes(element);
    auto stride = static_cast<int64_t>(llvm::alignTo(elements, line));
    bool pays = (stride - elements) * little <= elements &&
                stride * elementBytes(element) % pageBytes != 0;
    return pays ? stride : elements;
  }
  int64_t chunksOf(int64_t rows) const override { return rows >= 128 ? 16 : 1; }

  /// Two units for multiply-adds at 2.5 GHz, of which kernels reach 60%, and
  /// what one core reads from its second-level cache or from memory, between
  /// which the bytes of a step do not tell.
  double stepSeconds(int64_t flops, int64_t bytes) const override {
    double perSecond = 0.6 * 4.0 * static_cast<double>(cpu.lanes) * 2.5e9;
    return std::max(static_cast<double>(flops) / perSecond,
                    static_cast<double>(bytes) / 40e9);
  }
  /// Measured with two threads on idle processors: 0.6 us for what is lost.
  double handOverSeconds(int64_t threads) const override {
    return threads == 1 ? 0.0 : 0.3e-6 * static_cast<double>(threads);
  }

  double smallStepSeconds() const override { return handOverSeconds(2); }

  StringRef productsOf(Operation *step) const override {
    return tfm::productsOf(step, cpu);
  }

  void registerDialects(DialectRegistry &registry) const override {
    registerKernelDialects(registry);
  }

  FailureOr<int64_t> emitKernel(Operation *step, StringRef name,
                                ModuleOp kernels) const override {
    Kernel kernel = tfm::emitKernel(step, name, kernels, cpu);
    if (!kernel.func)
      return failure();
    return kernel.scratchBytes;
  }

  void addLoweringPasses(OpPassManager &passes) const override {
    passes.addPass(cpu::createLowerKernelsPass({cpu.roundsToBf16}));
  }

  std::unique_ptr<llvm::Module>
  translate(ModuleOp kernels, llvm::LLVMContext &context) const override {
    std::unique_ptr<llvm::Module> code = translateToLLVM(kernels, context);
    if (!code)
      return nullptr;
    code->setTargetTriple(llvm::Triple(cpu.triple));
    for (llvm::Function &function : *code)
      cpu.describe(function);
    return code;
  }

  llvm::Function *emitProgram(sched::ProgramOp program,
                              llvm::Module &module) const override {
    llvm::Function *run = tfm::emitProgram(program, module);
    for (llvm::Function &function : module)
      cpu.describe(function); // and what it calls beside kernels
    return run;
  }

  /// LLVM may turn a loop or a function of math into a call; a model calls
  /// nothing but `claim` and `finish`, by pointers. Other objects may have what
  /// only data refer to, as a descriptor does to functions, and what is hidden:
  /// they are parts of the same code.
  llvm::Error writeObject(llvm::Module &module,
                          llvm::raw_pwrite_stream &out) const override {
    llvm::StringSet<> elsewhere;
    for (const llvm::GlobalValue &value : module.global_values())
      if (value.isDeclaration() &&
          (value.hasHiddenVisibility() ||
           llvm::none_of(value.users(), llvm::IsaPred<llvm::Instruction>)))
        elsewhere.insert(value.getName());
    llvm::SmallString<0> object;
    llvm::raw_svector_ostream stream(object);
    if (llvm::Error error = emitObject(module, cpu, stream))
      return error;
    llvm::Expected<std::vector<std::string>> calls =
        undefinedSymbols(llvm::MemoryBufferRef(object.str(), "model.o"));
    if (!calls)
      return calls.takeError();
    llvm::erase_if(*calls, [&](const std::string &name) {
      return elsewhere.contains(name);
    });
    if (!calls->empty())
      return llvm::createStringError("the machine code calls '" +
                                     llvm::join(*calls, "', '") + "'");
    out << object;
    return llvm::Error::success();
  }

  llvm::Error writeAssembly(llvm::Module &module,
                            llvm::raw_pwrite_stream &out) const override {
    return emitAssembly(module, cpu, out);
  }

private:
  CpuMachine cpu;
  std::string machineName;
};

} // namespace

void tfm::registerCpuTarget() {
  cpu::registerTfmCpuPasses();
  auto create =
      [](StringRef machine) -> llvm::Expected<std::unique_ptr<KernelTarget>> {
    llvm::Expected<CpuMachine> found = CpuMachine::named(machine);
    if (!found)
      return found.takeError();
    return std::make_unique<CpuTarget>(std::move(*found));
  };
  // With AVX-512, as servers have it since 2017, and with AVX2.
  bool x86 = llvm::Triple(llvm::sys::getProcessTriple()).isX86();
  KernelTarget::add("cpu", create, x86 ? "x86-64-v4,x86-64-v3" : "generic");
}
