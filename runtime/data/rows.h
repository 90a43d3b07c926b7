//===- rows.h - what data fill of a function ------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_DATA_ROWS_H
#define TFM_RUNTIME_DATA_ROWS_H

#include "runtime/model/model.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

namespace tfm {

/// Whether a step of training has an input of this name itself: no data fill
/// it.
bool isOfStep(std::string_view input);

/// Values of an input, by its type.
using RowValues = std::variant<std::vector<float>, std::vector<int32_t>,
                               std::vector<uint8_t>>;

/// `count` of them: zeros, and of truth values all true.
RowValues rowValues(tfm_dtype type, size_t count);

/// Rows of the inputs of a function that data fill, in the memory of the host:
/// a row of each is what the function takes of an example, or of a window.
/// After it is made nothing is allocated.
class Rows {
public:
  struct Input {
    const tfm_buffer *buffer;
    size_t width; ///< elements of a row
    RowValues values;

    template <typename T> std::span<T> row(int64_t number) {
      return std::span(std::get<std::vector<T>>(values))
          .subspan(static_cast<size_t>(number) * width, width);
    }
  };

  /// `count` rows of all inputs but those that a step has of its own, `count`
  /// and `rng`.
  Rows(const tfm_function &function, int64_t count);
  /// Rows that a function takes at once.
  static int64_t takenBy(const tfm_function &function);

  int64_t count() const { return rows; }
  /// In the order in which the function has them.
  std::span<Input> inputs() { return all; }
  /// Losses of a row; 0 of a function that gives none.
  int64_t losses() const { return lossWidth; }

  /// What texts fill; empty where the function has none of that name.
  std::span<int32_t> tokens(int64_t row) { return idsOf(tokensInput, row); }
  /// Where the function has none, as many as there are tokens: data have them
  /// all the same.
  std::span<int32_t> targets(int64_t row) {
    return targetsInput == none ? std::span(unread).first(tokens(row).size())
                                : idsOf(targetsInput, row);
  }
  bool hasSource() const { return sourceInput != none; }
  /// Fills what an encoder reads with a text, as far as there is room, and
  /// behind it with `padding`.
  void setSource(int64_t row, std::span<const int32_t> text, int32_t padding);

  /// Whether loss `index` of a row counts: its target is not `ignored`. Without
  /// a target for each loss all of them do.
  bool counts(int64_t row, int64_t index, std::optional<int32_t> ignored) {
    return !ignored || !hasTargetEach ||
           targets(row)[static_cast<size_t>(index)] != *ignored;
  }
  /// How many of the first `valid` do.
  int64_t counting(int64_t row, int64_t valid, std::optional<int32_t> ignored);

  /// Fills the inputs of the function with as many rows as it takes, from
  /// `first` on.
  void write(Model &model, int64_t first = 0) const;
  /// The same of another function, whose rows may be longer, and are zeros
  /// there, and of whose rows the last ones may have none.
  void writeTo(const tfm_function &function, Model &model, int64_t first) const;
  /// Whether it has all that another function takes.
  bool haveAllOf(const tfm_function &function) const;

private:
  static constexpr size_t none = SIZE_MAX;
  size_t find(std::string_view name) const;
  std::span<int32_t> idsOf(size_t input, int64_t row) {
    return input == none ? std::span<int32_t>() : all[input].row<int32_t>(row);
  }

  int64_t rows;
  std::vector<Input> all;
  int64_t lossWidth = 0;
  /// Their places in `all`.
  size_t tokensInput = none, targetsInput = none, sourceInput = none,
         presentInput = none;
  bool hasTargetEach = false;
  std::vector<int32_t> unread;
};

} // namespace tfm

#endif // TFM_RUNTIME_DATA_ROWS_H
