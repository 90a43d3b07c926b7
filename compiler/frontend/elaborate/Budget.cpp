//===- Budget.cpp - what elaborating may cost -----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/Budget.h"

#include "compiler/frontend/elaborate/Compilation.h"
#include "compiler/frontend/elaborate/Reporter.h"

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

bool Budget::spend(size_t steps, Range range) {
  if (steps <= compilation.stepsLeft) {
    compilation.stepsLeft -= steps;
    return !diags.isFull();
  }
  if (compilation.stepsLeft > 0 || !stopped) {
    compilation.stepsLeft = 0;
    stopped = true;
    reporter
        .error(512, range,
               "this model takes more than " + Twine(maxSteps) +
                   " steps to work out, and here they are over")
        .help("what contains or calls another one twice doubles the work with "
              "every level; layers that are alike are written `repeat(n) "
              "Block(...)`");
  }
  return false;
}
