//===- merge.cpp - corrections become part of the weights ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/files/merge.h"

#include "runtime/files/matching.h"
#include "runtime/files/weights.h"
#include "runtime/model/model.h"
#include "runtime/recipe.h"
#include "runtime/support/error.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

using nlohmann::json;

namespace tfm {

namespace {

struct Matrix {
  size_t rows = 0, columns = 0;
  std::vector<double> values;

  const double *row(size_t i) const { return &values[i * columns]; }
};

Matrix transposed(const Matrix &a) {
  Matrix t{a.columns, a.rows, std::vector<double>(a.values.size())};
  for (size_t i = 0; i < a.rows; ++i)
    for (size_t j = 0; j < a.columns; ++j)
      t.values[j * a.rows + i] = a.row(i)[j];
  return t;
}

/// Adds row `i` of `a @ b`.
void addRow(std::vector<double> &sum, const Matrix &a, const Matrix &b,
            size_t i) {
  for (size_t k = 0; k < b.rows; ++k) {
    const double factor = a.row(i)[k];
    const double *row = b.row(k);
    for (size_t j = 0; j < b.columns; ++j)
      sum[j] += factor * row[j];
  }
}

Matrix product(const Matrix &a, const Matrix &b) {
  Matrix all{a.rows, b.columns, {}};
  std::vector<double> row(b.columns);
  for (size_t i = 0; i < a.rows; ++i) {
    std::ranges::fill(row, 0);
    addRow(row, a, b, i);
    all.values.insert(all.values.end(), row.begin(), row.end());
  }
  return all;
}

using Parameters = std::map<std::string, const tfm_parameter *>;

Matrix matrixOf(const Model &model, const tfm_parameter &parameter) {
  Matrix matrix{static_cast<size_t>(parameter.shape[0]),
                static_cast<size_t>(parameter.shape[1]),
                {}};
  const PendingRead<float> read = model.readValue(parameter);
  matrix.values.assign(read.values().begin(), read.values().end());
  return matrix;
}

/// Adds one correction to a weight.
void add(Model &model, const Parameters &parameters, const json &term,
         const tfm_parameter &weight, bool isTransposed) {
  // `scale * (left @ right)` is added.
  Matrix left, right;
  for (const json &factor : term.at("factors")) {
    Matrix next = matrixOf(model, *parameters.at(factor.at("name")));
    if (factor.at("transposed").get<bool>())
      next = transposed(next);
    left = left.values.empty() ? std::move(right) : product(left, right);
    right = std::move(next);
  }
  for (double &value : right.values)
    value *= term.at("scale").get<double>();
  if (isTransposed) {
    left = transposed(left);
    right = transposed(right);
    std::swap(left, right);
  }
  const PendingRead<float> read = model.readValue(weight);
  std::vector<float> sums(read.values().begin(), read.values().end());
  std::vector<double> row(right.columns);
  for (size_t i = 0; i < left.rows; ++i) {
    float *target = &sums[i * row.size()];
    std::copy_n(target, row.size(), row.begin());
    addRow(row, left, right, i);
    std::ranges::copy(row, target);
  }
  model.setValue(weight, [&](size_t first, std::span<float> room) {
    std::copy_n(&sums[first], room.size(), room.begin());
  });
}

} // namespace

json correctionsOf(const tfm_model &model) {
  json facts = json::parse(recipeOf(model).facts);
  if (!facts.contains("corrections"))
    throw InputError("there are no corrections: {} adds to no product of a "
                     "weight a product of others, as `LoRA` does",
                     model.name);
  return std::move(facts["corrections"]);
}

std::vector<FloatTensor> mergeCorrections(Model &model,
                                          std::vector<std::string> &kept) {
  Parameters parameters;
  for (const tfm_parameter &parameter : model.parameters())
    parameters.emplace(parameter.name, &parameter);
  std::set<std::string> merged, layers;
  for (const json &correction : correctionsOf(model.descriptor())) {
    const std::string weight = correction.at("weight");
    if (correction.contains("shared")) {
      kept.push_back(weight);
      continue;
    }
    for (const json &term : correction.at("terms")) {
      add(model, parameters, term, *parameters.at(weight),
          correction.at("transposed"));
      for (const json &factor : term.at("factors"))
        merged.insert(factor.at("name").get<std::string>());
    }
    layers.insert(weight.substr(0, weight.rfind('.')));
  }
  std::vector<FloatTensor> tensors = parameterTensors(model);
  std::erase_if(tensors, [&](const FloatTensor &tensor) {
    return merged.contains(tensor.name);
  });
  for (FloatTensor &tensor : tensors)
    if (layers.contains(tensor.name.substr(0, tensor.name.rfind('.'))))
      tensor.name = uncorrectedName(tensor.name);
  return tensors;
}

} // namespace tfm
