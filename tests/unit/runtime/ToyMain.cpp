//===- ToyMain.cpp - the toy model as a binary --------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Linked with libtfm_runtime.a exactly as a compiled model is.
//
//===----------------------------------------------------------------------===//

#include "tests/unit/runtime/ToyModel.h"

namespace {

tfm::test::ToyShape shape() {
  tfm::test::ToyShape shape;
  shape.ignore = 13;
  shape.batch = 16;
  return shape;
}

const tfm::test::ToyModel
    toy(shape(),
        tfm::test::sumsRecipe(
            shape(),
            R"("steps": 300, "schedule": {"kind": "cosine", "warmup": 10},
               "validate": {"every": 100, "unit": "steps", "batches": 4},
               "checkpoint": {"every": 100, "unit": "steps"},
               "sample": {"every": 150, "unit": "steps", "prompt": "12+",
                          "tokens": 8})"));

} // namespace

extern "C" const tfm_model tfm_model_descriptor = toy.descriptor();
