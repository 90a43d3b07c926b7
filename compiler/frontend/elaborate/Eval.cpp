//===- Eval.cpp - names, members, calls, indices --------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/Elaborator.h"
#include "compiler/frontend/syntax/Habits.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <cmath>

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

//===----------------------------------------------------------------------===//
// Diagnostics
//===----------------------------------------------------------------------===//

std::string Elaborator::place(Range range) const {
  const SourceFile &file = sources.file(range.file);
  return (file.name() + ":" + Twine(file.line(range.begin)) + ":" +
          Twine(file.column(range.begin)))
      .str();
}

/// Leaves out the middle of a very long path.
static std::string shorten(std::string path) {
  if (path.size() <= 100)
    return path;
  return path.substr(0, 40) + " ... " + path.substr(path.size() - 40);
}

bool Elaborator::isInStd(uint32_t file) const {
  return llvm::any_of(program.stdUnits,
                      [&](const Unit *unit) { return unit->file == file; });
}

const Elaborator::Frame *Elaborator::callerOfStd(Range range) const {
  if (isInStd(range.file))
    for (const Frame &f : llvm::reverse(frames))
      if (!isInStd(f.call.file))
        return &f;
  return nullptr;
}

Diagnostic &Elaborator::error(ErrorCode code, Range range,
                              const Twine &message) {
  // A mistake that shows inside of std was made by whoever called it, and may
  // show there in several places: it is reported once.
  // Who reports much, though most of it for the second time, looks for words.
  if (program.stepsLeft > 0)
    spend(256, range);
  const Frame *caller = callerOfStd(range);
  if (caller &&
      !stdErrors.insert({code, caller->call.file, caller->call.begin}).second)
    return diags.ignored();
  Diagnostic &d = diags.error(code, range, message);
  if (frames.empty() || !d.notes.empty())
    return d;
  const Frame &frame = frames.back();
  auto instance = [](const Frame &f) {
    return f.node && f.node->parent ? ", as " + shorten(f.node->readablePath())
                                    : std::string();
  };
  d.note("in " + frame.what + instance(frame));
  if (caller) {
    d.note("called from " + place(caller->call));
  } else if (!frame.node) {
    // A function: which module it was called for.
    for (size_t i = frames.size() - 1; i-- > 0;) {
      if (!frames[i].node)
        continue;
      d.note("called from " + place(frames[i + 1].call) + ", in " +
             frames[i].what + instance(frames[i]));
      break;
    }
  }
  return d;
}

void Elaborator::suggest(Diagnostic &d, StringRef name,
                         llvm::ArrayRef<std::string> candidates) {
  if (!spend(candidates.size(), d.range))
    return;
  std::string guess = closestName(name, candidates);
  if (!guess.empty())
    d.help("did you mean `" + guess + "`?");
}

void Elaborator::suggestInteger(Diagnostic &d, const Value &value) {
  if (value.is(Value::Float) && value.number() == std::floor(value.number()) &&
      std::fabs(value.number()) < 1e15) {
    auto number = Twine(static_cast<int64_t>(value.number())).str();
    d.help("`" + number + ".0` is a float, `" + number + "` an integer");
  }
}

