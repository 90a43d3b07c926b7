//===- Expressions.cpp - evaluates names, members, calls, indices ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/Expressions.h"

#include "compiler/frontend/elaborate/Builtins.h"
#include "compiler/frontend/elaborate/Instances.h"
#include "compiler/frontend/elaborate/MethodCalls.h"
#include "compiler/frontend/elaborate/Operators.h"
#include "compiler/frontend/elaborate/RecipeContext.h"
#include "compiler/frontend/elaborate/Repeats.h"
#include "compiler/frontend/elaborate/Tensors.h"
#include "compiler/frontend/syntax/Habits.h"
#include "compiler/frontend/syntax/Parser.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

static bool isType(StringRef name) {
  return name == "int" || name == "float" || name == "bool";
}

/// `nn` of `nn.functional.relu`.
static const Expr *firstOf(const Expr *expr) {
  while (expr->kind == ExprKind::Member)
    expr = expr->kids[0];
  return expr;
}

/// The member of the module in whose body an expression stands that declares
/// `name`; null without one.
static const Member *findMember(StringRef name, const Scope &scope) {
  if (scope.self && scope.self->decl && !scope.inMethod)
    for (const Member &member : scope.self->decl->members)
      if (member.name == name && member.kind != MemberKind::Method)
        return &member;
  return nullptr;
}

SymbolicValue Expressions::evalName(const Expr &expr, Scope &scope) {
  budget.spend(compilation.units.size() / 16, expr.range);
  if (expr.text == "true" || expr.text == "false")
    return SymbolicValue::boolean(expr.text == "true");
  if (expr.text == "none")
    return SymbolicValue::none();
  if (auto value = names.lookup(expr.text, scope)) {
    if (Names::hidesHyperparameter(expr.text, scope))
      reporter.noteHiding(expr.range);
    return *value;
  }
  if (isType(expr.text))
    return SymbolicValue::named(SymbolicValue::Type, expr.text);
  // A member that stands further down exists, but not yet.
  if (const Member *member = findMember(expr.text, scope)) {
    unsigned line = sources.line(member->range);
    bool isOwn = line == sources.line(expr.range);
    reporter
        .error(305, expr.range,
               "`" + expr.text + "` is used before it is declared")
        .help(isOwn ? "this line declares it"
                    : "it is declared in line " + Twine(line) +
                          ": move that line up");
    return SymbolicValue();
  }
  reportUnknown(expr, scope);
  return SymbolicValue();
}

void Expressions::reportUnknown(const Expr &expr, Scope &scope) {
  Diagnostic &d =
      reporter.error(301, expr.range, "there is no `" + expr.text + "` here");
  if (endsInDivision(
          sources.file(expr.range.file).text().take_front(expr.range.begin))) {
    d.help(commentHelp);
    return;
  }
  if (prefixed && firstOf(prefixed) == &expr) {
    StringRef name = prefixed->text;
    if (!names.lookup(name, scope)) {
      d.help(nameHabit(name));
      return;
    }
    Range before = prefixed->range;
    before.end = prefixed->textRange.begin;
    // What is drawn there is how a parameter begins here.
    if (sources.text(before).ends_with("random.")) {
      d.help(nameHabit("random"));
      return;
    }
    // JAX's is of any function.
    if (name == "scan") {
      d.help("`scan(a, x, axis = T)` is h[t] = a[t] * h[t - 1] + x[t]; what "
             "goes along an axis otherwise is a `repeat` over it");
      return;
    }
    d.help("write `" + name + "(...)`, without `" + sources.text(before) + "`");
    return;
  }
  std::vector<std::string> known = names.namesInScope(scope);
  if (!budget.spend(known.size(), expr.range))
    return;
  if (!scope.inSignature) {
    suggestName(d, expr.text, std::move(known), scope);
    return;
  }
  reporter.suggest(d, expr.text, known);
  if (!d.helps.empty())
    return;
  if (expr.text == expr.text.upper())
    d.help("the caller decides a size where it stands alone, `[B, " +
           expr.text + "]`, before others are computed of it");
  else
    d.help("a size that the caller decides is written in capitals, such as "
           "`" +
           expr.text.upper() + "`");
}

