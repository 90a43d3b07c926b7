//===- ReadRecipe.h - what passes ask of the recipe -------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TRANSFORMS_READRECIPE_H
#define TFM_TRANSFORMS_READRECIPE_H

#include "compiler/dialect/TfmDialect.h"
#include "runtime/recipe_table.h"

#include "mlir/IR/BuiltinOps.h"

namespace tfm {

/// `train.optimizer` of a recipe (runtime/recipe_table.h).
struct Optimizer {
  enum class Kind { Sgd, Adam, AdamW };

  Kind kind = Kind::AdamW;
  double beta1 = recipe::betas("train.optimizer.betas")[0];
  double beta2 = recipe::betas("train.optimizer.betas")[1];
  double eps = recipe::number("train.optimizer.eps");
  /// Whether eps is added to the root of v before its bias is corrected, as
  /// Keras does, and not after, as PyTorch does.
  bool epsBeforeCorrection = false;
  double weightDecay = recipe::number("train.optimizer.weight_decay", "adamw");
  /// Weight decay applies to parameters of at least this rank, within a layer.
  int64_t decayMinRank = recipe::integer("train.optimizer.decay_min_rank");
  double momentum = recipe::number("train.optimizer.momentum");
  bool nesterov = recipe::flag("train.optimizer.nesterov");

  /// How many tensors of state it keeps per parameter: m and v, or momentum.
  int numStates() const {
    return kind == Kind::Sgd ? (momentum != 0.0 ? 1 : 0) : 2;
  }

  /// Whether `param` is in the range that weight decay applies to.
  bool decays(ParamOp param) const;

  /// Reads the recipe of `module`. Nothing where there is no `train` block; a
  /// failure, reported at the module, where it cannot be understood: a key is
  /// missing, of another type, or out of its range.
  static mlir::FailureOr<std::optional<Optimizer>> read(mlir::ModuleOp module);
};

/// Micro-batches in an update: `train.accumulate` of the recipe, 1 where there
/// is no `train` block. Fails as `Optimizer::read`.
mlir::FailureOr<int64_t> microSteps(mlir::ModuleOp module);
/// The same where the recipe may say nothing, as in modules that are written by
/// hand, or something wrong, which is reported elsewhere: then 1.
int64_t microStepsIfKnown(mlir::ModuleOp module);

/// Whether `train.sum` of the recipe is `tree`.
bool sumsAsTree(mlir::ModuleOp module);

/// How many sums of gradients wait at most for another one, where
/// `train.sum` = `tree` adds up micro-batches in pairs, then the pairs, and so
/// on while there is an even number of them; what is left over at the end of
/// the pairs, an odd number of micro-batches, is added one after the other
/// first. 0 where the recipe says otherwise.
int64_t waitingSums(mlir::ModuleOp module);

/// Whether `data.kind` of the recipe is `arrays`.
bool readsArrays(mlir::ModuleOp module);

/// How many token ids texts for the model are made of: those of its tokenizer,
/// as far as its tables have rows for them; without one those rows, once
/// `tfm.facts` says how many. 0 where nothing says it.
int64_t knownTokens(mlir::ModuleOp module);

/// `train.precision` of the recipe: f32, also where there is no `train` block,
/// or bf16. Fails as `Optimizer::read`.
mlir::FailureOr<mlir::FloatType> trainingPrecision(mlir::ModuleOp module);

/// `generate.weights` of the recipe: f32, also where there is no recipe, bf16,
/// i8 or i4 (two of which are stored as one i8: `tfm.dequantise`). A build of
/// another type than f32 does not train. Fails as `Optimizer::read`.
mlir::FailureOr<mlir::Type> weightsOfGeneration(mlir::ModuleOp module);

/// `generate.cache` of the recipe: f32, also where there is no recipe, bf16, or
/// i8. Where products are of bf16, keys and values of f32 are, too.
/// Fails as `Optimizer::read`.
mlir::FailureOr<mlir::Type> cacheOfGeneration(mlir::ModuleOp module);

/// `generate.top_k` of the recipe: 0 for no limit, also where it does not say.
/// Fails as `Optimizer::read`.
mlir::FailureOr<int64_t> topKOfGeneration(mlir::ModuleOp module);

/// Whether the loss is a method of the model, and not one of the recipe's.
mlir::FailureOr<bool> hasOwnLoss(mlir::ModuleOp module);

/// What products are computed in: bf16 where training is, or weights are stored
/// in it. Fails as `Optimizer::read`.
mlir::FailureOr<mlir::FloatType> precisionOf(mlir::ModuleOp module);

} // namespace tfm

#endif // TFM_TRANSFORMS_READRECIPE_H
