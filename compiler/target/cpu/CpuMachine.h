//===- CpuMachine.h - what code generation knows of a CPU -------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CPU_CPUMACHINE_H
#define TFM_TARGET_CPU_CPUMACHINE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace llvm {
class Function;
class TargetMachine;
} // namespace llvm

namespace tfm {

/// A CPU to compile for. Register tiles and cache blocks follow from it.
struct CpuMachine {
  std::string triple;
  std::string cpu;
  /// In LLVM's form, `+avx2,-prefer-256-bit`.
  std::string features;
  /// Whether it is the machine that this program runs on.
  bool isNative = false;
  /// f32 elements of the widest vector register with a fused multiply-add.
  int64_t lanes = 0;
  /// Number of vector registers.
  int64_t registers = 0;
  /// Whether an instruction rounds f32 to bf16 (AVX512-BF16, AArch64's BF16).
  bool roundsToBf16 = false;
  /// Whether sums of products of two bf16 are faster by its instruction for
  /// pairs of them than in f32.
  bool bf16Pairs = false;
  /// Whether code uses its tiles for that (AMX).
  bool bf16Tiles = false;
  /// Whether an instruction adds four products of integers of 8 bits to one of
  /// 32, those of one factor without a sign (AVX512-VNNI, AVX-VNNI) or all with
  /// theirs (AArch64's DotProd); or else one adds two to one of 16, and another
  /// two of those (AVX2), which is still faster than f32.
  bool int8Quads = false;
  bool int8SignedQuads = false;
  bool int8Pairs = false;
  /// Whether code uses its tiles for that (AMX).
  bool int8Tiles = false;
  /// Whether memory is read fastest from one end to the other, and drops what
  /// is prefetched while others wait for it: rows that are read side by side
  /// are then prefetched into the second-level cache, and twice. Of what is in
  /// a cache it fetches ahead along the rows of a tile by itself.
  bool readsInOrder = false;
  /// Whether it foresees by itself what is read next along rows: it reads wide
  /// strips of them fastest if nothing is prefetched, and those of 4 bits one
  /// after the other.
  bool foreseesRows = false;
  /// Data cache sizes of one core, in bytes.
  int64_t l1Bytes = 0;
  int64_t l2Bytes = 0;

  /// The machine this program runs on.
  static llvm::Expected<CpuMachine> native();

  /// A CPU by LLVM's name for it (`x86-64-v3`, `znver4`, `skylake-avx512`,
  /// `apple-m1`, ...), or `native`; without tiles, unless `+amx` follows. Fails
  /// for a name that LLVM does not know, and for a CPU without fused
  /// multiply-add or, asked for them, without tiles.
  static llvm::Expected<CpuMachine> named(llvm::StringRef cpu);

  bool multipliesIntegers() const {
    return int8Quads || int8SignedQuads || int8Pairs;
  }

  /// What `named` finds it by, but never `native`.
  std::string name() const;

  /// The same CPU, with its tiles; nothing where it has none for bf16 and
  /// integers of 8 bits.
  std::optional<CpuMachine> withTiles() const;

  /// The features that a processor must have to run the code, separated by
  /// commas: of those in runtime/device/cpu_features.h the ones that this one
  /// has. Of the machine that this runs on those that the runtime finds, too:
  /// what is built here runs here.
  std::string requirements() const;

  /// The processor, by LLVM's name, whose instructions the code is made of. On
  /// AArch64 those that all have, beside those that `features` asks for, in the
  /// order that suits this one: f32 gains little by others.
  llvm::StringRef codeCpu() const;

  /// Has the code generator make a function for this processor, whatever the
  /// others in its module are for.
  void describe(llvm::Function &function) const;

  /// Rows of the register tile of a matrix product, or of one with so many
  /// vectors in a row.
  int64_t tileRows() const { return tileRows(tileVectors()); }
  int64_t tileRows(int64_t vectors) const;
  /// The same of products of integers by pairs (`int8Pairs`).
  int64_t pairTileRows() const;
  /// Vectors in a row of that tile; its columns are `lanes` times as many.
  int64_t tileVectors() const;
  /// The same where A is not packed: a wide and low tile loads less for as many
  /// multiply-adds (10 elements and vectors for 24 instead of 16 for 28, with
  /// AVX-512), which tells where threads share a core.
  int64_t tileVectorsInPlace() const;

  /// LLVM's code generator for the target.
  llvm::Expected<std::unique_ptr<llvm::TargetMachine>> createMachine() const;
};

} // namespace tfm

#endif // TFM_TARGET_CPU_CPUMACHINE_H
