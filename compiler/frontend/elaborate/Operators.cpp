//===- Operators.cpp - operators on numbers and tensors -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/Operators.h"

#include "compiler/frontend/elaborate/Expressions.h"
#include "compiler/frontend/elaborate/Tensors.h"
#include "compiler/frontend/syntax/Habits.h"
#include "llvm/ADT/StringSwitch.h"

#include <cmath>

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

static bool isComparison(StringRef op) {
  return llvm::StringSwitch<bool>(op)
      .Cases({"==", "!=", "<", "<=", ">", ">="}, true)
      .Default(false);
}

static bool compareNumbers(StringRef op, double x, double y) {
  return llvm::StringSwitch<bool>(op)
      .Case("==", x == y)
      .Case("!=", x != y)
      .Case("<", x < y)
      .Case("<=", x <= y)
      .Case(">", x > y)
      .Case(">=", x >= y);
}

/// Whether it has a truth value for each layer.
static bool isTruthPerLayer(const SymbolicValue &value) {
  return value.is(SymbolicValue::PerLayer) &&
         value.items().front().is(SymbolicValue::Bool);
}

SymbolicValue Operators::evalUnary(const Expr &expr, Scope &scope) {
  SymbolicValue x = expressions.eval(*expr.kids[0], scope);
  if (x.isPoison())
    return x;
  tensors.locate(expr.range);
  if (expr.text == "not") {
    if (x.is(SymbolicValue::Bool))
      return SymbolicValue::boolean(!x.flag());
    if (isTruthPerLayer(x))
      return inEachLayer(x, x, expr,
                         [](const SymbolicValue &y, const SymbolicValue &) {
                           return SymbolicValue::boolean(!y.flag());
                         });
    if (x.isTensorLike()) {
      auto tensor = tensors.toTensor(x, expr.range, "`not`");
      if (tensor && tensor->elem == Elem::Bool)
        return SymbolicValue::tensor(
            {emitter.unary("not", tensor->handle), Elem::Bool, tensor->dims});
    }
    reporter.error(408, expr.kids[0]->range,
                   "`not` takes a truth value, not " + x.describe());
    return SymbolicValue();
  }
  if (x.is(SymbolicValue::Int))
    return SymbolicValue::integer(expr.text == "-" ? -x.dim() : x.dim());
  if (x.is(SymbolicValue::Float))
    return SymbolicValue::real(expr.text == "-" ? -x.number() : x.number());
  if (x.is(SymbolicValue::PerLayer))
    return expr.text == "-"
               ? numberArithmetic("*", x, SymbolicValue::integer(Dim(-1)), expr)
               : x;
  if (x.isTensorLike()) {
    auto tensor = tensors.toNumbers(x, expr.range, "`-`");
    if (!tensor)
      return SymbolicValue();
    if (expr.text == "+")
      return SymbolicValue::tensor(*tensor);
    if (tensor->elem == Elem::Float)
      return SymbolicValue::tensor(
          {emitter.unary("neg", tensor->handle), Elem::Float, tensor->dims});
    if (tensor->elem == Elem::Int)
      return SymbolicValue::tensor(tensors.binary(
          "sub", tensors.splat(0, Elem::Int, tensor->dims), *tensor));
    reporter
        .error(211, expr.kids[0]->range,
               "`-` takes floats or integers, not " +
                   showShape(tensor->dims, tensor->elem))
        .help("convert the truth values: `" +
              castOf(sources.text(expr.kids[0]->range), "float") + "`");
    return SymbolicValue();
  }
  reporter.error(408, expr.kids[0]->range,
                 "`" + expr.text + "` takes a number or a tensor, not " +
                     x.describe());
  return SymbolicValue();
}

