//===- model.cpp - a compiled model in memory ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/model/model.h"

#include "runtime/device/in_pieces.h"
#include "runtime/device/variant.h"
#include "runtime/model/memory_needed.h"
#include "runtime/model/quantise.h"
#include "runtime/recipe.h"
#include "runtime/support/error.h"
#include "runtime/support/float16.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <mutex>
#include <new>
#include <optional>

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

Model::Model(const tfm_model &descriptor, Device &device, bool trains)
    : model(&descriptor), chosen(&chooseVariant(descriptor)), memory(&device),
      copiesAreStale(find(TFM_REFRESH) != nullptr) {
  try {
    device.allocate(chosen->arena_bytes, chosen->arena_alignment,
                    chosen->scratch_bytes);
  } catch (const NoDeviceMemory &left) {
    refuseArena(descriptor, trains, &left);
  } catch (const std::bad_alloc &) {
    refuseArena(descriptor, trains);
  }
  for (int32_t i = 0; i < chosen->constant_count; ++i) {
    const tfm_constant &constant = chosen->constants[i];
    PendingWrite<char> to = device.write<char>(constant.offset, constant.size);
    std::memcpy(to.values().data(), constant.data, constant.size);
  }
}

Model::~Model() { memory->release(); }

void Model::refreshCopies() {
  if (!copiesAreStale)
    return;
  copiesAreStale = false;
  memory->run(*find(TFM_REFRESH));
}

void Model::run(const tfm_function &function) {
  refreshCopies();
  memory->run(function);
}

void Model::run(const tfm_function &first, const tfm_function &second) {
  refreshCopies();
  const tfm_function *both[] = {&first, &second};
  memory->run(both);
}

const tfm_function *Model::find(std::string_view name) const {
  for (int32_t i = 0; i < chosen->function_count; ++i)
    if (chosen->functions[i].name == name)
      return &chosen->functions[i];
  return nullptr;
}

const tfm_function &Model::function(std::string_view name) const {
  if (const tfm_function *found = find(name))
    return *found;
  throw missing(*model, name);
}

InputError Model::missing(const tfm_model &model, std::string_view name) {
  Recipe recipe = recipeOf(model);
  std::string fix = name == TFM_FORWARD ? "the model has no forward function"
                    : recipe.hasTrain
                        ? "its weights are stored as " +
                              recipe.generate.weights +
                              ", too coarse for training: build it again "
                              "without `generate.weights`"
                        : "it needs a `train` block: add one to " +
                              std::string(model.source) + " and build it again";
  return InputError("this build of " + std::string(model.name) + " cannot " +
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
    const bool areIds = input.dtype == TFM_I32 && input.rank == 2;
    const tfm_buffer *source = findInput(function, TFM_IN_SOURCE);
    if (name == TFM_IN_SOURCE && areIds)
      continue;
    if (name == TFM_IN_PRESENT && source && input.dtype == TFM_U8 &&
        std::ranges::equal(std::span(input.shape, input.rank),
                           std::span(source->shape, source->rank)))
      continue;
    if (std::find(filled.begin(), filled.end(), name) == filled.end())
      throw InputError(
          "the model takes `{}`, which no texts fill: what they fill is "
          "`tokens`, int[B, T]{}. {} (`tfmc build --emit obj`)",
          name,
          findInput(function, TFM_IN_TARGETS) ? ", and `targets` of a loss"
                                              : "",
          areIds && !findInput(function, TFM_IN_TOKENS)
              ? "Call it `tokens`, or run the model from a program of your own"
              : "Let arrays fill it, `data arrays(...)`, or run the model from "
                "a program of your own");
    if ((name == TFM_IN_TOKENS || name == TFM_IN_TARGETS) && !areIds)
      throw InputError(
          "the model takes `{}` in another form than texts and data have, "
          "int[B, T]: run it from a program of your own (`tfmc build --emit "
          "obj`)",
          name);
  }
}

/// Token ids that texts for the model are made of: those of the tokenizer that
/// it was built for, as far as its tables have rows for them; without one those
/// rows. 0 where it names neither.
static int64_t knownTokens(const tfm_model &model) {
  Recipe recipe = recipeOf(model);
  int64_t rows = recipe.tokens, own = recipe.tokenizer.size;
  return rows > 0 && own > 0 ? std::min(own, rows) : std::max(own, rows);
}

