//===- Dim.h - symbolic sizes -----------------------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_DIM_H
#define TFM_FRONTEND_ELABORATE_DIM_H

#include "compiler/support/Polynomial.h"

namespace tfm {

/// An integer that remembers how it was computed: its value, with a polynomial
/// over hyperparameters and the dimensions that the caller decides. Two are
/// equal where their values are; the formula is for people, and is given up for
/// the number where it gets too long to read.
class Dim {
public:
  Dim(int64_t constant = 0) : formula(constant), number(constant) {}
  /// A named quantity. Terms are printed in the order of `order`.
  static Dim named(llvm::StringRef name, int64_t value, unsigned order = 0);

  int64_t value() const { return number; }
  /// Whether no name occurs.
  bool isConstant() const { return formula.isConstant(); }
  /// Whether a step of the computation left the range of 64 bits; the value
  /// means nothing then.
  bool overflowed() const { return overflow; }
  /// What computing with it costs, at least 1.
  size_t weight() const { return formula.weight(); }
  /// The name, where this is exactly one named quantity; else empty.
  llvm::StringRef name() const { return formula.name(); }

  /// Whether a name occurs in the formula.
  bool mentions(llvm::StringRef name) const;

  /// `3*width**2 + 3*width`; with `spaced`, `3 * width**2 + 3 * width`, as
  /// messages show it. An expression of the language with this value.
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
  static Dim min(const Dim &a, const Dim &b);
  static Dim max(const Dim &a, const Dim &b);

private:
  /// What was computed, and whether something did not fit in 64 bits.
  Dim(std::optional<Polynomial> result, int64_t value, bool lost);
  /// `op` of both, as one quantity.
  static Dim opaque(Polynomial::Op op, const Dim &a, const Dim &b,
                    int64_t value);

  Polynomial formula;
  int64_t number = 0;
  bool overflow = false;
};

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_DIM_H
