//===- ArgumentBinder.cpp - binds arguments to parameters -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/ArgumentBinder.h"

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

std::optional<std::vector<CallArg *>>
ArgumentBinder::bind(llvm::ArrayRef<StringRef> names,
                     llvm::ArrayRef<bool> required, std::vector<CallArg> &args,
                     Range range, StringRef callee,
                     llvm::ArrayRef<StringRef> furtherNames, bool isOpen) {
  std::vector<CallArg *> bound(names.size());
  bool valid = true;
  size_t position = 0;
  auto signature = [&] {
    std::string text = callee.str() + "(";
    for (size_t i = 0; i < names.size(); ++i)
      text += (i ? ", " : "") + names[i].str() + (required[i] ? "" : " = ...");
    return text + (isOpen ? ", ...)" : ")");
  };
  for (CallArg &arg : args) {
    size_t slot;
    if (arg.name.empty()) {
      slot = position++;
      if (slot >= names.size()) {
        reporter
            .error(403, arg.range,
                   "`" + callee + "` takes " +
                       (names.empty()
                            ? Twine("no arguments")
                            : Twine(names.size()) + (names.size() == 1
                                                         ? " argument"
                                                         : " arguments")) +
                       ", this is one more")
            .help("it is `" + signature() + "`");
        return std::nullopt;
      }
    } else {
      slot = llvm::find(names, arg.name) - names.begin();
      if (slot == names.size()) {
        if (llvm::is_contained(furtherNames, arg.name))
          continue;
        std::vector<std::string> candidates;
        for (StringRef name : names)
          candidates.push_back(name.str());
        for (StringRef name : furtherNames)
          candidates.push_back(name.str());
        Diagnostic &d = reporter.error(402, arg.nameRange,
                                       "`" + callee + "` has no argument `" +
                                           arg.name + "`");
        reporter.suggest(d, arg.name, candidates);
        if (d.helps.empty())
          d.help("it is `" + signature() + "`");
        valid = false;
        continue;
      }
    }
    if (bound[slot]) {
      reporter.error(414, arg.name.empty() ? arg.range : arg.nameRange,
                     "`" + names[slot] + "` of `" + callee +
                         "` is given twice");
      valid = false;
      continue;
    }
    bound[slot] = &arg;
  }
  for (size_t i = 0; i < names.size(); ++i) {
    // With a name that does not exist it was most likely given under that.
    if (bound[i] || !required[i] || !valid)
      continue;
    Diagnostic &d = reporter.error(
        401, range, "`" + callee + "` needs a value for `" + names[i] + "`");
    if (tree.rootDecl && callee == tree.rootDecl->name)
      d.help("give it a default, `" + names[i] +
             " = 64`, or a value on the command line, `-D " + names[i] +
             "=64`");
    else
      d.help("it is `" + signature() + "`");
    return std::nullopt;
  }
  if (!valid)
    return std::nullopt;
  return bound;
}
