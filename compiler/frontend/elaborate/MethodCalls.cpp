//===- MethodCalls.cpp - calls of forward, statements ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/MethodCalls.h"

#include "compiler/frontend/elaborate/Expressions.h"
#include "compiler/frontend/elaborate/Signatures.h"
#include "compiler/frontend/elaborate/Tensors.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

static constexpr unsigned maxCallDepth = 128;

/// Whether an instance has an argument `only` of its own.
static bool takesOnly(const Node &node) {
  const Method *forward = findMethod(node, "forward");
  return !forward || llvm::any_of(forward->parameters, [](const Parameter &p) {
    return p.name == "only";
  });
}

/// Whether it must be given.
static bool needsOnly(const Node &node) {
  const Method *forward = findMethod(node, "forward");
  return forward && llvm::any_of(forward->parameters, [](const Parameter &p) {
           return p.name == "only" && !p.value;
         });
}

/// How many values a call returns, as far as that is written down: what its
/// layers, or its elements, hand on.
static size_t resultsOf(const Node &node) {
  switch (node.kind) {
  case Node::Kind::Repeat:
    return node.bodies.empty() ? 1 : resultsOf(*node.bodies[0]);
  case Node::Kind::List:
    return node.elements.empty() ? 1 : resultsOf(*node.elements[0]);
  case Node::Kind::Layer:
    return 1;
  case Node::Kind::Module:
    break;
  }
  const Method *forward = findMethod(node, "forward");
  if (!forward)
    return 1;
  if (!forward->results.empty())
    return forward->results.size();
  const bool returns =
      !forward->body.empty() && forward->body.back().kind == StmtKind::Return;
  return returns ? forward->body.back().values.size() : 1;
}

static bool isNamed(const CallArg &arg) { return !arg.name.empty(); }

/// Whether a value is so many.
static bool isOf(const SymbolicValue &value, size_t count) {
  return value.is(SymbolicValue::List) ? value.items().size() == count
                                       : count == 1;
}

/// `one`, `2`.
static std::string numberOf(size_t count) {
  return count == 1 ? "one" : std::to_string(count);
}

/// `2 values`.
static std::string valuesIn(const SymbolicValue &value) {
  size_t count = value.is(SymbolicValue::List) ? value.items().size() : 1;
  return numberOf(count) + (count == 1 ? " value" : " values");
}

/// `first 2 arguments`.
static std::string firstArguments(size_t count) {
  return count == 1 ? "first argument"
                    : "first " + std::to_string(count) + " arguments";
}

/// `x, y = h(x, y)` for two values.
static std::string exampleOfCall(StringRef name, size_t count) {
  static constexpr StringRef letters[] = {"x", "y", "z"};
  std::string values;
  for (size_t i = 0; i != std::min(count, std::size(letters)); ++i)
    values += (i ? ", " : "") + letters[i].str();
  if (count > std::size(letters))
    values += ", ...";
  return (count == 1 ? "" : values + " = ") + name.str() + "(" + values + ")";
}

std::string tfm::meantAsForward(const Module &module) {
  std::vector<std::string> methods;
  for (const Member &member : module.members) {
    if (!member.method)
      continue;
    if (llvm::is_contained({"__call__", "call", "apply"}, member.name))
      return member.name.str();
    methods.push_back(member.name.str());
  }
  return closestName("forward", methods);
}

SymbolicValue MethodCalls::callNode(Node &node, std::vector<CallArg> &args,
                                    Range range, Scope &scope) {
  if (!budget.spend(1, range))
    return SymbolicValue();
  switch (node.kind) {
  case Node::Kind::Module: {
    if (const Method *forward = findMethod(node, "forward"))
      return callMethod(&node, *forward, node.unit, args, range);
    Diagnostic &d = reporter.error(
        502, range,
        "`" + node.decl->name + "` has no `forward`, so it cannot be called");
    std::string guess = meantAsForward(*node.decl);
    d.help("a call of a module is a call of its method `forward`" +
           (guess.empty() ? "" : ": is `" + guess + "` meant to be it?"));
    return SymbolicValue();
  }
  case Node::Kind::Repeat:
    return callRepeat(node, args, range, scope);
  case Node::Kind::Layer:
    return callLayer(node, args, range, scope);
  case Node::Kind::List:
    return callList(node, args, range, scope);
  }
  return SymbolicValue();
}