bool Model::givesLogits(const tfm_model &model, const tfm_function &function) {
  const tfm_buffer *tokens = findInput(function, TFM_IN_TOKENS);
  const tfm_buffer *logits = findOutput(function, TFM_OUT_LOGITS);
  // A number for each token is no choice between tokens, nor are a few classes
  // or what is no number.
  return tokens && logits && logits->dtype == TFM_F32 && tokens->rank == 2 &&
         logits->rank == 3 && logits->shape[2] > 1 &&
         logits->shape[2] >= knownTokens(model) &&
         std::equal(tokens->shape, tokens->shape + 2, logits->shape);
}

void Model::requireLogits() const {
  const tfm_function &forward = function(TFM_FORWARD);
  if (givesLogits(*model, forward))
    return;
  const tfm_buffer &logits = output(forward, TFM_OUT_LOGITS);
  int64_t size = knownTokens(*model);
  if (size == 1)
    throw InputError("{} knows one token alone: there is no next "
                     "one to choose",
                     model->name);
  throw InputError(
      "{0} gives [{1}] for tokens [{2}, {3}], which are no logits of the "
      "next token after each one, [{2}, {3}, {4}]: it can be trained "
      "and evaluated with a loss of its own, but does not generate or write "
      "logits",
      model->name, fmt::join(logits.shape, logits.shape + logits.rank, ", "),
      input(forward, TFM_IN_TOKENS).shape[0],
      input(forward, TFM_IN_TOKENS).shape[1],
      size > 0 ? std::to_string(size) : "vocabulary");
}

const tfm_buffer &Model::input(const tfm_function &function,
                               std::string_view name) {
  return required(findInput(function, name), function, name);
}

const tfm_buffer &Model::output(const tfm_function &function,
                                std::string_view name) {
  return required(findOutput(function, name), function, name);
}

namespace {

/// Calls `work` with parts of [0, total) that begin at multiples of `unit`, on
/// all threads of a device; of small ones on this thread alone. Throws what it
/// throws, of the first part that does.
void inParts(Device &device, size_t total, size_t unit,
             const std::function<void(size_t first, size_t last)> &work) {
  constexpr size_t few = size_t{1} << 16;
  if (total <= few)
    return work(0, total);
  size_t units = (total + unit - 1) / unit;
  inPieces(device, [&](size_t piece, size_t pieces) {
    work(units * piece / pieces * unit,
         std::min(total, units * (piece + 1) / pieces * unit));
  });
}

OutputRows outputRows(const tfm_parameter &parameter) {
  return {{parameter.shape, static_cast<size_t>(parameter.rank)},
          parameter.output_axis};
}

/// Elements that a thread converts at a time.
constexpr size_t converted = size_t{1} << 16;

/// The integers of a parameter of TFM_I8, where they lie.
class PlacedIntegers {
public:
  PlacedIntegers(Device &memory, const tfm_place &place, const OutputRows &rows)
      : terms(rows.terms()),
        panels(place.panel_outputs == 0 ? std::optional<Panels>()
                                        : Panels(rows, place.panel_outputs)),
        to(memory.write<uint8_t>(
            place.value, panels ? panels->bytes() : rows.outputs() * terms)) {}

  /// Stores `count` terms, from `term` on, of each of some outputs from
  /// `output` on.
  void store(std::span<const int8_t> integers, size_t output, size_t term,
             size_t count) {
    if (panels)
      return panels->store(integers, output, term, count, to.values());
    uint8_t *at = to.values().data() + output * terms + term;
    for (size_t from = 0; from < integers.size(); from += count, at += terms)
      std::memcpy(at, &integers[from], count);
  }

private:
  size_t terms;
  std::optional<Panels> panels;
  PendingWrite<uint8_t> to;
};

/// Outputs whose terms, all of them, a thread converts at a time.
size_t outputsAtATime(size_t terms) { return (converted / terms + 4) / 4 * 4; }

} // namespace

