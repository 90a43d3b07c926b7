//===- WriteJson.cpp - a report for programs ------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The form is a contract: docs/cli.md.
//
//===----------------------------------------------------------------------===//

#include "compiler/report/JsonFields.h"
#include "compiler/report/Writers.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace tfm;
using llvm::json::OStream;

namespace {

class JsonWriter {
public:
  JsonWriter(const ModelReport &report, const ReportView &view,
             llvm::raw_ostream &os)
      : report(report), view(view), json(os, 1) {}

  void write();

private:
  void writeModules();
  void writeHyperparameter(const Hyperparameter &parameter);
  void writeMember(int index, llvm::StringRef path);
  void writeMembersOf(llvm::StringRef path);
  void writeModuleLine(llvm::StringRef path, const ModuleReport &member,
                       int64_t parameters, llvm::StringRef formula,
                       int64_t count);
  void writeTensors();
  void writeShapes();
  void writeMemory();

  const ModelReport &report;
  const ReportView &view;
  OStream json;
  llvm::StringMap<std::vector<std::pair<int, size_t>>> members;
};

} // namespace

void JsonWriter::writeModuleLine(llvm::StringRef path,
                                 const ModuleReport &member, int64_t parameters,
                                 llvm::StringRef formula, int64_t count) {
  json.object([&] {
    json.attribute("path", path);
    json.attribute("module", member.module);
    json.attribute("parameters", parameters);
    json.attribute("formula", formula);
    if (count != 0)
      json.attribute("count", count);
    json.attribute("file", member.line != 0 ? llvm::json::Value(member.file)
                                            : llvm::json::Value(nullptr));
    json.attribute("line", member.line != 0 ? llvm::json::Value(member.line)
                                            : llvm::json::Value(nullptr));
  });
}

/// A repeat is listed as a whole (with its `count`), then layer by layer.
void JsonWriter::writeMember(int index, llvm::StringRef path) {
  const ModuleReport &member = report.modules[index];
  writeModuleLine(path, member, member.parameters, member.formula,
                  member.count);
  if (view.depth && member.depth >= *view.depth)
    return;
  if (member.count == 0) {
    writeMembersOf(path);
    return;
  }
  size_t period = member.layerParameters.size();
  // The layers of a repeat in a list, `block.1-11`, are `block.1` and so on.
  llvm::StringRef holder = path;
  std::optional<int64_t> first = firstLayer(path.rsplit('.').second);
  if (first)
    holder = path.rsplit('.').first;
  for (int64_t layer = 0; layer != member.count; ++layer) {
    std::string layerPath =
        (holder + "." + llvm::Twine(first.value_or(0) + layer)).str();
    writeModuleLine(layerPath, member, member.layerParameters[layer % period],
                    member.layerFormulas[layer % period], 0);
    writeMembersOf(layerPath);
  }
}

void JsonWriter::writeMembersOf(llvm::StringRef path) {
  auto place = members.find(path);
  if (place == members.end())
    return;
  for (const auto &[index, instance] : place->second)
    writeMember(index, report.modules[index].instancePaths[instance]);
}

void JsonWriter::writeModules() {
  // Every instance, under the path of the instance (or layer) that holds it.
  for (int i = 1, end = static_cast<int>(report.modules.size()); i != end;
       ++i) {
    const ModuleReport &member = report.modules[i];
    const ModuleReport &parent = report.modules[member.parent];
    llvm::StringRef below = member.path;
    below.consume_front(parent.path);
    size_t parts = below.count('.') + (parent.path.empty() ? 1 : 0);
    if (parent.count != 0)
      --parts;
    for (auto [instance, instancePath] :
         llvm::enumerate(member.instancePaths)) {
      llvm::StringRef holder = instancePath;
      for (size_t part = 0; part != parts; ++part)
        holder = holder.contains('.') ? holder.rsplit('.').first : "";
      members[holder].emplace_back(i, instance);
    }
  }
  json.attributeArray("modules", [&] {
    if (!view.depth || *view.depth > 0)
      writeMembersOf("");
  });
}

