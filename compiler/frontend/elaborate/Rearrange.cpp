//===- Rearrange.cpp - einops' notation -----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/BuiltinCall.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

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

namespace {

/// One call of `rearrange`, from its pattern to the ops. A step that says
/// whether it succeeded has reported why it did not.
class Rearrangement {
public:
  Rearrangement(BuiltinCall &call, const SymbolicTensor &x,
                const CallArg &pattern)
      : call(call), x(x), pattern(pattern) {}

  SymbolicValue result() {
    bool isValid = parsePattern() && readSizes() && nameLeftSide() &&
                   areSizesUsed() && splitAxes() && addAxes() && groupAxes();
    return isValid ? emit() : SymbolicValue();
  }

private:
  bool parsePattern();
  /// Reads the sizes that are given as `name = integer`.
  bool readSizes();
  /// Collects the names of the left side, with the sizes that are known.
  bool nameLeftSide();
  /// Whether all sizes that are given are of names in the pattern.
  bool areSizesUsed();
  /// Splits each axis of the tensor into those of its names.
  bool splitAxes();
  bool splitAxis(const Axis &axis, const Dim &extent);
  /// Finds the axes that the right side adds.
  bool addAxes();
  /// Groups the axes as the right side has them.
  bool groupAxes();
  SymbolicValue emit();

  /// Looks for the size of a name where the call stands, unless it is given.
  bool findSize(StringRef name);
  bool isOnTheRight(StringRef name) const {
    return llvm::any_of(right, [&](const Axis &axis) {
      return llvm::is_contained(axis.names, name);
    });
  }
  void reportRightOnly(StringRef name);
  Diagnostic &error(const Twine &message) {
    return call.reporter.error(209, pattern.range, message);
  }

  BuiltinCall &call;
  const SymbolicTensor &x;
  const CallArg &pattern;
  Side left, right;
  llvm::StringSet<> leftNames;
  /// Those that are known.
  llvm::StringMap<Dim> sizes;
  /// The names of the left side in their order, and their sizes.
  std::vector<std::string> parts;
  Dims partDims;
  /// Names of the right side alone, along which the tensor is repeated.
  std::vector<std::string> added;
  /// Which of the parts the right side has, one after the other.
  llvm::SmallVector<int64_t> permutation;
  /// The axes of the right side before those that are added are repeated,
  /// behind that, and in their groups.
  Dims once, repeated, grouped;
};

} // namespace

bool Rearrangement::parsePattern() {
  StringRef text = pattern.value.text();
  if (!text.contains("->")) {
    error("a pattern has the form \"axes -> axes\"");
    return false;
  }
  auto [leftText, rightText] = text.split("->");
  std::string problem;
  auto leftSide = parseSide(leftText, problem);
  auto rightSide = leftSide ? parseSide(rightText, problem) : std::nullopt;
  if (!rightSide) {
    error(problem);
    return false;
  }
  left = std::move(*leftSide);
  right = std::move(*rightSide);
  if (left.size() != x.dims.size()) {
    error("the pattern's left side has " + Twine(left.size()) +
          " axes, but the tensor is " + showShape(x.dims, x.elem));
    return false;
  }
  return true;
}

bool Rearrangement::readSizes() {
  for (const CallArg &size : call.rest) {
    if (size.name.empty() || !size.value.isNumber()) {
      suggestInteger(call.reporter.error(209, size.range,
                                         "a size is given as `name = integer`"),
                     size.value);
      return false;
    }
    std::optional<Dim> dim = call.dimensions.toDimension(
        size.value, size.range, "the axis `" + size.name + "`");
    if (!dim)
      return false;
    sizes[size.name] = *dim;
  }
  return true;
}

bool Rearrangement::findSize(StringRef name) {
  if (sizes.contains(name))
    return true;
  auto value = call.names.lookup(name, call.scope);
  if (!value || !value->is(SymbolicValue::Int))
    return true;
  std::optional<Dim> dim = call.dimensions.toDimension(
      *value, pattern.range, "the axis `" + name + "`");
  if (dim)
    sizes[name] = *dim;
  return dim.has_value();
}

bool Rearrangement::nameLeftSide() {
  for (const Axis &axis : left)
    for (const std::string &name : axis.names) {
      if (!leftNames.insert(name).second) {
        error("`" + name + "` occurs twice on the left side");
        return false;
      }
      if (!findSize(name))
        return false;
    }
  return true;
}

