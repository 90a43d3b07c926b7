//===- Diagnostics.cpp - errors in the user's words -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/Diagnostics.h"

#include "compiler/frontend/Embedded.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Unicode.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

using namespace tfm;

static constexpr size_t maxErrors = 50;

Diagnostic &Diagnostics::error(ErrorCode code, Range range,
                               const llvm::Twine &message) {
  // What is said of characters that are no token follows from that.
  for (ErrorCode lexical : {101, 102, 103})
    if (seen.count({lexical, range.file, range.begin}))
      return ignored();
  if (kept.size() >= maxErrors ||
      !seen.insert({code, range.file, range.begin}).second)
    return ignored();
  kept.push_back({code, range, message.str(), {}, {}, {}, false});
  return kept.back();
}

Diagnostic &Diagnostics::warning(ErrorCode code, Range range,
                                 const llvm::Twine &message) {
  if (warnings.size() >= maxErrors ||
      !seen.insert({code, range.file, range.begin}).second)
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

/// A text without control characters, which a terminal may obey: a blank for
/// each. So a tab is one column, and the caret stands under its character.
static std::string printable(llvm::StringRef line) {
  std::string text;
  for (size_t i = 0; i < line.size(); ++i) {
    auto c = static_cast<unsigned char>(line[i]);
    // U+0080 to U+009F, in UTF-8.
    bool isC1 = c == 0xC2 && i + 1 < line.size() &&
                static_cast<unsigned char>(line[i + 1]) >= 0x80 &&
                static_cast<unsigned char>(line[i + 1]) < 0xA0;
    i += isC1;
    text += c < 0x20 || c == 0x7F || isC1 ? ' ' : static_cast<char>(c);
  }
  return text;
}

/// The same for a note of several lines.
static std::string printableLines(llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef> lines;
  text.split(lines, '\n');
  return llvm::join(llvm::map_range(lines, printable), "\n");
}

/// The columns of a terminal that a part of a line takes: two for a Chinese
/// character.
static unsigned columnsOf(llvm::StringRef text) {
  std::string shown = printable(text);
  int columns = llvm::sys::unicode::columnWidthUTF8(shown);
  return columns < 0 ? countCodePoints(shown) : columns;
}

/// The line of an error with a caret below the place. An argument of the
/// command line stands behind its option, and has no number.
static void printPlace(llvm::raw_ostream &os, const SourceFile &file,
                       const Diagnostic &d, const char *red,
                       const char *reset) {
  unsigned line = file.line(d.range.begin);
  llvm::StringRef text = file.lineText(line);
  uint32_t start = file.lineStart(line);
  // A range that goes on over lines is underlined on its first one.
  uint32_t lineEnd = start + text.size();
  uint32_t end = std::min(std::max(d.range.end, d.range.begin + 1), lineEnd);
  unsigned width = end > d.range.begin
                       ? columnsOf(file.text().slice(d.range.begin, end))
                       : 1;
  unsigned before = columnsOf(file.text().slice(start, d.range.begin));
  llvm::StringRef option = file.isArgument() ? "-D " : "";
  if (file.isArgument())
    os << "      | ";
  else
    os << llvm::format("%5u", line) << " | ";
  os << option << printable(text) << '\n';
  os << "      | " << std::string(option.size() + before, ' ') << red
     << std::string(std::max(width, 1u), '^') << reset;
  if (!d.label.empty())
    os << ' ' << printable(d.label);
  os << '\n';
}

static void printOne(llvm::raw_ostream &os, const SourceManager &sources,
                     const Diagnostic &d, bool color) {
  const char *bold = color ? "\033[1m" : "";
  const char *red = !color ? "" : d.isWarning ? "\033[1;35m" : "\033[1;31m";
  const char *cyan = color ? "\033[1;36m" : "";
  const char *reset = color ? "\033[0m" : "";

  const SourceFile &file = sources.file(d.range.file);
  os << bold << printable(file.name()) << ':';
  if (!file.isArgument() && !file.text().empty())
    os << file.line(d.range.begin) << ':' << file.column(d.range.begin) << ':';
  os << ' ' << reset << red << (d.isWarning ? "warning[E" : "error[E")
     << llvm::format("%04u", d.code) << "]: " << reset << bold
     << printableLines(d.message) << reset << '\n';

  // There is nothing to show of a file that cannot be read.
  if (!file.text().empty())
    printPlace(os, file, d, red, reset);
  for (const std::string &note : d.notes)
    os << cyan << "note: " << reset << printableLines(note) << '\n';
  for (const std::string &help : d.helps)
    os << cyan << "help: " << reset << printableLines(help) << '\n';
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

std::string tfm::closestName(llvm::StringRef name,
                             llvm::ArrayRef<std::string> candidates) {
  unsigned limit = std::max<size_t>(1, (name.size() + 2) / 3);
  llvm::StringRef best;
  for (const std::string &candidate : candidates) {
    if (candidate == name)
      continue;
    unsigned distance = name.edit_distance_insensitive(
        candidate, /*AllowReplacements=*/true, limit);
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
