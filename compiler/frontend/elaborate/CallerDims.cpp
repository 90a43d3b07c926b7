//===- CallerDims.cpp - the dimensions that the caller decides ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/CallerDims.h"

#include "llvm/ADT/StringExtras.h"

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

void CallerDims::begin(int64_t newBatch, int64_t newSequence,
                       StringRef newBatchEntry) {
  dims.clear();
  blame.dimOrigins.clear();
  batch = newBatch;
  batchEntry = newBatchEntry;
  sequence = newSequence;
}

int64_t CallerDims::generationLength() const {
  int64_t context = tree.contextLength();
  return context                 ? context
         : recipe.train.sequence ? recipe.train.sequence
                                 : defaultLength;
}

Dim CallerDims::get(StringRef name) {
  everAsked.insert(name);
  auto known = dims.find(name);
  if (known != dims.end())
    return known->second;
  int64_t value = sequence;
  if (name == "B")
    value = batch;
  else if (auto it = recipe.train.dims.find(name);
           it != recipe.train.dims.end())
    value = it->second;
  Override *define = overrides.find(name);
  const Expr *expr = define ? overrides.use(*define, Wanted::Value) : nullptr;
  if (expr) {
    Scope scope;
    scope.unit = compilation.mainUnit;
    scope.self = tree.root;
    SymbolicValue given = expressions.eval(*expr, scope);
    if (given.is(SymbolicValue::Int) && given.dim().value() > 0)
      value = given.dim().value();
    else if (!given.isPoison())
      diags.error(
          904, define->range,
          "`" + name + "` is a positive integer, not " +
              (given.is(SymbolicValue::Int) ? given.show() : given.describe()));
  }
  int64_t context = tree.contextLength();
  if (define && name == "T" && context && value > context)
    diags.error(803, define->range,
                "T = " + Twine(value) +
                    " is longer than the model's context = " + Twine(context));
  unsigned order = name == "B" ? 0 : name == "T" ? 1 : 2;
  Dim dim = Dim::named(name, value, order);
  dims[name] = dim;
  if (!define && name == "B" && !batchEntry.empty())
    blame.dimOrigins[name.str()] =
        ("B is `" + batchEntry + "` = " + Twine(value)).str();
  if (!define && name != "B" && value == context)
    blame.dimOrigins[name.str()] =
        name.str() + " is the model's context = " + std::to_string(context) +
        ", " + blame.originOf("context");
  return dim;
}

void CallerDims::reportUnasked() {
  for (const auto &given : recipe.train.dimRanges)
    if (!everAsked.contains(given.first()))
      diags
          .error(801, given.second,
                 "no input of the model has a dimension `" + given.first() +
                     "`")
          .help("take it out");
}

std::optional<Dims> CallerDims::evalDims(const TypeExpr &type,
                                         const Twine &what) {
  Dims shape;
  Scope scope;
  scope.unit = tree.root->unit;
  scope.self = tree.root;
  for (const ShapeEntry &entry : type.shape) {
    // A module for any leading axes gets those of a batch of sequences.
    if (entry.isEllipsis) {
      shape.push_back(get("B"));
      shape.push_back(get("T"));
      continue;
    }
    const Expr &dim = *entry.dim;
    // A module of that name is no size (`Signatures::checkShape`).
    if (dim.kind == ExprKind::Name && llvm::isUpper(dim.text[0]))
      if (auto value = names.lookup(dim.text, scope);
          !value || !value->is(SymbolicValue::Int)) {
        shape.push_back(get(dim.text));
        continue;
      }
    scope.dims.clear();
    for (const auto &known : dims)
      scope.dims[known.getKey()] = known.second;
    scope.inSignature = true;
    std::optional<Dim> size = dimensions.toDimension(
        expressions.eval(dim, scope), entry.range, "a dimension of " + what);
    if (!size)
      return std::nullopt;
    shape.push_back(*size);
  }
  return shape;
}
