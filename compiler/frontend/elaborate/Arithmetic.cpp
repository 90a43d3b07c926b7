//===- Arithmetic.cpp - operators on numbers and tensors ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/Elaborator.h"

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

Value Elaborator::evalUnary(const Expr &expr, Env &env) {
  Value x = eval(*expr.kids[0], env);
  if (x.isPoison())
    return x;
  locate(expr.range);
  if (expr.text == "not") {
    if (x.is(Value::Bool))
      return Value::boolean(!x.flag());
    if (x.isTensorLike()) {
      auto tensor = toTensor(x, expr.range, "`not`");
      if (tensor && tensor->elem == Elem::Bool)
        return Value::tensor(
            {emitter.unary("not", tensor->handle), Elem::Bool, tensor->dims});
    }
    error(408, expr.kids[0]->range,
          "`not` takes a truth value, not " + x.describe());
    return Value();
  }
  if (x.is(Value::Int))
    return Value::integer(expr.text == "-" ? -x.dim() : x.dim());
  if (x.is(Value::Float))
    return Value::real(expr.text == "-" ? -x.number() : x.number());
  if (x.is(Value::PerLayer))
    return expr.text == "-"
               ? perLayerArithmetic("*", x, Value::integer(Dim(-1)), expr)
               : x;
  if (x.isTensorLike()) {
    auto tensor = toTensor(x, expr.range, "`-`");
    if (!tensor)
      return Value();
    if (expr.text == "+")
      return Value::tensor(*tensor);
    if (tensor->elem == Elem::Float)
      return Value::tensor(
          {emitter.unary("neg", tensor->handle), Elem::Float, tensor->dims});
    if (tensor->elem == Elem::Int)
      return Value::tensor(
          binary("sub", splat(0, Elem::Int, tensor->dims), *tensor));
  }
  error(408, expr.kids[0]->range,
        "`" + expr.text + "` takes a number or a tensor, not " + x.describe());
  return Value();
}

Value Elaborator::evalBinary(const Expr &expr, Env &env) {
  if (expr.text == "and" || expr.text == "or")
    return evalLogic(expr, env);
  Value a = eval(*expr.kids[0], env);
  Value b = eval(*expr.kids[1], env);
  if (a.isPoison() || b.isPoison())
    return Value();
  locate(expr.textRange);
  if (expr.text == "@")
    return matmul(a, b, expr);
  bool isTensor = a.isTensorLike() || b.isTensorLike();
  if (!isTensor && !spend(a.size() + b.size(), expr.range))
    return Value();
  if (expr.text == "==" || expr.text == "!=") {
    bool equals = expr.text == "==";
    // Whether something is there at all is known while compiling.
    if (a.is(Value::None) || b.is(Value::None))
      return Value::boolean((a.is(Value::None) && b.is(Value::None)) == equals);
    bool numeric =
        (a.isNumber() || a.is(Value::PerLayer) || a.isTensorLike()) &&
        (b.isNumber() || b.is(Value::PerLayer) || b.isTensorLike());
    if (!numeric && !a.isTensorLike() && !b.isTensorLike()) {
      if (a.kind() != b.kind()) {
        error(408, expr.textRange,
              "cannot compare " + a.describe() + " with " + b.describe());
        return Value();
      }
      return Value::boolean(a.sameAs(b) == equals);
    }
  }
  if (isTensor)
    return tensorArithmetic(expr.text, a, b, expr);
  if (a.is(Value::PerLayer) || b.is(Value::PerLayer))
    return perLayerArithmetic(expr.text, a, b, expr);
  return arithmetic(expr.text, a, b, expr);
}

