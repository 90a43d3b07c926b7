//===- Hyperparameters.cpp - binds and checks hyperparameters -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/Hyperparameters.h"

#include "compiler/frontend/elaborate/Expressions.h"
#include "compiler/frontend/elaborate/Names.h"
#include "compiler/frontend/elaborate/Signatures.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

static std::string typeWord(const SymbolicValue &value) {
  switch (value.kind()) {
  case SymbolicValue::Int:
    return "an integer";
  case SymbolicValue::Float:
    return "a float";
  case SymbolicValue::Bool:
    return "true or false";
  case SymbolicValue::String:
    return "a string";
  case SymbolicValue::Builtin:
  case SymbolicValue::Function:
    return "a function";
  case SymbolicValue::Init:
    return "an initialiser";
  case SymbolicValue::NodeRef:
    return "a module";
  default:
    return value.describe();
  }
}

static constexpr StringRef initNames[] = {
    "zeros", "ones", "normal", "uniform", "xavier", "he", "truncated_normal"};

bool tfm::isInitName(StringRef name) {
  return llvm::is_contained(initNames, name);
}

bool tfm::holdsTensor(const SymbolicValue &value) {
  return value.is(SymbolicValue::TensorRef) ||
         (value.is(SymbolicValue::List) &&
          llvm::any_of(value.items(), holdsTensor));
}

/// Whether a value can stand where the declared type or the default's type is
/// wanted.
static bool isA(const SymbolicValue &value, StringRef type) {
  if (value.is(SymbolicValue::PerLayer)) {
    return llvm::all_of(value.items(), [&](const SymbolicValue &item) {
      return isA(item, type);
    });
  }
  if (type == "int")
    return value.is(SymbolicValue::Int);
  if (type == "float")
    return value.isNumber();
  if (type == "bool")
    return value.is(SymbolicValue::Bool);
  if (type == "string")
    return value.is(SymbolicValue::String);
  if (type == "function")
    return value.is(SymbolicValue::Builtin) ||
           value.is(SymbolicValue::Function) ||
           value.is(SymbolicValue::Method) || value.is(SymbolicValue::NodeRef);
  if (type == "module")
    return value.is(SymbolicValue::NodeRef) || value.is(SymbolicValue::Module);
  if (type == "initialiser")
    return value.is(SymbolicValue::Init) ||
           (value.is(SymbolicValue::Builtin) && isInitName(value.text()));
  return true;
}

/// What a hyperparameter takes, as it is declared or like its default; empty
/// where it may be anything.
static StringRef typeOf(const Parameter &parameter,
                        const SymbolicValue &defaultValue) {
  if (!parameter.type.element.empty())
    return parameter.type.element;
  switch (defaultValue.kind()) {
  case SymbolicValue::Int:
    return "int";
  case SymbolicValue::Float:
    return "float";
  case SymbolicValue::Bool:
    return "bool";
  case SymbolicValue::String:
    return "string";
  case SymbolicValue::Init:
    return "initialiser";
  case SymbolicValue::Builtin:
    return isInitName(defaultValue.text()) ? "initialiser" : "function";
  default:
    return "";
  }
}

Diagnostic &Hyperparameters::wrong(const Parameter &parameter,
                                   const SymbolicValue &defaultValue,
                                   Range range, const ast::Module &decl,
                                   const Twine &found) {
  StringRef type = typeOf(parameter, defaultValue);
  Diagnostic &d =
      reporter.error(404, range,
                     "`" + parameter.name + "` of `" + decl.name + "` takes " +
                         llvm::StringSwitch<StringRef>(type)
                             .Case("int", "an integer")
                             .Case("float", "a float")
                             .Case("bool", "true or false")
                             .Case("string", "a string")
                             .Case("function", "a function")
                             .Case("module", "a module")
                             .Default("an initialiser") +
                         ", not " + found);
  d.withLabel(parameter.type.element.empty()
                  ? "its default is " + defaultValue.show()
                  : "it is declared as `" + type.str() + "`");
  return d;
}