void JsonWriter::writeTensors() {
  json.attributeArray("tensors", [&] {
    for (const TensorReport &tensor : report.tensors)
      json.object([&] {
        json.attribute("name", tensor.name);
        arrayField(json, "shape", tensor.shape);
        arrayField(json, "dims", tensor.dims);
        json.attribute("dtype", tensor.dtype);
        json.attribute("parameters", tensor.parameters);
        json.attribute("formula", tensor.formula);
        json.attribute("trainable", tensor.trainable);
        if (tensor.rate != 1)
          json.attribute("rate", tensor.rate);
        if (tensor.noDecay)
          json.attribute("no_decay", true);
        arrayField(json, "used_by", tensor.usedBy);
        arrayField(json, "aliases", tensor.aliases);
      });
  });
}

void JsonWriter::writeShapes() {
  json.attributeArray("shapes", [&] {
    for (const ValueReport &value : report.values)
      for (const std::string &path : value.instancePaths)
        json.object([&] {
          json.attribute("path", path);
          json.attribute("value", value.name);
          arrayField(json, "shape", value.shape);
          arrayField(json, "dims", value.dims);
          json.attribute("file", value.file);
          json.attribute("line", value.line);
          json.attribute("role", value.role);
        });
  });
}

void JsonWriter::writeMemory() {
  if (!report.memory) {
    json.attribute("memory", nullptr);
    return;
  }
  const MemoryReport &memory = *report.memory;
  json.attributeObject("memory", [&] {
    memoryFields(json, memory);
    // What a process takes beside its arena no plan decides: docs/cli.md.
    json.attribute("peak", nullptr);
    json.attributeArray("phases", [&] {
      for (const MemoryPhase &phase : memory.phases)
        json.object([&] {
          json.attribute("phase", phase.name);
          json.attribute("activations", phase.activations);
          json.attribute("live", phase.live.empty()
                                     ? int64_t(0)
                                     : *llvm::max_element(phase.live));
          typesField(json, "live_types", phase.liveTypes);
        });
    });
    sharedField(json, memory);
    if (memory.texts == 0)
      json.attribute("generation", nullptr);
    else
      json.attributeObject("generation", [&] {
        json.attribute("batch", memory.texts);
        json.attribute("weights", memory.weights);
        json.attribute("cache", memory.cacheType);
        arrayField(json, "chunks", memory.chunks);
      });
  });
}

void JsonWriter::writeHyperparameter(const Hyperparameter &parameter) {
  json.attributeBegin(parameter.name);
  json.rawValue(valueJson(parameter));
  json.attributeEnd();
}

void JsonWriter::write() {
  json.object([&] {
    json.attribute("format", 1);
    json.attribute("model", report.model);
    json.attribute("source", report.source);
    json.attributeObject("hyperparameters", [&] {
      for (const Hyperparameter &parameter : report.hyperparameters)
        writeHyperparameter(parameter);
    });
    json.attributeObject("parameters", [&] {
      json.attribute("total", report.total);
      json.attribute("trainable", report.trainable);
      json.attribute("bytes", report.bytes);
      json.attribute("formula", report.formula);
      writeModules();
      writeTensors();
    });
    writeShapes();
    json.attributeObject("flops", [&] {
      json.attribute("unit", report.flops.unit);
      optionalField(json, "forward_per_token", report.flops.forwardPerToken);
      optionalField(json, "train_step", report.flops.trainStep);
      productsField(json, report.flops);
    });
    writeMemory();
    json.attribute("whole_sequence",
                   report.wholeSequence.empty()
                       ? llvm::json::Value(nullptr)
                       : llvm::json::Value(report.wholeSequence));
  });
}

std::string tfm::valueJson(const Hyperparameter &parameter) {
  // Numbers are written alike in JSON and in a model file; LLVM's writer would
  // make 0.10000000000000001 of 0.1.
  const auto *words = std::get_if<std::string>(&parameter.value);
  if (!words)
    return valueText(parameter);
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(*words);
  return text;
}

void tfm::writeJson(const ModelReport &report, const ReportView &view,
                    llvm::raw_ostream &os) {
  {
    JsonWriter writer(report, view, os);
    writer.write();
  }
  os << "\n";
}