Value Elaborator::evalLogic(const Expr &expr, Env &env) {
  bool isAnd = expr.text == "and";
  Value a = eval(*expr.kids[0], env);
  // The right side may only make sense where the left side lets it.
  if (a.is(Value::Bool) && a.flag() != isAnd)
    return a;
  Value b = eval(*expr.kids[1], env);
  if (a.isPoison() || b.isPoison())
    return Value();
  if (a.is(Value::Bool) && b.is(Value::Bool))
    return b;
  if (a.isTensorLike() || b.isTensorLike()) {
    locate(expr.textRange);
    auto x = toTensor(a, expr.kids[0]->range, "`" + expr.text.str() + "`");
    auto y = toTensor(b, expr.kids[1]->range, "`" + expr.text.str() + "`");
    if (!x || !y)
      return Value();
    if (x->elem != Elem::Bool || y->elem != Elem::Bool) {
      bool left = x->elem != Elem::Bool;
      error(211, expr.kids[left ? 0 : 1]->range,
            "`" + expr.text + "` takes truth values, not " +
                showShape((left ? x : y)->dims, (left ? x : y)->elem));
      return Value();
    }
    std::optional<Dims> dims = broadcastDims(x->dims, y->dims);
    if (!dims) {
      error(201, expr.textRange,
            "`" + expr.text + "` of " + showShape(x->dims, x->elem) + " and " +
                showShape(y->dims, y->elem) + ": the shapes do not fit");
      return Value();
    }
    return Value::tensor(
        binary(expr.text, broadcastTo(*x, *dims), broadcastTo(*y, *dims)));
  }
  const Value &wrong = a.is(Value::Bool) ? b : a;
  error(408, expr.kids[a.is(Value::Bool) ? 1 : 0]->range,
        "`" + expr.text + "` takes truth values, not " + wrong.describe());
  return Value();
}

Value Elaborator::arithmetic(StringRef op, const Value &a, const Value &b,
                             const Expr &expr) {
  if (!a.isNumber() || !b.isNumber()) {
    bool left = !a.isNumber();
    const Value &wrong = left ? a : b;
    if (isFirstBlame(wrong)) {
      Diagnostic &d = error(408, expr.kids[left ? 0 : 1]->range,
                            "`" + op + "` takes numbers and tensors, not " +
                                wrong.describe());
      if (op == "*" && wrong.is(Value::NodeRef))
        d.help("layers repeat with `repeat(n) Block(...)`");
    }
    return Value();
  }
  if (isComparison(op)) {
    if (a.is(Value::Int) && b.is(Value::Int)) {
      int64_t x = a.dim().value(), y = b.dim().value();
      return Value::boolean(compareNumbers(op, x < y ? -1 : x > y, 0));
    }
    return Value::boolean(compareNumbers(op, a.number(), b.number()));
  }
  bool divides = op == "/" || op == "//" || op == "%";
  if (divides && b.number() == 0) {
    error(407, expr.kids[1]->range,
          b.is(Value::Int) && b.dim().isConstant()
              ? Twine("division by zero")
              : "division by zero: " + sources.text(expr.kids[1]->range) +
                    " is 0");
    return Value();
  }
  if (a.is(Value::Int) && b.is(Value::Int)) {
    const Dim &x = a.dim(), &y = b.dim();
    bool multiplies = op == "*" || op == "**";
    size_t steps =
        multiplies ? x.weight() * y.weight() : x.weight() + y.weight();
    if (!spend(steps / 4, expr.range))
      return Value();
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
        error(406, expr.range,
              formula + " is no integer" +
                  (formula == values ? "" : ": " + values))
            .help("`" + left + " // " + right + "` rounds down; `float(" +
                  left + ") / " + right + "` is a float");
        return Value();
      }
      result = *quotient;
    } else {
      if (y.value() < 0)
        return finite(std::pow(a.number(), b.number()), op, expr.range);
      result = Dim::power(x, y.value());
      spend(x.weight() * result.weight(), expr.range);
    }
    if (result.overflowed()) {
      if (isFirstBlame(x.isConstant() ? b : a))
        error(413, expr.range,
              "the result of `" + op + "` does not fit in 64 bits");
      return Value();
    }
    return Value::integer(result);
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

Value Elaborator::finite(double number, StringRef what, Range range) {
  if (std::isfinite(number))
    return Value::real(number);
  error(413, range, "the result of `" + what + "` is no finite number");
  return Value();
}

Value Elaborator::perLayerArithmetic(StringRef op, const Value &a,
                                     const Value &b, const Expr &expr) {
  const Value &layered = a.is(Value::PerLayer) ? a : b;
  if (b.is(Value::PerLayer) && b.owner() != layered.owner()) {
    error(605, expr.range,
          "`" + op + "` of the numbers of two repeats, one in the other")
        .help("take one after the other: `x * a * b` rather than `x * (a * "
              "b)`");
    return Value();
  }
  std::vector<Value> items;
  for (size_t i = 0; i < layered.items().size(); ++i) {
    items.push_back(arithmetic(op, a.is(Value::PerLayer) ? a.items()[i] : a,
                               b.is(Value::PerLayer) ? b.items()[i] : b, expr));
    if (items.back().isPoison())
      return Value();
  }
  return Value::perLayer(std::move(items), layered.owner());
}

