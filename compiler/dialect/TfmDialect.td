//===- TfmDialect.td - the tfm dialect ----------------------------*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_DIALECT_TFMDIALECT_TD
#define TFM_DIALECT_TFMDIALECT_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/DialectBase.td"
include "mlir/IR/EnumAttr.td"

def Tfm_Dialect : Dialect {
  let name = "tfm";
  let cppNamespace = "::tfm";
  let summary = "Transformer models as pure tensor programs with static shapes";
  let description = [{
    A module holds one model: its parameters (`tfm.param`), and functions over
    them. Every op is free of side effects and every tensor has a static shape,
    so a function is its dataflow graph and nothing else.

    What the user wrote survives as attributes:

    - on the module: `tfm.model`, `tfm.source`, `tfm.hyperparameters`,
      `tfm.modules` and `tfm.recipe`;
    - on `tfm.param`: one layer's dimensions in the user's words (`dims`);
    - on function arguments: `tfm.name`, and `tfm.dims`; on arguments and results
      that are a part of the arena: `tfm.region`;
    - on functions: `tfm.shapes`, an array of dictionaries `path`, `name`,
      `role`, `shape`, `dims`, `file` and `line`, in the order of the program:
      the arguments, named values and results of every method that was called;
    - on an op whose result the user named: `tfm.value`, a dictionary with
      `path`, `name`, `dims` and `line`.

    A repeated layer is one `tfm.repeat` with stacked parameters, from the
    language down to machine code.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
  // `tfm.region` (Programs.h).
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let dependentDialects = ["::mlir::func::FuncDialect"];
}

#endif // TFM_DIALECT_TFMDIALECT_TD
