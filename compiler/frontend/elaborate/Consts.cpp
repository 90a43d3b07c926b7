//===- Consts.cpp - constants, evaluated in f64 ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/ScalarFunctions.h"
#include "compiler/frontend/elaborate/Builtins.h"

#include "llvm/ADT/StringSwitch.h"

#include <cmath>

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

namespace tfm {

/// Turns the formula of a constant into steps over f64: names are looked up
/// once, then each element runs the steps only.
class ConstCompiler {
public:
  enum class Op {
    Number,
    Index,
    Layered,
    Neg,
    Not,
    Add,
    Sub,
    Mul,
    Div,
    FloorDiv,
    Mod,
    Pow,
    Min,
    Max,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    And,
    Or,
    If,
    Call
  };
  struct Step {
    Op op = Op::Number;
    double number = 0;
    /// Of an index variable; of the values of a layered number.
    size_t index = 0;
    int a = -1, b = -1, c = -1;
    double (*function)(double) = nullptr;
  };

  ConstCompiler(Elaborator &e, Const &constant, Env &env)
      : e(e), constant(constant), env(env) {}

  /// The last step of the formula, or -1 after an error.
  int compile(const Expr &expr);
  double run(int step, llvm::ArrayRef<double> indices, size_t layer) const;
  size_t size() const { return steps.size(); }
  Node *layered = nullptr;

private:
  int add(const Step &step) {
    // What does not depend on an index is computed once.
    auto isNumber = [&](int which) {
      return which < 0 || steps[which].op == Op::Number;
    };
    bool fixed = step.op != Op::Number && step.op != Op::Index &&
                 step.op != Op::Layered && isNumber(step.a) &&
                 isNumber(step.b) && isNumber(step.c);
    steps.push_back(step);
    int last = static_cast<int>(steps.size()) - 1;
    if (fixed) {
      Step number;
      number.number = run(last, {}, 0);
      steps.back() = number;
    }
    return last;
  }
  int fold(const Expr &expr);
  bool usesIndex(const Expr &expr) const;

  Elaborator &e;
  Const &constant;
  Env &env;
  std::vector<Step> steps;
  std::vector<std::vector<double>> layers;
};

} // namespace tfm

bool ConstCompiler::usesIndex(const Expr &expr) const {
  if (expr.kind == ExprKind::Name)
    for (const IndexVariable &index : constant.decl->indices)
      if (index.name == expr.text)
        return true;
  for (const Expr *kid : expr.kids)
    if (usesIndex(*kid))
      return true;
  for (const Argument &arg : expr.args)
    if (usesIndex(*arg.value))
      return true;
  return false;
}

/// What does not depend on the indices is a number.
int ConstCompiler::fold(const Expr &expr) {
  Value value = e.eval(expr, env);
  if (value.isPoison())
    return -1;
  Step step;
  if (value.isNumber()) {
    step.number = value.number();
    return add(step);
  }
  if (value.is(Value::Bool)) {
    step.number = value.flag();
    return add(step);
  }
  if (value.is(Value::PerLayer)) {
    layered = value.owner();
    step.op = Op::Layered;
    step.index = layers.size();
    layers.emplace_back();
    for (const Value &item : value.items())
      layers.back().push_back(item.number());
    return add(step);
  }
  e.error(411, expr.range,
          "a constant is computed from numbers, not from " + value.describe());
  return -1;
}

