//===- Reporter.cpp - errors, with the calls that led there ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/Reporter.h"

#include "compiler/frontend/elaborate/Budget.h"
#include "compiler/frontend/elaborate/Compilation.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

std::string Reporter::place(Range range) const {
  const SourceFile &file = sources.file(range.file);
  return (file.name() + ":" + Twine(file.line(range.begin)) + ":" +
          Twine(file.column(range.begin)))
      .str();
}

/// Leaves out the middle of a very long path.
static std::string shorten(std::string path) {
  if (path.size() <= 100)
    return path;
  return path.substr(0, 40) + " ... " + path.substr(path.size() - 40);
}

const Call *Reporter::callerOfStd(Range range) const {
  if (compilation.isInStd(range.file))
    for (const Call &f : llvm::reverse(callStack))
      if (!compilation.isInStd(f.range.file))
        return &f;
  return nullptr;
}

Diagnostic &Reporter::error(ErrorCode code, Range range, const Twine &message) {
  // A mistake that shows inside of std was made by whoever called it, and may
  // show there in several places: it is reported once.
  // Who reports much, though most of it for the second time, looks for words.
  if (compilation.stepsLeft > 0)
    budget.spend(256, range);
  if (isSilent)
    return diags.ignored();
  const Call *caller = callerOfStd(range);
  if (caller &&
      !stdErrors.insert({code, caller->range.file, caller->range.begin}).second)
    return diags.ignored();
  Diagnostic &d = diags.error(code, range, message);
  if (hiding.contains({range.file, range.begin, range.end}))
    d.note("here `" + sources.text(range).str() +
           "` is the member, which hides the hyperparameter of the same name: "
           "one of the two needs another name");
  if (callStack.empty() || !d.notes.empty())
    return d;
  const Call &call = callStack.back();
  auto instance = [](const Call &f) {
    return f.node && f.node->parent ? ", as " + shorten(f.node->readablePath())
                                    : std::string();
  };
  d.note("in " + call.what + instance(call));
  if (caller) {
    d.note("called from " + place(caller->range));
  } else if (!call.node) {
    // A function: which module it was called for.
    for (size_t i = callStack.size() - 1; i-- > 0;) {
      if (!callStack[i].node)
        continue;
      d.note("called from " + place(callStack[i + 1].range) + ", in " +
             callStack[i].what + instance(callStack[i]));
      break;
    }
  }
  return d;
}

void Reporter::suggest(Diagnostic &d, StringRef name,
                       llvm::ArrayRef<std::string> candidates) {
  if (!budget.spend(candidates.size(), d.range))
    return;
  std::string guess = closestName(name, candidates);
  if (!guess.empty())
    d.help("did you mean `" + guess + "`?");
}

void tfm::suggestInteger(Diagnostic &d, const SymbolicValue &value) {
  if (value.is(SymbolicValue::Float) &&
      value.number() == std::floor(value.number()) &&
      std::fabs(value.number()) < 1e15) {
    auto number = Twine(static_cast<int64_t>(value.number())).str();
    d.help("`" + number + ".0` is a float, `" + number + "` an integer");
  }
}

std::string tfm::castOf(StringRef operand, StringRef type) {
  bool isName = operand.size() <= 24 && llvm::all_of(operand, [](char c) {
                  return llvm::isAlnum(c) || c == '_' || c == '.';
                });
  return ("cast(" + (isName ? operand : "...") + ", " + type + ")").str();
}