void Model::setValue(const tfm_parameter &parameter, const Elements &source) {
  copiesAreStale = find(TFM_REFRESH) != nullptr;
  size_t count = elements(parameter.rank, parameter.shape);
  if (parameter.dtype == TFM_F32) {
    PendingWrite<float> to =
        memory->write<float>(place(parameter).value, count);
    inParts(*memory, count, 4, [&](size_t first, size_t last) {
      source(first, to.values().subspan(first, last - first));
    });
  } else if (parameter.dtype == TFM_BF16 && place(parameter).transposed &&
             !outputRows(parameter).areContiguous()) {
    OutputRows all = outputRows(parameter);
    PendingWrite<uint16_t> to =
        memory->write<uint16_t>(place(parameter).value, count);
    inTiles(all, source, [&](const Tile &tile) {
      roundRowsToColumns(
          tile.values, tile.rows.outputs(), all.terms(),
          to.values().subspan(tile.output * all.terms() + tile.term));
    });
  } else if (parameter.dtype == TFM_BF16) {
    PendingWrite<uint16_t> to =
        memory->write<uint16_t>(place(parameter).value, count);
    inParts(*memory, count, 4, [&](size_t first, size_t last) {
      std::vector<float> room(std::min(converted, last - first));
      for (size_t at = first; at < last; at += converted) {
        std::span<float> some =
            std::span(room).first(std::min(converted, last - at));
        source(at, some);
        round(some, to.values().subspan(at));
      }
    });
  } else if (parameter.dtype == TFM_I8) {
    setAsInt8(parameter, source);
  } else {
    setAsInt4(parameter, source);
  }
}

void Model::setAsInt8(const tfm_parameter &parameter, const Elements &source) {
  OutputRows all = outputRows(parameter);
  PlacedIntegers integers(*memory, place(parameter), all);
  std::vector<float> magnitudes(all.outputs());
  std::mutex mutex;
  auto measure = [&](const Tile &tile) {
    std::vector<float> ofTile(tile.rows.outputs());
    raiseToMagnitudes(tile.values, tile.rows, ofTile);
    std::lock_guard lock(mutex);
    for (size_t i = 0; i < ofTile.size(); ++i)
      magnitudes[tile.output + i] =
          std::max(magnitudes[tile.output + i], ofTile[i]);
  };
  auto store = [&](const Tile &tile) {
    std::vector<int8_t> room(tile.values.size());
    quantiseBy(std::span(magnitudes).subspan(tile.output, tile.rows.outputs()),
               tile.values, tile.rows, room);
    integers.store(room, tile.output, tile.term, tile.rows.terms());
  };
  if (all.areContiguous()) {
    inTiles(all, source, [&](const Tile &tile) {
      measure(tile);
      store(tile);
    });
  } else {
    // The terms of an output are all over the tensor.
    inTiles(all, source, measure);
    inTiles(all, source, store);
  }
  PendingWrite<float> scales =
      memory->write<float>(place(parameter).scale, all.outputs());
  std::ranges::transform(magnitudes, scales.values().begin(), scaleOf);
}

void Model::setAsInt4(const tfm_parameter &parameter, const Elements &source) {
  OutputRows all = outputRows(parameter);
  size_t bytes = groupedBytes(all.terms()), groups = groupsOf(all.terms());
  PendingWrite<uint8_t> integers =
      memory->write<uint8_t>(place(parameter).value, all.outputs() * bytes);
  PendingWrite<uint16_t> scales =
      memory->write<uint16_t>(place(parameter).scale, all.outputs() * groups);
  PendingWrite<uint16_t> minima =
      memory->write<uint16_t>(place(parameter).minimum, all.outputs() * groups);
  inTiles(all, source, [&](const Tile &tile) {
    size_t outputs = tile.rows.outputs();
    size_t some = groupsOf(tile.rows.terms());
    std::vector<uint8_t> itsIntegers(outputs * some * TFM_GROUP_BYTES);
    std::vector<uint16_t> itsScales(outputs * some), itsMinima(outputs * some);
    quantise(tile.values, tile.rows, itsIntegers, itsScales, itsMinima);
    size_t group = tile.output * groups + tile.term / TFM_GROUP_TERMS;
    for (size_t from = 0; from < outputs * some;
         from += some, group += groups) {
      std::copy_n(&itsIntegers[from * TFM_GROUP_BYTES], some * TFM_GROUP_BYTES,
                  &integers.values()[group * TFM_GROUP_BYTES]);
      std::copy_n(&itsScales[from], some, &scales.values()[group]);
      std::copy_n(&itsMinima[from], some, &minima.values()[group]);
    }
  });
}

