//===- MachineCode.cpp - the instructions of an object file ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tests/unit/codegen/MachineCode.h"

#include "compiler/target/cpu/CpuMachine.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/MC/MCContext.h"
#include "llvm/MC/MCDisassembler/MCDisassembler.h"
#include "llvm/MC/MCInstPrinter.h"
#include "llvm/MC/MCInstrAnalysis.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Object/SymbolSize.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"

#include <mutex>

using namespace tfm;

namespace {

/// LLVM's registry of targets is global: fill it once.
void initializeDisassemblers() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86Disassembler();
    LLVMInitializeAArch64Disassembler();
  });
}

/// Reads machine code of one CPU.
class Decoder {
public:
  explicit Decoder(const llvm::TargetMachine &machine)
      : context(machine.getTargetTriple(), machine.getMCAsmInfo(),
                machine.getMCRegisterInfo(), machine.getMCSubtargetInfo()) {
    const llvm::Target &target = machine.getTarget();
    disassembler.reset(
        target.createMCDisassembler(*machine.getMCSubtargetInfo(), context));
    analysis.reset(target.createMCInstrAnalysis(machine.getMCInstrInfo()));
    printer.reset(target.createMCInstPrinter(
        machine.getTargetTriple(), /*SyntaxVariant=*/0, *machine.getMCAsmInfo(),
        *machine.getMCInstrInfo(), *machine.getMCRegisterInfo()));
  }

  llvm::Error decode(llvm::ArrayRef<uint8_t> bytes, uint64_t address,
                     DecodedFunction &function) {
    while (!bytes.empty()) {
      DecodedInstruction next{address, {}, {}, {}};
      uint64_t size = 0;
      if (disassembler->getInstruction(next.inst, size, bytes, address,
                                       llvm::nulls()) !=
          llvm::MCDisassembler::Success)
        return llvm::createStringError("no instruction at byte " +
                                       llvm::Twine(address) + " of " +
                                       function.name);
      next.mnemonic =
          llvm::StringRef(printer->getMnemonic(next.inst).first).trim().str();
      uint64_t target = 0;
      if (analysis->isBranch(next.inst) &&
          analysis->evaluateBranch(next.inst, address, size, target))
        next.target = target;
      function.instructions.push_back(std::move(next));
      bytes = bytes.drop_front(size);
      address += size;
    }
    return llvm::Error::success();
  }

private:
  llvm::MCContext context;
  std::unique_ptr<llvm::MCDisassembler> disassembler;
  std::unique_ptr<llvm::MCInstrAnalysis> analysis;
  std::unique_ptr<llvm::MCInstPrinter> printer;
};

} // namespace

llvm::Expected<std::vector<DecodedFunction>>
tfm::decodeFunctions(llvm::MemoryBufferRef object, const CpuMachine &target) {
  initializeDisassemblers();
  auto machine = target.createMachine();
  if (!machine)
    return machine.takeError();
  Decoder decoder(**machine);
  auto file = llvm::object::ObjectFile::createObjectFile(object);
  if (!file)
    return file.takeError();
  std::vector<DecodedFunction> functions;
  for (auto &[symbol, size] : llvm::object::computeSymbolSizes(**file)) {
    auto type = symbol.getType();
    if (!type)
      return type.takeError();
    if (*type != llvm::object::SymbolRef::ST_Function || size == 0)
      continue;
    auto name = symbol.getName();
    auto section = symbol.getSection();
    auto address = symbol.getAddress();
    if (!name || !section || !address)
      return llvm::joinErrors(
          name.takeError(),
          llvm::joinErrors(section.takeError(), address.takeError()));
    auto contents = (*section)->getContents();
    if (!contents)
      return contents.takeError();
    llvm::StringRef bytes =
        contents->substr(*address - (*section)->getAddress(), size);
    functions.push_back({name->str(), {}});
    if (llvm::Error error = decoder.decode(llvm::arrayRefFromStringRef(bytes),
                                           *address, functions.back()))
      return std::move(error);
  }
  return functions;
}

std::vector<CodeRange> tfm::innermostLoops(const DecodedFunction &function) {
  const std::vector<DecodedInstruction> &code = function.instructions;
  std::vector<CodeRange> loops;
  for (auto [i, instruction] : llvm::enumerate(code)) {
    if (!instruction.target || *instruction.target > instruction.address)
      continue;
    auto first =
        llvm::lower_bound(code, *instruction.target,
                          [](const DecodedInstruction &one, uint64_t address) {
                            return one.address < address;
                          });
    if (first->address == *instruction.target)
      loops.push_back({static_cast<size_t>(first - code.begin()), i + 1});
  }
  std::vector<CodeRange> innermost;
  for (const CodeRange &loop : loops)
    if (llvm::none_of(loops, [&](const CodeRange &other) {
          bool isSame = other.begin == loop.begin && other.end == loop.end;
          return !isSame && other.begin >= loop.begin && other.end <= loop.end;
        }))
      innermost.push_back(loop);
  return innermost;
}
