//===- Instantiate.cpp - instances of modules -----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/Elaborator.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringSwitch.h"

#include <cmath>

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

/// Modules nested deeper than this contain themselves.
static constexpr unsigned maxInstanceDepth = 64;

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

std::optional<std::vector<CallArg *>> Elaborator::bindArguments(
    llvm::ArrayRef<StringRef> names, llvm::ArrayRef<bool> required,
    std::vector<CallArg> &args, Range range, StringRef callee,
    llvm::ArrayRef<StringRef> furtherNames) {
  std::vector<CallArg *> bound(names.size());
  bool valid = true;
  size_t position = 0;
  auto signature = [&] {
    std::string text = callee.str() + "(";
    for (size_t i = 0; i < names.size(); ++i)
      text += (i ? ", " : "") + names[i].str() + (required[i] ? "" : " = ...");
    return text + ")";
  };
  for (CallArg &arg : args) {
    size_t slot;
    if (arg.name.empty()) {
      slot = position++;
      if (slot >= names.size()) {
        error(403, arg.range,
              "`" + callee + "` takes " +
                  (names.empty()
                       ? Twine("no arguments")
                       : Twine(names.size()) +
                             (names.size() == 1 ? " argument" : " arguments")) +
                  ", this is one more")
            .help("it is `" + signature() + "`");
        return std::nullopt;
      }
    } else {
      slot = llvm::find(names, arg.name) - names.begin();
      if (slot == names.size()) {
        if (llvm::is_contained(furtherNames, arg.name))
          continue;
        std::vector<std::string> candidates;
        for (StringRef name : names)
          candidates.push_back(name.str());
        for (StringRef name : furtherNames)
          candidates.push_back(name.str());
        Diagnostic &d =
            error(402, arg.nameRange,
                  "`" + callee + "` has no argument `" + arg.name + "`");
        suggest(d, arg.name, candidates);
        if (d.helps.empty())
          d.help("it is `" + signature() + "`");
        valid = false;
        continue;
      }
    }
    if (bound[slot]) {
      error(414, arg.name.empty() ? arg.range : arg.nameRange,
            "`" + names[slot] + "` of `" + callee + "` is given twice");
      valid = false;
      continue;
    }
    bound[slot] = &arg;
  }
  for (size_t i = 0; i < names.size(); ++i) {
    // With a name that does not exist it was most likely given under that.
    if (bound[i] || !required[i] || !valid)
      continue;
    Diagnostic &d = error(
        401, range, "`" + callee + "` needs a value for `" + names[i] + "`");
    if (rootDecl && callee == rootDecl->name)
      d.help("give it a default, `" + names[i] +
             " = 64`, or a value on the command line, `-D " + names[i] +
             "=64`");
    else
      d.help("it is `" + signature() + "`");
    return std::nullopt;
  }
  if (!valid)
    return std::nullopt;
  return bound;
}

static std::string typeWord(const Value &value) {
  switch (value.kind()) {
  case Value::Int:
    return "an integer";
  case Value::Float:
    return "a float";
  case Value::Bool:
    return "true or false";
  case Value::String:
    return "a string";
  case Value::Builtin:
  case Value::Function:
    return "a function";
  case Value::Init:
    return "an initialiser";
  case Value::NodeRef:
    return "a module";
  default:
    return value.describe();
  }
}

static constexpr StringRef initNames[] = {
    "zeros", "ones", "normal", "uniform", "xavier", "he", "truncated_normal"};

static bool isInitName(StringRef name) {
  return llvm::is_contained(initNames, name);
}

/// Whether a value is, or has, a tensor that is computed.
static bool holdsTensor(const Value &value) {
  return value.is(Value::TensorRef) ||
         (value.is(Value::List) && llvm::any_of(value.items(), holdsTensor));
}

static constexpr StringRef tensorHelp =
    "tensors are computed in `forward`; fixed ones are `const`";

