//===- Instances.cpp - makes instances of modules -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/Instances.h"

#include "compiler/frontend/elaborate/Compilation.h"
#include "compiler/frontend/elaborate/Consts.h"
#include "compiler/frontend/elaborate/Expressions.h"
#include "compiler/frontend/elaborate/Hyperparameters.h"
#include "compiler/frontend/elaborate/ParamMembers.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

/// Modules nested deeper than this most often contain themselves.
static constexpr unsigned maxInstanceDepth = 64;

void Instances::reportEndless(Range range) {
  // The innermost module that stands among those around it, too; and the first
  // two of its instances, of which the one contains the other.
  auto isSame = [&](const Call &a, const Call &b) {
    return a.node && b.node && a.node->decl == b.node->decl;
  };
  size_t first = 0, second = 0;
  for (size_t last = callStack.size(); last-- > 0 && !second;)
    for (size_t i = 0; i < last && !second; ++i)
      if (isSame(callStack[i], callStack[last]))
        for (first = i, second = i + 1;
             !isSame(callStack[first], callStack[second]);)
          ++second;
  if (!second) {
    reporter
        .error(512, range,
               "modules are nested more than " + Twine(maxInstanceDepth) +
                   " deep here")
        .help("members of one module stand beside each other, and `repeat` "
              "makes many of one kind");
    return;
  }
  // The cycle may have begun further out with another of its modules.
  while (first > 0 && isSame(callStack[first - 1], callStack[second - 1])) {
    --first;
    --second;
  }
  // It is reported where the cycle closes.
  CallStack inside(callStack.begin() + second, callStack.end());
  callStack.resize(second);
  StringRef name = inside.front().node->decl->name;
  Diagnostic &d = reporter.error(501, inside.front().range,
                                 "`" + name + "` contains itself without end");
  std::string through;
  for (size_t i = first + 1; i < second; ++i)
    through += (i > first + 1 ? ", then `" : "`") + callStack[i].what + "`";
  if (!through.empty())
    d.note("`" + name + "` contains " + through);
  const Node *around = inside.front().node->parent;
  if (around && around->kind == Node::Kind::Repeat)
    d.help("the layers of a `repeat` are of another module than the one that "
           "it stands in");
  else
    d.help("a module that repeats is written `repeat(n) " + name + "(...)`");
  llvm::append_range(callStack, inside);
}

bool Instances::isEndless(Range range) {
  if (callStack.empty() || !callStack.back().node)
    return false;
  const Node &inner = *callStack.back().node;
  auto isSame = [&](const Call &call) {
    return call.node && call.node->decl == inner.decl &&
           llvm::equal(call.node->hyperparameters, inner.hyperparameters,
                       [](const auto &a, const auto &b) {
                         return a.second.sameAs(b.second);
                       });
  };
  if (llvm::none_of(llvm::ArrayRef(callStack).drop_back(), isSame))
    return false;
  budget.stop();
  reportEndless(range);
  return true;
}

SymbolicValue Instances::instantiate(const ast::Module &decl, const Unit *unit,
                                     std::vector<CallArg> &args, Range range,
                                     Scope &caller) {
  llvm::scope_exit restore([&] { --depth; });
  if (++depth > maxInstanceDepth && !budget.isStopped()) {
    budget.stop();
    reportEndless(range);
  }
  if (budget.isStopped() || !budget.spend(64, range))
    return SymbolicValue();
  tree.nodes.emplace_back();
  Node &node = tree.nodes.back();
  node.decl = &decl;
  node.unit = unit;
  node.range = range;
  node.parent = caller.parent ? caller.parent : caller.self;
  node.name = caller.pending;
  bool isRoot = &decl == tree.rootDecl && !tree.root;
  if (isRoot)
    tree.root = &node;
  std::vector<CallArg> ties;
  if (!hyperparameters.bind(decl, unit, args, range, node, isRoot, ties)) {
    if (isRoot)
      tree.root = nullptr;
    return SymbolicValue();
  }
  callStack.push_back({decl.name.str(), &node, range});
  elaborateBody(node, ties);
  callStack.pop_back();
  if (isRoot)
    dropUnnamedAliases();
  return SymbolicValue::object(SymbolicValue::NodeRef, &node);
}

Node *Instances::layer(Node &repeat, int64_t index) {
  budget.spend(1, repeat.range);
  tree.nodes.emplace_back();
  Node &node = tree.nodes.back();
  node.kind = Node::Kind::Layer;
  node.parent = &repeat;
  node.bound = true;
  node.range = repeat.range;
  node.unit = repeat.unit;
  node.index = index;
  return &node;
}

void Instances::dropUnnamedAliases() {
  for (Param &param : tree.params)
    llvm::erase_if(param.aliases,
                   [](const auto &alias) { return alias.first->unnamed(); });
}

