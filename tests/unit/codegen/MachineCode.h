//===- MachineCode.h - the instructions of an object file -------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TESTS_UNIT_CODEGEN_MACHINECODE_H
#define TFM_TESTS_UNIT_CODEGEN_MACHINECODE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/MC/MCInst.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBufferRef.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tfm {

struct CpuMachine;

/// One instruction, as LLVM's disassembler reads it.
struct DecodedInstruction {
  uint64_t address;
  llvm::MCInst inst;
  /// Its name in assembly (on x86 in AT&T's syntax), without operands.
  std::string mnemonic;
  /// Where a branch goes whose target stands in the instruction.
  std::optional<uint64_t> target;
  /// Whether the next one may follow it, and whether it calls a function.
  bool fallsThrough = true, isCall = false;
  /// Whether it reads or writes the stack.
  bool accessesStack = false;
  /// Whether it names a vector, a mask or a tile.
  bool usesVectors = false;
};

/// A function of an object file.
struct DecodedFunction {
  std::string name;
  std::vector<DecodedInstruction> instructions;
};

/// All functions of an object file for `target`. Fails where bytes of one are
/// no instructions of that CPU.
llvm::Expected<std::vector<DecodedFunction>>
decodeFunctions(llvm::MemoryBufferRef object, const CpuMachine &target);

/// The loops of a function without another in them, as flow graphs have them:
/// from where a jump goes back to, all that leads to the jump. Each is its
/// instructions, in the order in which they lie.
std::vector<std::vector<const DecodedInstruction *>>
innermostLoops(const DecodedFunction &function);

} // namespace tfm

#endif // TFM_TESTS_UNIT_CODEGEN_MACHINECODE_H
