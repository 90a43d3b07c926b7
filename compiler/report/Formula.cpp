//===- Formula.cpp - symbolic integer formulas over hyperparameters -------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/report/Formula.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>
#include <limits>

using namespace tfm;

/// Beyond this a power is not multiplied out.
static constexpr int64_t maxExponent = 16;

//===----------------------------------------------------------------------===//
// Monomials and coefficients
//===----------------------------------------------------------------------===//

bool Monomial::operator<(const Monomial &other) const {
  size_t count = std::min(factors.size(), other.factors.size());
  for (size_t i = 0; i != count; ++i) {
    const Factor &a = factors[i], &b = other.factors[i];
    if (a.atom != b.atom)
      // The one with the earlier atom has an exponent where the other has 0.
      return a.atom < b.atom ? a.exponent > 0 : b.exponent < 0;
    if (a.exponent != b.exponent)
      return a.exponent > b.exponent;
  }
  if (factors.size() > count)
    return factors[count].exponent > 0;
  if (other.factors.size() > count)
    return other.factors[count].exponent < 0;
  return false;
}

static std::optional<Coefficient> reduced(__int128 numerator,
                                          __int128 denominator) {
  __int128 a = numerator < 0 ? -numerator : numerator, b = denominator;
  while (b != 0) {
    __int128 rest = a % b;
    a = b;
    b = rest;
  }
  numerator /= a;
  denominator /= a;
  if (numerator > INT64_MAX || numerator < -INT64_MAX ||
      denominator > INT64_MAX)
    return std::nullopt;
  return Coefficient{static_cast<int64_t>(numerator),
                     static_cast<int64_t>(denominator)};
}

/// Adds `coefficient * monomial` to `sum`; false on overflow.
static bool addTerm(Formula &sum, const Monomial &monomial,
                    Coefficient coefficient) {
  auto [place, isNew] = sum.terms.try_emplace(monomial, coefficient);
  if (isNew)
    return true;
  const Coefficient &old = place->second;
  __int128 numerator =
      static_cast<__int128>(old.numerator) * coefficient.denominator +
      static_cast<__int128>(coefficient.numerator) * old.denominator;
  if (numerator == 0) {
    sum.terms.erase(place);
    return true;
  }
  std::optional<Coefficient> total =
      reduced(numerator,
              static_cast<__int128>(old.denominator) * coefficient.denominator);
  if (!total)
    return false;
  place->second = *total;
  return true;
}

/// The product of `a` and `b` to the power `sign` (1 or -1).
static Monomial product(const Monomial &a, const Monomial &b, int sign) {
  Monomial result;
  const auto *i = a.factors.begin(), *j = b.factors.begin();
  while (i != a.factors.end() || j != b.factors.end()) {
    if (j == b.factors.end() || (i != a.factors.end() && i->atom < j->atom)) {
      result.factors.push_back(*i++);
    } else if (i == a.factors.end() || j->atom < i->atom) {
      result.factors.push_back({j->atom, sign * j->exponent});
      ++j;
    } else {
      if (int exponent = i->exponent + sign * j->exponent)
        result.factors.push_back({i->atom, exponent});
      ++i;
      ++j;
    }
  }
  return result;
}

Formula::Formula(int64_t value) {
  if (value != 0)
    terms[Monomial()] = {value, 1};
}