SymbolicValue MethodCalls::callList(Node &node, std::vector<CallArg> &args,
                                    Range range, Scope &scope) {
  auto only = llvm::find_if(
      args, [](const CallArg &arg) { return arg.name == "only"; });
  auto alone = llvm::find_if(node.elements, [](const Node *element) {
    return element->kind == Node::Kind::Module;
  });
  if (only != args.end() && alone != node.elements.end() &&
      !takesOnly(**alone)) {
    reporter
        .error(402, only->nameRange,
               "the list `" + node.name +
                   "` has no argument `only`: a repeat has, and `" + node.name +
                   "[" + Twine(alone - node.elements.begin()) + "]` is not one")
        .help("make it one, `repeat(1) " + (*alone)->decl->name + "(...)`");
    return SymbolicValue();
  }
  if (node.elements.size() == 1)
    return callNode(*node.elements[0], args, range, scope);
  // A name may say which one that is: that of what each takes first.
  auto takesFirst = [&](const Node *element) {
    const Method *forward = findMethod(*element, "forward");
    return forward && !forward->parameters.empty() &&
           forward->parameters[0].name == args[0].name;
  };
  const size_t count = resultsOf(node);
  if (args.size() < count ||
      llvm::any_of(llvm::ArrayRef(args).slice(1, count - 1), isNamed) ||
      (isNamed(args[0]) && !llvm::all_of(node.elements, takesFirst))) {
    reporter
        .error(401, range,
               "a list carries its " + firstArguments(count) +
                   " through its elements: it needs " +
                   (count == 1 ? "one" : "them"))
        .help("write `" + exampleOfCall(node.name, count) + "`");
    return SymbolicValue();
  }
  // One after another; further arguments are the same for all.
  std::vector<CallArg> next = args;
  for (Node *element : node.elements) {
    std::vector<CallArg> own = next;
    SymbolicValue result = callNode(*element, own, range, scope);
    if (result.isPoison() || element == node.elements.back())
      return result;
    if (!isOf(result, count)) {
      reporter.error(603, range,
                     "`" + element->readablePath() + "` returns " +
                         valuesIn(result) + ", and the next one takes " +
                         numberOf(count));
      return SymbolicValue();
    }
    if (count == 1)
      next[0].value = result;
    else
      for (auto [arg, value] : llvm::zip(next, result.items()))
        arg.value = value;
  }
  return SymbolicValue();
}

