//===- ElementEmitter.cpp - the value of an expression at a point ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/emit/ElementEmitter.h"

#include "compiler/dialect/TfmDialect.h"
#include "compiler/schedule/Launches.h"
#include "compiler/target/emit/Elementwise.h"
#include "compiler/target/emit/GroupedTerms.h"
#include "compiler/target/emit/VectorHelpers.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace tfm;
using namespace tfm::sched;

namespace {

/// Runs of axes that one stride walks, without those of size 1.
SmallVector<std::pair<int64_t, int64_t>> mergeAxes(ArrayRef<int64_t> shape,
                                                   ArrayRef<int64_t> strides) {
  SmallVector<std::pair<int64_t, int64_t>> axes;
  for (auto [size, stride] : llvm::zip_equal(shape, strides)) {
    if (size == 1)
      continue;
    if (!axes.empty() && axes.back().second == size * stride)
      axes.back() = {axes.back().first * size, stride};
    else
      axes.push_back({size, stride});
  }
  return axes;
}

} // namespace

/// Whether two operands of a launch are one view.
static bool areSame(Value a, Value b) {
  auto x = a.getDefiningOp<ViewOp>(), y = b.getDefiningOp<ViewOp>();
  return a == b || (x && y &&
                    OperationEquivalence::isEquivalentTo(
                        x, y, OperationEquivalence::IgnoreLocations));
}

ElementEmitter::ElementEmitter(KernelBuilder &k, LaunchOp launch,
                               ValueRange pointers,
                               const KernelArguments &arguments)
    : ElementEmitter(k, launch.getDomain(), arguments) {
  microSteps = static_cast<int64_t>(launch.getMicroSteps());
  for (auto read : launch.getBlock()->getOps<ReadOp>()) {
    unsigned number = cast<BlockArgument>(read.getFrom()).getArgNumber();
    addRead(read.getY(), pointers[number], viewOf(read.getFrom().getType()),
            launch.getAccessOf(number),
            tfm::alignmentOf(launch->getOperand(number)));
  }
  for (BlockArgument to : launch.getWriteArgs()) {
    unsigned number = to.getArgNumber();
    addWrite(pointers[number], viewOf(cast<MemRefType>(to.getType())),
             launch.getAccessOf(number),
             tfm::alignmentOf(launch->getOperand(number)));
    writes.back().inPlace = llvm::any_of(launch.getReads(), [&](Value read) {
      return areSame(read, launch->getOperand(number));
    });
  }
}

void ElementEmitter::addRead(Value value, Value pointer, const View &view,
                             Access access, int64_t alignment) {
  readOrder.push_back(value.getAsOpaquePointer());
  Window &window = reads[readOrder.back()];
  window = makeWindow(domain, pointer, view, access);
  window.alignment = alignment;
}

void ElementEmitter::addWrite(Value pointer, const View &view, Access access,
                              int64_t alignment) {
  writes.push_back(makeWindow(domain, pointer, view, access));
  writes.back().alignment = alignment;
}

ElementEmitter::Window ElementEmitter::makeWindow(const Domain &domain,
                                                  Value pointer,
                                                  const View &view,
                                                  Access access) {
  Window window;
  window.pointer = pointer;
  window.view = view;
  if (access == Access::Memory)
    return window;
  if (access == Access::Row || domain.cols == 1) {
    window.leading = mergeAxes(view.shape, view.strides);
    return window;
  }
  View flat = view;
  if (view.shape.empty() || view.shape.back() != domain.cols)
    flat = view.reshaped({domain.rows, domain.cols});
  if (!flat.isValid()) {
    window.perElement = true;
    return window;
  }
  window.columnStride = flat.strides.back();
  window.leading = mergeAxes(ArrayRef(flat.shape).drop_back(),
                             ArrayRef(flat.strides).drop_back());
  return window;
}

std::optional<ElementEmitter::Strides>
ElementEmitter::stridesOf(const Domain &domain, const View &view,
                          Access access) {
  Window window = makeWindow(domain, Value(), view, access);
  if (window.perElement)
    return std::nullopt;
  return Strides{window.columnStride, window.rowStride(),
                 window.leading.empty() ? domain.rows
                                        : window.leading.back().first};
}

