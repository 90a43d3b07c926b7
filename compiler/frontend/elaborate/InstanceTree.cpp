//===- InstanceTree.cpp - the instances and parameters of a model ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/InstanceTree.h"

#include "runtime/tfm_model.h"

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

std::string Node::path() const {
  if (!parent)
    return "";
  std::string above = parent->path();
  return above.empty() ? name : above + "." + name;
}

std::string Node::readablePath() const {
  if (!parent)
    return decl ? decl->name.str() : "";
  if (parent->kind != Node::Kind::Repeat)
    return parent->readablePath() + "." + name;
  int64_t number = index;
  if (kind != Kind::Layer)
    number = llvm::find(parent->bodies, this) - parent->bodies.begin();
  const Node *holder = parent->first ? parent->parent : parent;
  return holder->readablePath() + "." +
         std::to_string(parent->first.value_or(parent->begin) + number);
}

const Node *Node::unnamed() const {
  const Node *found = nullptr;
  for (const Node *node = this; node->parent; node = node->parent)
    if (!node->bound)
      found = node;
  return found;
}

int64_t Node::layers() const {
  if (kind == Kind::Repeat)
    return count.value();
  int64_t all = 0;
  for (const Node *element : elements)
    all += element->kind == Kind::Repeat ? element->layers() : 1;
  return all;
}

int64_t Node::iterations() const {
  return count.value() / static_cast<int64_t>(bodies.size());
}

llvm::SmallVector<Node *, 2> Node::repeats() const {
  llvm::SmallVector<Node *, 2> found;
  for (Node *node = parent; node; node = node->parent)
    if (node->kind == Kind::Repeat)
      found.insert(found.begin(), node);
  return found;
}

std::string Param::path() const {
  std::string above = owner->path();
  return above.empty() ? name : above + "." + name;
}

std::vector<std::string> tfm::layerNames(const Node *node, StringRef name,
                                         llvm::ArrayRef<const Node *> kept) {
  // From the inside out: each step prepends a part to every name; a repeat
  // multiplies the names, its own index being the slower one.
  std::vector<std::string> names = {name.str()};
  for (; node && node->parent; node = node->parent) {
    std::vector<std::string> longer;
    const Node &parent = *node->parent;
    if (node->first)
      continue;
    if (parent.kind == Node::Kind::Repeat) {
      int64_t body = llvm::find(parent.bodies, node) - parent.bodies.begin();
      int64_t first = parent.first.value_or(0) + body;
      auto period = static_cast<int64_t>(parent.bodies.size());
      auto prepend = [&](const std::string &part) {
        for (const std::string &inner : names)
          longer.push_back(part + "." + inner);
      };
      if (!llvm::is_contained(kept, &parent))
        for (int64_t i = 0; i < parent.iterations(); ++i)
          prepend(std::to_string(i * period + first));
      else if (period == 1 && first == 0)
        prepend("*");
      else
        prepend(std::to_string(period) + "*+" + std::to_string(first));
    } else {
      for (const std::string &inner : names)
        longer.push_back(node->name + "." + inner);
    }
    names = std::move(longer);
  }
  return names;
}

const Method *tfm::findMethod(const Node &node, StringRef name) {
  if (node.decl)
    for (const Member &member : node.decl->members)
      if (member.kind == MemberKind::Method && member.name == name)
        return member.method.get();
  return nullptr;
}

bool tfm::readsPrompts(const Method &forward) {
  return llvm::any_of(forward.parameters, [](const Parameter &parameter) {
    return parameter.name == "source";
  });
}

bool tfm::takesTokensAlone(const Method &forward) {
  return llvm::all_of(forward.parameters, [](const Parameter &parameter) {
    const TypeExpr &type = parameter.type;
    return !type.hasShape ||
           (parameter.name == TFM_IN_TOKENS &&
            elemOf(type.element) == Elem::Int && type.shape.size() == 2);
  });
}

int64_t InstanceTree::contextLength() const {
  if (!root)
    return 0;
  auto it = root->hyperparameters.find("context");
  return it != root->hyperparameters.end() && it->second.is(SymbolicValue::Int)
             ? it->second.dim().value()
             : 0;
}
