//===- Dimensions.cpp - what may be the size of an axis -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/Elaborator.h"

#include "llvm/ADT/StringExtras.h"

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

//===----------------------------------------------------------------------===//
// Which hyperparameters are to blame
//===----------------------------------------------------------------------===//

/// Whether the formula of an integer has the variable `name`.
static bool mentions(const Dim &dim, StringRef name) {
  std::string formula = dim.str();
  StringRef rest = formula;
  auto continuesName = [](char c) { return llvm::isAlnum(c) || c == '_'; };
  while (!rest.empty()) {
    StringRef word = rest.take_while(continuesName);
    if (word == name)
      return true;
    rest = rest.drop_front(std::max<size_t>(word.size(), 1));
  }
  return false;
}

/// Whether a number is too small or too large for the size of any axis.
static bool isNoDimension(const Dim &dim) {
  return dim.value() < 1 || static_cast<double>(dim.value()) > maxElements;
}

bool Elaborator::isFirstBlame(const Value &value) {
  if (!root || value.isPoison())
    return true;
  for (auto &[name, hyper] : root->hyperparameters) {
    auto known = blamed.find(name.str());
    const Value &given = known == blamed.end() ? hyper : known->second;
    if (given.kind() != value.kind())
      continue;
    // What is wrong with `3 * width` is that `width` is negative, or huge.
    bool isCause = value.is(Value::Int) ? isNoDimension(given.dim()) &&
                                              mentions(value.dim(), name)
                                        : given.show() == value.show();
    if (!isCause)
      continue;
    if (known != blamed.end())
      return false;
    blamed.emplace(name.str(), hyper);
    // What is made of it from here on is not worth a word.
    hyper = Value();
    return true;
  }
  return true;
}

std::string Elaborator::originOf(StringRef hyperparameter) const {
  auto set = origins.find(hyperparameter.str());
  if (set == origins.end())
    return {};
  const SourceFile &file = sources.file(set->second.file);
  return file.isArgument() ? "set by `" + file.name().str() + "`"
                           : "set in " + place(set->second);
}

/// `8.0`, not `8`, of which nobody would see what is wrong with it.
static std::string showNumber(const Value &value) {
  if (value.is(Value::Int))
    return std::to_string(value.dim().value());
  std::string text = value.show();
  return text +
         (StringRef(text).find_first_of(".en") == StringRef::npos ? ".0" : "");
}

void Elaborator::noteOrigins(Diagnostic &d, const Value &value) {
  if (!root || !value.isNumber())
    return;
  bool isInt = value.is(Value::Int);
  // A float has no formula, but may have been passed on unchanged.
  auto isPartOf = [&](StringRef name, const Value &given) {
    return given.kind() == value.kind() &&
           (isInt ? mentions(value.dim(), name)
                  : given.number() == value.number());
  };
  // Where one of them cannot be a dimension the others are not to blame.
  llvm::SmallVector<std::pair<StringRef, const Value *>> parts, wrong;
  for (const auto &[name, hyper] : root->hyperparameters) {
    auto known = blamed.find(name.str());
    const Value &given = known == blamed.end() ? hyper : known->second;
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
    if (isInt && mentions(value.dim(), name))
      d.note(origin);
}

//===----------------------------------------------------------------------===//
// Dimensions
//===----------------------------------------------------------------------===//

std::optional<Dim> Elaborator::toDimension(const Value &value, Range range,
                                           const Twine &subject) {
  if (value.is(Value::Int) && value.dim().value() >= 1)
    return value.dim();
  if (value.isPoison())
    return std::nullopt;
  if (value.is(Value::PerLayer)) {
    error(602, range,
          subject + " depends on the layer's index: all layers of a repeat "
                    "have the same shapes");
    return std::nullopt;
  }
  if (!isFirstBlame(value))
    return std::nullopt;
  if (value.is(Value::Int)) {
    Diagnostic &d = error(213, range, subject + " is " + value.show());
    noteOrigins(d, value);
    d.help("dimensions are at least 1");
    return std::nullopt;
  }
  // `outputs = 160`, where the text is not the number itself.
  std::string text = sources.text(range).str(), shown = value.show();
  Diagnostic &d =
      error(704, range, subject + " is an integer, not " + value.describe())
          .withLabel(text == shown ? "" : text + " = " + shown);
  noteOrigins(d, value);
  suggestInteger(d, value);
  return std::nullopt;
}

void Elaborator::checkContext() {
  auto context = root->hyperparameters.find("context");
  if (context == root->hyperparameters.end() || !context->second.isNumber())
    return;
  // A copy: what is blamed becomes poison.
  Value length = context->second;
  toDimension(length, origins.at("context"),
              "the length T of the model's texts");
}

bool Elaborator::isStorable(llvm::ArrayRef<Dim> dims, Range range,
                            const Twine &what) {
  double elements = 1;
  bool isExact = true;
  for (const Dim &dim : dims) {
    elements *= static_cast<double>(dim.value());
    isExact &= !dim.overflowed();
  }
  if (dims.size() > maxRank) {
    error(218, range,
          what + " has " + Twine(dims.size()) + " axes, and " + Twine(maxRank) +
              " are the most");
    return false;
  }
  if (isExact && elements <= maxElements)
    return true;
  const Dim *huge = llvm::find_if(dims, [](const Dim &dim) {
    return static_cast<double>(dim.value()) > maxElements;
  });
  if (huge != dims.end() && !isFirstBlame(Value::integer(*huge)))
    return false;
  Diagnostic &d = error(218, range,
                        what + " " + showShape(dims) + " = " +
                            showNumbers(dims) + " is too large");
  // What each name in it stands for, once.
  Dim all(1);
  for (const Dim &dim : dims)
    all = dim.isConstant() || all.str() == dim.str() ? all : all * dim;
  noteOrigins(d, Value::integer(all));
  return false;
}