void Expressions::suggestName(Diagnostic &d, StringRef name,
                              std::vector<std::string> known,
                              const Scope &scope) {
  known.emplace_back("tokenizer");
  llvm::append_range(known, Builtins::all());
  if (name == "self" && scope.self) {
    d.help("members are named directly: `attn(x)`, not `self.attn(x)`");
    return;
  }
  if (StringRef habit = nameHabit(name); !habit.empty()) {
    // Unless something of the user's own begins so: `norm1` for `norm`.
    bool isBegun =
        llvm::any_of(Names::namesOfModule(scope),
                     [&](StringRef own) { return own.starts_with(name); });
    if (!isBegun) {
      d.help(habit);
      return;
    }
  }
  // Who writes a capital means a module (or a dimension), never a function.
  bool isCapital = !name.empty() && llvm::isUpper(name[0]);
  if (isCapital)
    llvm::erase_if(
        known, [](const std::string &own) { return !llvm::isUpper(own[0]); });
  reporter.suggest(d, name, known);
  if (isCapital && scope.inMethod && name.size() == 1)
    d.help("a dimension such as `" + name +
           "` is bound by the shape of an argument");
}

//===----------------------------------------------------------------------===//
// Expressions
//===----------------------------------------------------------------------===//

/// Expressions within calls within expressions: as deep as the compiler's own
/// stack allows.
static constexpr unsigned maxEvalDepth = 2000;

SymbolicValue Expressions::eval(const Expr &expr, Scope &scope) {
  if (!budget.spend(1, expr.range))
    return SymbolicValue();
  SymbolicValue value = evalKind(expr, scope);
  bool isComputed =
      expr.kind == ExprKind::Call || expr.kind == ExprKind::Index ||
      expr.kind == ExprKind::Unary || expr.kind == ExprKind::Binary;
  if (!isComputed || !value.is(SymbolicValue::TensorRef))
    return value;
  const Dims &dims = value.tensor().dims;
  // An op, and its shape in words.
  size_t steps = 8;
  for (const Dim &dim : dims)
    steps += dim.weight();
  if (!budget.spend(steps, expr.range) ||
      !dimensions.isStorable(dims, expr.range, "the result"))
    return SymbolicValue();
  return value;
}

SymbolicValue Expressions::evalKind(const Expr &expr, Scope &scope) {
  llvm::scope_exit restore([&] { --depth; });
  if (++depth > maxEvalDepth) {
    if (!budget.isStopped())
      reporter.error(112, expr.range,
                     "this is nested more than " + Twine(maxEvalDepth) +
                         " levels deep, with the calls that lead here");
    budget.stop();
    return SymbolicValue();
  }
  switch (expr.kind) {
  case ExprKind::Integer:
    return SymbolicValue::integer(Dim(expr.integer));
  case ExprKind::Float:
    return SymbolicValue::real(expr.number);
  case ExprKind::String:
    budget.spend(expr.text.size() / 64, expr.range);
    return SymbolicValue::string(unquote(expr.text));
  case ExprKind::Name:
    return evalName(expr, scope);
  case ExprKind::Member:
    return evalMember(expr, scope);
  case ExprKind::Call:
    return evalCall(expr, scope);
  case ExprKind::Index:
    return evalIndex(expr, scope);
  case ExprKind::Unary:
    return operators.evalUnary(expr, scope);
  case ExprKind::Binary:
    return operators.evalBinary(expr, scope);
  case ExprKind::If:
    return evalIf(expr, scope);
  case ExprKind::List:
  case ExprKind::Tuple:
    return evalList(expr, scope);
  case ExprKind::Repeat:
    return repeats.evalRepeat(expr, scope);
  case ExprKind::Invalid:
    return SymbolicValue();
  }
  return SymbolicValue();
}

