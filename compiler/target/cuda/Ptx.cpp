//===- Ptx.cpp - from lowered kernels to PTX ------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cuda/Ptx.h"

#include "compiler/target/emit/LowerToLLVM.h"
#include "mlir/Conversion/NVVMToLLVM/NVVMToLLVM.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Transforms/DialectConversion.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"
#include <mutex>

using namespace tfm;

static constexpr llvm::StringLiteral tripleName = "nvptx64-nvidia-cuda";

/// The version of PTX that LLVM writes: for sm_80 one that drivers from 2020 on
/// take, for sm_90a the first that has its instructions (drivers of 2023).
static llvm::StringRef ptxVersion(llvm::StringRef sm) {
  return sm == "sm_80" ? "+ptx70" : "+ptx80";
}

/// LLVM's registry of targets is global, and no thread may look into it
/// meanwhile: filled before there are several.
static void initializeTarget() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
}

static llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
createMachine(llvm::StringRef sm) {
  llvm::Triple triple(tripleName);
  std::string error;
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return llvm::createStringError(error);
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      triple, sm, ptxVersion(sm), llvm::TargetOptions(), std::nullopt));
  if (!machine)
    return llvm::createStringError("LLVM writes no PTX for " + sm);
  return machine;
}

mlir::OwningOpRef<mlir::ModuleOp> cuda::extractKernels(
    mlir::ModuleOp kernels,
    llvm::function_ref<bool(mlir::LLVM::LLVMFuncOp)> isWanted) {
  using namespace mlir;
  SymbolTable symbols(kernels);
  llvm::SetVector<Operation *> wanted;
  for (auto function : kernels.getOps<LLVM::LLVMFuncOp>())
    if (isWanted(function))
      wanted.insert(function);
  for (size_t i = 0; i != wanted.size(); ++i)
    if (auto uses = SymbolTable::getSymbolUses(wanted[i]))
      for (SymbolTable::SymbolUse use : *uses)
        wanted.insert(symbols.lookup(use.getSymbolRef().getRootReference()));
  OwningOpRef<ModuleOp> some = ModuleOp::create(kernels.getLoc());
  (*some)->setAttrs(kernels->getAttrs());
  OpBuilder builder = OpBuilder::atBlockEnd(some->getBody());
  for (Operation &op : *kernels.getBody())
    if (wanted.contains(&op))
      builder.clone(op);
  return some;
}

std::unique_ptr<llvm::Module>
cuda::translateToNvptx(mlir::ModuleOp kernels, llvm::LLVMContext &context) {
  initializeTarget();
  // Some ops of the nvvm dialect are assembly.
  mlir::RewritePatternSet patterns(kernels.getContext());
  mlir::populateNVVMToLLVMConversionPatterns(patterns);
  mlir::ConversionTarget target(*kernels.getContext());
  target.addLegalDialect<mlir::LLVM::LLVMDialect>();
  target.addDynamicallyLegalDialect<mlir::NVVM::NVVMDialect>(
      [](mlir::Operation *op) {
        auto assembly =
            llvm::dyn_cast<mlir::NVVM::BasicPtxBuilderInterface>(op);
        return !assembly || assembly.hasIntrinsic();
      });
  if (failed(applyPartialConversion(kernels, target, std::move(patterns))))
    return nullptr;
  std::unique_ptr<llvm::Module> module = translateToLLVM(kernels, context);
  if (!module)
    return nullptr;
  module->setTargetTriple(llvm::Triple(tripleName));
  for (llvm::Function &function : *module)
    if (!function.isDeclaration())
      // As on the CPU (docs/design.md, "What codegen hands over").
      function.addFnAttr("denormal-fp-math-f32", "preserve-sign");
  return module;
}

/// What no kernel may have: a call of what is not there, which the driver
/// refuses, and f64, of which GPUs for games have next to nothing.
static llvm::Error check(const llvm::Module &module) {
  for (const llvm::Function &function : module) {
    if (function.isDeclaration() && !function.isIntrinsic())
      return llvm::createStringError("a kernel calls '" + function.getName() +
                                     "'");
    for (const llvm::Instruction &instruction : llvm::instructions(function)) {
      auto isDouble = [](const llvm::Value *value) {
        return value->getType()->getScalarType()->isDoubleTy();
      };
      if (isDouble(&instruction) ||
          llvm::any_of(instruction.operands(), isDouble))
        return llvm::createStringError("'" + function.getName() +
                                       "' computes in f64");
    }
  }
  return llvm::Error::success();
}

llvm::Expected<std::string> cuda::toPtx(llvm::Module &module,
                                        llvm::StringRef sm) {
  // Whatever the target cannot select ends the process: look before.
  if (llvm::Error error = check(module))
    return error;
  auto machine = createMachine(sm);
  if (!machine)
    return machine.takeError();
  module.setDataLayout((*machine)->createDataLayout());
  optimizeKernels(module, **machine);
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream out(text);
  llvm::legacy::PassManager passes;
  if ((*machine)->addPassesToEmitFile(passes, out, nullptr,
                                      llvm::CodeGenFileType::AssemblyFile))
    return llvm::createStringError("LLVM cannot write PTX for " + sm);
  passes.run(module);
  if (text.str().contains(".extern .func"))
    return llvm::createStringError("a kernel calls what is not there");
  return text.str().str();
}
