//===- Against.cpp - a model beside a checkpoint --------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/report/Against.h"

#include "compiler/report/Writers.h"
#include "runtime/files/matching.h"
#include "runtime/files/stored_tensor.h"
#include "runtime/formats/gguf.h"
#include "runtime/support/error.h"
#include "runtime/support/utf8.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

#include <cmath>
#include <map>
#include <set>

using namespace tfm;
using State = TensorComparison::State;

//===----------------------------------------------------------------------===//
// Reading headers
//===----------------------------------------------------------------------===//

llvm::Expected<std::vector<CheckpointTensor>>
tfm::readCheckpoint(const std::string &path, const std::string &family) {
  // The runtime's reader throws.
  try {
    std::vector<CheckpointTensor> tensors;
    WeightFiles weights(path, family);
    for (const auto &[name, tensor] : weights.tensors()) {
      if (StoredTensor::isTable(weights, name))
        continue;
      StoredTensor stored(weights, name);
      CheckpointTensor found{name, tensor.entry->dtype, stored.shapeFor(-1),
                             stored.isQuantised()};
      found.bits = stored.isInt8() ? 8 : stored.isInt4() ? 4 : 0;
      if (found.isQuantised)
        found.problem = llvm::join(stored.tableProblems(), "; ");
      tensors.push_back(std::move(found));
    }
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
  return dtype == "F32" || dtype == "F16" || dtype == "BF16" ||
         dtype == "F64" || isBlockType(dtype);
}

/// The shape of a stored tensor in the order in which the model has its axes.
static std::vector<int64_t> shapeFor(const TensorReport &own,
                                     const CheckpointTensor &tensor) {
  std::vector<int64_t> shape = tensor.shape;
  auto rank = static_cast<int64_t>(shape.size());
  if (tensor.bits && rank >= 2 && own.outputAxis == rank - 1)
    std::swap(shape[rank - 2], shape[rank - 1]);
  return shape;
}

/// Whether a state keeps the checkpoint from being read.
static bool differs(State state) {
  return state != State::Matches && state != State::Buffer &&
         state != State::Tied;
}

int64_t Comparison::count(State state) const {
  return llvm::count_if(tensors, [&](const TensorComparison &tensor) {
    return tensor.state == state;
  });
}

bool Comparison::agrees() const {
  return llvm::none_of(tensors,
                       [](const TensorComparison &tensor) {
                         return differs(tensor.state);
                       }) &&
         (!config || config->agrees());
}

/// A name with `*` for the numbers of layers.
static std::string patternOf(llvm::StringRef name) {
  llvm::SmallVector<llvm::StringRef> parts;
  name.split(parts, '.');
  for (llvm::StringRef &part : parts)
    if (!part.empty() && llvm::all_of(part, llvm::isDigit))
      part = "*";
  return llvm::join(parts, ".");
}

/// How many layers of a repeat a checkpoint has; 0 where it has none.
static int64_t layersIn(const Comparison &comparison, const std::string &path) {
  int64_t layers = 0;
  auto look = [&](llvm::StringRef name) {
    llvm::StringRef prefix = comparison.prefix;
    if (!prefix.consume_front("-"))
      name.consume_front(prefix);
    llvm::StringRef own = path;
    own.consume_front(comparison.prefix.starts_with('-') ? prefix : "");
    // No model has more layers.
    uint16_t index = 0;
    if (name.consume_front(own) && name.consume_front(".") &&
        !name.split('.').first.getAsInteger(10, index))
      layers = std::max<int64_t>(layers, index + 1);
  };
  for (const TensorComparison &tensor : comparison.tensors)
    if (tensor.inModel)
      llvm::for_each(tensor.storedNames, look);
    else
      look(tensor.name);
  return layers;
}

/// Finds the hyperparameters whose values shapes differ by, and those that
/// shapes agree about.
static void compareSizes(const ModelReport &report, Comparison &comparison) {
  // What the checkpoint has, by name; of two values nobody knows which counts.
  std::map<std::string, std::set<int64_t>> stored;
  for (auto [own, tensor] : llvm::zip(report.tensors, comparison.tensors))
    if (tensor.checkpointShape.size() == own.dims.size())
      for (auto [dim, size] : llvm::zip(own.dims, tensor.checkpointShape))
        stored[dim].insert(size);
  for (const ModuleReport &module : report.modules)
    if (!llvm::StringRef(module.path).contains('*') && module.count > 0)
      if (int64_t layers = layersIn(comparison, module.path))
        stored[module.countFormula].insert(layers);
  for (const Hyperparameter &parameter : report.hyperparameters) {
    const auto *own = std::get_if<int64_t>(&parameter.value);
    auto found = stored.find(parameter.name);
    if (!own || found == stored.end() || found->second.size() != 1)
      continue;
    if (int64_t size = *found->second.begin(); size != *own)
      comparison.sizes.push_back({parameter.name, *own, size});
    else
      comparison.rightSizes.insert(parameter.name);
  }
  // A size that differs in some tensors alone is not what is wrong.
  auto isExplained = [&](const std::string &dim) {
    return llvm::is_contained(llvm::map_range(comparison.sizes,
                                              [](const SizeDifference &size) {
                                                return size.hyperparameter;
                                              }),
                              dim);
  };
  for (auto [own, tensor] : llvm::zip(report.tensors, comparison.tensors))
    if (tensor.checkpointShape.size() == own.dims.size())
      for (auto [dim, here, there] :
           llvm::zip(own.dims, own.shape, tensor.checkpointShape))
        if (here != there && stored[dim].size() > 1 && !isExplained(dim))
          return comparison.sizes.clear();
}

/// Compares a tensor with one of the checkpoint that has its name.
static void compareHeaders(const TensorReport &own,
                           const CheckpointTensor &tensor,
                           TensorComparison &entry) {
  entry.checkpointShape = shapeFor(own, tensor);
  entry.checkpointDtype = tensor.dtype;
  entry.problem = tensor.problem;
  bool isReadable =
      (isFloat(tensor.dtype) || tensor.isQuantised) && entry.problem.empty();
  entry.state = entry.checkpointShape != own.shape ? State::Shape
                : !isReadable                      ? State::Dtype
                                                   : State::Matches;
  if (tensor.bits && !own.outputAxis) {
    entry.state = State::Dtype;
    entry.problem = tensor.name + " is of " + std::to_string(tensor.bits) +
                    " bits, but the model does more with it than multiply by "
                    "it";
  }
}

static State stateOf(TensorMatching::Kind kind) {
  switch (kind) {
  case TensorMatching::Kind::Buffer:
    return State::Buffer;
  case TensorMatching::Kind::OutputLayer:
    return State::Tied;
  case TensorMatching::Kind::Repeated:
  case TensorMatching::Kind::Unexpected:
    break;
  }
  return State::Unexpected;
}

Comparison
tfm::compareWithCheckpoint(const ModelReport &report,
                           llvm::ArrayRef<CheckpointTensor> checkpoint,
                           const std::string &family) {
  std::vector<ModelTensor> ownTensors;
  for (const TensorReport &tensor : report.tensors) {
    ownTensors.push_back({{tensor.name}, tensor.shape});
    llvm::append_range(ownTensors.back().names, tensor.aliases);
  }
  std::vector<StoredShape> storedShapes;
  for (const CheckpointTensor &tensor : checkpoint)
    storedShapes.push_back({tensor.name, tensor.shape});
  const TensorMatching matching =
      matchTensors(ownTensors, storedShapes, family);
  Comparison comparison;
  comparison.prefix =
      (matching.prefix.inModel ? "-" : "") + matching.prefix.text;

  for (auto [own, sources] : llvm::zip(report.tensors, matching.sources)) {
    TensorComparison entry{State::Missing, own.name, own.shape, {}, ""};
    for (size_t place : sources)
      entry.storedNames.push_back(checkpoint[place].name);
    // A copy that does not fit decides, and else the first name.
    auto misfit = llvm::find_if(sources, [&](size_t place) {
      return shapeFor(own, checkpoint[place]) != own.shape;
    });
    if (!sources.empty())
      compareHeaders(own,
                     checkpoint[misfit == sources.end() ? sources[0] : *misfit],
                     entry);
    comparison.tensors.push_back(std::move(entry));
  }
  for (const TensorMatching::Other &other : matching.others) {
    const CheckpointTensor &tensor = checkpoint[other.stored];
    TensorComparison entry{
        stateOf(other.kind), tensor.name,  {},
        tensor.shape,        tensor.dtype, /*inModel=*/false};
    if (entry.state == State::Tied && !tensor.problem.empty()) {
      entry.state = State::Dtype;
      entry.problem = tensor.problem;
    }
    comparison.tensors.push_back(std::move(entry));
  }
  compareSizes(report, comparison);
  return comparison;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

static std::vector<float> readValues(const WeightFiles &weights,
                                     const std::string &name) {
  StoredTensor stored(weights, name);
  return stored.values(stored.outputAxis());
}

/// Compares the values of a tensor that matches with those of its copies.
static void checkValues(const WeightFiles &weights, TensorComparison &tensor) {
  const std::string &first = tensor.storedNames.front();
  std::vector<float> values = readValues(weights, first);
  auto bad =
      llvm::find_if(values, [](float value) { return !std::isfinite(value); });
  if (bad != values.end()) {
    tensor.state = State::NotFinite;
    tensor.problem = "element " + std::to_string(bad - values.begin()) +
                     " is " + std::to_string(*bad);
    return;
  }
  for (const std::string &copy : llvm::drop_begin(tensor.storedNames)) {
    if (sameBits(values, readValues(weights, copy)))
      continue;
    tensor.state = State::Copy;
    tensor.problem = copy + " and " + first + " are one tensor here";
    return;
  }
}

/// Looks for the tensor that a stored output layer is a copy of.
static void checkTied(const WeightFiles &weights,
                      llvm::ArrayRef<TensorComparison> tensors,
                      TensorComparison &output) {
  std::vector<float> values = readValues(weights, output.name);
  std::string tied;
  for (const TensorComparison &own : tensors) {
    if (own.modelShape != output.checkpointShape || own.storedNames.empty())
      continue;
    if (sameBits(values, readValues(weights, own.storedNames.front())))
      return;
    if (tied.empty())
      tied = own.name;
  }
  output.state = State::Copy;
  output.problem = "the model ties it to " + tied;
}

llvm::Error tfm::compareValues(const std::string &path, Comparison &comparison,
                               const std::string &family) {
  try {
    WeightFiles weights(path, family);
    for (TensorComparison &tensor : comparison.tensors) {
      if (tensor.state == State::Matches)
        checkValues(weights, tensor);
      else if (tensor.state == State::Tied)
        checkTied(weights, comparison.tensors, tensor);
    }
  } catch (const InputError &error) {
    return llvm::createStringError(error.what());
  }
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// The config.json
//===----------------------------------------------------------------------===//

llvm::Error tfm::compareConfig(const std::string &path,
                               const ModelReport &report,
                               ModelDescription description,
                               Comparison &comparison) {
  std::string hyperparameters;
  for (const Hyperparameter &parameter : report.hyperparameters)
    hyperparameters += (hyperparameters.empty() ? "[" : ",") +
                       llvm::formatv("{{\"name\":\"{0}\",\"value\":{1}}",
                                     parameter.name, valueJson(parameter))
                           .str();
  if (!hyperparameters.empty())
    hyperparameters += "]";
  try {
    description.hyperparameters = std::move(hyperparameters);
    description.source = report.source;
    comparison.config = compareConfig(path, description);
  } catch (const InputError &error) {
    return llvm::createStringError(error.what());
  }
  return llvm::Error::success();
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
  case State::Copy:
    return "copy differs";
  case State::NotFinite:
    return "not finite";
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
    if (!tensor.problem.empty())
      return tensor.problem;
    return "f32 here, " + tensor.checkpointDtype + " in the checkpoint";
  case State::Missing:
    return shapeText(tensor.modelShape) + " here, not in the checkpoint";
  case State::Unexpected:
    return shapeText(tensor.checkpointShape) + " in the checkpoint, not here";
  case State::Copy:
  case State::NotFinite:
    return tensor.problem;
  }
  return "";
}

static const char *stateText(ConfigKey::State state) {
  switch (state) {
  case ConfigKey::State::Agrees:
    return "agrees";
  case ConfigKey::State::Differs:
    return "differs";
  case ConfigKey::State::NotCompared:
    return "not compared";
  case ConfigKey::State::Harmless:
    return "harmless";
  }
  return "";
}

/// Every key that is known: what it says, and what the model has.
static void writeKeys(const ConfigComparison &config, llvm::raw_ostream &os) {
  os << printable(config.path) << ":\n";
  TextTable table({false, false, false, false});
  for (const ConfigKey &key : config.keys) {
    // Of a value that nobody expects the beginning is enough.
    std::string shown = beginningOf(key.stored, 40);
    std::string words = printable(key.fix.empty() ? key.reason : key.fix);
    table.add({printable(key.key), printable(shown),
               key.model.empty() ? "" : key.model + " here",
               stateText(key.state) + (words.empty() ? "" : ": " + words)});
  }
  if (config.keys.empty())
    os << "  no key that is known\n";
  table.write(os);
}

void tfm::writeComparison(const Comparison &comparison, const std::string &path,
                          bool all, llvm::raw_ostream &os) {
  // What is the same of all layers is one line, unless all are asked for.
  struct Line {
    std::string name, state, words;
    int64_t count = 1;
  };
  std::vector<Line> lines;
  std::map<std::string, size_t> places;
  for (const TensorComparison &tensor : comparison.tensors) {
    if (!all && !differs(tensor.state))
      continue;
    Line line{tensor.name, stateText(tensor.state), details(tensor)};
    std::string pattern = patternOf(tensor.name);
    auto [place, isNew] = places.try_emplace(
        pattern + "\n" + line.state + "\n" + line.words, lines.size());
    if (all || isNew) {
      lines.push_back(std::move(line));
    } else {
      ++lines[place->second].count;
      lines[place->second].name = pattern;
    }
  }
  TextTable table({false, false, false});
  for (const Line &line : lines)
    table.add(
        {printable(line.name), line.state,
         printable(line.words) +
             (line.count > 1 ? " (" + std::to_string(line.count) + " tensors)"
                             : "")});
  table.write(os, 0);
  os << printable(path) << ": " << comparison.count(State::Matches) << " of "
     << llvm::count_if(
            comparison.tensors,
            [](const TensorComparison &tensor) { return tensor.inModel; })
     << " tensors match in name, shape and type";
  // Names are the checkpoint's, and a terminal must not obey them.
  std::string shownPrefix = printable(comparison.prefix);
  llvm::StringRef prefix = shownPrefix;
  if (prefix.consume_front("-"))
    os << " (without the model's prefix `" << prefix << "`)";
  else if (!prefix.empty())
    os << " (under the prefix `" << prefix << "`)";
  for (auto [state, words] : {std::pair(State::Shape, "with another shape"),
                              std::pair(State::Dtype, "with another dtype"),
                              std::pair(State::Missing, "missing"),
                              std::pair(State::Unexpected, "unexpected"),
                              std::pair(State::Copy, "unlike their copies"),
                              std::pair(State::NotFinite, "not finite"),
                              std::pair(State::Tied, "tied"),
                              std::pair(State::Buffer, "ignored as buffers")})
    if (int64_t count = comparison.count(state))
      os << ", " << count << " " << words;
  os << "\n";
  if (!comparison.sizes.empty()) {
    os << "the checkpoint's sizes are those of";
    for (const SizeDifference &size : comparison.sizes)
      os << " -D " << size.hyperparameter << "=" << size.stored;
    os << "\n";
  }
  if (comparison.config)
    writeKeys(*comparison.config, os);
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
        bool inFile = tensor.state != State::Missing;
        json.object([&] {
          json.attribute("name", tensor.name);
          json.attribute("state", stateText(tensor.state));
          shape("model_shape", tensor.modelShape, tensor.inModel);
          shape("checkpoint_shape", tensor.checkpointShape, inFile);
          json.attribute("checkpoint_dtype",
                         inFile ? llvm::json::Value(tensor.checkpointDtype)
                                : llvm::json::Value(nullptr));
        });
      }
    });
    if (!comparison.config)
      return json.attribute("config", nullptr);
    json.attributeArray("config", [&] {
      for (const ConfigKey &key : comparison.config->keys)
        json.object([&] {
          json.attribute("key", key.key);
          json.attribute("state", stateText(key.state));
          json.attribute("model", key.model.empty()
                                      ? llvm::json::Value(nullptr)
                                      : llvm::json::Value(key.model));
          json.attributeBegin("checkpoint");
          json.rawValue(key.stored);
          json.attributeEnd();
          if (!key.reason.empty())
            json.attribute("reason", key.reason);
        });
    });
  });
  os << "\n";
}
