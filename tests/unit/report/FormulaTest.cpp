//===- FormulaTest.cpp - symbolic formulas --------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/report/Formula.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

using namespace tfm;

namespace {

FormulaContext gpt2() {
  return FormulaContext({{"vocab", 50257},
                         {"context", 1024},
                         {"width", 768},
                         {"heads", 12},
                         {"layers", 12}});
}

/// The canonical text of an expression.
std::string canonical(FormulaContext &context, const char *text) {
  std::optional<Formula> formula = context.parse(text);
  return formula ? context.print(*formula) : "<none>";
}

} // namespace

TEST(Formula, PrintsOneCanonicalForm) {
  FormulaContext context = gpt2();
  EXPECT_EQ(canonical(context, "width*3*width + width*3"),
            "3*width**2 + 3*width");
  EXPECT_EQ(canonical(context, "(width + 1) * (width - 1)"), "width**2 - 1");
  EXPECT_EQ(canonical(context, "(width + heads)**2"),
            "width**2 + 2*width*heads + heads**2");
  EXPECT_EQ(canonical(context, "layers*width + vocab*width"),
            "vocab*width + width*layers");
  EXPECT_EQ(canonical(context, "width - width"), "0");
  EXPECT_EQ(canonical(context, "-width"), "-width");
  EXPECT_EQ(canonical(context, "3 - 5"), "-2");
  EXPECT_EQ(canonical(context, "-2**2"), "-4");
  EXPECT_EQ(canonical(context, "2**3**2"), "512");
}

TEST(Formula, ExactDivisionCancels) {
  FormulaContext context = gpt2();
  EXPECT_EQ(canonical(context, "width/heads"), "width/heads");
  EXPECT_EQ(canonical(context, "heads*(width/heads)"), "width");
  EXPECT_EQ(canonical(context, "3*width/heads*heads + width"), "4*width");
  EXPECT_EQ(canonical(context, "(4*width)/2"), "2*width");
  EXPECT_EQ(canonical(context, "width/4 + width/4"), "width/2");
  EXPECT_EQ(canonical(context, "(4*width + 4)/4"), "width + 1");
}

// A sum that is divisible only as a whole stays one quotient.
TEST(Formula, KeepsAQuotientThatIsExactOnlyAsAWhole) {
  FormulaContext context = gpt2();
  std::optional<Formula> formula = context.parse("(width + 2)/10*heads");
  ASSERT_TRUE(formula);
  EXPECT_EQ(context.evaluate(*formula), 77 * 12);
  EXPECT_EQ(context.print(*formula), "heads*((width + 2)/10)");
}

TEST(Formula, KeepsWhatIsNoPolynomial) {
  FormulaContext context = gpt2();
  EXPECT_EQ(canonical(context, "width//5"), "width//5");
  EXPECT_EQ(canonical(context, "2*(width//5) + width//5"), "3*(width//5)");
  EXPECT_EQ(canonical(context, "(width + 1)//5"), "(width + 1)//5");
  EXPECT_EQ(canonical(context, "width % 5 * heads"), "heads*(width % 5)");
  EXPECT_EQ(canonical(context, "max(width, 2*heads)*2"),
            "2*max(width, 2*heads)");
  EXPECT_EQ(canonical(context, "2**heads"), "2**heads");
  EXPECT_EQ(context.evaluate(*context.parse("2**heads")), 4096);
  EXPECT_EQ(context.evaluate(*context.parse("width//5")), 153);
  EXPECT_EQ(context.evaluate(*context.parse("width % 5")), 3);
  EXPECT_EQ(context.evaluate(*context.parse("-width//5")), -154);
  EXPECT_EQ(context.evaluate(*context.parse("min(width, heads)")), 12);
}

TEST(Formula, RejectsWhatItCannotEvaluate) {
  FormulaContext context = gpt2();
  for (const char *text :
       {"", "width +", "depth", "width width", "(width", "width)", "3 ** ",
        "0.5", "if width then 1 else 2", "width/5 +", "f(width)", "min(width)",
        "99999999999999999999", "width // 0", "width / 0", "(width + 1)/5",
        "vocab**16**16", "1 # 2"})
    EXPECT_FALSE(context.parse(text).has_value()) << text;
  // Not exact: it parses as a product, but has no integer value.
  std::optional<Formula> formula = context.parse("width/5");
  ASSERT_TRUE(formula);
  EXPECT_FALSE(context.evaluate(*formula).has_value());
}

TEST(Formula, OverflowIsNoValue) {
  FormulaContext context({{"big", INT64_MAX}});
  EXPECT_EQ(context.evaluate(*context.parse("big")), INT64_MAX);
  EXPECT_FALSE(context.evaluate(*context.parse("big + 1")).has_value());
  EXPECT_FALSE(context.evaluate(*context.parse("big * big")).has_value());
  EXPECT_FALSE(
      context.evaluate(*context.parse("(-big - 1)/(3 - 4)")).has_value());
  EXPECT_FALSE(context.parse("(-big - 1)//(3 - 4)").has_value());
  EXPECT_FALSE(context.parse("(-big - 1) % (3 - 4)").has_value());
}

// They end at once: what does not grow does not overflow either.
TEST(Formula, PowersOfWhatDoesNotGrow) {
  FormulaContext context(
      {{"big", INT64_MAX}, {"one", 1}, {"none", 0}, {"minus", -1}});
  auto value = [&](const char *text) {
    return context.evaluate(*context.parse(text));
  };
  EXPECT_EQ(value("one**big"), 1);
  EXPECT_EQ(value("none**big"), 0);
  EXPECT_EQ(value("none**none"), 1);
  EXPECT_EQ(value("minus**big"), -1);
  EXPECT_EQ(value("minus**(big - 1)"), 1);
  EXPECT_FALSE(context.parse("(one + 1)**big").has_value());
}

TEST(Formula, PartialDerivatives) {
  FormulaContext context = gpt2();
  auto slope = [&](const char *text, const char *name) {
    return context.differentiate(*context.parse(text), name);
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

// Whatever is read has the value that it should have, and what is printed of it
// reads back as the same formula.
TEST(Formula, RandomExpressionsKeepTheirValue) {
  int opaque = 0;
  for (unsigned seed = 0; seed != 2000; ++seed) {
    FormulaContext context({{"a", 3}, {"b", 7}, {"c", 12}});
    auto [text, value] = RandomExpression(seed).make(1 + seed % 4);
    std::optional<Formula> formula = context.parse(text);
    ASSERT_TRUE(formula) << text;
    ASSERT_EQ(context.evaluate(*formula), value)
        << text << " became " << context.print(*formula);
    std::string printed = context.print(*formula);
    std::optional<Formula> again = context.parse(printed);
    ASSERT_TRUE(again) << text << " became " << printed;
    ASSERT_EQ(context.evaluate(*again), value) << printed;
    ASSERT_EQ(context.print(*again), printed) << text;
    opaque += printed.find("//") != std::string::npos;
  }
  EXPECT_GT(opaque, 100);
}
