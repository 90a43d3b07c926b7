//===- Consts.cpp - constants, evaluated in f64 ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/Consts.h"

#include "compiler/dialect/ScalarFunctions.h"
#include "compiler/frontend/elaborate/Builtins.h"
#include "compiler/frontend/elaborate/Dimensions.h"
#include "compiler/frontend/elaborate/Expressions.h"
#include "compiler/frontend/elaborate/Reporter.h"
#include "llvm/ADT/StringSwitch.h"

#include <cmath>

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

namespace {

/// The formula of a constant as instructions over f64: names are looked up
/// once, then each element runs the instructions only.
class ConstCompiler {
public:
  enum class Op {
    Number,
    Index,
    Layered,
    Neg,
    Add,
    Sub,
    Mul,
    Div,
    FloorDiv,
    Mod,
    Pow,
    Min,
    Max,
    If,
    Call,
    // These have truth values.
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    And,
    Or,
    Not
  };
  struct Instruction {
    Op op = Op::Number;
    double number = 0;
    /// Whether the number is a truth value, 0 or 1.
    bool truth = false;
    /// Of an index variable; of the values of a layered number.
    size_t index = 0;
    int a = -1, b = -1, c = -1;
    double (*function)(double) = nullptr;
  };

  ConstCompiler(const SourceManager &sources, Reporter &reporter,
                Expressions &expressions, Const &constant, Scope &scope)
      : sources(sources), reporter(reporter), expressions(expressions),
        constant(constant), scope(scope) {}

  /// The last instruction of the formula, or -1 after an error.
  int compile(const Expr &expr);
  double run(int at, llvm::ArrayRef<double> indices, size_t layer) const;
  bool isTruth(int at) const { return instructions[at].truth; }
  size_t size() const { return instructions.size(); }
  Node *layered = nullptr;

private:
  /// A function of numbers: its name, what computes it, of which arguments.
  struct Function {
    StringRef name;
    Op op;
    llvm::SmallVector<StringRef, 3> parameters;
    /// Of a call.
    double (*value)(double) = nullptr;
  };
  /// Nothing where `callee` is none.
  static std::optional<Function> findFunction(const SymbolicValue &callee);
  int compileBinary(const Expr &expr);
  int compileIndex(const Expr &expr);
  int compileCall(const Expr &call);
  /// Fills in the operands of `instruction` from the arguments, by place or by
  /// name; false after an error.
  bool compileArguments(const Expr &call, const Function &function,
                        Instruction &instruction);
  int add(Instruction instruction) {
    if (instruction.op >= Op::Eq && instruction.op <= Op::Not)
      instruction.truth = true;
    if (instruction.op == Op::If)
      instruction.truth = isTruth(instruction.b) && isTruth(instruction.c);
    // What does not depend on an index is computed once.
    auto isNumber = [&](int which) {
      return which < 0 || instructions[which].op == Op::Number;
    };
    bool fixed = instruction.op != Op::Number && instruction.op != Op::Index &&
                 instruction.op != Op::Layered && isNumber(instruction.a) &&
                 isNumber(instruction.b) && isNumber(instruction.c);
    instructions.push_back(instruction);
    int last = static_cast<int>(instructions.size()) - 1;
    if (fixed) {
      Instruction number;
      number.number = run(last, {}, 0);
      number.truth = instruction.truth;
      instructions.back() = number;
    }
    return last;
  }
  int fold(const Expr &expr);
  bool usesIndex(const Expr &expr) const;

  const SourceManager &sources;
  Reporter &reporter;
  Expressions &expressions;
  Const &constant;
  Scope &scope;
  std::vector<Instruction> instructions;
  std::vector<std::vector<double>> layers;
};

} // namespace

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
  SymbolicValue value = expressions.eval(expr, scope);
  if (value.isPoison())
    return -1;
  Instruction instruction;
  if (value.isNumber()) {
    instruction.number = value.number();
    return add(instruction);
  }
  if (value.is(SymbolicValue::Bool)) {
    instruction.number = value.flag();
    instruction.truth = true;
    return add(instruction);
  }
  if (value.is(SymbolicValue::PerLayer)) {
    if (layered && layered != value.owner()) {
      reporter
          .error(605, expr.range,
                 "a constant of the numbers of two repeats, one in the other")
          .help("make one of each, and take one after the other: `x * a * b`");
      return -1;
    }
    layered = value.owner();
    instruction.op = Op::Layered;
    instruction.index = layers.size();
    layers.emplace_back();
    instruction.truth =
        llvm::all_of(value.items(), [](const SymbolicValue &item) {
          return item.is(SymbolicValue::Bool);
        });
    for (const SymbolicValue &item : value.items())
      layers.back().push_back(item.number());
    return add(instruction);
  }
  reporter.error(411, expr.range,
                 "a constant is computed from numbers, not from " +
                     value.describe());
  return -1;
}

