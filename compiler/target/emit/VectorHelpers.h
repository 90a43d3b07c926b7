//===- VectorHelpers.h - functions of vectors -------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_EMIT_VECTORHELPERS_H
#define TFM_TARGET_EMIT_VECTORHELPERS_H

#include "mlir/IR/Value.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/SmallVector.h"
#include <cstdint>

namespace mlir {
class Location;
class OpBuilder;
class RewritePatternSet;
} // namespace mlir

namespace tfm {

/// What random numbers depend on besides row and column; the same for a whole
/// kernel (docs/design.md, "Random numbers"). All are i32.
struct RandomKey {
  mlir::Value seedLow, seedHigh;
  /// site * 65536 + layer.
  mlir::Value stream;
  /// update index * accumulate + micro-step.
  mlir::Value step;
};

/// Reads `rng` (memref<4xi32>: seed low, seed high, update index, micro-step)
/// once; best at the start of a kernel. `layer` is of type index;
/// `accumulate` is the recipe's number of micro-steps in an update.
RandomKey randomKey(mlir::OpBuilder &builder, mlir::Location loc,
                    mlir::Value rng, mlir::Value layer, int64_t site,
                    int64_t accumulate);

/// The random words of row `row`: four vectors, vector<lanes x i32>, of the
/// columns that begin 0, 16, 32 and 48 behind the place of `column` among its
/// sixteen, in its block of 64 columns. `row` and `column`, a multiple of
/// `lanes`, are of type index; `lanes` divides 16. About 100 instructions: use
/// all four.
llvm::SmallVector<mlir::Value>
randomWordVectors(mlir::OpBuilder &builder, mlir::Location loc,
                  const RandomKey &key, mlir::Value row, mlir::Value column,
                  int64_t lanes);

/// The random word, an i32, at `row` and `column`, both i64.
mlir::Value randomWord(mlir::OpBuilder &builder, mlir::Location loc,
                       const RandomKey &key, mlir::Value row,
                       mlir::Value column);

/// A number in [0, 1), f32, of the upper 24 bits of each word.
mlir::Value unitOf(mlir::OpBuilder &builder, mlir::Location loc,
                   mlir::Value words);

/// What decides, besides row and column, whether dropout keeps an element.
struct DropoutKey : RandomKey {
  /// Words from here on are kept: floor(rate * 2**32).
  uint32_t threshold = 0;
};

/// As `randomKey`.
DropoutKey dropoutKey(mlir::OpBuilder &builder, mlir::Location loc,
                      mlir::Value rng, mlir::Value layer, int64_t site,
                      double rate, int64_t accumulate);

/// Which elements dropout keeps of those of `randomWordVectors`, as masks,
/// vector<lanes x i1>.
llvm::SmallVector<mlir::Value>
dropoutKeepVectors(mlir::OpBuilder &builder, mlir::Location loc,
                   const DropoutKey &key, mlir::Value row, mlir::Value column,
                   int64_t lanes);

/// As `dropoutKeepVectors`, for other assignments of elements to lanes: `row`
/// is the row and `counter` is (column / 64) * 16 + column % 16 of each lane
/// (vectors of i32, or scalars). Word w of the result, w = 0 ... 3, is about
/// column + 16 * w.
llvm::SmallVector<mlir::Value>
dropoutKeepWords(mlir::OpBuilder &builder, mlir::Location loc,
                 const DropoutKey &key, mlir::Value row, mlir::Value counter);

/// Whether dropout keeps the element at `row` and `column`, both i64.
mlir::Value dropoutKeep(mlir::OpBuilder &builder, mlir::Location loc,
                        const DropoutKey &key, mlir::Value row,
                        mlir::Value column);

/// e ** x for f32 or a vector of f32, within 1.2e-7 of the value, relative;
/// infinity from 2 ** 127.5 on, NaN stays, and results below the smallest
/// normal number are 0 where the processor takes denormals for it, as in a
/// model. This is what `math.exp` becomes: see `populateMathPatterns`.
mlir::Value emitExp(mlir::OpBuilder &builder, mlir::Location loc,
                    mlir::Value x);

/// 2 ** x likewise, within 1.3e-7 of the value, relative, for three quarters of
/// the instructions: where a factor that makes x has room for log2(e), as in
/// the weights of a softmax. This is what `math.exp2` becomes.
mlir::Value emitExp2(mlir::OpBuilder &builder, mlir::Location loc,
                     mlir::Value x);

/// sin(x) or cos(x) of f32 or a vector of f32, x in radians: within 1.2e-7 of
/// the value for |x| < 1.6e7, and in -1 ... 1 beyond.
mlir::Value emitSine(mlir::OpBuilder &builder, mlir::Location loc,
                     mlir::Value x, bool cosine);

/// Patterns that lower `math.exp`, `math.exp2`, `math.sin` and `math.cos` of
/// f32 through the functions above. MLIR's own approximation of `exp` takes
/// three times as long, and those of the others are off by 4e-8 for every
/// quarter turn in x, which is too much for rotary positions of a long context.
void populateMathPatterns(mlir::RewritePatternSet &patterns);

} // namespace tfm

#endif // TFM_TARGET_EMIT_VECTORHELPERS_H