void ElementEmitter::beginRow(Value newRow) {
  row = newRow;
  rowValues.clear();
  rowOffsets.clear();
  chunkValues.clear();
  drawnOfFour.clear();
  columnValues = nullptr;
}

void ElementEmitter::beginColumns(Value newColumn, Value newMask, int64_t chunk,
                                  Operation *loop) {
  column = newColumn;
  mask = newMask;
  columnLoop = loop;
  // In a loop over columns every turn starts anew.
  if (chunk < 0)
    chunkValues[chunk].clear();
  columnValues = &chunkValues[chunk];
  vectorOfFour = chunk == anyColumn ? -1
                 : chunk < 0        ? (-1 - chunk) % 4
                                    : chunk % 64 / 16;
  firstOfFour = chunk < 0 ? -1 - (-1 - chunk) / 4 : chunk - 16 * vectorOfFour;
  if (chunk == -1)
    drawnOfFour.clear();
}

int64_t ElementEmitter::Window::togetherBytes(int64_t count) const {
  if (count <= 1 || columnStride != 1)
    return 0;
  // What an instruction of a GPU moves at most.
  constexpr int64_t most = 16;
  int64_t ofElement = elementBytes(view.element);
  int64_t bytes = std::min(count * ofElement, most);
  bool isAligned =
      alignment % bytes == 0 && llvm::all_of(leading, [&](auto axis) {
        return axis.second * ofElement % bytes == 0;
      });
  return isAligned ? bytes : 0;
}

bool ElementEmitter::hasTiles(LaunchOp launch, int64_t count) {
  Domain domain = launch.getDomain();
  auto fits = [&](BlockArgument argument) {
    unsigned number = argument.getArgNumber();
    Window window = makeWindow(domain, Value(),
                               viewOf(cast<MemRefType>(argument.getType())),
                               launch.getAccessOf(number));
    window.alignment = tfm::alignmentOf(launch->getOperand(number));
    return !window.perElement &&
           (window.columnStride == 0 || window.togetherBytes(count) != 0);
  };
  return domain.cols >= count && llvm::all_of(launch.getReadArgs(), fits) &&
         llvm::all_of(launch.getWriteArgs(), fits);
}

bool ElementEmitter::isTiled(const Window &window) const {
  return rowsSideBySide ? window.isTurned()
                        : k.lanes == 1 && window.togetherBytes(tileCount) != 0;
}

void ElementEmitter::beginTile(Value newColumn, int64_t count) {
  tileColumn = newColumn;
  tileCount = count;
  loadedTiles.clear();
}

void ElementEmitter::loadTiles() {
  for (void *key : readOrder)
    if (const Window &window = reads.at(key); isTiled(window))
      loadedTiles[&window] = loadTile(window);
}

void ElementEmitter::beginColumn(int64_t number, Value newMask, Operation *loop,
                                 int64_t chunk) {
  tileNumber = number;
  beginColumns(k.add(tileColumn, number), newMask, chunk, loop);
}

void ElementEmitter::endTile() {
  for (auto &[window, columns] : tilesToStore)
    storeTile(*window, columns);
  tilesToStore.clear();
}