SymbolicValue MethodCalls::callRepeat(Node &node, std::vector<CallArg> &args,
                                      Range range, Scope &scope) {
  if (node.bodies.empty())
    return SymbolicValue();
  if (!scope.inMethod) {
    reporter.error(506, range,
                   "a repeat is called in a method, not in the body of a "
                   "module");
    return SymbolicValue();
  }
  auto carried = carriedBy(node, args, range);
  if (!carried)
    return SymbolicValue();
  std::optional<SymbolicTensor> only;
  if (auto given = llvm::find_if(
          args, [](const CallArg &arg) { return arg.name == "only"; });
      given != args.end()) {
    if (given->value.isPoison())
      return SymbolicValue();
    if (carried->size() > 1) {
      reporter.error(606, given->nameRange,
                     "layers that `only` chooses hand on one value, and those "
                     "of `" +
                         node.readablePath() + "` return " +
                         Twine(carried->size()));
      return SymbolicValue();
    }
    only = choiceOfLayers(*given, carried->front());
    if (!only)
      return SymbolicValue();
    for (const Node *body : node.bodies)
      if (body->kind == Node::Kind::Module && needsOnly(*body)) {
        reporter
            .error(401, given->nameRange,
                   "`only` of a repeat says which layers run and reaches none "
                   "of them, but `" +
                       body->decl->name + ".forward` needs a value for `only`")
            .help("give the argument of `" + body->decl->name +
                  ".forward` another name");
        return SymbolicValue();
      }
    args.erase(given);
  }
  int64_t iterations =
      node.count.value() / static_cast<int64_t>(node.bodies.size());
  std::vector<SymbolicTensor> state = *carried;
  auto setHandles = [&](const std::vector<Emitter::Handle> &handles) {
    for (auto [tensor, handle] : llvm::zip(state, handles))
      tensor.handle = handle;
  };
  auto handlesOf = [](llvm::ArrayRef<SymbolicTensor> all) {
    return llvm::map_to_vector(
        all, [](const SymbolicTensor &tensor) { return tensor.handle; });
  };
  tensors.locate(range);
  setHandles(emitter.beginRepeat(&node, iterations, handlesOf(state)));
  for (auto [index, body] : llvm::enumerate(node.bodies)) {
    std::vector<CallArg> own = args;
    for (auto [arg, tensor] : llvm::zip(own, state))
      arg.value = SymbolicValue::tensor(tensor);
    SymbolicValue result = callNode(*body, own, range, scope);
    auto next = result.isPoison() ? std::nullopt
                                  : nextOf(node, result, *carried, range);
    if (!next) {
      emitter.abandonRepeat();
      return SymbolicValue();
    }
    if (only) {
      tensors.locate(range);
      SymbolicTensor &made = next->front();
      made.handle = emitter.select(isAmong(node, static_cast<int64_t>(index),
                                           *only, carried->front().dims),
                                   made.handle, state.front().handle);
    }
    state = std::move(*next);
  }
  tensors.locate(range);
  setHandles(emitter.endRepeat(handlesOf(state)));
  std::vector<SymbolicValue> values;
  for (auto [tensor, type] : llvm::zip(state, *carried)) {
    tensor.dims = type.dims;
    values.push_back(SymbolicValue::tensor(tensor));
  }
  return values.size() == 1 ? values.front()
                            : SymbolicValue::list(std::move(values));
}

std::optional<std::vector<SymbolicTensor>>
MethodCalls::carriedBy(const Node &repeat, llvm::ArrayRef<CallArg> args,
                       Range range) {
  const size_t count = resultsOf(repeat);
  if (args.size() < count || llvm::any_of(args.take_front(count), isNamed)) {
    reporter
        .error(401, range,
               "a repeat carries its " + firstArguments(count) +
                   " through the layers" +
                   (count == 1 ? ": it needs one"
                               : ", which return as many values: it needs "
                                 "them"))
        .help("write `" + exampleOfCall(count == 1 ? "h" : repeat.name, count) +
              "`");
    return std::nullopt;
  }
  std::vector<SymbolicTensor> carried;
  for (const CallArg &arg : args.take_front(count)) {
    if (arg.value.isPoison())
      return std::nullopt;
    auto tensor = tensors.toTensor(arg.value, arg.range, "a repeat");
    if (!tensor)
      return std::nullopt;
    carried.push_back(*tensor);
  }
  return carried;
}

std::optional<std::vector<SymbolicTensor>>
MethodCalls::nextOf(const Node &repeat, const SymbolicValue &result,
                    llvm::ArrayRef<SymbolicTensor> carried, Range range) {
  if (!isOf(result, carried.size())) {
    reporter
        .error(603, range,
               "a layer of `" + repeat.readablePath() + "` returns " +
                   valuesIn(result) + ", and the next layer takes " +
                   numberOf(carried.size()))
        .help("each layer returns as many values as go from layer to layer; "
              "what is the same for all is a further argument");
    return std::nullopt;
  }
  llvm::ArrayRef<SymbolicValue> values(result);
  if (result.is(SymbolicValue::List))
    values = result.items();
  std::vector<SymbolicTensor> next;
  for (auto [value, type] : llvm::zip(values, carried)) {
    auto tensor = tensors.toTensor(value, range, "a layer's result");
    if (!tensor)
      return std::nullopt;
    if (tensor->dims != type.dims || tensor->elem != type.elem) {
      reporter
          .error(603, range,
                 "a layer of `" + repeat.readablePath() + "` turns " +
                     showShape(type.dims, type.elem) + " into " +
                     showShape(tensor->dims, tensor->elem) +
                     ": the next layer cannot take it")
          .help("what a repeat carries keeps its shape");
      return std::nullopt;
    }
    next.push_back(*tensor);
  }
  return next;
}