int ConstCompiler::compile(const Expr &expr) {
  // Division of integers is exact elsewhere; a constant's numbers are real, so
  // only leaves are folded by the rules for dimensions.
  switch (expr.kind) {
  case ExprKind::Name:
    for (auto [i, index] : llvm::enumerate(constant.decl->indices))
      if (index.name == expr.text) {
        Instruction instruction;
        instruction.op = Op::Index;
        instruction.index = i;
        return add(instruction);
      }
    return fold(expr);
  case ExprKind::Unary: {
    int a = compile(*expr.kids[0]);
    if (a < 0 || expr.text == "+")
      return a;
    Instruction instruction;
    instruction.op = expr.text == "not" ? Op::Not : Op::Neg;
    instruction.a = a;
    return add(instruction);
  }
  case ExprKind::Binary:
    return compileBinary(expr);
  case ExprKind::Index:
    return compileIndex(expr);
  case ExprKind::If: {
    Instruction instruction;
    instruction.op = Op::If;
    instruction.a = compile(*expr.kids[0]);
    instruction.b = compile(*expr.kids[1]);
    instruction.c = compile(*expr.kids[2]);
    if (instruction.a < 0 || instruction.b < 0 || instruction.c < 0)
      return -1;
    return add(instruction);
  }
  case ExprKind::Call:
    return compileCall(expr);
  default:
    return fold(expr);
  }
}

int ConstCompiler::compileBinary(const Expr &expr) {
  Instruction instruction;
  instruction.a = compile(*expr.kids[0]);
  instruction.b = compile(*expr.kids[1]);
  if (instruction.a < 0 || instruction.b < 0)
    return -1;
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
    reporter.error(411, expr.textRange,
                   "`" + expr.text + "` is not possible in a constant");
    return -1;
  }
  instruction.op = *op;
  return add(instruction);
}

int ConstCompiler::compileIndex(const Expr &expr) {
  for (const Subscript &subscript : expr.subscripts)
    for (const Expr *bound : {subscript.first, subscript.last})
      if (bound && usesIndex(*bound)) {
        reporter
            .error(411, bound->range,
                   "the formula of a constant cannot pick by its indices: "
                   "it is made of numbers and of them alone")
            .help("`if i == 0 then a else b` chooses");
        return -1;
      }
  return fold(expr);
}

std::optional<ConstCompiler::Function>
ConstCompiler::findFunction(const SymbolicValue &callee) {
  if (!callee.is(SymbolicValue::Builtin))
    return std::nullopt;
  StringRef name = callee.text();
  if (name == "min" || name == "max")
    return Function{name, name == "min" ? Op::Min : Op::Max, {"a", "b"}};
  if (name == "where")
    return Function{name, Op::If, {"condition", "a", "b"}};
  if (const ScalarFunction *function = findScalarFunction(name))
    return Function{name, Op::Call, {"x"}, function->value};
  return std::nullopt;
}

int ConstCompiler::compileCall(const Expr &call) {
  const Expr &name = *call.kids[0];
  if (!usesIndex(call) &&
      !(name.kind == ExprKind::Name && Builtins::contains(name.text)))
    return fold(call);
  SymbolicValue callee = expressions.eval(name, scope);
  if (callee.isPoison())
    return -1;
  std::optional<Function> function = findFunction(callee);
  if (!function) {
    reporter
        .error(411, name.range,
               "`" + sources.text(name.range) +
                   "` is not possible in a constant")
        .help("constants are computed element by element from numbers");
    return -1;
  }
  size_t wanted = function->parameters.size();
  if (call.args.size() != wanted) {
    reporter.error(call.args.size() < wanted ? 401 : 403, call.range,
                   "`" + function->name + "` takes " + Twine(wanted) +
                       (wanted == 1 ? " number" : " numbers") + " here");
    return -1;
  }
  Instruction instruction;
  instruction.op = function->op;
  instruction.function = function->value;
  return compileArguments(call, *function, instruction) ? add(instruction) : -1;
}

bool ConstCompiler::compileArguments(const Expr &call, const Function &function,
                                     Instruction &instruction) {
  const auto &parameters = function.parameters;
  int *slots[] = {&instruction.a, &instruction.b, &instruction.c};
  for (auto [i, argument] : llvm::enumerate(call.args)) {
    size_t place =
        argument.name.empty()
            ? i
            : llvm::find(parameters, argument.name) - parameters.begin();
    if (place == parameters.size()) {
      reporter.error(402, argument.nameRange,
                     "`" + function.name + "` has no argument `" +
                         argument.name + "` here");
      return false;
    }
    if (*slots[place] >= 0) {
      reporter.error(414,
                     argument.name.empty() ? argument.value->range
                                           : argument.nameRange,
                     "`" + parameters[place] + "` of `" + function.name +
                         "` is given twice");
      return false;
    }
    if ((*slots[place] = compile(*argument.value)) < 0)
      return false;
  }
  return true;
}

