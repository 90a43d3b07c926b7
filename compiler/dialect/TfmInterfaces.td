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

#endif // TFM_DIALECT_TFMINTERFACES_TD
