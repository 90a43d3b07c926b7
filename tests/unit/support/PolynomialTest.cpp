//===- PolynomialTest.cpp - symbolic integers -----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/support/Polynomial.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

using namespace tfm;

namespace {

using Names = std::vector<Polynomial>;
using Quotients = Polynomial::Quotients;
using Style = Polynomial::Style;

/// Names with their values, in this order.
Names named(std::vector<std::pair<const char *, int64_t>> values) {
  Names names;
  for (const auto &[name, value] : values)
    names.push_back(Polynomial::named(name, value, names.size()));
  return names;
}

Names gpt2() {
  return named({{"vocab", 50257},
                {"context", 1024},
                {"width", 768},
                {"heads", 12},
                {"layers", 12}});
}

std::optional<Polynomial> parse(const Names &names, const std::string &text) {
  return Polynomial::parse(text, names, Quotients::Cancelled);
}

/// The canonical text of an expression.
std::string canonical(const Names &names, const char *text) {
  std::optional<Polynomial> polynomial = parse(names, text);
  return polynomial ? polynomial->str(Style::ByName) : "<none>";
}

} // namespace

TEST(Polynomial, PrintsOneCanonicalForm) {
  Names names = gpt2();
  EXPECT_EQ(canonical(names, "width*3*width + width*3"),
            "3*width**2 + 3*width");
  EXPECT_EQ(canonical(names, "(width + 1) * (width - 1)"), "width**2 - 1");
  EXPECT_EQ(canonical(names, "(width + heads)**2"),
            "width**2 + 2*width*heads + heads**2");
  EXPECT_EQ(canonical(names, "layers*width + vocab*width"),
            "vocab*width + width*layers");
  EXPECT_EQ(canonical(names, "width - width"), "0");
  EXPECT_EQ(canonical(names, "-width"), "-width");
  EXPECT_EQ(canonical(names, "3 - 5"), "-2");
  EXPECT_EQ(canonical(names, "-2**2"), "-4");
  EXPECT_EQ(canonical(names, "2**3**2"), "512");
}

TEST(Polynomial, ExactDivisionCancels) {
  Names names = gpt2();
  EXPECT_EQ(canonical(names, "width/heads"), "width/heads");
  EXPECT_EQ(canonical(names, "heads*(width/heads)"), "width");
  EXPECT_EQ(canonical(names, "3*width/heads*heads + width"), "4*width");
  EXPECT_EQ(canonical(names, "(4*width)/2"), "2*width");
  EXPECT_EQ(canonical(names, "width/4 + width/4"), "width/2");
  EXPECT_EQ(canonical(names, "(4*width + 4)/4"), "width + 1");
}

// A sum that is divisible only as a whole stays one quotient.
TEST(Polynomial, KeepsAQuotientThatIsExactOnlyAsAWhole) {
  Names names = gpt2();
  std::optional<Polynomial> formula = parse(names, "(width + 2)/10*heads");
  ASSERT_TRUE(formula);
  EXPECT_EQ(formula->evaluate(), 77 * 12);
  EXPECT_EQ(formula->str(Style::ByName), "heads*((width + 2)/10)");
}

TEST(Polynomial, KeepsWhatIsNoPolynomial) {
  Names names = gpt2();
  EXPECT_EQ(canonical(names, "width//5"), "width//5");
  EXPECT_EQ(canonical(names, "2*(width//5) + width//5"), "3*(width//5)");
  EXPECT_EQ(canonical(names, "(width + 1)//5"), "(width + 1)//5");
  EXPECT_EQ(canonical(names, "width % 5 * heads"), "heads*(width % 5)");
  EXPECT_EQ(canonical(names, "max(width, 2*heads)*2"), "2*max(width, 2*heads)");
  EXPECT_EQ(canonical(names, "2**heads"), "2**heads");
  EXPECT_EQ(parse(names, "2**heads")->evaluate(), 4096);
  EXPECT_EQ(parse(names, "width//5")->evaluate(), 153);
  EXPECT_EQ(parse(names, "width % 5")->evaluate(), 3);
  EXPECT_EQ(parse(names, "-width//5")->evaluate(), -154);
  EXPECT_EQ(parse(names, "min(width, heads)")->evaluate(), 12);
}

TEST(Polynomial, RejectsWhatItCannotEvaluate) {
  Names names = gpt2();
  for (const char *text :
       {"", "width +", "depth", "width width", "(width", "width)", "3 ** ",
        "0.5", "if width then 1 else 2", "width/5 +", "f(width)", "min(width)",
        "99999999999999999999", "width // 0", "width / 0", "(width + 1)/5",
        "vocab**16**16", "1 # 2"})
    EXPECT_FALSE(parse(names, text).has_value()) << text;
  // Not exact: it parses as a product, but has no integer value.
  std::optional<Polynomial> formula = parse(names, "width/5");
  ASSERT_TRUE(formula);
  EXPECT_FALSE(formula->evaluate().has_value());
}

