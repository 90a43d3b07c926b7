//===- TrainingLog.cpp - what a training run logged -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/report/TrainingLog.h"

#include "compiler/report/Page.h"
#include "compiler/report/ReadJson.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace tfm;

/// More steps than these are drawn as means of several.
static constexpr size_t mostPoints = 4000;

/// Adds what one line says; false where it is no line of a log.
static bool readLine(const llvm::json::Object &line, TrainingLog &log) {
  std::optional<int64_t> step = line.getInteger("step");
  if (!step)
    return false;
  if (auto loss = line.getNumber("loss")) {
    log.steps.push_back({*step, *loss, line.getNumber("lr").value_or(0),
                         line.getNumber("grad_norm").value_or(0)});
    for (const char *unit : {"tokens", "examples"})
      if (std::optional<int64_t> seen = line.getInteger(unit)) {
        log.seen = *seen;
        log.unit = unit;
      }
  } else if (auto validation = line.getNumber("validation_loss")) {
    log.validations.push_back({*step, *validation,
                               line.getNumber("seconds").value_or(0),
                               line.getNumber("exact_match_seen"),
                               line.getNumber("exact_match_unseen")});
  } else if (auto sample = line.getString("sample")) {
    log.samples.push_back(
        {*step, line.getString("prompt").value_or("").str(), sample->str()});
  }
  return true;
}

llvm::Error tfm::readLogLines(llvm::StringRef rest, TrainingLog &log) {
  for (unsigned number = 1; !rest.empty(); ++number) {
    bool isWhole = rest.contains('\n');
    auto [line, others] = rest.split('\n');
    rest = others;
    if (line.trim().empty())
      continue;
    llvm::Expected<llvm::json::Value> json = readJson(line);
    const llvm::json::Object *object = json ? json->getAsObject() : nullptr;
    bool understood = object && readLine(*object, log);
    if (!json)
      llvm::consumeError(json.takeError());
    if (!understood && isWhole)
      return llvm::createStringError(
          log.path + ":" + std::to_string(number) +
          ": this is no line of a training log, such as {\"step\":1,"
          "\"loss\":4.17}");
  }
  if (log.steps.empty() && log.validations.empty())
    return llvm::createStringError(log.path + ": the log has no step yet");
  return llvm::Error::success();
}

llvm::Expected<TrainingLog> tfm::readTrainingLog(const std::string &path) {
  TrainingLog log;
  llvm::SmallString<128> file(path);
  if (llvm::sys::fs::is_directory(path)) {
    llvm::sys::path::append(file, "log.jsonl");
    if (!llvm::sys::fs::exists(file))
      return llvm::createStringError(
          path +
          ": the folder has no log.jsonl; name a run that `train` wrote");
  }
  log.path = file.str().str();
  // runs/poem/log.jsonl is the run poem.
  llvm::StringRef name = llvm::sys::path::stem(file);
  llvm::StringRef folder =
      llvm::sys::path::filename(llvm::sys::path::parent_path(file));
  log.name = (name == "log" && !folder.empty() ? folder : name).str();

  auto buffer = llvm::MemoryBuffer::getFile(file);
  if (!buffer)
    return llvm::createStringError("cannot read " + log.path + ": " +
                                   buffer.getError().message());
  if (llvm::Error error = readLogLines((*buffer)->getBuffer(), log))
    return std::move(error);
  return log;
}

/// A run's log as the page names it. Of absolute paths the end is enough,
/// unless two runs have the same.
static std::string pathOnPage(const TrainingLog &log,
                              llvm::ArrayRef<TrainingLog> logs) {
  // runs/poem/log.jsonl is told by its folder.
  std::string shown = nameOnPage(log.path, /*parts=*/2);
  auto alike = [&](const TrainingLog &other) {
    return nameOnPage(other.path, /*parts=*/2) == shown;
  };
  return llvm::count_if(logs, alike) > 1 ? log.path : shown;
}

static void writeRun(const TrainingLog &log, const std::string &path,
                     llvm::json::OStream &json) {
  size_t block =
      std::max<size_t>(1, (log.steps.size() + mostPoints - 1) / mostPoints);
  json.attribute("name", log.name);
  json.attribute("path", path);
  json.attribute("steps", log.steps.empty() ? log.validations.back().step
                                            : log.steps.back().step);
  json.attribute("seen", log.seen);
  json.attribute("unit", log.unit);
  json.attribute("loss", log.steps.empty()
                             ? llvm::json::Value(nullptr)
                             : llvm::json::Value(log.steps.back().loss));
  json.attribute("block", static_cast<int64_t>(block));
  json.attributeArray("points", [&] {
    for (size_t i = 0; i < log.steps.size(); i += block) {
      auto part = llvm::ArrayRef(log.steps).drop_front(i).take_front(block);
      double loss = 0, norm = 0;
      for (const TrainingLog::Step &step : part) {
        loss += step.loss;
        norm += step.gradientNorm;
      }
      auto count = static_cast<double>(part.size());
      json.array([&] {
        json.value(part.back().step);
        json.value(loss / count);
        json.value(part.back().lr);
        json.value(norm / count);
      });
    }
  });
  json.attributeArray("validations", [&] {
    for (const TrainingLog::Validation &validation : log.validations)
      json.array([&] {
        json.value(validation.step);
        json.value(validation.loss);
        json.value(validation.seconds);
        for (std::optional<double> share :
             {validation.exactSeen, validation.exactUnseen})
          json.value(share ? llvm::json::Value(*share)
                           : llvm::json::Value(nullptr));
      });
  });
  json.attributeArray("samples", [&] {
    for (const TrainingLog::Sample &sample : log.samples)
      json.object([&] {
        json.attribute("step", sample.step);
        json.attribute("prompt", llvm::json::fixUTF8(sample.prompt));
        json.attribute("text", llvm::json::fixUTF8(sample.text));
      });
  });
}

void tfm::writePlot(llvm::ArrayRef<TrainingLog> logs, llvm::raw_ostream &os) {
  std::string data;
  {
    llvm::raw_string_ostream stream(data);
    llvm::json::OStream json(stream);
    json.object([&] {
      json.attributeArray("runs", [&] {
        for (const TrainingLog &log : logs)
          json.object([&] { writeRun(log, pathOnPage(log, logs), json); });
      });
    });
  }
  std::string title = logs.size() == 1 ? logs.front().name : "Training runs";
  writePage(title, "plot.js", data, os);
}