//===----------------------------------------------------------------------===//
// Members
//===----------------------------------------------------------------------===//

void Instances::elaborateBody(Node &node, std::vector<CallArg> &ties) {
  Scope scope;
  scope.unit = node.unit;
  scope.self = &node;
  llvm::StringMap<Range> seen;
  llvm::SaveAndRestore silent(reporter.isSilent);
  for (const Member &member : node.decl->members) {
    if (member.kind == MemberKind::Require) {
      node.broken |=
          !expressions.checkRequire(member.value, member.condition, scope);
      reporter.isSilent |= node.broken;
      continue;
    }
    auto [place, isNew] = seen.try_emplace(member.name, member.range);
    if (!isNew) {
      reporter
          .error(303, member.range,
                 "`" + member.name + "` is declared twice in `" +
                     node.decl->name + "`")
          .help("the first one stands in line " +
                Twine(sources.line(place->second)));
      continue;
    }
    elaborateMember(node, member, scope, ties);
  }
  for (CallArg &tie : ties) {
    if (tie.expr == nullptr)
      continue;
    reporter.error(703, tie.nameRange,
                   "`" + node.decl->name + "` has no parameter `" + tie.name +
                       "` here: its condition is false");
  }
  for (const auto &[name, value] : node.hyperparameters) {
    auto member = node.members.find(name);
    bool isHidden = member != node.members.end();
    if (!isHidden || !member->second.sameAs(value))
      bindArgument(node, name.str(), value, isHidden);
  }
}

void Instances::elaborateMember(Node &node, const Member &member, Scope &scope,
                                std::vector<CallArg> &ties) {
  switch (member.kind) {
  case MemberKind::Value: {
    scope.pending = member.name.str();
    scope.numbered = member.value;
    SymbolicValue value = expressions.eval(*member.value, scope);
    scope.pending.clear();
    scope.numbered = nullptr;
    if (!budget.spend(value.size(), member.range))
      value = SymbolicValue();
    if (holdsTensor(value)) {
      reporter
          .error(506, member.range,
                 "`" + member.name +
                     "` would be a tensor that is computed here")
          .help(tensorHelp);
      value = SymbolicValue();
    } else if (value.is(SymbolicValue::Module)) {
      reporter
          .error(506, member.value->range,
                 "`" + member.name + "` is " + value.describe())
          .help("make an instance: `" + sources.text(member.value->range) +
                "(...)`");
      value = SymbolicValue();
    }
    bindMember(node, member.name, value, member.value->range);
    return;
  }
  case MemberKind::Param:
    paramMembers.declare(node, member, scope, ties);
    return;
  case MemberKind::Const: {
    compilation.consts.emplace_back();
    Const &constant = compilation.consts.back();
    constant.owner = &node;
    constant.unit = node.unit;
    if (member.indices.empty()) {
      // Without indices it is a plain value.
      bindMember(node, member.name, expressions.eval(*member.value, scope),
                 member.value->range);
      return;
    }
    consts.declare(constant, member, scope);
    consts.check(constant);
    node.members[member.name] =
        SymbolicValue::object(SymbolicValue::ConstRef, &constant);
    return;
  }
  case MemberKind::Require:
  case MemberKind::Method:
    return;
  }
}

/// Whether a member is an instance, or a list with it.
static bool holds(const Node &member, const Node &instance) {
  return &member == &instance ||
         llvm::any_of(member.elements, [&](const Node *element) {
           return holds(*element, instance);
         });
}

void Instances::bindArgument(Node &node, const std::string &name,
                             const SymbolicValue &value, bool isHidden) {
  if (value.is(SymbolicValue::List))
    for (auto [i, item] : llvm::enumerate(value.items()))
      bindArgument(node, name + "." + std::to_string(i), item, isHidden);
  if (!value.is(SymbolicValue::NodeRef))
    return;
  Node &argument = *value.node();
  if (argument.parent == &node && argument.name == name) {
    if (isHidden) {
      argument.bound = false;
      return;
    }
    hold(node, name, argument);
    node.arguments.push_back(&argument);
    return;
  }
  // It is held elsewhere: by a member of this module, which names it then, or
  // where it comes from, or by a module that it has been passed on to.
  bool isMember = llvm::any_of(node.members, [&](const auto &member) {
    return member.second.is(SymbolicValue::NodeRef) &&
           holds(*member.second.node(), argument);
  });
  if (!isHidden && !isMember)
    addAliases(argument, node, name);
}

/// Whether a value is an instance, or a list with one in it.
static bool holdsInstance(const SymbolicValue &value) {
  return value.is(SymbolicValue::NodeRef) ||
         (value.is(SymbolicValue::List) &&
          llvm::any_of(value.items(), holdsInstance));
}