/// Whether a value can stand where the declared type or the default's type is
/// wanted.
static bool isA(const Value &value, StringRef type) {
  if (value.is(Value::PerLayer)) {
    bool whole = llvm::all_of(
        value.items(), [](const Value &item) { return item.is(Value::Int); });
    return type == "float" || (type == "int" && whole);
  }
  if (type == "int")
    return value.is(Value::Int);
  if (type == "float")
    return value.isNumber();
  if (type == "bool")
    return value.is(Value::Bool);
  if (type == "string")
    return value.is(Value::String);
  if (type == "function")
    return value.is(Value::Builtin) || value.is(Value::Function) ||
           value.is(Value::Method) || value.is(Value::NodeRef);
  if (type == "module")
    return value.is(Value::NodeRef) || value.is(Value::Module);
  if (type == "initialiser")
    return value.is(Value::Init) ||
           (value.is(Value::Builtin) && isInitName(value.text()));
  return true;
}

/// What a hyperparameter takes, as it is declared or like its default; empty
/// where it may be anything.
static StringRef typeOf(const Parameter &parameter, const Value &defaultValue) {
  if (!parameter.type.element.empty())
    return parameter.type.element;
  switch (defaultValue.kind()) {
  case Value::Int:
    return "int";
  case Value::Float:
    return "float";
  case Value::Bool:
    return "bool";
  case Value::String:
    return "string";
  case Value::Init:
    return "initialiser";
  case Value::Builtin:
    return isInitName(defaultValue.text()) ? "initialiser" : "function";
  default:
    return "";
  }
}

