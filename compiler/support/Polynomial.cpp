//===- Polynomial.cpp - symbolic integers over names ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/support/Polynomial.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>
#include <limits>

using namespace tfm;

/// Beyond this a power is not multiplied out.
static constexpr int64_t maxExponent = 16;
/// How often a product may cancel a quotient before it is left as it is.
static constexpr unsigned maxCancel = 8;
/// Names come before everything that is no name.
static constexpr unsigned opaqueOrder = 1u << 20;

struct tfm::PolynomialAtom {
  /// Compact; tells atoms apart.
  std::string text;
  int64_t value;
  unsigned order;
  /// Nothing for a name.
  std::optional<Polynomial::Op> op = std::nullopt;
  Polynomial left = {}, right = {};

  bool is(Polynomial::Op which) const { return op == which; }
  std::string str(Polynomial::Style style) const;
  double differentiate(llvm::StringRef name) const;
  /// Whether its text has to stand in parentheses inside of a product.
  bool needsParentheses() const {
    return op && !is(Polynomial::Op::Min) && !is(Polynomial::Op::Max) &&
           !is(Polynomial::Op::Group);
  }
};

static bool atomBefore(const PolynomialAtom &a, const PolynomialAtom &b) {
  return a.order != b.order ? a.order < b.order : a.text < b.text;
}

//===----------------------------------------------------------------------===//
// Construction
//===----------------------------------------------------------------------===//

Polynomial::Polynomial(int64_t constant) {
  if (constant != 0)
    terms.push_back({{constant, 1}, {}});
}

Polynomial Polynomial::fromTerm(Term term) {
  Polynomial result;
  if (term.coefficient.numerator != 0)
    result.terms.push_back(std::move(term));
  return result;
}

Polynomial Polynomial::fromAtom(AtomRef atom) {
  Term term{{1, 1}, {}};
  term.factors.push_back({std::move(atom), 1});
  return fromTerm(std::move(term));
}

Polynomial Polynomial::named(llvm::StringRef name, int64_t value,
                             unsigned order) {
  return fromAtom(std::make_shared<PolynomialAtom>(
      PolynomialAtom{name.str(), value, order}));
}

bool Polynomial::isConstant() const {
  return llvm::all_of(terms, [](const Term &t) { return t.factors.empty(); });
}

std::optional<int64_t> Polynomial::constant() const {
  if (terms.empty())
    return 0;
  if (terms.size() != 1 || !terms[0].factors.empty() ||
      terms[0].coefficient.denominator != 1)
    return std::nullopt;
  return terms[0].coefficient.numerator;
}

llvm::StringRef Polynomial::name() const {
  if (terms.size() != 1 || terms[0].coefficient != Coefficient{1, 1} ||
      terms[0].factors.size() != 1 || terms[0].factors[0].exponent != 1 ||
      terms[0].factors[0].atom->op)
    return {};
  return terms[0].factors[0].atom->text;
}

size_t Polynomial::weight() const {
  size_t sum = 1;
  for (const Term &term : terms) {
    sum += !term.factors.empty();
    for (const Factor &factor : term.factors)
      sum += factor.atom->text.size() / 32;
  }
  return sum;
}

//===----------------------------------------------------------------------===//
// Terms
//===----------------------------------------------------------------------===//

int Polynomial::Term::degree() const {
  int sum = 0;
  for (const Factor &factor : factors)
    sum += factor.exponent;
  return sum;
}

std::optional<Polynomial::Coefficient>
Polynomial::reduced(__int128 numerator, __int128 denominator) {
  __int128 a = numerator < 0 ? -numerator : numerator, b = denominator;
  while (b != 0) {
    __int128 rest = a % b;
    a = b;
    b = rest;
  }
  numerator /= a;
  denominator /= a;
  if (numerator > INT64_MAX || numerator < INT64_MIN || denominator > INT64_MAX)
    return std::nullopt;
  return Coefficient{static_cast<int64_t>(numerator),
                     static_cast<int64_t>(denominator)};
}

std::optional<Polynomial::Coefficient> Polynomial::times(const Coefficient &a,
                                                         const Coefficient &b) {
  return reduced(static_cast<__int128>(a.numerator) * b.numerator,
                 static_cast<__int128>(a.denominator) * b.denominator);
}

