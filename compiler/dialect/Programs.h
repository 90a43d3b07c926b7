//===- Programs.h - the functions of a model -------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_DIALECT_PROGRAMS_H
#define TFM_DIALECT_PROGRAMS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/LogicalResult.h"

#include <cstdint>
#include <optional>
#include <string>

namespace mlir {
class ModuleOp;
class Value;
namespace func {
class FuncOp;
} // namespace func
} // namespace mlir

namespace tfm {

/// What a function of a module is for; docs/design.md has the arguments and
/// results of each. Its symbol says which it is, so that there is one of each.
enum class ProgramKind {
  Forward,      ///< logits
  ForwardBatch, ///< `Forward` of as many texts as are generated together: what
                ///< decoding them is made of, and none where that is one
  ForwardEncoded, ///< `Forward` behind `Encode`, what decoding is made of where
                  ///< there is an encoder
  Loss,           ///< the loss, with dropout; what the next two are made of
  Train,          ///< the loss and gradients
  Evaluate,       ///< the loss without dropout
  UpdateDecayed,  ///< the optimizer's step, one for each range of parameters;
  UpdatePlain,    ///< what the next is made of, then for some rows of it
  Squares,        ///< the sum of squares of all gradients
  Update,         ///< the optimizer's step for all parameters
  Encode,         ///< what an encoder makes of a prompt, into caches
  Prefill,        ///< a chunk of new tokens,
  PrefillShort,   ///< a shorter chunk,
  Verify,         ///< a few, with the logits after each, and
  Decode,         ///< a new token, given the others in caches
  Refresh,        ///< the copies of parameters in a narrower type
};

/// The symbol of the function: `forward`.
llvm::StringRef nameOf(ProgramKind kind);
/// Nothing for a name that is not one of them.
std::optional<ProgramKind> programKind(llvm::StringRef name);
/// Null where the module has none.
mlir::func::FuncOp findProgram(mlir::ModuleOp module, ProgramKind kind);

/// What an argument or a result of a function is called (`tfm.name`), as the
/// model's text does or one of `runtime/tfm_model.h`; empty where it has no
/// name.
llvm::StringRef nameOfArgument(mlir::func::FuncOp function, unsigned number);
llvm::StringRef nameOfResult(mlir::func::FuncOp function, unsigned number);
void nameArgument(mlir::func::FuncOp function, unsigned number,
                  llvm::StringRef name);
void nameResult(mlir::func::FuncOp function, unsigned number,
                llvm::StringRef name);
/// The number of the argument of that name; nothing where there is none.
std::optional<unsigned> findArgument(mlir::func::FuncOp function,
                                     llvm::StringRef name);
/// Makes `value` one more result of a function, by that name.
llvm::LogicalResult addResult(mlir::func::FuncOp function, mlir::Value value,
                              llvm::StringRef name);
/// What a binary may have, in the order in which a run goes through them.
llvm::ArrayRef<ProgramKind> builtPrograms();
/// Those of them that work on the caches of generation.
llvm::ArrayRef<ProgramKind> cachedPrograms();

/// A part of the arena that outlives programs. An argument or result of a
/// function whose `tfm.region` names one is that part itself.
struct ArenaRegion {
  enum class Kind { Parameters, Copies, Gradients, State0, State1, Cache };
  /// Of the parameters those that weight decay applies to, the other trained
  /// ones, and the rest.
  enum class Part { Decayed, Plain, Frozen };
  Kind kind = Kind::Parameters;
  /// But for caches.
  Part part = Part::Plain;
  /// Which of the caches.
  int64_t cache = 0;

  bool operator==(const ArenaRegion &) const = default;

  static ArenaRegion ofParameters(Kind kind, Part part) {
    return {kind, part, 0};
  }
  static ArenaRegion ofCache(int64_t number) {
    return {Kind::Cache, Part::Plain, number};
  }
  /// The optimizer's state of that number.
  static Kind state(int64_t number) {
    return number == 0 ? Kind::State0 : Kind::State1;
  }

  /// `parameters.decayed`, `state1.plain`, `cache.3`.
  std::string name() const;
  /// Nothing for another text.
  static std::optional<ArenaRegion> parse(llvm::StringRef name);

  /// Of an argument or result; nothing where it names none.
  static std::optional<ArenaRegion> ofArgument(mlir::func::FuncOp function,
                                               unsigned number);
  static std::optional<ArenaRegion> ofResult(mlir::func::FuncOp function,
                                             unsigned number);
  void setArgument(mlir::func::FuncOp function, unsigned number) const;
  void setResult(mlir::func::FuncOp function, unsigned number) const;
};

/// The path of a module as a person reads it: of layers that differ the first
/// one is named, `h.5.attn` for `h.6*+5.attn`, and of those of a list by its
/// number there, `block.1.attn` for `block.1-11.*.attn`. `*` alone stays.
std::string readablePath(llvm::StringRef path);

} // namespace tfm

#endif // TFM_DIALECT_PROGRAMS_H
