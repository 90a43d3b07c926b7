//===- TextTable.cpp - numbers and tables for people ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/report/Writers.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Unicode.h"

#include <algorithm>
#include <cmath>

using namespace tfm;

std::string tfm::digitsOf(FlopCount number) {
  std::string digits;
  for (FlopCount rest = number; digits.empty() || rest != 0; rest /= 10)
    digits.insert(
        digits.begin(),
        static_cast<char>('0' + std::abs(static_cast<int>(rest % 10))));
  return (number < 0 ? "-" : "") + digits;
}

std::string tfm::withThousands(FlopCount number) {
  std::string digits = digitsOf(number);
  size_t first = digits[0] == '-' ? 1 : 0;
  for (size_t i = digits.size(); i > first + 3;) {
    i -= 3;
    digits.insert(i, ",");
  }
  return digits;
}

static std::string scaled(double value, double base,
                          llvm::ArrayRef<const char *> units) {
  size_t unit = 0;
  while (value >= base && unit + 1 < units.size()) {
    value /= base;
    ++unit;
  }
  std::string text;
  llvm::raw_string_ostream(text)
      << llvm::format(unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
  return text;
}

std::string tfm::withByteUnit(int64_t bytes) {
  return scaled(static_cast<double>(bytes), 1024,
                {"bytes", "KiB", "MiB", "GiB", "TiB"});
}

std::string tfm::withFlopUnit(FlopCount flops) {
  return scaled(
      static_cast<double>(flops), 1000,
      {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP", "ZFLOP"});
}

/// The shortest text that reads back as the same number.
static std::string realText(double value) {
  for (int digits = 1; digits <= 17; ++digits) {
    std::string text;
    llvm::raw_string_ostream(text) << llvm::format("%.*g", digits, value);
    double back;
    if (!llvm::to_float(text, back) || back != value)
      continue;
    if (llvm::StringRef(text).contains("e+") && std::abs(value) < 1e15) {
      // 30.0, not 3e+01.
      text.clear();
      llvm::raw_string_ostream(text) << llvm::format("%.1f", value);
    }
    // 1e-5, as people write it.
    if (size_t at = text.find("e-0"); at != std::string::npos)
      text.erase(at + 2, 1);
    bool whole =
        llvm::StringRef(text).find_first_of(".en") == llvm::StringRef::npos;
    return whole ? text + ".0" : text;
  }
  return std::to_string(value);
}

std::string tfm::valueText(const Hyperparameter &parameter) {
  struct Printer {
    std::string operator()(int64_t value) { return std::to_string(value); }
    std::string operator()(double value) { return realText(value); }
    std::string operator()(bool value) { return value ? "true" : "false"; }
    std::string operator()(const std::string &value) { return value; }
  };
  return std::visit(Printer(), parameter.value);
}

std::string tfm::shapeText(llvm::ArrayRef<int64_t> shape) {
  std::vector<std::string> words;
  for (int64_t size : shape)
    words.push_back(std::to_string(size));
  return shapeText(words);
}

std::string tfm::shapeText(llvm::ArrayRef<std::string> dims) {
  return "[" + llvm::join(dims, ", ") + "]";
}

std::string tfm::rateText(const TensorReport &tensor) {
  std::string text;
  llvm::raw_string_ostream(text)
      << llvm::format("%g times the learning rate", tensor.rate);
  return text;
}

/// Of a part `6*+5` of a path, of a repeat with `count` layers whose name ends
/// in `last`, the numbers of its layers, `5, 11`, and how many they are;
/// nothing of any other part.
static std::optional<std::pair<std::string, int64_t>>
layerNumbers(llvm::StringRef part, llvm::StringRef last, int64_t count) {
  auto [period, phase] = part.split("*+");
  int64_t step = 0, body = 0;
  if (period.getAsInteger(10, step) || phase.getAsInteger(10, body) || step < 1)
    return std::nullopt;
  int64_t first = firstLayer(last).value_or(0) + body;
  int64_t layers = count / step;
  std::string numbers = std::to_string(first);
  if (layers > 1)
    numbers += ", " + std::to_string(first + step);
  if (layers > 2)
    numbers += ", ...";
  return std::pair(numbers, layers);
}

std::string tfm::pathText(const ModelReport &report, llvm::StringRef path) {
  std::string text;
  llvm::StringRef last;
  for (llvm::StringRef rest = path; !rest.empty();) {
    llvm::StringRef before = path.drop_back(rest.size());
    auto [part, behind] = rest.split('.');
    before.consume_back(".");
    auto repeat =
        llvm::find_if(report.modules, [&](const ModuleReport &member) {
          return member.path == before && member.count > 0;
        });
    auto numbers = repeat == report.modules.end()
                       ? std::nullopt
                       : layerNumbers(part, last, repeat->count);
    text += (text.empty() ? "" : ".") +
            (numbers ? "[" + numbers->first + "]" : part.str());
    last = part;
    rest = behind;
  }
  return text;
}

llvm::StringRef tfm::otherFile(const ModelReport &report,
                               llvm::StringRef file) {
  return file == report.source ? "" : file;
}

std::string tfm::memberName(const ModelReport &report,
                            const ModuleReport &member) {
  llvm::StringRef name = member.path;
  name.consume_front(report.modules[member.parent].path);
  name.consume_front(".");
  const ModuleReport &parent = report.modules[member.parent];
  if (parent.count == 0)
    return name.str();
  auto [layer, rest] = name.split('.');
  auto numbers = layerNumbers(
      layer, llvm::StringRef(parent.path).rsplit('.').second, parent.count);
  if (!numbers)
    return rest.str();
  return (rest + (numbers->second > 1 ? " (layers " : " (layer ") +
          numbers->first + ")")
      .str();
}

/// Columns that a text takes on a terminal.
static size_t widthOf(const std::string &text) {
  int width = llvm::sys::unicode::columnWidthUTF8(text);
  return width < 0 ? text.size() : static_cast<size_t>(width);
}

void TextTable::write(llvm::raw_ostream &os, unsigned indent) const {
  std::vector<size_t> widths(rightAligned.size());
  for (const auto &row : rows)
    for (auto [i, cell] : llvm::enumerate(row))
      widths[i] = std::max(widths[i], widthOf(cell));
  for (const auto &row : rows) {
    std::string line(indent, ' ');
    for (auto [i, cell] : llvm::enumerate(row)) {
      std::string space(widths[i] - widthOf(cell), ' ');
      line += i == 0 ? "" : "  ";
      line += rightAligned[i] ? space + cell : cell + space;
    }
    os << llvm::StringRef(line).rtrim(' ') << "\n";
  }
}
