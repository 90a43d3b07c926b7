//===- Diagnostics.cpp - errors in the user's words -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/Diagnostics.h"

#include "compiler/frontend/Embedded.h"
#include "runtime/support/utf8.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Unicode.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

using namespace tfm;

static constexpr size_t maxErrors = 50;

bool Diagnostics::hasBug() const {
  return llvm::any_of(
      kept, [](const Diagnostic &error) { return error.code == bugCode; });
}

bool Diagnostics::isFull() const { return kept.size() >= maxErrors; }

/// Whether something of this code is said of a place.
static auto isAt(ErrorCode code, Range range) {
  return [=](const Diagnostic &d) {
    return d.code == code && d.range.file == range.file &&
           d.range.begin == range.begin;
  };
}

Diagnostic &Diagnostics::error(ErrorCode code, Range range,
                               const llvm::Twine &message) {
  // What is said of characters that are no token follows from that.
  for (ErrorCode lexical : {101, 102, 103})
    if (seen.count({lexical, range.file, range.begin}))
      return ignored();
  if (isFull() || !seen.insert({code, range.file, range.begin}).second)
    return ignored();
  llvm::erase_if(warnings, isAt(code, range));
  kept.push_back({code, range, message.str(), {}, {}, {}, false});
  return kept.back();
}

Diagnostic &Diagnostics::warning(ErrorCode code, Range range,
                                 const llvm::Twine &message) {
  // It keeps no error from being told, which may yet come.
  if (warnings.size() >= maxErrors ||
      seen.count({code, range.file, range.begin}) ||
      llvm::any_of(warnings, isAt(code, range)))
    return ignored();
  warnings.push_back({code, range, message.str(), {}, {}, {}, true});
  return warnings.back();
}

void Diagnostics::add(const Diagnostics &other) {
  for (const Diagnostic &d : other.kept)
    error(d.code, d.range, d.message) = d;
  for (const Diagnostic &d : other.warnings)
    warning(d.code, d.range, d.message) = d;
}

/// A text of one line as a terminal shows it: a tab is one column, so that the
/// caret stands under its character.
static std::string printableLine(llvm::StringRef line) {
  std::string text = printable(line);
  std::ranges::replace(text, '\t', ' ');
  std::ranges::replace(text, '\n', ' ');
  return text;
}

/// What a message quotes of a file is left whole up to this size, so that paths
/// and names stay what they are; of more the beginning and the end.
static constexpr size_t maxQuoted = 300;

/// A message, however long what stands between its backquotes is.
static std::string shortened(llvm::StringRef message) {
  std::string text;
  bool isQuoted = false;
  for (llvm::StringRef part : llvm::split(message, '`')) {
    if (part.data() != message.data())
      text += '`';
    if (isQuoted && part.size() > maxQuoted) {
      // At the borders of characters.
      auto isInside = [&](size_t at) {
        return (static_cast<unsigned char>(part[at]) & 0xC0) == 0x80;
      };
      size_t head = maxQuoted / 2, tail = part.size() - maxQuoted / 4;
      while (head > 0 && isInside(head))
        --head;
      while (tail < part.size() && isInside(tail))
        ++tail;
      text += part.take_front(head);
      text += "...";
      text += part.drop_front(tail);
    } else {
      text += part;
    }
    isQuoted = !isQuoted;
  }
  return text;
}

/// Calls `visit(at, bytes, columns)` for every character of a line: where it
/// stands, and how many columns of a terminal it takes, two for a Chinese one.
/// What is not UTF-8 is cut as `printable` does.
static void
forEachCharacter(llvm::StringRef line,
                 llvm::function_ref<void(size_t, size_t, unsigned)> visit) {
  for (size_t at = 0; at < line.size();) {
    size_t bytes = decodeUtf8(line, at).bytes;
    int columns = 1;
    if (!llvm::isASCII(line[at]))
      columns = llvm::sys::unicode::columnWidthUTF8(
          printableLine(line.substr(at, bytes)));
    visit(at, bytes, columns < 0 ? 1 : columns);
    at += bytes;
  }
}