SymbolicValue Expressions::evalList(const Expr &expr, Scope &scope) {
  std::vector<SymbolicValue> items;
  std::string pending = scope.pending;
  bool isMember = scope.numbered == &expr;
  for (size_t i = 0; i < expr.kids.size(); ++i) {
    scope.pending =
        pending.empty() ? std::to_string(i) : pending + "." + std::to_string(i);
    if (isMember)
      scope.numbered = expr.kids[i];
    SymbolicValue item = eval(*expr.kids[i], scope);
    bool isParts = isMember && expr.kids[i]->kind == ExprKind::Repeat &&
                   item.is(SymbolicValue::List);
    if (isParts)
      llvm::append_range(items, item.items());
    else
      items.push_back(std::move(item));
  }
  scope.pending = pending;
  SymbolicValue list = SymbolicValue::list(std::move(items));
  return budget.spend(list.size(), expr.range) ? list : SymbolicValue();
}

SymbolicValue Expressions::evalMember(const Expr &expr, Scope &scope) {
  const Expr &base = *expr.kids[0];
  // `tokenizer` is no value of its own, unless something here is called so.
  if (base.isName("tokenizer") && !names.lookup("tokenizer", scope))
    return memberOfTokenizer(expr);
  SymbolicValue object = evalBase(expr, scope);
  if (object.isPoison())
    return object;
  if (object.isTensorLike() && expr.text == "T")
    return transposed(object, expr, scope);
  if (object.isTensorLike()) {
    reportNoTensorMember(expr, scope);
    return SymbolicValue();
  }
  if (!object.is(SymbolicValue::NodeRef)) {
    reporter.error(302, expr.textRange,
                   object.describe() + " has no members, so no `" + expr.text +
                       "`");
    return SymbolicValue();
  }
  Node &node = *object.node();
  return node.kind == Node::Kind::Module ? memberOfModule(node, expr)
                                         : memberOfLayers(node, expr);
}

SymbolicValue Expressions::memberOfTokenizer(const Expr &expr) {
  if (expr.text != "size") {
    reporter
        .error(302, expr.textRange, "a tokenizer has no `" + expr.text + "`")
        .help("`tokenizer.size` is the number of its tokens");
    return SymbolicValue();
  }
  const TokenizerInfo *info = recipe.resolveTokenizer(expr.range);
  return info ? SymbolicValue::integer(Dim(info->size)) : SymbolicValue();
}

SymbolicValue Expressions::evalBase(const Expr &expr, Scope &scope) {
  // `nn.Linear`: without what stands before it the name is known here.
  const Expr *outer = prefixed;
  if (!prefixed || firstOf(prefixed) != firstOf(&expr)) {
    auto known = names.lookup(expr.text, scope);
    if (known ? known->is(SymbolicValue::Builtin) ||
                    known->is(SymbolicValue::Function) ||
                    known->is(SymbolicValue::Module)
              : !nameHabit(expr.text).empty())
      prefixed = &expr;
  }
  SymbolicValue object = eval(*expr.kids[0], scope);
  prefixed = outer;
  return object;
}

SymbolicValue Expressions::transposed(const SymbolicValue &object,
                                      const Expr &expr, const Scope &scope) {
  Range range = expr.kids[0]->range;
  StringRef operand = sources.text(range);
  // Where members are declared nothing has a value yet.
  if (object.is(SymbolicValue::ParamRef) && !scope.inMethod) {
    reporter
        .error(411, expr.range,
               "`" + operand +
                   ".T` cannot be computed here: parameters have values in "
                   "methods only")
        .help("a tie takes the parameter as it is, `weight = " + operand +
              "`: the weight of `Linear` is [outputs, inputs], as that of "
              "`Embedding` is [entries, width]")
        .help("without a layer of its own write `x @ " + operand +
              ".T` in `forward`");
    return SymbolicValue();
  }
  auto tensor = tensors.toTensor(object, range, "`.T`");
  if (!tensor)
    return SymbolicValue();
  size_t rank = tensor->dims.size();
  if (rank < 2) {
    reporter.error(202, expr.range,
                   "`.T` swaps the last two axes, but " + operand + " is " +
                       showShape(tensor->dims));
    return SymbolicValue();
  }
  llvm::SmallVector<int64_t> order;
  for (size_t i = 0; i < rank; ++i)
    order.push_back(static_cast<int64_t>(i));
  std::swap(order[rank - 1], order[rank - 2]);
  tensors.locate(expr.textRange);
  return SymbolicValue::tensor(tensors.transposeAxes(*tensor, order));
}

