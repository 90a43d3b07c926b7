//===- Against.cpp - a model beside a checkpoint --------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/report/Against.h"

#include "compiler/report/Writers.h"
#include "runtime/error.h"
#include "runtime/safetensors.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <set>

using namespace tfm;
using State = TensorComparison::State;

//===----------------------------------------------------------------------===//
// Reading headers
//===----------------------------------------------------------------------===//

/// Adds the tensors of one file. The runtime's reader throws.
static llvm::Error readTensors(const std::string &path,
                               std::vector<CheckpointTensor> &tensors) {
  try {
    SafetensorsReader reader(path);
    for (const auto &[name, entry] : reader.header().tensors)
      tensors.push_back({name, entry.dtype, entry.shape});
  } catch (const InputError &error) {
    return llvm::createStringError(error.what());
  }
  return llvm::Error::success();
}

/// The files that an index names, in the order of their names.
static llvm::Expected<std::set<std::string>>
readIndex(const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return llvm::createStringError(path + ": " + buffer.getError().message());
  llvm::Expected<llvm::json::Value> json =
      llvm::json::parse((*buffer)->getBuffer());
  if (!json)
    return llvm::createStringError(path + ": " +
                                   llvm::toString(json.takeError()));
  const llvm::json::Object *root = json->getAsObject();
  const llvm::json::Object *map =
      root ? root->getObject("weight_map") : nullptr;
  if (!map)
    return llvm::createStringError(path + ": there is no \"weight_map\"");
  std::set<std::string> files;
  for (const auto &entry : *map) {
    std::optional<llvm::StringRef> file = entry.second.getAsString();
    if (!file)
      return llvm::createStringError(path +
                                     ": \"weight_map\" names no file "
                                     "for " +
                                     entry.first.str());
    files.insert(file->str());
  }
  return files;
}

llvm::Expected<std::vector<CheckpointTensor>>
tfm::readCheckpoint(const std::string &path) {
  std::vector<CheckpointTensor> tensors;
  if (!llvm::sys::fs::is_directory(path)) {
    if (llvm::Error error = readTensors(path, tensors))
      return std::move(error);
    return tensors;
  }
  llvm::SmallString<128> single(path), index(path);
  llvm::sys::path::append(single, "model.safetensors");
  llvm::sys::path::append(index, "model.safetensors.index.json");
  if (llvm::sys::fs::exists(single)) {
    if (llvm::Error error = readTensors(single.str().str(), tensors))
      return std::move(error);
    return tensors;
  }
  if (!llvm::sys::fs::exists(index))
    return llvm::createStringError(
        path + ": the folder has neither model.safetensors nor "
               "model.safetensors.index.json");
  llvm::Expected<std::set<std::string>> files = readIndex(index.str().str());
  if (!files)
    return files.takeError();
  for (const std::string &file : *files) {
    llvm::SmallString<128> shard(path);
    llvm::sys::path::append(shard, file);
    if (llvm::Error error = readTensors(shard.str().str(), tensors))
      return std::move(error);
  }
  return tensors;
}

//===----------------------------------------------------------------------===//
// Comparing
//===----------------------------------------------------------------------===//

/// Types that a weight can be read from.
static bool isFloat(llvm::StringRef dtype) {
  return dtype == "F32" || dtype == "F16" || dtype == "BF16" || dtype == "F64";
}

/// Tensors that published checkpoints hold beside the weights.
static bool isBuffer(const CheckpointTensor &tensor) {
  llvm::StringRef name = tensor.name;
  // GPT-2's causal mask [1, 1, context, context], not the bias of a layer.
  if (name.ends_with("attn.bias") && tensor.shape.size() == 4)
    return true;
  return name.ends_with("attn.masked_bias") ||
         name.ends_with("rotary_emb.inv_freq") ||
         name.ends_with("position_ids");
}

/// The prefix, of those that a common first part suggests, with which most
/// names agree.
static std::string findPrefix(const llvm::StringMap<int> &modelNames,
                              llvm::ArrayRef<CheckpointTensor> checkpoint) {
  std::set<std::string> candidates = {""};
  for (const CheckpointTensor &tensor : checkpoint)
    if (llvm::StringRef name = tensor.name; name.contains('.'))
      candidates.insert((name.split('.').first + ".").str());
  for (const auto &entry : modelNames)
    if (entry.getKey().contains('.'))
      candidates.insert(("-" + entry.getKey().split('.').first + ".").str());
  std::string best;
  size_t bestCount = 0;
  for (const std::string &candidate : candidates) {
    size_t count = 0;
    for (const CheckpointTensor &tensor : checkpoint) {
      llvm::StringRef name = tensor.name;
      if (candidate.starts_with("-"))
        count += modelNames.contains(candidate.substr(1) + tensor.name);
      else if (name.consume_front(candidate))
        count += modelNames.contains(name);
    }
    // The empty prefix comes first and wins where nothing is better.
    if (count > bestCount) {
      best = candidate;
      bestCount = count;
    }
  }
  return best;
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
  llvm::StringMap<int> modelNames;
  for (auto [i, tensor] : llvm::enumerate(report.tensors)) {
    modelNames[tensor.name] = i;
    for (const std::string &alias : tensor.aliases)
      modelNames[alias] = i;
  }
  Comparison comparison;
  comparison.prefix = findPrefix(modelNames, checkpoint);

  std::vector<const CheckpointTensor *> found(report.tensors.size());
  std::vector<TensorComparison> others;
  for (const CheckpointTensor &tensor : checkpoint) {
    std::string name = tensor.name;
    if (llvm::StringRef prefix = comparison.prefix; prefix.consume_front("-"))
      name = prefix.str() + name;
    else if (llvm::StringRef(name).starts_with(prefix))
      name = name.substr(prefix.size());
    auto place = modelNames.find(name);
    if (place != modelNames.end()) {
      const CheckpointTensor *&slot = found[place->second];
      // The first name that it was declared under decides.
      if (!slot || name == report.tensors[place->second].name)
        slot = &tensor;
      continue;
    }
    State state = isBuffer(tensor) ? State::Buffer : State::Unexpected;
    // A head that the model computes with its embedding's weights.
    if (name == "lm_head.weight" || tensor.name == "lm_head.weight")
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
     << " tensors match";
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
                              std::pair(State::Buffer, "of buffers ignored")})
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