bool Hyperparameters::reportWord(const Expr &expr, const Parameter &parameter,
                                 const SymbolicValue &defaultValue,
                                 const ast::Module &decl, const Scope &scope) {
  if (!names.isUnknownWord(expr, scope))
    return false;
  StringRef type = typeOf(parameter, defaultValue);
  // `tokenizer.size` and `4 * width`, which were not evaluated.
  bool isFormula = type.empty() && parameter.value &&
                   (parameter.value->kind == ExprKind::Member ||
                    parameter.value->kind == ExprKind::Binary);
  if (type != "int" && type != "float" && type != "bool" && !isFormula)
    return false;
  std::string word = "`" + expr.text.str() + "`";
  Diagnostic &d =
      isFormula ? reporter
                      .error(404, expr.range,
                             "`" + parameter.name + "` of `" + decl.name +
                                 "` takes a number, not " + word)
                      .withLabel("its default is " +
                                 sources.text(parameter.value->range).str())
                : wrong(parameter, defaultValue, expr.range, decl, word);
  // Formulas over the hyperparameters are values, too.
  std::vector<std::string> names;
  if (type == "bool")
    names = {"true", "false"};
  else if (scope.binding)
    for (const auto &[name, value] : *scope.binding)
      names.push_back(name.str());
  reporter.suggest(d, expr.text, names);
  return true;
}

SymbolicValue Hyperparameters::check(const Parameter &parameter,
                                     SymbolicValue value,
                                     const SymbolicValue &defaultValue,
                                     Range range, const ast::Module &decl) {
  StringRef type = typeOf(parameter, defaultValue);
  if (!budget.spend(value.size(), range))
    return SymbolicValue();
  if (value.isPoison() ||
      (!parameter.type.element.empty() && value.is(SymbolicValue::None) &&
       defaultValue.is(SymbolicValue::None)))
    return value;
  if (type.empty()) {
    if (!holdsTensor(value))
      return value;
    reporter
        .error(506, range,
               "`" + parameter.name + "` of `" + decl.name +
                   "` would be a tensor that is computed here")
        .help(tensorHelp);
    return SymbolicValue();
  }
  if (isA(value, type)) {
    return type == "float" ? asFloat(value) : value;
  }
  if (type == "initialiser" && value.is(SymbolicValue::Builtin)) {
    Diagnostic &d =
        reporter.error(701, range, "`" + value.text() + "` is no initialiser");
    reporter.suggest(
        d, value.text(),
        std::vector<std::string>(std::begin(initNames), std::end(initNames)));
    return SymbolicValue();
  }
  Diagnostic &d = wrong(parameter, defaultValue, range, decl, typeWord(value));
  if (type == "function" && value.is(SymbolicValue::Module))
    d.help("a module is given to what is declared as `" + parameter.name +
           ": module`, an instance of one also to a function");
  if (type == "initialiser" && value.isNumber())
    d.help("write `normal(" + value.show() + ")`");
  return SymbolicValue();
}

/// Puts an instance that is an argument of `node`, or those of a list, below
/// it, unless a member holds them.
static void take(Node &node, const std::string &name,
                 const SymbolicValue &value) {
  // From behind: of one that is there twice the first place counts.
  if (value.is(SymbolicValue::List))
    for (size_t i = value.items().size(); i-- > 0;)
      take(node, name + "." + std::to_string(i), value.items()[i]);
  if (!value.is(SymbolicValue::NodeRef) || value.node()->bound)
    return;
  Node &argument = *value.node();
  // What is made outside of a repeat stays there: below the repeat each layer
  // would have its own. What is made for a layer is below the repeat already.
  if (argument.repeats().size() < node.repeats().size()) {
    argument.bound = true;
    return;
  }
  argument.parent = &node;
  argument.name = name;
}

