//===- TfmInterfaces.td - what transforms ask of ops --------------*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_DIALECT_TFMINTERFACES_TD
#define TFM_DIALECT_TFMINTERFACES_TD

include "mlir/IR/OpBase.td"

def DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::tfm";
  let description = [{
    An op that knows its vector-Jacobian product. The product is built from tfm
    ops, so it is fused, planned and compiled like anything else; whatever
    forward values it mentions become the values that training has to save.
  }];
  let methods = [
    InterfaceMethod<[{
        Builds the cotangents of the operands from those of the results.

        `cotangents` has one value per result, null where nothing downstream
        depends on that result. The result has one value per operand, null
        where the derivative is zero or undefined (integers, booleans). Each
        cotangent has the type of its operand. Where there is no derivative it
        reports that and fails.
      }],
      "::llvm::FailureOr<::tfm::Cotangents>", "buildVJP",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$cotangents)>,
  ];
}

def ScalarFunctionOpInterface : OpInterface<"ScalarFunctionOpInterface"> {
  let cppNamespace = "::tfm";
  let description = [{
    An op that applies a function of one number to every element (see
    ScalarFunctions.h).
  }];
  let methods = [
    StaticInterfaceMethod<"The function at `x`.", "double", "valueAt", (ins "double":$x)>,
    StaticInterfaceMethod<"What it says of a model that it has the function.",
      "::tfm::FunctionUse", "getFunctionUse">,
  ];
}

def FlopsOpInterface : OpInterface<"FlopsOpInterface"> {
  let cppNamespace = "::tfm";
  let description = [{
    Every op of tfm: how many floating-point operations it takes. What is counted
    is what the op's definition needs, whatever a kernel does:

    - every addition, multiplication, division, maximum and function (`exp`,
      `erf`, ...) of the formula in the op's summary counts 1 per element;
    - a matrix product takes `2 M N K` per batch entry;
    - attention takes, per query and key that it sees, `2 d` (q k'), `2 e`
      (weights v), 5 for scaling and softmax, and 3 for a softcap; keys behind a
      causal mask or outside of the window are not seen;
    - its derivative takes, per query and key that it sees, `6 d + 4 e` (the
      scores again, dv, dp, dq and dk) and 6 elementwise; `2 e` per query;
    - what moves or chooses elements, and arithmetic of integers, takes none;
    - a repeat takes what its body takes, times the number of layers.

    Ask with `tfm::flopsOf`.
  }];
  let methods = [
    InterfaceMethod<"The floating-point operations of one execution.", "::tfm::FlopCount", "getFlops">,
  ];
}

def AxisMapOpInterface : OpInterface<"AxisMapOpInterface"> {
  let cppNamespace = "::tfm";
  let description = [{
    An op that says how axes go from its operands to its results. Whoever cuts
    tensors along an axis asks it: generation, which computes some positions of
    all, and a batch that is divided.
  }];
  let methods = [
    InterfaceMethod<[{
        What becomes of an axis of `size` that is at `place` of an operand: the
        same place of every result holds it, where the op keeps it. An operand
        may have other axes there than the results only where the op says so
        (`tfm.broadcast`).
      }],
      "::tfm::AxisMap", "mapAxis",
      (ins "unsigned":$operand, "::tfm::AxisPlace":$place, "int64_t":$size)>,
    InterfaceMethod<[{
        What the op does, in the user's words, where two operands bring one axis
        to different places.
      }],
      "::llvm::StringRef", "getAxisClash", (ins), "",
      [{ return "values of different positions are combined"; }]>,
  ];
}

def RowKernelOpInterface : OpInterface<"RowKernelOpInterface"> {
  let cppNamespace = "::tfm";
  let description = [{
    An op that a row kernel computes, together with others: element by element,
    over a domain of rows and columns.
  }];
  let methods = [
    InterfaceMethod<[{
        Whether a kernel reads an operand at its own point, or row, rather than
        anywhere in memory.
      }],
      "bool", "readsAtPoint", (ins "unsigned":$operand), "", [{ return true; }]>,
    InterfaceMethod<[{
        The rows and columns that the op goes over: of its result, or of its
        operand where it reduces that.
      }],
      "::tfm::Domain", "getDomain", (ins), "",
      [{ return ::tfm::domainOf($_op->getResult(0)); }]>,
    InterfaceMethod<"The axis of its operand that the op reduces.",
      "::std::optional<int64_t>", "getReducedAxis", (ins), "", [{ return ::std::nullopt; }]>,
  ];
}

def ScanOpInterface : OpInterface<"ScanOpInterface"> {
  let cppNamespace = "::tfm";
  let description = [{
    An op that adds up what goes before along an axis: `y[i] = x[i] + d[i] *
    y[i - 1]`, and in reverse, which is the derivative, `y[i] = x[i] + d[i + 1] *
    y[i + 1]`. What `y` begins with is 0.
  }];
  let methods = [
    InterfaceMethod<"What the sum before is multiplied by, of the type of `x`; null: 1.",
      "::mlir::Value", "getDecay", (ins), "", [{ return {}; }]>,
    InterfaceMethod<"What is added up.", "::mlir::Value", "getX">,
    InterfaceMethod<"The sums, of the type of `x`.", "::mlir::Value", "getY">,
    InterfaceMethod<"The axis of `x` that they go along.", "uint64_t", "getAxis">,
    InterfaceMethod<"Whether they begin at its end.", "bool", "getReverse">,
  ];
}

#endif // TFM_DIALECT_TFMINTERFACES_TD
