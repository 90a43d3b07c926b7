//===- LowerToLLVM.cpp - from kernels in MLIR to LLVM IR -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/emit/LowerToLLVM.h"
#include "compiler/target/emit/VectorHelpers.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/MemRef/Transforms/Transforms.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Dialect/Vector/Transforms/LoweringPatterns.h"
#include "mlir/Dialect/Vector/Transforms/VectorRewritePatterns.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/SROA.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"

using namespace mlir;
using namespace tfm;

void tfm::registerKernelDialects(DialectRegistry &registry) {
  registry
      .insert<arith::ArithDialect, cf::ControlFlowDialect, func::FuncDialect,
              LLVM::LLVMDialect, math::MathDialect, memref::MemRefDialect,
              scf::SCFDialect, vector::VectorDialect>();
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
}

LogicalResult tfm::lowerToLLVMDialect(ModuleOp module, bool roundsToBf16,
                                      StringRef kept) {
  MLIRContext *context = module.getContext();
  {
    RewritePatternSet patterns(context);
    populateMathPatterns(patterns);
    populateMathPolynomialApproximationPatterns(
        patterns, MathPolynomialApproximationOptions());
    // LLVM calls a function to round to bf16 where the processor has no
    // instruction for it.
    if (!roundsToBf16)
      arith::populateExpandBFloat16Patterns(patterns);
    math::populateExpansionPatterns(patterns, {"rsqrt", "powf", "fpowi"});
    memref::populateExpandStridedMetadataPatterns(patterns);
    vector::populateVectorMaskMaterializationPatterns(
        patterns, /*force32BitVectorIndices=*/true);
    vector::populateVectorBroadcastLoweringPatterns(patterns);
    vector::populateVectorStepLoweringPatterns(patterns);
    GreedyRewriteConfig config;
    config.enableFolding(false);
    config.enableConstantCSE(false);
    config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
    if (failed(applyPatternsGreedily(module, std::move(patterns), config)))
      return failure();
  }
  {
    RewritePatternSet patterns(context);
    populateSCFToControlFlowConversionPatterns(patterns);
    ConversionTarget target(*context);
    target.addIllegalDialect<scf::SCFDialect>();
    target.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
    if (failed(applyPartialConversion(module, target, std::move(patterns))))
      return failure();
  }
  LowerToLLVMOptions options(context);
  options.useBarePtrCallConv = true;
  LLVMTypeConverter converter(context, options);
  RewritePatternSet patterns(context);
  // A reduction of one register at a kernel's end may be a tree: its shape is
  // fixed by the target, never by the data.
  populateVectorToLLVMConversionPatterns(converter, patterns,
                                         /*reassociateFPReductions=*/true,
                                         /*force32BitVectorIndices=*/true);
  arith::populateArithToLLVMConversionPatterns(converter, patterns);
  populateMathToLLVMConversionPatterns(converter, patterns);
  populateFinalizeMemRefToLLVMConversionPatterns(converter, patterns);
  cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
  populateFuncToLLVMConversionPatterns(converter, patterns);
  LLVMConversionTarget target(*context);
  target.addLegalOp<ModuleOp>();
  if (!kept.empty())
    target.addLegalDialect(kept);
  return applyFullConversion(module, target, std::move(patterns));
}

std::unique_ptr<llvm::Module> tfm::translateToLLVM(ModuleOp module,
                                                   llvm::LLVMContext &context) {
  std::unique_ptr<llvm::Module> result =
      translateModuleToLLVMIR(module, context, "tfm");
  if (!result)
    return nullptr;
  for (llvm::Function &function : *result)
    for (llvm::Instruction &instruction : llvm::instructions(function))
      switch (instruction.getOpcode()) {
      case llvm::Instruction::FAdd:
      case llvm::Instruction::FSub:
      case llvm::Instruction::FMul:
      case llvm::Instruction::FNeg:
        instruction.setHasAllowContract(true);
        break;
      default:
        break;
      }
  return result;
}

namespace {

/// Stores of one lane, by a constant mask, as stores of that element. LLVM 22
/// makes one of a truncated vector a store of the wide element: it writes over
/// what lies behind.
struct StoreSingleLanesPass : llvm::PassInfoMixin<StoreSingleLanesPass> {
  llvm::PreservedAnalyses run(llvm::Function &function,
                              llvm::FunctionAnalysisManager &) {
    for (llvm::Instruction &instruction :
         llvm::make_early_inc_range(llvm::instructions(function))) {
      auto *store = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
      if (!store || store->getIntrinsicID() != llvm::Intrinsic::masked_store)
        continue;
      llvm::Value *vector = store->getArgOperand(0);
      std::optional<unsigned> lane = onlyLane(*store);
      if (!lane)
        continue;
      llvm::IRBuilder<> b(store);
      llvm::Type *element = vector->getType()->getScalarType();
      llvm::Value *to =
          b.CreateConstGEP1_32(element, store->getArgOperand(1), *lane);
      b.CreateAlignedStore(b.CreateExtractElement(vector, *lane), to,
                           llvm::Align(element->getScalarSizeInBits() / 8));
      store->eraseFromParent();
    }
    return llvm::PreservedAnalyses::none();
  }

private:
  static std::optional<unsigned> onlyLane(llvm::IntrinsicInst &store) {
    auto *mask = llvm::dyn_cast<llvm::Constant>(
        store.getArgOperand(store.arg_size() - 1));
    if (!mask)
      return std::nullopt;
    std::optional<unsigned> only;
    auto *type = llvm::cast<llvm::FixedVectorType>(mask->getType());
    for (unsigned i = 0; i < type->getNumElements(); ++i) {
      llvm::Constant *lane = mask->getAggregateElement(i);
      if (!lane || (!lane->isNullValue() && !lane->isOneValue()) ||
          (lane->isOneValue() && only))
        return std::nullopt;
      if (lane->isOneValue())
        only = i;
    }
    return only;
  }
};

} // namespace

/// What the emitters leave to do is little: address arithmetic to fold, loads
/// and invariants to hoist. LLVM's stock pipelines take several times as long
/// and would unroll and vectorise what is already blocked for the registers.
void tfm::optimizeKernels(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::SimplifyCFGPass());
  // Folding makes equal what was not: the blocks of 64 columns of neighbours.
  passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(
      llvm::LICMPass(llvm::LICMOptions()), /*UseMemorySSA=*/true));
  passes.addPass(StoreSingleLanesPass());
  llvm::ModulePassManager manager;
  manager.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(passes)));
  manager.run(module, modules);
}