bool Rearrangement::areSizesUsed() {
  for (const CallArg &size : call.rest)
    if (!leftNames.contains(size.name) && !isOnTheRight(size.name)) {
      call.reporter.error(209, size.nameRange,
                          "`" + size.name + "` does not occur in the pattern");
      return false;
    }
  return true;
}

bool Rearrangement::splitAxes() {
  for (auto [axis, extent] : llvm::zip(left, x.dims))
    if (!splitAxis(axis, extent))
      return false;
  return true;
}

/// As messages have a size.
static std::string show(const Dim &size) {
  return SymbolicValue::integer(size).show();
}

bool Rearrangement::splitAxis(const Axis &axis, const Dim &extent) {
  // One name may follow from the others.
  std::string unknown;
  Dim known(1);
  for (const std::string &name : axis.names) {
    auto size = sizes.find(name);
    if (size != sizes.end()) {
      known = known * size->second;
    } else if (unknown.empty()) {
      unknown = name;
    } else {
      error("the sizes of `" + unknown + "` and `" + name +
            "` are both unknown")
          .help("give one: `rearrange(x, \"...\", " + name + " = ...)`");
      return false;
    }
  }
  if (!unknown.empty()) {
    auto size =
        known.overflowed() ? std::nullopt : Dim::divideExact(extent, known);
    if (!size) {
      error("`" + unknown + "` cannot be found: " + show(extent) +
            " is not a multiple of " + show(known));
      return false;
    }
    sizes[unknown] = *size;
  } else if (known != extent) {
    std::string names = llvm::join(axis.names, " ");
    error((axis.names.size() == 1 ? "`" + names + "` is " + show(known)
           : axis.names.empty()
               ? std::string("`1` stands for an axis of size 1")
               : "`(" + names + ")` is " + show(known)) +
          ", but that axis of " + showShape(x.dims, x.elem) + " is " +
          show(extent));
    return false;
  }
  for (const std::string &name : axis.names) {
    parts.push_back(name);
    partDims.push_back(sizes[name]);
  }
  return true;
}

bool Rearrangement::addAxes() {
  Dims whole = partDims;
  for (const Axis &axis : right)
    for (const std::string &name : axis.names) {
      if (leftNames.contains(name) || llvm::is_contained(added, name))
        continue;
      if (!findSize(name))
        return false;
      if (auto size = sizes.find(name); size != sizes.end()) {
        added.push_back(name);
        whole.push_back(size->second);
      }
    }
  return added.empty() ||
         call.dimensions.isStorable(whole, call.range, "the result");
}

bool Rearrangement::groupAxes() {
  llvm::StringSet<> rightNames;
  for (const Axis &axis : right) {
    Dim product(1);
    for (const std::string &name : axis.names) {
      bool isAdded = llvm::is_contained(added, name);
      if (!isAdded && !leftNames.contains(name)) {
        reportRightOnly(name);
        return false;
      }
      if (!rightNames.insert(name).second) {
        error("`" + name + "` occurs twice on the right side");
        return false;
      }
      if (!isAdded)
        permutation.push_back(llvm::find(parts, name) - parts.begin());
      once.push_back(isAdded ? Dim(1) : sizes[name]);
      repeated.push_back(sizes[name]);
      product = product * sizes[name];
    }
    grouped.push_back(product);
  }
  for (const std::string &name : parts)
    if (!rightNames.contains(name)) {
      error("`" + name + "` is missing on the right side")
          .help("`sum`, `mean` and `max` reduce an axis");
      return false;
    }
  return true;
}

void Rearrangement::reportRightOnly(StringRef name) {
  std::vector<std::string> candidates = parts;
  llvm::append_range(candidates, added);
  Diagnostic &d = error("`" + name + "` stands on the right side only");
  call.reporter.suggest(d, name, candidates);
  if (d.helps.empty() &&
      llvm::all_of(parts, [&](StringRef other) { return isOnTheRight(other); }))
    d.help("to repeat it along a new axis give its size: `rearrange(x, "
           "\"...\", " +
           name + " = ...)`");
}

SymbolicValue Rearrangement::emit() {
  Tensors &tensors = call.tensors;
  SymbolicTensor moved =
      tensors.transposeAxes(tensors.reshapeTo(x, partDims), permutation);
  if (!added.empty())
    moved = tensors.broadcastTo(tensors.reshapeTo(moved, once), repeated);
  return SymbolicValue::tensor(tensors.reshapeTo(moved, grouped));
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
  if (!budget.spend(pattern.value.text().size() / 16, range))
    return SymbolicValue();
  return Rearrangement(*this, *x, pattern).result();
}
