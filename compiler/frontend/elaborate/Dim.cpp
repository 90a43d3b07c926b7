//===- Dim.cpp - symbolic integers ----------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/Dim.h"

#include "llvm/ADT/STLExtras.h"

using namespace tfm;

/// Polynomials with more terms are kept as one opaque quantity.
static constexpr size_t maxTerms = 64;
/// How often a product may cancel a quotient before it is left as it is.
static constexpr unsigned maxCancel = 8;
static constexpr unsigned opaqueOrder = 1u << 20;
/// Longer formulas nobody reads, and made of each other they would soon fill
/// the memory: their number stands for them.
static constexpr size_t maxText = 2000;

Dim::Dim(int64_t constant) : number(constant) {
  if (constant != 0) {
    Term term;
    term.coefficient = constant;
    terms.push_back(std::move(term));
  }
}

Dim Dim::fromAtom(DimAtomRef atom) {
  Term term;
  term.coefficient = 1;
  Dim dim;
  dim.number = atom->value;
  term.factors.push_back({std::move(atom), 1});
  dim.terms.push_back(std::move(term));
  return dim;
}

Dim Dim::named(llvm::StringRef name, int64_t value, unsigned order) {
  auto atom = std::make_shared<DimAtom>();
  atom->name = name.str();
  atom->value = value;
  atom->order = order;
  return fromAtom(std::move(atom));
}

Dim Dim::opaque(llvm::StringRef text, int64_t value) {
  return text.size() > maxText ? Dim(value) : named(text, value, opaqueOrder);
}

bool Dim::isConstant() const {
  return llvm::all_of(terms, [](const Term &t) { return t.factors.empty(); });
}

size_t Dim::weight() const {
  size_t sum = 1;
  for (const Term &term : terms) {
    sum += !term.factors.empty();
    for (const auto &[atom, power] : term.factors)
      sum += atom->name.size() / 32;
  }
  return sum;
}

llvm::StringRef Dim::name() const {
  if (terms.size() != 1 || terms[0].coefficient != 1 ||
      terms[0].factors.size() != 1 || terms[0].factors[0].second != 1 ||
      terms[0].factors[0].first->order >= opaqueOrder)
    return {};
  return terms[0].factors[0].first->name;
}

unsigned Dim::Term::degree() const {
  unsigned sum = 0;
  for (const auto &[atom, power] : factors)
    sum += power;
  return sum;
}

static bool atomBefore(const DimAtom &a, const DimAtom &b) {
  return a.order != b.order ? a.order < b.order : a.name < b.name;
}

bool Dim::sameFactors(const Term &a, const Term &b) {
  return a.factors.size() == b.factors.size() &&
         llvm::all_of(llvm::zip(a.factors, b.factors), [](const auto &pair) {
           const auto &[x, y] = pair;
           return x.second == y.second && x.first->name == y.first->name;
         });
}

/// Higher degree first, then the atom that was declared first.
bool Dim::termBefore(const Term &a, const Term &b) {
  if (a.degree() != b.degree())
    return a.degree() > b.degree();
  for (const auto &[x, y] : llvm::zip(a.factors, b.factors)) {
    if (x.first->name != y.first->name)
      return atomBefore(*x.first, *y.first);
    if (x.second != y.second)
      return x.second > y.second;
  }
  return a.factors.size() < b.factors.size();
}

void Dim::addTerm(const Term &term) {
  auto place = llvm::lower_bound(terms, term, termBefore);
  if (place == terms.end() || !sameFactors(*place, term)) {
    terms.insert(place, term);
    return;
  }
  if (__builtin_add_overflow(place->coefficient, term.coefficient,
                             &place->coefficient))
    overflow = true;
  if (place->coefficient == 0)
    terms.erase(place);
}

void Dim::finish(int64_t value, bool lost) {
  number = value;
  overflow |= lost;
  if (terms.size() <= maxTerms || overflow)
    return;
  std::string text = "(" + str() + ")";
  terms.clear();
  *this = opaque(text, value);
}

namespace tfm {
Dim operator+(const Dim &a, const Dim &b) {
  Dim sum = a;
  for (const Dim::Term &term : b.terms)
    sum.addTerm(term);
  int64_t value;
  bool lost = __builtin_add_overflow(a.number, b.number, &value);
  sum.finish(value, lost || b.overflow);
  return sum;
}

Dim operator-(const Dim &a, const Dim &b) {
  Dim difference = a;
  bool lost = b.overflow;
  for (Dim::Term term : b.terms) {
    lost |=
        __builtin_sub_overflow(int64_t(0), term.coefficient, &term.coefficient);
    difference.addTerm(term);
  }
  int64_t value;
  lost |= __builtin_sub_overflow(a.number, b.number, &value);
  difference.finish(value, lost);
  return difference;
}

Dim operator*(const Dim &a, const Dim &b) { return Dim::multiply(a, b, 0); }
} // namespace tfm