SymbolicValue Operators::evalBinary(const Expr &expr, Scope &scope) {
  if (expr.text == "and" || expr.text == "or")
    return evalLogic(expr, scope);
  SymbolicValue a = expressions.eval(*expr.kids[0], scope);
  SymbolicValue b = expressions.eval(*expr.kids[1], scope);
  if (a.isPoison() || b.isPoison())
    return SymbolicValue();
  tensors.locate(expr.textRange);
  if (expr.text == "@")
    return matmul(a, b, expr);
  bool isTensor = a.isTensorLike() || b.isTensorLike();
  if (!isTensor && !budget.spend(a.size() + b.size(), expr.range))
    return SymbolicValue();
  if (expr.text == "==" || expr.text == "!=") {
    bool equals = expr.text == "==";
    // Whether something is there at all is known while compiling.
    if (a.is(SymbolicValue::None) || b.is(SymbolicValue::None))
      return SymbolicValue::boolean(
          (a.is(SymbolicValue::None) && b.is(SymbolicValue::None)) == equals);
    bool numeric =
        (a.isNumber() || a.is(SymbolicValue::PerLayer) || a.isTensorLike()) &&
        (b.isNumber() || b.is(SymbolicValue::PerLayer) || b.isTensorLike());
    if (!numeric && !a.isTensorLike() && !b.isTensorLike()) {
      // A function of one's own is none of the language's.
      auto isFunction = [](const SymbolicValue &value) {
        return value.is(SymbolicValue::Function) ||
               value.is(SymbolicValue::Builtin) ||
               value.is(SymbolicValue::Method);
      };
      if (a.kind() != b.kind() && isFunction(a) && isFunction(b))
        return SymbolicValue::boolean(!equals);
      if (a.kind() != b.kind()) {
        reporter.error(408, expr.textRange,
                       "cannot compare " + a.describe() + " with " +
                           b.describe());
        return SymbolicValue();
      }
      return SymbolicValue::boolean(a.sameAs(b) == equals);
    }
  }
  if (isTensor)
    return tensorArithmetic(expr.text, a, b, expr);
  return numberArithmetic(expr.text, a, b, expr);
}

SymbolicValue Operators::evalLogic(const Expr &expr, Scope &scope) {
  bool isAnd = expr.text == "and";
  SymbolicValue a = expressions.eval(*expr.kids[0], scope);
  // The right side may only make sense where the left side lets it.
  if (a.is(SymbolicValue::Bool) && a.flag() != isAnd)
    return a;
  SymbolicValue b = expressions.eval(*expr.kids[1], scope);
  if (a.isPoison() || b.isPoison())
    return SymbolicValue();
  if (a.is(SymbolicValue::Bool) && b.is(SymbolicValue::Bool))
    return b;
  auto isTruth = [](const SymbolicValue &value) {
    return value.is(SymbolicValue::Bool) || isTruthPerLayer(value);
  };
  if (isTruth(a) && isTruth(b)) {
    if (!budget.spend(a.size() + b.size(), expr.range))
      return SymbolicValue();
    return inEachLayer(a, b, expr,
                       [&](const SymbolicValue &x, const SymbolicValue &y) {
                         return x.flag() == isAnd ? y : x;
                       });
  }
  if (a.isTensorLike() || b.isTensorLike()) {
    tensors.locate(expr.textRange);
    auto x =
        tensors.toTensor(a, expr.kids[0]->range, "`" + expr.text.str() + "`");
    auto y =
        tensors.toTensor(b, expr.kids[1]->range, "`" + expr.text.str() + "`");
    if (!x || !y)
      return SymbolicValue();
    if (x->elem != Elem::Bool || y->elem != Elem::Bool) {
      bool left = x->elem != Elem::Bool;
      reporter.error(211, expr.kids[left ? 0 : 1]->range,
                     "`" + expr.text + "` takes truth values, not " +
                         showShape((left ? x : y)->dims, (left ? x : y)->elem));
      return SymbolicValue();
    }
    std::optional<Dims> dims = tensors.broadcastDims(x->dims, y->dims);
    if (!dims) {
      Diagnostic &d = reporter.error(
          201, expr.textRange,
          "`" + expr.text + "` of " + showShape(x->dims, x->elem) + " and " +
              showShape(y->dims, y->elem) + ": the shapes do not fit");
      tensors.helpWithAxes(d, x->dims, sources.text(expr.kids[0]->range),
                           y->dims, sources.text(expr.kids[1]->range));
      return SymbolicValue();
    }
    return SymbolicValue::tensor(
        tensors.binary(expr.text, tensors.broadcastTo(*x, *dims),
                       tensors.broadcastTo(*y, *dims)));
  }
  const SymbolicValue &wrong = isTruth(a) ? b : a;
  reporter.error(408, expr.kids[isTruth(a) ? 1 : 0]->range,
                 "`" + expr.text + "` takes truth values, not " +
                     wrong.describe());
  return SymbolicValue();
}

