//===- Against.cpp - a model beside a checkpoint --------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/report/Against.h"

#include "compiler/report/Writers.h"
#include "runtime/error.h"
#include "runtime/weights.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/JSON.h"

#include <map>
#include <set>

using namespace tfm;
using State = TensorComparison::State;

//===----------------------------------------------------------------------===//
// Reading headers
//===----------------------------------------------------------------------===//

llvm::Expected<std::vector<CheckpointTensor>>
tfm::readCheckpoint(const std::string &path) {
  // The runtime's reader throws.
  try {
    std::vector<CheckpointTensor> tensors;
    WeightFiles weights(path);
    for (const auto &[name, tensor] : weights.tensors())
      tensors.push_back({name, tensor.entry->dtype, tensor.entry->shape});
    return tensors;
  } catch (const InputError &error) {
    return llvm::createStringError(error.what());
  }
}

//===----------------------------------------------------------------------===//
// Comparing
//===----------------------------------------------------------------------===//

/// Types that a weight can be read from.
static bool isFloat(llvm::StringRef dtype) {
  return dtype == "F32" || dtype == "F16" || dtype == "BF16" || dtype == "F64";
}

int64_t Comparison::count(State state) const {
  return llvm::count_if(tensors, [&](const TensorComparison &tensor) {
    return tensor.state == state;
  });
}

bool Comparison::agrees() const {
  return count(State::Shape) == 0 && count(State::Dtype) == 0 &&
         count(State::Missing) == 0 && count(State::Unexpected) == 0;
}

