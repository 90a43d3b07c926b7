//===- Dimensions.cpp - what may be the size of an axis -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/Dimensions.h"

#include "llvm/Support/MathExtras.h"

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

std::optional<Dim> Dimensions::toDimension(const SymbolicValue &value,
                                           Range range, const Twine &subject) {
  if (value.is(SymbolicValue::Int) && value.dim().value() >= 1)
    return value.dim();
  if (value.isPoison())
    return std::nullopt;
  if (value.is(SymbolicValue::PerLayer)) {
    reporter.error(602, range,
                   subject +
                       " depends on the layer's index: all layers of a repeat "
                       "have the same shapes");
    return std::nullopt;
  }
  if (!blame.isFirst(value))
    return std::nullopt;
  if (value.is(SymbolicValue::Int)) {
    Diagnostic &d = reporter.error(213, range, subject + " is " + value.show());
    blame.noteOrigins(d, value);
    d.help("dimensions are at least 1");
    return std::nullopt;
  }
  // `outputs = 160`, where the text is not the number itself.
  std::string text = sources.text(range).str(), shown = value.show();
  Diagnostic &d =
      reporter
          .error(704, range,
                 subject + " is an integer, not " + value.describe())
          .withLabel(text == shown ? "" : text + " = " + shown);
  blame.noteOrigins(d, value);
  suggestInteger(d, value);
  return std::nullopt;
}

void Dimensions::checkContext() {
  auto context = tree.root->hyperparameters.find("context");
  if (context == tree.root->hyperparameters.end() ||
      !context->second.isNumber())
    return;
  // A copy: what is blamed becomes poison.
  SymbolicValue length = context->second;
  toDimension(length, blame.origins.at("context"),
              "the length T of the model's texts");
}

bool Dimensions::isStorable(llvm::ArrayRef<Dim> dims, Range range,
                            const Twine &what) {
  double elements = 1;
  bool isExact = true;
  for (const Dim &dim : dims) {
    elements *= static_cast<double>(dim.value());
    isExact &= !dim.overflowed();
  }
  if (dims.size() > maxRank) {
    reporter.error(218, range,
                   what + " has " + Twine(dims.size()) + " axes, and " +
                       Twine(maxRank) + " are the most");
    return false;
  }
  if (isExact && elements <= maxElements)
    return true;
  const Dim *huge = llvm::find_if(dims, [](const Dim &dim) {
    return static_cast<double>(dim.value()) > maxElements;
  });
  if (huge != dims.end() && !blame.isFirst(SymbolicValue::integer(*huge)))
    return false;
  Diagnostic &d = reporter.error(218, range,
                                 what + " " + showShape(dims) + " = " +
                                     showNumbers(dims) + " is too large");
  // What each name in it stands for, once.
  Dim all(1);
  for (const Dim &dim : dims)
    all = dim.isConstant() || all.str() == dim.str() ? all : all * dim;
  blame.noteOrigins(d, SymbolicValue::integer(all));
  return false;
}

bool Dimensions::isTensorInteger(int64_t value, Range range) {
  if (llvm::isInt<32>(value))
    return true;
  reporter.error(413, range,
                 Twine(value) +
                     " does not fit in the 32 bits of a tensor's integers");
  return false;
}
