//===- DimTest.cpp - tests of symbolic integers ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/Dim.h"
#include "gtest/gtest.h"

#include <map>
#include <random>

using namespace tfm;

namespace {

/// Evaluates a formula as the language does: integers, + - * / // % **, names
/// and parentheses.
class Calculator {
public:
  Calculator(std::string text, std::map<std::string, int64_t> names)
      : text(std::move(text)), names(std::move(names)) {}

  int64_t run() {
    int64_t value = sum();
    skip();
    EXPECT_EQ(at, text.size()) << text;
    return value;
  }

private:
  void skip() {
    while (at < text.size() && text[at] == ' ')
      ++at;
  }
  bool eat(const std::string &token) {
    skip();
    if (text.compare(at, token.size(), token) != 0)
      return false;
    // `*` is not the start of `**`, `/` not of `//`.
    if (token.size() == 1 && at + 1 < text.size() && text[at] == text[at + 1] &&
        (token == "*" || token == "/"))
      return false;
    at += token.size();
    return true;
  }
  int64_t sum() {
    int64_t value = product();
    for (;;) {
      if (eat("+"))
        value += product();
      else if (eat("-"))
        value -= product();
      else
        return value;
    }
  }
  int64_t product() {
    int64_t value = unary();
    for (;;) {
      if (eat("//")) {
        int64_t by = unary();
        int64_t quotient = value / by;
        value = quotient - (value % by != 0 && (value < 0) != (by < 0));
      } else if (eat("*")) {
        value *= unary();
      } else if (eat("/")) {
        int64_t by = unary();
        EXPECT_EQ(value % by, 0) << text;
        value /= by;
      } else if (eat("%")) {
        int64_t by = unary();
        value = ((value % by) + by) % by;
      } else {
        return value;
      }
    }
  }
  int64_t unary() {
    if (eat("-"))
      return -unary();
    int64_t base = atom();
    if (!eat("**"))
      return base;
    int64_t exponent = unary(), value = 1;
    for (int64_t i = 0; i < exponent; ++i)
      value *= base;
    return value;
  }
  int64_t atom() {
    if (eat("(")) {
      int64_t value = sum();
      EXPECT_TRUE(eat(")")) << text;
      return value;
    }
    skip();
    size_t begin = at;
    while (at < text.size() && (isalnum(text[at]) || text[at] == '_'))
      ++at;
    std::string word = text.substr(begin, at - begin);
    if (word.empty()) {
      ADD_FAILURE() << "no operand at " << begin << " in " << text;
      return 0;
    }
    return isdigit(word[0]) ? std::stoll(word) : names.at(word);
  }

