//===- KernelTarget.cpp - the targets that there are ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/KernelTarget.h"

#include "llvm/ADT/StringMap.h"

using namespace tfm;

static llvm::StringMap<std::unique_ptr<const KernelTarget>> &targets() {
  static llvm::StringMap<std::unique_ptr<const KernelTarget>> known;
  return known;
}

void KernelTarget::add(llvm::StringRef name,
                       std::unique_ptr<const KernelTarget> target) {
  targets().try_emplace(name, std::move(target));
}

const KernelTarget *KernelTarget::named(llvm::StringRef name) {
  auto found = targets().find(name);
  return found == targets().end() ? nullptr : found->second.get();
}