void Model::inTiles(const OutputRows &all, const Elements &source,
                    const std::function<void(const Tile &tile)> &use) {
  // Where the terms of an output lie beside each other, all of them; else a few
  // rows of many outputs, which the file has beside each other.
  constexpr size_t widest = 8 * 1024;
  bool byOutputs = all.areContiguous();
  size_t outputs = all.outputsOfMatrix(), terms = all.terms();
  size_t tileOutputs =
      std::min(outputs, byOutputs ? outputsAtATime(terms) : widest);
  size_t tileTerms = std::min(
      terms, byOutputs ? terms
                       : std::max(converted / tileOutputs / TFM_GROUP_TERMS,
                                  size_t{1}) *
                             TFM_GROUP_TERMS);
  size_t across = (outputs + tileOutputs - 1) / tileOutputs;
  size_t down = (terms + tileTerms - 1) / tileTerms;
  size_t inMatrix = across * down, tiles = all.outputs() / outputs * inMatrix;
  size_t most = tileOutputs * tileTerms;
  inParts(*memory, tiles * most, most, [&](size_t first, size_t last) {
    std::vector<float> room(most);
    for (size_t at = first / most; at * most < last; ++at) {
      size_t matrix = at / inMatrix, output = at % across * tileOutputs;
      size_t term = at % inMatrix / across * tileTerms;
      size_t itsOutputs = std::min(tileOutputs, outputs - output);
      size_t itsTerms = std::min(tileTerms, terms - term);
      std::span<float> values = std::span(room).first(itsOutputs * itsTerms);
      size_t from = all.begin(matrix * outputs + output) + term * all.stride();
      if (byOutputs || itsOutputs == outputs)
        source(from, values);
      else
        for (size_t row = 0; row < itsTerms; ++row)
          source(from + row * outputs,
                 values.subspan(row * itsOutputs, itsOutputs));
      auto rows = static_cast<int64_t>(byOutputs ? itsOutputs : itsTerms);
      auto columns = static_cast<int64_t>(byOutputs ? itsTerms : itsOutputs);
      use({values, OutputRows(std::array{rows, columns}, byOutputs ? 0 : 1),
           matrix * outputs + output, term});
    }
  });
}

void Model::setBytes(const tfm_parameter &parameter, size_t count,
                     const Bytes &source) {
  PendingWrite<char> to = memory->write<char>(place(parameter).value, count);
  inParts(*memory, count, 4, [&](size_t first, size_t last) {
    source(first, to.values().subspan(first, last - first));
  });
}

/// Writes all of `values` to the arena.
template <typename T>
static void writeAll(Device &device, uint64_t offset,
                     std::span<const T> values) {
  PendingWrite<T> to = device.write<T>(offset, values.size());
  std::ranges::copy(values, to.values().begin());
}

void Model::setQuantised(const tfm_parameter &parameter, const Bytes &source,
                         std::span<const float> scales) {
  OutputRows rows = outputRows(parameter);
  size_t terms = rows.terms();
  PlacedIntegers integers(*memory, place(parameter), rows);
  inParts(*memory, rows.outputs() * terms, 4 * terms,
          [&](size_t first, size_t last) {
            std::vector<int8_t> room(outputsAtATime(terms) * terms);
            for (size_t at = first; at < last; at += room.size()) {
              auto some =
                  std::span(room).first(std::min(room.size(), last - at));
              source(at, {reinterpret_cast<char *>(some.data()), some.size()});
              integers.store(some, at / terms, 0, terms);
            }
          });
  writeAll(*memory, place(parameter).scale, scales);
}

