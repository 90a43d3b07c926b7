//===- model.cpp - a compiled model in memory ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/model.h"

#include "runtime/device/memory.h"
#include "runtime/error.h"
#include "runtime/recipe.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <sys/mman.h>

namespace tfm {

namespace {

constexpr size_t hugePage = size_t{2} << 20;

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

Model::Model(const tfm_model &descriptor, ThreadPool &pool)
    : model(&descriptor), pool(&pool) {
  if (descriptor.abi != TFM_ABI_VERSION)
    throw std::logic_error("the model was compiled for another runtime");
  // Whole huge pages, so that the kernel can back a large arena with them.
  size_t alignment = std::max<size_t>({descriptor.arena_alignment, size_t{64}});
  size_t bytes = std::max<size_t>(descriptor.arena_bytes, 1);
  if (bytes >= hugePage)
    alignment = std::max(alignment, hugePage);
  mapped = bytes + alignment;
  void *memory = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    throw InputError("the model needs " + byteText(bytes) +
                     " of memory, more than there is: build it with a smaller "
                     "batch, e.g. -D train.batch=1");
  mappedAt = static_cast<char *>(memory);
  auto address = reinterpret_cast<uintptr_t>(memory);
  arena = reinterpret_cast<char *>((address + alignment - 1) / alignment *
                                   alignment);
  if (bytes >= hugePage)
    (void)madvise(arena, bytes, MADV_HUGEPAGE); // only a hint
  pool.reserveScratch(descriptor.scratch_bytes);
  for (int32_t i = 0; i < descriptor.constant_count; ++i) {
    const tfm_constant &constant = descriptor.constants[i];
    std::memcpy(arena + constant.offset, constant.data, constant.size);
  }
}

Model::~Model() {
  pool->drain(); // the code may go with whoever loaded it
  munmap(mappedAt, mapped);
}

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

void Model::run(const tfm_function &function) {
  pool->run(function.run, arena);
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

std::span<char> Model::gradients() const {
  uint64_t first = TFM_NONE;
  uint64_t last = 0;
  for (const tfm_parameter &parameter : parameters()) {
    if (parameter.gradient == TFM_NONE)
      continue;
    uint64_t bytes = elements(parameter.rank, parameter.shape) * sizeof(float);
    first = std::min(first, parameter.gradient);
    last = std::max(last, parameter.gradient + bytes);
  }
  if (first == TFM_NONE)
    return {};
  return {arena + first, last - first};
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
        {parameter.name, shapeOf(parameter), model.value(parameter).data()});
  return tensors;
}

} // namespace tfm
