//===- KernelTarget.cpp - the targets that there are ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/KernelTarget.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace tfm;

namespace {
struct Kind {
  KernelTarget::Factory create;
  std::string portable;
};
} // namespace

static llvm::StringMap<Kind> &kinds() {
  static llvm::StringMap<Kind> known;
  return known;
}

void KernelTarget::add(llvm::StringRef kind, Factory create,
                       llvm::StringRef portable) {
  kinds()[kind] = {create, portable.str()};
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
      found->second.create(machine.empty() ? "native" : machine);
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

/// Those that need more come first, behind those that need as much.
static void insert(std::vector<const KernelTarget *> &targets,
                   const KernelTarget *target) {
  auto needs = [](const KernelTarget *target) {
    return llvm::StringRef(target->features()).count(',');
  };
  targets.insert(llvm::upper_bound(
                     targets, target,
                     [&](const KernelTarget *own, const KernelTarget *other) {
                       return needs(own) > needs(other);
                     }),
                 target);
}

void KernelTarget::addFaster(std::vector<const KernelTarget *> &targets,
                             const Numbers &numbers) {
  std::vector<const KernelTarget *> listed = targets;
  for (const KernelTarget *target : listed)
    for (const std::string &name : target->faster(numbers)) {
      const KernelTarget *faster =
          llvm::cantFail(named((target->kind() + ":" + name).str()));
      if (llvm::none_of(targets, [&](const KernelTarget *other) {
            return other->machine() == faster->machine();
          }))
        insert(targets, faster);
    }
}

llvm::Expected<std::vector<const KernelTarget *>>
KernelTarget::variants(llvm::StringRef kind, llvm::StringRef machines) {
  llvm::SmallVector<llvm::StringRef> names;
  auto known = kinds().find(kind);
  for (llvm::StringRef name : llvm::split(machines, ','))
    if (name.trim() == "portable" && known != kinds().end())
      llvm::append_range(names, llvm::split(known->second.portable, ','));
    else
      names.push_back(name.trim());
  std::vector<const KernelTarget *> targets;
  for (llvm::StringRef name : names) {
    if (name.empty())
      return llvm::createStringError("a CPU without a name is listed in '" +
                                     machines + "'");
    if (name == "+amx")
      return llvm::createStringError("'" + name +
                                     "' stands behind the name of "
                                     "a CPU, as in 'sapphirerapids" +
                                     name + "'");
    llvm::Expected<const KernelTarget *> target =
        named((kind + ":" + name).str());
    if (!target)
      return target.takeError();
    for (const KernelTarget *other : targets) {
      if (other->machine() == (*target)->machine())
        return llvm::createStringError(
            "the CPU '" + name + "' is listed twice" +
            (machines.contains("portable")
                 ? " (`portable` stands for " + known->second.portable + ")"
             : machines.contains("native")
                 ? " (`native` is " + (*target)->machine().str() + " here)"
                 : std::string()));
      if (other->triple() != (*target)->triple())
        return llvm::createStringError("one file cannot have code for '" +
                                       other->machine() + "' and '" + name +
                                       "', which are of other kinds");
    }
    insert(targets, *target);
  }
  return targets;
}

llvm::Expected<const KernelTarget *> KernelTarget::one(llvm::StringRef kind,
                                                       llvm::StringRef machine,
                                                       llvm::StringRef what) {
  llvm::Expected<std::vector<const KernelTarget *>> found =
      variants(kind, machine);
  if (!found)
    return found.takeError();
  if (found->size() == 1)
    return found->front();
  auto names = llvm::map_range(
      *found, [](const KernelTarget *t) { return t->machine(); });
  return llvm::createStringError(what + " is that of one CPU, and '" + machine +
                                 "' names several: choose one with --cpu, " +
                                 llvm::join(names, " or "));
}
