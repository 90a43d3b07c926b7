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

/// `nn` of `nn.functional.relu`.
static const Expr *firstOf(const Expr *expr) {
  while (expr->kind == ExprKind::Member)
    expr = expr->kids[0];
  return expr;
}

SymbolicValue Expressions::evalName(const Expr &expr, Scope &scope) {
  budget.spend(compilation.units.size() / 16, expr.range);
  if (expr.text == "true" || expr.text == "false")
    return SymbolicValue::boolean(expr.text == "true");
  if (expr.text == "none")
    return SymbolicValue::none();
  if (auto value = names.lookup(expr.text, scope))
    return *value;
  if (expr.text == "int" || expr.text == "float" || expr.text == "bool")
    return SymbolicValue::named(SymbolicValue::Type, expr.text);
  // A member that stands further down exists, but not yet.
  if (scope.self && scope.self->decl && !scope.inMethod)
    for (const Member &member : scope.self->decl->members)
      if (member.name == expr.text && member.kind != MemberKind::Method) {
        bool isOwn = sources.line(member.range) == sources.line(expr.range);
        reporter
            .error(305, expr.range,
                   "`" + expr.text + "` is used before it is declared")
            .help(isOwn ? "this line declares it"
                        : "it is declared in line " +
                              Twine(sources.line(member.range)) +
                              ": move that line up");
        return SymbolicValue();
      }
  Diagnostic &d =
      reporter.error(301, expr.range, "there is no `" + expr.text + "` here");
  if (endsInDivision(
          sources.file(expr.range.file).text().take_front(expr.range.begin))) {
    d.help(commentHelp);
    return SymbolicValue();
  }
  if (prefixed && firstOf(prefixed) == &expr) {
    StringRef name = prefixed->text;
    if (!names.lookup(name, scope)) {
      d.help(nameHabit(name));
      return SymbolicValue();
    }
    Range before = prefixed->range;
    before.end = prefixed->textRange.begin;
    d.help("write `" + name + "(...)`, without `" + sources.text(before) + "`");
    return SymbolicValue();
  }
  std::vector<std::string> known = names.namesInScope(scope);
  if (!budget.spend(known.size(), expr.range))
    return SymbolicValue();
  if (scope.inSignature) {
    reporter.suggest(d, expr.text, known);
    if (d.helps.empty())
      d.help("a size that the caller decides is written in capitals, such as "
             "`" +
             expr.text.upper() + "`");
    return SymbolicValue();
  }
  known.emplace_back("tokenizer");
  llvm::append_range(known, Builtins::all());
  if (expr.text == "self" && scope.self) {
    d.help("members are named directly: `attn(x)`, not `self.attn(x)`");
    return SymbolicValue();
  }
  if (StringRef habit = nameHabit(expr.text); !habit.empty()) {
    // Unless something of the user's own begins so: `norm1` for `norm`.
    bool isBegun =
        llvm::any_of(Names::namesOfModule(scope), [&](StringRef name) {
          return name.starts_with(expr.text);
        });
    if (!isBegun) {
      d.help(habit);
      return SymbolicValue();
    }
  }
  // Who writes a capital means a module (or a dimension), never a function.
  if (!expr.text.empty() && llvm::isUpper(expr.text[0]))
    llvm::erase_if(
        known, [](const std::string &name) { return !llvm::isUpper(name[0]); });
  reporter.suggest(d, expr.text, known);
  if (!expr.text.empty() && llvm::isUpper(expr.text[0]) && scope.inMethod &&
      expr.text.size() == 1)
    d.help("a dimension such as `" + expr.text +
           "` is bound by the shape of an argument");
  return SymbolicValue();
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
  case ExprKind::Tuple: {
    std::vector<SymbolicValue> items;
    std::string pending = scope.pending;
    bool isMember = scope.numbered == &expr;
    for (size_t i = 0; i < expr.kids.size(); ++i) {
      scope.pending = pending.empty() ? std::to_string(i)
                                      : pending + "." + std::to_string(i);
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
  case ExprKind::Repeat:
    return repeats.evalRepeat(expr, scope);
  case ExprKind::Invalid:
    return SymbolicValue();
  }
  return SymbolicValue();
}

SymbolicValue Expressions::evalMember(const Expr &expr, Scope &scope) {
  const Expr &base = *expr.kids[0];
  // `tokenizer` is no value of its own, unless something here is called so.
  if (base.isName("tokenizer") && !names.lookup("tokenizer", scope)) {
    if (expr.text != "size") {
      reporter
          .error(302, expr.textRange, "a tokenizer has no `" + expr.text + "`")
          .help("`tokenizer.size` is the number of its tokens");
      return SymbolicValue();
    }
    const TokenizerInfo *info = recipe.resolveTokenizer(expr.range);
    return info ? SymbolicValue::integer(Dim(info->size)) : SymbolicValue();
  }
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
  SymbolicValue object = eval(base, scope);
  prefixed = outer;
  if (object.isPoison())
    return object;
  if (object.isTensorLike()) {
    if (expr.text == "T") {
      // Where members are declared nothing has a value yet.
      if (object.is(SymbolicValue::ParamRef) && !scope.inMethod) {
        StringRef operand = sources.text(base.range);
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
      auto tensor = tensors.toTensor(object, base.range, "`.T`");
      if (!tensor)
        return SymbolicValue();
      size_t rank = tensor->dims.size();
      if (rank < 2) {
        reporter.error(202, expr.range,
                       "`.T` swaps the last two axes, but " +
                           sources.text(base.range) + " is " +
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
    Diagnostic &d = reporter.error(302, expr.textRange,
                                   "a tensor has no `" + expr.text + "`");
    // As in other libraries, where functions are members.
    auto function = names.lookup(expr.text, scope);
    bool isFunction = function && (function->is(SymbolicValue::Builtin) ||
                                   function->is(SymbolicValue::Function));
    bool isType =
        expr.text == "int" || expr.text == "float" || expr.text == "bool";
    StringRef help = nameHabit(expr.text);
    // A range leaves outer parentheses out.
    StringRef operand = sources.text(base.range);
    if (operand.count('(') != operand.count(')') || operand.contains('\n'))
      operand = "...";
    if (isFunction || isType)
      d.help("write `" + expr.text + "(" + operand + ")`");
    else
      d.help(help.empty() ? "functions are not members: `f(x)`; `.T` swaps the "
                            "last two axes"
                          : help);
    return SymbolicValue();
  }
  if (!object.is(SymbolicValue::NodeRef)) {
    reporter.error(302, expr.textRange,
                   object.describe() + " has no members, so no `" + expr.text +
                       "`");
    return SymbolicValue();
  }
  Node &node = *object.node();
  if (node.kind == Node::Kind::List || node.kind == Node::Kind::Repeat) {
    int64_t index = 0, layers = node.layers();
    bool isNumber = !expr.text.getAsInteger(10, index);
    if (isNumber && index >= 0 && index < layers)
      return layerOf(node, index);
    if (isNumber || node.kind == Node::Kind::List) {
      reporter.error(302, expr.textRange,
                     "`" + sources.text(base.range) +
                         "` has the members 0 to " + Twine(layers - 1));
      return SymbolicValue();
    }
  }
  if (node.kind == Node::Kind::Repeat || node.kind == Node::Kind::Layer) {
    Diagnostic &d = reporter.error(
        604, expr.range,
        "`" + sources.text(base.range) + "` " +
            (node.kind == Node::Kind::Layer
                 ? "is one of the layers of a repeat: it has no `"
                 : "stands for " + std::to_string(node.count.value()) +
                       " layers: it has no `") +
            expr.text + "` of its own");
    d.help("what all layers share is declared outside and passed to them; "
           "`h[0](x)` calls one layer");
    return SymbolicValue();
  }
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
    d.help("did you mean `" + sources.text(base.range) + ".weight.T`?");
  } else if (d.helps.empty() && !node.members.empty()) {
    std::string all;
    for (const auto &[name, value] : node.members)
      all += (all.empty() ? "`" : ", `") + name.str() + "`";
    d.help("it has " + all);
  }
  return SymbolicValue();
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
  SymbolicValue callee = eval(*expr.kids[0], scope);
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
  default: {
    StringRef text = sources.text(expr.kids[0]->range);
    Diagnostic &d = reporter.error(410, expr.kids[0]->range,
                                   "`" + text + "` is " + callee.describe() +
                                       " and cannot be called");
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

SymbolicValue Expressions::evalIndex(const Expr &expr, Scope &scope) {
  SymbolicValue object = eval(*expr.kids[0], scope);
  if (object.isPoison())
    return object;
  /// Evaluates a bound of a subscript.
  auto bound = [&](const Expr *e) -> std::optional<Dim> {
    SymbolicValue value = eval(*e, scope);
    if (value.is(SymbolicValue::Int))
      return value.dim();
    if (!value.isPoison()) {
      Diagnostic &d = reporter.error(
          408, e->range, "an index is an integer, not " + value.describe());
      StringRef table = sources.text(expr.kids[0]->range);
      if (value.isTensorLike())
        d.help("`gather(" + table + ", " + sources.text(e->range) +
               ")` reads the rows that ids choose");
      else if (value.is(SymbolicValue::None))
        d.help("an axis of size 1 is made by `rearrange(x, \"B T -> B T 1\")`");
    }
    return std::nullopt;
  };
  bool isNodes = object.is(SymbolicValue::NodeRef) &&
                 (object.node()->kind == Node::Kind::List ||
                  object.node()->kind == Node::Kind::Repeat);
  if (object.is(SymbolicValue::List) || isNodes) {
    size_t size = isNodes ? static_cast<size_t>(object.node()->layers())
                          : object.items().size();
    if (expr.subscripts.size() != 1 || expr.subscripts[0].isSlice) {
      reporter.error(408, expr.range, "a list takes one integer index");
      return SymbolicValue();
    }
    std::optional<Dim> index = bound(expr.subscripts[0].first);
    if (!index)
      return SymbolicValue();
    int64_t i = index->value() < 0 ? index->value() + static_cast<int64_t>(size)
                                   : index->value();
    if (i < 0 || i >= static_cast<int64_t>(size)) {
      reporter.error(212, expr.subscripts[0].first->range,
                     "index " + Twine(index->value()) +
                         " is outside of a list of " + Twine(size));
      return SymbolicValue();
    }
    return isNodes ? layerOf(*object.node(), i) : object.items()[i];
  }
  auto tensor = tensors.toTensor(object, expr.kids[0]->range, "an index");
  if (!tensor)
    return SymbolicValue();
  if (expr.subscripts.size() > tensor->dims.size()) {
    reporter.error(212, expr.range,
                   Twine(expr.subscripts.size()) + " indices for " +
                       showShape(tensor->dims));
    return SymbolicValue();
  }
  SymbolicTensor result = *tensor;
  Dims kept;
  bool drops = false;
  for (size_t axis = 0; axis < tensor->dims.size(); ++axis) {
    Dim extent = tensor->dims[axis];
    if (axis >= expr.subscripts.size()) {
      kept.push_back(extent);
      continue;
    }
    const Subscript &subscript = expr.subscripts[axis];
    auto resolve = [&](const Expr *e, Dim absent) -> std::optional<Dim> {
      if (!e)
        return absent;
      std::optional<Dim> value = bound(e);
      if (value && value->value() < 0)
        return extent + *value;
      return value;
    };
    std::optional<Dim> first = resolve(subscript.first, Dim(0));
    std::optional<Dim> last =
        subscript.isSlice
            ? resolve(subscript.last, extent)
            : (first ? std::optional<Dim>(*first + Dim(1)) : std::nullopt);
    if (!first || !last)
      return SymbolicValue();
    if (first->value() < 0 || last->value() > extent.value() ||
        first->value() >= last->value()) {
      bool isEmpty = first->value() >= last->value() && first->value() >= 0 &&
                     last->value() <= extent.value();
      // Which of both leaves the axis; of an empty slice it is where it begins.
      bool isLast = !isEmpty && subscript.last && first->value() >= 0 &&
                    first->value() < extent.value();
      Range range = isLast            ? subscript.last->range
                    : subscript.first ? subscript.first->range
                    : subscript.last  ? subscript.last->range
                                      : expr.range;
      Diagnostic &d =
          reporter.error(212, range,
                         isEmpty ? "nothing lies from " +
                                       SymbolicValue::integer(*first).show() +
                                       " up to, but without " +
                                       SymbolicValue::integer(*last).show()
                                 : "the index leaves the axis " +
                                       SymbolicValue::integer(extent).show() +
                                       " of " + showShape(tensor->dims));
      if (isLast)
        d.help("`a:b` ends before `b`, which is at most " +
               SymbolicValue::integer(extent).show());
      else if (!isEmpty)
        d.help("places count from 0, the last is " +
               SymbolicValue::integer(extent - Dim(1)).show() + ", or `-1`");
      return SymbolicValue();
    }
    Dim size = *last - *first;
    tensors.locate(expr.range);
    if (size != extent)
      result.handle = emitter.slice(result.handle, static_cast<int64_t>(axis),
                                    first->value(), size.value());
    if (subscript.isSlice) {
      kept.push_back(size);
    } else {
      drops = true;
    }
    result.dims[axis] = size;
  }
  if (drops)
    return SymbolicValue::tensor(tensors.reshapeTo(result, kept));
  result.dims = kept;
  return SymbolicValue::tensor(result);
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
