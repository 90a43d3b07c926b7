//===- Dim.h - symbolic integers --------------------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_DIM_H
#define TFM_FRONTEND_ELABORATE_DIM_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace tfm {

class Dim;

/// What a polynomial is made of: a hyperparameter or a dimension bound by the
/// caller, or something that is no polynomial, such as `width//heads`.
struct DimAtom;
using DimAtomRef = std::shared_ptr<const DimAtom>;

/// An integer that remembers how it was computed: a polynomial with integer
/// coefficients over atoms, together with its value. Two dimensions are equal
/// where their values are; the formula is for people. A formula is a valid
/// expression of the language, and evaluates to the value.
class Dim {
public:
  Dim(int64_t constant = 0);
  /// A named quantity. Terms are printed in the order of `order`.
  static Dim named(llvm::StringRef name, int64_t value, unsigned order = 0);

  int64_t value() const { return number; }
  /// Whether no atom occurs.
  bool isConstant() const;
  /// Whether a step of the computation left the range of 64 bits; the value
  /// means nothing then.
  bool overflowed() const { return overflow; }
  /// What computing with it costs, at least 1: grows with its terms, their
  /// factors and the names of these.
  size_t weight() const;
  /// The name, where this is exactly one named quantity; else empty.
  llvm::StringRef name() const;

  /// `3*width**2 + 3*width`; with `spaced`, `3 * width**2 + 3 * width`, as
  /// messages show it.
  std::string str(bool spaced = false) const;
  /// As a factor of a product: in parentheses where it needs them.
  std::string factorStr(bool spaced = false) const;

  friend Dim operator+(const Dim &a, const Dim &b);
  friend Dim operator-(const Dim &a, const Dim &b);
  friend Dim operator*(const Dim &a, const Dim &b);
  friend Dim operator-(const Dim &a) { return Dim(0) - a; }
  bool operator==(const Dim &other) const { return number == other.number; }
  bool operator==(int64_t other) const { return number == other; }

  /// `a ** exponent`, exponent >= 0.
  static Dim power(const Dim &a, int64_t exponent);
  /// `a / b` where it is exact, else nothing.
  static std::optional<Dim> divideExact(const Dim &a, const Dim &b);
  /// `a // b` and `a % b` as Python has them; `b` is not 0.
  static Dim floorDivide(const Dim &a, const Dim &b);
  static Dim modulo(const Dim &a, const Dim &b);
  /// A value that some function of the language computed, under the text of the
  /// call: `max(a, b)`.
  static Dim opaque(llvm::StringRef text, int64_t value);

private:
  /// coefficient * product of atom ** power, atoms in order.
  struct Term {
    int64_t coefficient = 0;
    llvm::SmallVector<std::pair<DimAtomRef, unsigned>, 2> factors;
    unsigned degree() const;
  };
  static bool sameFactors(const Term &a, const Term &b);
  static bool termBefore(const Term &a, const Term &b);
  static Dim multiplyTerms(const Term &a, const Term &b, unsigned depth);
  static std::optional<Term> divideTerms(const Term &a, const Term &b);
  static Dim fromTerm(Term term);
  static Dim fromAtom(DimAtomRef atom);
  static Dim multiply(const Dim &a, const Dim &b, unsigned depth);
  void addTerm(const Term &term);
  void finish(int64_t value, bool overflow);
  static std::string termStr(const Term &term, bool spaced);

  llvm::SmallVector<Term, 1> terms;
  int64_t number = 0;
  bool overflow = false;
};

struct DimAtom {
  std::string name;
  int64_t value;
  unsigned order;
  /// For an exact quotient: what is divided by what.
  bool isQuotient = false;
  Dim numerator;
  Dim denominator;
};

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_DIM_H
