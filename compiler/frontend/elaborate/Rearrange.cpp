//===- Rearrange.cpp - einops' notation -----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/BuiltinCall.h"

#include "llvm/ADT/StringExtras.h"

using namespace tfm;
using llvm::StringRef;
using llvm::Twine;

namespace {
/// One axis of one side: a name, or several in parentheses; `1` is an empty
/// one.
struct Axis {
  llvm::SmallVector<std::string, 2> names;
};
using Side = std::vector<Axis>;
} // namespace

/// Parses `B T (heads d)`; a message on failure.
static std::optional<Side> parseSide(StringRef text, std::string &problem) {
  Side side;
  bool open = false;
  while (true) {
    text = text.ltrim();
    if (text.empty())
      break;
    if (text.consume_front("(")) {
      if (open) {
        problem = "parentheses do not nest";
        return std::nullopt;
      }
      open = true;
      side.push_back({});
      continue;
    }
    if (text.consume_front(")")) {
      if (!open) {
        problem = "`)` closes nothing";
        return std::nullopt;
      }
      open = false;
      continue;
    }
    StringRef word =
        text.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
    if (word.empty()) {
      problem =
          text.starts_with("...")
              ? "`...` is no part of a pattern: each axis has a name"
              : ("`" + text.take_front(1) + "` is no part of a pattern").str();
      return std::nullopt;
    }
    text = text.drop_front(word.size());
    bool isOne = word == "1";
    if (!isOne && llvm::isDigit(word[0])) {
      problem =
          ("`" + word + "` is a number: axes have names, or are `1`").str();
      return std::nullopt;
    }
    if (open) {
      if (!isOne)
        side.back().names.push_back(word.str());
    } else {
      side.push_back({});
      if (!isOne)
        side.back().names.push_back(word.str());
    }
  }
  if (open) {
    problem = "`(` is not closed";
    return std::nullopt;
  }
  return side;
}