std::optional<SymbolicTensor>
MethodCalls::choiceOfLayers(const CallArg &only,
                            const SymbolicTensor &carried) {
  auto ids = tensors.toTensor(only.value, only.range, "`only`");
  if (!ids)
    return std::nullopt;
  if (ids->elem != Elem::Int) {
    reporter.error(211, only.range,
                   "`only` takes numbers of layers, which are integers, not " +
                       showShape(ids->dims, ids->elem));
    return std::nullopt;
  }
  size_t rows = ids->dims.size() - std::min<size_t>(1, ids->dims.size());
  if (ids->dims.empty() || rows > carried.dims.size() ||
      !llvm::equal(llvm::ArrayRef(ids->dims).take_front(rows),
                   llvm::ArrayRef(carried.dims).take_front(rows))) {
    reporter
        .error(606, only.range,
               "`only` of " + showShape(ids->dims, ids->elem) +
                   " does not say which layers the rows of " +
                   showShape(carried.dims, carried.elem) + " go through")
        .help("its axes but the last are the first ones of what the repeat "
              "carries: `int[B, T, k]` for `[B, T, width]`");
    return std::nullopt;
  }
  // The name of an axis that is carried shows that the last one is missing.
  StringRef last = ids->dims.back().name();
  if (!last.empty() && rows < carried.dims.size() &&
      last == carried.dims[rows].name()) {
    std::string axes;
    for (const Dim &dim : ids->dims)
      axes += (axes.empty() ? "" : " ") + dim.str();
    reporter
        .error(606, only.range,
               "`only` of " + showShape(ids->dims, ids->elem) +
                   " has no axis for the numbers of layers: all of its own are "
                   "the first ones of " +
                   showShape(carried.dims, carried.elem))
        .help("`rearrange(ids, \"" + axes + " -> " + axes +
              " 1\")` has one number for each of its rows");
    return std::nullopt;
  }
  return ids;
}

Emitter::Handle MethodCalls::isAmong(const Node &repeat, int64_t body,
                                     const SymbolicTensor &ids,
                                     const Dims &dims) {
  auto bodies = static_cast<int64_t>(repeat.bodies.size());
  std::vector<double> numbers;
  for (int64_t i = body; i < repeat.count.value(); i += bodies)
    numbers.push_back(static_cast<double>(repeat.first.value_or(0) + i));
  SymbolicTensor number{
      emitter.perLayer(&repeat, numbers, Elem::Int), Elem::Int, {}};
  auto isIt = emitter.compare("eq", ids.handle,
                              tensors.broadcastTo(number, ids.dims).handle);
  auto axis = static_cast<int64_t>(ids.dims.size()) - 1;
  Dims rows = ids.dims;
  rows.back() = Dim(1);
  auto isAny = emitter.compare(
      "gt", emitter.reduceMax(emitter.cast(isIt, Elem::Float), axis),
      tensors.splat(0, Elem::Float, rows).handle);
  rows.resize(dims.size(), Dim(1));
  SymbolicTensor perRow{isAny, Elem::Bool, ids.dims};
  perRow.dims.back() = Dim(1);
  return tensors.broadcastTo(tensors.reshapeTo(perRow, rows), dims).handle;
}

SymbolicValue MethodCalls::callLayer(Node &node, std::vector<CallArg> &args,
                                     Range range, Scope &scope) {
  Node &repeat = *node.parent;
  if (repeat.bodies.empty())
    return SymbolicValue();
  // Its weights are those of all layers inside of the loop.
  if (emitter.insideRepeat(&repeat)) {
    reporter.error(604, range,
                   "`" + node.readablePath() +
                       "` cannot be called while the repeat that it is a layer "
                       "of is called");
    return SymbolicValue();
  }
  auto bodies = static_cast<int64_t>(repeat.bodies.size());
  emitter.beginLayer(&repeat, node.index / bodies);
  SymbolicValue result =
      callNode(*repeat.bodies[node.index % bodies], args, range, scope);
  emitter.endLayer(&repeat);
  return result;
}

