//===- Diff.cpp - what differs between two models -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/report/Diff.h"

#include "compiler/report/JsonFields.h"
#include "compiler/report/Writers.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"

#include <map>

using namespace tfm;

namespace {

/// What a report says about one name: in words, as a number, and as JSON
/// (empty: the words).
struct Fact {
  std::string text;
  std::optional<FlopCount> number;
  std::string json = {};
};
/// In the order of the report.
using Facts =
    llvm::MapVector<std::string, Fact, std::map<std::string, unsigned>>;

/// Facts of one kind from two reports become differences.
class Differ {
public:
  void compare(llvm::StringRef kind, const Facts &a, const Facts &b) {
    for (const auto &[name, before] : a) {
      auto after = b.find(name);
      note(kind, name, before, after == b.end() ? Fact() : after->second);
    }
    for (const auto &[name, after] : b)
      if (!a.contains(name))
        note(kind, name, Fact(), after);
  }
  std::vector<Difference> differences;

private:
  static std::string jsonOf(const Fact &fact) {
    if (!fact.json.empty())
      return fact.json;
    std::string text;
    llvm::raw_string_ostream(text)
        << (fact.text.empty() ? llvm::json::Value(nullptr)
                              : llvm::json::Value(fact.text));
    return text;
  }
  void note(llvm::StringRef kind, const std::string &name, const Fact &before,
            const Fact &after) {
    if (before.text == after.text)
      return;
    std::optional<FlopCount> change;
    if (before.number || after.number)
      change = after.number.value_or(0) - before.number.value_or(0);
    differences.push_back({kind.str(), name, before.text, after.text,
                           jsonOf(before), jsonOf(after), change});
  }
};

} // namespace

static Facts hyperparametersOf(const ModelReport &report) {
  Facts facts;
  for (const Hyperparameter &parameter : report.hyperparameters)
    facts[parameter.name] = {valueText(parameter), std::nullopt,
                             valueJson(parameter)};
  return facts;
}

static Facts totalsOf(const ModelReport &report) {
  Facts facts;
  auto add = [&](const std::string &name, std::optional<FlopCount> number) {
    if (number)
      facts[name] = {withThousands(*number), number, digitsOf(*number)};
  };
  add("parameters", report.total);
  add("trainable parameters", report.trainable);
  add("bytes", report.bytes);
  add("forward FLOPs per " + report.flops.unit, report.flops.forwardPerToken);
  add("train FLOPs per step", report.flops.trainStep);
  if (report.memory) {
    facts["precision"] = {report.memory->precision, std::nullopt};
    add("arena bytes", report.memory->arena);
  }
  return facts;
}

/// `h.*.attn` of `h.2*+1.attn`, the same in all layers of a repeat; and of how
/// many such paths all layers are made.
static std::pair<std::string, int64_t> ofAllLayers(llvm::StringRef path) {
  std::string all;
  int64_t paths = 1;
  llvm::SmallVector<llvm::StringRef> parts;
  path.split(parts, '.');
  for (llvm::StringRef part : parts) {
    int64_t period = 1;
    llvm::StringRef rest = part;
    if (part.contains('*') && !rest.consumeInteger(10, period))
      paths *= period;
    all += (all.empty() ? "" : ".") + (part.contains('*') ? "*" : part).str();
  }
  return {all, paths};
}

/// What a report says about paths, in its order. Layers of which it says the
/// same are told of together, though they may differ in something else: in
/// another model they need not.
class FactsOfPaths {
public:
  explicit FactsOfPaths(const ModelReport &report) : report(report) {}

  /// Of one instance: the numbers of several are added up.
  Fact &at(const std::string &path) { return facts[path]; }

  /// `write` makes the text of what was said of one and the sum.
  Facts finish(llvm::function_ref<void(Fact &)> write = [](Fact &) {}) {
    std::map<std::string, std::vector<const Fact *>> byLayers;
    for (const auto &[path, fact] : facts)
      byLayers[ofAllLayers(path).first].push_back(&fact);
    Facts result;
    for (auto &[path, fact] : facts) {
      auto [all, paths] = ofAllLayers(path);
      llvm::ArrayRef<const Fact *> same = byLayers[all];
      bool isOne = paths > 1 && static_cast<int64_t>(same.size()) == paths &&
                   llvm::all_of(same, [&](const Fact *other) {
                     return other->text == same.front()->text;
                   });
      Fact &shown = result[pathText(report, isOne ? all : path)];
      std::optional<FlopCount> before = shown.number;
      shown = fact;
      if (before)
        *shown.number += *before;
    }
    for (auto &[path, fact] : result)
      write(fact);
    return result;
  }

private:
  const ModelReport &report;
  Facts facts;
};