SymbolicValue Operators::arithmetic(StringRef op, const SymbolicValue &a,
                                    const SymbolicValue &b, const Expr &expr) {
  if (!a.isNumber() || !b.isNumber()) {
    bool left = !a.isNumber();
    const SymbolicValue &wrong = left ? a : b;
    if (blame.isFirst(wrong)) {
      Diagnostic &d = reporter.error(
          408, expr.kids[left ? 0 : 1]->range,
          "`" + op + "` takes numbers and tensors, not " + wrong.describe());
      bool isLayers =
          wrong.is(SymbolicValue::NodeRef) ||
          (wrong.is(SymbolicValue::List) && !wrong.items().empty() &&
           wrong.items().front().is(SymbolicValue::NodeRef));
      if (op == "*" && isLayers)
        d.help("layers repeat with `repeat(n) Block(...)`");
    }
    return SymbolicValue();
  }
  if (op == "min" || op == "max") {
    bool isMin = op == "min";
    if (a.is(SymbolicValue::Int) && b.is(SymbolicValue::Int))
      return SymbolicValue::integer(isMin ? Dim::min(a.dim(), b.dim())
                                          : Dim::max(a.dim(), b.dim()));
    bool isFirst = isMin ? a.number() <= b.number() : a.number() >= b.number();
    return SymbolicValue::real((isFirst ? a : b).number());
  }
  if (isComparison(op)) {
    if (a.is(SymbolicValue::Int) && b.is(SymbolicValue::Int)) {
      int64_t x = a.dim().value(), y = b.dim().value();
      return SymbolicValue::boolean(compareNumbers(op, x < y ? -1 : x > y, 0));
    }
    return SymbolicValue::boolean(compareNumbers(op, a.number(), b.number()));
  }
  if (dividesByZero(op, b, expr))
    return SymbolicValue();
  if (a.is(SymbolicValue::Int) && b.is(SymbolicValue::Int)) {
    const Dim &x = a.dim(), &y = b.dim();
    bool multiplies = op == "*" || op == "**";
    size_t steps =
        multiplies ? x.weight() * y.weight() : x.weight() + y.weight();
    if (!budget.spend(steps / 4, expr.range))
      return SymbolicValue();
    Dim result;
    if (op == "+") {
      result = x + y;
    } else if (op == "-") {
      result = x - y;
    } else if (op == "*") {
      result = x * y;
    } else if (op == "//") {
      result = Dim::floorDivide(x, y);
    } else if (op == "%") {
      result = Dim::modulo(x, y);
    } else if (op == "/") {
      std::optional<Dim> quotient = Dim::divideExact(x, y);
      if (!quotient) {
        std::string formula = x.factorStr(true) + " / " + y.factorStr(true);
        std::string values =
            std::to_string(x.value()) + " / " + std::to_string(y.value());
        // The text of an operand lacks the parentheses around it.
        auto operand = [&](unsigned i) {
          std::string text = sources.text(expr.kids[i]->range).str();
          return expr.kids[i]->kind == ExprKind::Binary ? "(" + text + ")"
                                                        : text;
        };
        std::string left = operand(0), right = operand(1);
        Diagnostic &d =
            reporter.error(406, expr.range,
                           formula + " is no integer" +
                               (formula == values ? "" : ": " + values));
        if (reporter.callerOfStd(expr.range))
          d.help("give it other numbers, so that `" + left + " / " + right +
                 "` comes out even");
        else
          d.help("`" + left + " // " + right + "` rounds down; `float(" + left +
                 ") / " + right + "` is a float");
        return SymbolicValue();
      }
      result = *quotient;
    } else {
      if (y.value() < 0)
        return finite(std::pow(a.number(), b.number()), op, expr.range);
      result = Dim::power(x, y.value());
      budget.spend(x.weight() * result.weight(), expr.range);
    }
    if (result.overflowed()) {
      if (blame.isFirst(x.isConstant() ? b : a))
        reporter.error(413, expr.range,
                       "the result of `" + op + "` does not fit in 64 bits");
      return SymbolicValue();
    }
    return SymbolicValue::integer(result);
  }
  double x = a.number(), y = b.number();
  double result = op == "+"    ? x + y
                  : op == "-"  ? x - y
                  : op == "*"  ? x * y
                  : op == "/"  ? x / y
                  : op == "//" ? std::floor(x / y)
                  : op == "%"  ? x - std::floor(x / y) * y
                               : std::pow(x, y);
  return finite(result, op, expr.range);
}

bool Operators::dividesByZero(StringRef op, const SymbolicValue &by,
                              const Expr &expr) {
  bool divides = op == "/" || op == "//" || op == "%";
  if (!divides || by.number() != 0)
    return false;
  reporter.error(
      407, expr.kids[1]->range,
      by.is(SymbolicValue::Int) && by.dim().isConstant()
          ? Twine("division by zero")
          : "division by zero: " + sources.text(expr.kids[1]->range) + " is 0");
  return true;
}

