//===- Sweep.cpp - how a model grows with its hyperparameters -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/report/Sweep.h"

#include "compiler/report/JsonFields.h"
#include "compiler/report/ReadJson.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"

#include <cmath>

using namespace tfm;

llvm::Expected<SweepAxis> tfm::parseSweepAxis(llvm::StringRef text) {
  auto [name, list] = text.split('=');
  SweepAxis axis;
  axis.name = name.trim().str();
  llvm::SmallVector<llvm::StringRef> values;
  list.split(values, ',');
  for (llvm::StringRef value : values)
    axis.values.push_back(value.trim().str());
  if (axis.name.empty() || llvm::is_contained(axis.values, ""))
    return llvm::createStringError("expected name=value,value,..., found '" +
                                   text + "'");
  return axis;
}

std::vector<SweepPoint> tfm::gridOf(llvm::ArrayRef<SweepAxis> axes) {
  std::vector<SweepPoint> points = {SweepPoint()};
  for (const SweepAxis &axis : axes) {
    std::vector<SweepPoint> longer;
    for (const SweepPoint &point : points)
      for (const std::string &value : axis.values) {
        longer.push_back(point);
        longer.back().values.push_back(value);
      }
    points = std::move(longer);
  }
  return points;
}

std::vector<std::pair<std::string, std::string>>
tfm::definesOf(llvm::ArrayRef<SweepAxis> axes, const SweepPoint &point) {
  std::vector<std::pair<std::string, std::string>> defines;
  for (auto [axis, value] : llvm::zip(axes, point.values))
    defines.emplace_back(axis.name, value);
  return defines;
}

std::string tfm::pointText(llvm::ArrayRef<SweepAxis> axes,
                           const SweepPoint &point) {
  std::string text;
  for (auto [axis, value] : llvm::zip(axes, point.values))
    text += (text.empty() ? "" : ", ") + axis.name + " = " + value;
  return text + ": " + point.problem;
}

/// What a table calls the parameters that the model itself declares.
static constexpr llvm::StringLiteral ownColumn = "(its own)";

/// The modules of a model down to a level, without the model: a path each, and
/// the parameters of all its instances.
static std::vector<std::pair<std::string, int64_t>>
componentsOf(const ModelReport &report, std::optional<int> depth) {
  std::vector<std::pair<std::string, int64_t>> components;
  if (!depth || *depth == 0)
    return components;
  for (const ModuleReport &member : report.modules)
    if (member.depth == 0) {
      // So that the first level adds up to the total.
      if (member.ownParameters != 0)
        components.emplace_back(ownColumn, member.totalOwnParameters);
    } else if (member.depth <= *depth) {
      components.emplace_back(member.path, member.totalParameters);
    }
  return components;
}

/// The paths of all points, each once: models may differ in their modules.
static std::vector<std::string>
componentColumns(llvm::ArrayRef<SweepPoint> points, std::optional<int> depth) {
  std::vector<std::string> columns;
  for (const SweepPoint &point : points)
    if (point.report)
      for (const auto &[path, parameters] : componentsOf(*point.report, depth))
        if (!llvm::is_contained(columns, path))
          columns.push_back(path);
  return columns;
}

/// The parameters of each column in one model, 0 where it has no such module.
static std::vector<int64_t> componentRow(const ModelReport &report,
                                         llvm::ArrayRef<std::string> columns,
                                         std::optional<int> depth) {
  std::vector<int64_t> row(columns.size());
  for (const auto &[path, parameters] : componentsOf(report, depth))
    row[llvm::find(columns, path) - columns.begin()] = parameters;
  return row;
}

/// A derivative, which need not be a whole number.
static std::string derivativeText(double derivative) {
  // The whole numbers of doubles, and more than any parameter counts.
  constexpr double exact = 9007199254740992; // 2 ** 53
  if (derivative == std::round(derivative) && std::abs(derivative) <= exact)
    return withThousands(static_cast<int64_t>(derivative));
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.2f", derivative);
  return text;
}

static std::string flopsText(std::optional<FlopCount> flops) {
  return flops ? withThousands(*flops) : "unknown";
}