/// A whole number as it is written.
static bool isInteger(const Expr &expr) {
  return expr.kind == ExprKind::Integer ||
         (expr.kind == ExprKind::Unary && isInteger(*expr.kids[0]));
}

std::string Expressions::asFunction(const Expr &member) const {
  auto textOf = [&](const Expr &expr) -> std::string {
    // A range leaves outer parentheses out.
    StringRef text = sources.text(expr.range);
    bool isWhole = text.count('(') == text.count(')') && !text.contains('\n');
    return isWhole ? text.str() : "...";
  };
  std::string text = member.text.str() + "(" + textOf(*member.kids[0]);
  if (!called || called->kids[0] != &member)
    return text + ")";
  // Elsewhere the axis is the first argument, or called `dim`.
  bool takesAxis = Builtins::takesAxis(member.text);
  for (auto [i, arg] : llvm::enumerate(called->args)) {
    StringRef name = arg.name;
    if (takesAxis && (name == "keepdim" || name == "keepdims"))
      continue;
    bool isFirst = i == 0 && name.empty() && member.text != "top_k" &&
                   member.text != "split";
    // `max(a, b)` takes two tensors, too.
    bool isAxis = isFirst && (isInteger(*arg.value) ||
                              (member.text != "min" && member.text != "max"));
    if (takesAxis && (isAxis || name == "dim"))
      name = "axis";
    text += ", ";
    if (!name.empty())
      text += name.str() + " = ";
    text += textOf(*arg.value);
  }
  return text + ")";
}

void Expressions::reportNoTensorMember(const Expr &expr, const Scope &scope) {
  Diagnostic &d = reporter.error(302, expr.textRange,
                                 "a tensor has no `" + expr.text + "`");
  // As in other libraries, where functions are members.
  auto function = names.lookup(expr.text, scope);
  bool isFunction = function && (function->is(SymbolicValue::Builtin) ||
                                 function->is(SymbolicValue::Function));
  StringRef help = nameHabit(expr.text);
  if (isFunction || isType(expr.text))
    d.help("write `" + asFunction(expr) + "`");
  else
    d.help(help.empty() ? "functions are not members: `f(x)`; `.T` swaps the "
                          "last two axes"
                        : help);
}

SymbolicValue Expressions::memberOfLayers(Node &node, const Expr &expr) {
  StringRef object = sources.text(expr.kids[0]->range);
  if (node.kind != Node::Kind::Layer) {
    int64_t index = 0, layers = node.layers();
    bool isNumber = !expr.text.getAsInteger(10, index);
    if (isNumber && index >= 0 && index < layers)
      return layerOf(node, index);
    if (isNumber || node.kind == Node::Kind::List) {
      reporter.error(302, expr.textRange,
                     "`" + object + "` has the members 0 to " +
                         Twine(layers - 1));
      return SymbolicValue();
    }
  }
  reporter
      .error(604, expr.range,
             "`" + object + "` " +
                 (node.kind == Node::Kind::Layer
                      ? "is one of the layers of a repeat: it has no `"
                      : "stands for " + std::to_string(node.count.value()) +
                            " layers: it has no `") +
                 expr.text + "` of its own")
      .help("what all layers share is declared outside and passed to them; "
            "`h[0](x)` calls one layer");
  return SymbolicValue();
}

SymbolicValue Expressions::memberOfModule(Node &node, const Expr &expr) {
  auto member = node.members.find(expr.text);
  if (member != node.members.end())
    return member->second;
  auto hyper = node.hyperparameters.find(expr.text);
  if (hyper != node.hyperparameters.end())
    return hyper->second;
  if (const Method *method = findMethod(node, expr.text)) {
    SymbolicValue value =
        SymbolicValue::object(SymbolicValue::Method, method, node.unit);
    value.setText(expr.text);
    value.setOwner(&node);
    return value;
  }
  reportNoMember(node, expr);
  return SymbolicValue();
}