void Elaborator::locate(Range range) {
  // Inside of a function of a file, the module that calls it.
  const Node *node = nullptr;
  for (auto frame = frames.rbegin(); frame != frames.rend() && !node; ++frame)
    node = frame->node;
  emitter.at(node, sources.file(range.file), range.begin);
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

/// What a file declares or imports under a name.
static std::optional<Value>
lookupUnit(StringRef name, const Unit &unit,
           llvm::SmallPtrSetImpl<const Unit *> &seen) {
  if (!seen.insert(&unit).second)
    return std::nullopt;
  if (const ast::Module *module = unit.modules.lookup(name))
    return Value::object(Value::Module, module, &unit);
  if (const ast::Method *function = unit.functions.lookup(name))
    return Value::object(Value::Function, function, &unit);
  if (Const *constant = unit.constants.lookup(name))
    return Value::object(Value::ConstRef, constant);
  for (const Unit *import : unit.imports)
    if (auto value = lookupUnit(name, *import, seen))
      return value;
  return std::nullopt;
}

std::optional<Value> Elaborator::lookup(StringRef name, const Env &env) {
  auto local = env.locals.find(name);
  if (local != env.locals.end())
    return local->second;
  auto dim = env.dims.find(name);
  if (dim != env.dims.end())
    return Value::integer(dim->second);
  if (env.binding) {
    auto it = env.binding->find(name);
    if (it != env.binding->end())
      return it->second;
  }
  if (env.self) {
    auto member = env.self->members.find(name);
    if (member != env.self->members.end())
      return member->second;
    auto hyper = env.self->hyperparameters.find(name);
    if (hyper != env.self->hyperparameters.end())
      return hyper->second;
    if (env.self->decl)
      if (const Method *method = findMethod(*env.self, name)) {
        Value value = Value::object(Value::Method, method, env.self->unit);
        value.setText(name);
        value.setOwner(env.self);
        return value;
      }
  }
  if (env.unit) {
    llvm::SmallPtrSet<const Unit *, 8> seen;
    if (auto value = lookupUnit(name, *env.unit, seen))
      return value;
  }
  loadStd();
  for (const Unit *unit : program.stdUnits) {
    llvm::SmallPtrSet<const Unit *, 8> seen;
    if (auto value = lookupUnit(name, *unit, seen))
      return value;
  }
  if (isBuiltin(name))
    return Value::named(Value::Builtin, name);
  return std::nullopt;
}

std::vector<std::string> Elaborator::namesOfModule(const Env &env) {
  std::vector<std::string> names;
  for (const auto &entry : env.locals)
    names.push_back(entry.getKey().str());
  for (const auto &entry : env.dims)
    names.push_back(entry.getKey().str());
  if (env.binding)
    for (const auto &[name, value] : *env.binding)
      names.push_back(name.str());
  if (env.self) {
    for (const auto &[name, value] : env.self->members)
      names.push_back(name.str());
    for (const auto &[name, value] : env.self->hyperparameters)
      names.push_back(name.str());
  }
  return names;
}

std::vector<std::string> Elaborator::namesInScope(const Env &env) {
  std::vector<std::string> names = namesOfModule(env);
  auto addUnitNames = [&](const Unit &unit) {
    for (const auto &entry : unit.modules)
      names.push_back(entry.getKey().str());
    for (const auto &entry : unit.functions)
      names.push_back(entry.getKey().str());
    for (const auto &entry : unit.constants)
      names.push_back(entry.getKey().str());
  };
  if (env.unit) {
    addUnitNames(*env.unit);
    for (const Unit *import : env.unit->imports)
      addUnitNames(*import);
  }
  for (const Unit *unit : program.stdUnits)
    addUnitNames(*unit);
  llvm::sort(names);
  return names;
}

/// `nn` of `nn.functional.relu`.
static const Expr *firstOf(const Expr *expr) {
  while (expr->kind == ExprKind::Member)
    expr = expr->kids[0];
  return expr;
}

Value Elaborator::evalName(const Expr &expr, Env &env) {
  spend(program.units.size() / 16, expr.range);
  if (expr.text == "true" || expr.text == "false")
    return Value::boolean(expr.text == "true");
  if (expr.text == "none")
    return Value::none();
  if (auto value = lookup(expr.text, env))
    return *value;
  if (expr.text == "int" || expr.text == "float" || expr.text == "bool")
    return Value::named(Value::Type, expr.text);
  // A member that stands further down exists, but not yet.
  if (env.self && env.self->decl && !env.inMethod)
    for (const Member &member : env.self->decl->members)
      if (member.name == expr.text && member.kind != MemberKind::Method) {
        error(305, expr.range,
              "`" + expr.text + "` is used before it is declared")
            .help("it is declared in line " +
                  Twine(sources.line(member.range)) + ": move that line up");
        return Value();
      }
  Diagnostic &d =
      error(301, expr.range, "there is no `" + expr.text + "` here");
  if (endsInDivision(
          sources.file(expr.range.file).text().take_front(expr.range.begin))) {
    d.help(commentHelp);
    return Value();
  }
  if (prefixed && firstOf(prefixed) == &expr) {
    StringRef name = prefixed->text;
    if (!lookup(name, env)) {
      d.help(nameHabit(name));
      return Value();
    }
    Range before = prefixed->range;
    before.end = prefixed->textRange.begin;
    d.help("write `" + name + "(...)`, without `" + sources.text(before) + "`");
    return Value();
  }
  std::vector<std::string> names = namesInScope(env);
  if (!spend(names.size(), expr.range))
    return Value();
  if (env.inSignature) {
    suggest(d, expr.text, names);
    if (d.helps.empty())
      d.help("a size that the caller decides is written in capitals, such as "
             "`" +
             expr.text.upper() + "`");
    return Value();
  }
  names.emplace_back("tokenizer");
  llvm::append_range(names, builtinNames());
  if (expr.text == "self" && env.self) {
    d.help("members are named directly: `attn(x)`, not `self.attn(x)`");
    return Value();
  }
  if (StringRef habit = nameHabit(expr.text); !habit.empty()) {
    // Unless something of the user's own begins so: `norm1` for `norm`.
    bool isBegun = llvm::any_of(namesOfModule(env), [&](StringRef name) {
      return name.starts_with(expr.text);
    });
    if (!isBegun) {
      d.help(habit);
      return Value();
    }
  }
  // Who writes a capital means a module (or a dimension), never a function.
  if (!expr.text.empty() && llvm::isUpper(expr.text[0]))
    llvm::erase_if(
        names, [](const std::string &name) { return !llvm::isUpper(name[0]); });
  suggest(d, expr.text, names);
  if (!expr.text.empty() && llvm::isUpper(expr.text[0]) && env.inMethod &&
      expr.text.size() == 1)
    d.help("a dimension such as `" + expr.text +
           "` is bound by the shape of an argument");
  return Value();
}

//===----------------------------------------------------------------------===//
// Expressions
//===----------------------------------------------------------------------===//

/// Expressions within calls within expressions: as deep as the compiler's own
/// stack allows.
static constexpr unsigned maxEvalDepth = 2000;

bool Elaborator::spend(size_t steps, Range range) {
  if (steps <= program.stepsLeft) {
    program.stepsLeft -= steps;
    return !diags.isFull();
  }
  if (program.stepsLeft > 0 || !endless) {
    program.stepsLeft = 0;
    endless = true;
    error(512, range,
          "this model takes more than " + Twine(maxSteps) +
              " steps to work out, and here they are over")
        .help("what contains or calls another one twice doubles the work with "
              "every level; layers that are alike are written `repeat(n) "
              "Block(...)`");
  }
  return false;
}

Value Elaborator::eval(const Expr &expr, Env &env) {
  if (!spend(1, expr.range))
    return Value();
  Value value = evalKind(expr, env);
  bool isComputed =
      expr.kind == ExprKind::Call || expr.kind == ExprKind::Index ||
      expr.kind == ExprKind::Unary || expr.kind == ExprKind::Binary;
  if (!isComputed || !value.is(Value::TensorRef))
    return value;
  const Dims &dims = value.tensor().dims;
  // An op, and its shape in words.
  size_t steps = 8;
  for (const Dim &dim : dims)
    steps += dim.weight();
  if (!spend(steps, expr.range) || !isStorable(dims, expr.range, "the result"))
    return Value();
  return value;
}

Value Elaborator::evalKind(const Expr &expr, Env &env) {
  llvm::scope_exit restore([&] { --evalDepth; });
  if (++evalDepth > maxEvalDepth) {
    if (!endless)
      error(112, expr.range,
            "this is nested more than " + Twine(maxEvalDepth) +
                " levels deep, with the calls that lead here");
    endless = true;
    return Value();
  }
  switch (expr.kind) {
  case ExprKind::Integer:
    return Value::integer(Dim(expr.integer));
  case ExprKind::Float:
    return Value::real(expr.number);
  case ExprKind::String:
    spend(expr.text.size() / 64, expr.range);
    return Value::string(unquote(expr.text));
  case ExprKind::Name:
    return evalName(expr, env);
  case ExprKind::Member:
    return evalMember(expr, env);
  case ExprKind::Call:
    return evalCall(expr, env);
  case ExprKind::Index:
    return evalIndex(expr, env);
  case ExprKind::Unary:
    return evalUnary(expr, env);
  case ExprKind::Binary:
    return evalBinary(expr, env);
  case ExprKind::If:
    return evalIf(expr, env);
  case ExprKind::List:
  case ExprKind::Tuple: {
    std::vector<Value> items;
    std::string pending = env.pending;
    for (size_t i = 0; i < expr.kids.size(); ++i) {
      env.pending = pending.empty() ? std::to_string(i)
                                    : pending + "." + std::to_string(i);
      items.push_back(eval(*expr.kids[i], env));
    }
    env.pending = pending;
    Value list = Value::list(std::move(items));
    return spend(list.size(), expr.range) ? list : Value();
  }
  case ExprKind::Repeat:
    return evalRepeat(expr, env);
  case ExprKind::Invalid:
    return Value();
  }
  return Value();
}

Value Elaborator::evalMember(const Expr &expr, Env &env) {
  const Expr &base = *expr.kids[0];
  // `tokenizer` is no value of its own, unless something here is called so.
  if (base.isName("tokenizer") && !lookup("tokenizer", env)) {
    if (expr.text != "size") {
      error(302, expr.textRange, "a tokenizer has no `" + expr.text + "`")
          .help("`tokenizer.size` is the number of its tokens");
      return Value();
    }
    const TokenizerInfo *info = resolveTokenizer(expr.range);
    return info ? Value::integer(Dim(info->size)) : Value();
  }
  // `nn.Linear`: without what stands before it the name is known here.
  const Expr *outer = prefixed;
  if (!prefixed || firstOf(prefixed) != firstOf(&expr)) {
    auto known = lookup(expr.text, env);
    if (known ? known->is(Value::Builtin) || known->is(Value::Function) ||
                    known->is(Value::Module)
              : !nameHabit(expr.text).empty())
      prefixed = &expr;
  }
  Value object = eval(base, env);
  prefixed = outer;
  if (object.isPoison())
    return object;
  if (object.isTensorLike()) {
    if (expr.text == "T") {
      // Where members are declared nothing has a value yet.
      if (object.is(Value::ParamRef) && !env.inMethod) {
        StringRef operand = sources.text(base.range);
        error(411, expr.range,
              "`" + operand +
                  ".T` cannot be computed here: parameters have values in "
                  "methods only")
            .help("a tie takes the parameter as it is, `weight = " + operand +
                  "`: the weight of `Linear` is [outputs, inputs], as that of "
                  "`Embedding` is [entries, width]")
            .help("without a layer of its own write `x @ " + operand +
                  ".T` in `forward`");
        return Value();
      }
      auto tensor = toTensor(object, base.range, "`.T`");
      if (!tensor)
        return Value();
      size_t rank = tensor->dims.size();
      if (rank < 2) {
        error(202, expr.range,
              "`.T` swaps the last two axes, but " + sources.text(base.range) +
                  " is " + showShape(tensor->dims));
        return Value();
      }
      llvm::SmallVector<int64_t> order;
      for (size_t i = 0; i < rank; ++i)
        order.push_back(static_cast<int64_t>(i));
      std::swap(order[rank - 1], order[rank - 2]);
      locate(expr.textRange);
      return Value::tensor(transposeAxes(*tensor, order));
    }
    Diagnostic &d =
        error(302, expr.textRange, "a tensor has no `" + expr.text + "`");
    // As in other libraries, where functions are members.
    auto function = lookup(expr.text, env);
    bool isFunction = function && (function->is(Value::Builtin) ||
                                   function->is(Value::Function));
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
    return Value();
  }
  if (!object.is(Value::NodeRef)) {
    error(302, expr.textRange,
          object.describe() + " has no members, so no `" + expr.text + "`");
    return Value();
  }
  Node &node = *object.node();
  if (node.kind == Node::Kind::Repeat) {
    error(604, expr.range,
          "`" + sources.text(base.range) + "` stands for " +
              Twine(node.count.value()) + " layers: it has no `" + expr.text +
              "` of its own")
        .help("what all layers share is declared outside and passed to them");
    return Value();
  }
  if (node.kind == Node::Kind::List) {
    size_t index;
    if (!expr.text.getAsInteger(10, index) && index < node.elements.size())
      return Value::object(Value::NodeRef, node.elements[index]);
    error(302, expr.textRange,
          "`" + sources.text(base.range) + "` has the members 0 to " +
              Twine(node.elements.size() - 1));
    return Value();
  }
  auto member = node.members.find(expr.text);
  if (member != node.members.end())
    return member->second;
  auto hyper = node.hyperparameters.find(expr.text);
  if (hyper != node.hyperparameters.end())
    return hyper->second;
  if (const Method *method = findMethod(node, expr.text)) {
    Value value = Value::object(Value::Method, method, node.unit);
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
  Diagnostic &d =
      error(302, expr.textRange,
            "`" + node.decl->name + "` has no member `" + expr.text + "`");
  suggest(d, expr.text, names);
  if (expr.text == "T" && node.members.count("weight")) {
    d.help("did you mean `" + sources.text(base.range) + ".weight.T`?");
  } else if (d.helps.empty() && !node.members.empty()) {
    std::string all;
    for (const auto &[name, value] : node.members)
      all += (all.empty() ? "`" : ", `") + name.str() + "`";
    d.help("it has " + all);
  }
  return Value();
}

std::vector<CallArg> Elaborator::evalArguments(const Expr &call, Env &env) {
  std::vector<CallArg> args;
  std::string pending = env.pending;
  for (const Argument &arg : call.args) {
    CallArg evaluated;
    evaluated.name = arg.name;
    evaluated.nameRange = arg.nameRange;
    evaluated.range = arg.value->range;
    evaluated.expr = arg.value;
    if (!env.inMethod) {
      std::string own =
          arg.name.empty() ? std::to_string(args.size()) : arg.name.str();
      env.pending = pending.empty() ? own : pending + "." + own;
    }
    // The axis of a reduction may be a dimension's name: looked at by toAxis.
    if (arg.name == "axis" && arg.value->kind == ExprKind::Name &&
        !lookup(arg.value->text, env))
      evaluated.value = Value::none();
    else
      evaluated.value = eval(*arg.value, env);
    args.push_back(std::move(evaluated));
  }
  env.pending = pending;
  return args;
}

Value Elaborator::evalCall(const Expr &expr, Env &env) {
  Value callee = eval(*expr.kids[0], env);
  std::vector<CallArg> args = evalArguments(expr, env);
  if (callee.isPoison())
    return callee;
  locate(expr.range);
  switch (callee.kind()) {
  case Value::Builtin:
    return callBuiltin(callee.text(), args, expr.range, env);
  case Value::Type: {
    // `float(x)` is `cast(x, float)`.
    CallArg type;
    type.value = callee;
    type.range = expr.kids[0]->range;
    args.push_back(std::move(type));
    return callBuiltin("cast", args, expr.range, env);
  }
  case Value::Function:
    return callMethod(nullptr, *callee.function(), callee.unit(), args,
                      expr.range);
  case Value::Method:
    return callMethod(callee.owner(), *callee.function(), callee.unit(), args,
                      expr.range);
  case Value::Module:
    if (env.inMethod) {
      error(506, expr.range,
            "`" + callee.module()->name +
                "` is a module: it is made in the body of a module, not in a "
                "method")
          .help("declare `name = " + sources.text(expr.range) +
                "` above and call `name(x)` here");
      return Value();
    }
    return instantiate(*callee.module(), callee.unit(), args, expr.range, env);
  case Value::NodeRef:
    return callNode(*callee.node(), args, expr.range, env);
  default: {
    StringRef text = sources.text(expr.kids[0]->range);
    Diagnostic &d = error(410, expr.kids[0]->range,
                          "`" + text + "` is " + callee.describe() +
                              " and cannot be called");
    if (callee.is(Value::ParamRef) && args.size() == 1) {
      const Value &x = args[0].value;
      StringRef given = sources.text(args[0].range);
      if (x.is(Value::TensorRef) && x.tensor().elem == Elem::Int)
        d.help("`gather(" + text + ", " + given +
               ")` reads the rows that ids choose");
      else
        d.help("a product is written `" + given + " @ " + text + "` or `" +
               given + " @ " + text + ".T`");
    }
    return Value();
  }
  }
}

Value Elaborator::evalIndex(const Expr &expr, Env &env) {
  Value object = eval(*expr.kids[0], env);
  if (object.isPoison())
    return object;
  /// Evaluates a bound of a subscript.
  auto bound = [&](const Expr *e) -> std::optional<Dim> {
    Value value = eval(*e, env);
    if (value.is(Value::Int))
      return value.dim();
    if (!value.isPoison()) {
      Diagnostic &d = error(408, e->range,
                            "an index is an integer, not " + value.describe());
      StringRef table = sources.text(expr.kids[0]->range);
      if (value.isTensorLike())
        d.help("`gather(" + table + ", " + sources.text(e->range) +
               ")` reads the rows that ids choose");
    }
    return std::nullopt;
  };
  bool isNodes =
      object.is(Value::NodeRef) && object.node()->kind != Node::Kind::Module;
  if (object.is(Value::List) || isNodes) {
    if (isNodes && object.node()->kind == Node::Kind::Repeat) {
      error(604, expr.range, "the layers of a repeat cannot be used one by one")
          .help("call the repeat itself, or use a list of modules");
      return Value();
    }
    size_t size =
        isNodes ? object.node()->elements.size() : object.items().size();
    if (expr.subscripts.size() != 1 || expr.subscripts[0].isSlice) {
      error(408, expr.range, "a list takes one integer index");
      return Value();
    }
    std::optional<Dim> index = bound(expr.subscripts[0].first);
    if (!index)
      return Value();
    int64_t i = index->value() < 0 ? index->value() + static_cast<int64_t>(size)
                                   : index->value();
    if (i < 0 || i >= static_cast<int64_t>(size)) {
      error(212, expr.subscripts[0].first->range,
            "index " + Twine(index->value()) + " is outside of a list of " +
                Twine(size));
      return Value();
    }
    return isNodes ? Value::object(Value::NodeRef, object.node()->elements[i])
                   : object.items()[i];
  }
  auto tensor = toTensor(object, expr.kids[0]->range, "an index");
  if (!tensor)
    return Value();
  if (expr.subscripts.size() > tensor->dims.size()) {
    error(212, expr.range,
          Twine(expr.subscripts.size()) + " indices for " +
              showShape(tensor->dims));
    return Value();
  }
  Tensor result = *tensor;
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
      return Value();
    if (first->value() < 0 || last->value() > extent.value() ||
        first->value() >= last->value()) {
      Range range = subscript.first  ? subscript.first->range
                    : subscript.last ? subscript.last->range
                                     : expr.range;
      bool isEmpty = first->value() >= last->value() && first->value() >= 0 &&
                     last->value() <= extent.value();
      error(212, range,
            isEmpty
                ? "nothing lies from " + Value::integer(*first).show() +
                      " up to, but without " + Value::integer(*last).show()
                : "the index leaves the axis " + Value::integer(extent).show() +
                      " of " + showShape(tensor->dims));
      return Value();
    }
    Dim size = *last - *first;
    locate(expr.range);
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
    return Value::tensor(reshapeTo(result, kept));
  result.dims = kept;
  return Value::tensor(result);
}

Value Elaborator::evalIf(const Expr &expr, Env &env) {
  std::optional<bool> condition =
      evalCondition(*expr.kids[0], env, "the condition of an `if`");
  if (!condition) {
    // Mistakes inside of the branches are mistakes either way.
    eval(*expr.kids[1], env);
    eval(*expr.kids[2], env);
    return Value();
  }
  return eval(*expr.kids[*condition ? 1 : 2], env);
}

std::optional<bool> Elaborator::evalCondition(const Expr &expr, Env &env,
                                              StringRef what) {
  Value value = eval(expr, env);
  if (value.is(Value::Bool))
    return value.flag();
  if (value.isPoison())
    return std::nullopt;
  if (value.is(Value::PerLayer)) {
    error(605, expr.range, what + " may not depend on the layer's index");
    return std::nullopt;
  }
  Diagnostic &d = error(409, expr.range,
                        what + " is true or false, not " + value.describe());
  if (value.isTensorLike())
    d.help("`where(condition, a, b)` chooses element by element");
  else if (value.isNumber())
    d.help("compare it: `" + sources.text(expr.range) + " != 0`");
  return std::nullopt;
}