bool Hyperparameters::bind(const ast::Module &decl, const Unit *unit,
                           std::vector<CallArg> &args, Range range, Node &node,
                           bool isRoot, std::vector<CallArg> &ties) {
  llvm::SmallVector<StringRef> names;
  llvm::SmallVector<bool> required;
  for (const Parameter &parameter : decl.parameters) {
    names.push_back(parameter.name);
    required.push_back(!parameter.value &&
                       !(isRoot && overrides.find(parameter.name)));
  }
  llvm::SmallVector<StringRef> paramNames;
  for (const Member &member : decl.members)
    if (member.kind == MemberKind::Param)
      paramNames.push_back(member.name);
  // A parameter that is given as another one is a tie, not a hyperparameter.
  std::vector<CallArg> own;
  for (CallArg &arg : args) {
    bool isParam = llvm::is_contained(paramNames, arg.name);
    bool isHyper = llvm::is_contained(names, arg.name);
    if (isParam && (arg.value.is(SymbolicValue::ParamRef) || !isHyper))
      ties.push_back(arg);
    else
      own.push_back(arg);
  }
  auto bound =
      arguments.bind(names, required, own, range, decl.name, paramNames);
  if (!bound)
    return false;
  // Defaults may use the hyperparameters before them.
  Scope scope;
  scope.unit = unit;
  scope.binding = &node.hyperparameters;
  scope.parent = &node;
  for (size_t i = 0; i < names.size(); ++i) {
    const Parameter &parameter = decl.parameters[i];
    SymbolicValue value, defaultValue;
    Range where = parameter.range;
    Override *define = isRoot ? overrides.find(parameter.name) : nullptr;
    scope.pending = parameter.name.str();
    // A default that is not used may well make no sense (`tokenizer.size`
    // where `vocab` is given), so it is evaluated only for its type when that
    // is sure to be free of errors.
    bool given = (*bound)[i] || define;
    bool plainDefault =
        parameter.value && (parameter.value->kind == ExprKind::Integer ||
                            parameter.value->kind == ExprKind::Float ||
                            parameter.value->kind == ExprKind::String ||
                            parameter.value->kind == ExprKind::Name ||
                            (parameter.value->kind == ExprKind::Call &&
                             parameter.value->kids[0]->kind == ExprKind::Name &&
                             isInitName(parameter.value->kids[0]->text)));
    // What is wrong with a default is so because of the call.
    bool isOfCall = !given && !isRoot;
    if (isOfCall)
      callStack.push_back({decl.name.str(), &node, range});
    if (parameter.value && (!given || plainDefault))
      defaultValue = expressions.eval(*parameter.value, scope);
    if (define) {
      where = define->range;
      bool isText =
          parameter.type.element == "string" ||
          (parameter.value && parameter.value->kind == ExprKind::String);
      if (const Expr *expr =
              overrides.use(*define, isText ? Wanted::Text : Wanted::Value)) {
        Scope outer;
        // Words mean what they would in the file that is compiled.
        outer.unit = compilation.mainUnit;
        outer.binding = &node.hyperparameters;
        outer.parent = &node;
        outer.pending = parameter.name.str();
        if (!reportWord(*expr, parameter, defaultValue, decl, outer))
          value = expressions.eval(*expr, outer);
      }
    } else if (CallArg *arg = (*bound)[i]) {
      value = arg->value;
      where = arg->range;
    } else {
      value = defaultValue;
    }
    value = check(parameter, value, defaultValue, where, decl);
    if (isOfCall)
      callStack.pop_back();
    if (isRoot)
      blame.origins[parameter.name.str()] = where;
    // The model's own hyperparameters are what formulas are written in.
    if (isRoot && value.is(SymbolicValue::Int))
      value = SymbolicValue::integer(
          Dim::named(parameter.name, value.dim().value(), 10 + i));
    take(node, parameter.name.str(), value);
    node.hyperparameters[parameter.name] = value;
  }
  return true;
}