SymbolicValue MethodCalls::callMethod(Node *node, const Method &method,
                                      const Unit *unit,
                                      std::vector<CallArg> &args, Range range) {
  std::string where =
      node ? (node->decl->name + "." + method.name).str() : method.name.str();
  llvm::SaveAndRestore silent(reporter.isSilent,
                              reporter.isSilent || (node && node->broken));
  if (budget.isStopped() || !budget.spend(8, range))
    return SymbolicValue();
  if (callStack.size() > maxCallDepth) {
    budget.stop();
    // What has been called last may be something that ends, within what does
    // not: that is called within itself.
    CallStack all = callStack;
    all.push_back({where, node, range});
    auto isWithinItself = [&](const Call &call) {
      return llvm::count_if(all, [&](const Call &other) {
               return other.what == call.what && other.node == call.node;
             }) > 1;
    };
    while (!all.empty() && !isWithinItself(all.back()))
      all.pop_back();
    if (all.empty()) {
      reporter
          .error(512, range,
                 "calls are nested more than " + Twine(maxCallDepth) +
                     " deep here")
          .help("what calls one another in a long chain is written in a row, "
                "or as a `repeat`");
      return SymbolicValue();
    }
    Call endless = all.back();
    all.pop_back();
    std::swap(all, callStack);
    reporter.error(501, endless.range,
                   "`" + endless.what + "` calls itself without end");
    std::swap(all, callStack);
    return SymbolicValue();
  }
  llvm::SmallVector<StringRef> names;
  llvm::SmallVector<bool> required;
  for (const Parameter &parameter : method.parameters) {
    names.push_back(parameter.name);
    required.push_back(!parameter.value);
  }
  auto bound = arguments.bind(names, required, args, range, where);
  if (!bound)
    return SymbolicValue();
  Scope scope;
  scope.unit = unit;
  scope.self = node;
  scope.inMethod = true;
  scope.where = where;
  scope.call = range;
  bool valid = true;
  for (size_t i = 0; i < names.size(); ++i) {
    const Parameter &parameter = method.parameters[i];
    SymbolicValue value;
    Range at = parameter.range;
    if (CallArg *arg = (*bound)[i]) {
      value = arg->value;
      at = arg->range;
    } else {
      value = expressions.eval(*parameter.value, scope);
    }
    SymbolicValue checked =
        signatures.checkArgument(parameter, value, scope, at, where);
    valid &= !checked.isPoison();
    if (node && checked.is(SymbolicValue::TensorRef))
      listShape(Emitter::Role::Argument, node->path(), parameter.name,
                checked.tensor(), parameter.range);
    scope.locals[parameter.name] = checked;
  }
  callStack.push_back({where, node, range});
  llvm::scope_exit restore([&] { callStack.pop_back(); });
  SymbolicValue result =
      node && node->broken ? SymbolicValue() : runBody(method, scope, where);
  if (!valid)
    return SymbolicValue();
  if (!result.isPoison())
    return result;
  return signatures.promisedResult(method, scope);
}

//===----------------------------------------------------------------------===//
// Statements
//===----------------------------------------------------------------------===//

