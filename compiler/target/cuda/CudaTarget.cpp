//===- CudaTarget.cpp - the target cuda -----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cuda/CudaTarget.h"

#include "compiler/schedule/Launches.h"
#include "compiler/target/KernelTarget.h"
#include "compiler/target/cuda/Attention.h"
#include "compiler/target/cuda/DeviceKernels.h"
#include "compiler/target/cuda/Gpu.h"
#include "compiler/target/cuda/GroupKernel.h"
#include "compiler/target/cuda/Images.h"
#include "compiler/target/cuda/Kernels.h"
#include "compiler/target/cuda/Passes.h"
#include "compiler/target/cuda/Program.h"
#include "compiler/target/cuda/TopK.h"
#include "compiler/target/emit/LowerToLLVM.h"
#include "runtime/tfm_model.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/TargetParser/Host.h"

using namespace mlir;
using namespace tfm;

namespace {

class CudaTarget final : public KernelTarget {
public:
  StringRef kind() const override { return "cuda"; }
  StringRef machine() const override { return "sm_80"; }
  std::string features() const override { return "sm_80"; }
  std::string identity() const override { return "cuda sm_80"; }
  std::vector<std::string> faster(const Numbers &) const override { return {}; }
  /// Its programs are queued by the host, whichever that is.
  StringRef triple() const override { return hostTriple; }

  void addTensorPasses(OpPassManager &passes) const override {
    passes.addPass(cuda::createSplitProductsPass());
    passes.addPass(cuda::createSplitAttentionPass());
    passes.addPass(cuda::createInnerProductsPass());
  }

  PromptChunks promptChunks() const override {
    return {.longest = 256,
            .shorter = 32,
            .segment = 16,
            .segments = 2,
            .few = cuda::fewQueries,
            .ringMultiple = 32};
  }

  /// To choose among fewer logits takes longer than to copy them, and fewer
  /// candidates are found no faster.
  Candidates candidates() const override {
    return {.least = 128, .most = cuda::mostChosen, .leastLogits = 4096};
  }

  /// The gradient of a head is carried from chunk to chunk in f32, read and
  /// written, which takes a twentieth of what the three products of a chunk do:
  /// 8 bytes of each element beside 6 operations of it and a row.
  LossChunks lossChunks() const override {
    constexpr double share = 0.05;
    auto rows = static_cast<int64_t>(8 / cuda::h100.bandwidth *
                                     cuda::h100.tensorFlops / (6 * share));
    return {.trained = rows, .evaluated = rows};
  }

  /// A warp reads 512 bytes of an output's terms at once; of rows of all
  /// outputs a block reads 32 bytes here and there.
  bool readsWeightsByOutputs() const override { return true; }

  bool exchangesOnDevices() const override { return true; }

  /// Of bf16 only what begins at a multiple of 16 bytes can be copied to shared
  /// memory by the hardware. Where it costs little, rows begin at lines of the
  /// cache.
  int64_t operandRowStride(Type element, int64_t elements) const override {
    constexpr int64_t piece = 8, line = 64, little = 16;
    if (!element.isBF16())
      return elements;
    auto stride = static_cast<int64_t>(llvm::alignTo(elements, line));
    if ((stride - elements) * little <= elements)
      return stride;
    return static_cast<int64_t>(llvm::alignTo(elements, piece));
  }

  bool groups(sched::LaunchOp launch) const override {
    return cuda::canBeInGroup(launch);
  }
  bool computesInBlocks(sched::LaunchOp rows,
                        sched::LaunchOp launch) const override {
    return cuda::isForEachBlock(rows, launch);
  }

  /// Enough for every multiprocessor to have one of them, of several rows each.
  int64_t chunksOf(int64_t rows) const override {
    return rows < 128 ? 1 : std::clamp<int64_t>(rows / 16, 8, 1024);
  }