static unsigned columnsOf(llvm::StringRef text) {
  unsigned all = 0;
  forEachCharacter(text,
                   [&](size_t, size_t, unsigned columns) { all += columns; });
  return all;
}

/// Lines of more columns than this are shown in part.
static constexpr unsigned maxColumns = 120;
static constexpr llvm::StringRef cut = "...";

/// A line, or what fits of it, with the part that a caret stands below.
struct Excerpt {
  std::string text;
  /// Columns before the caret, and below which it goes on.
  unsigned before;
  unsigned width;
};

/// The excerpt of `line` around its bytes `begin` to `end`.
static Excerpt excerptOf(llvm::StringRef line, size_t begin, size_t end) {
  unsigned before = 0, width = 0, all = 0;
  forEachCharacter(line, [&](size_t at, size_t, unsigned columns) {
    all += columns;
    if (at < begin)
      before += columns;
    else if (at < end)
      width += columns;
  });
  width = std::max(width, 1u);
  if (all <= maxColumns)
    return {printableLine(line), before, width};
  // From where to where, in columns: the marked part in the middle if it fits,
  // else what begins it.
  unsigned room = maxColumns - 2 * cut.size();
  unsigned margin = width < room ? (room - width) / 2 : room / 8;
  unsigned from = before > margin ? before - margin : 0;
  from = std::min(from, std::max(all, room) - room);
  Excerpt excerpt{from > 0 ? cut.str() : "", 0, 0};
  unsigned column = 0, first = 0, last = 0;
  bool hasBegun = false;
  forEachCharacter(line, [&](size_t at, size_t bytes, unsigned columns) {
    // Not within a character, nor with an accent of one that is cut off.
    if (column >= from && column + columns <= from + room &&
        (hasBegun || columns > 0)) {
      if (!hasBegun)
        first = column;
      hasBegun = true;
      excerpt.text += printableLine(line.substr(at, bytes));
      last = column + columns;
    }
    column += columns;
  });
  excerpt.before = before - first + (from > 0 ? cut.size() : 0);
  excerpt.width = std::max(std::min(width, last - before), 1u);
  if (last < all)
    excerpt.text += cut;
  return excerpt;
}

/// The line of an error with a caret below the place. An argument of the
/// command line stands behind its option, and has no number.
static void printPlace(llvm::raw_ostream &os, const SourceFile &file,
                       const Diagnostic &d, const char *red,
                       const char *reset) {
  unsigned line = file.line(d.range.begin);
  llvm::StringRef text = file.lineText(line);
  // A range that goes on over lines is underlined on its first one.
  size_t begin = d.range.begin - file.lineStart(line);
  size_t end = std::max<size_t>(d.range.end - file.lineStart(line), begin + 1);
  Excerpt excerpt =
      excerptOf(text, std::min(begin, text.size()), std::min(end, text.size()));
  llvm::StringRef option = file.isArgument() ? "-D " : "";
  if (file.isArgument())
    os << "      | ";
  else
    os << llvm::format("%5u", line) << " | ";
  os << option << excerpt.text << '\n';
  os << "      | " << std::string(option.size() + excerpt.before, ' ') << red
     << std::string(excerpt.width, '^') << reset;
  if (!d.label.empty())
    os << ' ' << printableLine(shortened(d.label));
  os << '\n';
}

static void printOne(llvm::raw_ostream &os, const SourceManager &sources,
                     const Diagnostic &d, bool color) {
  const char *bold = color ? "\033[1m" : "";
  const char *red = !color ? "" : d.isWarning ? "\033[1;35m" : "\033[1;31m";
  const char *cyan = color ? "\033[1;36m" : "";
  const char *reset = color ? "\033[0m" : "";

  const SourceFile &file = sources.file(d.range.file);
  llvm::StringRef name = file.name();
  // What is wrong with an argument stands below in its line.
  if (file.isArgument() && columnsOf(name) > maxColumns)
    name = name.take_until([](char c) { return c == '='; });
  os << bold << printableLine(name) << ':';
  if (!file.isArgument() && !file.text().empty())
    os << file.line(d.range.begin) << ':' << file.column(d.range.begin) << ':';
  os << ' ' << reset << red << (d.isWarning ? "warning[E" : "error[E")
     << llvm::format("%04u", d.code) << "]: " << reset << bold
     << printable(shortened(d.message)) << reset << '\n';

  // There is nothing to show of a file that cannot be read.
  if (!file.text().empty())
    printPlace(os, file, d, red, reset);
  for (const std::string &note : d.notes)
    os << cyan << "note: " << reset << printable(shortened(note)) << '\n';
  for (const std::string &help : d.helps)
    os << cyan << "help: " << reset << printable(shortened(help)) << '\n';
}