bool Polynomial::sameFactors(const Term &a, const Term &b) {
  return a.factors.size() == b.factors.size() &&
         llvm::all_of(llvm::zip(a.factors, b.factors), [](const auto &pair) {
           const auto &[x, y] = pair;
           return x.exponent == y.exponent && x.atom->text == y.atom->text;
         });
}

bool Polynomial::operator==(const Polynomial &other) const {
  return terms.size() == other.terms.size() &&
         llvm::all_of(llvm::zip(terms, other.terms), [](const auto &pair) {
           const auto &[x, y] = pair;
           return x.coefficient == y.coefficient && sameFactors(x, y);
         });
}

bool Polynomial::byDegree(const Term &a, const Term &b) {
  if (int x = a.degree(), y = b.degree(); x != y)
    return x > y;
  for (const auto &[x, y] : llvm::zip(a.factors, b.factors)) {
    if (x.atom->text != y.atom->text)
      return atomBefore(*x.atom, *y.atom);
    if (x.exponent != y.exponent)
      return x.exponent > y.exponent;
  }
  return a.factors.size() < b.factors.size();
}

bool Polynomial::byName(const Term &a, const Term &b) {
  for (const auto &[x, y] : llvm::zip(a.factors, b.factors)) {
    // The one with the earlier atom has an exponent where the other has 0.
    if (x.atom->text != y.atom->text)
      return atomBefore(*x.atom, *y.atom) ? x.exponent > 0 : y.exponent < 0;
    if (x.exponent != y.exponent)
      return x.exponent > y.exponent;
  }
  size_t count = std::min(a.factors.size(), b.factors.size());
  if (a.factors.size() > count)
    return a.factors[count].exponent > 0;
  return b.factors.size() > count && b.factors[count].exponent < 0;
}

bool Polynomial::addTerm(const Term &term) {
  auto place = llvm::lower_bound(terms, term, byDegree);
  if (place == terms.end() || !sameFactors(*place, term)) {
    terms.insert(place, term);
    return true;
  }
  Coefficient &old = place->coefficient;
  std::optional<Coefficient> sum = reduced(
      static_cast<__int128>(old.numerator) * term.coefficient.denominator +
          static_cast<__int128>(term.coefficient.numerator) * old.denominator,
      static_cast<__int128>(old.denominator) * term.coefficient.denominator);
  if (!sum)
    return false;
  old = *sum;
  if (old.numerator == 0)
    terms.erase(place);
  return true;
}

void Polynomial::multiplyFactors(Term &a, const Term &b, int sign) {
  for (const Factor &factor : b.factors) {
    auto *place = llvm::find_if(a.factors, [&](const Factor &other) {
      return !atomBefore(*other.atom, *factor.atom);
    });
    if (place == a.factors.end() || place->atom->text != factor.atom->text)
      a.factors.insert(place, {factor.atom, sign * factor.exponent});
    else if ((place->exponent += sign * factor.exponent) == 0)
      a.factors.erase(place);
  }
}