TEST(Polynomial, OverflowIsNoValue) {
  Names names = named({{"big", INT64_MAX}});
  EXPECT_EQ(parse(names, "big")->evaluate(), INT64_MAX);
  EXPECT_FALSE(parse(names, "big + 1")->evaluate().has_value());
  EXPECT_FALSE(parse(names, "big * big")->evaluate().has_value());
  EXPECT_FALSE(parse(names, "(-big - 1)/(3 - 4)")->evaluate().has_value());
  EXPECT_FALSE(parse(names, "(-big - 1)//(3 - 4)").has_value());
  EXPECT_FALSE(parse(names, "(-big - 1) % (3 - 4)").has_value());
}

// They end at once: what does not grow does not overflow either.
TEST(Polynomial, PowersOfWhatDoesNotGrow) {
  Names names =
      named({{"big", INT64_MAX}, {"one", 1}, {"none", 0}, {"minus", -1}});
  auto value = [&](const char *text) { return parse(names, text)->evaluate(); };
  EXPECT_EQ(value("one**big"), 1);
  EXPECT_EQ(value("none**big"), 0);
  EXPECT_EQ(value("none**none"), 1);
  EXPECT_EQ(value("minus**big"), -1);
  EXPECT_EQ(value("minus**(big - 1)"), 1);
  EXPECT_FALSE(parse(names, "(one + 1)**big").has_value());
}

TEST(Polynomial, PartialDerivatives) {
  Names names = gpt2();
  auto slope = [&](const char *text, const char *name) {
    return parse(names, text)->differentiate(name);
  };
  EXPECT_DOUBLE_EQ(slope("3*width**2 + 3*width", "width"), 6 * 768 + 3);
  EXPECT_DOUBLE_EQ(slope("vocab*width", "vocab"), 768);
  EXPECT_DOUBLE_EQ(slope("vocab*width", "heads"), 0);
  EXPECT_DOUBLE_EQ(slope("width/heads", "heads"), -768.0 / 144);
  EXPECT_DOUBLE_EQ(slope("(width + 2)//5*heads", "width"), 12.0 / 5);
  EXPECT_DOUBLE_EQ(slope("(width + 2)//5*heads", "heads"), 154);
  EXPECT_DOUBLE_EQ(slope("max(width, heads)", "heads"), 0);
  EXPECT_DOUBLE_EQ(slope("max(width, heads)", "width"), 1);
  EXPECT_DOUBLE_EQ(slope("2**heads", "heads"), std::log(2.0) * 4096);
}

namespace {

/// A random expression with its value, as an independent evaluator has it.
class RandomExpression {
public:
  explicit RandomExpression(unsigned seed) : random(seed) {}

  std::pair<std::string, int64_t> make(int depth) {
    static const std::pair<const char *, int64_t> leaves[] = {
        {"a", 3}, {"b", 7}, {"c", 12}, {"1", 1}, {"2", 2}, {"5", 5}};
    if (depth == 0)
      return leaves[random() % std::size(leaves)];
    auto [left, x] = make(depth - 1);
    auto [right, y] = make(depth - 1);
    switch (random() % 7) {
    case 0:
      return {"(" + left + " + " + right + ")", x + y};
    case 1:
      return {"(" + left + " - " + right + ")", x - y};
    case 2:
    case 3:
      return {left + "*" + right, x * y};
    case 4:
      if (y != 0 && x % y == 0)
        return {"(" + left + ")/(" + right + ")", x / y};
      return {left + "*" + right, x * y};
    case 5:
      if (y != 0) {
        int64_t floor = x / y - (x % y != 0 && (x < 0) != (y < 0));
        return {"((" + left + ")//(" + right + "))", floor};
      }
      return {left, x};
    default:
      return {"(" + left + ")**2", x * x};
    }
  }

private:
  std::mt19937 random;
};

} // namespace

// Whatever is read has the value that it should have, and what is printed of
// it, however, reads back as the same polynomial.
TEST(Polynomial, WhatIsPrintedReadsBackTheSame) {
  const Names names = named({{"a", 3}, {"b", 7}, {"c", 12}});
  int opaque = 0, quotients = 0, cancelled = 0;
  for (unsigned seed = 0; seed != 2000; ++seed) {
    auto [text, value] = RandomExpression(seed).make(1 + seed % 4);
    for (Quotients policy : {Quotients::Kept, Quotients::Cancelled}) {
      auto read = [&](const std::string &from) {
        return Polynomial::parse(from, names, policy);
      };
      std::optional<Polynomial> polynomial = read(text);
      ASSERT_TRUE(polynomial) << text;
      ASSERT_EQ(polynomial->evaluate(), value)
          << text << " became " << polynomial->str();
      ASSERT_NEAR(polynomial->evaluateReal(), static_cast<double>(value),
                  1e-12 * std::abs(static_cast<double>(value)) + 1e-6)
          << polynomial->str();
      for (Style style : {Style::Compact, Style::Spaced, Style::ByName}) {
        std::string printed = polynomial->str(style);
        std::optional<Polynomial> again = read(printed);
        ASSERT_TRUE(again) << text << " became " << printed;
        ASSERT_EQ(again->evaluate(), value) << text << " became " << printed;
        // A kept quotient whose multiples were added up meets what it was
        // divided by for the first time when it is read.
        if (policy == Quotients::Kept && *again != *polynomial) {
          polynomial = again;
          printed = polynomial->str(style);
          again = read(printed);
          ++cancelled;
        }
        ASSERT_EQ(*again, *polynomial) << text << " became " << printed;
        ASSERT_EQ(again->str(style), printed) << text;
      }
    }
    std::string kept = Polynomial::parse(text, names, Quotients::Kept)->str();
    opaque += kept.find("//") != std::string::npos;
    quotients += kept.find("/") != std::string::npos;
  }
  EXPECT_GT(opaque, 100);
  EXPECT_GT(quotients, opaque + 20);
  EXPECT_LT(cancelled, 20);
}