int ConstCompiler::compile(const Expr &expr) {
  // Division of integers is exact elsewhere; a constant's numbers are real, so
  // only leaves are folded by the rules for dimensions.
  switch (expr.kind) {
  case ExprKind::Name:
    for (auto [i, index] : llvm::enumerate(constant.decl->indices))
      if (index.name == expr.text) {
        Step step;
        step.op = Op::Index;
        step.index = i;
        return add(step);
      }
    return fold(expr);
  case ExprKind::Unary: {
    int a = compile(*expr.kids[0]);
    if (a < 0 || expr.text == "+")
      return a;
    Step step;
    step.op = expr.text == "not" ? Op::Not : Op::Neg;
    step.a = a;
    return add(step);
  }
  case ExprKind::Binary: {
    int a = compile(*expr.kids[0]);
    int b = compile(*expr.kids[1]);
    if (a < 0 || b < 0)
      return -1;
    Step step;
    step.a = a;
    step.b = b;
    auto op = llvm::StringSwitch<std::optional<Op>>(expr.text)
                  .Case("+", Op::Add)
                  .Case("-", Op::Sub)
                  .Case("*", Op::Mul)
                  .Case("/", Op::Div)
                  .Case("//", Op::FloorDiv)
                  .Case("%", Op::Mod)
                  .Case("**", Op::Pow)
                  .Case("==", Op::Eq)
                  .Case("!=", Op::Ne)
                  .Case("<", Op::Lt)
                  .Case("<=", Op::Le)
                  .Case(">", Op::Gt)
                  .Case(">=", Op::Ge)
                  .Case("and", Op::And)
                  .Case("or", Op::Or)
                  .Default(std::nullopt);
    if (!op) {
      e.error(411, expr.textRange,
              "`" + expr.text + "` is not possible in a constant");
      return -1;
    }
    step.op = *op;
    return add(step);
  }
  case ExprKind::Index:
    for (const Subscript &subscript : expr.subscripts)
      for (const Expr *bound : {subscript.first, subscript.last})
        if (bound && usesIndex(*bound)) {
          e.error(411, bound->range,
                  "an index of a constant cannot pick from a list");
          return -1;
        }
    return fold(expr);
  case ExprKind::If: {
    Step step;
    step.op = Op::If;
    step.a = compile(*expr.kids[0]);
    step.b = compile(*expr.kids[1]);
    step.c = compile(*expr.kids[2]);
    if (step.a < 0 || step.b < 0 || step.c < 0)
      return -1;
    return add(step);
  }
  case ExprKind::Call: {
    if (!usesIndex(expr) && !(expr.kids[0]->kind == ExprKind::Name &&
                              e.isBuiltin(expr.kids[0]->text)))
      return fold(expr);
    Value callee = e.eval(*expr.kids[0], env);
    if (callee.isPoison())
      return -1;
    Step step;
    step.op = Op::Call;
    size_t wanted = 1;
    bool known = callee.is(Value::Builtin);
    std::string name;
    if (known) {
      name = callee.text();
      if (name == "min" || name == "max") {
        step.op = name == "min" ? Op::Min : Op::Max;
        wanted = 2;
      } else if (name == "where") {
        step.op = Op::If;
        wanted = 3;
      } else {
        const ScalarFunction *function = findScalarFunction(name);
        known = function != nullptr;
        if (known)
          step.function = function->value;
      }
    }
    if (!known) {
      e.error(411, expr.kids[0]->range,
              "`" + e.sources.text(expr.kids[0]->range) +
                  "` is not possible in a constant")
          .help("constants are computed element by element from numbers");
      return -1;
    }
    if (expr.args.size() != wanted) {
      e.error(expr.args.size() < wanted ? 401 : 403, expr.range,
              "`" + name + "` takes " + Twine(wanted) +
                  (wanted == 1 ? " number" : " numbers") + " here");
      return -1;
    }
    int *slots[] = {&step.a, &step.b, &step.c};
    for (size_t i = 0; i < wanted; ++i) {
      *slots[i] = compile(*expr.args[i].value);
      if (*slots[i] < 0)
        return -1;
    }
    return add(step);
  }
  default:
    return fold(expr);
  }
}

