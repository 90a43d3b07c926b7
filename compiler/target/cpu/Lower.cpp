//===- Lower.cpp - from LLVM IR to an object file -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/Lower.h"
#include "compiler/target/cpu/CpuMachine.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/OptBisect.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;
using namespace tfm;

namespace {

/// The emitters choose how addresses are made, for the target's addressing
/// modes. LLVM's loop strength reduction would give every row of a register
/// tile a pointer of its own, and spill the tile. It cannot be left out of the
/// code generator's passes, but a context may refuse to run it.
class NoStrengthReduction : public llvm::OptPassGate {
public:
  bool shouldRunPass(llvm::StringRef pass, llvm::StringRef) const override {
    return pass != "Loop Strength Reduction";
  }
  bool isEnabled() const override { return true; }
};

} // namespace

static llvm::Error emit(llvm::Module &module, const CpuMachine &target,
                        llvm::raw_pwrite_stream &out,
                        llvm::CodeGenFileType type) {
  auto machine = target.createMachine();
  if (!machine)
    return machine.takeError();
  module.setTargetTriple((*machine)->getTargetTriple());
  module.setDataLayout((*machine)->createDataLayout());
  optimizeKernels(module, **machine);
  llvm::legacy::PassManager codegen;
  if ((*machine)->addPassesToEmitFile(codegen, out, nullptr, type))
    return llvm::createStringError("LLVM cannot write files for " +
                                   target.triple);
  llvm::LLVMContext &context = module.getContext();
  llvm::OptPassGate &before = context.getOptPassGate();
  NoStrengthReduction gate;
  context.setOptPassGate(gate);
  codegen.run(module);
  context.setOptPassGate(before);
  return llvm::Error::success();
}

llvm::Error tfm::emitObject(llvm::Module &module, const CpuMachine &target,
                            llvm::raw_pwrite_stream &out) {
  return emit(module, target, out, llvm::CodeGenFileType::ObjectFile);
}

llvm::Error tfm::emitAssembly(llvm::Module &module, const CpuMachine &target,
                              llvm::raw_pwrite_stream &out) {
  return emit(module, target, out, llvm::CodeGenFileType::AssemblyFile);
}

llvm::Expected<std::vector<std::string>>
tfm::undefinedSymbols(llvm::MemoryBufferRef object) {
  auto file = llvm::object::ObjectFile::createObjectFile(object);
  if (!file)
    return file.takeError();
  std::vector<std::string> names;
  for (const llvm::object::SymbolRef &symbol : (*file)->symbols()) {
    llvm::Expected<uint32_t> flags = symbol.getFlags();
    if (!flags)
      return flags.takeError();
    if (!(*flags & llvm::object::SymbolRef::SF_Undefined))
      continue;
    llvm::Expected<StringRef> name = symbol.getName();
    if (!name)
      return name.takeError();
    // ELF's first symbol is undefined and has no name.
    if (!name->empty())
      names.push_back(name->str());
  }
  return names;
}