void ElementEmitter::provide(Value value, Value vector) {
  (*columnValues)[value] = vector;
}
void ElementEmitter::provideScalar(Value value, Value scalarValue) {
  rowValues[value] = scalarValue;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Type ElementEmitter::typeOf(Type element, bool vector) const {
  return vector || rowsSideBySide ? k.registerOf(element) : element;
}

Value ElementEmitter::repeated(Value ofRow) {
  return rowsSideBySide ? ofRow : k.broadcast(ofRow);
}

/// `element`, in a vector where `like` is one.
static Type withElement(Type element, Value like) {
  auto vector = dyn_cast<VectorType>(like.getType());
  return vector ? vector.clone(element) : element;
}

Value ElementEmitter::toMemory(Value value, Type element) {
  Type stored = withElement(memoryType(element), value);
  if (element.isInteger(1))
    return arith::ExtUIOp::create(k.b, k.loc, stored, value);
  if (element.isBF16())
    return arith::BitcastOp::create(k.b, k.loc, stored, value);
  return value;
}

Value ElementEmitter::fromMemory(Value value, Type element) {
  if (element.isBF16())
    return arith::BitcastOp::create(k.b, k.loc, withElement(element, value),
                                    value);
  if (!element.isInteger(1))
    return value;
  Value zero =
      arith::ConstantOp::create(k.b, k.loc, k.b.getZeroAttr(value.getType()));
  return arith::CmpIOp::create(k.b, k.loc, arith::CmpIPredicate::ne, value,
                               zero);
}

static Value address(KernelBuilder &k, Value pointer, Type element,
                     Value offset) {
  Type stored = memoryType(element);
  Type result = k.ptrType;
  if (auto vector = dyn_cast<VectorType>(offset.getType()))
    result = VectorType::get(vector.getShape(), k.ptrType);
  return LLVM::GEPOp::create(k.b, k.loc, result, stored, pointer,
                             ValueRange{offset});
}

static unsigned elementAlignment(Type element) {
  return static_cast<unsigned>(elementBytes(element));
}

Value ElementEmitter::rowOffset(const Window &window) {
  auto it = rowOffsets.find(&window);
  if (it != rowOffsets.end())
    return it->second;
  OpBuilder::InsertionGuard guard(k.b);
  if (columnLoop)
    k.b.setInsertionPoint(columnLoop);
  Value offset = k.i64(0);
  if (window.leading.size() == 1) {
    offset = k.mul(row, window.leading.front().second);
  } else {
    Value rest = row;
    for (size_t i = window.leading.size(); i-- > 0;) {
      auto [size, stride] = window.leading[i];
      Value index = i == 0 ? rest : k.rem(rest, k.i64(size));
      if (stride != 0)
        offset = k.add(offset, k.mul(index, stride));
      if (i != 0)
        rest = k.div(rest, size);
    }
  }
  return rowOffsets[&window] = offset;
}

/// Numbers of the current columns within their row, i64.
Value ElementEmitter::columnNumbers() {
  if (k.lanes == 1)
    return column;
  auto type = VectorType::get({k.lanes}, k.i64Type);
  SmallVector<int64_t> numbers(k.lanes);
  for (int64_t i = 0; i < k.lanes; ++i)
    numbers[i] = i;
  Value iota = arith::ConstantOp::create(
      k.b, k.loc, DenseElementsAttr::get(type, ArrayRef<int64_t>(numbers)));
  return k.add(vector::BroadcastOp::create(k.b, k.loc, type, column), iota);
}

/// Offsets of single elements of a view that no stride can walk.
Value ElementEmitter::elementIndex(const Window &window) {
  Value first = k.mul(row, domain.cols);
  Value rest = k.add(columnNumbers(), k.broadcast(first));
  Value offset = k.broadcast(0);
  for (size_t i = window.view.shape.size(); i-- > 0;) {
    Value size = k.broadcast(window.view.shape[i]);
    Value index = arith::RemUIOp::create(k.b, k.loc, rest, size);
    offset = k.add(offset, k.mul(index, k.broadcast(window.view.strides[i])));
    rest = arith::DivUIOp::create(k.b, k.loc, rest, size);
  }
  return offset;
}

/// What a thread loads is its own: others may write what is not.
Value ElementEmitter::loadOne(Value pointer, Type type, int64_t alignment) {
  auto load = [&](OpBuilder &b) -> Value {
    return LLVM::LoadOp::create(b, k.loc, type, pointer,
                                static_cast<unsigned>(alignment));
  };
  if (!mask)
    return load(k.b);
  auto choice = scf::IfOp::create(
      k.b, k.loc, mask,
      [&](OpBuilder &b, Location loc) {
        scf::YieldOp::create(b, loc, load(b));
      },
      [&](OpBuilder &b, Location loc) {
        Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
        scf::YieldOp::create(b, loc, zero);
      });
  return choice.getResult(0);
}

/// `lanes` elements from `offset`, `stride` apart.
Value ElementEmitter::loadAt(const Window &window, Value offset,
                             int64_t stride) {
  Type element = window.view.element;
  unsigned alignment = elementAlignment(element);
  if (k.lanes == 1)
    return fromMemory(loadOne(address(k, window.pointer, element, offset),
                              memoryType(element), alignment),
                      element);
  auto type = VectorType::get({k.lanes}, memoryType(element));
  if (stride == 1) {
    Value pointer = address(k, window.pointer, element, offset);
    if (!mask)
      return fromMemory(
          LLVM::LoadOp::create(k.b, k.loc, type, pointer, alignment), element);
    Value zero = arith::ConstantOp::create(k.b, k.loc, k.b.getZeroAttr(type));
    return fromMemory(LLVM::MaskedLoadOp::create(k.b, k.loc, type, pointer,
                                                 mask, zero, alignment),
                      element);
  }
  auto indexType = VectorType::get({k.lanes}, k.i64Type);
  Value offsets = offset;
  if (!isa<VectorType>(offset.getType())) {
    SmallVector<int64_t> steps(k.lanes);
    for (int64_t i = 0; i < k.lanes; ++i)
      steps[i] = i * stride;
    Value iota = arith::ConstantOp::create(
        k.b, k.loc,
        DenseElementsAttr::get(indexType, ArrayRef<int64_t>(steps)));
    offsets =
        k.add(vector::BroadcastOp::create(k.b, k.loc, indexType, offset), iota);
  }
  Value all = mask;
  if (!all)
    all = arith::ConstantOp::create(k.b, k.loc,
                                    DenseElementsAttr::get(k.maskType, true));
  Value zero = arith::ConstantOp::create(k.b, k.loc, k.b.getZeroAttr(type));
  Value pointers = address(k, window.pointer, element, offsets);
  return fromMemory(LLVM::masked_gather::create(k.b, k.loc, type, pointers, all,
                                                ValueRange{zero}, alignment),
                    element);
}

Value ElementEmitter::loadFull(const Window &window) {
  if (window.perElement)
    return loadAt(window, elementIndex(window), 0);
  if (window.columnStride == 0)
    return repeated(loadRowScalar(window));
  if (isTiled(window)) {
    auto &tile = loadedTiles[&window];
    if (tile.empty())
      tile = loadTile(window);
    return tile[tileNumber];
  }
  Value offset = k.add(rowOffset(window), k.mul(column, window.columnStride));
  if (!rowsSideBySide)
    return loadAt(window, offset, window.columnStride);
  if (window.rowStride() != 0)
    return loadAt(window, offset, window.rowStride());
  Type element = window.view.element;
  return k.broadcast(fromMemory(
      LLVM::LoadOp::create(k.b, k.loc, memoryType(element),
                           address(k, window.pointer, element, offset),
                           elementAlignment(element)),
      element));
}

void ElementEmitter::forEachTile(
    llvm::function_ref<void(Value, int64_t)> visit) {
  for (void *key : readOrder)
    if (const Window &window = reads.at(key);
        isTiled(window) && window.rowStride() != 0) {
      Type element = window.view.element;
      visit(address(k, window.pointer, element,
                    k.add(rowOffset(window), tileColumn)),
            tileCount * elementBytes(element));
    }
}

void ElementEmitter::forEachStream(
    llvm::function_ref<void(Value, int64_t, int64_t)> visit) {
  auto go = [&](const Window &window) {
    if (!window.isTurned() || window.rowStride() < domain.cols)
      return;
    Type element = window.view.element;
    visit(address(k, window.pointer, element, k.add(rowOffset(window), column)),
          elementBytes(element), window.rowStride());
  };
  for (void *key : readOrder)
    go(reads.at(key));
  for (const Window &window : writes)
    if (!window.inPlace)
      go(window);
}

std::pair<Value, Value> ElementEmitter::tileRow(const Window &window,
                                                int64_t lane) {
  Type element = window.view.element;
  Value offset =
      k.add(k.add(rowOffset(window), tileColumn), lane * window.rowStride());
  Value columns;
  if (tileCount < k.lanes)
    columns = k.maskOf(k.i64(tileCount));
  if (mask) {
    Value exists =
        k.broadcast(Value(vector::ExtractOp::create(k.b, k.loc, mask, lane)));
    columns = columns
                  ? Value(arith::AndIOp::create(k.b, k.loc, columns, exists))
                  : exists;
  }
  return {address(k, window.pointer, element, offset), columns};
}

SmallVector<Value> ElementEmitter::loadTile(const Window &window) {
  Type element = window.view.element;
  if (k.lanes == 1) {
    Type stored = memoryType(element);
    Value pointer = address(k, window.pointer, element,
                            k.add(rowOffset(window), tileColumn));
    auto load = [&](int64_t count, Type type) {
      return loadOne(pointer, VectorType::get({count}, type),
                     window.togetherBytes(tileCount));
    };
    auto extract = [&](Value vector, int64_t i) -> Value {
      return LLVM::ExtractElementOp::create(k.b, k.loc, vector, k.i64(i));
    };
    SmallVector<Value> columns;
    if (stored.isInteger(16)) {
      // As words: from a half of one an instruction makes an f32, from a
      // register of 16 bits two.
      Value words = load(tileCount / 2, k.b.getI32Type());
      Value half = arith::ConstantIntOp::create(k.b, k.loc, k.b.getI32Type(),
                                                /*value=*/16);
      for (int64_t i = 0; i != tileCount; ++i) {
        Value word = extract(words, i / 2);
        if (i % 2 == 1)
          word = arith::ShRUIOp::create(k.b, k.loc, word, half);
        columns.push_back(fromMemory(
            arith::TruncIOp::create(k.b, k.loc, stored, word), element));
      }
      return columns;
    }
    Value loaded = load(tileCount, stored);
    for (int64_t i = 0; i != tileCount; ++i)
      columns.push_back(fromMemory(extract(loaded, i), element));
    return columns;
  }
  VectorType type = k.vecType.clone(memoryType(element));
  SmallVector<Value> rows;
  for (int64_t lane = 0; lane < k.lanes; ++lane) {
    auto [pointer, columns] = tileRow(window, lane);
    rows.push_back(k.loadAs(type, pointer, columns));
  }
  k.transpose(rows);
  for (Value &column : rows)
    column = fromMemory(column, element);
  return rows;
}

void ElementEmitter::storeTile(const Window &window, ArrayRef<Value> columns) {
  if (k.lanes == 1) {
    Type element = window.view.element;
    Value vector = LLVM::PoisonOp::create(
        k.b, k.loc, VectorType::get({tileCount}, memoryType(element)));
    for (auto [i, column] : llvm::enumerate(columns))
      vector = LLVM::InsertElementOp::create(k.b, k.loc, vector, column,
                                             k.i64(static_cast<int64_t>(i)));
    Value pointer = address(k, window.pointer, element,
                            k.add(rowOffset(window), tileColumn));
    return storeOne(pointer, vector, window.togetherBytes(tileCount));
  }
  SmallVector<Value> rows(columns);
  std::fill(rows.begin() + tileCount, rows.end(), columns.front());
  k.transpose(rows);
  for (auto [lane, row] : llvm::enumerate(rows)) {
    auto [pointer, columns] = tileRow(window, static_cast<int64_t>(lane));
    k.store(row, pointer, columns);
  }
}

Value ElementEmitter::loadRowScalar(const Window &window) {
  OpBuilder::InsertionGuard guard(k.b);
  Value offset = rowOffset(window);
  if (columnLoop)
    k.b.setInsertionPoint(columnLoop);
  Type element = window.view.element;
  if (rowsSideBySide && window.rowStride() != 0)
    return loadAt(window, offset, window.rowStride());
  Value pointer = address(k, window.pointer, element, offset);
  Value one =
      fromMemory(LLVM::LoadOp::create(k.b, k.loc, memoryType(element), pointer,
                                      elementAlignment(element)),
                 element);
  return rowsSideBySide ? k.broadcast(one) : one;
}

void ElementEmitter::store(unsigned index, Value vector) {
  const Window &window = writes[index];
  vector = toMemory(vector, window.view.element);
  if (window.perElement)
    return storeAt(window, elementIndex(window), /*stride=*/0, vector);
  if (isTiled(window)) {
    auto &tile = tilesToStore[&window];
    tile.resize(k.lanes == 1 ? tileCount : k.lanes);
    tile[tileNumber] = vector;
    return;
  }
  Value offset = rowOffset(window);
  if (domain.cols != 1)
    offset = k.add(offset, k.mul(column, window.columnStride));
  storeAt(window, offset,
          rowsSideBySide     ? window.rowStride()
          : domain.cols == 1 ? 1
                             : window.columnStride,
          vector);
}

/// Stores `lanes` elements, `stride` apart from `offset` on, or at each of the
/// `offset`s.
void ElementEmitter::storeAt(const Window &window, Value offset, int64_t stride,
                             Value vector) {
  Type element = window.view.element;
  unsigned alignment = elementAlignment(element);
  if (k.lanes == 1)
    return storeOne(address(k, window.pointer, element, offset), vector,
                    alignment);
  Value offsets = offset;
  if (!isa<VectorType>(offset.getType())) {
    if (stride == 1) {
      Value pointer = address(k, window.pointer, element, offset);
      if (mask)
        LLVM::MaskedStoreOp::create(k.b, k.loc, vector, pointer, mask,
                                    alignment);
      else
        LLVM::StoreOp::create(k.b, k.loc, vector, pointer, alignment);
      return;
    }
    auto type = VectorType::get({k.lanes}, k.i64Type);
    SmallVector<int64_t> steps(k.lanes);
    for (int64_t i = 0; i < k.lanes; ++i)
      steps[i] = i * stride;
    Value iota = arith::ConstantOp::create(
        k.b, k.loc, DenseElementsAttr::get(type, ArrayRef<int64_t>(steps)));
    offsets =
        k.add(vector::BroadcastOp::create(k.b, k.loc, type, offset), iota);
  }
  Value all = mask;
  if (!all)
    all = arith::ConstantOp::create(k.b, k.loc,
                                    DenseElementsAttr::get(k.maskType, true));
  LLVM::masked_scatter::create(k.b, k.loc, vector,
                               address(k, window.pointer, element, offsets),
                               all, alignment);
}

void ElementEmitter::storeOne(Value pointer, Value value, int64_t alignment) {
  auto store = [&] {
    LLVM::StoreOp::create(k.b, k.loc, value, pointer,
                          static_cast<unsigned>(alignment));
  };
  if (mask)
    k.ifThen(mask, store);
  else
    store();
}

void ElementEmitter::storeScalar(unsigned index, Value scalarValue) {
  const Window &window = writes[index];
  Type element = window.view.element;
  if (rowsSideBySide)
    return storeAt(window, rowOffset(window), window.rowStride(),
                   toMemory(scalarValue, element));
  LLVM::StoreOp::create(k.b, k.loc, toMemory(scalarValue, element),
                        address(k, window.pointer, element, rowOffset(window)),
                        elementAlignment(element));
}

Value ElementEmitter::masked(Value vector, double other) {
  if (!mask)
    return vector;
  return arith::SelectOp::create(k.b, k.loc, mask, vector, k.splat(other));
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Value ElementEmitter::constant(DenseElementsAttr value, bool vector) {
  Type type = typeOf(value.getElementType(), vector);
  Attribute one = value.getSplatValue<Attribute>();
  if (auto vectorType = dyn_cast<VectorType>(type))
    one = DenseElementsAttr::get(vectorType, one);
  return arith::ConstantOp::create(k.b, k.loc, cast<TypedAttr>(one));
}

Value ElementEmitter::number(TypedAttr value) {
  if (auto type = dyn_cast<VectorType>(typeOf(value.getType(), true)))
    value = DenseElementsAttr::get(type, Attribute(value));
  return arith::ConstantOp::create(k.b, k.loc, value);
}

/// The index along `axis` of a tensor at the current point, i32.
Value ElementEmitter::indexAlong(RankedTensorType type, int64_t axis,
                                 bool vector) {
  int64_t inner = 1;
  for (int64_t size : type.getShape().drop_front(axis + 1))
    inner *= size;
  int64_t size = type.getDimSize(axis);
  bool lastIsColumn = vector && type.getShape().back() == domain.cols;
  if (rowsSideBySide)
    return k.broadcast(
        Value(arith::TruncIOp::create(k.b, k.loc, k.b.getI32Type(), column)));
  if (!vector || (lastIsColumn && axis != type.getRank() - 1)) {
    // Constant within the row.
    if (vector)
      inner /= domain.cols;
    Value index = k.rem(k.div(row, inner), k.i64(size));
    Value narrow = arith::TruncIOp::create(k.b, k.loc, k.b.getI32Type(), index);
    return vector ? k.broadcast(narrow) : narrow;
  }
  Value numbers = columnNumbers();
  if (!lastIsColumn) {
    Value first = k.broadcast(k.mul(row, domain.cols));
    numbers = arith::DivUIOp::create(k.b, k.loc, k.add(numbers, first),
                                     k.broadcast(inner));
    numbers = arith::RemUIOp::create(k.b, k.loc, numbers, k.broadcast(size));
  }
  return arith::TruncIOp::create(k.b, k.loc, typeOf(k.b.getI32Type(), true),
                                 numbers);
}

/// An index tensor along its own axis.
Value ElementEmitter::index(Operation *op, bool vector) {
  return indexAlong(tensorType(op->getResult(0)), cast<IotaOp>(op).getAxis(),
                    vector);
}

Value ElementEmitter::gatherRow(Operation *op) {
  auto gather = cast<GatherOp>(op);
  Value id =
      arith::ExtSIOp::create(k.b, k.loc, k.i64Type, scalar(gather.getIds()));
  if (auto weights = gather.getTable().getDefiningOp<DequantiseOp>())
    return dequantiseRow(weights, id);
  if (auto weights = gather.getTable().getDefiningOp<UnpackOp>())
    return unpackRow(weights, id);
  const Window &table = reads.at(gather.getTable().getAsOpaquePointer());
  Value offset = k.mul(id, table.view.strides.front());
  int64_t stride = table.view.shape.size() > 1 ? table.view.strides.back() : 1;
  return loadAt(table, k.add(offset, k.mul(column, stride)), stride);
}

Value ElementEmitter::dequantiseRow(DequantiseOp op, Value number) {
  // A vector begins at a multiple of its lanes, and so lies within a half of a
  // group.
  auto at = [&](Value operand, Value column) {
    const Window &window = reads.at(operand.getAsOpaquePointer());
    Type element = window.view.element;
    Value offset = k.add(k.mul(number, window.view.strides.front()), column);
    return k.at(window.pointer, offset, element);
  };
  constexpr int64_t half = DequantiseOp::groupBytes;
  Value group = k.div(column, DequantiseOp::groupTerms);
  Value inHalf = k.rem(column, k.i64(half));
  Value isHigh = k.rem(k.div(column, half), k.i64(2));
  Value bytes = loadBytes(k, at(op.getQ(), k.add(k.mul(group, half), inHalf)));
  auto table = [&](Value operand) {
    return k.splat(loadBf16(k, at(operand, group)));
  };
  return k.fma(integersOfHalf(k, bytes, isHigh), table(op.getScale()),
               table(op.getMinimum()));
}

Value ElementEmitter::unpackRow(UnpackOp op, Value number) {
  // A vector begins at a multiple of its lanes, and so of the terms that lie
  // together.
  constexpr int64_t together = UnpackOp::termsTogether;
  const Window &panels = reads.at(op.getPanels().getAsOpaquePointer());
  ArrayRef<int64_t> strides = panels.view.strides;
  Value outputs = k.i64(op.getPanelOutputs());
  Value row = k.add(k.mul(k.div(number, outputs), strides[0]),
                    k.mul(k.rem(number, outputs), strides[2]));
  Value offset = k.add(row, k.mul(k.div(column, together), strides[1]));
  if (k.lanes == 1) {
    offset = k.add(offset, k.rem(column, k.i64(together)));
  } else {
    SmallVector<int64_t> steps;
    for (int64_t lane = 0; lane < k.lanes; ++lane)
      steps.push_back(lane / together * strides[1] + lane % together);
    auto type = VectorType::get({k.lanes}, k.i64Type);
    offset = k.add(vector::BroadcastOp::create(k.b, k.loc, type, offset),
                   arith::ConstantOp::create(
                       k.b, k.loc,
                       DenseElementsAttr::get(type, ArrayRef<int64_t>(steps))));
  }
  Value bytes = loadAt(panels, offset, /*stride=*/0);
  auto signs = k.broadcast(
      arith::ConstantIntOp::create(k.b, k.loc, k.b.getI8Type(), -128));
  return arith::XOrIOp::create(k.b, k.loc, bytes, signs);
}

Value ElementEmitter::drawn(
    Operation *op, function_ref<Value()> one,
    function_ref<SmallVector<Value>(Value, Value)> four) {
  if (k.lanes == 1)
    return one();
  auto draw = [&] { return four(k.toIndex(row), k.toIndex(column)); };
  if (vectorOfFour >= 0) {
    SmallVector<Value> &parts = drawnOfFour[{op, firstOfFour}];
    if (parts.empty())
      parts = draw();
    return parts[vectorOfFour];
  }
  SmallVector<Value> parts = draw();
  Value number = k.div(k.rem(column, k.i64(64)), 16);
  Value found = parts[0];
  for (size_t i = 1; i < parts.size(); ++i)
    found = k.select(k.equal(number, k.i64(i)), parts[i], found);
  return found;
}

Value ElementEmitter::layerOf(Value layer) {
  return layer ? arguments.layer : k.toIndex(k.i64(0));
}

Value ElementEmitter::dropout(Operation *op) {
  auto dropout = cast<DropoutOp>(op);
  double rate = dropout.getRate().convertToDouble();
  Value x = full(dropout.getX());
  auto key = [&] {
    return dropoutKey(k.b, k.loc, arguments.rng, layerOf(dropout.getLayer()),
                      dropout.getSite(), rate, microSteps);
  };
  Value keep = drawn(
      op, [&] { return dropoutKeep(k.b, k.loc, key(), row, column); },
      [&](Value row, Value column) {
        return dropoutKeepVectors(k.b, k.loc, key(), row, column, k.lanes);
      });
  Value scaled = k.mulf(x, k.splat(1.0 / (1.0 - rate)));
  return arith::SelectOp::create(k.b, k.loc, keep, scaled, k.splat(0.0));
}

Value ElementEmitter::uniform(Operation *op) {
  auto uniform = cast<UniformOp>(op);
  auto key = [&] {
    return randomKey(k.b, k.loc, arguments.rng, layerOf(uniform.getLayer()),
                     uniform.getSite(), microSteps);
  };
  Value words = drawn(
      op, [&] { return randomWord(k.b, k.loc, key(), row, column); },
      [&](Value row, Value column) {
        return randomWordVectors(k.b, k.loc, key(), row, column, k.lanes);
      });
  return unitOf(k.b, k.loc, words);
}

Value ElementEmitter::compute(Operation *op, bool vector) {
  if (vector) {
    if (isa<GatherOp>(op))
      return gatherRow(op);
    if (isa<DropoutOp>(op))
      return dropout(op);
    if (isa<UniformOp>(op))
      return uniform(op);
  }
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(vector ? full(operand) : scalar(operand));
  Type element = tensorType(op->getResult(0)).getElementType();
  return emitElementwise(k, op, operands, typeOf(element, vector));
}

Value ElementEmitter::full(Value value) {
  if (Value known = columnValues->lookup(value))
    return known;
  auto remember = [&](Value result) { return (*columnValues)[value] = result; };
  Operation *op = value.getDefiningOp();
  // A row's scalar in a place for a vector.
  if (Value known = rowValues.lookup(value))
    return remember(repeated(known));
  if (auto it = reads.find(value.getAsOpaquePointer()); it != reads.end())
    return remember(loadFull(it->second));
  if (auto constantOp = dyn_cast<ConstantOp>(op))
    return remember(
        constant(cast<DenseElementsAttr>(constantOp.getValue()), true));
  if (isa<IotaOp>(op))
    return remember(index(op, /*vector=*/true));
  // Views in a kernel rename points, or repeat the scalar of a row.
  if (isa<ReshapeOp>(op))
    return remember(full(op->getOperand(0)));
  if (isa<BroadcastOp>(op))
    return remember(repeated(scalar(op->getOperand(0))));
  return remember(compute(op, /*vector=*/true));
}

Value ElementEmitter::scalar(Value value) {
  if (Value known = rowValues.lookup(value))
    return known;
  OpBuilder::InsertionGuard guard(k.b);
  if (columnLoop)
    k.b.setInsertionPoint(columnLoop);
  auto remember = [&](Value result) { return rowValues[value] = result; };
  Operation *op = value.getDefiningOp();
  if (auto it = reads.find(value.getAsOpaquePointer()); it != reads.end())
    return remember(loadRowScalar(it->second));
  if (auto constantOp = dyn_cast<ConstantOp>(op))
    return remember(
        constant(cast<DenseElementsAttr>(constantOp.getValue()), false));
  if (isa<IotaOp>(op))
    return remember(index(op, /*vector=*/false));
  if (isa<ReshapeOp>(op))
    return remember(scalar(op->getOperand(0)));
  return remember(compute(op, /*vector=*/false));
}
