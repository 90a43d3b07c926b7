//===- Pipelines.cpp - the passes of a build, in order --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/driver/Pipelines.h"

#include "compiler/schedule/Passes.h"
#include "compiler/target/Passes.h"
#include "compiler/target/cpu/CpuTarget.h"
#include "compiler/target/cuda/CudaTarget.h"
#include "compiler/transforms/Passes.h"

#include "mlir/Pass/PassOptions.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;
using namespace tfm;

void tfm::registerTargets() {
  registerCpuTarget();
  registerCudaTarget();
}

void tfm::addPreparePasses(OpPassManager &passes, const KernelTarget &target) {
  passes.addPass(createRecordFactsPass());
  if (target.choosesLayers())
    passes.addPass(createChooseLayersPass({/*trained=*/true}));
  passes.addPass(createDifferentiatePass());
  passes.addPass(createAccumulateGradientsPass());
  passes.addPass(createStripDropoutPass());
  passes.addPass(createMeasurePredictionsPass());
  passes.addPass(createSimplifyPass());
  KernelTarget::LossChunks rows = target.lossChunks();
  passes.addPass(createChunkLossPass({rows.trained, rows.evaluated}));
  KernelTarget::WeightPanels panels = target.weightPanels();
  passes.addPass(createStoreWeightsPass(
      {panels.outputs, panels.mostTerms, target.readsWeightsByOutputs()}));
  passes.addPass(createMixedPrecisionPass());
  passes.addPass(createQuantiseCachePass());
  KernelTarget::PromptChunks chunks = target.promptChunks();
  passes.addPass(createDeriveDecodePass({chunks.longest, chunks.shorter,
                                         chunks.segment, chunks.segments,
                                         chunks.few, chunks.ringMultiple}));
  if (target.choosesLayers())
    passes.addPass(createChooseLayersPass());
  passes.addPass(createAddUpdatePass());
  passes.addPass(createCombineUpdatePass({target.exchangesOnDevices()}));
  passes.addPass(createSimplifyPass());
  passes.addPass(createDecomposePass({target.scansRows()}));
  passes.addPass(createLegalizeForKernelsPass());
  KernelTarget::Candidates candidates = target.candidates();
  passes.addPass(createAddCandidatesPass(
      {candidates.least, candidates.most, candidates.leastLogits}));
  target.addTensorPasses(passes);
  passes.addPass(createHoistInvariantsPass());
  passes.addPass(createSimplifyPass());
  passes.addPass(createFinishFunctionsPass());
}

void tfm::addSchedulePasses(OpPassManager &passes, const KernelTarget &target) {
  passes.addPass(sched::createFormKernelsPass());
  passes.addPass(sched::createShareExponentialsPass());
  passes.addPass(sched::createSplitSumsPass({target.name().str()}));
  passes.addPass(sched::createPlaceValuesPass({target.name().str()}));
  passes.addPass(sched::createGroupLaunchesPass({target.name().str()}));
  passes.addPass(sched::createPlanMemoryPass());
}

/// From a schedule to kernels, before they are lowered.
static void addEmission(OpPassManager &passes, const KernelTarget &target) {
  passes.addPass(createSerializeSmallStepsPass({target.name().str()}));
  passes.addPass(createEmitKernelsPass({target.name().str()}));
}

void tfm::addKernelPasses(OpPassManager &passes, const KernelTarget &target) {
  addEmission(passes, target);
  target.addLoweringPasses(passes.nest<ModuleOp>());
}

namespace {

struct PipelineOptions : PassPipelineOptions<PipelineOptions> {
  Option<std::string> target{*this, "target",
                             llvm::cl::desc("KIND or KIND:MACHINE"),
                             llvm::cl::init("cpu")};
};

/// Names what begins at one level and ends at another.
void add(llvm::StringRef name, llvm::StringRef what,
         void (*build)(OpPassManager &, const KernelTarget &)) {
  static std::vector<std::unique_ptr<PassPipelineRegistration<PipelineOptions>>>
      registered;
  registered.push_back(
      std::make_unique<PassPipelineRegistration<PipelineOptions>>(
          name, what,
          [build](OpPassManager &passes, const PipelineOptions &options) {
            // There is nobody to hand an error to: only tfm-opt comes here.
            llvm::ExitOnError orLeave("error: ");
            build(passes, *orLeave(KernelTarget::named(options.target)));
          }));
}

} // namespace

void tfm::registerPipelines() {
  add("tfm-prepare", "a model as the frontend gives it, to what is scheduled",
      addPreparePasses);
  add("tfm-schedule", "a prepared model to kernels over one planned arena",
      addSchedulePasses);
  add("tfm-emit-kernels",
      "a schedule to the code of its kernels in the llvm dialect",
      addKernelPasses);
  add("tfm-to-sched", "a model as the frontend gives it, to its schedule",
      [](OpPassManager &passes, const KernelTarget &target) {
        addPreparePasses(passes, target);
        addSchedulePasses(passes, target);
      });
  add("tfm-to-kernels", "the same, to its schedule and kernels",
      [](OpPassManager &passes, const KernelTarget &target) {
        addPreparePasses(passes, target);
        addSchedulePasses(passes, target);
        addEmission(passes, target);
      });
  add("tfm-to-llvm",
      "the same, to its schedule and kernels in the llvm dialect",
      [](OpPassManager &passes, const KernelTarget &target) {
        addPreparePasses(passes, target);
        addSchedulePasses(passes, target);
        addKernelPasses(passes, target);
      });
}
