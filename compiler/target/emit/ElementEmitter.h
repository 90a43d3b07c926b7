//===- ElementEmitter.h - the value of an expression at a point -*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_EMIT_ELEMENTEMITTER_H
#define TFM_TARGET_EMIT_ELEMENTEMITTER_H

#include "compiler/schedule/SchedDialect.h"
#include "compiler/schedule/View.h"
#include "compiler/target/emit/KernelBuilder.h"

#include "llvm/ADT/MapVector.h"
#include <deque>
#include <map>
#include <optional>

namespace tfm {

/// Elements of a tensor as kernels load and store them: booleans are bytes, and
/// bf16 its bits, as few processors move masked vectors of it.
inline mlir::Type memoryType(mlir::Type element) {
  unsigned bits = element.isInteger(1) ? 8 : element.isBF16() ? 16 : 0;
  return bits ? mlir::IntegerType::get(element.getContext(), bits) : element;
}

/// Emits the elementwise part of kernels: vectors of a row's columns, or a
/// row's scalar, of any value that a launch computes or reads. Row kernels and
/// the epilogues of matmuls are made of it. Where a lane is a thread (a
/// `KernelBuilder` of one lane) a vector is the scalar of one column, and that
/// column is within the row, whatever the mask: it says what is loaded, stored
/// and added up.
///
/// Rows may also go side by side (`putRowsSideBySide`): then a vector is of one
/// column of `lanes` rows, the mask says which of them exist, and the scalar of
/// a row is a vector, too.
class ElementEmitter {
public:
  static constexpr int64_t anyColumn = INT64_MIN;

  /// Of the body of `launch`; `pointers` are to its reads and writes.
  ElementEmitter(KernelBuilder &k, sched::LaunchOp launch,
                 mlir::ValueRange pointers, const KernelArguments &arguments);
  /// Of a domain alone: what is read and written is added.
  ElementEmitter(KernelBuilder &k, const Domain &domain,
                 const KernelArguments &arguments)
      : k(k), domain(domain), arguments(arguments) {}

  /// `value` is read through `view` of `pointer`, which is a multiple of
  /// `alignment` bytes.
  void addRead(mlir::Value value, mlir::Value pointer, const View &view,
               sched::Access access, int64_t alignment = 1);
  /// The next write goes through `view` of `pointer`.
  void addWrite(mlir::Value pointer, const View &view, sched::Access access,
                int64_t alignment = 1);

  /// How far apart the elements of neighbouring columns, and rows, lie, and how
  /// many rows in a run lie as far apart.
  struct Strides {
    int64_t columns, rows, run;
  };
  /// Of what a kernel of a domain reads or writes; none where no strides say
  /// it.
  static std::optional<Strides>
  stridesOf(const Domain &domain, const View &view, sched::Access access);

  /// Whether what `launch` reads and writes at points is the same for a row, or
  /// lies so that tiles of `count` columns are vectors in memory.
  static bool hasTiles(sched::LaunchOp launch, int64_t count);

  /// A vector is of `lanes` rows from now on, at one column, all in a run.
  void putRowsSideBySide() { rowsSideBySide = true; }
  /// Moves to `count` columns from `column` on: `beginColumn` goes to each of
  /// them, the one that is `number` columns behind the first. Elements of which
  /// those of a row lie together are read and written as a tile of all these
  /// columns. Of rows side by side there are at most as many columns as lanes,
  /// and the tile is turned in registers; of one lane `column` is a multiple of
  /// `count`, a power of two, and the tile is a vector in memory.
  void beginTile(mlir::Value column, int64_t count);
  /// Loads the tiles at once, before any of them is computed with.
  void loadTiles();
  /// Calls `visit` with the address, and the bytes, of each tile that is read
  /// and another one in every row.
  void forEachTile(llvm::function_ref<void(mlir::Value, int64_t)> visit);
  void beginColumn(int64_t number, mlir::Value mask,
                   mlir::Operation *loop = nullptr, int64_t chunk = anyColumn);
  /// Stores the tiles.
  void endTile();

  /// Starts row `row`; what was known of the last row is forgotten.
  void beginRow(mlir::Value row);
  /// Moves to the `lanes` columns from `column` on, of which only those in
  /// `mask` exist (null: all). `chunk` is the column where it is known: its
  /// values are kept for the row. In `loop`, each turn of which handles four
  /// vectors 16 columns apart, or several such fours, it is -1 for the first of
  /// them, -2 for the next, and so on; anyColumn elsewhere.
  void beginColumns(mlir::Value column, mlir::Value mask, int64_t chunk,
                    mlir::Operation *loop = nullptr);
  /// Row scalars are computed before this loop from now on.
  void endColumns() { columnLoop = nullptr; }
  /// Calls `visit` with the address of the current column, the bytes of an
  /// element, and how many of them the next row is away, of all that is read
  /// and written of which rows lie one behind the other, with gaps or without:
  /// once of what is changed in place.
  void
  forEachStream(llvm::function_ref<void(mlir::Value, int64_t, int64_t)> visit);

  /// A vector of `value` at the current columns.
  mlir::Value full(mlir::Value value);
  /// `value` at the current row.
  mlir::Value scalar(mlir::Value value);
  /// Makes a value known: a matmul's result, a row's sum.
  void provide(mlir::Value value, mlir::Value vector);
  void provideScalar(mlir::Value value, mlir::Value scalarValue);

  /// A number as a vector.
  mlir::Value number(mlir::TypedAttr value);