  /// What an A100 does without its tensor cores, at a share of its peaks that
  /// most kernels reach.
  double stepSeconds(int64_t flops, int64_t bytes) const override {
    constexpr double share = 0.6;
    return std::max(static_cast<double>(flops) / cuda::a100.f32Flops,
                    static_cast<double>(bytes) / cuda::a100.bandwidth) /
           share;
  }
  /// The host's threads have no part in it: any but one is a loss.
  double handOverSeconds(int64_t threads) const override {
    return threads == 1 ? 0.0 : 1.0;
  }

  StringRef productsOf(Operation *step) const override {
    auto launch = dyn_cast<sched::LaunchOp>(step);
    return launch && cuda::multipliesOnTensorCores(launch)
               ? TFM_PRODUCTS_BF16_MMA
               : TFM_PRODUCTS_F32;
  }

  void registerDialects(DialectRegistry &registry) const override {
    registerKernelDialects(registry);
    registry.insert<NVVM::NVVMDialect>();
    registerNVVMDialectTranslation(registry);
  }

  std::string whyNot(ModuleOp model) const override {
    std::optional<int64_t> least;
    sched::LaunchOp first;
    model.walk([&](sched::LaunchOp launch) {
      if (launch.getKind() != sched::KernelKind::Attention &&
          launch.getKind() != sched::KernelKind::AttentionBackward)
        return;
      std::optional<int64_t> most = cuda::mostWidth(launch);
      if (!most)
        return;
      least = std::min(least.value_or(*most), *most);
      if (!first)
        first = launch;
    });
    if (!first)
      return "";
    std::string place, module = pathOf(first);
    if (auto at = first.getLoc()->findInstanceOf<FileLineColLoc>())
      place =
          llvm::formatv("{0}:{1}: ", at.getFilename().getValue(), at.getLine());
    return llvm::formatv("{0}the attention{1} has heads of more than {2} "
                         "numbers, which no kernel of a GPU takes: have more "
                         "heads, which are narrower, or build with --target "
                         "cpu",
                         place, module.empty() ? "" : " of `" + module + "`",
                         *least)
        .str();
  }

  bool countsOnReads() const override { return true; }

  /// Of what one instruction moves.
  int64_t operandAlignment() const override { return 16; }

  FailureOr<int64_t> emitKernel(Operation *step, StringRef name,
                                ModuleOp kernels) const override {
    if (failed(cuda::emitKernel(step, name, kernels)))
      return failure();
    return 0; // of scratch
  }

  void addLoweringPasses(OpPassManager &passes) const override {
    passes.addPass(cuda::createLowerKernelsPass());
  }

  /// The host's part: kernels are in images.
  std::unique_ptr<llvm::Module>
  translate(ModuleOp, llvm::LLVMContext &context) const override {
    auto module = std::make_unique<llvm::Module>("tfm", context);
    module->setTargetTriple(llvm::Triple(hostTriple));
    return module;
  }

  FailureOr<DeviceCode> deviceCode(ModuleOp kernels,
                                   bool assembled) const override {
    FailureOr<ImagesInWork> images = cuda::beginImages(kernels, assembled);
    if (failed(images))
      return failure();
    return DeviceCode{cuda::kernelsOf(kernels), std::move(*images)};
  }

  llvm::Function *emitProgram(sched::ProgramOp program,
                              llvm::Module &module) const override {
    return cuda::emitProgram(program, module);
  }

  llvm::Error writeObject(llvm::Module &,
                          llvm::raw_pwrite_stream &) const override {
    return llvm::createStringError("a GPU has no object files");
  }
  llvm::Error writeAssembly(llvm::Module &,
                            llvm::raw_pwrite_stream &) const override {
    return llvm::createStringError("a GPU's assembly is in its images");
  }

private:
  const std::string hostTriple = llvm::sys::getProcessTriple();
};

} // namespace

void tfm::registerCudaTarget() {
  cuda::registerTfmCudaPasses();
  auto create =
      [](StringRef machine) -> llvm::Expected<std::unique_ptr<KernelTarget>> {
    if (machine != "native" && machine != "sm_80")
      return llvm::createStringError(
          "there is no GPU '" + machine +
          "': there is one code for all, that of sm_80: name none");
    return std::make_unique<CudaTarget>();
  };
  KernelTarget::add("cuda", create, "sm_80");
}
