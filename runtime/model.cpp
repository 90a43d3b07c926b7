//===- model.cpp - a compiled model in memory ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/model.h"

#include "runtime/error.h"
#include "runtime/recipe.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace tfm {

namespace {

const tfm_buffer *findBuffer(const tfm_buffer *buffers, int32_t count,
                             std::string_view name) {
  for (int32_t i = 0; i < count; ++i)
    if (buffers[i].name == name)
      return &buffers[i];
  return nullptr;
}

const tfm_buffer &required(const tfm_buffer *buffer,
                           const tfm_function &function,
                           std::string_view name) {
  if (!buffer)
    throw std::logic_error("the model's function " +
                           std::string(function.name) + " has no buffer " +
                           std::string(name));
  return *buffer;
}

} // namespace

Model::Model(const tfm_model &descriptor, Device &device)
    : model(&descriptor), memory(&device) {
  if (descriptor.abi != TFM_ABI_VERSION)
    throw std::logic_error("the model was compiled for another runtime");
  device.allocate(descriptor.arena_bytes, descriptor.arena_alignment,
                  descriptor.scratch_bytes);
  for (int32_t i = 0; i < descriptor.constant_count; ++i) {
    const tfm_constant &constant = descriptor.constants[i];
    PendingWrite<char> to = device.write<char>(constant.offset, constant.size);
    std::memcpy(to.values().data(), constant.data, constant.size);
  }
}

Model::~Model() { memory->release(); }

const tfm_function *Model::find(std::string_view name) const {
  for (int32_t i = 0; i < model->function_count; ++i)
    if (model->functions[i].name == name)
      return &model->functions[i];
  return nullptr;
}

const tfm_function &Model::function(std::string_view name) const {
  if (const tfm_function *found = find(name))
    return *found;
  std::string fix = name == "forward"
                        ? "the model has no forward function"
                        : "it needs a `train` block: add one to " +
                              std::string(model->source) +
                              " and build it again";
  throw InputError("this build of " + std::string(model->name) + " cannot " +
                   std::string(name) + ": " + fix);
}

const tfm_buffer *Model::findInput(const tfm_function &function,
                                   std::string_view name) {
  return findBuffer(function.inputs, function.input_count, name);
}

const tfm_buffer *Model::findOutput(const tfm_function &function,
                                    std::string_view name) {
  return findBuffer(function.outputs, function.output_count, name);
}

void Model::requireType(const tfm_buffer &buffer, tfm_dtype wanted) {
  if (buffer.dtype != wanted)
    throw std::logic_error("the model's buffer " + std::string(buffer.name) +
                           " has elements of another type");
}

void Model::requireFilled(const tfm_function &function,
                          std::initializer_list<std::string_view> filled) {
  for (int32_t i = 0; i < function.input_count; ++i) {
    const tfm_buffer &input = function.inputs[i];
    std::string_view name = input.name;
    if (std::find(filled.begin(), filled.end(), name) == filled.end())
      throw InputError(fmt::format(
          "the model takes `{}`, which neither texts nor data fill: run "
          "it from a program of your own (`tfmc build --emit obj`)",
          name));
    if ((name == "tokens" || name == "targets") &&
        (input.dtype != TFM_I32 || input.rank != 2))
      throw InputError(fmt::format(
          "the model takes `{}` in another form than texts and data have, "
          "int[B, T]: run it from a program of your own (`tfmc build --emit "
          "obj`)",
          name));
  }
}

/// Token ids that texts for the model are made of: those of the tokenizer that
/// it was built for, as far as its tables have rows for them. 0 where it names
/// none.
static int64_t knownTokens(const tfm_model &model) {
  Recipe recipe = parseRecipe(model.recipe ? model.recipe : "");
  return recipe.tokens > 0 ? std::min(recipe.tokenizer.size, recipe.tokens)
                           : recipe.tokenizer.size;
}

bool Model::givesLogits(const tfm_function &function) const {
  const tfm_buffer *tokens = findInput(function, "tokens");
  const tfm_buffer *logits = findOutput(function, "logits");
  // A number for each token is no choice between tokens, nor are a few classes
  // or what is no number.
  return tokens && logits && logits->dtype == TFM_F32 && tokens->rank == 2 &&
         logits->rank == 3 && logits->shape[2] > 1 &&
         logits->shape[2] >= knownTokens(*model) &&
         std::equal(tokens->shape, tokens->shape + 2, logits->shape);
}

void Model::requireLogits() const {
  const tfm_function &forward = function("forward");
  if (givesLogits(forward))
    return;
  const tfm_buffer &logits = output(forward, "logits");
  int64_t size = knownTokens(*model);
  throw InputError(fmt::format(
      "{0} gives [{1}] for tokens [{2}, {3}], which are no logits of the "
      "next token after each one, [{2}, {3}, {4}]: it can be trained "
      "and evaluated with a loss of its own, but not generate",
      model->name, fmt::join(logits.shape, logits.shape + logits.rank, ", "),
      input(forward, "tokens").shape[0], input(forward, "tokens").shape[1],
      size > 0 ? std::to_string(size) : "vocabulary"));
}

const tfm_buffer &Model::input(const tfm_function &function,
                               std::string_view name) {
  return required(findInput(function, name), function, name);
}

const tfm_buffer &Model::output(const tfm_function &function,
                                std::string_view name) {
  return required(findOutput(function, name), function, name);
}

PendingWrite<float> Model::writeValue(const tfm_parameter &parameter) {
  return memory->write<float>(parameter.value,
                              elements(parameter.rank, parameter.shape));
}

PendingRead<float> Model::readValue(const tfm_parameter &parameter) const {
  return memory->read<float>(parameter.value,
                             elements(parameter.rank, parameter.shape));
}

bool Model::hasState(const tfm_parameter &parameter, int number) {
  return parameter.state[number] != TFM_NONE;
}

PendingWrite<float> Model::writeState(const tfm_parameter &parameter,
                                      int number) {
  return memory->write<float>(parameter.state[number],
                              elements(parameter.rank, parameter.shape));
}

PendingRead<float> Model::readState(const tfm_parameter &parameter,
                                    int number) const {
  return memory->read<float>(parameter.state[number],
                             elements(parameter.rank, parameter.shape));
}

void Model::zeroGradients() {
  // They are contiguous.
  uint64_t first = TFM_NONE;
  uint64_t last = 0;
  for (const tfm_parameter &parameter : parameters()) {
    if (parameter.gradient == TFM_NONE)
      continue;
    uint64_t bytes = elements(parameter.rank, parameter.shape) * sizeof(float);
    first = std::min(first, parameter.gradient);
    last = std::max(last, parameter.gradient + bytes);
  }
  if (first != TFM_NONE)
    memory->zero(first, last - first);
}

size_t Model::elements(int32_t rank, const int64_t *shape) {
  size_t count = 1;
  for (int32_t i = 0; i < rank; ++i)
    count *= static_cast<size_t>(shape[i]);
  return count;
}

std::vector<int64_t> shapeOf(const tfm_parameter &parameter) {
  return {parameter.shape, parameter.shape + parameter.rank};
}

std::vector<FloatTensor> parameterTensors(const Model &model) {
  std::vector<FloatTensor> tensors;
  for (const tfm_parameter &parameter : model.parameters())
    tensors.push_back(
        {parameter.name, shapeOf(parameter),
         [&model, &parameter] { return model.readValue(parameter); }});
  return tensors;
}

} // namespace tfm