Comparison
tfm::compareWithCheckpoint(const ModelReport &report,
                           llvm::ArrayRef<CheckpointTensor> checkpoint) {
  // Aliases are names of the same tensor.
  std::map<std::string, size_t> places;
  std::set<std::string> modelNames, stored;
  for (auto [i, tensor] : llvm::enumerate(report.tensors)) {
    places[tensor.name] = i;
    for (const std::string &alias : tensor.aliases)
      places[alias] = i;
  }
  for (const auto &[name, place] : places)
    modelNames.insert(name);
  for (const CheckpointTensor &tensor : checkpoint)
    stored.insert(tensor.name);
  NamePrefix prefix = findPrefix(modelNames, stored);
  Comparison comparison;
  comparison.prefix = (prefix.inModel ? "-" : "") + prefix.text;

  std::vector<const CheckpointTensor *> found(report.tensors.size());
  std::vector<TensorComparison> others;
  for (const CheckpointTensor &tensor : checkpoint) {
    std::string name = prefix.modelName(tensor.name, modelNames);
    auto place = places.find(name);
    if (place != places.end()) {
      const CheckpointTensor *&slot = found[place->second];
      // The first name that it was declared under decides.
      if (!slot || name == report.tensors[place->second].name)
        slot = &tensor;
      continue;
    }
    State state =
        isBuffer(tensor.name, tensor.shape) ? State::Buffer : State::Unexpected;
    // A head that the model computes with its embedding's weights.
    if (isOutputLayer(tensor.name))
      for (const TensorReport &own : report.tensors)
        if (own.usedBy.size() > 1 && own.shape == tensor.shape)
          state = State::Tied;
    others.push_back({state, tensor.name, {}, tensor.shape, tensor.dtype});
  }
  for (auto [own, tensor] : llvm::zip(report.tensors, found)) {
    TensorComparison entry{State::Missing, own.name, own.shape, {}, ""};
    if (tensor) {
      entry.checkpointShape = tensor->shape;
      entry.checkpointDtype = tensor->dtype;
      entry.state = tensor->shape != own.shape ? State::Shape
                    : !isFloat(tensor->dtype)  ? State::Dtype
                                               : State::Matches;
    }
    comparison.tensors.push_back(std::move(entry));
  }
  llvm::append_range(comparison.tensors, others);
  return comparison;
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

static const char *stateText(State state) {
  switch (state) {
  case State::Matches:
    return "matches";
  case State::Shape:
    return "shape differs";
  case State::Dtype:
    return "dtype differs";
  case State::Missing:
    return "missing";
  case State::Unexpected:
    return "unexpected";
  case State::Buffer:
    return "buffer";
  case State::Tied:
    return "tied";
  }
  return "";
}

static std::string details(const TensorComparison &tensor) {
  switch (tensor.state) {
  case State::Matches:
  case State::Buffer:
  case State::Tied:
    return shapeText(tensor.checkpointShape) + " " + tensor.checkpointDtype;
  case State::Shape:
    return shapeText(tensor.modelShape) + " here, " +
           shapeText(tensor.checkpointShape) + " in the checkpoint";
  case State::Dtype:
    return "f32 here, " + tensor.checkpointDtype + " in the checkpoint";
  case State::Missing:
    return shapeText(tensor.modelShape) + " here, not in the checkpoint";
  case State::Unexpected:
    return shapeText(tensor.checkpointShape) + " in the checkpoint, not here";
  }
  return "";
}

void tfm::writeComparison(const Comparison &comparison, const std::string &path,
                          bool all, llvm::raw_ostream &os) {
  TextTable table({false, false, false});
  for (const TensorComparison &tensor : comparison.tensors) {
    bool differs =
        tensor.state == State::Shape || tensor.state == State::Dtype ||
        tensor.state == State::Missing || tensor.state == State::Unexpected;
    if (all || differs)
      table.add({tensor.name, stateText(tensor.state), details(tensor)});
  }
  table.write(os, 0);
  os << path << ": " << comparison.count(State::Matches) << " of "
     << comparison.tensors.size() - comparison.count(State::Unexpected) -
            comparison.count(State::Buffer) - comparison.count(State::Tied)
     << " tensors match in name, shape and type";
  llvm::StringRef prefix = comparison.prefix;
  if (prefix.consume_front("-"))
    os << " (without the model's prefix `" << prefix << "`)";
  else if (!prefix.empty())
    os << " (under the prefix `" << prefix << "`)";
  for (auto [state, words] : {std::pair(State::Shape, "with another shape"),
                              std::pair(State::Dtype, "with another dtype"),
                              std::pair(State::Missing, "missing"),
                              std::pair(State::Unexpected, "unexpected"),
                              std::pair(State::Tied, "tied"),
                              std::pair(State::Buffer, "ignored as buffers")})
    if (int64_t count = comparison.count(state))
      os << ", " << count << " " << words;
  os << "\n";
}

void tfm::writeComparisonJson(const Comparison &comparison,
                              const std::string &path, llvm::raw_ostream &os) {
  llvm::json::OStream json(os, 1);
  auto shape = [&](llvm::StringRef name, llvm::ArrayRef<int64_t> sizes,
                   bool known) {
    if (!known)
      return json.attribute(name, nullptr);
    json.attributeArray(name, [&] {
      for (int64_t size : sizes)
        json.value(size);
    });
  };
  json.object([&] {
    json.attribute("format", 1);
    json.attribute("checkpoint", path);
    json.attribute("agrees", comparison.agrees());
    json.attribute("prefix", comparison.prefix);
    json.attributeArray("tensors", [&] {
      for (const TensorComparison &tensor : comparison.tensors) {
        bool inModel = tensor.state != State::Unexpected &&
                       tensor.state != State::Buffer &&
                       tensor.state != State::Tied;
        bool inFile = tensor.state != State::Missing;
        json.object([&] {
          json.attribute("name", tensor.name);
          json.attribute("state", stateText(tensor.state));
          shape("model_shape", tensor.modelShape, inModel);
          shape("checkpoint_shape", tensor.checkpointShape, inFile);
          json.attribute("checkpoint_dtype",
                         inFile ? llvm::json::Value(tensor.checkpointDtype)
                                : llvm::json::Value(nullptr));
        });
      }
    });
  });
  os << "\n";
}
