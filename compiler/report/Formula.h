//===- Formula.h - symbolic integer formulas over hyperparameters ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Dimensions and parameter counts in the user's words: `3*width**2 + 3*width`.
// A formula is a sum of products of names with rational coefficients and
// integer exponents (`width/heads` has the exponent -1), kept in one canonical
// order, so that equal formulas print alike. What is no such sum, `width//3`
// say, becomes a name of its own ("opaque") that still knows its value and its
// derivative.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_REPORT_FORMULA_H
#define TFM_REPORT_FORMULA_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tfm {

/// A product of atoms with non-zero exponents, in the order of the atoms.
struct Monomial {
  struct Factor {
    unsigned atom;
    int exponent;
    bool operator==(const Factor &) const = default;
  };
  llvm::SmallVector<Factor, 4> factors;

  bool operator==(const Monomial &) const = default;
  /// Lexicographic, with the larger power of an earlier atom first: this is the
  /// order in which terms are printed.
  bool operator<(const Monomial &other) const;
};

/// numerator / denominator in lowest terms, the denominator positive.
struct Coefficient {
  int64_t numerator = 0;
  int64_t denominator = 1;
  bool operator==(const Coefficient &) const = default;
};

/// A sum of monomials. Formulas of one `FormulaContext` can be combined.
class Formula {
public:
  Formula() = default;
  /// The constant formula.
  /*implicit*/ Formula(int64_t value);

  bool isZero() const { return terms.empty(); }
  /// The value if no name occurs and it is an integer.
  std::optional<int64_t> getConstant() const;
  bool operator==(const Formula &) const = default;

  std::map<Monomial, Coefficient> terms;
};

/// The names that formulas may use, with their values.
class FormulaContext {
public:
  /// Names in the order in which products list them.
  explicit FormulaContext(
      llvm::ArrayRef<std::pair<std::string, int64_t>> names = {});

  /// Reads an integer expression of the language: names, integers, `+ - * / //
  /// % **`, parentheses, `min` and `max`. Returns nothing where the text is
  /// something else, a name is unknown, or a number does not fit in 64 bits.
  std::optional<Formula> parse(llvm::StringRef text);

  /// Sums and products; nothing when a coefficient overflows.
  std::optional<Formula> add(const Formula &a, const Formula &b);
  std::optional<Formula> multiply(const Formula &a, const Formula &b);

  /// The value under the context's values; nothing when it is not an integer
  /// or does not fit.
  std::optional<int64_t> evaluate(const Formula &formula) const;
  /// The same in floating point, with `/` and `//` alike.
  double evaluateReal(const Formula &formula) const;
  /// The partial derivative by a name at the context's values; `//` counts as
  /// `/`, and a remainder as constant.
  double differentiate(const Formula &formula, llvm::StringRef name) const;

  /// The formula as an expression of the language.
  std::string print(const Formula &formula) const;

  /// The names given at the start, in their order.
  std::vector<std::string> getNames() const;

private:
  friend class FormulaParser;
  enum class AtomKind { Name, Divide, FloorDivide, Remainder, Power, Min, Max };
  struct Atom {
    AtomKind kind;
    std::string name;
    int64_t value = 0;
    Formula left, right;
  };

  /// The atom `kind(left, right)` as a formula, made once.
  std::optional<Formula> opaque(AtomKind kind, const Formula &left,
                                const Formula &right);
  std::optional<Formula> divide(const Formula &a, const Formula &b);
  std::optional<Formula> power(const Formula &a, const Formula &b);
  std::string printAtom(unsigned atom) const;
  /// One term without its sign; `afterSign` where a minus stands before it.
  std::string printTerm(const Monomial &monomial, Coefficient magnitude,
                        bool afterSign) const;
  double differentiateAtom(const Atom &atom, llvm::StringRef name) const;

  std::vector<Atom> atoms;
  llvm::StringMap<unsigned> byName;
};

} // namespace tfm

#endif // TFM_REPORT_FORMULA_H