  /// Stores a vector of the write `index` of the launch.
  void store(unsigned index, mlir::Value vector);
  /// Stores a row's scalar.
  void storeScalar(unsigned index, mlir::Value scalarValue);
  mlir::Value writePointer(unsigned index) const {
    return writes[index].pointer;
  }

  /// `value` where the mask holds, `other` elsewhere.
  mlir::Value masked(mlir::Value vector, double other);

private:
  /// How a view lies over the domain: an offset per row, a stride per column.
  struct Window {
    mlir::Value pointer;
    View view;
    llvm::SmallVector<std::pair<int64_t, int64_t>> leading; // size, stride
    int64_t columnStride = 0;
    bool perElement = false; // no stride can say it: each element is looked up
    bool inPlace = false;    // a write to what is read
    int64_t alignment = 1;   // bytes, of the pointer

    int64_t rowStride() const {
      return leading.empty() ? 0 : leading.back().second;
    }
    /// Whether columns are neighbours, and rows are not.
    bool isTurned() const { return columnStride == 1 && rowStride() > 1; }
    /// How many bytes of `count` columns, the first of which is a multiple of
    /// it, can be moved at once; 0 where they do not lie together.
    int64_t togetherBytes(int64_t count) const;
  };
  static Window makeWindow(const Domain &domain, mlir::Value pointer,
                           const View &view, sched::Access access);
  bool isTiled(const Window &window) const;
  mlir::Value rowOffset(const Window &window);
  mlir::Value loadFull(const Window &window);
  mlir::Value loadRowScalar(const Window &window);
  mlir::Value loadAt(const Window &window, mlir::Value offset, int64_t stride);
  mlir::Value loadOne(mlir::Value pointer, mlir::Type type, int64_t alignment);
  void storeOne(mlir::Value pointer, mlir::Value value, int64_t alignment);
  mlir::Value elementIndex(const Window &window);
  mlir::Value indexAlong(mlir::RankedTensorType type, int64_t axis,
                         bool vector);
  mlir::Value index(mlir::Operation *op, bool vector);
  mlir::Value compute(mlir::Operation *op, bool vector);
  mlir::Value constant(mlir::DenseElementsAttr value, bool vector);
  mlir::Value gatherRow(mlir::Operation *op);
  /// Of the row of that number.
  mlir::Value dequantiseRow(DequantiseOp op, mlir::Value number);
  mlir::Value unpackRow(UnpackOp op, mlir::Value number);
  /// What is drawn of a random word at the current columns: `four`, of a row
  /// and a column, draws for four vectors together, which a counter has words
  /// for, and `one` for one lane.
  mlir::Value
  drawn(mlir::Operation *op, llvm::function_ref<mlir::Value()> one,
        llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value,
                                                          mlir::Value)>
            four);
  /// The layer of an op that draws, whose operand this is.
  mlir::Value layerOf(mlir::Value layer);
  mlir::Value dropout(mlir::Operation *op);
  mlir::Value uniform(mlir::Operation *op);
  mlir::Type typeOf(mlir::Type element, bool vector) const;
  mlir::Value fromMemory(mlir::Value value, mlir::Type element);
  mlir::Value toMemory(mlir::Value value, mlir::Type element);
  mlir::Value columnNumbers();
  /// What a row knows, at all columns.
  mlir::Value repeated(mlir::Value ofRow);
  void storeAt(const Window &window, mlir::Value offset, int64_t stride,
               mlir::Value vector);
  /// The address of row `lane` of those that are side by side, and which of the
  /// tile's columns it has (null: all lanes).
  std::pair<mlir::Value, mlir::Value> tileRow(const Window &window,
                                              int64_t lane);
  llvm::SmallVector<mlir::Value> loadTile(const Window &window);
  void storeTile(const Window &window, llvm::ArrayRef<mlir::Value> columns);

  KernelBuilder &k;
  const Domain domain;
  KernelArguments arguments;
  /// Micro-steps in an update, for the counters of random numbers.
  int64_t microSteps = 1;
  /// In nodes of their own: `rowOffsets` knows them by their address.
  std::map<void *, Window> reads;
  /// Their keys in the order in which they were added, in which they are
  /// loaded: addresses have another one in each run.
  llvm::SmallVector<void *> readOrder;
  std::deque<Window> writes;
  mlir::Value row, column, mask;
  mlir::Operation *columnLoop = nullptr;
  llvm::DenseMap<mlir::Value, mlir::Value> rowValues;
  llvm::DenseMap<int64_t, llvm::DenseMap<mlir::Value, mlir::Value>> chunkValues;
  llvm::DenseMap<mlir::Value, mlir::Value> *columnValues = nullptr;
  llvm::DenseMap<const Window *, mlir::Value> rowOffsets;
  /// What is drawn for each four vectors, by the column of the first, and which
  /// of the four the current vector is (-1 where that is not known).
  llvm::DenseMap<std::pair<mlir::Operation *, int64_t>,
                 llvm::SmallVector<mlir::Value>>
      drawnOfFour;
  int64_t vectorOfFour = -1, firstOfFour = -1;
  bool rowsSideBySide = false;
  /// The tile's first column, their number, and the one that is current.
  mlir::Value tileColumn;
  int64_t tileCount = 0, tileNumber = 0;
  llvm::MapVector<const Window *, llvm::SmallVector<mlir::Value>> loadedTiles,
      tilesToStore;
};

} // namespace tfm

#endif // TFM_TARGET_EMIT_ELEMENTEMITTER_H