static Facts modulesOf(const ModelReport &report) {
  FactsOfPaths facts(report);
  for (const ModuleReport &member : llvm::drop_begin(report.modules)) {
    std::string text = member.module;
    if (member.count != 0)
      text = std::to_string(member.count) + " x " + text;
    facts.at(member.path) = {text, member.totalParameters};
  }
  return facts.finish([](Fact &fact) {
    fact.text += ", " + withThousands(*fact.number) + " parameters";
  });
}

static Facts tensorsOf(const ModelReport &report) {
  FactsOfPaths facts(report);
  for (const TensorReport &tensor : report.tensors)
    facts.at(tensor.pattern) = {
        shapeText(tensor.shape) + " = " + shapeText(tensor.dims) +
            (tensor.trainable ? "" : ", not trained") +
            (tensor.rate == 1 ? "" : ", " + rateText(tensor)) +
            (tensor.noDecay ? ", no weight decay" : ""),
        std::nullopt};
  return facts.finish();
}

static Facts valuesOf(const ModelReport &report) {
  FactsOfPaths facts(report);
  for (const ValueReport &value : report.values) {
    std::string name =
        (value.path.empty() ? "" : value.path + ".") + value.name;
    // A name may be assigned more than once.
    std::string &text = facts.at(name).text;
    text += (text.empty() ? "" : ", then ") + shapeText(value.shape);
  }
  return facts.finish();
}

std::vector<Difference> tfm::diffReports(const ModelReport &a,
                                         const ModelReport &b) {
  Differ differ;
  differ.compare("hyperparameter", hyperparametersOf(a), hyperparametersOf(b));
  differ.compare("total", totalsOf(a), totalsOf(b));
  differ.compare("module", modulesOf(a), modulesOf(b));
  differ.compare("tensor", tensorsOf(a), tensorsOf(b));
  differ.compare("value", valuesOf(a), valuesOf(b));
  return std::move(differ.differences);
}

void tfm::writeDiffText(llvm::ArrayRef<Difference> differences,
                        llvm::raw_ostream &os) {
  if (differences.empty()) {
    os << "no difference in hyperparameters, parameters, modules, tensors, "
          "shapes, FLOPs, memory and precision (what functions compute is not "
          "compared)\n";
    return;
  }
  const std::pair<const char *, const char *> kinds[] = {
      {"hyperparameter", "Hyperparameters"},
      {"total", "Totals"},
      {"module", "Modules"},
      {"tensor", "Tensors"},
      {"value", "Shapes"}};
  bool first = true;
  for (auto [kind, title] : kinds) {
    TextTable table({false, false, false, false, true});
    bool any = false;
    for (const Difference &difference : differences) {
      if (difference.kind != kind)
        continue;
      any = true;
      std::string change;
      if (difference.change && *difference.change != 0)
        change = (*difference.change > 0 ? "+" : "") +
                 withThousands(*difference.change);
      table.add({difference.name,
                 difference.before.empty() ? "-" : difference.before, "->",
                 difference.after.empty() ? "-" : difference.after, change});
    }
    if (!any)
      continue;
    os << (first ? "" : "\n") << title << "\n";
    table.write(os);
    first = false;
  }
}

void tfm::writeDiffJson(const ModelReport &a, const ModelReport &b,
                        llvm::ArrayRef<Difference> differences,
                        llvm::raw_ostream &os) {
  llvm::json::OStream json(os, 1);
  auto raw = [&](llvm::StringRef name, const std::string &value) {
    json.attributeBegin(name);
    json.rawValue(value);
    json.attributeEnd();
  };
  json.object([&] {
    json.attribute("format", 1);
    json.attribute("before", a.source);
    json.attribute("after", b.source);
    json.attributeArray("differences", [&] {
      for (const Difference &difference : differences)
        json.object([&] {
          json.attribute("kind", difference.kind);
          json.attribute("name", difference.name);
          raw("before", difference.beforeJson);
          raw("after", difference.afterJson);
          optionalField(json, "change", difference.change);
        });
    });
  });
  os << "\n";
}
