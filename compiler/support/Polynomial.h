//===- Polynomial.h - symbolic integers over names --------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Dimensions and counts of parameters in the user's words: `3*width**2 +
// 3*width`. The frontend computes with them (`Dim`) and writes them into the
// module as text; reports read that text and go on computing.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_SUPPORT_POLYNOMIAL_H
#define TFM_SUPPORT_POLYNOMIAL_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace tfm {

/// What polynomials are made of: a name with its value, or what is no
/// polynomial of names, such as `width//3`, which is named by its text.
struct PolynomialAtom;

/// A sum of products of atoms with rational coefficients and integer exponents,
/// kept in one canonical order, so that equal polynomials print alike. Every
/// name has a value, and so has every polynomial that is an integer. The text
/// is an expression of the language.
class Polynomial {
public:
  Polynomial() = default;
  /*implicit*/ Polynomial(int64_t constant);
  /// A name. Products and sums list names by `order`, then by their text.
  static Polynomial named(llvm::StringRef name, int64_t value,
                          unsigned order = 0);

  /// What becomes of `width/heads`.
  enum class Quotients {
    /// One quantity, as it was written: `2*(width/heads)`. A product with
    /// `heads` is `width` again, but width/2 + width/2 is `2*(width/2)`.
    Kept,
    /// The exponent -1 of `heads`, so that it cancels wherever it can:
    /// `2*width/heads`. A sum is divided term by term only where every term
    /// stays whole: (width + 2)/4 is an integer where width/4 + 2/4 is none.
    Cancelled
  };

  /// Reads an integer expression of the language: `names` (each one that is
  /// `named`), integers, `+ - * / // % **`, parentheses, `min` and `max`.
  /// Nothing where the text is something else, a name is unknown, or a number
  /// does not fit in 64 bits.
  static std::optional<Polynomial> parse(llvm::StringRef text,
                                         llvm::ArrayRef<Polynomial> names,
                                         Quotients quotients);

  enum class Style {
    /// `3*width**2`, the higher degree first: the text of the module.
    Compact,
    /// `3 * width**2`, in the same order behind a term that is added, if there
    /// is one: messages.
    Spaced,
    /// `3*width**2`, the larger power of the first name first: reports.
    ByName
  };
  std::string str(Style style = Style::Compact) const;
  /// As a factor of a product: in parentheses where it needs them.
  std::string factorStr(Style style = Style::Compact) const;

  bool isZero() const { return terms.empty(); }
  /// Whether no atom occurs.
  bool isConstant() const;
  /// The value where no atom occurs and it is an integer.
  std::optional<int64_t> constant() const;
  /// The name, where this is exactly one; else empty.
  llvm::StringRef name() const;
  size_t numTerms() const { return terms.size(); }
  /// The most factors that a term has, above and below the line.
  int64_t numFactors() const;
  /// What computing with it costs, at least 1: grows with its terms, their
  /// factors and the texts of these.
  size_t weight() const;
  bool operator==(const Polynomial &other) const;

  /// The value; nothing where it is no integer, or a term or the sum does not
  /// fit.
  std::optional<int64_t> evaluate() const;
  /// The same in floating point.
  double evaluateReal() const;
  /// The partial derivative by a name at the values of all; `//` counts as `/`,
  /// and a remainder as constant.
  double differentiate(llvm::StringRef name) const;

  // All of these give nothing where a coefficient does not fit in 64 bits.
  static std::optional<Polynomial> add(const Polynomial &a,
                                       const Polynomial &b);
  static std::optional<Polynomial> subtract(const Polynomial &a,
                                            const Polynomial &b);
  static std::optional<Polynomial> multiply(const Polynomial &a,
                                            const Polynomial &b);
  /// Also nothing where `b` is 0, and of a quotient that is kept where it is no
  /// integer.
  static std::optional<Polynomial>
  divide(const Polynomial &a, const Polynomial &b, Quotients quotients);
  /// `a ** b`, multiplied out for small constants b.
  static std::optional<Polynomial> power(const Polynomial &a,
                                         const Polynomial &b);

  /// Quantities that are no polynomials. `FloorDivide` and `Remainder` are as
  /// Python has them; `Product` and `Group` (of `a` alone) are not multiplied
  /// out.
  enum class Op {
    Divide,
    FloorDivide,
    Remainder,
    Power,
    Min,
    Max,
    Product,
    Group
  };
  /// `op` of both as one quantity, or its number where both are constant;
  /// nothing where it has no value in 64 bits.
  static std::optional<Polynomial> apply(Op op, const Polynomial &a,
                                         const Polynomial &b);

private:
  friend struct PolynomialAtom;
  using AtomRef = std::shared_ptr<const PolynomialAtom>;
  /// In lowest terms; the denominator is positive.
  struct Coefficient {
    int64_t numerator = 0;
    int64_t denominator = 1;
    bool operator==(const Coefficient &) const = default;
  };
  struct Factor {
    AtomRef atom;
    int exponent;
  };
  /// coefficient * product of atom ** exponent, atoms in order, no exponent 0.
  struct Term {
    Coefficient coefficient;
    llvm::SmallVector<Factor, 2> factors;
    int degree() const;
  };

  static std::optional<Coefficient> reduced(__int128 numerator,
                                            __int128 denominator);
  static std::optional<Coefficient> times(const Coefficient &a,
                                          const Coefficient &b);
  static bool sameFactors(const Term &a, const Term &b);
  /// Higher degree first, then the atom that comes first.
  static bool byDegree(const Term &a, const Term &b);
  /// Lexicographic, with the larger power of an earlier atom first.
  static bool byName(const Term &a, const Term &b);
  static Polynomial fromTerm(Term term);
  static Polynomial fromAtom(AtomRef atom);
  /// `sign` is 1 or -1: a * b or a / b, without coefficients.
  static void multiplyFactors(Term &a, const Term &b, int sign);
  static std::optional<Polynomial>
  multiply(const Polynomial &a, const Polynomial &b, unsigned depth);
  static std::optional<Polynomial> multiplyTerms(const Term &a, const Term &b,
                                                 unsigned depth);
  /// a / b where it is a whole multiple of atoms.
  static std::optional<Term> divideTerms(const Term &a, const Term &b);
  static std::optional<Polynomial> divideKept(const Polynomial &a,
                                              const Polynomial &b);
  static std::optional<Polynomial> divideCancelled(const Polynomial &a,
                                                   const Polynomial &b);
  /// False on overflow.
  bool addTerm(const Term &term);
  /// `alone`: where neither a product nor a sign stands around it.
  static std::string termStr(const Term &term, Style style, bool alone);

  /// Ordered by `byDegree`; no two have the same factors, no coefficient is 0.
  llvm::SmallVector<Term, 1> terms;
};

} // namespace tfm

#endif // TFM_SUPPORT_POLYNOMIAL_H
