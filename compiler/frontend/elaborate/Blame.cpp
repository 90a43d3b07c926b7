//===- Blame.cpp - which hyperparameters an error is about ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/Blame.h"

#include "compiler/frontend/elaborate/Dimensions.h"
#include "compiler/frontend/elaborate/Reporter.h"

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

/// Whether a number is too small or too large for the size of any axis.
static bool isNoDimension(const Dim &dim) {
  return dim.value() < 1 || static_cast<double>(dim.value()) > maxElements;
}

bool Blame::isFirst(const SymbolicValue &value) {
  if (!tree.root || value.isPoison())
    return true;
  for (auto &[name, hyper] : tree.root->hyperparameters) {
    auto known = blamed.find(name.str());
    const SymbolicValue &given = known == blamed.end() ? hyper : known->second;
    if (given.kind() != value.kind())
      continue;
    // What is wrong with `3 * width` is that `width` is negative, or huge.
    bool isCause = value.is(SymbolicValue::Int) ? isNoDimension(given.dim()) &&
                                                      value.dim().mentions(name)
                                                : given.show() == value.show();
    if (!isCause)
      continue;
    if (known != blamed.end())
      return false;
    blamed.emplace(name.str(), hyper);
    // What is made of it from here on is not worth a word.
    hyper = SymbolicValue();
    return true;
  }
  return true;
}

std::string Blame::originOf(StringRef hyperparameter) const {
  auto set = origins.find(hyperparameter.str());
  if (set == origins.end())
    return {};
  const SourceFile &file = sources.file(set->second.file);
  return file.isArgument() ? "set by `" + file.name().str() + "`"
                           : "set in " + reporter.place(set->second);
}

/// `8.0`, not `8`, of which nobody would see what is wrong with it.
static std::string showNumber(const SymbolicValue &value) {
  if (value.is(SymbolicValue::Int))
    return std::to_string(value.dim().value());
  std::string text = value.show();
  return text +
         (StringRef(text).find_first_of(".en") == StringRef::npos ? ".0" : "");
}

void Blame::noteOrigins(Diagnostic &d, const SymbolicValue &value) {
  if (!tree.root || !value.isNumber())
    return;
  bool isInt = value.is(SymbolicValue::Int);
  // A float has no formula, but may have been passed on unchanged.
  auto isPartOf = [&](StringRef name, const SymbolicValue &given) {
    return given.kind() == value.kind() &&
           (isInt ? value.dim().mentions(name)
                  : given.number() == value.number());
  };
  // Where one of them cannot be a dimension the others are not to blame.
  llvm::SmallVector<std::pair<StringRef, const SymbolicValue *>> parts, wrong;
  for (const auto &[name, hyper] : tree.root->hyperparameters) {
    auto known = blamed.find(name.str());
    const SymbolicValue &given = known == blamed.end() ? hyper : known->second;
    if (!isPartOf(name, given))
      continue;
    parts.push_back({name, &given});
    if (isInt && isNoDimension(given.dim()))
      wrong.push_back({name, &given});
  }
  for (const auto &[name, given] : wrong.empty() ? parts : wrong)
    if (auto set = origins.find(name.str());
        set != origins.end() && set->second != d.range)
      d.note(name + " = " + showNumber(*given) + " is " + originOf(name));
  for (const auto &[name, origin] : dimOrigins)
    if (isInt && value.dim().mentions(name))
      d.note(origin);
}
