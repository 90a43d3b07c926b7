//===- TfmBase.td - types and families of ops ---------------------*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_DIALECT_TFMBASE_TD
#define TFM_DIALECT_TFMBASE_TD

include "TfmDialect.td"
include "TfmInterfaces.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

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

//===----------------------------------------------------------------------===//
// Families of ops
//===----------------------------------------------------------------------===//

/// Computing it again costs about as much as loading its result: the derivative
/// of a repeat saves its operands rather than it.
def CheapToRebuild : NativeOpTrait<"CheapToRebuild"> {
  let cppNamespace = "::tfm";
}

/// Every op says how many floating-point operations it takes: here, or as
/// `getFlops` in Flops.cpp, without which tfm does not link.
class Tfm_Op<string mnemonic, list<Trait> traits = []>
    : Op<Tfm_Dialect, mnemonic, traits # [DeclareOpInterfaceMethods<FlopsOpInterface>]> {
  /// Operations for each element of the first operand, if that is of floats; "0"
  /// where elements only move. Empty: `getFlops` is in Flops.cpp.
  string flops = "";
  /// The value of `mapAxis(operand, place, size)`; empty: in AxisMaps.cpp.
  string axes = "";
  let extraClassDefinition = !if(!empty(flops), "", [{
    ::tfm::FlopCount $cppClass::getFlops() {
      return ::tfm::elementFlops(getOperation(), }] # flops # [{);
    }
  }]) # !if(!empty(axes), "", [{
    ::tfm::AxisMap $cppClass::mapAxis(unsigned operand, ::tfm::AxisPlace place, int64_t size) {
      return }] # axes # [{;
    }
  }]);
}

/// A pure op on tensors.
class Tfm_PureOp<string mnemonic, list<Trait> traits = []>
    : Tfm_Op<mnemonic, traits # [Pure, DeclareOpInterfaceMethods<AxisMapOpInterface>]>;

/// A pure op with a derivative.
class Tfm_DiffOp<string mnemonic, list<Trait> traits = []>
    : Tfm_PureOp<mnemonic, traits # [DeclareOpInterfaceMethods<DifferentiableOpInterface>]>;

/// An op that computes every element of its result from the elements of its
/// operands at the same place.
class Tfm_ElementwiseOp<string mnemonic, list<Trait> traits = []>
    : Tfm_PureOp<mnemonic, traits # [Elementwise, RowKernelOpInterface]> {
  let axes = "::tfm::AxisMap::kept(place)";
}

/// The same with a derivative.
class Tfm_ElementwiseDiffOp<string mnemonic, list<Trait> traits = []>
    : Tfm_ElementwiseOp<mnemonic, traits # [DeclareOpInterfaceMethods<DifferentiableOpInterface>]>;

#endif // TFM_DIALECT_TFMBASE_TD
