//===- TfmTypes.td - tensors that ops take ------------------------*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_DIALECT_TFMTYPES_TD
#define TFM_DIALECT_TFMTYPES_TD

include "mlir/IR/CommonTypeConstraints.td"

def HasElementsPred
    : CPred<"!::llvm::is_contained(::llvm::cast<::mlir::ShapedType>($_self).getShape(), 0)">;

/// A tensor of static shape with at least one element.
class TfmTensorOf<list<Type> elements>
    : RankedTensorOf<elements, [HasStaticShapePred, HasElementsPred],
                     "statically shaped tensor without empty axes">;

/// Floats that are computed with.
def FloatTensor : TfmTensorOf<[F32, F64]>;
/// Floats as products and attention take them, too: bf16 is what values are
/// rounded to on their way to memory, and no arithmetic is done in it.
def StoredFloatTensor : TfmTensorOf<[BF16, F32, F64]>;
/// Weights as generation reads them, too: integers of 8 bits, which a scale for
/// each output belongs to.
def WeightTensor : TfmTensorOf<[I8, BF16, F32, F64]>;
def IntTensor : TfmTensorOf<[I32]>;
def BoolTensor : TfmTensorOf<[I1]>;
def AnyTfmTensor : TfmTensorOf<[BF16, F32, F64, I8, I32, I1]>;
def NumberTensor : TfmTensorOf<[F32, F64, I32]>;

/// Floats in rows along the last axis, of which there is one at least.
def FloatRows : Type<
    And<[FloatTensor.predicate,
         CPred<"::llvm::cast<::mlir::ShapedType>($_self).getRank() >= 1">]>,
    "floats with at least one axis", "::mlir::RankedTensorType">;

#endif // TFM_DIALECT_TFMTYPES_TD
