//===- Compilation.cpp - what the checks of one file share ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/Compilation.h"

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

bool Compilation::isInStd(uint32_t file) const {
  return llvm::any_of(stdUnits,
                      [&](const Unit *unit) { return unit->file == file; });
}

const Block *Compilation::block(StringRef keyword) const {
  for (const Block &block : mainUnit->ast->blocks)
    if (block.keyword == keyword)
      return &block;
  return nullptr;
}
