//===- Pipelines.cpp - the passes of a build, in order --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/driver/Pipelines.h"

#include "compiler/schedule/Passes.h"
#include "compiler/transforms/Passes.h"

#include "mlir/Pass/PassRegistry.h"

using namespace mlir;
using namespace tfm;

void tfm::addPreparePasses(OpPassManager &passes) {
  passes.addPass(createRecordFactsPass());
  passes.addPass(createDifferentiatePass());
  passes.addPass(createAccumulateGradientsPass());
  passes.addPass(createStripDropoutPass());
  passes.addPass(createDeriveDecodePass());
  passes.addPass(createAddUpdatePass());
  passes.addPass(createCombineUpdatePass());
  passes.addPass(createSimplifyPass());
  passes.addPass(createDecomposePass());
  passes.addPass(createLegalizeForKernelsPass());
  passes.addPass(createSplitSumsPass());
  passes.addPass(createSimplifyPass());
  passes.addPass(createFinishFunctionsPass());
}

void tfm::addSchedulePasses(OpPassManager &passes, const std::string &target) {
  passes.addPass(sched::createFormKernelsPass());
  sched::SplitSumsPassOptions split;
  split.target = target;
  passes.addPass(sched::createSplitSumsPass(split));
  sched::PlaceValuesPassOptions place;
  place.target = target;
  passes.addPass(sched::createPlaceValuesPass(place));
  passes.addPass(sched::createPlanMemoryPass());
}

void tfm::registerPipelines() {
  PassPipelineRegistration<>(
      "tfm-prepare", "a model as the frontend gives it, to what is scheduled",
      [](OpPassManager &passes) { addPreparePasses(passes); });
  PassPipelineRegistration<>(
      "tfm-schedule", "a prepared model to kernels over one planned arena",
      [](OpPassManager &passes) { addSchedulePasses(passes); });
  PassPipelineRegistration<>(
      "tfm-to-sched", "a model as the frontend gives it, to its schedule",
      [](OpPassManager &passes) {
        addPreparePasses(passes);
        addSchedulePasses(passes);
      });
}
