//===- Methods.cpp - calls of forward, statements -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/Elaborator.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

static constexpr unsigned maxCallDepth = 128;

const Method *Elaborator::findMethod(const Node &node, StringRef name) {
  if (node.decl)
    for (const Member &member : node.decl->members)
      if (member.kind == MemberKind::Method && member.name == name)
        return member.method.get();
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Shapes of arguments and results
//===----------------------------------------------------------------------===//

/// A capital in a shape is bound by the caller.
static bool isCallerDim(const Expr &expr) {
  return expr.kind == ExprKind::Name && !expr.text.empty() &&
         llvm::isUpper(expr.text[0]);
}

bool Elaborator::checkShape(const Tensor &tensor, const TypeExpr &type,
                            Env &env, Range range,
                            llvm::function_ref<std::string()> what,
                            ErrorCode code, bool bindDims) {
  auto found = [&] { return showShape(tensor.dims, tensor.elem); };
  StringRef expected = sources.text(type.range);
  Elem elem = elemOf(type.element);
  if (tensor.elem != elem) {
    Diagnostic &d = error(
        211, range, what() + " is " + expected + ", but this is " + found());
    if (elem == Elem::Int && tensor.elem == Elem::Float)
      d.help("integers are ids or places, such as `tokens` or "
             "`positions(tokens)`; `cast(x, int)` converts");
    else if (elem == Elem::Float && tensor.elem == Elem::Int &&
             !tensor.dims.empty())
      d.help("`Embedding(entries, width)` gives each id a vector; `cast(x, "
             "float)` converts");
    return false;
  }
  size_t fixed = llvm::count_if(
      type.shape, [](const ShapeEntry &e) { return !e.isEllipsis; });
  bool open = fixed != type.shape.size();
  size_t rank = tensor.dims.size();
  if (open ? rank < fixed : rank != fixed) {
    error(204, range, what() + " is " + expected + ", but this is " + found())
        .withLabel(Twine(rank) + (rank == 1 ? " axis" : " axes") +
                   " instead of " + (open ? "at least " : "") + Twine(fixed));
    return false;
  }
  size_t axis = 0;
  for (const ShapeEntry &entry : type.shape) {
    if (entry.isEllipsis) {
      size_t count = rank - fixed;
      Dims some(llvm::ArrayRef(tensor.dims).slice(axis, count));
      axis += count;
      if (bindDims && !env.ellipsis) {
        env.ellipsis = some;
      } else if (env.ellipsis && *env.ellipsis != some) {
        error(code, range,
              what() + " is " + expected + ", but this is " + found())
            .withLabel("`..` stands for " + showShape(*env.ellipsis));
        return false;
      }
      continue;
    }
    const Dim &actual = tensor.dims[axis++];
    const Expr &dim = *entry.dim;
    Dim wanted;
    if (isCallerDim(dim)) {
      auto known = env.dims.find(dim.text);
      if (known != env.dims.end()) {
        wanted = known->second;
      } else if (auto value = lookup(dim.text, env);
                 value && value->is(Value::Int)) {
        wanted = value->dim();
      } else if (bindDims) {
        env.dims[dim.text] = actual;
        continue;
      } else {
        error(219, entry.range, "`" + dim.text + "` is bound by no argument")
            .help("a dimension in capitals takes its size from the shape of an "
                  "argument");
        return false;
      }
    } else {
      // A mistake in a signature is the method's, not its caller's.
      bool inSignature = bindDims && !env.where.empty();
      if (inSignature)
        frames.push_back({env.where, env.self, env.call});
      llvm::scope_exit restore([&] {
        if (inSignature)
          frames.pop_back();
        env.inSignature = false;
      });
      env.inSignature = true;
      Value value = eval(dim, env);
      if (value.isPoison())
        return false;
      std::optional<Dim> size =
          toDimension(value, entry.range, "a dimension of " + what());
      if (!size)
        return false;
      wanted = *size;
    }
    if (wanted == actual)
      continue;
    std::string name = sources.text(dim.range).str();
    std::string value = Value::integer(wanted).show();
    // `width` of the callee may be `2 * width` of the model.
    std::string label;
    if (!wanted.isConstant() && wanted.str(true) == name)
      label = name + " = " + std::to_string(wanted.value());
    else
      label = (env.self ? "`" + env.self->decl->name.str() + "` has "
                        : std::string()) +
              (name == value ? value : name + " = " + value);
    // Two modules may use one name for two numbers.
    std::string given = found();
    if (given == expected) {
      Dims dims = tensor.dims;
      dims[axis - 1] = Dim(actual.value());
      given = showShape(dims, tensor.elem);
    }
    error(code, range, what() + " is " + expected + ", but this is " + given)
        .withLabel(label + ", but here it is " + Value::integer(actual).show());
    return false;
  }
  return true;
}

Value Elaborator::checkArgument(const Parameter &parameter, Value value,
                                Env &env, Range range, StringRef callee) {
  if (value.isPoison() || !parameter.type.isGiven)
    return value;
  auto what = [&] {
    return ("`" + parameter.name + "` of `" + callee + "`").str();
  };
  if (!parameter.type.hasShape) {
    StringRef type = parameter.type.element;
    bool fits = (type == "int" && value.is(Value::Int)) ||
                (type == "float" && value.isNumber()) ||
                (type == "bool" && value.is(Value::Bool)) ||
                (type == "string" && value.is(Value::String)) ||
                (type == "function" &&
                 (value.is(Value::Builtin) || value.is(Value::Function) ||
                  value.is(Value::Method) || value.is(Value::NodeRef))) ||
                (type == "module" && value.is(Value::NodeRef)) ||
                (value.is(Value::None) && parameter.value) ||
                value.is(Value::PerLayer);
    if (fits)
      return value;
    error(404, range, what() + " is `" + type + "`, not " + value.describe());
    return Value();
  }
  // An argument may be left out by `none` where that is its default.
  if (value.is(Value::None) && parameter.value)
    return value;
  auto tensor = toTensor(value, range, what());
  if (!tensor)
    return Value();
  if (!checkShape(*tensor, parameter.type, env, range, what, 205,
                  /*bindDims=*/true))
    return Value();
  return Value::tensor(*tensor);
}

Value Elaborator::checkResult(Value value, const Method &method, Env &env,
                              Range range, StringRef where) {
  if (method.results.empty() || value.isPoison())
    return value;
  std::vector<Value> results;
  bool several = method.results.size() > 1;
  if (several || value.is(Value::List)) {
    size_t count = value.is(Value::List) ? value.items().size() : 1;
    if (count != method.results.size()) {
      error(505, range,
            "`" + where + "` has " + Twine(method.results.size()) +
                (several ? " results" : " result") + ", but this returns " +
                Twine(count));
      return Value();
    }
    results = value.items();
  } else {
    results = {value};
  }
  bool valid = true;
  for (size_t i = 0; i < results.size(); ++i) {
    const TypeExpr &type = method.results[i];
    if (!type.hasShape)
      continue;
    auto what = [&] { return "the result of `" + where.str() + "`"; };
    auto tensor = toTensor(results[i], range, what());
    if (!tensor || !checkShape(*tensor, type, env, range, what, 206,
                               /*bindDims=*/false)) {
      valid = false;
      continue;
    }
    // The signature's words are the caller's words for the dimensions, too, but
    // what inference found is in terms of the whole model: keep that.
    results[i] = Value::tensor(*tensor);
  }
  if (!valid)
    return Value();
  return several ? Value::list(std::move(results)) : results[0];
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

Value Elaborator::callNode(Node &node, std::vector<CallArg> &args, Range range,
                           Env &env) {
  if (!spend(1, range))
    return Value();
  switch (node.kind) {
  case Node::Kind::Module: {
    if (const Method *forward = findMethod(node, "forward"))
      return callMethod(&node, *forward, node.unit, args, range);
    error(502, range,
          "`" + node.decl->name + "` has no `forward`, so it cannot be called")
        .help("a call of a module is a call of its method `forward`");
    return Value();
  }
  case Node::Kind::Repeat:
    return callRepeat(node, args, range, env);
  case Node::Kind::List: {
    // One after another; further arguments are the same for all.
    std::vector<CallArg> next = args;
    for (Node *element : node.elements) {
      std::vector<CallArg> own = next;
      Value result = callNode(*element, own, range, env);
      if (result.isPoison() || next.empty())
        return result;
      next[0].value = result;
    }
    return next.empty() ? Value() : next[0].value;
  }
  }
  return Value();
}

Value Elaborator::callRepeat(Node &node, std::vector<CallArg> &args,
                             Range range, Env &env) {
  if (node.bodies.empty())
    return Value();
  if (!env.inMethod) {
    error(506, range,
          "a repeat is called in a method, not in the body of a "
          "module");
    return Value();
  }
  if (args.empty() || !args[0].name.empty()) {
    error(
        401, range,
        "a repeat carries its first argument through the layers: it needs one")
        .help("write `h(x)`");
    return Value();
  }
  Value first = args[0].value;
  if (first.isPoison())
    return first;
  auto carried = toTensor(first, args[0].range, "a repeat");
  if (!carried)
    return Value();
  int64_t iterations =
      node.count.value() / static_cast<int64_t>(node.bodies.size());
  Tensor state = *carried;
  locate(range);
  state.handle = emitter.beginRepeat(&node, iterations, carried->handle);
  for (Node *body : node.bodies) {
    std::vector<CallArg> own = args;
    own[0].value = Value::tensor(state);
    Value result = callNode(*body, own, range, env);
    if (result.isPoison()) {
      emitter.abandonRepeat();
      return Value();
    }
    auto tensor = toTensor(result, range, "a layer's result");
    if (!tensor || tensor->dims != carried->dims ||
        tensor->elem != carried->elem) {
      if (tensor)
        error(603, range,
              "a layer of `" + node.readablePath() + "` turns " +
                  showShape(carried->dims, carried->elem) + " into " +
                  showShape(tensor->dims, tensor->elem) +
                  ": the next layer cannot take it")
            .help("what a repeat carries keeps its shape");
      emitter.abandonRepeat();
      return Value();
    }
    state = *tensor;
  }
  locate(range);
  state.handle = emitter.endRepeat(state.handle);
  state.dims = carried->dims;
  return Value::tensor(state);
}

Value Elaborator::callMethod(Node *node, const Method &method, const Unit *unit,
                             std::vector<CallArg> &args, Range range) {
  std::string where =
      node ? (node->decl->name + "." + method.name).str() : method.name.str();
  if (endless || !spend(8, range))
    return Value();
  if (frames.size() > maxCallDepth) {
    endless = true;
    error(501, range, "`" + where + "` calls itself without end");
    return Value();
  }
  llvm::SmallVector<StringRef> names;
  llvm::SmallVector<bool> required;
  for (const Parameter &parameter : method.parameters) {
    names.push_back(parameter.name);
    required.push_back(!parameter.value);
  }
  auto bound = bindArguments(names, required, args, range, where);
  if (!bound)
    return Value();
  Env env;
  env.unit = unit;
  env.self = node;
  env.inMethod = true;
  env.where = where;
  env.call = range;
  bool valid = true;
  for (size_t i = 0; i < names.size(); ++i) {
    const Parameter &parameter = method.parameters[i];
    Value value;
    Range at = parameter.range;
    if (CallArg *arg = (*bound)[i]) {
      value = arg->value;
      at = arg->range;
    } else {
      value = eval(*parameter.value, env);
    }
    Value checked = checkArgument(parameter, value, env, at, where);
    valid &= !checked.isPoison();
    if (node && checked.is(Value::TensorRef))
      emitter.listShape(Emitter::Role::Argument, node->path(), parameter.name,
                        checked.tensor().dims, sources.line(parameter.range));
    env.locals[parameter.name] = checked;
  }
  frames.push_back({where, node, range});
  llvm::scope_exit restore([&] { frames.pop_back(); });
  Value result = node && node->broken ? Value() : runBody(method, env, where);
  if (!valid)
    return Value();
  if (!result.isPoison() || method.results.size() != 1 ||
      !method.results[0].hasShape)
    return result;
  // The signature says what the result would have been: with it, the caller's
  // own mistakes show in the same run. Nothing of this is ever emitted.
  Dims dims;
  for (const ShapeEntry &entry : method.results[0].shape) {
    if (entry.isEllipsis) {
      if (!env.ellipsis)
        return Value();
      dims.append(env.ellipsis->begin(), env.ellipsis->end());
      continue;
    }
    if (entry.dim->kind == ExprKind::Name && !lookup(entry.dim->text, env))
      return Value();
    Value value = eval(*entry.dim, env);
    if (!value.is(Value::Int) || value.dim().value() <= 0)
      return Value();
    dims.push_back(value.dim());
  }
  StringRef element = method.results[0].element;
  Elem elem = element == "int"    ? Elem::Int
              : element == "bool" ? Elem::Bool
                                  : Elem::Float;
  return Value::tensor(splat(0, elem, dims));
}

//===----------------------------------------------------------------------===//
// Statements
//===----------------------------------------------------------------------===//

Value Elaborator::runBody(const Method &method, Env &env, StringRef where) {
  for (size_t i = 0; i < method.body.size(); ++i) {
    const Stmt &stmt = method.body[i];
    switch (stmt.kind) {
    case StmtKind::Require:
      checkRequire(stmt.values[0],
                   stmt.values.size() > 1 ? stmt.values[1] : nullptr, env);
      break;
    case StmtKind::Assign:
      assign(stmt, env);
      break;
    case StmtKind::Return: {
      if (i + 1 < method.body.size())
        error(504, method.body[i + 1].range,
              "nothing is computed after `return`")
            .help("a method has one `return`, at its end");
      std::vector<Value> values;
      bool poison = false;
      for (const Expr *expr : stmt.values) {
        values.push_back(eval(*expr, env));
        poison |= values.back().isPoison();
      }
      if (poison)
        return Value();
      Value value = values.size() == 1 ? values[0] : Value::list(values);
      value = checkResult(value, method, env, stmt.values[0]->range, where);
      listResults(value, env, sources.line(stmt.range));
      return value;
    }
    }
  }
  error(503, method.range, "`" + where + "` returns nothing")
      .help("end it with `return x`");
  return Value();
}

void Elaborator::listResults(const Value &value, const Env &env,
                             unsigned line) {
  if (!env.self)
    return;
  auto list = [&](const Value &result, const std::string &name) {
    if (result.is(Value::TensorRef))
      emitter.listShape(Emitter::Role::Result, env.self->path(), name,
                        result.tensor().dims, line);
  };
  // A name that no value can have.
  if (!value.is(Value::List))
    list(value, "return");
  else
    for (size_t i = 0; i < value.items().size(); ++i)
      list(value.items()[i], "return[" + std::to_string(i) + "]");
}

void Elaborator::assign(const Stmt &stmt, Env &env) {
  Value value = eval(*stmt.values[0], env);
  if (stmt.targets.size() == 1) {
    if (stmt.type.hasShape && !value.isPoison()) {
      StringRef name = stmt.targets[0].name;
      auto what = [&] { return "`" + name.str() + "`"; };
      auto tensor = toTensor(value, stmt.values[0]->range, what());
      if (!tensor ||
          !checkShape(*tensor, stmt.type, env, stmt.values[0]->range, what, 206,
                      /*bindDims=*/true))
        value = Value();
    }
    storeLocal(stmt.targets[0], std::move(value), env);
    return;
  }
  if (!value.isPoison() &&
      (!value.is(Value::List) || value.items().size() != stmt.targets.size())) {
    error(505, stmt.values[0]->range,
          Twine(stmt.targets.size()) + " names on the left, but " +
              (value.is(Value::List)
                   ? Twine(value.items().size()) + " values on the right"
                   : "one value on the right: " + Twine(value.describe())));
    value = Value();
  }
  for (size_t i = 0; i < stmt.targets.size(); ++i)
    storeLocal(stmt.targets[i], value.isPoison() ? Value() : value.items()[i],
               env);
}

void Elaborator::storeLocal(const Target &target, Value value, Env &env) {
  if (value.is(Value::TensorRef)) {
    const Tensor &tensor = value.tensor();
    std::string path = env.self ? env.self->path() : "";
    unsigned line = sources.line(target.range);
    emitter.nameValue(tensor.handle, path, target.name, tensor.dims, line);
    emitter.listShape(Emitter::Role::Value, path, target.name, tensor.dims,
                      line);
  }
  env.locals[target.name] = std::move(value);
}