double ConstCompiler::run(int at, llvm::ArrayRef<double> indices,
                          size_t layer) const {
  const Instruction &instruction = instructions[at];
  auto a = [&] { return run(instruction.a, indices, layer); };
  auto b = [&] { return run(instruction.b, indices, layer); };
  auto c = [&] { return run(instruction.c, indices, layer); };
  switch (instruction.op) {
  case Op::Number:
    return instruction.number;
  case Op::Index:
    return indices[instruction.index];
  case Op::Layered:
    return layers[instruction.index][layer];
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
    return instruction.function(a());
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
  llvm_unreachable("every instruction has a meaning");
}

void Consts::check(Const &constant) {
  Scope scope;
  scope.unit = constant.unit;
  scope.self = constant.owner;
  if (ConstCompiler(sources, reporter, expressions, constant, scope)
          .compile(*constant.decl->value) < 0)
    constant.poisoned = true;
}

bool Consts::evaluate(Const &constant) {
  if (constant.evaluated)
    return !constant.poisoned;
  constant.evaluated = true;
  Scope scope;
  scope.unit = constant.unit;
  scope.self = constant.owner;
  ConstCompiler compiled(sources, reporter, expressions, constant, scope);
  int formula = compiled.compile(*constant.decl->value);
  if (formula < 0) {
    constant.poisoned = true;
    return false;
  }
  constant.perLayer = compiled.layered;
  if (compiled.isTruth(formula))
    constant.elem = Elem::Bool;
  size_t layers = compiled.layered ? constant.perLayer->count.value() : 1;
  size_t elements = 1;
  for (const Dim &dim : constant.dims)
    elements *= dim.value();
  // Neither product overflows: a constant has 3e8 elements at most, a repeat
  // 65536 layers.
  size_t all = layers * elements;
  if (all > compilation.constElementsLeft) {
    reporter.error(
        705, constant.decl->range,
        "with `" + constant.decl->name + "`, " + Twine(all) +
            " elements, the constants of this model have more than " +
            Twine(maxAllConstElements) +
            ", which is too many to compute while compiling");
    constant.poisoned = true;
    return false;
  }
  compilation.constElementsLeft -= all;
  // Visiting an element costs about as much as two operations.
  size_t cost = compiled.size() + 2;
  if (!options.wholeConstants)
    all = std::min(all, compilation.constStepsLeft / cost);
  compilation.constStepsLeft -=
      std::min(all * cost, compilation.constStepsLeft);
  constant.values.resize(all);
  std::vector<double> indices(constant.dims.size());
  for (size_t layer = 0; layer < layers; ++layer) {
    std::fill(indices.begin(), indices.end(), 0.0);
    for (size_t i = 0; i < elements && layer * elements + i < all; ++i) {
      double value = compiled.run(formula, indices, layer);
      auto stored = static_cast<float>(value);
      if (!std::isfinite(stored)) {
        std::string where;
        for (auto [variable, index] :
             llvm::zip(constant.decl->indices, indices))
          where += (where.empty() ? "" : ", ") + variable.name.str() + " = " +
                   std::to_string(static_cast<int64_t>(index));
        reporter.error(412, constant.decl->value->range,
                       "`" + constant.decl->name + "` is " +
                           (std::isnan(value) ? "no number" : "infinite") +
                           " at " + where);
        constant.poisoned = true;
        return false;
      }
      constant.values[layer * elements + i] = stored;
      for (size_t axis = indices.size(); axis-- > 0;) {
        if (++indices[axis] < static_cast<double>(constant.dims[axis].value()))
          break;
        indices[axis] = 0;
      }
    }
  }
  return true;
}

void Consts::declare(Const &constant, const Member &member, Scope &scope) {
  constant.decl = &member;
  double elements = 1;
  for (const IndexVariable &index : member.indices) {
    std::optional<Dim> extent = dimensions.toDimension(
        expressions.eval(*index.extent, scope), index.extent->range,
        "a dimension of `" + member.name + "`");
    if (!extent) {
      constant.poisoned = true;
      continue;
    }
    constant.dims.push_back(*extent);
    elements *= static_cast<double>(extent->value());
  }
  if (elements > maxConstElements) {
    reporter.error(
        705, member.range,
        "the constant `" + member.name + "` has " +
            Twine(static_cast<int64_t>(std::min(elements, 9e18))) +
            " elements, which is too many to compute while compiling");
    constant.poisoned = true;
  }
}
