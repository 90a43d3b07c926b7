//===- model.h - a compiled model in memory -----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_MODEL_MODEL_H
#define TFM_RUNTIME_MODEL_MODEL_H

#include "runtime/device/device.h"
#include "runtime/model/quantise.h"
#include "runtime/support/error.h"
#include "runtime/tfm_model.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tfm {

/// The type of a buffer whose elements are `T` in memory.
template <typename T>
constexpr tfm_dtype dtypeOf = [] {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, int32_t> ||
                std::is_same_v<T, uint8_t>);
  return std::is_same_v<T, float>     ? TFM_F32
         : std::is_same_v<T, int32_t> ? TFM_I32
                                      : TFM_U8;
}();

/// The variant of a model that this machine runs, together with the device that
/// has the one arena that all its functions work in, and runs them. Buffers of
/// different functions may share bytes: write a function's inputs right before
/// running it, read its outputs right after.
class Model {
public:
  /// Allocates the arena (zeroed pages that cost nothing until touched) and
  /// copies the constants. Throws InputError when there is not enough memory,
  /// with what to build so that it `trains`, or does all else, with less, and
  /// where no variant fits this machine.
  Model(const tfm_model &descriptor, Device &device, bool trains = false);
  ~Model();
  Model(const Model &) = delete;
  Model &operator=(const Model &) = delete;

  const tfm_model &descriptor() const { return *model; }
  /// The code that runs (`chooseVariant`).
  const tfm_variant &variant() const { return *chosen; }
  Device &device() { return *memory; }

  /// Null where this build does not have the function.
  const tfm_function *find(std::string_view name) const;
  /// Throws InputError that says how to build a model that has it.
  const tfm_function &function(std::string_view name) const;
  /// Why a build has no function of that name, and what to do.
  static InputError missing(const tfm_model &model, std::string_view name);
  void run(const tfm_function &function);
  /// Both, as `Device::run` has it of several.
  void run(const tfm_function &first, const tfm_function &second);
  /// Runs `refresh` where there is one and a parameter was written since; `run`
  /// does so itself.
  void refreshCopies();

  /// A function's input or output by name; null where it has none of that name.
  static const tfm_buffer *findInput(const tfm_function &function,
                                     std::string_view name);
  static const tfm_buffer *findOutput(const tfm_function &function,
                                      std::string_view name);
  /// Throws InputError if `function` takes an input that is none of `filled`,
  /// and not what an encoder reads (`SourceInput`): it would compute with
  /// whatever its bytes hold.
  static void requireFilled(const tfm_function &function,
                            std::initializer_list<std::string_view> filled);
  /// The same, but a missing one is a bug of the compiler: throws logic_error.
  static const tfm_buffer &input(const tfm_function &function,
                                 std::string_view name);
  static const tfm_buffer &output(const tfm_function &function,
                                  std::string_view name);

  /// Whether `function` gives logits of the next token after each of its
  /// tokens: [B, T, vocabulary] for `tokens` [B, T]. A model that answers once
  /// for a whole text, or with a number or a class for each token, has other
  /// ones: fewer than there are tokens.
  static bool givesLogits(const tfm_model &model, const tfm_function &function);
  /// Throws InputError where `forward` does not.
  void requireLogits() const;

  /// The elements of a buffer, to be filled, all of them. That they are no `T`
  /// is a bug: throws logic_error.
  template <typename T> PendingWrite<T> write(const tfm_buffer &buffer) {
    requireType(buffer, dtypeOf<T>);
    return memory->write<T>(buffer.offset, elements(buffer.rank, buffer.shape));
  }
  /// The elements of a buffer.
  template <typename T> PendingRead<T> read(const tfm_buffer &buffer) const {
    return read<T>(buffer, 0, elements(buffer.rank, buffer.shape));
  }
  /// `count` of them, from `first` on.
  template <typename T>
  PendingRead<T> read(const tfm_buffer &buffer, size_t first,
                      size_t count) const {
    requireType(buffer, dtypeOf<T>);
    return memory->read<T>(buffer.offset + first * sizeof(T), count);
  }

  std::span<const tfm_parameter> parameters() const {
    return {model->parameters, static_cast<size_t>(model->parameter_count)};
  }
  /// Where the tensors of one of `parameters()` lie.
  const tfm_place &place(const tfm_parameter &parameter) const {
    return chosen->places[&parameter - model->parameters];
  }
  /// Stores a parameter, rounded to its type: `source` gives the elements of a
  /// checkpoint's tensor, from one on as many as there is room for, each once
  /// or twice, to all threads of the device at the same time. What it throws is
  /// thrown here, of the elements that come first; the parameter is then partly
  /// as it was.
  using Elements = std::function<void(size_t first, std::span<float> room)>;
  void setValue(const tfm_parameter &parameter, const Elements &source);
  /// The same for a parameter of TFM_I8, and for one of TFM_I4, as it is
  /// stored.
  using Bytes = std::function<void(size_t first, std::span<char> room)>;
  void setQuantised(const tfm_parameter &parameter, const Bytes &source,
                    std::span<const float> scales);
  void setQuantised(const tfm_parameter &parameter, const Bytes &source,
                    std::span<const uint16_t> scales,
                    std::span<const uint16_t> minima);
  /// As f32, which stay until the next read of a value that is stored in
  /// another type.
  PendingRead<float> readValue(const tfm_parameter &parameter) const;
  /// The integers of a parameter of TFM_I8, and those of one of TFM_I4.
  Int8Rows readInt8(const tfm_parameter &parameter) const;
  Int4Groups readInt4(const tfm_parameter &parameter) const;
  /// Whether it has the first (0) or second (1) tensor of the optimizer's
  /// state, and its elements.
  bool hasState(const tfm_parameter &parameter, int number) const;
  PendingWrite<float> writeState(const tfm_parameter &parameter, int number);
  PendingRead<float> readState(const tfm_parameter &parameter,
                               int number) const;

