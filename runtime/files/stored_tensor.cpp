//===- stored_tensor.cpp - a tensor as weight files have it -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/files/stored_tensor.h"

#include "runtime/model/quantise.h"
#include "runtime/support/error.h"
#include "runtime/support/float16.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <iterator>
#include <nlohmann/json.hpp>

using nlohmann::json;

namespace tfm {

/// The types of F8 that weights have.
static constexpr std::initializer_list<std::string_view> float8Types = {
    "F8_E4M3", "F8_E5M2"};

/// What stands behind the name of a weight of F8 in the names of its scales.
static constexpr const char *float8Scales[] = {"_scale_inv", "_scale"};

StoredTensor::StoredTensor(const WeightFiles &weights, const std::string &name)
    : name(name), tensor(weights.tensors().at(name)) {
  auto find = [&](const std::string &table) {
    auto found = weights.tensors().find(table);
    return found == weights.tensors().end() ? std::nullopt
                                            : std::optional(found->second);
  };
  std::string_view type = tensor.entry->dtype;
  if (type == int8Type || type == int4Type)
    scale = find(scaleName());
  if (isFloat8())
    for (const char *suffix : float8Scales)
      if (!scale)
        scale = find(name + suffix);
  if (type == int4Type)
    minimum = find(minimumName());
}

bool StoredTensor::isTable(const WeightFiles &weights,
                           const std::string &name) {
  auto isOf = [&](std::string_view suffix,
                  std::initializer_list<std::string_view> types) {
    if (!name.ends_with(suffix))
      return false;
    auto owner =
        weights.tensors().find(name.substr(0, name.size() - suffix.size()));
    return owner != weights.tensors().end() &&
           std::ranges::find(types, owner->second.entry->dtype) != types.end();
  };
  for (const char *suffix : float8Scales)
    if (isOf(suffix, float8Types))
      return true;
  return isOf(scaleSuffix, {int8Type, int4Type}) ||
         isOf(minimumSuffix, {int4Type});
}

bool StoredTensor::isFloat8() const {
  return std::ranges::find(float8Types, tensor.entry->dtype) !=
         float8Types.end();
}

bool StoredTensor::isInt8() const { return tensor.entry->dtype == int8Type; }
bool StoredTensor::isInt4() const {
  return tensor.entry->dtype == int4Type && (scale || minimum);
}

std::string StoredTensor::scaleName() const {
  return name + std::string(scaleSuffix);
}
std::string StoredTensor::minimumName() const {
  return name + std::string(minimumSuffix);
}

std::optional<int64_t> StoredTensor::said(const std::string &key) const {
  const auto &metadata = tensor.file->header().metadata;
  auto found = metadata.find(key);
  if (found == metadata.end())
    return std::nullopt;
  const std::string &text = found->second;
  int64_t number = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size()
             ? std::optional(number)
             : std::nullopt;
}

bool StoredTensor::saysTerms() const {
  return said(termsKey + name).value_or(0) > 0;
}

int64_t StoredTensor::terms() const {
  std::optional<int64_t> count = said(termsKey + name);
  auto bytes = static_cast<uint64_t>(tensor.entry->shape.back());
  return count && *count > 0 ? *count : static_cast<int64_t>(2 * bytes);
}

/// The names that a file lists as transposed; `discarded` where that is no
/// list.
static json transposedNames(const TensorFile &file) {
  const auto &metadata = file.header().metadata;
  auto text = metadata.find(transposedKey);
  if (text == metadata.end())
    return json::array();
  json names = json::parse(text->second, nullptr, /*allow_exceptions=*/false);
  return names.is_array() ? names : json(json::value_t::discarded);
}

int64_t StoredTensor::outputAxis() const {
  auto rank = static_cast<int64_t>(tensor.entry->shape.size());
  json names = transposedNames(*tensor.file);
  bool isTransposed = std::ranges::find(names, json(name)) != names.end();
  return isTransposed ? rank - 1 : rank - 2;
}

std::optional<StoredTensor::Blocks> StoredTensor::blocks() const {
  const std::vector<int64_t> &shape = tensor.entry->shape;
  std::vector<int64_t> table = scale->entry->shape;
  if (scale->entry->elements() == 1) {
    auto all =
        static_cast<int64_t>(std::max<size_t>(1, tensor.entry->elements()));
    return Blocks{all, all};
  }
  if (shape.size() != 2)
    return std::nullopt;
  if (table.size() == 1)
    table.push_back(1);
  if (table == std::vector<int64_t>{shape[0], 1})
    return Blocks{1, shape[1]};
  constexpr int64_t side = 128;
  if (table == std::vector<int64_t>{(shape[0] + side - 1) / side,
                                    (shape[1] + side - 1) / side})
    return Blocks{side, side};
  return std::nullopt;
}

std::vector<float> StoredTensor::float8() const {
  std::vector<float> result(tensor.entry->elements());
  tensor.file->readFloats(name, *tensor.entry, result.data());
  if (!scale)
    return result;
  std::vector<float> factors(scale->entry->elements());
  tensor.file->readFloats(name + " (its scale)", *scale->entry, factors.data());
  Blocks size = *blocks();
  const std::vector<int64_t> &shape = tensor.entry->shape;
  int64_t terms = shape.size() < 2 ? 1 : shape.back();
  int64_t across = (terms + size.terms - 1) / size.terms;
  for (size_t i = 0; i < result.size(); ++i) {
    auto row = static_cast<int64_t>(i) / terms,
         column = static_cast<int64_t>(i) % terms;
    result[i] *= factors[static_cast<size_t>(row / size.outputs * across +
                                             column / size.terms)];
  }
  return result;
}

std::vector<std::string> StoredTensor::tableProblems() const {
  if (isFloat8()) {
    if (scale && !blocks())
      return {"the scales of " + name + " are " +
              shapeText(scale->entry->shape) +
              ", and neither one, nor one for each output or each block of 128 "
              "x 128 of " +
              shapeText(tensor.entry->shape)};
    return {};
  }
  std::vector<int64_t> wanted = tensor.entry->shape;
  if (wanted.size() < 2)
    return {fmt::format("{} has {} axes, too few for outputs and terms", name,
                        wanted.size())};
  if (transposedNames(*tensor.file).is_discarded())
    return {fmt::format("{} is no list of names", transposedKey)};
  if (isInt4()) {
    const auto &metadata = tensor.file->header().metadata;
    for (const std::string &key : {std::string(groupKey), termsKey + name})
      if (auto text = metadata.find(key);
          text != metadata.end() && said(key).value_or(0) < 1)
        return {fmt::format("{} is {}, no number of terms", key,
                            json(text->second).dump())};
    auto count = static_cast<size_t>(terms());
    if (int64_t group = said(groupKey).value_or(TFM_GROUP_TERMS);
        group != TFM_GROUP_TERMS)
      return {fmt::format(
          "{} has groups of {} terms, and they are read in groups of {}", name,
          group, TFM_GROUP_TERMS)};
    if (static_cast<size_t>(wanted.back()) != groupedBytes(count))
      return {fmt::format("{} has rows of {} bytes, and {} terms of 4 bits in "
                          "groups of {} take {}",
                          name, wanted.back(), count, TFM_GROUP_TERMS,
                          groupedBytes(count))};
    wanted.back() = static_cast<int64_t>(groupsOf(count));
  } else {
    wanted.pop_back();
  }
  std::vector<std::string> problems;
  auto require = [&](const std::optional<WeightFiles::Tensor> &table,
                     const std::string &tableName) {
    if (!table)
      problems.push_back(fmt::format("{} is of {} bits, and {} is missing",
                                     name, isInt8() ? 8 : 4, tableName));
    else if (table->entry->shape != wanted)
      problems.push_back(tableName + " is " + shapeText(table->entry->shape) +
                         ", that of " + name + " would be " +
                         shapeText(wanted));
    else if (isInt4() && table->entry->dtype != tableType)
      problems.push_back(fmt::format("{} is {}, that of {} would be {}",
                                     tableName, table->entry->dtype, name,
                                     tableType));
  };
  require(scale, scaleName());
  if (isInt4())
    require(minimum, minimumName());
  return problems;
}

std::vector<int64_t> StoredTensor::shapeFor(int64_t axis) const {
  std::vector<int64_t> shape = tensor.entry->shape;
  if (isInt4() && !shape.empty())
    shape.back() = terms();
  if ((isInt8() || isInt4()) && axis >= 1 &&
      axis == static_cast<int64_t>(shape.size()) - 1)
    std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
  return shape;
}

template <typename T> std::vector<T> StoredTensor::bytes() const {
  tensor.file->requireUnchanged(name, *tensor.entry);
  std::vector<T> result(tensor.entry->elements());
  tensor.file->readBytes(
      *tensor.entry, 0,
      {reinterpret_cast<char *>(result.data()), result.size()});
  return result;
}

static std::vector<float> readTable(const WeightFiles::Tensor &from,
                                    const std::string &name,
                                    std::string_view what,
                                    bool (*isGood)(float)) {
  std::vector<float> result(from.entry->elements());
  from.file->readFloats(name, *from.entry, result.data());
  auto bad = std::ranges::find_if_not(result, isGood);
  if (bad != result.end())
    throw InputError(
        "{}: the tensor {} has the value {} (element {}), which is no {}: "
        "the file is damaged; export or download it again",
        from.file->path(), name, *bad, bad - result.begin(), what);
  return result;
}

std::vector<float> StoredTensor::scales() const {
  return readTable(*scale, scaleName(), "scale", [](float value) {
    // So that what it stands for is finite, too.
    return std::isfinite(127 * value) && value >= 0;
  });
}

StoredTensor::Groups StoredTensor::groups() const {
  std::vector<float> scales =
      readTable(*scale, scaleName(), "scale",
                [](float value) { return std::isfinite(value) && value >= 0; });
  std::vector<float> minima =
      readTable(*minimum, minimumName(), "minimum",
                [](float value) { return std::isfinite(value); });
  Groups groups{std::vector<uint16_t>(scales.size()),
                std::vector<uint16_t>(minima.size())};
  std::ranges::transform(scales, groups.scales.begin(), toBFloat16);
  std::ranges::transform(minima, groups.minima.begin(), toBFloat16);
  if (boundOfWeights(groups.scales, groups.minima) <=
      largestOf(StoredType::INT4))
    return groups;
  for (size_t i = 0; i < scales.size(); ++i)
    // The largest may be a step beyond what it stands for.
    if (!std::isfinite(weightOf(groups.scales[i], groups.minima[i], 15)) ||
        std::abs(fromBFloat16(groups.minima[i])) > largestOf(StoredType::INT4))
      throw InputError(
          "{}: the weights of {} overflow (group {}: the scale {} and the "
          "minimum {}): the file is damaged; export or download it again",
          tensor.file->path(), name, i, scales[i], minima[i]);
  return groups;
}

bool StoredTensor::staysQuantised() const {
  const auto axis = static_cast<int64_t>(tensor.entry->shape.size()) - 2;
  const std::vector<float> all = values(axis);
  const OutputRows rows(shapeFor(axis), axis);
  const size_t tables = scale->entry->elements();
  if (isInt8()) {
    std::vector<int8_t> integers(all.size());
    std::vector<float> newScales(tables);
    quantise(all, rows, integers, newScales);
    return integers == bytes<int8_t>() && newScales == scales();
  }
  std::vector<uint8_t> integers(tensor.entry->elements());
  Groups made{std::vector<uint16_t>(tables), std::vector<uint16_t>(tables)};
  quantise(all, rows, integers, made.scales, made.minima);
  return integers == bytes<uint8_t>() && made == groups();
}

std::vector<float> StoredTensor::values(int64_t axis) const {
  if (isQuantised())
    if (std::vector<std::string> problems = tableProblems(); !problems.empty())
      throw InputError("{}: {}", tensor.file->path(), problems.front());
  std::vector<int64_t> shape = shapeFor(axis);
  size_t count = 1;
  for (int64_t extent : shape)
    count *= static_cast<size_t>(extent);
  std::vector<float> result(count);
  if (isFloat8()) {
    result = float8();
  } else if (isInt8()) {
    dequantise(bytes<int8_t>(), scales(), OutputRows(shape, axis), result);
  } else if (isInt4()) {
    Groups tables = groups();
    dequantise(bytes<uint8_t>(), tables.scales, tables.minima,
               OutputRows(shape, axis), result);
  } else {
    tensor.file->readFloats(name, *tensor.entry, result.data());
  }
  return result;
}

} // namespace tfm
