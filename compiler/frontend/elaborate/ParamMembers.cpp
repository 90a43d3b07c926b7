//===- ParamMembers.cpp - declares the parameters of an instance ----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/ParamMembers.h"

#include "compiler/frontend/elaborate/Builtins.h"
#include "compiler/frontend/elaborate/Dimensions.h"
#include "compiler/frontend/elaborate/Expressions.h"
#include "compiler/frontend/elaborate/Hyperparameters.h"

#include <cmath>

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

SymbolicValue ParamMembers::evalInit(const SymbolicValue &value, Range range) {
  if (value.isPoison() || value.is(SymbolicValue::Init))
    return value;
  if (value.is(SymbolicValue::Builtin) && isInitName(value.text())) {
    std::vector<CallArg> none;
    Scope scope;
    return builtins.call(value.text(), none, range, scope);
  }
  if (value.isNumber()) {
    SymbolicValue init = SymbolicValue::named(SymbolicValue::Init, "constant");
    init.setItems({SymbolicValue::real(value.number())});
    return init;
  }
  Diagnostic &d = reporter.error(
      701, range,
      "a parameter starts from an initialiser, not from " + value.describe());
  d.help("`zeros`, `ones`, `normal(0.02)`, `uniform(-0.1, 0.1)`, `xavier`, "
         "`he`, `truncated_normal(0.02)`, or a number");
  return SymbolicValue();
}

/// Brings an initialiser to one that needs no shape. Fan-in is counted as
/// PyTorch does: the first dimension is the outputs, the others are the inputs.
static void setInit(Param &param, const SymbolicValue &init) {
  param.initKind = init.text();
  for (const SymbolicValue &arg : init.items())
    param.initArgs.push_back(arg.number());
  bool isXavier = init.text() == "xavier";
  if (!isXavier && init.text() != "he")
    return;
  double outputs =
      param.dims.empty() ? 1.0 : static_cast<double>(param.dims[0].value());
  double inputs = 1;
  for (const Dim &dim :
       llvm::ArrayRef(param.dims).drop_front(param.dims.empty() ? 0 : 1))
    inputs *= static_cast<double>(dim.value());
  double gain = param.initArgs[0];
  if (isXavier) {
    // Glorot and Bengio 2010.
    double bound = gain * std::sqrt(6 / (inputs + outputs));
    param.initKind = "uniform";
    param.initArgs = {-bound, bound};
  } else {
    // He et al. 2015.
    param.initKind = "normal";
    param.initArgs = {0, gain * std::sqrt(2 / inputs)};
  }
}

void ParamMembers::declare(Node &node, const Member &member, Scope &scope,
                           std::vector<CallArg> &ties) {
  if (member.condition) {
    // The name means the hyperparameter here, not the parameter itself.
    std::optional<bool> wanted = expressions.evalCondition(
        *member.condition, scope, "the condition of a parameter");
    if (!wanted || !*wanted) {
      node.members[member.name] =
          wanted ? SymbolicValue::none() : SymbolicValue();
      return;
    }
  }
  Dims dims;
  bool valid = true;
  for (const ShapeEntry &entry : member.type.shape) {
    if (entry.isEllipsis) {
      reporter.error(704, entry.range, "the shape of a parameter has no `..`");
      valid = false;
      continue;
    }
    std::optional<Dim> dim =
        dimensions.toDimension(expressions.eval(*entry.dim, scope), entry.range,
                               "a dimension of `" + member.name + "`");
    valid &= dim.has_value();
    if (dim)
      dims.push_back(*dim);
  }
  SymbolicValue init = SymbolicValue::named(SymbolicValue::Init, "zeros");
  init.setItems({});
  SymbolicValue trainable = SymbolicValue::boolean(true);
  if (member.value)
    init =
        evalInit(expressions.eval(*member.value, scope), member.value->range);
  if (member.trainable)
    trainable = expressions.eval(*member.trainable, scope);
  if (!trainable.isPoison() && !trainable.is(SymbolicValue::Bool)) {
    reporter.error(404, member.trainable->range,
                   "`trainable` takes true or false, not " +
                       trainable.describe());
    valid = false;
  }
  if (valid)
    valid = dimensions.isStorable(dims, member.range, "`" + member.name + "`");
  // Tied to another parameter.
  for (CallArg &tie : ties) {
    if (tie.name != member.name || !tie.expr)
      continue;
    tie.expr = nullptr;
    if (tie.value.is(SymbolicValue::ParamRef)) {
      Param &other = *tie.value.param();
      if (valid && other.dims != dims) {
        Diagnostic &d = reporter.error(
            702, tie.range,
            "cannot tie `" + member.name + "` " + showShape(dims) + " to `" +
                sources.text(tie.range) + "` " + showShape(other.dims) +
                ": the shapes differ");
        d.withLabel(showNumbers(dims) + " and " + showNumbers(other.dims));
        Dims swapped(llvm::reverse(other.dims));
        if (swapped.size() == 2 && swapped == dims)
          d.help(
              "the weight of `Linear` is [outputs, inputs], that of `Conv1D` "
              "[inputs, outputs]; without a layer of its own write `x @ " +
              sources.text(tie.range) + ".T` or `x @ " +
              sources.text(tie.range) + "` in `forward`");
      } else {
        other.aliases.push_back({&node, member.name.str()});
      }
      node.members[member.name] = tie.value;
      return;
    }
    if (!tie.value.isPoison()) {
      Diagnostic &d = reporter.error(
          703, tie.range,
          "`" + member.name + "` is a parameter of `" + node.decl->name +
              "`: it can be tied to another parameter, not to " +
              tie.value.describe());
      // `weight = wte` for `weight = wte.weight`.
      if (tie.value.is(SymbolicValue::NodeRef))
        if (auto same = tie.value.node()->members.find(member.name);
            same != tie.value.node()->members.end() &&
            same->second.is(SymbolicValue::ParamRef))
          d.help("write `" + member.name + " = " + sources.text(tie.range) +
                 "." + member.name + "`");
    }
    node.members[member.name] = SymbolicValue();
    return;
  }
  if (!valid || init.isPoison() || trainable.isPoison()) {
    node.members[member.name] = SymbolicValue();
    return;
  }
  tree.params.emplace_back();
  Param &param = tree.params.back();
  param.owner = &node;
  param.name = member.name.str();
  param.range = member.range;
  param.dims = dims;
  param.trainable = trainable.flag();
  setInit(param, init);
  node.params.push_back(&param);
  node.members[member.name] =
      SymbolicValue::object(SymbolicValue::ParamRef, &param);
}
