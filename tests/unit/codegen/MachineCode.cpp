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
#include "llvm/MC/MCInstrInfo.h"
#include "llvm/MC/MCRegisterInfo.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Object/SymbolSize.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"

#include <map>
#include <mutex>
#include <set>

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
      : instructions(*machine.getMCInstrInfo()),
        context(machine.getTargetTriple(), machine.getMCAsmInfo(),
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
      next.isCall = analysis->isCall(next.inst);
      next.fallsThrough = !analysis->isUnconditionalBranch(next.inst) &&
                          !analysis->isIndirectBranch(next.inst) &&
                          !analysis->isReturn(next.inst);
      describeOperands(next);
      function.instructions.push_back(std::move(next));
      bytes = bytes.drop_front(size);
      address += size;
    }
    return llvm::Error::success();
  }

private:
  void describeOperands(DecodedInstruction &instruction) const {
    const llvm::MCRegisterInfo &registers = *context.getRegisterInfo();
    const llvm::MCInstrDesc &what =
        instructions.get(instruction.inst.getOpcode());
    for (const llvm::MCOperand &operand : instruction.inst) {
      if (!operand.isReg() || !operand.getReg())
        continue;
      llvm::StringRef name = registers.getName(operand.getReg());
      if (name == "RSP" || name == "SP")
        instruction.accessesStack = what.mayLoad() || what.mayStore();
      else
        instruction.usesVectors |= vectors.match(name);
    }
  }

  const llvm::MCInstrInfo &instructions;
  llvm::Regex vectors{"^([XYZT]MM|K|[BHSDQ])[0-9]"};
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

namespace {

/// Where instructions go: the numbers of those that may follow each.
class FlowGraph {
public:
  explicit FlowGraph(llvm::ArrayRef<DecodedInstruction> code)
      : next(code.size()), before(code.size()) {
    for (auto [i, instruction] : llvm::enumerate(code)) {
      if (instruction.fallsThrough && i + 1 < code.size())
        connect(i, i + 1);
      if (!instruction.target)
        continue;
      const auto *to = llvm::lower_bound(
          code, *instruction.target,
          [](const DecodedInstruction &one, uint64_t address) {
            return one.address < address;
          });
      if (to != code.end() && to->address == *instruction.target)
        connect(i, to - code.begin());
    }
  }

  /// The loops, by the instruction that they begin with.
  std::map<size_t, std::set<size_t>> loops() const {
    std::map<size_t, std::set<size_t>> found;
    // Depth first; what is on the way to an instruction is `open`.
    enum State : uint8_t { Unseen, Open, Closed };
    std::vector<State> states(next.size(), Unseen);
    std::vector<std::pair<size_t, size_t>> way;
    auto enter = [&](size_t at) {
      states[at] = Open;
      way.push_back({at, 0});
    };
    if (!next.empty())
      enter(0);
    while (!way.empty()) {
      auto &[at, tried] = way.back();
      if (tried == next[at].size()) {
        states[at] = Closed;
        way.pop_back();
        continue;
      }
      size_t from = at, to = next[at][tried++];
      if (states[to] == Unseen)
        enter(to);
      else if (states[to] == Open)
        addLoop(to, from, found[to]);
    }
    return found;
  }

private:
  void connect(size_t from, size_t to) {
    next[from].push_back(to);
    before[to].push_back(from);
  }

  /// Adds what leads to `last` from `first` on.
  void addLoop(size_t first, size_t last, std::set<size_t> &loop) const {
    loop.insert(first);
    std::vector<size_t> left{last};
    while (!left.empty()) {
      size_t at = left.back();
      left.pop_back();
      if (loop.insert(at).second)
        llvm::append_range(left, before[at]);
    }
  }

  std::vector<std::vector<size_t>> next, before;
};

} // namespace

std::vector<std::vector<const DecodedInstruction *>>
tfm::innermostLoops(const DecodedFunction &function) {
  std::map<size_t, std::set<size_t>> loops =
      FlowGraph(function.instructions).loops();
  std::vector<std::vector<const DecodedInstruction *>> innermost;
  for (const auto &[first, loop] : loops) {
    if (llvm::any_of(loop, [&, first = first](size_t at) {
          return at != first && loops.count(at);
        }))
      continue;
    innermost.emplace_back();
    for (size_t at : loop)
      innermost.back().push_back(&function.instructions[at]);
  }
  return innermost;
}