void tfm::writeSweepText(const ModelReport &base,
                         llvm::ArrayRef<SweepAxis> axes,
                         llvm::ArrayRef<SweepPoint> points,
                         const ReportView &view, llvm::raw_ostream &os) {
  std::vector<std::string> columns = componentColumns(points, view.depth);
  std::vector<std::string> header;
  for (const SweepAxis &axis : axes)
    header.push_back(axis.name);
  llvm::append_range(header, columns);
  header.insert(header.end(), {"parameters", "size"});
  if (view.flops)
    header.insert(header.end(), {"forward FLOPs/token", "train FLOPs/step"});
  TextTable table(std::vector<bool>(header.size(), true));
  table.add(header);
  std::vector<const SweepPoint *> failed;
  for (const SweepPoint &point : points) {
    std::vector<std::string> row = point.values;
    if (!point.report) {
      row.insert(row.end(), columns.size() + 1, "-");
      failed.push_back(&point);
      table.add(row);
      continue;
    }
    for (int64_t part : componentRow(*point.report, columns, view.depth))
      row.push_back(withThousands(part));
    row.push_back(withThousands(point.report->total));
    row.push_back(withByteUnit(point.report->bytes));
    if (view.flops) {
      row.push_back(flopsText(point.report->flops.forwardPerToken));
      row.push_back(flopsText(point.report->flops.trainStep));
    }
    table.add(row);
  }
  os << base.model << "\n\n";
  table.write(os);
  if (!failed.empty())
    os << "\nNot possible (-)\n";
  for (const SweepPoint *point : failed)
    os << "  " << pointText(axes, *point) << "\n";

  if (base.sensitivities.empty())
    return;
  os << "\nWhat moves the total most, at " << withThousands(base.total)
     << " parameters\n";
  TextTable moves({false, true, true, true});
  moves.add({"", "1 more adds", "derivative", "elasticity"});
  for (const ModelReport::Sensitivity &by : base.sensitivities) {
    std::string elasticity;
    llvm::raw_string_ostream(elasticity) << llvm::format("%.3f", by.elasticity);
    moves.add({by.name, by.oneMore ? withThousands(*by.oneMore) : "-",
               derivativeText(by.derivative), elasticity});
  }
  moves.write(os);
}

void tfm::writeSweepJson(const ModelReport &base,
                         llvm::ArrayRef<SweepAxis> axes,
                         llvm::ArrayRef<SweepPoint> points,
                         const ReportView &view, llvm::raw_ostream &os) {
  llvm::json::OStream json(os, 1);
  json.object([&] {
    json.attribute("format", 1);
    json.attribute("model", base.model);
    json.attribute("source", base.source);
    json.attributeArray("sweep", [&] {
      for (const SweepPoint &point : points)
        json.object([&] {
          json.attributeObject("hyperparameters", [&] {
            for (auto [axis, value] : llvm::zip(axes, point.values)) {
              llvm::Expected<llvm::json::Value> number = readJson(value);
              if (number)
                json.attribute(axis.name, *number);
              else
                json.attribute(axis.name, value);
              llvm::consumeError(number.takeError());
            }
          });
          const ModelReport *report = point.report ? &*point.report : nullptr;
          optionalField(json, "total",
                        report ? std::optional(report->total) : std::nullopt);
          optionalField(json, "bytes",
                        report ? std::optional(report->bytes) : std::nullopt);
          optionalField(json, "forward_per_token",
                        report ? report->flops.forwardPerToken : std::nullopt);
          optionalField(json, "train_step",
                        report ? report->flops.trainStep : std::nullopt);
          if (report && view.depth)
            json.attributeArray("modules", [&] {
              for (const ModuleReport &member : report->modules)
                if (member.depth > 0 && member.depth <= *view.depth)
                  json.object([&] {
                    json.attribute("path", member.path);
                    json.attribute("module", member.module);
                    json.attribute("parameters", member.totalParameters);
                  });
            });
          json.attribute("problem", point.problem.empty()
                                        ? llvm::json::Value(nullptr)
                                        : llvm::json::Value(point.problem));
        });
    });
    sensitivityField(json, "sensitivity", base);
  });
  os << "\n";
}

void tfm::writeSweepCsv(llvm::ArrayRef<SweepAxis> axes,
                        llvm::ArrayRef<SweepPoint> points,
                        const ReportView &view, llvm::raw_ostream &os) {
  std::vector<std::string> columns = componentColumns(points, view.depth);
  for (const SweepAxis &axis : axes)
    os << axis.name << ',';
  for (const std::string &column : columns)
    os << column << ',';
  os << "total,bytes,forward_per_token,train_step\n";
  for (const SweepPoint &point : points) {
    for (const std::string &value : point.values)
      os << value << ',';
    if (!point.report) {
      os << std::string(columns.size(), ',') << ",,,\n";
      continue;
    }
    for (int64_t part : componentRow(*point.report, columns, view.depth))
      os << part << ',';
    os << point.report->total << ',' << point.report->bytes << ',';
    if (point.report->flops.forwardPerToken)
      os << digitsOf(*point.report->flops.forwardPerToken);
    os << ',';
    if (point.report->flops.trainStep)
      os << digitsOf(*point.report->flops.trainStep);
    os << '\n';
  }
}