/// "add", "multiply", ...: for "cannot add [..] and [..]".
static StringRef verbOf(StringRef op) {
  return llvm::StringSwitch<StringRef>(op)
      .Case("+", "add")
      .Case("-", "subtract")
      .Case("*", "multiply")
      .Case("/", "divide")
      .Case("**", "raise")
      .Case("min", "take the minimum of")
      .Case("max", "take the maximum of")
      .Default("compare");
}

Value Elaborator::tensorArithmetic(StringRef op, const Value &a, const Value &b,
                                   const Expr &expr) {
  Range ra = expr.kids.empty() ? expr.range : expr.kids[0]->range;
  Range rb = expr.kids.size() < 2 ? expr.range : expr.kids[1]->range;
  std::optional<Tensor> x, y;
  StringRef verb = verbOf(op);
  for (const Value *value : {&a, &b}) {
    if (value->isTensorLike() || value->isNumber() || value->is(Value::Bool) ||
        value->is(Value::PerLayer))
      continue;
    Range range = value == &a ? ra : rb;
    Diagnostic &d =
        error(408, range,
              "cannot " + verb + " " + a.describe() + " and " + b.describe());
    if (value->is(Value::NodeRef))
      d.help("call it: `" + sources.text(range) + "(x)`");
    else if (value->is(Value::List))
      d.help("`a, b = split(x, 2)` gives each of several values its name, "
             "`parts[0]` takes one");
    return Value();
  }
  if (a.isTensorLike())
    x = toTensor(a, ra, verb);
  if (b.isTensorLike())
    y = toTensor(b, rb, verb);
  if (!x && !a.isTensorLike())
    x = operandTensor(a, y ? &*y : nullptr, ra, verb);
  if (!y && !b.isTensorLike())
    y = operandTensor(b, x ? &*x : nullptr, rb, verb);
  if (!x || !y)
    return Value();
  if (x->elem != y->elem) {
    auto word = [](Elem elem) {
      return elem == Elem::Float ? "floats"
             : elem == Elem::Int ? "integers"
                                 : "truth values";
    };
    error(211, expr.textRange,
          "cannot " + verb + " " + showShape(x->dims, x->elem) + " and " +
              showShape(y->dims, y->elem) + ": " + word(x->elem) + " and " +
              word(y->elem))
        .help("convert one of them: `cast(x, float)`");
    return Value();
  }
  if (x->elem == Elem::Bool) {
    error(211, expr.textRange, "cannot " + verb + " truth values")
        .help("convert them: `cast(x, float)`");
    return Value();
  }
  std::optional<Dims> dims = broadcastDims(x->dims, y->dims);
  if (!dims) {
    Diagnostic &d =
        error(201, expr.textRange,
              "cannot " + verb + " " + showShape(x->dims, x->elem) + " and " +
                  showShape(y->dims, y->elem) + ": the shapes do not fit");
    // Name the axis, counted from the end as NumPy aligns them.
    size_t shorter = std::min(x->dims.size(), y->dims.size());
    for (size_t i = 1; i <= shorter; ++i) {
      const Dim &p = x->dims[x->dims.size() - i];
      const Dim &q = y->dims[y->dims.size() - i];
      if (p != q && p != 1 && q != 1) {
        d.withLabel("axis -" + Twine(i) + " is " + Value::integer(p).show() +
                    " on the left, " + Value::integer(q).show() +
                    " on the right");
        break;
      }
    }
    return Value();
  }
  if (isComparison(op)) {
    StringRef kind = llvm::StringSwitch<StringRef>(op)
                         .Case("==", "eq")
                         .Case("!=", "ne")
                         .Case("<", "lt")
                         .Case("<=", "le")
                         .Case(">", "gt")
                         .Case(">=", "ge");
    Tensor p = broadcastTo(*x, *dims), q = broadcastTo(*y, *dims);
    return Value::tensor(
        {emitter.compare(kind, p.handle, q.handle), Elem::Bool, *dims});
  }
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
        error(408, expr.textRange, "`" + op + "` works on numbers only")
            .help("they are known while compiling; tensors have `+ - * / ** "
                  "@`");
    if (op == "//")
      d.help(commentHelp);
    return Value();
  }
  if (x->elem == Elem::Int && mnemonic == "pow") {
    error(211, expr.textRange, "`**` works on floats")
        .help("convert: `cast(x, float)`");
    return Value();
  }
  return Value::tensor(
      binary(mnemonic, broadcastTo(*x, *dims), broadcastTo(*y, *dims)));
}

