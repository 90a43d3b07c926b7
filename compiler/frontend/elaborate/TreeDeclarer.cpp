//===- TreeDeclarer.cpp - declares instances and parameters ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/TreeDeclarer.h"

#include "compiler/frontend/elaborate/Tensors.h"

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

/// How many names a parameter has in a checkpoint that the module spells out:
/// its own where the repeats around it have several bodies, and its aliases in
/// the repeats that are not around it.
static size_t countNames(const Param &param) {
  auto around = param.owner->repeats();
  auto layersOf = [](const Node &node, llvm::ArrayRef<Node *> kept) {
    size_t layers = 1;
    for (Node *repeat : node.repeats())
      if (!llvm::is_contained(kept, repeat))
        layers *= repeat->count.value();
    return layers;
  };
  bool counts = llvm::all_of(around, [](const Node *repeat) {
    return repeat->bodies.size() == 1 && !repeat->first;
  });
  size_t names = counts ? 1 : layersOf(*param.owner, {});
  for (const auto &[node, name] : param.aliases)
    names += layersOf(*node, around);
  return names;
}

void TreeDeclarer::declare(const Node &node) {
  auto isOwn = [&](const SymbolicValue &value) {
    return value.is(SymbolicValue::NodeRef) && value.node()->parent == &node;
  };
  if (node.kind != Node::Kind::List) {
    const SourceFile &file = sources.file(node.range.file);
    emitter.addModule(node, file.name(), file.line(node.range.begin));
  }
  switch (node.kind) {
  case Node::Kind::Repeat:
    for (const Node *body : node.bodies)
      if (body->parent == &node)
        declare(*body);
    return;
  case Node::Kind::List:
    for (const Node *element : node.elements)
      if (element->parent == &node)
        declare(*element);
    return;
  case Node::Kind::Layer:
    return;
  case Node::Kind::Module:
    break;
  }
  for (const auto &[name, value] : node.members) {
    if (value.is(SymbolicValue::ParamRef) && value.param()->owner == &node &&
        value.param()->name == name) {
      if (!budget.spend(countNames(*value.param()), value.param()->range))
        return;
      tensors.locate(value.param()->range);
      emitter.declareParam(*value.param());
    } else if (isOwn(value) && value.node()->name == name) {
      declare(*value.node());
    }
  }
  for (const auto &[name, value] : node.hyperparameters)
    if (isOwn(value) && value.node()->name == name &&
        !node.members.contains(name))
      declare(*value.node());
}