void Diagnostics::print(llvm::raw_ostream &os, bool color) const {
  std::vector<const Diagnostic *> order;
  order.reserve(kept.size() + warnings.size());
  for (const Diagnostic &d : kept)
    order.push_back(&d);
  for (const Diagnostic &d : warnings)
    order.push_back(&d);
  llvm::sort(order, [](const Diagnostic *a, const Diagnostic *b) {
    return std::tie(a->range.file, a->range.begin, a->code) <
           std::tie(b->range.file, b->range.begin, b->code);
  });
  for (const Diagnostic *d : order)
    printOne(os, sources, *d, color);
  if (kept.size() >= maxErrors)
    os << "only the first " << maxErrors << " errors are shown\n";
}

std::string Diagnostics::str() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  print(os);
  return text;
}

/// Whether both have the same letters, in any order, `wdith` and `width`, or
/// `other` has some between those of `name`, `lyrs` and `layers`.
static bool hasTheLettersOf(llvm::StringRef name, llvm::StringRef other) {
  llvm::StringRef rest = name;
  for (char letter : other)
    if (!rest.empty() && llvm::toLower(letter) == llvm::toLower(rest.front()))
      rest = rest.drop_front();
  if (rest.empty())
    return true;
  std::string letters = name.lower(), others = other.lower();
  llvm::sort(letters);
  llvm::sort(others);
  return letters == others;
}

std::string tfm::closestName(llvm::StringRef name,
                             llvm::ArrayRef<std::string> candidates) {
  unsigned limit = std::max<size_t>(1, (name.size() + 2) / 3);
  llvm::StringRef best;
  for (const std::string &candidate : candidates) {
    if (candidate == name)
      continue;
    unsigned distance = name.edit_distance_insensitive(
        candidate, /*AllowReplacements=*/true, limit);
    // Of a short name two other letters are another word: `cross` is no `cos`.
    if (distance > 1 && name.size() < 6 && !hasTheLettersOf(name, candidate))
      continue;
    auto shared = [&](llvm::StringRef other) {
      size_t length = 0;
      while (length < std::min(name.size(), other.size()) &&
             name[length] == other[length])
        ++length;
      return length;
    };
    // Of equally close ones, that which starts alike.
    if (distance < limit ||
        (distance == limit &&
         (best.empty() || shared(candidate) > shared(best)))) {
      best = candidate;
      limit = distance;
    }
  }
  // `vocab_size` for `vocab`, `d_width` for `width`.
  if (best.empty())
    for (const std::string &candidate : candidates)
      if (candidate.size() > std::max<size_t>(best.size(), 2) &&
          (name.starts_with(candidate + "_") ||
           name.ends_with("_" + candidate)))
        best = candidate;
  // One letter for another one-letter name is no suggestion.
  return name.size() == 1 && best.size() == 1 ? std::string() : best.str();
}

llvm::StringRef tfm::explanation(ErrorCode code) {
  std::string name;
  llvm::raw_string_ostream(name) << 'E' << llvm::format("%04u", code) << ".md";
  return embeddedFile(name);
}

std::vector<ErrorCode> tfm::explainedCodes() {
  std::vector<ErrorCode> codes;
  for (llvm::StringRef name : embeddedFileNames()) {
    unsigned code;
    if (name.consume_front("E") && name.consume_back(".md") &&
        !name.getAsInteger(10, code))
      codes.push_back(code);
  }
  llvm::sort(codes);
  return codes;
}