std::optional<int64_t> Formula::getConstant() const {
  if (terms.empty())
    return 0;
  const auto &[monomial, coefficient] = *terms.begin();
  if (terms.size() != 1 || !monomial.factors.empty() ||
      coefficient.denominator != 1)
    return std::nullopt;
  return coefficient.numerator;
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

FormulaContext::FormulaContext(
    llvm::ArrayRef<std::pair<std::string, int64_t>> names) {
  for (const auto &[name, value] : names)
    if (byName.try_emplace(name, atoms.size()).second)
      atoms.push_back({AtomKind::Name, name, value, {}, {}});
}

std::vector<std::string> FormulaContext::getNames() const {
  std::vector<std::string> names;
  for (const Atom &atom : atoms)
    if (atom.kind == AtomKind::Name)
      names.push_back(atom.name);
  return names;
}

std::optional<Formula> FormulaContext::add(const Formula &a, const Formula &b) {
  Formula sum = a;
  for (const auto &[monomial, coefficient] : b.terms)
    if (!addTerm(sum, monomial, coefficient))
      return std::nullopt;
  return sum;
}

std::optional<Formula> FormulaContext::multiply(const Formula &a,
                                                const Formula &b) {
  Formula result;
  for (const auto &[monomialA, coefficientA] : a.terms)
    for (const auto &[monomialB, coefficientB] : b.terms) {
      std::optional<Coefficient> coefficient =
          reduced(static_cast<__int128>(coefficientA.numerator) *
                      coefficientB.numerator,
                  static_cast<__int128>(coefficientA.denominator) *
                      coefficientB.denominator);
      if (!coefficient ||
          !addTerm(result, product(monomialA, monomialB, 1), *coefficient))
        return std::nullopt;
    }
  return result;
}

/// `a / b`. A sum is divided term by term only where every term stays a whole
/// multiple of something: (width + 2)/4 is exact where width/4 + 2/4 is not.
std::optional<Formula> FormulaContext::divide(const Formula &a,
                                              const Formula &b) {
  if (b.isZero())
    return std::nullopt;
  if (a == b)
    return Formula(1);
  if (b.terms.size() == 1) {
    const auto &[monomialB, coefficientB] = *b.terms.begin();
    Formula quotient;
    bool whole = true;
    for (const auto &[monomialA, coefficientA] : a.terms) {
      int64_t sign = coefficientB.numerator < 0 ? -1 : 1;
      std::optional<Coefficient> coefficient =
          reduced(static_cast<__int128>(coefficientA.numerator) *
                      coefficientB.denominator * sign,
                  static_cast<__int128>(coefficientA.denominator) *
                      coefficientB.numerator * sign);
      if (!coefficient)
        return std::nullopt;
      Monomial monomial = product(monomialA, monomialB, -1);
      whole &= coefficient->denominator == 1;
      for (const Monomial::Factor &factor : monomial.factors)
        whole &= factor.exponent > 0;
      if (!addTerm(quotient, monomial, *coefficient))
        return std::nullopt;
    }
    if (whole || a.terms.size() <= 1)
      return quotient;
  }
  return opaque(AtomKind::Divide, a, b);
}

std::optional<Formula> FormulaContext::power(const Formula &a,
                                             const Formula &b) {
  std::optional<int64_t> exponent = b.getConstant();
  if (!exponent || *exponent < 0 || *exponent > maxExponent)
    return opaque(AtomKind::Power, a, b);
  Formula result(1);
  for (int64_t i = 0; i != *exponent; ++i) {
    std::optional<Formula> next = multiply(result, a);
    if (!next)
      return std::nullopt;
    result = std::move(*next);
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

/// a ** b with b >= 0; nothing on overflow.
static std::optional<int64_t> powerOf(int64_t a, int64_t b) {
  // These do not grow, so nothing would end the loop for a large b.
  if (a >= -1 && a <= 1)
    return b == 0 ? 1 : a == -1 && b % 2 == 0 ? 1 : a;
  int64_t result = 1;
  for (int64_t i = 0; i != b; ++i)
    if (llvm::MulOverflow(result, a, result))
      return std::nullopt;
  return result;
}

/// Whether a / b is a number: b is not 0, and the quotient does not overflow.
static bool canDivide(int64_t a, int64_t b) {
  return b != 0 && !(b == -1 && a == std::numeric_limits<int64_t>::min());
}

std::optional<Formula> FormulaContext::opaque(AtomKind kind,
                                              const Formula &left,
                                              const Formula &right) {
  std::optional<int64_t> a = evaluate(left), b = evaluate(right);
  if (!a || !b)
    return std::nullopt;
  int64_t value = 0;
  switch (kind) {
  case AtomKind::Divide:
    if (!canDivide(*a, *b) || *a % *b != 0)
      return std::nullopt;
    value = *a / *b;
    break;
  case AtomKind::FloorDivide:
    if (!canDivide(*a, *b))
      return std::nullopt;
    value = llvm::divideFloorSigned(*a, *b);
    break;
  case AtomKind::Remainder:
    if (!canDivide(*a, *b))
      return std::nullopt;
    value = *a - llvm::divideFloorSigned(*a, *b) * *b;
    break;
  case AtomKind::Power: {
    if (*b < 0)
      return std::nullopt;
    std::optional<int64_t> power = powerOf(*a, *b);
    if (!power)
      return std::nullopt;
    value = *power;
    break;
  }
  case AtomKind::Min:
    value = std::min(*a, *b);
    break;
  case AtomKind::Max:
    value = std::max(*a, *b);
    break;
  case AtomKind::Name:
    return std::nullopt;
  }
  if (left.getConstant() && right.getConstant())
    return Formula(value);

  unsigned index = 0;
  while (index != atoms.size() &&
         !(atoms[index].kind == kind && atoms[index].left == left &&
           atoms[index].right == right))
    ++index;
  if (index == atoms.size())
    atoms.push_back({kind, "", value, left, right});
  Formula formula;
  formula.terms[Monomial{{{index, 1}}}] = {1, 1};
  return formula;
}

std::optional<int64_t> FormulaContext::evaluate(const Formula &formula) const {
  int64_t sum = 0;
  for (const auto &[monomial, coefficient] : formula.terms) {
    int64_t numerator = coefficient.numerator;
    int64_t denominator = coefficient.denominator;
    for (const Monomial::Factor &factor : monomial.factors) {
      int64_t &side = factor.exponent > 0 ? numerator : denominator;
      for (int i = 0; i != std::abs(factor.exponent); ++i)
        if (llvm::MulOverflow(side, atoms[factor.atom].value, side))
          return std::nullopt;
    }
    if (denominator == 0 || numerator % denominator != 0)
      return std::nullopt;
    if (llvm::AddOverflow(sum, numerator / denominator, sum))
      return std::nullopt;
  }
  return sum;
}

double FormulaContext::evaluateReal(const Formula &formula) const {
  double sum = 0;
  for (const auto &[monomial, coefficient] : formula.terms) {
    double term = static_cast<double>(coefficient.numerator) /
                  static_cast<double>(coefficient.denominator);
    for (const Monomial::Factor &factor : monomial.factors)
      term *= std::pow(static_cast<double>(atoms[factor.atom].value),
                       factor.exponent);
    sum += term;
  }
  return sum;
}

double FormulaContext::differentiateAtom(const Atom &atom,
                                         llvm::StringRef name) const {
  if (atom.kind == AtomKind::Name)
    return atom.name == name ? 1 : 0;
  double a = evaluateReal(atom.left), b = evaluateReal(atom.right);
  double da = differentiate(atom.left, name);
  double db = differentiate(atom.right, name);
  switch (atom.kind) {
  case AtomKind::Divide:
  case AtomKind::FloorDivide:
    return da / b - a * db / (b * b);
  case AtomKind::Power: {
    double slope = da == 0 ? 0 : b * std::pow(a, b - 1) * da;
    return db == 0 ? slope : slope + std::log(a) * std::pow(a, b) * db;
  }
  case AtomKind::Min:
    return a <= b ? da : db;
  case AtomKind::Max:
    return a >= b ? da : db;
  case AtomKind::Remainder:
  case AtomKind::Name:
    break;
  }
  return 0;
}

double FormulaContext::differentiate(const Formula &formula,
                                     llvm::StringRef name) const {
  double sum = 0;
  for (const auto &[monomial, coefficient] : formula.terms)
    for (const Monomial::Factor &by : monomial.factors) {
      double slope = differentiateAtom(atoms[by.atom], name);
      if (slope == 0)
        continue;
      double term = slope * static_cast<double>(coefficient.numerator) /
                    static_cast<double>(coefficient.denominator);
      for (const Monomial::Factor &factor : monomial.factors) {
        double value = static_cast<double>(atoms[factor.atom].value);
        term *= factor == by
                    ? factor.exponent * std::pow(value, factor.exponent - 1)
                    : std::pow(value, factor.exponent);
      }
      sum += term;
    }
  return sum;
}

//===----------------------------------------------------------------------===//
// Printing
//===----------------------------------------------------------------------===//

/// Whether a printed formula can stand as an operand of `**`, `/` or `*`.
static bool isSimple(llvm::StringRef text) {
  for (char c : text)
    if (!llvm::isAlnum(c) && c != '_' && c != '.')
      return false;
  return true;
}

static std::string parenthesised(const std::string &text) {
  return isSimple(text) ? text : "(" + text + ")";
}

std::string FormulaContext::printAtom(unsigned index) const {
  const Atom &atom = atoms[index];
  if (atom.kind == AtomKind::Name)
    return atom.name;
  std::string left = print(atom.left), right = print(atom.right);
  switch (atom.kind) {
  case AtomKind::Name:
    break;
  case AtomKind::Min:
    return "min(" + left + ", " + right + ")";
  case AtomKind::Max:
    return "max(" + left + ", " + right + ")";
  case AtomKind::Divide:
    return parenthesised(left) + "/" + parenthesised(right);
  case AtomKind::FloorDivide:
    return parenthesised(left) + "//" + parenthesised(right);
  case AtomKind::Remainder:
    return parenthesised(left) + " % " + parenthesised(right);
  case AtomKind::Power:
    return parenthesised(left) + "**" + parenthesised(right);
  }
  llvm_unreachable("every atom has a text");
}

std::string FormulaContext::printTerm(const Monomial &monomial,
                                      Coefficient magnitude,
                                      bool afterSign) const {
  std::string above, below;
  if (magnitude.numerator != 1)
    above = std::to_string(magnitude.numerator);
  if (magnitude.denominator != 1)
    below = "/" + std::to_string(magnitude.denominator);
  // `-(7//2)` is not `-7//2`.
  bool alone = !afterSign && magnitude == Coefficient{1, 1} &&
               monomial.factors.size() == 1 &&
               monomial.factors.front().exponent == 1;
  for (const Monomial::Factor &factor : monomial.factors) {
    std::string text = printAtom(factor.atom);
    if (!alone && atoms[factor.atom].kind != AtomKind::Min &&
        atoms[factor.atom].kind != AtomKind::Max)
      text = parenthesised(std::move(text));
    if (int exponent = std::abs(factor.exponent); exponent != 1)
      text += "**" + std::to_string(exponent);
    if (factor.exponent < 0)
      below += "/" + text;
    else
      above += (above.empty() ? "" : "*") + text;
  }
  return (above.empty() ? "1" : above) + below;
}

std::string FormulaContext::print(const Formula &formula) const {
  if (formula.terms.empty())
    return "0";
  std::string text;
  for (const auto &[monomial, coefficient] : formula.terms) {
    bool negative = coefficient.numerator < 0;
    bool afterSign = negative && text.empty();
    if (text.empty())
      text = negative ? "-" : "";
    else
      text += negative ? " - " : " + ";
    Coefficient magnitude = {std::abs(coefficient.numerator),
                             coefficient.denominator};
    text += printTerm(monomial, magnitude, afterSign);
  }
  return text;
}

//===----------------------------------------------------------------------===//
// Parsing
//===----------------------------------------------------------------------===//

namespace tfm {

/// Recursive descent over sum > product > sign > power > primary. `**` binds
/// tighter than a sign on its left and is right-associative.
class FormulaParser {
public:
  FormulaParser(FormulaContext &context, llvm::StringRef text)
      : context(context), rest(text) {}

  std::optional<Formula> parseAll() {
    std::optional<Formula> result = parseSum();
    return rest.trim().empty() ? result : std::nullopt;
  }

private:
  using Result = std::optional<Formula>;

  bool take(llvm::StringRef token) {
    rest = rest.ltrim();
    return rest.consume_front(token);
  }

  Result parseSum() {
    Result sum = parseProduct();
    while (sum) {
      bool plus = take("+"), minus = !plus && take("-");
      if (!plus && !minus)
        return sum;
      Result term = parseProduct();
      if (term && minus)
        term = context.multiply(*term, Formula(-1));
      sum = term ? context.add(*sum, *term) : std::nullopt;
    }
    return sum;
  }

  Result parseProduct() {
    Result left = parseSign();
    while (left) {
      rest = rest.ltrim();
      char op = rest.empty() ? 0 : rest.front();
      bool floor = rest.starts_with("//");
      if (op != '*' && op != '/' && op != '%')
        return left;
      rest = rest.drop_front(floor ? 2 : 1);
      Result right = parseSign();
      if (!right)
        return right;
      if (op == '*')
        left = context.multiply(*left, *right);
      else if (floor)
        left = context.opaque(FormulaContext::AtomKind::FloorDivide, *left,
                              *right);
      else if (op == '/')
        left = context.divide(*left, *right);
      else
        left =
            context.opaque(FormulaContext::AtomKind::Remainder, *left, *right);
    }
    return left;
  }

  Result parseSign() {
    if (take("-")) {
      Result operand = parseSign();
      return operand ? context.multiply(*operand, Formula(-1)) : operand;
    }
    return parsePower();
  }

  Result parsePower() {
    Result base = parsePrimary();
    if (!base || !take("**"))
      return base;
    Result exponent = parseSign();
    return exponent ? context.power(*base, *exponent) : exponent;
  }

  Result parsePrimary() {
    if (take("(")) {
      if (++depth > 200)
        return std::nullopt;
      Result inner = parseSum();
      --depth;
      return take(")") ? inner : std::nullopt;
    }
    rest = rest.ltrim();
    if (!rest.empty() && llvm::isDigit(rest.front())) {
      int64_t value;
      if (rest.consumeInteger(10, value))
        return std::nullopt;
      return Formula(value);
    }
    llvm::StringRef name = rest.take_while(
        [](char c) { return llvm::isAlnum(c) || c == '_' || c == '.'; });
    rest = rest.drop_front(name.size());
    if ((name == "min" || name == "max") && take("("))
      return parseExtremum(name == "min" ? FormulaContext::AtomKind::Min
                                         : FormulaContext::AtomKind::Max);
    auto place = context.byName.find(name);
    if (place == context.byName.end())
      return std::nullopt;
    Formula formula;
    formula.terms[Monomial{{{place->second, 1}}}] = {1, 1};
    return formula;
  }

  Result parseExtremum(FormulaContext::AtomKind kind) {
    Result left = parseSum();
    if (!left || !take(","))
      return std::nullopt;
    Result right = parseSum();
    if (!right || !take(")"))
      return std::nullopt;
    return context.opaque(kind, *left, *right);
  }

  FormulaContext &context;
  llvm::StringRef rest;
  int depth = 0;
};

} // namespace tfm

std::optional<Formula> FormulaContext::parse(llvm::StringRef text) {
  return FormulaParser(*this, text).parseAll();
}