SymbolicValue Operators::finite(double number, StringRef what, Range range) {
  if (std::isfinite(number))
    return SymbolicValue::real(number);
  reporter.error(413, range,
                 "the result of `" + what + "` is no finite number");
  return SymbolicValue();
}

SymbolicValue
Operators::inEachLayer(const SymbolicValue &a, const SymbolicValue &b,
                       const Expr &expr,
                       llvm::function_ref<SymbolicValue(const SymbolicValue &,
                                                        const SymbolicValue &)>
                           combine) {
  const SymbolicValue &layered = a.is(SymbolicValue::PerLayer) ? a : b;
  if (b.is(SymbolicValue::PerLayer) && b.owner() != layered.owner()) {
    reporter
        .error(605, expr.range,
               "`" + expr.text +
                   "` of the numbers of two repeats, one in the other")
        .help("take one after the other: `x * a * b` rather than `x * (a * "
              "b)`");
    return SymbolicValue();
  }
  std::vector<SymbolicValue> items;
  for (size_t i = 0; i < layered.items().size(); ++i) {
    items.push_back(combine(a.is(SymbolicValue::PerLayer) ? a.items()[i] : a,
                            b.is(SymbolicValue::PerLayer) ? b.items()[i] : b));
    if (items.back().isPoison())
      return SymbolicValue();
  }
  return SymbolicValue::perLayer(std::move(items), layered.owner());
}

SymbolicValue Operators::numberArithmetic(StringRef op, const SymbolicValue &a,
                                          const SymbolicValue &b,
                                          const Expr &expr) {
  if (!a.is(SymbolicValue::PerLayer) && !b.is(SymbolicValue::PerLayer))
    return arithmetic(op, a, b, expr);
  return inEachLayer(a, b, expr,
                     [&](const SymbolicValue &x, const SymbolicValue &y) {
                       return arithmetic(op, x, y, expr);
                     });
}

/// "add", "multiply", ...: for "cannot add [..] and [..]".
static StringRef verbOf(StringRef op) {
  if (isComparison(op))
    return "compare";
  return llvm::StringSwitch<StringRef>(op)
      .Case("+", "add")
      .Case("-", "subtract")
      .Case("*", "multiply")
      .Cases({"/", "//"}, "divide")
      .Case("%", "take the remainder of")
      .Case("**", "raise")
      .Case("min", "take the minimum of")
      .Case("max", "take the maximum of");
}

/// As of numbers: from 0 to `n - 1`, where `x` is negative, too.
SymbolicTensor Operators::remainder(const SymbolicTensor &x,
                                    const SymbolicTensor &n) {
  // Division drops what is left over, which has the sign of `x`.
  auto leftOver = [&](const SymbolicTensor &x) {
    return tensors.binary(
        "sub", x, tensors.binary("mul", tensors.binary("div", x, n), n));
  };
  return leftOver(tensors.binary("add", leftOver(x), n));
}

