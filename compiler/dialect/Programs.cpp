//===- Programs.cpp - the functions of a model, and what they share -------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/Programs.h"

#include "compiler/dialect/Attributes.h"
#include "compiler/dialect/TfmDialect.h"
#include "runtime/tfm_model.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;
using namespace tfm;

namespace {

constexpr std::pair<ProgramKind, StringLiteral> programNames[] = {
    {ProgramKind::Forward, TFM_FORWARD},
    {ProgramKind::ForwardBatch, "forward_batch"},
    {ProgramKind::ForwardEncoded, "forward_encoded"},
    {ProgramKind::Loss, "loss"},
    {ProgramKind::Train, TFM_TRAIN},
    {ProgramKind::Evaluate, TFM_EVALUATE},
    {ProgramKind::UpdateDecayed, TFM_UPDATE_DECAYED},
    {ProgramKind::UpdatePlain, TFM_UPDATE_PLAIN},
    {ProgramKind::Squares, TFM_SQUARES},
    {ProgramKind::Update, TFM_UPDATE},
    {ProgramKind::Encode, TFM_ENCODE},
    {ProgramKind::Prefill, TFM_PREFILL},
    {ProgramKind::PrefillShort, TFM_PREFILL_SHORT},
    {ProgramKind::Verify, TFM_VERIFY},
    {ProgramKind::Decode, TFM_DECODE},
    {ProgramKind::Refresh, TFM_REFRESH}};

constexpr std::pair<ArenaRegion::Kind, StringLiteral> regionNames[] = {
    {ArenaRegion::Kind::Parameters, "parameters"},
    {ArenaRegion::Kind::Copies, "copies"},
    {ArenaRegion::Kind::Gradients, "gradients"},
    {ArenaRegion::Kind::State0, "state0"},
    {ArenaRegion::Kind::State1, "state1"},
    {ArenaRegion::Kind::Cache, "cache"}};

constexpr std::pair<ArenaRegion::Part, StringLiteral> partNames[] = {
    {ArenaRegion::Part::Decayed, "decayed"},
    {ArenaRegion::Part::Plain, "plain"},
    {ArenaRegion::Part::Frozen, "frozen"}};

template <typename Kind, size_t count>
StringRef nameIn(const std::pair<Kind, StringLiteral> (&names)[count],
                 Kind kind) {
  for (const auto &[own, name] : names)
    if (own == kind)
      return name;
  llvm_unreachable("every kind has a name");
}

template <typename Kind, size_t count>
std::optional<Kind> kindIn(const std::pair<Kind, StringLiteral> (&names)[count],
                           StringRef text) {
  for (const auto &[kind, name] : names)
    if (name == text)
      return kind;
  return std::nullopt;
}

std::optional<ArenaRegion> regionIn(StringAttr name) {
  return name ? ArenaRegion::parse(name.getValue()) : std::nullopt;
}

} // namespace

StringRef tfm::nameOf(ProgramKind kind) { return nameIn(programNames, kind); }

std::optional<ProgramKind> tfm::programKind(StringRef name) {
  return kindIn(programNames, name);
}

func::FuncOp tfm::findProgram(ModuleOp module, ProgramKind kind) {
  return module.lookupSymbol<func::FuncOp>(nameOf(kind));
}

StringRef tfm::nameOfArgument(func::FuncOp function, unsigned number) {
  auto name = function.getArgAttrOfType<StringAttr>(number, nameAttribute);
  return name ? name.getValue() : StringRef();
}

StringRef tfm::nameOfResult(func::FuncOp function, unsigned number) {
  auto name = function.getResultAttrOfType<StringAttr>(number, nameAttribute);
  return name ? name.getValue() : StringRef();
}

void tfm::nameArgument(func::FuncOp function, unsigned number, StringRef name) {
  function.setArgAttr(number, nameAttribute,
                      StringAttr::get(function.getContext(), name));
}

void tfm::nameResult(func::FuncOp function, unsigned number, StringRef name) {
  function.setResultAttr(number, nameAttribute,
                         StringAttr::get(function.getContext(), name));
}

std::optional<unsigned> tfm::findArgument(func::FuncOp function,
                                          StringRef name) {
  for (unsigned i = 0, end = function.getNumArguments(); i != end; ++i)
    if (nameOfArgument(function, i) == name)
      return i;
  return std::nullopt;
}

