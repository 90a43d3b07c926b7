//===- TileKernel.cpp - products on AMX tiles -----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/TileKernel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace tfm;

std::array<uint8_t, 64> tfm::tileConfiguration() {
  std::array<uint8_t, 64> bytes{};
  bytes[0] = 1; // the palette: eight tiles of a kilobyte
  for (int tile = 0; tile < 8; ++tile) {
    bytes[16 + 2 * tile] = 4 * tileSide; // bytes of a row, 16 bits
    bytes[48 + tile] = tileSide;         // rows
  }
  return bytes;
}

void Tiles::zero(int64_t tile) { call("tilezero", {number(tile)}); }

void Tiles::load(int64_t tile, Value ptr, Value stride) {
  call("tileloadd64", {number(tile), ptr, kb.mul(stride, 4)});
}

void Tiles::stream(int64_t tile, Value ptr, Value stride) {
  call("tileloaddt164", {number(tile), ptr, kb.mul(stride, 4)});
}

void Tiles::store(int64_t tile, Value ptr, Value stride) {
  call("tilestored64", {number(tile), ptr, kb.mul(stride, 4)});
}

void Tiles::multiplyAdd(Terms terms, int64_t sum, int64_t a, int64_t b) {
  assert(terms == Terms::Bf16Tiles || terms == Terms::I8Quads);
  call(terms == Terms::Bf16Tiles ? "tdpbf16ps" : "tdpbsud",
       {number(sum), number(a), number(b)});
}

Value Tiles::number(int64_t tile) {
  return LLVM::ConstantOp::create(kb.b, kb.loc, kb.b.getI8IntegerAttr(tile));
}

void Tiles::call(StringRef name, ValueRange operands) {
  LLVM::CallIntrinsicOp::create(
      kb.b, kb.loc, kb.b.getStringAttr("llvm.x86." + name), operands);
}

void tfm::multiplyTiles(KernelBuilder &kb, const TileShape &shape,
                        const TileOperands &operands,
                        function_ref<void(Value, Value)> beside) {
  const int64_t rowTiles = shape.rowTiles, columnTiles = shape.columnTiles;
  using Passing = TileShape::Passing;
  Tiles tiles(kb);
  auto load = [&](Passing operand, int64_t tile, Value at, Value stride) {
    shape.passing == operand ? tiles.stream(tile, at, stride)
                             : tiles.load(tile, at, stride);
  };
  auto sum = [&](int64_t row, int64_t column) {
    return row * columnTiles + column;
  };
  constexpr int64_t firstA = 4, firstB = 6;
  auto overSums = [&](function_ref<void(int64_t, Value)> visit) {
    for (int64_t row = 0; row < rowTiles; ++row)
      for (int64_t column = 0; column < columnTiles; ++column)
        visit(sum(row, column),
              kb.at(kb.at(operands.c, kb.mul(operands.cStride, row * tileSide)),
                    column * tileSide));
  };
  kb.ifThen(
      operands.accumulate,
      [&] {
        overSums([&](int64_t tile, Value at) {
          tiles.load(tile, at, operands.cStride);
        });
      },
      [&] { overSums([&](int64_t tile, Value) { tiles.zero(tile); }); });
  kb.loop(kb.i64(0), operands.steps, 1, {operands.a, operands.b},
          [&](Value step, ValueRange at) {
            auto loadB = [&](int64_t column) {
              load(Passing::B, firstB + column,
                   column == 0 ? at[1] : kb.at(at[1], operands.bColumns),
                   operands.bStride);
            };
            // The first column multiplies while the others are on their way.
            loadB(0);
            for (int64_t row = 0; row < rowTiles; ++row)
              load(Passing::A, firstA + row,
                   kb.at(at[0], kb.mul(operands.aStride, row * tileSide)),
                   operands.aStride);
            for (int64_t column = 1; column < columnTiles; ++column)
              loadB(column);
            for (int64_t column = 0; column < columnTiles; ++column)
              for (int64_t row = 0; row < rowTiles; ++row)
                tiles.multiplyAdd(shape.terms, sum(row, column), firstA + row,
                                  firstB + column);
            if (beside)
              beside(step, at[1]);
            return SmallVector<Value>{kb.at(at[0], operands.aStep),
                                      kb.at(at[1], operands.bStep)};
          });
  overSums(
      [&](int64_t tile, Value at) { tiles.store(tile, at, operands.cStride); });
}

