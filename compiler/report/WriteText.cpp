//===- WriteText.cpp - a report for people --------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/report/Writers.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <set>

using namespace tfm;

static std::string percent(FlopCount part, FlopCount whole) {
  if (whole == 0)
    return "";
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format(
      "%.1f%%", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
  return text;
}

/// `patterns` of tensors, with the name of a module in place of those of
/// several that are all it has.
static std::vector<std::string>
wholeModules(const ModelReport &report, std::vector<std::string> patterns) {
  std::set<std::string> all;
  for (const TensorReport &tensor : report.tensors)
    all.insert(tensor.pattern);
  // From the outermost on, the model itself aside.
  for (const ModuleReport &module : llvm::drop_begin(report.modules)) {
    auto isInside = [&](const std::string &name) {
      return llvm::StringRef(name).starts_with(module.path + ".");
    };
    auto count = llvm::count_if(all, isInside);
    if (count < 2 || llvm::count_if(patterns, isInside) != count)
      continue;
    auto first = llvm::find_if(patterns, isInside);
    *first = module.path;
    patterns.erase(std::remove_if(std::next(first), patterns.end(), isInside),
                   patterns.end());
  }
  return patterns;
}

static void writeTree(const ModelReport &report, const ReportView &view,
                      llvm::raw_ostream &os) {
  bool repeats = llvm::any_of(report.modules, [](const ModuleReport &member) {
    return member.count != 0;
  });
  TextTable table({false, true, true, true, false});
  table.add({"", "parameters", "share", repeats ? "per layer" : "",
             view.formulas ? "formula" : ""});

  std::vector<std::vector<int>> members(report.modules.size());
  for (int i = 1, end = static_cast<int>(report.modules.size()); i != end; ++i)
    members[report.modules[i].parent].push_back(i);

  auto visit = [&](auto &&self, int index, const std::string &indent) -> void {
    const ModuleReport &member = report.modules[index];
    std::string name = index == 0 ? "" : memberName(report, member) + ": ";
    if (member.count != 0)
      name += std::to_string(member.count) + " x ";
    name += member.module;
    std::string each;
    if (member.count != 0)
      each = llvm::all_equal(member.layerParameters)
                 ? withThousands(member.layerParameters.front())
                 : "differs";
    else if (member.instances != 1)
      each = withThousands(member.parameters);
    std::string words = member.totalFormula;
    if (!member.tied.empty() && member.parameters == 0)
      words = "is " + llvm::join(wholeModules(report, member.tied), ", ");
    else if (!view.formulas)
      words.clear();
    table.add({indent + name, withThousands(member.totalParameters),
               percent(member.totalParameters, report.total), each, words});
    if (view.depth && member.depth >= *view.depth)
      return;
    if (!members[index].empty() && member.ownParameters != 0) {
      // So that the lines below a module add up to its own.
      int64_t own = member.ownParameters, all = member.totalOwnParameters;
      table.add({indent + "  (its own)", withThousands(all),
                 percent(all, report.total),
                 own != all ? withThousands(own) : "", ""});
    }
    for (int next : members[index])
      self(self, next, indent + "  ");
  };
  visit(visit, 0, "");
  table.write(os);
}

static void writeTensors(const ModelReport &report, const ReportView &view,
                         llvm::raw_ostream &os) {
  TextTable table({false, false, false, true, false});
  for (const TensorReport &tensor : report.tensors) {
    llvm::SmallVector<std::string> words;
    if (view.formulas)
      words.push_back("= " + tensor.formula);
    if (!tensor.aliases.empty())
      words.push_back("also " + llvm::join(tensor.aliases, ", "));
    if (!tensor.trainable)
      words.push_back("not trained");
    if (tensor.rate != 1)
      words.push_back(rateText(tensor));
    if (tensor.noDecay)
      words.push_back("no weight decay");
    table.add({tensor.name, shapeText(tensor.dims), shapeText(tensor.shape),
               withThousands(tensor.parameters), llvm::join(words, "; ")});
  }
  os << "\nTensors (" << report.tensors.size() << ")\n";
  table.write(os);
}

static void writeShapes(const ModelReport &report, llvm::raw_ostream &os) {
  TextTable table({true, false, false, false, false, false});
  for (const ValueReport &value : report.values)
    table.add({std::to_string(value.line),
               (value.path.empty() ? "" : value.path + ".") + value.name,
               shapeText(value.dims), shapeText(value.shape),
               value.role == "value" ? "" : value.role,
               otherFile(report, value.file).str()});
  os << "\nShapes (line, value, in words, in numbers)\n";
  table.write(os);
}

/// Each kind's count for one of `parts`, which all counts are of together.
static void writeKinds(const FlopsByKind &kinds, int64_t parts,
                       llvm::raw_ostream &os) {
  FlopCount all = 0;
  for (const auto &[kind, count] : kinds)
    all += count;
  TextTable table({false, true, true});
  FlopCount rest = 0;
  for (const auto &[kind, count] : kinds) {
    if (count * 1000 < all)
      rest += count;
    else
      table.add({kind, withThousands(count / parts), percent(count, all)});
  }
  if (rest != 0)
    table.add({"others", withThousands(rest / parts), percent(rest, all)});
  table.write(os, 4);
}

/// What products multiply, each count for one of `parts`.
static void addProducts(TextTable &table, llvm::StringRef what,
                        const FlopsByKind &byType, int64_t parts) {
  FlopCount all = 0;
  for (const auto &[type, count] : byType)
    all += count;
  for (const auto &[type, count] : byType)
    table.add({&type == &byType.front().first ? what.str() : "", type,
               withThousands(count / parts), percent(count, all)});
}

static void writeFlops(const ModelReport &report, llvm::raw_ostream &os) {
  const FlopsReport &flops = report.flops;
  os << "\nFLOPs\n";
  if (flops.forwardPerToken) {
    os << "  forward, per " << flops.unit << ": "
       << withThousands(*flops.forwardPerToken) << " ("
       << withFlopUnit(*flops.forwardPerToken) << ")";
    if (flops.forwardTokens > 1)
      os << ", the mean over " << withThousands(flops.forwardTokens)
         << (flops.unit == "example" ? " examples" : " positions");
    os << "\n";
    writeKinds(flops.forward, flops.forwardTokens, os);
  }
  if (flops.trainStep) {
    os << "  train, per step: " << withThousands(*flops.trainStep) << " ("
       << withFlopUnit(*flops.trainStep) << ")\n";
    writeKinds(flops.train, /*parts=*/1, os);
  } else {
    os << "  train, per step: unknown: that takes a `train` block, and "
          "generate.weights = f32\n";
  }
  TextTable products({false, false, true, true});
  if (flops.forwardPerToken)
    addProducts(products, "forward, per " + flops.unit, flops.forwardProducts,
                flops.forwardTokens);
  addProducts(products, "train, per step", flops.trainProducts, /*parts=*/1);
  os << "  products and attention, by the type of what they multiply\n";
  products.write(os, 4);
}

/// The parts of the memory in rows, a column for each type.
static void writeMemoryTypes(const MemoryReport &memory,
                             llvm::raw_ostream &os) {
  std::vector<std::pair<std::string, const BytesByType *>> parts;
  for (const auto &[part, byType] : memory.types)
    parts.emplace_back(part == "saved" ? "saved for backward" : part, &byType);
  for (const MemoryPhase &phase : memory.phases)
    if (phase.name == "train")
      parts.emplace_back("train, where most lives", &phase.liveTypes);
  std::vector<std::string> types;
  for (const auto &[part, byType] : parts)
    for (const auto &[type, bytes] : *byType)
      if (!llvm::is_contained(types, type))
        types.push_back(type);
  std::vector<bool> rightAligned(types.size() + 1, true);
  rightAligned.front() = false;
  TextTable table(rightAligned);
  std::vector<std::string> head = {"by type"};
  llvm::append_range(head, types);
  table.add(head);
  for (const auto &[part, byType] : parts) {
    if (byType->empty())
      continue;
    std::vector<std::string> cells = {"  " + part};
    for (const std::string &type : types) {
      auto found = llvm::find_if(
          *byType, [&](const auto &entry) { return entry.first == type; });
      cells.push_back(found == byType->end() ? ""
                                             : withByteUnit(found->second));
    }
    table.add(cells);
  }
  table.write(os);
}

/// `1.23 s`, `45.6 ms`, `7.8 us`, `0.012 us`.
static std::string secondsText(double seconds) {
  if (seconds >= 1)
    return llvm::formatv("{0:F2} s", seconds);
  if (seconds >= 0.1e-3 || seconds == 0)
    return llvm::formatv("{0:F1} ms", seconds * 1e3);
  if (seconds >= 0.1e-6)
    return llvm::formatv("{0:F1} us", seconds * 1e6);
  return llvm::formatv("{0:F3} us", seconds * 1e6);
}

/// `4 processes send 0-2: 5,148,672; 3: 5,107,712`; where that are many,
/// whoever sends most and least.
static void writeSentBy(const SharedReport &shared, llvm::raw_ostream &os) {
  constexpr size_t few = 4;
  auto byBytes = [](const SentBy &a, const SentBy &b) {
    return a.bytes < b.bytes;
  };
  std::vector<SentBy> said = shared.sentBy;
  if (said.size() > few)
    said = {*llvm::max_element(said, byBytes),
            *llvm::min_element(said, byBytes)};
  os << "  " << shared.processes << " processes send"
     << (said.size() < shared.sentBy.size() ? ", most and least, " : " ");
  llvm::interleave(
      said, os,
      [&](const SentBy &some) {
        os << some.first;
        if (some.last != some.first)
          os << '-' << some.last;
        os << ": " << withThousands(some.bytes);
      },
      "; ");
  os << '\n';
}

static void writeShared(const MemoryReport &memory, llvm::raw_ostream &os) {
  os << "\nProcesses that share an update, each:\n";
  bool predicts = llvm::any_of(memory.shared, [](const SharedReport &shared) {
    return shared.seconds.has_value();
  });
  std::vector<std::string> head = {"processes", "micro-batches",
                                   "optimizer", "incoming",
                                   "memory",    "sent in an update"};
  if (predicts)
    head.insert(head.end(),
                {"step", "computes", "waits", "hidden", "efficiency"});
  TextTable table(std::vector<bool>(head.size(), true));
  table.add(head);
  for (const SharedReport &shared : memory.shared) {
    std::string number = std::to_string(shared.processes);
    if (!shared.problem.empty()) {
      table.add({number, "-"});
      continue;
    }
    std::vector<std::string> cells = {number,
                                      std::to_string(shared.microBatches),
                                      withThousands(shared.optimizer),
                                      withThousands(shared.incoming),
                                      withThousands(shared.memory),
                                      withThousands(shared.sent)};
    if (const std::optional<StepSeconds> &seconds = shared.seconds) {
      double computes = seconds->compute + seconds->update;
      cells.insert(cells.end(),
                   {secondsText(seconds->step), secondsText(computes),
                    secondsText(seconds->step - computes),
                    secondsText(seconds->hidden),
                    llvm::formatv("{0:P0}", shared.efficiency).str()});
    }
    table.add(cells);
  }
  table.write(os);
  for (const SharedReport &shared : memory.shared)
    if (shared.sentBy.size() > 1)
      writeSentBy(shared, os);
  for (const SharedReport &shared : memory.shared)
    if (!shared.problem.empty())
      os << "  " << shared.processes << ' ' << shared.problem << '\n';
}

static void writeMemory(const MemoryReport &memory, llvm::raw_ostream &os) {
  os << "\nMemory (batch " << memory.batch;
  if (memory.sequence)
    os << ", sequence " << *memory.sequence;
  os << ", " << memory.precision;
  for (const auto &[what, type] : {std::pair("weights", memory.weights),
                                   std::pair("cache", memory.cacheType)})
    if (type != "f32")
      os << ", " << what << " " << type;
  os << ")\n";
  TextTable table({false, true, true});
  auto row = [&](const char *what, int64_t bytes) {
    table.add({what, withThousands(bytes), withByteUnit(bytes)});
  };
  row("parameters", memory.parameters);
  row("gradients", memory.gradients);
  row("optimizer", memory.optimizer);
  if (memory.constants != 0)
    row("constants", memory.constants);
  row("activations", memory.activations);
  for (const MemoryPhase &phase : memory.phases)
    row(("  " + phase.name).c_str(), phase.activations);
  if (memory.cache != 0)
    row("  cache", memory.cache);
  row("arena", memory.arena);
  row("lower bound", memory.lowerBound);
  table.write(os);
  writeMemoryTypes(memory, os);
  if (!memory.shared.empty())
    writeShared(memory, os);
  if (memory.texts == 0)
    return;
  std::vector<std::string> chunks;
  for (int64_t chunk : memory.chunks)
    chunks.push_back(std::to_string(chunk));
  os << "\nGeneration: " << memory.texts
     << (memory.texts == 1 ? " text" : " texts together")
     << ", prompts in chunks of " << llvm::join(chunks, ", ") << " tokens\n";
}

void tfm::writeText(const ModelReport &report, const ReportView &view,
                    llvm::raw_ostream &os) {
  os << report.model;
  if (!report.source.empty())
    os << " (" << report.source << ")";
  os << "\n";
  std::vector<std::string> settings;
  settings.reserve(report.hyperparameters.size());
  for (const Hyperparameter &parameter : report.hyperparameters)
    settings.push_back(parameter.name + " = " + valueText(parameter));
  if (!settings.empty())
    os << "  " << llvm::join(settings, ", ") << "\n";
  os << "\n";

  writeTree(report, view, os);

  os << "\nTotal: " << withThousands(report.total) << " parameters";
  if (report.trainable != report.total)
    os << " (" << withThousands(report.trainable) << " trained)";
  os << ", " << withByteUnit(report.bytes) << "\n";
  if (view.formulas)
    os << "     = " << report.formula << "\n";
  if (view.tensors)
    writeTensors(report, view, os);
  if (view.shapes)
    writeShapes(report, os);
  if (view.flops)
    writeFlops(report, os);
  if (view.memory && report.memory)
    writeMemory(*report.memory, os);
  if (!report.wholeSequence.empty())
    os << "\nGeneration evaluates the whole sequence for every token: "
       << report.wholeSequence << "\n";
}
