//===- TreeDeclarer.cpp - declares instances and parameters ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/TreeDeclarer.h"

#include "compiler/frontend/elaborate/Tensors.h"

#include "llvm/ADT/SmallPtrSet.h"

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

/// More parameters are a mistake: their bytes, with gradients and an
/// optimizer's state, can still be counted in 64 bits.
static constexpr double maxParameters = 1e17;

void TreeDeclarer::count(const Param &param) {
  double own = 1;
  for (const Dim &dim : param.dims)
    own *= static_cast<double>(dim.value());
  for (const Node *repeat : param.owner->repeats())
    own *= static_cast<double>(repeat->count.value());
  if (elements <= maxParameters && elements + own > maxParameters)
    reporter.error(218, param.owner->range,
                   "with `" + param.owner->readablePath() + "." + param.name +
                       "` the model has more than 1e17 parameters, which is "
                       "too many");
  elements += own;
}

void TreeDeclarer::declare(const Node &node) {
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
  case Node::Kind::List: {
    // What stands in it twice has its first name, and an alias.
    llvm::SmallPtrSet<const Node *, 8> declared;
    for (const Node *element : node.elements)
      if (element->parent == &node && declared.insert(element).second)
        declare(*element);
    return;
  }
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
      count(*value.param());
      emitter.declareParam(*value.param());
    } else if (value.is(SymbolicValue::NodeRef) &&
               value.node()->parent == &node && value.node()->name == name) {
      declare(*value.node());
    }
  }
  for (const Node *argument : node.arguments)
    declare(*argument);
}