void Expressions::reportNoMember(const Node &node, const Expr &expr) {
  std::vector<std::string> names;
  for (const auto &[name, value] : node.members)
    names.push_back(name.str());
  for (const auto &[name, value] : node.hyperparameters)
    names.push_back(name.str());
  for (const Member &method : node.decl->members)
    if (method.kind == MemberKind::Method)
      names.push_back(method.name.str());
  Diagnostic &d = reporter.error(302, expr.textRange,
                                 "`" + node.decl->name + "` has no member `" +
                                     expr.text + "`");
  reporter.suggest(d, expr.text, names);
  if (expr.text == "T" && node.members.count("weight")) {
    d.help("did you mean `" + sources.text(expr.kids[0]->range) +
           ".weight.T`?");
  } else if (d.helps.empty() && !node.members.empty()) {
    std::string all;
    for (const auto &[name, value] : node.members)
      all += (all.empty() ? "`" : ", `") + name.str() + "`";
    d.help("it has " + all);
  }
}

std::vector<CallArg> Expressions::evalArguments(const Expr &call,
                                                Scope &scope) {
  std::vector<CallArg> args;
  std::string pending = scope.pending;
  bool ofBuiltin = call.kids[0]->kind == ExprKind::Name &&
                   Builtins::contains(call.kids[0]->text);
  for (const Argument &arg : call.args) {
    CallArg evaluated;
    evaluated.name = arg.name;
    evaluated.nameRange = arg.nameRange;
    evaluated.range = arg.value->range;
    evaluated.expr = arg.value;
    if (!scope.inMethod) {
      std::string own =
          arg.name.empty() ? std::to_string(args.size()) : arg.name.str();
      scope.pending = pending.empty() ? own : pending + "." + own;
    }
    // The axis of a reduction may be a dimension's name: looked at by toAxis.
    if (arg.name == "axis" && ofBuiltin && arg.value->kind == ExprKind::Name &&
        !names.lookup(arg.value->text, scope))
      evaluated.value = SymbolicValue::none();
    else
      evaluated.value = eval(*arg.value, scope);
    args.push_back(std::move(evaluated));
  }
  scope.pending = pending;
  return args;
}

SymbolicValue Expressions::evalCall(const Expr &expr, Scope &scope) {
  const Expr *outer = std::exchange(called, &expr);
  SymbolicValue callee = eval(*expr.kids[0], scope);
  called = outer;
  std::vector<CallArg> args = evalArguments(expr, scope);
  if (callee.isPoison())
    return callee;
  tensors.locate(expr.range);
  switch (callee.kind()) {
  case SymbolicValue::Builtin:
    return builtins.call(callee.text(), args, expr.range, scope);
  case SymbolicValue::Type: {
    // `float(x)` is `cast(x, float)`.
    CallArg type;
    type.value = callee;
    type.range = expr.kids[0]->range;
    args.push_back(std::move(type));
    return builtins.call("cast", args, expr.range, scope);
  }
  case SymbolicValue::Function:
    return methodCalls.callMethod(nullptr, *callee.function(), callee.unit(),
                                  args, expr.range);
  case SymbolicValue::Method:
    return methodCalls.callMethod(callee.owner(), *callee.function(),
                                  callee.unit(), args, expr.range);
  case SymbolicValue::Module:
    if (scope.inMethod) {
      reporter
          .error(
              506, expr.range,
              "`" + callee.module()->name +
                  "` is a module: it is made in the body of a module, not in a "
                  "method")
          .help(llvm::any_of(
                    args,
                    [](const CallArg &arg) { return arg.value.isTensorLike(); })
                    ? "declare `name = " + callee.module()->name +
                          "(...)` with its hyperparameters above and call "
                          "`name(x)` here"
                    : "declare `name = " + sources.text(expr.range) +
                          "` above and call `name(x)` here");
      return SymbolicValue();
    }
    return instances.instantiate(*callee.module(), callee.unit(), args,
                                 expr.range, scope);
  case SymbolicValue::NodeRef:
    return methodCalls.callNode(*callee.node(), args, expr.range, scope);
  case SymbolicValue::List:
    // Nothing is left of it where `none` is passed over.
    if (!args.empty() && !callee.items().empty() &&
        llvm::all_of(callee.items(), [](const SymbolicValue &item) {
          return item.is(SymbolicValue::None);
        }))
      return args.front().value;
    [[fallthrough]];
  default: {
    StringRef text = sources.text(expr.kids[0]->range);
    Diagnostic &d = reporter.error(410, expr.kids[0]->range,
                                   "`" + text + "` is " + callee.describe() +
                                       " and cannot be called");
    noteHidden(d, *expr.kids[0], scope);
    if (callee.is(SymbolicValue::ParamRef) && args.size() == 1) {
      const SymbolicValue &x = args[0].value;
      StringRef given = sources.text(args[0].range);
      if (x.is(SymbolicValue::TensorRef) && x.tensor().elem == Elem::Int)
        d.help("`gather(" + text + ", " + given +
               ")` reads the rows that ids choose");
      else
        d.help("a product is written `" + given + " @ " + text + "` or `" +
               given + " @ " + text + ".T`");
    }
    return SymbolicValue();
  }
  }
}

