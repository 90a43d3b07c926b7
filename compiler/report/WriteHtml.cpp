//===- WriteHtml.cpp - a report for a browser -----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The page's own script draws everything; this is its data. Other than in the
// JSON report the layers of a repeat stand together, so that the page does not
// grow with the depth.
//
//===----------------------------------------------------------------------===//

#include "compiler/report/JsonFields.h"
#include "compiler/report/Page.h"
#include "compiler/report/Writers.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Base64.h"
#include "llvm/Support/Endian.h"

using namespace tfm;
using llvm::json::OStream;

/// Larger pictures are made smaller: one pixel shows the mean of a block.
static constexpr int64_t mostPixels = 1024;
/// Of a constant with more than two axes: pictures in a page.
static constexpr int64_t mostPictures = 64;

namespace {

class HtmlWriter {
public:
  HtmlWriter(const ModelReport &report, llvm::raw_ostream &os)
      : report(report), json(os) {}
  void write();

private:
  void writeModules();
  void writeTensors();
  void writeValues();
  void writeFlops();
  void writeKinds(llvm::StringRef name, const FlopsByKind &kinds,
                  int64_t parts);
  void writeMemory(const MemoryReport &memory);
  void writeConstant(const ConstantReport &constant);

  const ModelReport &report;
  OStream json;
};

} // namespace

void HtmlWriter::writeModules() {
  json.attributeArray("modules", [&] {
    for (const ModuleReport &member : report.modules)
      json.object([&] {
        json.attribute("parent", member.parent);
        json.attribute("name",
                       member.parent < 0 ? "" : memberName(report, member));
        json.attribute("path", member.path);
        json.attribute("module", member.module);
        json.attribute("file", otherFile(report, member.file));
        json.attribute("line", member.line);
        json.attribute("count", member.count);
        json.attribute("instances", member.instances);
        json.attribute("parameters", member.totalParameters);
        json.attribute("own", member.totalOwnParameters);
        json.attribute("formula", member.totalFormula);
        arrayField(json, "layers", member.layerParameters);
        arrayField(json, "tied", member.tied);
        json.attribute("each", member.parameters);
      });
  });
}

/// One line for the tensors of all layers.
void HtmlWriter::writeTensors() {
  llvm::StringMap<int64_t> counts;
  for (const TensorReport &tensor : report.tensors)
    ++counts[tensor.pattern];
  json.attributeArray("tensors", [&] {
    for (const TensorReport &tensor : report.tensors) {
      int64_t count = counts.lookup(tensor.pattern);
      if (count == 0)
        continue;
      counts[tensor.pattern] = 0;
      json.object([&] {
        json.attribute("name", count == 1 ? tensor.name
                                          : pathText(report, tensor.pattern));
        json.attribute("count", count);
        json.attribute("shape", shapeText(tensor.shape));
        json.attribute("dims", shapeText(tensor.dims));
        json.attribute("dtype", tensor.dtype);
        json.attribute("parameters", tensor.parameters * count);
        json.attribute("formula", tensor.formula);
        json.attribute("trainable", tensor.trainable);
        if (tensor.rate != 1)
          json.attribute("rate", rateText(tensor));
        if (tensor.noDecay)
          json.attribute("no_decay", true);
        arrayField(json, "aliases", tensor.aliases);
      });
    }
  });
}

void HtmlWriter::writeValues() {
  json.attributeArray("values", [&] {
    for (const ValueReport &value : report.values)
      json.object([&] {
        json.attribute(
            "name",
            (value.path.empty() ? "" : pathText(report, value.path) + ".") +
                value.name);
        json.attribute("shape", shapeText(value.shape));
        json.attribute("dims", shapeText(value.dims));
        json.attribute("file", otherFile(report, value.file));
        json.attribute("line", value.line);
        json.attribute("role", value.role);
      });
  });
}

/// Each kind's count for one of `parts`, which all counts are of together.
void HtmlWriter::writeKinds(llvm::StringRef name, const FlopsByKind &kinds,
                            int64_t parts) {
  json.attributeArray(name, [&] {
    for (const auto &[kind, count] : kinds)
      json.array([&] {
        json.value(kind);
        json.value(static_cast<double>(count) / static_cast<double>(parts));
      });
  });
}

