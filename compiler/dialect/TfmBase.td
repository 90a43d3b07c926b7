//===- TfmBase.td - families of ops -------------------------------*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_DIALECT_TFMBASE_TD
#define TFM_DIALECT_TFMBASE_TD

include "TfmDialect.td"
include "TfmInterfaces.td"
include "TfmTypes.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

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