SymbolicValue Operators::tensorArithmetic(StringRef op, const SymbolicValue &a,
                                          const SymbolicValue &b,
                                          const Expr &expr) {
  Range ra = expr.kids.empty() ? expr.range : expr.kids[0]->range;
  Range rb = expr.kids.size() < 2 ? expr.range : expr.kids[1]->range;
  std::optional<SymbolicTensor> x, y;
  StringRef verb = verbOf(op);
  for (const SymbolicValue *value : {&a, &b}) {
    if (value->isTensorLike() || value->isNumber() ||
        value->is(SymbolicValue::Bool) || value->is(SymbolicValue::PerLayer))
      continue;
    Range range = value == &a ? ra : rb;
    Diagnostic &d = reporter.error(408, range,
                                   "cannot " + verb + " " + a.describe() +
                                       " and " + b.describe());
    if (value->is(SymbolicValue::NodeRef))
      d.help("call it: `" + sources.text(range) + "(x)`");
    else if (value->is(SymbolicValue::List))
      d.help(severalValuesHelp);
    else if (value->is(SymbolicValue::Init))
      d.help(nameHabit(value->items().empty() ? "full" : "random"));
    return SymbolicValue();
  }
  if (b.isNumber() && dividesByZero(op, b, expr))
    return SymbolicValue();
  if (a.isTensorLike())
    x = tensors.toNumbers(a, ra, verb);
  if (b.isTensorLike())
    y = tensors.toNumbers(b, rb, verb);
  bool hasRemainder = x && x->elem == Elem::Int && b.is(SymbolicValue::Int) &&
                      b.dim().value() > 0;
  if (op == "%" && !hasRemainder && (x || !a.isTensorLike())) {
    reporter
        .error(408, expr.textRange,
               "`%` takes numbers, or a tensor of integers and a positive "
               "integer")
        .help("what it divides by is known while compiling: `ids % n`");
    return SymbolicValue();
  }
  if (!x && !a.isTensorLike())
    x = tensors.operandTensor(a, y ? &*y : nullptr, ra, verb, sources.text(rb));
  if (!y && !b.isTensorLike())
    y = tensors.operandTensor(b, x ? &*x : nullptr, rb, verb, sources.text(ra));
  if (!x || !y)
    return SymbolicValue();
  if (x->elem != y->elem) {
    auto word = [](Elem elem) -> StringRef {
      return elem == Elem::Float ? "floats"
             : elem == Elem::Int ? "integers"
                                 : "truth values";
    };
    // Truth values become what the others are, integers floats.
    bool isRight = x->elem == Elem::Float || y->elem == Elem::Bool;
    reporter
        .error(211, expr.textRange,
               "cannot " + verb + " " + showShape(x->dims, x->elem) + " and " +
                   showShape(y->dims, y->elem) + ": " + word(x->elem) +
                   " and " + word(y->elem))
        .help("convert the " + word((isRight ? y : x)->elem) + ": `" +
              castOf(sources.text(isRight ? rb : ra),
                     (isRight ? x : y)->elem == Elem::Float ? "float" : "int") +
              "`");
    return SymbolicValue();
  }
  if (x->elem == Elem::Bool) {
    reporter.error(211, expr.textRange, "cannot " + verb + " truth values")
        .help("convert them: `" + castOf(sources.text(ra), "float") + "`");
    return SymbolicValue();
  }
  std::optional<Dims> dims = tensors.broadcastDims(x->dims, y->dims);
  if (!dims) {
    Diagnostic &d = reporter.error(
        201, expr.textRange,
        "cannot " + verb + " " + showShape(x->dims, x->elem) + " and " +
            showShape(y->dims, y->elem) + ": the shapes do not fit");
    // Name the axis, counted from the end as NumPy aligns them.
    size_t shorter = std::min(x->dims.size(), y->dims.size());
    for (size_t i = 1; i <= shorter; ++i) {
      const Dim &p = x->dims[x->dims.size() - i];
      const Dim &q = y->dims[y->dims.size() - i];
      if (p != q && p != 1 && q != 1) {
        d.withLabel("axis -" + Twine(i) + " is " +
                    SymbolicValue::integer(p).show() + " on the left, " +
                    SymbolicValue::integer(q).show() + " on the right");
        break;
      }
    }
    tensors.helpWithAxes(d, x->dims, sources.text(ra), y->dims,
                         sources.text(rb));
    return SymbolicValue();
  }
  if (isComparison(op)) {
    StringRef kind = llvm::StringSwitch<StringRef>(op)
                         .Case("==", "eq")
                         .Case("!=", "ne")
                         .Case("<", "lt")
                         .Case("<=", "le")
                         .Case(">", "gt")
                         .Case(">=", "ge");
    SymbolicTensor p = tensors.broadcastTo(*x, *dims),
                   q = tensors.broadcastTo(*y, *dims);
    return SymbolicValue::tensor(
        {emitter.compare(kind, p.handle, q.handle), Elem::Bool, *dims});
  }
  if (op == "%")
    return SymbolicValue::tensor(remainder(tensors.broadcastTo(*x, *dims),
                                           tensors.broadcastTo(*y, *dims)));
  StringRef mnemonic = llvm::StringSwitch<StringRef>(op)
                           .Case("+", "add")
                           .Case("-", "sub")
                           .Case("*", "mul")
                           .Case("/", "div")
                           .Case("**", "pow")
                           .Case("min", "min")
                           .Case("max", "max")
                           .Default("");
  if (mnemonic.empty()) {
    Diagnostic &d =
        reporter
            .error(408, expr.textRange, "`" + op + "` works on numbers only")
            .help("they are known while compiling; tensors have `+ - * / % ** "
                  "@`");
    if (op == "//")
      d.help(commentHelp);
    return SymbolicValue();
  }
  if (x->elem == Elem::Int && mnemonic == "pow") {
    reporter.error(211, expr.textRange, "`**` works on floats")
        .help("convert: `" + castOf(sources.text(ra), "float") + "`");
    return SymbolicValue();
  }
  return SymbolicValue::tensor(tensors.binary(mnemonic,
                                              tensors.broadcastTo(*x, *dims),
                                              tensors.broadcastTo(*y, *dims)));
}