  void zeroGradients();
  /// What lies in rows of TFM_ROW floats, one for each of the trained
  /// parameters, all at the same places. Copies of parameters lie so, too, in
  /// rows of half as many bytes, whose pairs of bf16 are moved as f32.
  enum class Rows { Values, Copies, Gradients, FirstState, SecondState };
  size_t rowCount() const { return chosen->gradients.bytes / rowBytes; }
  DeviceRows rows(Rows of) const {
    return DeviceRows(*memory, offsetOf(of), floatsOfRow(of));
  }
  PendingRead<float> readRows(Rows of, size_t first, size_t count) const {
    return rows(of).read(first, count);
  }
  void zeroRows(Rows of, size_t first, size_t count);
  void discardRows(Rows of, size_t first, size_t count);
  /// Where they lie.
  DeviceLink::Share placeOfRows(Rows of, size_t first, size_t count) const {
    return {placeOf(of, first), count * floatsOfRow(of)};
  }
  /// When a call of `train` has to do with what lies in some rows, in launches
  /// (`tfm_place.gradient_done`, `tfm_place.value_used`).
  struct RowUse {
    uint64_t gradientDone = 0, valueUsed = TFM_NONE;
    /// Whether functions read values, or their copies.
    bool readsValue = false, readsCopy = false;
  };
  /// Of some rows together.
  RowUse useOf(size_t first, size_t count) const;
  /// The tensors of state that the optimizer has of each parameter.
  std::span<const Rows> stateRows() const;
  /// Adds some rows of the sum that waits in a place to the gradients, as
  /// (place) + (gradients).
  void addWaitingSum(int64_t place, size_t first, size_t count);
  /// Has the gradients wait there.
  void keepAsWaitingSum(int64_t place);
  /// To be called where what was written to `rows` has changed parameters.
  void parametersChanged() { copiesAreStale = find(TFM_REFRESH) != nullptr; }

  static size_t elements(int32_t rank, const int64_t *shape);

private:
  static constexpr size_t rowBytes = TFM_ROW * sizeof(float);
  uint64_t offsetOf(Rows rows) const;
  static size_t floatsOfRow(Rows rows) {
    return rows == Rows::Copies ? TFM_ROW / 2 : TFM_ROW;
  }
  uint64_t placeOf(Rows rows, size_t first) const {
    return offsetOf(rows) + first * floatsOfRow(rows) * sizeof(float);
  }
  uint64_t offsetOfSum(int64_t place) const {
    return chosen->sums.offset +
           static_cast<uint64_t>(place) * chosen->gradients.bytes;
  }
  static void requireType(const tfm_buffer &buffer, tfm_dtype wanted);
  /// How many elements it has. That they are not f32 is a bug: throws
  /// logic_error.
  static size_t floatsOf(const tfm_parameter &parameter);

  void setAsInt8(const tfm_parameter &parameter, const Elements &source);
  void setAsInt4(const tfm_parameter &parameter, const Elements &source);
  /// Some terms, from `term` on, of some outputs, from `output` on, of one of
  /// the matrices of a parameter, as its tensor has them.
  struct Tile {
    std::span<const float> values;
    OutputRows rows;
    size_t output, term;
  };
  /// Calls `use` with all of a tensor, tile by tile, on all threads. Tiles have
  /// all terms of their outputs where these lie beside each other; else they
  /// begin at whole groups of terms.
  void inTiles(const OutputRows &all, const Elements &source,
               const std::function<void(const Tile &tile)> &use);
  void setBytes(const tfm_parameter &parameter, size_t count,
                const Bytes &source);

  const tfm_model *model;
  const tfm_variant *chosen;
  Device *memory;
  /// A value of another type that was read.
  mutable std::vector<float> widened;
  /// Whether a parameter was written after `refresh` or `update` ran: what a
  /// function reads of it is older.
  bool copiesAreStale;
};

/// How many events a call of a function notes (`Device::recordInto`).
size_t eventsOf(const tfm_function &function);

/// The shape of a parameter as a vector.
std::vector<int64_t> shapeOf(const tfm_parameter &parameter);

/// Whether a parameter begins with numbers that are drawn.
bool beginsAtRandom(const tfm_parameter &parameter);

} // namespace tfm

#endif // TFM_RUNTIME_MODEL_MODEL_H