std::optional<Polynomial::Term> Polynomial::divideTerms(const Term &a,
                                                        const Term &b) {
  // The quotient of the least integer by -1 does not fit.
  if (b.coefficient.numerator == -1 || a.coefficient.denominator != 1 ||
      b.coefficient.denominator != 1 ||
      a.coefficient.numerator % b.coefficient.numerator != 0)
    return std::nullopt;
  Term quotient = a;
  quotient.coefficient.numerator /= b.coefficient.numerator;
  for (const Factor &factor : b.factors) {
    auto *place = llvm::find_if(quotient.factors, [&](const Factor &other) {
      return other.atom->text == factor.atom->text;
    });
    if (factor.exponent < 0 || place == quotient.factors.end() ||
        place->exponent < factor.exponent)
      return std::nullopt;
    place->exponent -= factor.exponent;
    if (place->exponent == 0)
      quotient.factors.erase(place);
  }
  return quotient;
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

std::optional<Polynomial> Polynomial::add(const Polynomial &a,
                                          const Polynomial &b) {
  Polynomial sum = a;
  for (const Term &term : b.terms)
    if (!sum.addTerm(term))
      return std::nullopt;
  return sum;
}

std::optional<Polynomial> Polynomial::subtract(const Polynomial &a,
                                               const Polynomial &b) {
  Polynomial difference = a;
  for (Term term : b.terms) {
    std::optional<Coefficient> negated =
        times(term.coefficient, Coefficient{-1, 1});
    if (!negated)
      return std::nullopt;
    term.coefficient = *negated;
    if (!difference.addTerm(term))
      return std::nullopt;
  }
  return difference;
}

std::optional<Polynomial> Polynomial::multiply(const Polynomial &a,
                                               const Polynomial &b) {
  return multiply(a, b, 0);
}

std::optional<Polynomial>
Polynomial::multiply(const Polynomial &a, const Polynomial &b, unsigned depth) {
  Polynomial product;
  for (const Term &x : a.terms)
    for (const Term &y : b.terms) {
      std::optional<Polynomial> part = multiplyTerms(x, y, depth);
      if (!part)
        return std::nullopt;
      for (const Term &term : part->terms)
        if (!product.addTerm(term))
          return std::nullopt;
    }
  return product;
}

std::optional<Polynomial>
Polynomial::multiplyTerms(const Term &a, const Term &b, unsigned depth) {
  std::optional<Coefficient> coefficient = times(a.coefficient, b.coefficient);
  if (!coefficient)
    return std::nullopt;
  Term product = a;
  product.coefficient = *coefficient;
  multiplyFactors(product, b, 1);
  // `heads * (width/heads)` is `width`.
  for (size_t i = 0; i < product.factors.size() && depth < maxCancel; ++i) {
    const PolynomialAtom &atom = *product.factors[i].atom;
    if (!atom.is(Op::Divide) || atom.right.terms.size() != 1 ||
        product.factors[i].exponent < 0)
      continue;
    Term rest = product;
    if (--rest.factors[i].exponent == 0)
      rest.factors.erase(rest.factors.begin() + i);
    std::optional<Term> whole = divideTerms(rest, atom.right.terms[0]);
    if (whole)
      return multiply(fromTerm(*whole), atom.left, depth + 1);
  }
  return fromTerm(std::move(product));
}

std::optional<Polynomial> Polynomial::divide(const Polynomial &a,
                                             const Polynomial &b,
                                             Quotients quotients) {
  if (b.isZero())
    return std::nullopt;
  if (a == b)
    return Polynomial(1);
  return quotients == Quotients::Kept ? divideKept(a, b)
                                      : divideCancelled(a, b);
}

std::optional<Polynomial> Polynomial::divideKept(const Polynomial &a,
                                                 const Polynomial &b) {
  if (b.terms.size() == 1) {
    Polynomial quotient;
    bool whole = true;
    for (const Term &term : a.terms) {
      std::optional<Term> part = divideTerms(term, b.terms[0]);
      whole = part && quotient.addTerm(*part);
      if (!whole)
        break;
    }
    if (whole)
      return quotient;
  }
  // (n/d) / b is n / (d*b).
  if (a.terms.size() == 1 && a.terms[0].coefficient == Coefficient{1, 1} &&
      a.terms[0].factors.size() == 1 && a.terms[0].factors[0].exponent == 1 &&
      a.terms[0].factors[0].atom->is(Op::Divide)) {
    const PolynomialAtom &inner = *a.terms[0].factors[0].atom;
    std::optional<Polynomial> denominator = multiply(inner.right, b);
    if (denominator && denominator->evaluate())
      return divide(inner.left, *denominator, Quotients::Kept);
  }
  return apply(Op::Divide, a, b);
}

std::optional<Polynomial> Polynomial::divideCancelled(const Polynomial &a,
                                                      const Polynomial &b) {
  if (b.terms.size() != 1)
    return apply(Op::Divide, a, b);
  const Term &divisor = b.terms[0];
  int64_t sign = divisor.coefficient.numerator < 0 ? -1 : 1;
  Polynomial quotient;
  bool whole = true;
  for (Term term : a.terms) {
    std::optional<Coefficient> coefficient =
        reduced(static_cast<__int128>(term.coefficient.numerator) *
                    divisor.coefficient.denominator * sign,
                static_cast<__int128>(term.coefficient.denominator) *
                    divisor.coefficient.numerator * sign);
    if (!coefficient)
      return std::nullopt;
    term.coefficient = *coefficient;
    multiplyFactors(term, divisor, -1);
    whole &= coefficient->denominator == 1 &&
             llvm::all_of(term.factors,
                          [](const Factor &f) { return f.exponent > 0; });
    if (!quotient.addTerm(term))
      return std::nullopt;
  }
  return whole || a.terms.size() <= 1 ? quotient : apply(Op::Divide, a, b);
}

std::optional<Polynomial> Polynomial::power(const Polynomial &a,
                                            const Polynomial &b) {
  std::optional<int64_t> exponent = b.constant();
  if (!exponent || *exponent < 0 || *exponent > maxExponent)
    return apply(Op::Power, a, b);
  Polynomial result(1);
  for (int64_t i = 0; i != *exponent; ++i) {
    std::optional<Polynomial> next = multiply(result, a);
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

/// The value of `op`; nothing where it has none in 64 bits.
static std::optional<int64_t> valueOf(Polynomial::Op op, int64_t a, int64_t b) {
  using Op = Polynomial::Op;
  bool divides =
      b != 0 && !(b == -1 && a == std::numeric_limits<int64_t>::min());
  switch (op) {
  case Op::Divide:
    return divides && a % b == 0 ? std::optional(a / b) : std::nullopt;
  case Op::FloorDivide:
    return divides ? std::optional(llvm::divideFloorSigned(a, b))
                   : std::nullopt;
  case Op::Remainder:
    return divides ? std::optional(a - llvm::divideFloorSigned(a, b) * b)
                   : std::nullopt;
  case Op::Power:
    return b < 0 ? std::nullopt : powerOf(a, b);
  case Op::Min:
    return std::min(a, b);
  case Op::Max:
    return std::max(a, b);
  case Op::Product: {
    int64_t product;
    return llvm::MulOverflow(a, b, product) ? std::nullopt
                                            : std::optional(product);
  }
  case Op::Group:
    return a;
  }
  llvm_unreachable("every operation has a value");
}

std::optional<Polynomial> Polynomial::apply(Op op, const Polynomial &a,
                                            const Polynomial &b) {
  std::optional<int64_t> x = a.evaluate(), y = b.evaluate();
  std::optional<int64_t> value = x && y ? valueOf(op, *x, *y) : std::nullopt;
  if (!value)
    return std::nullopt;
  if (a.constant() && b.constant())
    return Polynomial(*value);
  auto atom = std::make_shared<PolynomialAtom>(
      PolynomialAtom{"", *value, opaqueOrder, op, a, b});
  atom->text = atom->str(Style::Compact);
  return fromAtom(std::move(atom));
}

int64_t Polynomial::numFactors() const {
  int64_t most = 0;
  for (const Term &term : terms) {
    int64_t factors = 0;
    for (const Factor &factor : term.factors)
      factors += std::abs(factor.exponent);
    most = std::max(most, factors);
  }
  return most;
}

std::optional<int64_t> Polynomial::evaluate() const {
  // Terms may leave the range of the sum and come back.
  __int128 sum = 0;
  for (const Term &term : terms) {
    int64_t numerator = term.coefficient.numerator;
    int64_t denominator = term.coefficient.denominator;
    for (const Factor &factor : term.factors) {
      int64_t &side = factor.exponent > 0 ? numerator : denominator;
      for (int i = 0; i != std::abs(factor.exponent); ++i)
        if (llvm::MulOverflow(side, factor.atom->value, side))
          return std::nullopt;
    }
    std::optional<int64_t> value = valueOf(Op::Divide, numerator, denominator);
    if (!value)
      return std::nullopt;
    sum += *value;
  }
  if (sum > INT64_MAX || sum < INT64_MIN)
    return std::nullopt;
  return static_cast<int64_t>(sum);
}

double Polynomial::evaluateReal() const {
  double sum = 0;
  for (const Term &term : terms) {
    double value = static_cast<double>(term.coefficient.numerator) /
                   static_cast<double>(term.coefficient.denominator);
    for (const Factor &factor : term.factors)
      value *=
          std::pow(static_cast<double>(factor.atom->value), factor.exponent);
    sum += value;
  }
  return sum;
}

double PolynomialAtom::differentiate(llvm::StringRef name) const {
  using Op = Polynomial::Op;
  if (!op)
    return text == name ? 1 : 0;
  double a = left.evaluateReal(), b = right.evaluateReal();
  double da = left.differentiate(name), db = right.differentiate(name);
  switch (*op) {
  case Op::Divide:
  case Op::FloorDivide:
    return da / b - a * db / (b * b);
  case Op::Remainder:
    return 0;
  case Op::Power: {
    double slope = da == 0 ? 0 : b * std::pow(a, b - 1) * da;
    return db == 0 ? slope : slope + std::log(a) * std::pow(a, b) * db;
  }
  case Op::Min:
    return a <= b ? da : db;
  case Op::Max:
    return a >= b ? da : db;
  case Op::Product:
    return da * b + a * db;
  case Op::Group:
    return da;
  }
  llvm_unreachable("every operation has a derivative");
}

double Polynomial::differentiate(llvm::StringRef name) const {
  double sum = 0;
  for (const Term &term : terms)
    for (const Factor &by : term.factors) {
      double slope = by.atom->differentiate(name);
      if (slope == 0)
        continue;
      double value = slope * static_cast<double>(term.coefficient.numerator) /
                     static_cast<double>(term.coefficient.denominator);
      for (const Factor &factor : term.factors) {
        auto base = static_cast<double>(factor.atom->value);
        value *= &factor == &by
                     ? factor.exponent * std::pow(base, factor.exponent - 1)
                     : std::pow(base, factor.exponent);
      }
      sum += value;
    }
  return sum;
}

//===----------------------------------------------------------------------===//
// Printing
//===----------------------------------------------------------------------===//

std::string PolynomialAtom::str(Polynomial::Style style) const {
  using Op = Polynomial::Op;
  using Style = Polynomial::Style;
  if (!op)
    return text;
  bool spaced = style == Style::Spaced;
  auto infix = [&](const char *sign) {
    return left.factorStr(style) + sign + right.factorStr(style);
  };
  switch (*op) {
  case Op::Divide:
    return infix(spaced ? " / " : "/");
  case Op::FloorDivide:
    return infix(spaced ? " // " : "//");
  case Op::Remainder:
    return infix(style == Style::Compact ? "%" : " % ");
  case Op::Power:
    return infix("**");
  case Op::Product:
    return infix(spaced ? " * " : "*");
  case Op::Min:
    return "min(" + left.str(style) + ", " + right.str(style) + ")";
  case Op::Max:
    return "max(" + left.str(style) + ", " + right.str(style) + ")";
  case Op::Group:
    return "(" + left.str(style) + ")";
  }
  llvm_unreachable("every operation has a text");
}

std::string Polynomial::termStr(const Term &term, Style style, bool alone) {
  std::string above, below;
  bool spaced = style == Style::Spaced;
  if (term.coefficient.numerator != 1)
    above = std::to_string(term.coefficient.numerator);
  if (term.coefficient.denominator != 1)
    below =
        (spaced ? " / " : "/") + std::to_string(term.coefficient.denominator);
  // A sign, and other factors, bind tighter than `//` and `%`.
  alone &= term.coefficient == Coefficient{1, 1} && term.factors.size() == 1 &&
           term.factors[0].exponent == 1;
  for (const Factor &factor : term.factors) {
    std::string text = factor.atom->str(style);
    if (!alone && factor.atom->needsParentheses())
      text = "(" + text + ")";
    if (int exponent = std::abs(factor.exponent); exponent != 1)
      text += "**" + std::to_string(exponent);
    if (factor.exponent < 0)
      below += (spaced ? " / " : "/") + text;
    else
      above += (above.empty() ? "" : spaced ? " * " : "*") + text;
  }
  return (above.empty() ? "1" : above) + below;
}

std::string Polynomial::str(Style style) const {
  if (terms.empty())
    return "0";
  llvm::SmallVector<const Term *, 4> order;
  for (const Term &term : terms)
    order.push_back(&term);
  if (style == Style::ByName)
    llvm::sort(order,
               [](const Term *a, const Term *b) { return byName(*a, *b); });
  // `n - k * (n // k)` is easier to read than `-k * (n // k) + n`.
  if (style == Style::Spaced)
    if (auto *added = llvm::find_if(
            order, [](const Term *t) { return t->coefficient.numerator > 0; });
        added != order.end())
      std::rotate(order.begin(), added, added + 1);
  std::string text;
  for (const Term *term : order) {
    // The least integer has no positive counterpart.
    bool negative = term->coefficient.numerator < 0 &&
                    term->coefficient.numerator != INT64_MIN;
    Term magnitude = *term;
    if (negative)
      magnitude.coefficient.numerator = -term->coefficient.numerator;
    bool alone = !(negative && text.empty());
    if (text.empty())
      text = negative ? "-" : "";
    else
      text += negative ? " - " : " + ";
    text += termStr(magnitude, style, alone);
  }
  return text;
}

std::string Polynomial::factorStr(Style style) const {
  bool simple =
      terms.empty() ||
      (terms.size() == 1 && terms[0].coefficient.numerator > 0 &&
       terms[0].coefficient.denominator == 1 &&
       (terms[0].factors.empty() ||
        (terms[0].coefficient.numerator == 1 && terms[0].factors.size() == 1 &&
         terms[0].factors[0].exponent == 1 &&
         !terms[0].factors[0].atom->needsParentheses())));
  return simple ? str(style) : "(" + str(style) + ")";
}

//===----------------------------------------------------------------------===//
// Parsing
//===----------------------------------------------------------------------===//

namespace {

/// Recursive descent over sum > product > sign > power > primary. `**` binds
/// tighter than a sign on its left and is right-associative.
class PolynomialParser {
public:
  PolynomialParser(llvm::StringRef text, llvm::ArrayRef<Polynomial> names,
                   Polynomial::Quotients quotients)
      : rest(text), names(names), quotients(quotients) {}

  std::optional<Polynomial> parseAll() {
    std::optional<Polynomial> result = parseSum();
    return rest.trim().empty() ? result : std::nullopt;
  }

private:
  using Result = std::optional<Polynomial>;
  using Op = Polynomial::Op;

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
      if (!term)
        return term;
      sum = plus ? Polynomial::add(*sum, *term)
                 : Polynomial::subtract(*sum, *term);
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
      left = op == '*'   ? Polynomial::multiply(*left, *right)
             : floor     ? Polynomial::apply(Op::FloorDivide, *left, *right)
             : op == '/' ? Polynomial::divide(*left, *right, quotients)
                         : Polynomial::apply(Op::Remainder, *left, *right);
    }
    return left;
  }

  Result parseSign() {
    if (take("-")) {
      Result operand = parseSign();
      return operand ? Polynomial::subtract(Polynomial(), *operand) : operand;
    }
    return parsePower();
  }

  Result parsePower() {
    Result base = parsePrimary();
    if (!base || !take("**"))
      return base;
    Result exponent = parseSign();
    return exponent ? Polynomial::power(*base, *exponent) : exponent;
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
      return Polynomial(value);
    }
    llvm::StringRef name = rest.take_while(
        [](char c) { return llvm::isAlnum(c) || c == '_' || c == '.'; });
    rest = rest.drop_front(name.size());
    if ((name == "min" || name == "max") && take("("))
      return parseExtremum(name == "min" ? Op::Min : Op::Max);
    const auto *known = llvm::find_if(
        names, [&](const Polynomial &other) { return other.name() == name; });
    return name.empty() || known == names.end() ? Result() : *known;
  }

  Result parseExtremum(Op op) {
    Result left = parseSum();
    if (!left || !take(","))
      return std::nullopt;
    Result right = parseSum();
    if (!right || !take(")"))
      return std::nullopt;
    return Polynomial::apply(op, *left, *right);
  }

  llvm::StringRef rest;
  llvm::ArrayRef<Polynomial> names;
  Polynomial::Quotients quotients;
  int depth = 0;
};

} // namespace

std::optional<Polynomial> Polynomial::parse(llvm::StringRef text,
                                            llvm::ArrayRef<Polynomial> names,
                                            Quotients quotients) {
  return PolynomialParser(text, names, quotients).parseAll();
}