//===----------------------------------------------------------------------===//
// Matrix product
//===----------------------------------------------------------------------===//

/// The words for an operand: its own text where that is short.
static std::string operandName(StringRef text, StringRef otherwise) {
  return text.size() <= 24 && !text.contains('\n') ? text.str()
                                                   : otherwise.str();
}

Value Elaborator::matmul(const Value &a, const Value &b, const Expr &expr) {
  Range ra = expr.kids[0]->range, rb = expr.kids[1]->range;
  auto x = toTensor(a, ra, "`@`"), y = toTensor(b, rb, "`@`");
  if (!x || !y)
    return Value();
  if (x->elem != Elem::Float || y->elem != Elem::Float) {
    error(211, x->elem != Elem::Float ? ra : rb,
          "`@` multiplies floats, not " +
              showShape((x->elem != Elem::Float ? x : y)->dims,
                        (x->elem != Elem::Float ? x : y)->elem))
        .help("convert: `cast(x, float)`");
    return Value();
  }
  size_t m = x->dims.size(), n = y->dims.size();
  if (m < 2 || n < 2) {
    error(202, m < 2 ? ra : rb,
          "`@` multiplies matrices, but this is " +
              showShape((m < 2 ? x : y)->dims))
        .help("each side of `@` has at least two axes");
    return Value();
  }
  const Dim &k = x->dims[m - 1];
  if (k != y->dims[n - 2]) {
    std::string left = operandName(sources.text(ra), "the left side");
    Diagnostic &d =
        error(203, rb,
              "cannot multiply " + showShape(x->dims) + " by " +
                  showShape(y->dims) + ": the inner dimensions differ")
            .withLabel(showShape(y->dims) + " = " + showNumbers(y->dims) +
                       ", " + left + " ends in " + Value::integer(k).show());
    if (k == y->dims[n - 1]) {
      StringRef text = sources.text(rb);
      bool simple = expr.kids[1]->kind == ExprKind::Name ||
                    expr.kids[1]->kind == ExprKind::Member;
      if (text.ends_with(".T"))
        d.help("did you mean `" + text.drop_back(2) + "`?");
      else if (simple)
        d.help("did you mean `" + text + ".T`?");
    }
    return Value();
  }
  locate(expr.textRange);
  Dims out = x->dims;
  out.back() = y->dims[n - 1];
  if (n == 2) {
    if (m == 2)
      return Value::tensor(
          {emitter.matmul(x->handle, y->handle), Elem::Float, out});
    // A weight shared by a batch: one product of rank 2.
    Dim rows(1);
    for (const Dim &dim : llvm::ArrayRef(x->dims).drop_back())
      rows = rows * dim;
    Tensor flat = reshapeTo(*x, {rows, k});
    Tensor product{emitter.matmul(flat.handle, y->handle),
                   Elem::Float,
                   {rows, y->dims[1]}};
    return Value::tensor(reshapeTo(product, out));
  }
  Dims batchX(llvm::ArrayRef(x->dims).drop_back(2));
  Dims batchY(llvm::ArrayRef(y->dims).drop_back(2));
  std::optional<Dims> batch = broadcastDims(batchX, batchY);
  if (!batch) {
    error(216, expr.textRange,
          "cannot multiply " + showShape(x->dims) + " by " +
              showShape(y->dims) + ": the leading axes do not fit");
    return Value();
  }
  auto widen = [&](const Tensor &t) {
    Dims dims = *batch;
    dims.append(t.dims.end() - 2, t.dims.end());
    return broadcastTo(t, dims);
  };
  Tensor p = widen(*x), q = widen(*y);
  out = *batch;
  out.push_back(x->dims[m - 2]);
  out.push_back(y->dims[n - 1]);
  return Value::tensor({emitter.matmul(p.handle, q.handle), Elem::Float, out});
}