func::FuncOp tfm::tileKernel(KernelBuilder &kb, int64_t rowTiles,
                             int64_t columnTiles) {
  SmallVector<Type> types{kb.ptrType, kb.ptrType, kb.ptrType,
                          kb.i64Type, kb.i64Type, kb.b.getI1Type()};
  std::string name =
      ("tfm.tiles." + Twine(rowTiles) + "x" + Twine(columnTiles)).str();
  return kb.sharedFunction(
      name, types, [&](KernelBuilder &kb, ValueRange args) {
        int64_t rowSlots = columnTiles * tileSide;
        TileOperands operands;
        operands.a = args[0];
        operands.aStride = kb.i64(tileSide);
        operands.aStep = kb.i64(rowTiles * tileSide * tileSide);
        operands.b = args[1];
        operands.bStride = kb.i64(rowSlots);
        operands.bStep = kb.i64(rowSlots * tileSide);
        operands.bColumns = kb.i64(tileSide);
        operands.c = args[2];
        operands.cStride = args[3];
        operands.steps = args[4];
        operands.accumulate = args[5];
        multiplyTiles(kb, {rowTiles, columnTiles}, operands);
      });
}

/// The function `name` with the arguments of `packTileRows`, that packs a step
/// at a time: `step` gets where its elements lie, where its slots go, its rows,
/// from one row or k to the next, and how many elements along k there are, null
/// where there are enough; `advance` is from its first element to the next
/// one's.
static func::FuncOp
packSteps(KernelBuilder &kb, const std::string &name, Type element,
          llvm::function_ref<Value(KernelBuilder &, Value stride)> advance,
          llvm::function_ref<void(KernelBuilder &, Value at, Value to,
                                  Value rows, Value stride, Value rest)>
              step) {
  assert(kb.lanes == tileSide && "machines with tiles have vectors as wide");
  SmallVector<Type> types{kb.ptrType, kb.i64Type, kb.i64Type,
                          kb.i64Type, kb.ptrType, kb.i64Type};
  return kb.sharedFunction(
      name, types, [&](KernelBuilder &kb, ValueRange args) {
        Value source = args[0], stride = args[1], k = args[2], rows = args[3],
              panel = args[4], stepLength = args[5];
        Value rest = kb.rem(k, kb.i64(tileDepth));
        Value next = advance(kb, stride);
        SmallVector<Value> end =
            kb.loop(kb.i64(0), kb.sub(k, rest), tileDepth, {source, panel},
                    [&](Value, ValueRange at) {
                      step(kb, at[0], at[1], rows, stride, Value());
                      return SmallVector<Value>{kb.at(at[0], next, element),
                                                kb.at(at[1], stepLength)};
                    });
        kb.ifThen(kb.less(kb.i64(0), rest),
                  [&] { step(kb, end[0], end[1], rows, stride, rest); });
      });
}

func::FuncOp tfm::packTileRows(KernelBuilder &kb, Packing packing) {
  Type element = packing.element(kb);
  auto elements = VectorType::get({tileDepth}, element);
  return packSteps(
      kb, std::string("tfm.pack.tile.rows") + packing.fromName(), element,
      [](KernelBuilder &kb, Value) { return kb.i64(tileDepth); },
      [&](KernelBuilder &kb, Value at, Value to, Value rows, Value stride,
          Value rest) {
        Value last = kb.sub(rows, kb.i64(1));
        Value mask = rest ? kb.maskOf(rest, tileDepth) : Value();
        for (int64_t row = 0; row < tileSide; ++row) {
          Value from =
              kb.at(at, kb.mul(kb.min(kb.i64(row), last), stride), element);
          Value pairs = kb.toBf16(kb.loadAs(elements, from, mask));
          kb.store(LLVM::BitcastOp::create(kb.b, kb.loc, kb.vecType, pairs),
                   kb.at(to, row * tileSide));
        }
      });
}

