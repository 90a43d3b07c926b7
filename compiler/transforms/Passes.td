//===- Passes.td - passes over the tfm dialect --------------------*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TRANSFORMS_PASSES_TD
#define TFM_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def DifferentiatePass : Pass<"tfm-differentiate", "::mlir::ModuleOp"> {
  let summary = "add @train: the loss and its gradients";
  let description = [{
    From `@loss`, whose first result is the loss, makes `@train`: the same
    results followed by the gradient of every trainable `tfm.param`, in the
    order of their declarations. Each of these results has the attribute
    `tfm.gradient = @param`. The gradient of a parameter that the loss does not
    depend on is zeros. Does nothing where there is no `@loss`.
  }];
}

def StripDropoutPass : Pass<"tfm-strip-dropout", "::mlir::ModuleOp"> {
  let summary = "add @evaluate: the loss without dropout";
  let description = [{
    Makes `@evaluate`, a copy of `@loss` in which `tfm.dropout` is the identity
    and `tfm.attention` has no dropout, and removes dropout from `@forward`.
    `@loss` stays as it is.
  }];
}

#endif // TFM_TRANSFORMS_PASSES_TD