// Sums, differences, products, quotients and powers have the values of their
// operands', added, subtracted, multiplied, divided and raised.
TEST(Polynomial, ArithmeticAgreesWithEvaluation) {
  const Names names = named({{"a", 3}, {"b", 7}, {"c", 12}});
  int exact = 0;
  for (unsigned seed = 0; seed != 2000; ++seed) {
    auto policy = seed % 2 ? Quotients::Kept : Quotients::Cancelled;
    auto [left, x] = RandomExpression(seed).make(1 + seed % 3);
    auto [right, y] = RandomExpression(seed + 5000).make(1 + seed / 3 % 3);
    auto p = Polynomial::parse(left, names, policy);
    auto q = Polynomial::parse(right, names, policy);
    ASSERT_TRUE(p && q) << left << ", " << right;
    SCOPED_TRACE(left + ", " + right);
    ASSERT_EQ(Polynomial::add(*p, *q)->evaluate(), x + y);
    ASSERT_EQ(Polynomial::subtract(*p, *q)->evaluate(), x - y);
    ASSERT_EQ(Polynomial::multiply(*p, *q)->evaluate(), x * y);
    ASSERT_EQ(*Polynomial::add(*p, *q), *Polynomial::add(*q, *p));
    ASSERT_EQ(*Polynomial::multiply(*p, *q), *Polynomial::multiply(*q, *p));
    ASSERT_TRUE(Polynomial::subtract(*p, *p)->isZero());
    if (std::abs(x) < 1000) {
      ASSERT_EQ(Polynomial::power(*p, Polynomial(3))->evaluate(), x * x * x);
    }
    if (y != 0 && x % y == 0) {
      ASSERT_EQ(Polynomial::divide(*p, *q, policy)->evaluate(), x / y);
      ++exact;
    }
  }
  EXPECT_GT(exact, 200);
}

// A quotient that is kept stays as it was written, and is a whole again in a
// product with what it was divided by; one that is cancelled meets its like.
TEST(Polynomial, QuotientsAreKeptOrCancelled) {
  const Names names = gpt2();
  auto kept = [&](const char *text) {
    return Polynomial::parse(text, names, Quotients::Kept)->str();
  };
  auto cancelled = [&](const char *text) { return parse(names, text)->str(); };
  EXPECT_EQ(kept("2*(width/heads)"), "2*(width/heads)");
  EXPECT_EQ(cancelled("2*(width/heads)"), "2*width/heads");
  EXPECT_EQ(kept("(width/heads)/2"), "width/(2*heads)");
  EXPECT_EQ(cancelled("(width/heads)/2"), "width/2/heads");
  EXPECT_EQ(kept("layers*heads*(width/heads)"), "width*layers");
  // A quotient that is no integer is one only where it may cancel later.
  EXPECT_FALSE(Polynomial::parse("width/5", names, Quotients::Kept));
  EXPECT_TRUE(Polynomial::parse("width/5", names, Quotients::Cancelled));
}

// Degree first in the module and in messages, names first in reports.
TEST(Polynomial, PrintsInTheOrderOfItsStyle) {
  const Names names = gpt2();
  Polynomial total = *parse(names, "12*width**2*layers + vocab*width % 5");
  EXPECT_EQ(total.str(Style::Compact), "12*width**2*layers + (vocab*width)%5");
  EXPECT_EQ(total.str(Style::Spaced),
            "12 * width**2 * layers + (vocab * width) % 5");
  total = *parse(names, "12*width**2*layers + vocab*width");
  EXPECT_EQ(total.str(Style::Compact), "12*width**2*layers + vocab*width");
  EXPECT_EQ(total.str(Style::ByName), "vocab*width + 12*width**2*layers");
}

// What is subtracted does not come first, unless there is nothing else.
TEST(Polynomial, AMessageBeginsWithWhatIsAdded) {
  const Names names = gpt2();
  Polynomial rest = *parse(names, "width - width // layers * layers");
  EXPECT_EQ(rest.str(Style::Spaced), "width - layers * (width // layers)");
  EXPECT_EQ(rest.str(Style::Compact), "-layers*(width//layers) + width");
  rest = *parse(names, "-width - layers");
  EXPECT_EQ(rest.str(Style::Spaced), "-width - layers");
}
