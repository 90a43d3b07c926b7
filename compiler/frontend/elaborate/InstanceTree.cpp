//===- InstanceTree.cpp - the instances and parameters of a model ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/InstanceTree.h"

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
  std::string own = name;
  // `*` and `2*+1` are layer 0 and layer 1.
  if (parent->kind == Node::Kind::Repeat) {
    size_t plus = own.find('+');
    own = plus == std::string::npos ? "0" : own.substr(plus + 1);
  }
  return parent->readablePath() + "." + own;
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

const Method *tfm::findMethod(const Node &node, StringRef name) {
  if (node.decl)
    for (const Member &member : node.decl->members)
      if (member.kind == MemberKind::Method && member.name == name)
        return member.method.get();
  return nullptr;
}

int64_t InstanceTree::contextLength() const {
  if (!root)
    return 0;
  auto it = root->hyperparameters.find("context");
  return it != root->hyperparameters.end() && it->second.is(SymbolicValue::Int)
             ? it->second.dim().value()
             : 0;
}