void Expressions::noteHidden(Diagnostic &d, const Expr &name,
                             const Scope &scope) {
  Scope file;
  file.unit = scope.unit;
  auto hidden = name.kind == ExprKind::Name ? names.lookup(name.text, file)
                                            : std::nullopt;
  if (!hidden || hidden->is(SymbolicValue::ConstRef))
    return;
  std::string what = "the value `" + name.text.str() + "`";
  if (scope.self && scope.self->decl && !scope.locals.count(name.text)) {
    auto isIt = [&](const auto &declared) {
      return declared.name == name.text;
    };
    const ast::Module &decl = *scope.self->decl;
    auto parameter = llvm::find_if(decl.parameters, isIt);
    auto member = llvm::find_if(decl.members, isIt);
    if (parameter != decl.parameters.end())
      what = "the hyperparameter `" + name.text.str() + "` in line " +
             std::to_string(sources.line(parameter->range));
    else if (member != decl.members.end())
      what = "the member `" + name.text.str() + "` in line " +
             std::to_string(sources.line(member->range));
  }
  d.help(what + " hides the " +
         (hidden->is(SymbolicValue::Module) ? "module" : "function") +
         " of that name: rename it");
}

SymbolicValue Expressions::layerOf(Node &node, int64_t index) {
  if (node.kind == Node::Kind::List) {
    for (Node *element : node.elements) {
      int64_t layers =
          element->kind == Node::Kind::Repeat ? element->layers() : 1;
      if (index < layers)
        return element->kind == Node::Kind::List
                   ? SymbolicValue::object(SymbolicValue::NodeRef, element)
                   : layerOf(*element, index);
      index -= layers;
    }
  }
  if (node.kind != Node::Kind::Repeat)
    return SymbolicValue::object(SymbolicValue::NodeRef, &node);
  return SymbolicValue::object(SymbolicValue::NodeRef,
                               instances.layer(node, index));
}

std::optional<Dim> Expressions::evalBound(const Expr &bound, StringRef object,
                                          size_t axis, Scope &scope) {
  // As NumPy writes it.
  bool isNewAxis = (bound.text == "None" || bound.text == "newaxis") &&
                   names.isUnknownWord(bound, scope);
  SymbolicValue value = isNewAxis ? SymbolicValue::none() : eval(bound, scope);
  if (value.is(SymbolicValue::Int))
    return value.dim();
  if (!value.isPoison()) {
    Diagnostic &d = reporter.error(
        408, bound.range, "an index is an integer, not " + value.describe());
    StringRef ids = sources.text(bound.range);
    if (value.isTensorLike() && axis == 0)
      d.help("`gather(" + object + ", " + ids +
             ")` reads the rows that ids choose");
    else if (value.isTensorLike())
      d.help("`gather` takes rows of the first axis; of the one before the "
             "last, which has n, `one_hot(" +
             ids + ", n) @ " + object + "` does, where the ids are [.., rows]");
    else if (value.is(SymbolicValue::None))
      d.help("an axis of size 1 is made by `rearrange(x, \"B T -> B T 1\")`");
  }
  return std::nullopt;
}

