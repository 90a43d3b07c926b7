//===- Program.cpp - kernels, compiled for the emulator -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tests/emulator/Program.h"
#include "tests/emulator/Lower.h"
#include "tests/emulator/Observer.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ExecutionEngine/Orc/JITTargetMachineBuilder.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"

using namespace tfm::emulator;

/// A little of everything, in little time: kernels run once or twice.
static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
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
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O1)
      .run(module, modules);
}

llvm::Expected<Program> Program::load(mlir::ModuleOp module, Machine &machine) {
  Program program;
  program.machine = &machine;
  mlir::MLIRContext *context = module.getContext();
  mlir::registerBuiltinDialectTranslation(*context);
  mlir::registerLLVMDialectTranslation(*context);
  mlir::OwningOpRef<mlir::ModuleOp> lowered = module.clone();
  auto llvmContext = std::make_unique<llvm::LLVMContext>();
  std::unique_ptr<llvm::Module> code;
  std::string errors;
  {
    mlir::ScopedDiagnosticHandler handler(
        context, [&](mlir::Diagnostic &diagnostic) {
          llvm::raw_string_ostream(errors)
              << diagnostic.getLocation() << ": " << diagnostic << "\n";
        });
    if (succeeded(lowerForHost(*lowered, program.all, *program.sites)))
      code = translateModuleToLLVMIR(*lowered, *llvmContext, "kernels");
  }
  if (!code)
    return llvm::createStringError(errors);

  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  auto host = llvm::orc::JITTargetMachineBuilder::detectHost();
  if (!host)
    return host.takeError();
  // To select instructions well takes longer than kernels run.
  host->setCodeGenOptLevel(llvm::CodeGenOptLevel::None);
  auto target = host->createTargetMachine();
  if (!target)
    return target.takeError();
  code->setTargetTriple((*target)->getTargetTriple());
  code->setDataLayout((*target)->createDataLayout());
  optimize(*code, **target);
  std::vector<std::pair<std::string, uint64_t>> constants;
  for (const llvm::GlobalVariable &global : code->globals())
    if (!global.isDeclaration() && global.hasExternalLinkage())
      constants.emplace_back(
          global.getName(),
          code->getDataLayout().getTypeAllocSize(global.getValueType()));

  auto jit = llvm::orc::LLJITBuilder()
                 .setJITTargetMachineBuilder(std::move(*host))
                 .create();
  if (!jit)
    return jit.takeError();
  program.jit = std::move(*jit);
  if (Observer::current)
    Observer::current->load(module, program.all);
  llvm::orc::SymbolMap symbols;
  for (const HostFunction &function : hostFunctions)
    symbols[program.jit->mangleAndIntern(function.name)] = {
        llvm::orc::ExecutorAddr::fromPtr(function.address),
        llvm::JITSymbolFlags::Exported};
  llvm::orc::JITDylib &library = program.jit->getMainJITDylib();
  if (llvm::Error error =
          library.define(llvm::orc::absoluteSymbols(std::move(symbols))))
    return std::move(error);
  if (llvm::Error error =
          program.jit->addIRModule({std::move(code), std::move(llvmContext)}))
    return std::move(error);
  for (Kernel &kernel : program.all) {
    auto run = program.jit->lookup("emulator.run." + kernel.name);
    if (!run)
      return run.takeError();
    kernel.run = run->toPtr<void (*)(void *const *)>();
    kernel.sites = program.sites.get();
  }
  for (const auto &[name, bytes] : constants) {
    auto address = program.jit->lookup(name);
    if (!address)
      return address.takeError();
    program.constants.push_back(address->toPtr<void *>());
    machine.addBuffer(name, program.constants.back(), bytes);
  }
  return program;
}

Program::Program() = default;
Program::Program(Program &&) = default;

Program::~Program() {
  for (void *constant : constants)
    machine->removeBuffer(constant);
}

const Kernel *Program::find(llvm::StringRef name) const {
  auto found = llvm::find_if(
      all, [&](const Kernel &kernel) { return kernel.name == name; });
  return found == all.end() ? nullptr : &*found;
}