void Model::setQuantised(const tfm_parameter &parameter, const Bytes &source,
                         std::span<const uint16_t> scales,
                         std::span<const uint16_t> minima) {
  OutputRows rows = outputRows(parameter);
  setBytes(parameter, rows.outputs() * groupedBytes(rows.terms()), source);
  writeAll(*memory, place(parameter).scale, scales);
  writeAll(*memory, place(parameter).minimum, minima);
}

/// A copy of what lies in the arena.
template <typename T>
static std::vector<T> readAll(Device &device, uint64_t offset, size_t count) {
  PendingRead<T> from = device.read<T>(offset, count);
  std::span<const T> values = from.values();
  return {values.begin(), values.end()};
}

Int8Rows Model::readInt8(const tfm_parameter &parameter) const {
  OutputRows rows = outputRows(parameter);
  const tfm_place &from = place(parameter);
  size_t count = rows.outputs() * rows.terms();
  Int8Rows kept;
  kept.scales = readAll<float>(*memory, from.scale, rows.outputs());
  if (from.panel_outputs == 0) {
    kept.integers = readAll<int8_t>(*memory, from.value, count);
  } else {
    Panels panels(rows, from.panel_outputs);
    kept.integers.resize(count);
    panels.load(memory->read<uint8_t>(from.value, panels.bytes()).values(),
                kept.integers);
  }
  return kept;
}

Int4Groups Model::readInt4(const tfm_parameter &parameter) const {
  OutputRows rows = outputRows(parameter);
  const tfm_place &from = place(parameter);
  size_t groups = rows.outputs() * groupsOf(rows.terms());
  return {readAll<uint8_t>(*memory, from.value, groups * TFM_GROUP_BYTES),
          readAll<uint16_t>(*memory, from.scale, groups),
          readAll<uint16_t>(*memory, from.minimum, groups)};
}

PendingRead<float> Model::readValue(const tfm_parameter &parameter) const {
  const tfm_place &from = place(parameter);
  size_t count = elements(parameter.rank, parameter.shape);
  if (parameter.dtype == TFM_F32)
    return memory->read<float>(from.value, count);
  widened.resize(count);
  if (parameter.dtype == TFM_BF16 && from.transposed) {
    OutputRows rows = outputRows(parameter);
    PendingRead<uint16_t> stored = memory->read<uint16_t>(from.value, count);
    for (size_t output = 0; output < rows.outputs(); ++output)
      for (size_t term = 0; term < rows.terms(); ++term)
        widened[rows.begin(output) + term * rows.stride()] =
            fromBFloat16(stored.values()[output * rows.terms() + term]);
  } else if (parameter.dtype == TFM_BF16) {
    std::ranges::transform(memory->read<uint16_t>(from.value, count).values(),
                           widened.begin(), fromBFloat16);
  } else if (parameter.dtype == TFM_I8) {
    Int8Rows kept = readInt8(parameter);
    dequantise(kept.integers, kept.scales, outputRows(parameter), widened);
  } else {
    Int4Groups kept = readInt4(parameter);
    dequantise(kept.integers, kept.scales, kept.minima, outputRows(parameter),
               widened);
  }
  return PendingRead<float>(widened);
}

bool Model::hasState(const tfm_parameter &parameter, int number) const {
  return place(parameter).state[number] != TFM_NONE;
}

PendingWrite<float> Model::writeState(const tfm_parameter &parameter,
                                      int number) {
  return memory->write<float>(place(parameter).state[number],
                              floatsOf(parameter));
}

PendingRead<float> Model::readState(const tfm_parameter &parameter,
                                    int number) const {
  return memory->read<float>(place(parameter).state[number],
                             floatsOf(parameter));
}

size_t Model::floatsOf(const tfm_parameter &parameter) {
  if (parameter.dtype != TFM_F32)
    throw std::logic_error("the parameter " + std::string(parameter.name) +
                           " has elements of another type");
  return elements(parameter.rank, parameter.shape);
}

void Model::zeroGradients() {
  if (chosen->gradients.bytes)
    memory->zero(chosen->gradients.offset, chosen->gradients.bytes);
}