SymbolicValue Expressions::evalIndex(const Expr &expr, Scope &scope) {
  SymbolicValue object = eval(*expr.kids[0], scope);
  if (object.isPoison())
    return object;
  bool isNodes = object.is(SymbolicValue::NodeRef) &&
                 (object.node()->kind == Node::Kind::List ||
                  object.node()->kind == Node::Kind::Repeat);
  if (object.is(SymbolicValue::List)) {
    auto i =
        indexInto(static_cast<int64_t>(object.items().size()), expr, scope);
    return i ? object.items()[*i] : SymbolicValue();
  }
  if (isNodes) {
    auto i = indexInto(object.node()->layers(), expr, scope);
    return i ? layerOf(*object.node(), *i) : SymbolicValue();
  }
  auto tensor = tensors.toTensor(object, expr.kids[0]->range, "an index");
  return tensor ? slice(*tensor, expr, scope) : SymbolicValue();
}

std::optional<int64_t> Expressions::indexInto(int64_t size, const Expr &expr,
                                              Scope &scope) {
  if (expr.subscripts.size() != 1 || expr.subscripts[0].isSlice) {
    reporter.error(408, expr.range, "a list takes one integer index");
    return std::nullopt;
  }
  const Expr &subscript = *expr.subscripts[0].first;
  auto index =
      evalBound(subscript, sources.text(expr.kids[0]->range), 0, scope);
  if (!index)
    return std::nullopt;
  int64_t i = index->value() < 0 ? index->value() + size : index->value();
  if (i < 0 || i >= size) {
    reporter.error(212, subscript.range,
                   "index " + Twine(index->value()) +
                       " is outside of a list of " + Twine(size));
    return std::nullopt;
  }
  return i;
}

SymbolicValue Expressions::slice(const SymbolicTensor &tensor, const Expr &expr,
                                 Scope &scope) {
  size_t count = expr.subscripts.size();
  if (count > tensor.dims.size()) {
    reporter.error(212, expr.range,
                   Twine(count) + " indices for " + showShape(tensor.dims));
    return SymbolicValue();
  }
  SymbolicTensor result = tensor;
  Dims kept;
  for (size_t axis = 0; axis < count; ++axis) {
    auto places = evalSubscript(expr, axis, tensor, scope);
    if (!places)
      return SymbolicValue();
    Dim size = places->end - places->begin;
    tensors.locate(expr.range);
    if (size != tensor.dims[axis])
      result.handle = emitter.slice(result.handle, static_cast<int64_t>(axis),
                                    places->begin.value(), size.value());
    if (expr.subscripts[axis].isSlice)
      kept.push_back(size);
    result.dims[axis] = size;
  }
  kept.append(tensor.dims.begin() + count, tensor.dims.end());
  if (kept.size() < tensor.dims.size())
    return SymbolicValue::tensor(tensors.reshapeTo(result, kept));
  result.dims = kept;
  return SymbolicValue::tensor(result);
}

std::optional<Expressions::Places>
Expressions::evalSubscript(const Expr &expr, size_t axis,
                           const SymbolicTensor &tensor, Scope &scope) {
  const Subscript &subscript = expr.subscripts[axis];
  const Dim &extent = tensor.dims[axis];
  auto bound = [&](const Expr *given, const Dim &absent) {
    if (!given)
      return std::optional<Dim>(absent);
    std::optional<Dim> value =
        evalBound(*given, sources.text(expr.kids[0]->range), axis, scope);
    return value && value->value() < 0 ? extent + *value : value;
  };
  std::optional<Dim> begin = bound(subscript.first, Dim(0)), end;
  if (subscript.isSlice)
    end = bound(subscript.last, extent);
  else if (begin)
    end = *begin + Dim(1);
  if (!begin || !end)
    return std::nullopt;
  Places places{*begin, *end};
  if (begin->value() >= 0 && begin->value() < end->value() &&
      end->value() <= extent.value())
    return places;
  reportNoPlaces(places, expr, axis, tensor);
  return std::nullopt;
}