  std::string text;
  std::map<std::string, int64_t> names;
  size_t at = 0;
};

const Dim width = Dim::named("width", 768, 0);
const Dim heads = Dim::named("heads", 12, 1);
const Dim layers = Dim::named("layers", 3, 2);

// A formula of formulas of formulas would double with every step.
TEST(Dim, FormulasStayShort) {
  Dim sum = Dim::named("a", 1);
  for (const char *name : {"b", "c", "d", "e", "f"})
    sum = sum + Dim::named(name, 0, 1);
  Dim power = Dim::power(sum, 60);
  EXPECT_EQ(power.value(), 1);
  EXPECT_LT(power.str().size(), 10000U);
  Dim nested = Dim::named("n", 1000);
  for (int i = 0; i < 40; ++i)
    nested =
        Dim::floorDivide(nested, Dim(3)) * Dim(2) + Dim::modulo(nested, Dim(7));
  EXPECT_LT(nested.str().size(), 10000U);
}

TEST(Dim, PrintsPolynomialsByDegree) {
  Dim conv = width * (Dim(3) * width) + Dim(3) * width;
  EXPECT_EQ(conv.str(), "3*width**2 + 3*width");
  EXPECT_EQ(conv.str(/*spaced=*/true), "3 * width**2 + 3 * width");
  EXPECT_EQ(conv.value(), 3 * 768 * 768 + 3 * 768);
  EXPECT_EQ((Dim(0) - width).str(), "-width");
  EXPECT_EQ((width - Dim(1)).str(), "width - 1");
  EXPECT_EQ((width - width).str(), "0");
  EXPECT_EQ((layers * width * heads).str(), "width*heads*layers");
}

TEST(Dim, QuotientsStaySymbolicAndCancel) {
  Dim head = *Dim::divideExact(width, heads);
  EXPECT_EQ(head.str(), "width/heads");
  EXPECT_EQ(head.str(/*spaced=*/true), "width / heads");
  EXPECT_EQ(head.value(), 64);
  EXPECT_EQ((heads * head).str(), "width");
  EXPECT_EQ((head * Dim(2)).str(), "2*(width/heads)");
  EXPECT_EQ((head * heads * layers).str(), "width*layers");
  EXPECT_EQ(Dim::divideExact(Dim(4) * width, Dim(2))->str(), "2*width");
  EXPECT_EQ(Dim::divideExact(head, Dim(2))->str(), "width/(2*heads)");
  EXPECT_FALSE(Dim::divideExact(width, Dim(7)).has_value());
}

TEST(Dim, FloorsTowardsMinusInfinityAsPython) {
  EXPECT_EQ(Dim::floorDivide(Dim(-7), Dim(2)).value(), -4);
  EXPECT_EQ(Dim::modulo(Dim(-7), Dim(2)).value(), 1);
  EXPECT_EQ(Dim::modulo(Dim(7), Dim(-2)).value(), -1);
  EXPECT_EQ(Dim::floorDivide(width, Dim(7)).str(), "width//7");
  EXPECT_EQ((Dim(2) * Dim::floorDivide(width, Dim(7))).str(), "2*(width//7)");
  EXPECT_EQ(Dim::modulo(width, Dim(7)).str(), "width%7");
}

TEST(Dim, OverflowIsSeen) {
  Dim big = Dim::named("big", int64_t(1) << 40);
  EXPECT_FALSE(big.overflowed());
  EXPECT_TRUE((big * big).overflowed());
  EXPECT_TRUE((Dim(INT64_MAX) + Dim(1)).overflowed());
  EXPECT_TRUE((Dim(INT64_MIN) - Dim(1)).overflowed());
  EXPECT_TRUE(Dim::power(Dim(10), 30).overflowed());
  // Enormous exponents of 1 and -1 are fine, and fast.
  EXPECT_EQ(Dim::power(Dim(-1), INT64_MAX).value(), -1);
}

TEST(Dim, NamesOnlyPlainNames) {
  EXPECT_EQ(width.name(), "width");
  EXPECT_EQ((width * Dim(2)).name(), "");
  EXPECT_EQ(Dim::divideExact(width, heads)->name(), "");
}

// Whatever is computed, the printed formula is an expression of the language
// with the same value.
TEST(Dim, FormulasEvaluateToTheirValue) {
  std::mt19937_64 random(7);
  std::map<std::string, int64_t> names = {
      {"a", 6}, {"b", 4}, {"c", 3}, {"d", 12}};
  for (int round = 0; round < 3000; ++round) {
    std::vector<Dim> pool;
    unsigned order = 0;
    for (const auto &[name, value] : names)
      pool.push_back(Dim::named(name, value, order++));
    for (int64_t i : {1, 2, 3, 5})
      pool.push_back(Dim(i));
    auto pick = [&]() -> const Dim & { return pool[random() % pool.size()]; };
    for (int step = 0; step < 8; ++step) {
      Dim x = pick(), y = pick(), z;
      switch (random() % 7) {
      case 0:
        z = x + y;
        break;
      case 1:
        z = x - y;
        break;
      case 2:
        z = x * y;
        break;
      case 3:
        z = y.value() != 0 ? Dim::divideExact(x, y).value_or(x) : x;
        break;
      case 4:
        z = y.value() != 0 ? Dim::floorDivide(x, y) : x;
        break;
      case 5:
        z = y.value() != 0 ? Dim::modulo(x, y) : y;
        break;
      default:
        z = Dim::power(x, random() % 3);
      }
      if (z.overflowed() || std::abs(z.value()) > 1000000)
        continue;
      pool.push_back(z);
      EXPECT_EQ(Calculator(z.str(), names).run(), z.value()) << z.str();
      EXPECT_EQ(Calculator(z.str(true), names).run(), z.value()) << z.str(true);
    }
    if (HasFailure())
      return;
  }
}

// Addition and multiplication are those of a ring: whatever order the terms
// come in, the formula is the same.
TEST(Dim, PolynomialsAreCanonical) {
  std::mt19937_64 random(11);
  const Dim names[] = {width, heads, layers, Dim(2), Dim(5)};
  auto pick = [&] { return names[random() % 5] * names[random() % 5]; };
  for (int round = 0; round < 500; ++round) {
    Dim a = pick() + pick(), b = pick() - pick(), c = pick();
    EXPECT_EQ((a + b).str(), (b + a).str());
    EXPECT_EQ((a * b).str(), (b * a).str());
    EXPECT_EQ(((a + b) * c).str(), (a * c + b * c).str());
    EXPECT_EQ((a - a).str(), "0");
  }
}

} // namespace