void Instances::hold(Node &parent, std::string name, Node &instance) {
  instance.parent = &parent;
  instance.name = std::move(name);
  instance.bound = true;
  addLayerAliases(instance, instance, "", instance.first.value_or(0));
}

Node *Instances::makeList(Node &parent, StringRef name,
                          const SymbolicValue &value, Range range) {
  tree.nodes.emplace_back();
  Node &list = tree.nodes.back();
  list.kind = Node::Kind::List;
  list.parent = &parent;
  list.name = name.str();
  list.bound = true;
  list.unit = parent.unit;
  list.range = range;
  int64_t next = 0;
  for (auto [at, item] : llvm::enumerate(value.items())) {
    if (item.isPoison())
      return nullptr;
    if (item.is(SymbolicValue::None))
      continue; // `if last then Linear(width, width) else none`
    if (!holdsInstance(item)) {
      Diagnostic &d = reporter.error(506, range,
                                     "element " + Twine(at) +
                                         " of this list of instances is " +
                                         item.describe());
      if (item.is(SymbolicValue::Builtin) || item.is(SymbolicValue::Function))
        d.help("a list of instances is called one after the other: call a "
               "function in `forward`, or in the `forward` of a module of its "
               "own");
      return nullptr;
    }
    const int64_t place = next;
    std::string index = std::to_string(place);
    if (item.is(SymbolicValue::List)) {
      Node *inner = makeList(list, index, item, range);
      if (!inner)
        return nullptr;
      list.elements.push_back(inner);
      ++next;
      continue;
    }
    bool isRepeat = item.node()->kind == Node::Kind::Repeat;
    next += isRepeat ? item.node()->layers() : 1;
    if (isRepeat && !item.node()->bound) {
      item.node()->first = place;
      if (item.node()->layers() > 1)
        index += "-" + std::to_string(next - 1);
    }
    if (item.node()->bound) {
      addElementAliases(*item.node(), list, "", place);
    } else {
      hold(list, index, *item.node());
    }
    list.elements.push_back(item.node());
  }
  return &list;
}

void Instances::bindMember(Node &node, StringRef name,
                           const SymbolicValue &value, Range range) {
  SymbolicValue bound = value;
  if (value.is(SymbolicValue::List) && holdsInstance(value)) {
    Node *list = makeList(node, name, value, range);
    bound = list ? SymbolicValue::object(SymbolicValue::NodeRef, list)
                 : SymbolicValue();
  } else if (value.is(SymbolicValue::NodeRef)) {
    if (value.node()->bound) {
      addAliases(*value.node(), node, name);
    } else {
      hold(node, name.str(), *value.node());
    }
  } else if (value.is(SymbolicValue::ParamRef)) {
    value.param()->aliases.push_back({&node, name.str()});
  }
  node.members[name] = bound;
}

void Instances::addAliases(const Node &shared, const Node &at, StringRef name) {
  if ((shared.parent == &at && shared.name == name) ||
      !budget.spend(1 + shared.params.size(), shared.range))
    return;
  std::string prefix = name.str() + ".";
  for (Param *param : shared.params)
    param->aliases.push_back({&at, prefix + param->name});
  for (const auto &[member, value] : shared.members)
    if (value.is(SymbolicValue::NodeRef) && value.node()->parent == &shared)
      addAliases(*value.node(), at, prefix + member.str());
  for (const Node *argument : shared.arguments)
    addAliases(*argument, at, prefix + argument->name);
  int64_t place = 0;
  for (const Node *element : shared.elements)
    place += addElementAliases(*element, at, prefix, place);
  addLayerAliases(shared, at, prefix, 0);
}

int64_t Instances::addElementAliases(const Node &shared, const Node &at,
                                     const std::string &prefix, int64_t place) {
  if (shared.kind != Node::Kind::Repeat) {
    addAliases(shared, at, prefix + std::to_string(place));
    return 1;
  }
  addLayerAliases(shared, at, prefix, place);
  return shared.layers();
}

void Instances::addLayerAliases(const Node &repeat, const Node &at,
                                const std::string &prefix, int64_t place) {
  auto period = static_cast<int64_t>(repeat.bodies.size());
  for (auto [i, body] : llvm::enumerate(repeat.bodies)) {
    int64_t first = place + static_cast<int64_t>(i);
    bool isOwn = body->parent == &repeat;
    if (isOwn && &at != &repeat)
      addAliases(*body, at,
                 prefix + (period == 1 && first == 0
                               ? "*"
                               : std::to_string(period) + "*+" +
                                     std::to_string(first)));
    // A `*` in the prefix is the number of a layer around the parameters, which
    // are not those of layers here.
    if (isOwn || StringRef(prefix).contains('*'))
      continue;
    for (int64_t layer = 0; layer < repeat.iterations(); ++layer)
      addAliases(*body, at, prefix + std::to_string(first + layer * period));
  }
}