void Expressions::reportNoPlaces(const Places &places, const Expr &expr,
                                 size_t axis, const SymbolicTensor &tensor) {
  const Subscript &subscript = expr.subscripts[axis];
  const Dim &extent = tensor.dims[axis];
  int64_t begin = places.begin.value(), end = places.end.value();
  bool isEmpty = begin >= 0 && end <= extent.value();
  // Which of both leaves the axis; of an empty slice it is where it begins.
  bool isLast =
      !isEmpty && subscript.last && begin >= 0 && begin < extent.value();
  Range range = isLast            ? subscript.last->range
                : subscript.first ? subscript.first->range
                : subscript.last  ? subscript.last->range
                                  : expr.range;
  auto show = [](const Dim &dim) { return SymbolicValue::integer(dim).show(); };
  Diagnostic &d =
      reporter.error(212, range,
                     isEmpty ? "nothing lies from " + show(places.begin) +
                                   " up to, but without " + show(places.end)
                             : "the index leaves the axis " + show(extent) +
                                   " of " + showShape(tensor.dims));
  if (isLast)
    d.help("`a:b` ends before `b`, which is at most " + show(extent));
  else if (!isEmpty)
    d.help("places count from 0, the last is " + show(extent - Dim(1)) +
           ", or `-1`");
}

SymbolicValue Expressions::evalIf(const Expr &expr, Scope &scope) {
  std::optional<bool> condition =
      evalCondition(*expr.kids[0], scope, "the condition of an `if`");
  if (!condition) {
    // Mistakes inside of the branches are mistakes either way.
    eval(*expr.kids[1], scope);
    eval(*expr.kids[2], scope);
    return SymbolicValue();
  }
  return eval(*expr.kids[*condition ? 1 : 2], scope);
}

std::optional<bool> Expressions::evalCondition(const Expr &expr, Scope &scope,
                                               StringRef what) {
  SymbolicValue value = eval(expr, scope);
  if (value.is(SymbolicValue::Bool))
    return value.flag();
  if (value.isPoison())
    return std::nullopt;
  if (value.is(SymbolicValue::PerLayer)) {
    reporter
        .error(605, expr.range, what + " may not depend on the layer's index")
        .help(Reporter::choiceByLayer);
    return std::nullopt;
  }
  Diagnostic &d = reporter.error(
      409, expr.range, what + " is true or false, not " + value.describe());
  if (value.isTensorLike())
    d.help("`where(condition, a, b)` chooses element by element");
  else if (value.isNumber())
    d.help("compare it: `" + sources.text(expr.range) + " != 0`");
  return std::nullopt;
}

bool Expressions::checkRequire(const Expr *condition, const Expr *message,
                               Scope &scope) {
  std::optional<bool> holds = evalCondition(*condition, scope, "a requirement");
  if (!holds)
    return true;
  if (*holds)
    return true;
  std::string text = "this does not hold";
  if (message) {
    SymbolicValue value = eval(*message, scope);
    if (value.is(SymbolicValue::String))
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
    if (auto value = names.lookup(expr->text, scope))
      if (value->isNumber() || value->is(SymbolicValue::Bool) ||
          value->is(SymbolicValue::String)) {
        std::string shownValue = value->show();
        // `width = width = 768` would only confuse.
        if (value->is(SymbolicValue::Int) && value->dim().str() == expr->text)
          shownValue = std::to_string(value->dim().value());
        values += (values.empty() ? "" : ", ") + expr->text.str() + " = " +
                  shownValue;
      }
  }
  reporter.error(405, condition->range, text).withLabel(values);
  return false;
}