SymbolicValue MethodCalls::runBody(const Method &method, Scope &scope,
                                   StringRef where) {
  for (size_t i = 0; i < method.body.size(); ++i) {
    const Stmt &stmt = method.body[i];
    switch (stmt.kind) {
    case StmtKind::Require:
      if (!expressions.checkRequire(
              stmt.values[0], stmt.values.size() > 1 ? stmt.values[1] : nullptr,
              scope))
        return SymbolicValue();
      break;
    case StmtKind::Assign:
      assign(stmt, scope);
      break;
    case StmtKind::Return: {
      if (i + 1 < method.body.size())
        reporter
            .error(504, method.body[i + 1].range,
                   "nothing is computed after `return`")
            .help("a method has one `return`, at its end");
      std::vector<SymbolicValue> values;
      bool poison = false;
      for (const Expr *expr : stmt.values) {
        values.push_back(expressions.eval(*expr, scope));
        poison |= values.back().isPoison();
      }
      if (poison)
        return SymbolicValue();
      SymbolicValue value =
          values.size() == 1 ? values[0] : SymbolicValue::list(values);
      value = signatures.checkResult(value, method, scope,
                                     stmt.values[0]->range, where);
      listResults(value, scope, stmt.range);
      return value;
    }
    }
  }
  reporter.error(503, method.range, "`" + where + "` returns nothing")
      .help("end it with `return x`");
  return SymbolicValue();
}

void MethodCalls::listShape(Emitter::Role role, llvm::StringRef path,
                            llvm::StringRef name, const SymbolicTensor &tensor,
                            Range where) {
  const SourceFile &file = sources.file(where.file);
  emitter.listShape(role, path, name, tensor.dims, file.name(),
                    file.line(where.begin));
}

void MethodCalls::listResults(const SymbolicValue &value, const Scope &scope,
                              Range where) {
  if (!scope.self)
    return;
  auto list = [&](const SymbolicValue &result, const std::string &name) {
    if (result.is(SymbolicValue::TensorRef))
      listShape(Emitter::Role::Result, scope.self->path(), name,
                result.tensor(), where);
  };
  // A name that no value can have.
  if (!value.is(SymbolicValue::List))
    list(value, "return");
  else
    for (size_t i = 0; i < value.items().size(); ++i)
      list(value.items()[i], "return[" + std::to_string(i) + "]");
}

void MethodCalls::assign(const Stmt &stmt, Scope &scope) {
  SymbolicValue value = expressions.eval(*stmt.values[0], scope);
  if (stmt.targets.size() == 1) {
    StringRef name = stmt.targets[0].name;
    auto what = [&] { return "`" + name.str() + "`"; };
    if (stmt.type.isGiven && !stmt.type.hasShape && !value.isPoison() &&
        !value.is(SymbolicValue::None))
      value =
          signatures.checkValue(value, stmt.type, stmt.values[0]->range, what);
    if (stmt.type.hasShape && !value.isPoison()) {
      if (elemOf(stmt.type.element) == Elem::Float)
        value = asFloat(value);
      auto tensor = tensors.toTensor(value, stmt.values[0]->range, what());
      if (!tensor || !signatures.checkShape(*tensor, stmt.type, scope,
                                            stmt.values[0]->range, what, 206,
                                            /*bindDims=*/true))
        value = SymbolicValue();
    }
    storeLocal(stmt.targets[0], std::move(value), scope);
    return;
  }
  if (!value.isPoison() && (!value.is(SymbolicValue::List) ||
                            value.items().size() != stmt.targets.size())) {
    reporter.error(
        505, stmt.values[0]->range,
        Twine(stmt.targets.size()) + " names on the left, but " +
            (value.is(SymbolicValue::List)
                 ? Twine(value.items().size()) + " values on the right"
                 : "one value on the right: " + Twine(value.describe())));
    value = SymbolicValue();
  }
  for (size_t i = 0; i < stmt.targets.size(); ++i)
    storeLocal(stmt.targets[i],
               value.isPoison() ? SymbolicValue() : value.items()[i], scope);
}

void MethodCalls::storeLocal(const Target &target, SymbolicValue value,
                             Scope &scope) {
  if (value.is(SymbolicValue::TensorRef)) {
    const SymbolicTensor &tensor = value.tensor();
    std::string path = scope.self ? scope.self->path() : "";
    emitter.nameValue(tensor.handle, path, target.name, tensor.dims,
                      sources.line(target.range));
    listShape(Emitter::Role::Local, path, target.name, tensor, target.range);
  }
  scope.locals[target.name] = std::move(value);
}