//===----------------------------------------------------------------------===//
// Matrix product
//===----------------------------------------------------------------------===//

/// The words for an operand: its own text where that is short.
static std::string operandName(StringRef text, StringRef otherwise) {
  return text.size() <= 24 && !text.contains('\n') ? text.str()
                                                   : otherwise.str();
}

SymbolicValue Operators::matmul(const SymbolicValue &a, const SymbolicValue &b,
                                const Expr &expr) {
  Range ra = expr.kids[0]->range, rb = expr.kids[1]->range;
  auto x = tensors.toNumbers(a, ra, "`@`"), y = tensors.toNumbers(b, rb, "`@`");
  if (!x || !y)
    return SymbolicValue();
  if (x->elem != Elem::Float || y->elem != Elem::Float) {
    reporter
        .error(211, x->elem != Elem::Float ? ra : rb,
               "`@` multiplies floats, not " +
                   showShape((x->elem != Elem::Float ? x : y)->dims,
                             (x->elem != Elem::Float ? x : y)->elem))
        .help("convert: `" +
              castOf(sources.text(x->elem != Elem::Float ? ra : rb), "float") +
              "`");
    return SymbolicValue();
  }
  size_t m = x->dims.size(), n = y->dims.size();
  if (m < 2 || n < 2) {
    reporter
        .error(202, m < 2 ? ra : rb,
               "`@` multiplies matrices, but this is " +
                   showShape((m < 2 ? x : y)->dims))
        .help("each side of `@` has at least two axes");
    return SymbolicValue();
  }
  const Dim &k = x->dims[m - 1];
  if (k != y->dims[n - 2]) {
    std::string left = operandName(sources.text(ra), "the left side");
    Diagnostic &d =
        reporter
            .error(203, rb,
                   "cannot multiply " + showShape(x->dims) + " by " +
                       showShape(y->dims) + ": the inner dimensions differ")
            .withLabel(showShape(y->dims) + " = " + showNumbers(y->dims) +
                       ", " + left + " ends in " +
                       SymbolicValue::integer(k).show());
    if (k == y->dims[n - 1]) {
      StringRef text = sources.text(rb);
      bool simple = expr.kids[1]->kind == ExprKind::Name ||
                    expr.kids[1]->kind == ExprKind::Member;
      if (text.ends_with(".T"))
        d.help("did you mean `" + text.drop_back(2) + "`?");
      else if (simple)
        d.help("did you mean `" + text + ".T`?");
    }
    return SymbolicValue();
  }
  tensors.locate(expr.textRange);
  Dims out = x->dims;
  out.back() = y->dims[n - 1];
  if (n == 2) {
    if (m == 2)
      return SymbolicValue::tensor(
          {emitter.matmul(x->handle, y->handle), Elem::Float, out});
    // A weight shared by a batch: one product of rank 2.
    Dim rows(1);
    for (const Dim &dim : llvm::ArrayRef(x->dims).drop_back())
      rows = rows * dim;
    SymbolicTensor flat = tensors.reshapeTo(*x, {rows, k});
    SymbolicTensor product{emitter.matmul(flat.handle, y->handle),
                           Elem::Float,
                           {rows, y->dims[1]}};
    return SymbolicValue::tensor(tensors.reshapeTo(product, out));
  }
  Dims batchX(llvm::ArrayRef(x->dims).drop_back(2));
  Dims batchY(llvm::ArrayRef(y->dims).drop_back(2));
  std::optional<Dims> batch = tensors.broadcastDims(batchX, batchY);
  if (!batch) {
    reporter.error(216, expr.textRange,
                   "cannot multiply " + showShape(x->dims) + " by " +
                       showShape(y->dims) + ": the leading axes do not fit");
    return SymbolicValue();
  }
  auto widen = [&](const SymbolicTensor &t) {
    Dims dims = *batch;
    dims.append(t.dims.end() - 2, t.dims.end());
    return tensors.broadcastTo(t, dims);
  };
  SymbolicTensor p = widen(*x), q = widen(*y);
  out = *batch;
  out.push_back(x->dims[m - 2]);
  out.push_back(y->dims[n - 1]);
  return SymbolicValue::tensor(
      {emitter.matmul(p.handle, q.handle), Elem::Float, out});
}
