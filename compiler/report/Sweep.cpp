//===- Sweep.cpp - how a model grows with its hyperparameters -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/report/Sweep.h"

#include "compiler/report/JsonFields.h"
#include "compiler/report/Writers.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"

using namespace tfm;

llvm::Expected<SweepAxis> tfm::parseSweepAxis(llvm::StringRef text) {
  auto [name, list] = text.split('=');
  SweepAxis axis;
  axis.name = name.trim().str();
  llvm::SmallVector<llvm::StringRef> values;
  list.split(values, ',');
  for (llvm::StringRef value : values)
    if (!value.trim().empty())
      axis.values.push_back(value.trim().str());
  if (axis.name.empty() || axis.values.empty())
    return llvm::createStringError("expected name=value,value,..., found '" +
                                   text + "'");
  return axis;
}

std::vector<SweepPoint> tfm::runSweep(llvm::ArrayRef<SweepAxis> axes,
                                      SweepModel make) {
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
  for (SweepPoint &point : points) {
    std::vector<std::pair<std::string, std::string>> defines;
    for (auto [axis, value] : llvm::zip(axes, point.values))
      defines.emplace_back(axis.name, value);
    point.report = make(defines, point.problem);
  }
  return points;
}

static std::string flopsText(std::optional<int64_t> flops) {
  return flops ? withThousands(*flops) : "unknown";
}

void tfm::writeSweepText(const ModelReport &base,
                         llvm::ArrayRef<SweepAxis> axes,
                         llvm::ArrayRef<SweepPoint> points, bool flops,
                         llvm::raw_ostream &os) {
  std::vector<bool> rightAligned(axes.size() + 2, true);
  std::vector<std::string> header;
  for (const SweepAxis &axis : axes)
    header.push_back(axis.name);
  header.insert(header.end(), {"parameters", "size"});
  if (flops) {
    rightAligned.insert(rightAligned.end(), {true, true});
    header.insert(header.end(), {"forward FLOPs/token", "train FLOPs/step"});
  }
  TextTable table(rightAligned);
  table.add(header);
  std::vector<const SweepPoint *> failed;
  for (const SweepPoint &point : points) {
    std::vector<std::string> row = point.values;
    if (!point.report) {
      row.push_back("-");
      failed.push_back(&point);
      table.add(row);
      continue;
    }
    row.push_back(withThousands(point.report->total));
    row.push_back(withByteUnit(point.report->bytes));
    if (flops) {
      row.push_back(flopsText(point.report->flops.forwardPerToken));
      row.push_back(flopsText(point.report->flops.trainStep));
    }
    table.add(row);
  }
  os << base.model << "\n\n";
  table.write(os);
  if (!failed.empty())
    os << "\nNot possible (-)\n";
  for (const SweepPoint *point : failed) {
    os << "  ";
    for (auto [i, value] : llvm::enumerate(point->values))
      os << (i == 0 ? "" : ", ") << axes[i].name << " = " << value;
    os << ": " << point->problem << "\n";
  }

  if (base.sensitivities.empty())
    return;
  os << "\nWhat moves the total most, at " << withThousands(base.total)
     << " parameters\n";
  TextTable moves({false, true, true});
  moves.add({"", "1 more adds", "1% more adds"});
  for (const ModelReport::Sensitivity &by : base.sensitivities) {
    std::string share;
    llvm::raw_string_ostream(share) << llvm::format("%.2f%%", by.elasticity);
    moves.add({by.name,
               withThousands(static_cast<int64_t>(
                   by.derivative + (by.derivative < 0 ? -0.5 : 0.5))),
               share});
  }
  moves.write(os);
}

void tfm::writeSweepJson(const ModelReport &base,
                         llvm::ArrayRef<SweepAxis> axes,
                         llvm::ArrayRef<SweepPoint> points,
                         llvm::raw_ostream &os) {
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
              llvm::Expected<llvm::json::Value> number =
                  llvm::json::parse(value);
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
                        llvm::raw_ostream &os) {
  for (const SweepAxis &axis : axes)
    os << axis.name << ',';
  os << "total,bytes,forward_per_token,train_step\n";
  for (const SweepPoint &point : points) {
    for (const std::string &value : point.values)
      os << value << ',';
    if (!point.report) {
      os << ",,,\n";
      continue;
    }
    os << point.report->total << ',' << point.report->bytes << ',';
    if (point.report->flops.forwardPerToken)
      os << *point.report->flops.forwardPerToken;
    os << ',';
    if (point.report->flops.trainStep)
      os << *point.report->flops.trainStep;
    os << '\n';
  }
}