Dim Dim::multiply(const Dim &a, const Dim &b, unsigned depth) {
  int64_t value;
  bool lost = __builtin_mul_overflow(a.number, b.number, &value);
  lost |= a.overflow || b.overflow;
  if (a.terms.size() * b.terms.size() > 4 * maxTerms) {
    Dim product = opaque(a.factorStr() + "*" + b.factorStr(), value);
    product.overflow = lost;
    return product;
  }
  Dim product;
  for (const Term &x : a.terms)
    for (const Term &y : b.terms) {
      Dim part = multiplyTerms(x, y, depth);
      product.overflow |= part.overflow;
      for (const Term &term : part.terms)
        product.addTerm(term);
    }
  product.finish(value, lost);
  return product;
}

Dim Dim::multiplyTerms(const Term &a, const Term &b, unsigned depth) {
  Term product = a;
  bool lost = __builtin_mul_overflow(a.coefficient, b.coefficient,
                                     &product.coefficient);
  for (const auto &[atom, power] : b.factors) {
    auto place = llvm::find_if(product.factors, [&](const auto &factor) {
      return !atomBefore(*factor.first, *atom);
    });
    if (place != product.factors.end() && place->first->name == atom->name)
      place->second += power;
    else
      product.factors.insert(place, {atom, power});
  }
  // `heads * (width/heads)` is `width`.
  for (size_t i = 0; i < product.factors.size() && depth < maxCancel; ++i) {
    const DimAtom &atom = *product.factors[i].first;
    if (!atom.isQuotient || atom.denominator.terms.size() != 1)
      continue;
    Term rest = product;
    if (--rest.factors[i].second == 0)
      rest.factors.erase(rest.factors.begin() + i);
    std::optional<Term> reduced = divideTerms(rest, atom.denominator.terms[0]);
    if (!reduced)
      continue;
    return multiply(fromTerm(*reduced), atom.numerator, depth + 1);
  }
  Dim dim = fromTerm(std::move(product));
  dim.overflow |= lost;
  return dim;
}

Dim Dim::fromTerm(Term term) {
  Dim dim;
  if (term.coefficient == 0)
    return dim;
  int64_t value = term.coefficient;
  for (const auto &[atom, power] : term.factors)
    for (unsigned i = 0; i < power; ++i)
      dim.overflow |= __builtin_mul_overflow(value, atom->value, &value);
  dim.number = value;
  dim.terms.push_back(std::move(term));
  return dim;
}

std::optional<Dim::Term> Dim::divideTerms(const Term &a, const Term &b) {
  if (b.coefficient == 0 || b.coefficient == -1 ||
      a.coefficient % b.coefficient != 0)
    return std::nullopt;
  Term quotient = a;
  quotient.coefficient = a.coefficient / b.coefficient;
  for (const auto &[atom, power] : b.factors) {
    auto place = llvm::find_if(quotient.factors, [&](const auto &factor) {
      return factor.first->name == atom->name;
    });
    if (place == quotient.factors.end() || place->second < power)
      return std::nullopt;
    place->second -= power;
    if (place->second == 0)
      quotient.factors.erase(place);
  }
  return quotient;
}

Dim Dim::power(const Dim &a, int64_t exponent) {
  Dim result(1);
  // Values of 0, 1 and -1 do not grow, so an exponent could be anything.
  if (exponent > 64 && a.value() >= -1 && a.value() <= 1)
    return opaque(a.factorStr() + "**" + std::to_string(exponent),
                  a.value() == -1 ? (exponent % 2 ? -1 : 1) : a.value());
  for (int64_t i = 0; i < exponent && !result.overflow; ++i)
    result = result * a;
  return result;
}

std::optional<Dim> Dim::divideExact(const Dim &a, const Dim &b) {
  if (b.number == 0 || a.overflow || b.overflow ||
      (b.number == -1 ? false : a.number % b.number != 0))
    return std::nullopt;
  if (b.number == -1)
    return Dim(0) - a;
  int64_t value = a.number / b.number;
  if (b.terms.size() == 1) {
    Dim quotient;
    bool polynomial = true;
    for (const Term &term : a.terms) {
      std::optional<Term> part = divideTerms(term, b.terms[0]);
      if (!part) {
        polynomial = false;
        break;
      }
      quotient.addTerm(*part);
    }
    if (polynomial) {
      quotient.finish(value, false);
      return quotient;
    }
  }
  if (a.str() == b.str())
    return Dim(1);
  if (a.isConstant() && b.isConstant())
    return Dim(value);
  // (n/d) / b is n / (d*b).
  if (a.terms.size() == 1 && a.terms[0].coefficient == 1 &&
      a.terms[0].factors.size() == 1 && a.terms[0].factors[0].second == 1 &&
      a.terms[0].factors[0].first->isQuotient) {
    const DimAtom &inner = *a.terms[0].factors[0].first;
    Dim denominator = inner.denominator * b;
    if (!denominator.overflow)
      return divideExact(inner.numerator, denominator);
  }
  std::string name = a.factorStr() + "/" + b.factorStr();
  if (name.size() > maxText)
    return Dim(value);
  auto atom = std::make_shared<DimAtom>();
  atom->name = std::move(name);
  atom->value = value;
  atom->order = opaqueOrder;
  atom->isQuotient = true;
  atom->numerator = a;
  atom->denominator = b;
  return fromAtom(std::move(atom));
}