double ConstCompiler::run(int at, llvm::ArrayRef<double> indices,
                          size_t layer) const {
  const Step &step = steps[at];
  auto a = [&] { return run(step.a, indices, layer); };
  auto b = [&] { return run(step.b, indices, layer); };
  auto c = [&] { return run(step.c, indices, layer); };
  switch (step.op) {
  case Op::Number:
    return step.number;
  case Op::Index:
    return indices[step.index];
  case Op::Layered:
    return layers[step.index][layer];
  case Op::Neg:
    return -a();
  case Op::Not:
    return a() == 0;
  case Op::If:
    return a() != 0 ? b() : c();
  case Op::And:
    return a() != 0 && b() != 0;
  case Op::Or:
    return a() != 0 || b() != 0;
  case Op::Call:
    return step.function(a());
  case Op::Add:
    return a() + b();
  case Op::Sub:
    return a() - b();
  case Op::Mul:
    return a() * b();
  case Op::Div:
    return a() / b();
  case Op::FloorDiv:
    return std::floor(a() / b());
  case Op::Mod: {
    double x = a(), y = b();
    return x - std::floor(x / y) * y;
  }
  case Op::Pow:
    return std::pow(a(), b());
  case Op::Min:
    return std::min(a(), b());
  case Op::Max:
    return std::max(a(), b());
  case Op::Eq:
    return a() == b();
  case Op::Ne:
    return a() != b();
  case Op::Lt:
    return a() < b();
  case Op::Le:
    return a() <= b();
  case Op::Gt:
    return a() > b();
  case Op::Ge:
    return a() >= b();
  }
  llvm_unreachable("every step has a meaning");
}

void Elaborator::checkConst(Const &constant) {
  Env env;
  env.unit = constant.unit;
  env.self = constant.owner;
  if (ConstCompiler(*this, constant, env).compile(*constant.decl->value) < 0)
    constant.poisoned = true;
}

bool Elaborator::evaluateConst(Const &constant) {
  if (constant.evaluated)
    return !constant.poisoned;
  constant.evaluated = true;
  Env env;
  env.unit = constant.unit;
  env.self = constant.owner;
  ConstCompiler compiled(*this, constant, env);
  int formula = compiled.compile(*constant.decl->value);
  if (formula < 0) {
    constant.poisoned = true;
    return false;
  }
  constant.perLayer = compiled.layered;
  size_t layers = compiled.layered ? constant.perLayer->count.value() : 1;
  size_t elements = 1;
  for (const Dim &dim : constant.dims)
    elements *= dim.value();
  // Neither product overflows: a constant has 3e8 elements at most, a repeat
  // 65536 layers.
  size_t all = layers * elements;
  if (all > program.constElementsLeft) {
    error(705, constant.decl->range,
          "with `" + constant.decl->name + "`, " + Twine(all) +
              " elements, the constants of this model have more than " +
              Twine(maxAllConstElements) +
              ", which is too many to compute while compiling");
    constant.poisoned = true;
    return false;
  }
  program.constElementsLeft -= all;
  // Visiting an element costs about as much as two operations.
  size_t cost = compiled.size() + 2;
  if (!options.wholeConstants)
    all = std::min(all, program.constStepsLeft / cost);
  program.constStepsLeft -= std::min(all * cost, program.constStepsLeft);
  constant.values.resize(all);
  std::vector<double> indices(constant.dims.size());
  for (size_t layer = 0; layer < layers; ++layer) {
    std::fill(indices.begin(), indices.end(), 0.0);
    for (size_t i = 0; i < elements && layer * elements + i < all; ++i) {
      double value = compiled.run(formula, indices, layer);
      if (std::isnan(value)) {
        std::string where;
        for (auto [variable, index] :
             llvm::zip(constant.decl->indices, indices))
          where += (where.empty() ? "" : ", ") + variable.name.str() + " = " +
                   std::to_string(static_cast<int64_t>(index));
        error(412, constant.decl->value->range,
              "`" + constant.decl->name + "` is no number at " + where);
        constant.poisoned = true;
        return false;
      }
      constant.values[layer * elements + i] = static_cast<float>(value);
      for (size_t axis = indices.size(); axis-- > 0;) {
        if (++indices[axis] < static_cast<double>(constant.dims[axis].value()))
          break;
        indices[axis] = 0;
      }
    }
  }
  return true;
}
