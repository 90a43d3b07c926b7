//===- Dim.cpp - symbolic sizes -------------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/Dim.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace tfm;
using Op = Polynomial::Op;
using Style = Polynomial::Style;

/// Polynomials with more terms are kept as one quantity.
static constexpr size_t maxTerms = 64;
/// Longer formulas nobody reads, and made of each other they would soon fill
/// the memory: their number stands for them.
static constexpr size_t maxText = 2000;

Dim::Dim(std::optional<Polynomial> result, int64_t value, bool lost)
    : formula(result ? std::move(*result) : Polynomial(value)), number(value),
      overflow(lost || !result) {
  if (formula.numTerms() > maxTerms && !overflow)
    *this = opaque(Op::Group, *this, Dim(), value);
}

Dim Dim::opaque(Op op, const Dim &a, const Dim &b, int64_t value) {
  std::optional<Polynomial> result =
      Polynomial::apply(op, a.formula, b.formula);
  if (!result || result->str().size() > maxText)
    return Dim(value);
  return Dim(std::move(result), value, false);
}

Dim Dim::named(llvm::StringRef name, int64_t value, unsigned order) {
  return Dim(Polynomial::named(name, value, order), value, false);
}

bool Dim::mentions(llvm::StringRef name) const {
  std::string text = str();
  llvm::StringRef rest = text;
  auto continuesName = [](char c) { return llvm::isAlnum(c) || c == '_'; };
  while (!rest.empty()) {
    llvm::StringRef word = rest.take_while(continuesName);
    if (word == name)
      return true;
    rest = rest.drop_front(std::max<size_t>(word.size(), 1));
  }
  return false;
}

std::string Dim::str(bool spaced) const {
  return formula.str(spaced ? Style::Spaced : Style::Compact);
}

std::string Dim::factorStr(bool spaced) const {
  return formula.factorStr(spaced ? Style::Spaced : Style::Compact);
}

namespace tfm {
Dim operator+(const Dim &a, const Dim &b) {
  int64_t value;
  bool lost = llvm::AddOverflow(a.number, b.number, value);
  return Dim(Polynomial::add(a.formula, b.formula), value,
             lost || a.overflow || b.overflow);
}

Dim operator-(const Dim &a, const Dim &b) {
  int64_t value;
  bool lost = llvm::SubOverflow(a.number, b.number, value);
  return Dim(Polynomial::subtract(a.formula, b.formula), value,
             lost || a.overflow || b.overflow);
}

Dim operator*(const Dim &a, const Dim &b) {
  int64_t value;
  bool lost = llvm::MulOverflow(a.number, b.number, value);
  lost |= a.overflow || b.overflow;
  // Powers of 1 would grow without end.
  constexpr int64_t maxFactors = 256;
  if (a.formula.numTerms() * b.formula.numTerms() > 4 * maxTerms ||
      a.formula.numFactors() + b.formula.numFactors() > maxFactors) {
    Dim product = Dim::opaque(Op::Product, a, b, value);
    product.overflow = lost;
    return product;
  }
  std::optional<Polynomial> product =
      Polynomial::multiply(a.formula, b.formula);
  // The value may fit where the terms do not.
  lost |= product && !product->evaluate();
  return Dim(std::move(product), value, lost);
}
} // namespace tfm

Dim Dim::power(const Dim &a, int64_t exponent) {
  // Values of 0, 1 and -1 do not grow, so an exponent could be anything.
  if (exponent > 64 && a.number >= -1 && a.number <= 1)
    return opaque(Op::Power, a, Dim(exponent),
                  a.number == -1 ? (exponent % 2 ? -1 : 1) : a.number);
  Dim result(1);
  for (int64_t i = 0; i < exponent && !result.overflow; ++i)
    result = result * a;
  return result;
}

std::optional<Dim> Dim::divideExact(const Dim &a, const Dim &b) {
  if (b.number == 0 || a.overflow || b.overflow)
    return std::nullopt;
  if (b.number == -1)
    return Dim(0) - a;
  if (a.number % b.number != 0)
    return std::nullopt;
  int64_t value = a.number / b.number;
  std::optional<Polynomial> quotient =
      Polynomial::divide(a.formula, b.formula, Polynomial::Quotients::Kept);
  if (!quotient ||
      (quotient->numTerms() == 1 && quotient->str().size() > maxText))
    return Dim(value);
  return Dim(std::move(quotient), value, false);
}

Dim Dim::floorDivide(const Dim &a, const Dim &b) {
  if (std::optional<Dim> exact = divideExact(a, b))
    return *exact;
  return opaque(Op::FloorDivide, a, b,
                llvm::divideFloorSigned(a.number, b.number));
}

Dim Dim::modulo(const Dim &a, const Dim &b) {
  int64_t value = b.number == -1 ? 0 : a.number % b.number;
  if (value != 0 && (value < 0) != (b.number < 0))
    value += b.number;
  return opaque(Op::Remainder, a, b, value);
}

Dim Dim::min(const Dim &a, const Dim &b) {
  return opaque(Op::Min, a, b, std::min(a.number, b.number));
}

Dim Dim::max(const Dim &a, const Dim &b) {
  return opaque(Op::Max, a, b, std::max(a.number, b.number));
}