uint64_t Model::offsetOf(Rows rows) const {
  switch (rows) {
  case Rows::Values:
    return chosen->parameters.offset;
  case Rows::Copies:
    return chosen->copies.offset;
  case Rows::Gradients:
    return chosen->gradients.offset;
  case Rows::FirstState:
    return chosen->optimizer.offset;
  case Rows::SecondState:
    return chosen->optimizer.offset + chosen->gradients.bytes;
  }
  throw std::logic_error("rows of nothing");
}

void Model::zeroRows(Rows of, size_t first, size_t count) {
  memory->zero(placeOf(of, first), count * floatsOfRow(of) * sizeof(float));
}

void Model::discardRows(Rows of, size_t first, size_t count) {
  memory->discard(placeOf(of, first), count * floatsOfRow(of) * sizeof(float));
}

Model::RowUse Model::useOf(size_t first, size_t count) const {
  RowUse use;
  for (const tfm_parameter &parameter : parameters()) {
    const tfm_place &at = place(parameter);
    if (at.gradient == TFM_NONE)
      continue;
    size_t begin = at.gradient - chosen->gradients.offset;
    size_t end = begin + floatsOf(parameter) * sizeof(float);
    if (begin >= (first + count) * rowBytes || end <= first * rowBytes)
      continue;
    use.gradientDone = std::max(use.gradientDone, at.gradient_done);
    use.valueUsed = std::min(use.valueUsed, at.value_used);
    use.readsValue |= at.reads_value != 0;
    use.readsCopy |= at.reads_copy != 0;
  }
  return use;
}

std::span<const Model::Rows> Model::stateRows() const {
  static constexpr std::array all = {Rows::FirstState, Rows::SecondState};
  return std::span(all).first(chosen->gradients.bytes
                                  ? chosen->optimizer.bytes /
                                        chosen->gradients.bytes
                                  : 0);
}

/// Floats that are moved or added at a time.
static constexpr size_t floatsOfPart = size_t{1} << 20;

void Model::addWaitingSum(int64_t place, size_t firstRow, size_t rows) {
  size_t last = (firstRow + rows) * TFM_ROW;
  for (size_t first = firstRow * TFM_ROW; first < last; first += floatsOfPart) {
    size_t count = std::min(floatsOfPart, last - first);
    uint64_t at = chosen->gradients.offset + first * sizeof(float);
    PendingRead<float> waiting = memory->read<float>(
                           offsetOfSum(place) + first * sizeof(float), count),
                       gradients = memory->read<float>(at, count);
    std::span<const float> left = waiting.values(), right = gradients.values();
    PendingWrite<float> sum = memory->write<float>(at, count);
    for (size_t i = 0; i < count; ++i)
      sum.values()[i] = left[i] + right[i];
  }
}

void Model::keepAsWaitingSum(int64_t place) {
  size_t all = chosen->gradients.bytes / sizeof(float);
  for (size_t first = 0; first < all; first += floatsOfPart) {
    size_t count = std::min(floatsOfPart, all - first);
    uint64_t offset = first * sizeof(float);
    PendingRead<float> gradients =
        memory->read<float>(chosen->gradients.offset + offset, count);
    PendingWrite<float> to =
        memory->write<float>(offsetOfSum(place) + offset, count);
    std::ranges::copy(gradients.values(), to.values().begin());
  }
}

size_t Model::elements(int32_t rank, const int64_t *shape) {
  size_t count = 1;
  for (int32_t i = 0; i < rank; ++i)
    count *= static_cast<size_t>(shape[i]);
  return count;
}

size_t eventsOf(const tfm_function &function) {
  size_t events = 1;
  for (int64_t i = 0; i < function.launch_count; ++i)
    events += function.launches[i].runs;
  return events;
}

std::vector<int64_t> shapeOf(const tfm_parameter &parameter) {
  return {parameter.shape, parameter.shape + parameter.rank};
}

bool beginsAtRandom(const tfm_parameter &parameter) {
  return parameter.init == TFM_INIT_NORMAL ||
         parameter.init == TFM_INIT_UNIFORM ||
         parameter.init == TFM_INIT_TRUNCATED_NORMAL;
}

} // namespace tfm