SymbolicValue BuiltinCall::rearrange() {
  auto x = tensor("x");
  const CallArg &pattern = *arg("pattern");
  if (!x)
    return SymbolicValue();
  if (!pattern.value.is(SymbolicValue::String)) {
    wrong(pattern, "pattern",
          "a string such as \"B T (heads d) -> B heads T d\"");
    return SymbolicValue();
  }
  auto fail = [&](const Twine &message) -> Diagnostic & {
    return reporter.error(209, pattern.range, message);
  };
  StringRef text = pattern.value.text();
  if (!budget.spend(text.size() / 16, range))
    return SymbolicValue();
  auto [leftText, rightText] = text.split("->");
  std::string problem;
  if (!text.contains("->")) {
    fail("a pattern has the form \"axes -> axes\"");
    return SymbolicValue();
  }
  auto left = parseSide(leftText, problem);
  auto right = left ? parseSide(rightText, problem) : std::nullopt;
  if (!right) {
    fail(problem);
    return SymbolicValue();
  }
  if (left->size() != x->dims.size()) {
    fail("the pattern's left side has " + Twine(left->size()) +
         " axes, but the tensor is " + showShape(x->dims, x->elem));
    return SymbolicValue();
  }
  // Sizes: given by name, or known here.
  llvm::StringMap<Dim> sizes;
  llvm::StringMap<bool> leftNames;
  for (const CallArg &size : rest) {
    if (size.name.empty() || !size.value.is(SymbolicValue::Int)) {
      suggestInteger(reporter.error(209, size.range,
                                    "a size is given as `name = integer`"),
                     size.value);
      return SymbolicValue();
    }
    std::optional<Dim> dim = dimensions.toDimension(
        size.value, size.range, "the axis `" + size.name + "`");
    if (!dim)
      return SymbolicValue();
    sizes[size.name] = *dim;
  }
  /// Looks for the size of a name; false after an error.
  auto findSize = [&](const std::string &name) {
    if (sizes.contains(name))
      return true;
    auto value = names.lookup(name, scope);
    if (!value || !value->is(SymbolicValue::Int))
      return true;
    std::optional<Dim> dim = dimensions.toDimension(*value, pattern.range,
                                                    "the axis `" + name + "`");
    if (dim)
      sizes[name] = *dim;
    return dim.has_value();
  };
  for (const Axis &axis : *left)
    for (const std::string &name : axis.names) {
      if (!leftNames.try_emplace(name, true).second) {
        fail("`" + name + "` occurs twice on the left side");
        return SymbolicValue();
      }
      if (!findSize(name))
        return SymbolicValue();
    }
  auto isOnTheRight = [&](StringRef name) {
    return llvm::any_of(*right, [&](const Axis &axis) {
      return llvm::is_contained(axis.names, name);
    });
  };
  for (const CallArg &size : rest)
    if (!leftNames.contains(size.name) && !isOnTheRight(size.name)) {
      reporter.error(209, size.nameRange,
                     "`" + size.name + "` does not occur in the pattern");
      return SymbolicValue();
    }
  // Each axis of the tensor: one name may follow from the others.
  Dims parts;
  std::vector<std::string> order;
  for (auto [axis, extent] : llvm::zip(*left, x->dims)) {
    std::string unknown;
    Dim known(1);
    for (const std::string &name : axis.names) {
      auto size = sizes.find(name);
      if (size != sizes.end()) {
        known = known * size->second;
      } else if (unknown.empty()) {
        unknown = name;
      } else {
        fail("the sizes of `" + unknown + "` and `" + name +
             "` are both unknown")
            .help("give one: `rearrange(x, \"...\", " + name + " = ...)`");
        return SymbolicValue();
      }
    }
    if (!unknown.empty()) {
      auto size =
          known.overflowed() ? std::nullopt : Dim::divideExact(extent, known);
      if (!size) {
        fail("`" + unknown +
             "` cannot be found: " + SymbolicValue::integer(extent).show() +
             " is not a multiple of " + SymbolicValue::integer(known).show());
        return SymbolicValue();
      }
      sizes[unknown] = *size;
    } else if (known != extent) {
      std::string names = llvm::join(axis.names, " ");
      fail((axis.names.size() == 1
                ? "`" + names + "` is " + SymbolicValue::integer(known).show()
            : axis.names.empty()
                ? std::string("`1` stands for an axis of size 1")
                : "`(" + names + ")` is " +
                      SymbolicValue::integer(known).show()) +
           ", but that axis of " + showShape(x->dims, x->elem) + " is " +
           SymbolicValue::integer(extent).show());
      return SymbolicValue();
    }
    for (const std::string &name : axis.names) {
      parts.push_back(sizes[name]);
      order.push_back(name);
    }
  }
  // Names of the right side alone, along which the tensor is repeated.
  std::vector<std::string> added;
  Dims whole = parts;
  for (const Axis &axis : *right)
    for (const std::string &name : axis.names) {
      if (leftNames.contains(name) || llvm::is_contained(added, name))
        continue;
      if (!findSize(name))
        return SymbolicValue();
      if (auto size = sizes.find(name); size != sizes.end()) {
        added.push_back(name);
        whole.push_back(size->second);
      }
    }
  if (!added.empty() && !dimensions.isStorable(whole, range, "the result"))
    return SymbolicValue();
  // The right side: the same names, grouped anew.
  llvm::SmallVector<int64_t> permutation;
  Dims once, repeated, result;
  llvm::StringMap<bool> rightNames;
  for (const Axis &axis : *right) {
    Dim product(1);
    for (const std::string &name : axis.names) {
      bool isAdded = llvm::is_contained(added, name);
      if (!isAdded && !llvm::is_contained(order, name)) {
        std::vector<std::string> candidates = order;
        llvm::append_range(candidates, added);
        Diagnostic &d = fail("`" + name + "` stands on the right side only");
        reporter.suggest(d, name, candidates);
        if (d.helps.empty() && llvm::all_of(order, isOnTheRight))
          d.help("to repeat it along a new axis give its size: `rearrange(x, "
                 "\"...\", " +
                 name + " = ...)`");
        return SymbolicValue();
      }
      if (!rightNames.try_emplace(name, true).second) {
        fail("`" + name + "` occurs twice on the right side");
        return SymbolicValue();
      }
      if (!isAdded)
        permutation.push_back(llvm::find(order, name) - order.begin());
      once.push_back(isAdded ? Dim(1) : sizes[name]);
      repeated.push_back(sizes[name]);
      product = product * sizes[name];
    }
    result.push_back(product);
  }
  for (const std::string &name : order)
    if (!rightNames.contains(name)) {
      fail("`" + name + "` is missing on the right side")
          .help("`sum`, `mean` and `max` reduce an axis");
      return SymbolicValue();
    }
  SymbolicTensor moved =
      tensors.transposeAxes(tensors.reshapeTo(*x, parts), permutation);
  if (!added.empty())
    moved = tensors.broadcastTo(tensors.reshapeTo(moved, once), repeated);
  return SymbolicValue::tensor(tensors.reshapeTo(moved, result));
}