func::FuncOp tfm::packTileColumns(KernelBuilder &kb, Packing packing) {
  Type element = packing.element(kb);
  auto elements = VectorType::get({tileSide}, element);
  SmallVector<int64_t> interleaved;
  for (int64_t i = 0; i < tileSide; ++i)
    interleaved.append({i, tileSide + i});
  return packSteps(
      kb, std::string("tfm.pack.tile.columns") + packing.fromName(), element,
      [](KernelBuilder &kb, Value stride) { return kb.mul(stride, tileDepth); },
      [&](KernelBuilder &kb, Value at, Value to, Value rows, Value stride,
          Value rest) {
        kb.loop(kb.i64(0), rows, tileSide, [&](Value first) {
          Value columns = kb.maskOf(kb.sub(rows, first));
          SmallVector<Value> slots;
          Value from = kb.at(at, first, element);
          for (int64_t pair = 0; pair < tileSide; ++pair) {
            Value both[2];
            for (int64_t i : {0, 1}) {
              Value mask = columns;
              if (rest)
                mask = kb.select(kb.less(kb.i64(2 * pair + i), rest), columns,
                                 kb.maskOf(kb.i64(0)));
              both[i] = kb.toBf16(kb.loadAs(elements, from, mask));
              from = kb.at(from, stride, element);
            }
            slots.push_back(LLVM::BitcastOp::create(
                kb.b, kb.loc, kb.vecType,
                kb.shuffle(both[0], both[1], interleaved)));
          }
          kb.transpose(slots);
          for (auto [row, vector] : llvm::enumerate(slots))
            kb.store(vector,
                     kb.at(to, kb.mul(kb.add(first, static_cast<int64_t>(row)),
                                      tileSide)));
        });
      });
}

static Value zeros(KernelBuilder &kb, Type type) {
  return arith::ConstantOp::create(kb.b, kb.loc, kb.b.getZeroAttr(type));
}

func::FuncOp tfm::packTilePairs(KernelBuilder &kb, Packing packing) {
  SmallVector<Type> types{kb.ptrType, kb.i64Type, kb.i64Type, kb.i64Type,
                          kb.ptrType, kb.i64Type, kb.i64Type, kb.i64Type};
  Type element = packing.element(kb);
  constexpr int64_t width = 2 * tileSide;
  auto elements = VectorType::get({width}, element);
  SmallVector<int64_t> halves[2];
  for (int64_t half : {0, 1})
    for (int64_t i = 0; i < tileSide; ++i)
      halves[half].append({half * tileSide + i, width + half * tileSide + i});
  return kb.sharedFunction(
      std::string("tfm.pack.tile.pairs") + packing.fromName(), types,
      [&](KernelBuilder &kb, ValueRange args) {
        Value source = args[0], stride = args[1], k = args[2],
              columns = args[3], panel = args[4], half = args[5],
              panels = args[6], panelLength = args[7];
        auto copy = [&](Value mask) {
          auto pairs = [&](ValueRange row, bool below) {
            kb.loop(kb.i64(0), panels, 1, row, [&](Value, ValueRange at) {
              Value x = kb.toBf16(kb.loadAs(elements, at[0], mask));
              Value from = kb.at(at[0], stride, element);
              Value y = below ? kb.toBf16(kb.loadAs(elements, from, mask))
                              : zeros(kb, x.getType());
              for (int64_t i : {0, 1})
                kb.store(LLVM::BitcastOp::create(kb.b, kb.loc, kb.vecType,
                                                 kb.shuffle(x, y, halves[i])),
                         i == 0 ? at[1] : kb.at(at[1], half));
              return SmallVector<Value>{kb.at(at[0], width, element),
                                        kb.at(at[1], panelLength)};
            });
          };
          Value rest = kb.rem(k, kb.i64(2)), step = kb.mul(stride, 2);
          SmallVector<Value> end =
              kb.loop(kb.i64(0), kb.sub(k, rest), 2, {source, panel},
                      [&](Value, ValueRange at) {
                        pairs(at, true);
                        return SmallVector<Value>{kb.at(at[0], step, element),
                                                  kb.at(at[1], tileSide)};
                      });
          kb.ifThen(kb.less(kb.i64(0), rest), [&] { pairs(end, false); });
        };
        kb.ifThen(
            kb.less(columns, kb.i64(width)),
            [&] { copy(kb.maskOf(columns, width)); }, [&] { copy({}); });
      });
}
