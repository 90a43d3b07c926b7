//===- TableLookups.cpp - which ids choose rows of which tables -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/TableLookups.h"

#include <limits>

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

void TableLookups::add(Emitter::Handle result, std::string table,
                       const Dim &rows, Range ids) {
  // The table of an `Embedding` is what the user calls the instance.
  const Call *caller = reporter.callerOfStd(ids);
  if (caller && caller->node && !table.empty())
    table = StringRef(caller->node->readablePath()).split('.').second.str();
  lookups.push_back({result, std::move(table), rows, ids, callStack});
}

Range TableLookups::placeOf(const Lookup &lookup, CallStack &calls) const {
  calls = lookup.calls;
  while (!calls.empty() && compilation.isInStd(lookup.ids.file)) {
    Range call = calls.back().range;
    calls.pop_back();
    if (!compilation.isInStd(call.file))
      return call;
  }
  return lookup.ids;
}

Diagnostic &TableLookups::error(ErrorCode code, const Lookup &lookup,
                                const Twine &message) {
  CallStack at;
  Range range = placeOf(lookup, at);
  std::swap(callStack, at);
  Diagnostic &d = reporter.error(code, range, message);
  std::swap(callStack, at);
  return d;
}

std::string TableLookups::rowsOf(const Lookup &lookup) {
  return "the table `" + lookup.table + "` has " +
         SymbolicValue::integer(lookup.rows).show() + " rows";
}

std::string TableLookups::helpWithTable(const Lookup &lookup) const {
  // A row for each place, but the tokens themselves choose them.
  int64_t rows = lookup.rows.value();
  bool isOfPlaces =
      rows == callerDims.generationLength() || rows == recipe.train.sequence;
  CallStack at;
  StringRef text = sources.text(placeOf(lookup, at));
  StringRef before = text;
  if (isOfPlaces && text == "tokens")
    return "did you mean `positions(tokens)`?";
  if (isOfPlaces && before.consume_back("(tokens)"))
    return "did you mean `" + before.str() + "(positions(tokens))`?";
  // Rows enough, of which what is computed from a token needs more.
  if (std::optional<int64_t> size = recipe.tokenizerSize();
      size && *size <= rows)
    return "`min(" + text.str() + ", " + std::to_string(rows - 1) +
           ")` keeps what is computed from a token within the rows";
  bool isName = !lookup.rows.isConstant() &&
                tree.root->hyperparameters.count(lookup.rows.str());
  return "`" + (isName ? lookup.rows.str() : "vocab") +
         " = tokenizer.size` gives one for each";
}

void TableLookups::checkGathers(size_t first) {
  for (const Lookup &lookup : llvm::ArrayRef(lookups).drop_front(first)) {
    if (lookup.table.empty())
      continue;
    auto ids = emitter.idsOutside(lookup.result);
    if (!ids)
      continue;
    auto [low, high] = *ids;
    constexpr int64_t lowest = std::numeric_limits<int32_t>::min();
    constexpr int64_t highest = std::numeric_limits<int32_t>::max();
    if (low == lowest && high == highest)
      error(222, lookup, "nothing bounds these ids, and " + rowsOf(lookup))
          .help("`min(max(ids, 0), rows - 1)` does");
    else {
      Diagnostic &d = error(
          222, lookup,
          "the ids are from " + Twine(low) + " to " + Twine(high) + ", but " +
              rowsOf(lookup) + ", from 0 to " + Twine(lookup.rows.value() - 1));
      // Not a table but what is computed of each text.
      if (callerDims.contains(lookup.rows.name()))
        d.help(
            "`gather` takes rows of the first axis; along the second one, of "
            "length n, `one_hot(ids, n) @ " +
            lookup.table + "` does");
      else if (high + 1 == callerDims.generationLength() ||
               high + 1 == recipe.train.sequence)
        d.help("if these are the places of a text, it has " + Twine(high + 1) +
               " of them here (`context` of the model, or `sequence` in "
               "`train`): the table needs a row for each");
    }
  }
}

void TableLookups::checkIgnored(size_t first, Emitter::Handle targets) {
  std::optional<int64_t> ignored = recipe.train.ignore;
  std::optional<int64_t> size = recipe.tokenizerSize();
  // Whoever reads arrays holds it against the rows as any other id.
  if (!ignored ||
      (*ignored >= 0 && (recipe.hasArrays() || !size || *ignored < *size)))
    return;
  for (const Lookup &lookup : llvm::ArrayRef(lookups).drop_front(first)) {
    if (!emitter.looksUp(lookup.result, targets, *ignored))
      continue;
    error(222, lookup,
          "a target may be the one that is left out, `ignore` = " +
              Twine(*ignored) + ", but " + rowsOf(lookup))
        .help("let `ignore` be a token, such as the data's `pad`, or bound "
              "the ids: `min(max(ids, 0), rows - 1)`");
    return;
  }
}

void TableLookups::checkTokens() {
  Emitter::Handle result;
  int64_t count = emitter.countTokens(result);
  const Lookup *least = nullptr;
  for (const Lookup &lookup : lookups)
    if (result && lookup.result == result && !least)
      least = &lookup;
  // The recipe's loss takes its logits from `forward`, which was looked at.
  if (!least)
    return;
  if (count == 0) {
    error(222, *least,
          "even of token 0 the id may lie outside of the rows: " +
              rowsOf(*least))
        .help("bound the ids: `min(max(ids, 0), rows - 1)`");
    return;
  }
  // Whoever reads arrays holds the ids of each against its own tables.
  if (recipe.hasArrays())
    return;
  std::optional<int64_t> size = recipe.tokenizerSize();
  std::string enough = least->rows.value() == count
                           ? std::string()
                           : ", which is enough for " + std::to_string(count);
  if (size && *size > count && compilation.block("data")) {
    std::string has = least->table.empty()
                          ? "this loss has logits for " +
                                SymbolicValue::integer(least->rows).show()
                          : rowsOf(*least);
    error(221, *least,
          "the tokenizer has " + Twine(*size) + " tokens, but " + has + enough)
        .help(helpWithTable(*least));
    return;
  }
  if (!least->table.empty() && !compilation.block("data") && !diags.hasErrors())
    warnAboutTable(*least, count);
}

void TableLookups::warnAboutTable(const Lookup &least, int64_t count) {
  // Logits for more tokens than may come in, all of which another table has.
  const Method *forward = findMethod(*tree.root, "forward");
  if (forward->results.size() != 1 || !forward->results[0].hasShape ||
      forward->results[0].shape.empty() ||
      forward->results[0].shape.back().isEllipsis)
    return;
  std::optional<Dims> dims =
      callerDims.evalDims(forward->results[0], "the result of the model");
  if (!dims || dims->size() != 3 || dims->back().value() <= count ||
      llvm::none_of(lookups, [&](const Lookup &lookup) {
        return !lookup.table.empty() && lookup.rows == dims->back();
      }))
    return;
  CallStack at;
  Range range = placeOf(least, at);
  Diagnostic &d = diags.warning(
      221, range,
      "the model has " + SymbolicValue::integer(dims->back()).show() +
          " tokens, but " + rowsOf(least) +
          ": it will take only texts whose ids are less than " + Twine(count));
  if (!at.empty())
    d.note("in " + at.back().what);
  std::string help = helpWithTable(least);
  if (StringRef(help).contains("positions"))
    d.help(help);
}