LogicalResult tfm::addResult(func::FuncOp function, Value value,
                             StringRef name) {
  Operation *end = function.getBody().front().getTerminator();
  end->insertOperands(end->getNumOperands(), value);
  Builder b(function.getContext());
  return function.insertResult(function.getNumResults(), value.getType(),
                               b.getDictionaryAttr(b.getNamedAttr(
                                   nameAttribute, b.getStringAttr(name))));
}

ArrayRef<ProgramKind> tfm::builtPrograms() {
  static constexpr ProgramKind kinds[] = {
      ProgramKind::Refresh,       ProgramKind::Train,
      ProgramKind::Update,        ProgramKind::Squares,
      ProgramKind::UpdateDecayed, ProgramKind::UpdatePlain,
      ProgramKind::Evaluate,      ProgramKind::Forward,
      ProgramKind::Encode,        ProgramKind::Prefill,
      ProgramKind::PrefillShort,  ProgramKind::Verify,
      ProgramKind::Decode};
  return kinds;
}

ArrayRef<ProgramKind> tfm::cachedPrograms() {
  static constexpr ProgramKind kinds[] = {
      ProgramKind::Prefill, ProgramKind::PrefillShort, ProgramKind::Verify,
      ProgramKind::Decode};
  return kinds;
}

std::string ArenaRegion::name() const {
  std::string own = kind == Kind::Cache ? std::to_string(cache)
                                        : nameIn(partNames, part).str();
  return (nameIn(regionNames, kind) + "." + own).str();
}

std::optional<ArenaRegion> ArenaRegion::parse(StringRef name) {
  auto [first, own] = name.split('.');
  std::optional<Kind> kind = kindIn(regionNames, first);
  if (!kind)
    return std::nullopt;
  if (*kind == Kind::Cache) {
    int64_t number = 0;
    if (own.getAsInteger(10, number) || number < 0)
      return std::nullopt;
    return ofCache(number);
  }
  std::optional<Part> part = kindIn(partNames, own);
  // What is not trained has neither gradients nor state.
  bool isOfAll = *kind == Kind::Parameters || *kind == Kind::Copies;
  if (!part || (*part == Part::Frozen && !isOfAll))
    return std::nullopt;
  return ofParameters(*kind, *part);
}

std::optional<ArenaRegion> ArenaRegion::ofArgument(func::FuncOp function,
                                                   unsigned number) {
  return regionIn(
      function.getArgAttrOfType<StringAttr>(number, regionAttribute));
}

std::optional<ArenaRegion> ArenaRegion::ofResult(func::FuncOp function,
                                                 unsigned number) {
  return regionIn(
      function.getResultAttrOfType<StringAttr>(number, regionAttribute));
}

void ArenaRegion::setArgument(func::FuncOp function, unsigned number) const {
  function.setArgAttr(number, regionAttribute,
                      StringAttr::get(function.getContext(), name()));
}

void ArenaRegion::setResult(func::FuncOp function, unsigned number) const {
  function.setResultAttr(number, regionAttribute,
                         StringAttr::get(function.getContext(), name()));
}

static LogicalResult verifyRegionName(Operation *op, NamedAttribute attribute) {
  if (attribute.getName() != regionAttribute)
    return success();
  auto name = dyn_cast<StringAttr>(attribute.getValue());
  if (name && ArenaRegion::parse(name.getValue()))
    return success();
  return op->emitOpError("has no region ") << attribute.getValue();
}

LogicalResult TfmDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                   unsigned,
                                                   NamedAttribute attribute) {
  return verifyRegionName(op, attribute);
}

LogicalResult
TfmDialect::verifyRegionResultAttribute(Operation *op, unsigned, unsigned,
                                        NamedAttribute attribute) {
  return verifyRegionName(op, attribute);
}

std::string tfm::readablePath(StringRef path) {
  SmallVector<StringRef> parts;
  path.split(parts, '.', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  std::string result;
  // The number of the first layer of a repeat in a list, whose part stands
  // before that of the layer.
  std::optional<int64_t> first;
  for (StringRef part : parts) {
    auto [from, to] = part.split('-');
    int64_t begin = 0, end = 0, body = 0;
    if (!from.getAsInteger(10, begin) && !to.getAsInteger(10, end)) {
      first = begin;
      continue;
    }
    result += result.empty() ? "" : ".";
    bool isBody = !part.split("*+").second.getAsInteger(10, body);
    if (isBody || (first && part == "*"))
      result += std::to_string(first.value_or(0) + body);
    else
      result += part;
    first.reset();
  }
  if (first) // the repeat itself
    result += (result.empty() ? "" : ".") + parts.back().str();
  return result;
}