void HtmlWriter::writeFlops() {
  const FlopsReport &flops = report.flops;
  json.attributeObject("flops", [&] {
    if (flops.forwardPerToken)
      json.attribute("perToken", jsonOf(*flops.forwardPerToken));
    json.attribute("tokens", flops.forwardTokens);
    json.attribute("unit", flops.unit);
    if (flops.trainStep)
      json.attribute("trainStep", jsonOf(*flops.trainStep));
    writeKinds("forward", flops.forward, flops.forwardTokens);
    writeKinds("train", flops.train, /*parts=*/1);
    productsField(json, flops);
  });
}

void HtmlWriter::writeMemory(const MemoryReport &memory) {
  json.attributeObject("memory", [&] {
    memoryFields(json, memory);
    sharedField(json, memory);
    json.attributeArray("phases", [&] {
      for (const MemoryPhase &phase : memory.phases)
        json.object([&] {
          json.attribute("name", phase.name);
          json.attribute("gradients", phase.usesGradients);
          json.attribute("optimizer", phase.usesOptimizer);
          json.attribute("cache", phase.usesCache);
          json.attribute("activations", phase.activations);
          arrayField(json, "live", phase.live);
          typesField(json, "live_types", phase.liveTypes);
        });
    });
  });
}

/// The values as pictures of `rows` x `columns`, each at most `mostPixels`
/// high and wide, as little-endian f32 in base 64.
void HtmlWriter::writeConstant(const ConstantReport &constant) {
  size_t rank = constant.shape.size();
  int64_t columns = rank > 0 ? constant.shape[rank - 1] : 1;
  int64_t rows = rank > 1 ? constant.shape[rank - 2] : 1;
  int64_t all = static_cast<int64_t>(constant.values.size()) / (rows * columns);
  int64_t pictures = std::min(all, mostPictures);
  int64_t blockRows = (rows + mostPixels - 1) / mostPixels;
  int64_t blockColumns = (columns + mostPixels - 1) / mostPixels;
  int64_t height = (rows + blockRows - 1) / blockRows;
  int64_t width = (columns + blockColumns - 1) / blockColumns;

  std::string bytes;
  bytes.resize(pictures * height * width * sizeof(float));
  char *out = bytes.data();
  for (int64_t picture = 0; picture < pictures; ++picture)
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x) {
        double sum = 0;
        int64_t count = 0;
        for (int64_t i = y * blockRows; i < std::min(rows, (y + 1) * blockRows);
             ++i)
          for (int64_t j = x * blockColumns;
               j < std::min(columns, (x + 1) * blockColumns); ++j) {
            sum += constant.values[(picture * rows + i) * columns + j];
            ++count;
          }
        auto mean = static_cast<float>(sum / static_cast<double>(count));
        llvm::support::endian::write<float>(out, mean,
                                            llvm::endianness::little);
        out += sizeof(float);
      }
  json.object([&] {
    json.attribute(
        "name",
        (constant.path.empty() ? "" : pathText(report, constant.path) + ".") +
            constant.name);
    json.attribute("formula", constant.formula);
    arrayField(json, "indices", constant.indices);
    arrayField(json, "dims", constant.dims);
    arrayField(json, "shape", constant.shape);
    json.attribute("pictures", pictures);
    json.attribute("height", height);
    json.attribute("width", width);
    json.attribute("blockRows", blockRows);
    json.attribute("blockColumns", blockColumns);
    json.attribute("data", llvm::encodeBase64(bytes));
  });
}

void HtmlWriter::write() {
  json.object([&] {
    json.attribute("model", report.model);
    json.attribute("source", nameOnPage(report.source));
    // FILE:LINE: why.
    auto [file, why] = llvm::StringRef(report.wholeSequence).split(':');
    json.attribute("wholeSequence", why.empty()
                                        ? file.str()
                                        : nameOnPage(file) + ":" + why.str());
    json.attributeArray("hyperparameters", [&] {
      for (const Hyperparameter &parameter : report.hyperparameters)
        json.array([&] {
          json.value(parameter.name);
          json.value(valueText(parameter));
        });
    });
    json.attribute("total", report.total);
    json.attribute("trainable", report.trainable);
    json.attribute("bytes", report.bytes);
    json.attribute("formula", report.formula);
    sensitivityField(json, "sensitivities", report);
    writeModules();
    writeTensors();
    writeValues();
    writeFlops();
    if (report.memory)
      writeMemory(*report.memory);
    json.attributeArray("constants", [&] {
      for (const ConstantReport &constant : report.constants)
        writeConstant(constant);
    });
  });
}

void tfm::writeHtml(const ModelReport &report, llvm::raw_ostream &os) {
  std::string data;
  {
    llvm::raw_string_ostream stream(data);
    HtmlWriter(report, stream).write();
  }
  writePage(report.model, "report.js", data, os);
}
