//===- KernelTarget.cpp - the targets that there are ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/KernelTarget.h"

#include "llvm/ADT/StringMap.h"

using namespace tfm;

static llvm::StringMap<KernelTarget::Factory> &kinds() {
  static llvm::StringMap<KernelTarget::Factory> known;
  return known;
}

void KernelTarget::add(llvm::StringRef kind, Factory create) {
  kinds()[kind] = create;
}

llvm::Expected<const KernelTarget *> KernelTarget::named(llvm::StringRef name) {
  static llvm::StringMap<std::unique_ptr<const KernelTarget>> targets;
  if (auto known = targets.find(name); known != targets.end())
    return known->second.get();
  auto [kind, machine] = name.split(':');
  auto found = kinds().find(kind);
  if (found == kinds().end())
    return llvm::createStringError("there is no target '" + kind + "'");
  llvm::Expected<std::unique_ptr<KernelTarget>> created =
      found->second(machine.empty() ? "native" : machine);
  if (!created)
    return created.takeError();
  (*created)->fullName = name.str();
  return (targets[name] = std::move(*created)).get();
}

const KernelTarget *KernelTarget::find(llvm::StringRef name,
                                       mlir::Operation *op) {
  llvm::Expected<const KernelTarget *> target = named(name);
  if (target)
    return *target;
  op->emitError() << llvm::toString(target.takeError());
  return nullptr;
}
