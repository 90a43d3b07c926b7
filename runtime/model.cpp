//===- model.cpp - a compiled model in memory ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/model.h"

#include "runtime/error.h"

#include <algorithm>
#include <cstring>
#include <set>
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
    throw InputError("the model needs " + std::to_string(bytes >> 20) +
                     " MiB of memory, more than there is: build it with a "
                     "smaller batch, e.g. -D train.batch=1");
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

Model::~Model() { munmap(mappedAt, mapped); }

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

void loadParameters(Model &model, const SafetensorsReader &file) {
  std::vector<std::string> problems;
  std::set<std::string> used;
  std::vector<std::pair<std::string, const TensorEntry *>> sources;
  for (const tfm_parameter &parameter : model.parameters()) {
    std::vector<std::string> names{parameter.name};
    names.insert(names.end(), parameter.aliases,
                 parameter.aliases + parameter.alias_count);
    const TensorEntry *entry = nullptr;
    std::string source;
    for (const std::string &name : names) {
      const TensorEntry *candidate = file.find(name);
      if (!candidate)
        continue;
      used.insert(name);
      if (entry) {
        problems.push_back(
            candidate->shape == entry->shape
                ? ""
                : source + " and " + name +
                      " are one parameter but have different shapes");
        if (problems.back().empty())
          problems.pop_back();
        continue;
      }
      entry = candidate;
      source = name;
    }
    if (!entry)
      problems.push_back(std::string(parameter.name) + " is missing");
    else if (entry->shape != shapeOf(parameter))
      problems.push_back(source + " is " + shapeText(entry->shape) +
                         ", the model's is " + shapeText(shapeOf(parameter)));
    sources.emplace_back(source, entry);
  }
  for (const auto &[name, entry] : file.header().tensors)
    if (!used.count(name))
      problems.push_back(name + " is not a parameter of this model");
  if (!problems.empty()) {
    std::string message = file.path() +
                          " holds the weights of another model (" +
                          model.descriptor().name + " was expected):";
    for (size_t i = 0; i < problems.size() && i < 5; ++i)
      message += "\n  " + problems[i];
    if (problems.size() > 5)
      message += "\n  and " + std::to_string(problems.size() - 5) + " more";
    throw InputError(message +
                     "\nUse the binary that was built for these weights, or "
                     "name other weights");
  }
  // Two names of one parameter must agree before any of them is taken.
  for (const tfm_parameter &parameter : model.parameters()) {
    std::vector<float> first, other;
    std::string firstName;
    for (int32_t i = -1; i < parameter.alias_count; ++i) {
      std::string name = i < 0 ? parameter.name : parameter.aliases[i];
      const TensorEntry *entry = file.find(name);
      if (!entry || parameter.alias_count == 0)
        continue;
      other.resize(entry->elements());
      file.readFloats(name, *entry, other.data());
      if (firstName.empty()) {
        first.swap(other);
        firstName = name;
      } else if (std::memcmp(first.data(), other.data(),
                             first.size() * sizeof(float)) != 0) {
        throw InputError(file.path() + ": " + firstName + " and " + name +
                         " are one parameter of this model, but differ");
      }
    }
  }
  size_t index = 0;
  for (const tfm_parameter &parameter : model.parameters()) {
    const auto &[name, entry] = sources[index++];
    file.readFloats(name, *entry, model.value(parameter).data());
  }
}

} // namespace tfm