Dim Dim::floorDivide(const Dim &a, const Dim &b) {
  if (std::optional<Dim> exact = divideExact(a, b))
    return *exact;
  int64_t value = a.number / b.number;
  if (a.number % b.number != 0 && (a.number < 0) != (b.number < 0))
    --value;
  if (a.isConstant() && b.isConstant())
    return Dim(value);
  return opaque(a.factorStr() + "//" + b.factorStr(), value);
}

Dim Dim::modulo(const Dim &a, const Dim &b) {
  int64_t value = b.number == -1 ? 0 : a.number % b.number;
  if (value != 0 && (value < 0) != (b.number < 0))
    value += b.number;
  if (a.isConstant() && b.isConstant())
    return Dim(value);
  return opaque(a.factorStr() + "%" + b.factorStr(), value);
}

/// Whether an opaque name has to stand in parentheses inside a product. Calls
/// such as `max(a, b)` and texts in parentheses do not.
static bool needsParentheses(llvm::StringRef name) {
  int depth = 0;
  for (char c : name) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (depth == 0 && (c == '/' || c == '%' || c == ' ' || c == '*'))
      return true;
  }
  return false;
}

static std::string spacedName(llvm::StringRef name, bool spaced) {
  if (!spaced)
    return name.str();
  // `width/heads` is shown as `width / heads`; `**` stays tight.
  std::string out;
  for (size_t i = 0; i < name.size(); ++i) {
    llvm::StringRef rest = name.substr(i);
    size_t length = rest.starts_with("//") ? 2 : 1;
    bool power = rest.starts_with("**");
    if (power) {
      out += "**";
      ++i;
    } else if (rest.starts_with("/") || rest.starts_with("%") ||
               rest.starts_with("*")) {
      out += ' ';
      out += rest.take_front(length);
      out += ' ';
      i += length - 1;
    } else {
      out += name[i];
    }
  }
  return out;
}

std::string Dim::termStr(const Term &term, bool spaced) {
  std::string text;
  const char *times = spaced ? " * " : "*";
  bool several = term.coefficient != 1 || term.factors.size() > 1 ||
                 (!term.factors.empty() && term.factors[0].second > 1);
  if (term.coefficient != 1 || term.factors.empty())
    text = std::to_string(term.coefficient);
  for (const auto &[atom, power] : term.factors) {
    if (!text.empty())
      text += times;
    std::string name = spacedName(atom->name, spaced);
    bool wrap = several && needsParentheses(atom->name);
    text += wrap ? "(" + name + ")" : name;
    if (power > 1)
      text += "**" + std::to_string(power);
  }
  return text;
}

std::string Dim::str(bool spaced) const {
  if (terms.empty())
    return "0";
  std::string text;
  for (const Term &term : terms) {
    bool negative = term.coefficient < 0 && term.coefficient != INT64_MIN;
    Term positive = term;
    if (negative)
      positive.coefficient = -term.coefficient;
    std::string own = termStr(positive, spaced);
    // A sign binds tighter than `//` and `%`.
    if (text.empty() && negative && positive.coefficient == 1 &&
        positive.factors.size() == 1 && positive.factors[0].second == 1 &&
        needsParentheses(positive.factors[0].first->name))
      own = "(" + own + ")";
    if (text.empty())
      text = negative ? "-" : "";
    else
      text += negative ? " - " : " + ";
    text += own;
  }
  return text;
}

std::string Dim::factorStr(bool spaced) const {
  bool simple = terms.empty() ||
                (terms.size() == 1 && terms[0].coefficient > 0 &&
                 (terms[0].factors.empty() ||
                  (terms[0].coefficient == 1 && terms[0].factors.size() == 1 &&
                   terms[0].factors[0].second == 1 &&
                   !needsParentheses(terms[0].factors[0].first->name))));
  return simple ? str(spaced) : "(" + str(spaced) + ")";
}