Diagnostic &Elaborator::wrongHyperparameter(const Parameter &parameter,
                                            const Value &defaultValue,
                                            Range range,
                                            const ast::Module &decl,
                                            const Twine &found) {
  StringRef type = typeOf(parameter, defaultValue);
  Diagnostic &d =
      error(404, range,
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

bool Elaborator::reportWord(const Expr &expr, const Parameter &parameter,
                            const Value &defaultValue, const ast::Module &decl,
                            const Env &env) {
  if (!isUnknownWord(expr, env))
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
      isFormula ? error(404, expr.range,
                        "`" + parameter.name + "` of `" + decl.name +
                            "` takes a number, not " + word)
                      .withLabel("its default is " +
                                 sources.text(parameter.value->range).str())
                : wrongHyperparameter(parameter, defaultValue, expr.range, decl,
                                      word);
  // Formulas over the hyperparameters are values, too.
  std::vector<std::string> names;
  if (type == "bool")
    names = {"true", "false"};
  else if (env.binding)
    for (const auto &[name, value] : *env.binding)
      names.push_back(name.str());
  suggest(d, expr.text, names);
  return true;
}

bool Elaborator::isUnknownWord(const Expr &expr, const Env &env) {
  return expr.kind == ExprKind::Name && expr.text != "true" &&
         expr.text != "false" && expr.text != "none" && !lookup(expr.text, env);
}

Value Elaborator::checkHyperparameter(const Parameter &parameter, Value value,
                                      const Value &defaultValue, Range range,
                                      const ast::Module &decl) {
  StringRef type = typeOf(parameter, defaultValue);
  if (!spend(value.size(), range))
    return Value();
  if (value.isPoison() ||
      (!parameter.type.element.empty() && value.is(Value::None) &&
       defaultValue.is(Value::None)))
    return value;
  if (type.empty()) {
    if (!holdsTensor(value))
      return value;
    error(506, range,
          "`" + parameter.name + "` of `" + decl.name +
              "` would be a tensor that is computed here")
        .help(tensorHelp);
    return Value();
  }
  if (isA(value, type)) {
    if (type == "float" && value.is(Value::Int))
      return Value::real(value.number());
    return value;
  }
  if (type == "initialiser" && value.is(Value::Builtin)) {
    Diagnostic &d =
        error(701, range, "`" + value.text() + "` is no initialiser");
    suggest(
        d, value.text(),
        std::vector<std::string>(std::begin(initNames), std::end(initNames)));
    return Value();
  }
  Diagnostic &d = wrongHyperparameter(parameter, defaultValue, range, decl,
                                      typeWord(value));
  if (type == "initialiser" && value.isNumber())
    d.help("write `normal(" + value.show() + ")`");
  return Value();
}

bool Elaborator::bindHyperparameters(const ast::Module &decl, const Unit *unit,
                                     std::vector<CallArg> &args, Range range,
                                     Node &node, bool isRoot,
                                     std::vector<CallArg> &ties) {
  llvm::SmallVector<StringRef> names;
  llvm::SmallVector<bool> required;
  for (const Parameter &parameter : decl.parameters) {
    names.push_back(parameter.name);
    required.push_back(!parameter.value &&
                       !(isRoot && findDefine(parameter.name)));
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
    if (isParam && (arg.value.is(Value::ParamRef) || !isHyper))
      ties.push_back(arg);
    else
      own.push_back(arg);
  }
  auto bound =
      bindArguments(names, required, own, range, decl.name, paramNames);
  if (!bound)
    return false;
  // Defaults may use the hyperparameters before them.
  Env env;
  env.unit = unit;
  env.binding = &node.hyperparameters;
  env.parent = &node;
  for (size_t i = 0; i < names.size(); ++i) {
    const Parameter &parameter = decl.parameters[i];
    Value value, defaultValue;
    Range where = parameter.range;
    Define *define = isRoot ? findDefine(parameter.name) : nullptr;
    env.pending = parameter.name.str();
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
    if (parameter.value && (!given || plainDefault))
      defaultValue = eval(*parameter.value, env);
    if (define) {
      where = define->range;
      bool isText =
          parameter.type.element == "string" ||
          (parameter.value && parameter.value->kind == ExprKind::String);
      if (const Expr *expr =
              useDefine(*define, isText ? Wanted::Text : Wanted::Value)) {
        Env outer;
        outer.unit = unit;
        outer.binding = &node.hyperparameters;
        outer.parent = &node;
        outer.pending = parameter.name.str();
        if (!reportWord(*expr, parameter, defaultValue, decl, outer))
          value = eval(*expr, outer);
      }
    } else if (CallArg *arg = (*bound)[i]) {
      value = arg->value;
      where = arg->range;
    } else {
      value = defaultValue;
    }
    value = checkHyperparameter(parameter, value, defaultValue, where, decl);
    if (isRoot)
      origins[parameter.name.str()] = where;
    // The model's own hyperparameters are what formulas are written in.
    if (isRoot && value.is(Value::Int))
      value = Value::integer(
          Dim::named(parameter.name, value.dim().value(), 10 + i));
    if (value.is(Value::NodeRef) && !value.node()->bound) {
      value.node()->parent = &node;
      value.node()->name = parameter.name.str();
    }
    node.hyperparameters[parameter.name] = value;
  }
  return true;
}

void Elaborator::reportEndless() {
  // The innermost module that stands among those around it, too; and the first
  // two of its instances, of which the one contains the other.
  auto isSame = [&](const Frame &a, const Frame &b) {
    return a.node && b.node && a.node->decl == b.node->decl;
  };
  size_t first = 0, second = 0;
  for (size_t last = frames.size(); last-- > 0 && !second;)
    for (size_t i = 0; i < last && !second; ++i)
      if (isSame(frames[i], frames[last]))
        for (first = i, second = i + 1; !isSame(frames[first], frames[second]);)
          ++second;
  if (!second)
    return;
  // The cycle may have begun further out with another of its modules.
  while (first > 0 && isSame(frames[first - 1], frames[second - 1])) {
    --first;
    --second;
  }
  // It is reported where the cycle closes.
  std::vector<Frame> inside(frames.begin() + second, frames.end());
  frames.resize(second);
  StringRef name = inside.front().node->decl->name;
  Diagnostic &d = error(501, inside.front().call,
                        "`" + name + "` contains itself without end");
  std::string through;
  for (size_t i = first + 1; i < second; ++i)
    through += (i > first + 1 ? ", then `" : "`") + frames[i].what + "`";
  if (!through.empty())
    d.note("`" + name + "` contains " + through);
  d.help("a module that repeats is written `repeat(n) " + name + "(...)`");
  llvm::append_range(frames, inside);
}

Value Elaborator::instantiate(const ast::Module &decl, const Unit *unit,
                              std::vector<CallArg> &args, Range range,
                              Env &caller) {
  llvm::scope_exit restore([&] { --instanceDepth; });
  if (++instanceDepth > maxInstanceDepth && !endless) {
    endless = true;
    reportEndless();
  }
  if (endless || !spend(64, range))
    return Value();
  nodes.emplace_back();
  Node &node = nodes.back();
  node.decl = &decl;
  node.unit = unit;
  node.range = range;
  node.parent = caller.parent ? caller.parent : caller.self;
  node.name = caller.pending;
  bool isRoot = &decl == rootDecl && !root;
  if (isRoot)
    root = &node;
  std::vector<CallArg> ties;
  if (!bindHyperparameters(decl, unit, args, range, node, isRoot, ties)) {
    if (isRoot)
      root = nullptr;
    return Value();
  }
  frames.push_back({decl.name.str(), &node, range});
  elaborateBody(node, ties);
  frames.pop_back();
  return Value::object(Value::NodeRef, &node);
}

//===----------------------------------------------------------------------===//
// Members
//===----------------------------------------------------------------------===//

void Elaborator::elaborateBody(Node &node, std::vector<CallArg> &ties) {
  Env env;
  env.unit = node.unit;
  env.self = &node;
  llvm::StringMap<Range> seen;
  for (const Member &member : node.decl->members) {
    if (member.kind == MemberKind::Require) {
      node.broken |= !checkRequire(member.value, member.condition, env);
      continue;
    }
    auto [place, isNew] = seen.try_emplace(member.name, member.range);
    if (!isNew) {
      error(303, member.range,
            "`" + member.name + "` is declared twice in `" + node.decl->name +
                "`")
          .help("the first one stands in line " +
                Twine(sources.line(place->second)));
      continue;
    }
    elaborateMember(node, member, env, ties);
  }
  for (CallArg &tie : ties) {
    if (tie.expr == nullptr)
      continue;
    error(703, tie.nameRange,
          "`" + node.decl->name + "` has no parameter `" + tie.name +
              "` here: its condition is false");
  }
  // Modules that came as arguments are members under the argument's name.
  for (auto &[name, value] : node.hyperparameters)
    if (value.is(Value::NodeRef) && !value.node()->bound)
      value.node()->bound = true;
}

bool Elaborator::checkRequire(const Expr *condition, const Expr *message,
                              Env &env) {
  std::optional<bool> holds = evalCondition(*condition, env, "a requirement");
  if (!holds)
    return true;
  if (*holds)
    return true;
  std::string text = "this does not hold";
  if (message) {
    Value value = eval(*message, env);
    if (value.is(Value::String))
      text = value.text();
  }
  // The values of the names that occur say why.
  std::string values;
  llvm::SmallVector<const Expr *> work = {condition};
  llvm::StringMap<char> shown;
  while (!work.empty()) {
    const Expr *expr = work.pop_back_val();
    for (const Expr *kid : llvm::reverse(expr->kids))
      work.push_back(kid);
    if (expr->kind != ExprKind::Name ||
        !shown.try_emplace(expr->text, 0).second)
      continue;
    if (auto value = lookup(expr->text, env))
      if (value->isNumber() || value->is(Value::Bool) ||
          value->is(Value::String)) {
        std::string shownValue = value->show();
        // `width = width = 768` would only confuse.
        if (value->is(Value::Int) && value->dim().str() == expr->text)
          shownValue = std::to_string(value->dim().value());
        values += (values.empty() ? "" : ", ") + expr->text.str() + " = " +
                  shownValue;
      }
  }
  error(405, condition->range, text).withLabel(values);
  return false;
}

void Elaborator::elaborateMember(Node &node, const Member &member, Env &env,
                                 std::vector<CallArg> &ties) {
  switch (member.kind) {
  case MemberKind::Value: {
    env.pending = member.name.str();
    Value value = eval(*member.value, env);
    env.pending.clear();
    if (!spend(value.size(), member.range))
      value = Value();
    if (holdsTensor(value)) {
      error(506, member.range,
            "`" + member.name + "` would be a tensor that is computed here")
          .help(tensorHelp);
      value = Value();
    } else if (value.is(Value::Module)) {
      error(506, member.value->range,
            "`" + member.name + "` is " + value.describe())
          .help("make an instance: `" + sources.text(member.value->range) +
                "(...)`");
      value = Value();
    }
    bindMember(node, member.name, value);
    return;
  }
  case MemberKind::Param:
    declareParamMember(node, member, env, ties);
    return;
  case MemberKind::Const: {
    program.consts.emplace_back();
    Const &constant = program.consts.back();
    constant.owner = &node;
    constant.unit = node.unit;
    if (member.indices.empty()) {
      // Without indices it is a plain value.
      bindMember(node, member.name, eval(*member.value, env));
      return;
    }
    declareConst(constant, member, env);
    checkConst(constant);
    node.members[member.name] = Value::object(Value::ConstRef, &constant);
    return;
  }
  case MemberKind::Require:
  case MemberKind::Method:
    return;
  }
}

void Elaborator::bindMember(Node &node, StringRef name, const Value &value) {
  Value bound = value;
  if (value.is(Value::List) && llvm::any_of(value.items(), [](const Value &v) {
        return v.is(Value::NodeRef);
      })) {
    nodes.emplace_back();
    Node &list = nodes.back();
    list.kind = Node::Kind::List;
    list.parent = &node;
    list.name = name.str();
    list.bound = true;
    list.unit = node.unit;
    for (const Value &item : value.items()) {
      if (!item.is(Value::NodeRef))
        continue;
      std::string index = std::to_string(list.elements.size());
      if (item.node()->bound) {
        addAliases(*item.node(), list, index);
      } else {
        item.node()->parent = &list;
        item.node()->name = index;
        item.node()->bound = true;
      }
      list.elements.push_back(item.node());
    }
    bound = Value::object(Value::NodeRef, &list);
  } else if (value.is(Value::NodeRef)) {
    if (value.node()->bound) {
      addAliases(*value.node(), node, name);
    } else {
      value.node()->parent = &node;
      value.node()->name = name.str();
      value.node()->bound = true;
    }
  } else if (value.is(Value::ParamRef)) {
    value.param()->aliases.push_back({&node, name.str()});
  }
  node.members[name] = bound;
}

void Elaborator::addAliases(const Node &shared, const Node &at,
                            StringRef name) {
  if ((shared.parent == &at && shared.name == name) ||
      !spend(1 + shared.params.size(), shared.range))
    return;
  std::string prefix = name.str() + ".";
  for (Param *param : shared.params)
    param->aliases.push_back({&at, prefix + param->name});
  for (const auto &[member, value] : shared.members)
    if (value.is(Value::NodeRef) && value.node()->parent == &shared)
      addAliases(*value.node(), at, prefix + member.str());
  for (const Node *element : shared.elements)
    addAliases(*element, at, prefix + element->name);
  for (const Node *body : shared.bodies)
    addAliases(*body, at, prefix + body->name);
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

Value Elaborator::evalInit(const Value &value, Range range) {
  if (value.isPoison() || value.is(Value::Init))
    return value;
  if (value.is(Value::Builtin) && isInitName(value.text())) {
    std::vector<CallArg> none;
    Env env;
    return callBuiltin(value.text(), none, range, env);
  }
  if (value.isNumber()) {
    Value init = Value::named(Value::Init, "constant");
    init.setItems({Value::real(value.number())});
    return init;
  }
  Diagnostic &d = error(701, range,
                        "a parameter starts from an initialiser, not from " +
                            value.describe());
  d.help("`zeros`, `ones`, `normal(0.02)`, `uniform(-0.1, 0.1)`, `xavier`, "
         "`he`, `truncated_normal(0.02)`, or a number");
  return Value();
}

/// Brings an initialiser to one that needs no shape. Fan-in is counted as
/// PyTorch does: the first dimension is the outputs, the others are the inputs.
static void setInit(Param &param, const Value &init) {
  param.initKind = init.text();
  for (const Value &arg : init.items())
    param.initArgs.push_back(arg.number());
  bool isXavier = init.text() == "xavier";
  if (!isXavier && init.text() != "he")
    return;
  double outputs =
      param.dims.empty() ? 1.0 : static_cast<double>(param.dims[0].value());
  double inputs = 1;
  for (const Dim &dim :
       llvm::ArrayRef(param.dims).drop_front(param.dims.empty() ? 0 : 1))
    inputs *= static_cast<double>(dim.value());
  double gain = param.initArgs[0];
  if (isXavier) {
    // Glorot and Bengio 2010.
    double bound = gain * std::sqrt(6 / (inputs + outputs));
    param.initKind = "uniform";
    param.initArgs = {-bound, bound};
  } else {
    // He et al. 2015.
    param.initKind = "normal";
    param.initArgs = {0, gain * std::sqrt(2 / inputs)};
  }
}

void Elaborator::declareParamMember(Node &node, const Member &member, Env &env,
                                    std::vector<CallArg> &ties) {
  if (member.condition) {
    // The name means the hyperparameter here, not the parameter itself.
    std::optional<bool> wanted =
        evalCondition(*member.condition, env, "the condition of a parameter");
    if (!wanted || !*wanted) {
      node.members[member.name] = wanted ? Value::none() : Value();
      return;
    }
  }
  Dims dims;
  bool valid = true;
  for (const ShapeEntry &entry : member.type.shape) {
    if (entry.isEllipsis) {
      error(704, entry.range, "the shape of a parameter has no `..`");
      valid = false;
      continue;
    }
    std::optional<Dim> dim =
        toDimension(eval(*entry.dim, env), entry.range,
                    "a dimension of `" + member.name + "`");
    valid &= dim.has_value();
    if (dim)
      dims.push_back(*dim);
  }
  Value init = Value::named(Value::Init, "zeros");
  init.setItems({});
  Value trainable = Value::boolean(true);
  if (member.value)
    init = evalInit(eval(*member.value, env), member.value->range);
  if (member.trainable)
    trainable = eval(*member.trainable, env);
  if (!trainable.isPoison() && !trainable.is(Value::Bool)) {
    error(404, member.trainable->range,
          "`trainable` takes true or false, not " + trainable.describe());
    valid = false;
  }
  if (valid)
    valid = isStorable(dims, member.range, "`" + member.name + "`");
  // Tied to another parameter.
  for (CallArg &tie : ties) {
    if (tie.name != member.name || !tie.expr)
      continue;
    tie.expr = nullptr;
    if (tie.value.is(Value::ParamRef)) {
      Param &other = *tie.value.param();
      if (valid && other.dims != dims) {
        Diagnostic &d =
            error(702, tie.range,
                  "cannot tie `" + member.name + "` " + showShape(dims) +
                      " to `" + sources.text(tie.range) + "` " +
                      showShape(other.dims) + ": the shapes differ");
        d.withLabel(showNumbers(dims) + " and " + showNumbers(other.dims));
        Dims swapped(llvm::reverse(other.dims));
        if (swapped.size() == 2 && swapped == dims)
          d.help(
              "the weight of `Linear` is [outputs, inputs], that of `Conv1D` "
              "[inputs, outputs]; without a layer of its own write `x @ " +
              sources.text(tie.range) + ".T` or `x @ " +
              sources.text(tie.range) + "` in `forward`");
      } else {
        other.aliases.push_back({&node, member.name.str()});
      }
      node.members[member.name] = tie.value;
      return;
    }
    if (!tie.value.isPoison())
      error(703, tie.range,
            "`" + member.name + "` is a parameter of `" + node.decl->name +
                "`: it can be tied to another parameter, not to " +
                tie.value.describe());
    node.members[member.name] = Value();
    return;
  }
  if (!valid || init.isPoison() || trainable.isPoison()) {
    node.members[member.name] = Value();
    return;
  }
  params.emplace_back();
  Param &param = params.back();
  param.owner = &node;
  param.name = member.name.str();
  param.range = member.range;
  param.dims = dims;
  param.trainable = trainable.flag();
  setInit(param, init);
  node.params.push_back(&param);
  node.members[member.name] = Value::object(Value::ParamRef, &param);
}

void Elaborator::declareConst(Const &constant, const Member &member, Env &env) {
  constant.decl = &member;
  double elements = 1;
  for (const IndexVariable &index : member.indices) {
    std::optional<Dim> extent =
        toDimension(eval(*index.extent, env), index.extent->range,
                    "a dimension of `" + member.name + "`");
    if (!extent) {
      constant.poisoned = true;
      continue;
    }
    constant.dims.push_back(*extent);
    elements *= static_cast<double>(extent->value());
  }
  if (elements > maxConstElements) {
    error(705, member.range,
          "the constant `" + member.name + "` has " +
              Twine(static_cast<int64_t>(std::min(elements, 9e18))) +
              " elements, which is too many to compute while compiling");
    constant.poisoned = true;
  }
}
