//===- StagedOperand.cpp - an operand's way through shared memory ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cuda/StagedOperand.h"

#include "compiler/dialect/TfmDialect.h"
#include "compiler/target/emit/ElementEmitter.h"
#include "compiler/target/emit/GroupedTerms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace tfm;
using namespace tfm::cuda;

Type ProductOperand::memory(KernelBuilder &k) const {
  return isGrouped() ? Type(k.b.getI8Type()) : memoryType(element);
}

StagedOperand::StagedOperand(BlockBuilder &block, const ProductOperand &from,
                             Form form, int64_t size, int64_t depth)
    : block(block), k(block.k), from(from), form(form), size(size),
      depth(depth) {
  copies = canCopy(from, form);
  width = form == Form::Terms ? 1 : copies ? pieceElements : 2;
  items = size * depth / width / block.threads();
  int64_t inRow = innerSize() / width;
  advance = block.threads() / inRow;
  first = k.mul(k.rem(block.thread(), k.i64(inRow)), width);
  second = k.div(block.thread(), inRow);
}

bool StagedOperand::canCopy(const ProductOperand &from, Form form) {
  if (form == Form::Terms)
    return from.element.isF32() && !from.isGrouped();
  auto pieces = [](int64_t stride) { return stride % pieceElements == 0; };
  return from.element.isBF16() && from.alignment % 16 == 0 &&
         pieces(from.isAlongTerms() ? from.outerStride : from.termStride) &&
         llvm::all_of(from.batchStrides, pieces);
}

int64_t StagedOperand::stageBytes() const {
  return form == Form::Matrix ? size * depth * 2 : termStride() * depth * 4;
}

void StagedOperand::begin(Value outer) {
  outer0 = outer;
  sources.clear();
  bool alongTerms = from.isAlongTerms();
  if (from.isGrouped())
    return;
  for (int64_t i = 0; i != items; ++i) {
    // Neighbours lie at constant distances, unless they stop at the last row.
    if (i && !(alongTerms && hasOuterEdge() && form == Form::Matrix)) {
      sources.push_back(
          k.at(sources.front(),
               i * advance * (alongTerms ? from.outerStride : from.termStride),
               from.memory(k)));
      continue;
    }
    Value row = k.add(second, i * advance);
    Value at;
    if (alongTerms) {
      Value number = k.add(outer0, row);
      if (hasOuterEdge())
        number = k.min(number, k.i64(from.outers - 1));
      at = k.add(k.mul(number, from.outerStride), first);
    } else {
      at = k.add(k.mul(row, from.termStride), k.add(outer0, first));
    }
    sources.push_back(k.at(from.pointer, at, from.memory(k)));
  }
}

Value StagedOperand::swizzle(Value row) {
  // As many rows as a line of all banks holds differ by their place in it.
  if (pieces() >= pieceElements)
    return k.rem(row, k.i64(pieceElements));
  return k.rem(k.div(row, pieceElements / pieces()), k.i64(pieces()));
}

Value StagedOperand::offsetOf(Value row, Value column) {
  if (form == Form::Terms)
    return from.isAlongTerms()
               ? k.mul(k.add(k.mul(column, termStride()), row), 4)
               : k.mul(k.add(k.mul(row, termStride()), column), 4);
  Value piece = block.exclusiveOr(k.div(column, pieceElements), swizzle(row));
  Value inPiece = k.mul(k.rem(column, k.i64(pieceElements)), 2);
  return k.add(k.mul(row, innerSize() * 2), k.add(k.mul(piece, 16), inPiece));
}

Value StagedOperand::grouped(Value outer, Value term) {
  // A number from 0 to 15, times its group's scale, and its minimum.
  constexpr int64_t half = DequantiseOp::groupBytes;
  Value group = k.div(term, DequantiseOp::groupTerms);
  Value inHalf = k.rem(term, k.i64(half));
  Value isHigh = k.rem(k.div(term, half), k.i64(2));
  Value byte =
      k.add(k.mul(outer, from.outerStride), k.add(k.mul(group, half), inHalf));
  Value number = integersOfHalf(
      k, loadBytes(k, k.at(from.pointer, byte, k.b.getI8Type())), isHigh);
  Value at = k.add(k.mul(outer, from.tableStride), group);
  return k.fma(number, loadBf16(k, k.at(from.scale, at, k.bf16Type)),
               loadBf16(k, k.at(from.minimum, at, k.bf16Type)));
}

Value StagedOperand::itemOffset(int64_t i) {
  // The swizzle repeats after 8 rows.
  if (form == Form::Matrix && advance % pieceElements)
    return offsetOf(k.add(second, i * advance), first);
  int64_t rowBytes = form == Form::Matrix  ? innerSize() * 2
                     : from.isAlongTerms() ? 4
                                           : termStride() * 4;
  return k.add(offsetOf(second, first), i * advance * rowBytes);
}

Value StagedOperand::element(int64_t item, int64_t number, Value term0) {
  bool alongTerms = from.isAlongTerms();
  Value row = k.add(second, item * advance), column = k.add(first, number);
  Value outer = k.add(outer0, alongTerms ? row : column),
        term = k.add(term0, alongTerms ? column : row);
  // What is beyond the end of M or N is not stored in C; terms there count
  // nothing.
  Value exists;
  if (hasTermEdge()) {
    exists = k.less(term, k.i64(from.terms));
    term = k.min(term, k.i64(from.terms - 1));
  }
  if (hasOuterEdge())
    outer = k.min(outer, k.i64(from.outers - 1));
  Value x;
  if (from.isGrouped()) {
    x = grouped(outer, term);
  } else {
    Value pointer;
    if (hasTermEdge() || hasOuterEdge())
      pointer = k.at(
          from.pointer,
          k.add(k.mul(outer, from.outerStride), k.mul(term, from.termStride)),
          from.memory(k));
    else
      pointer = k.at(
          k.at(sources[item], k.mul(term0, from.termStride), from.memory(k)),
          number, from.memory(k));
    if (form == Form::Matrix && from.element.isBF16())
      x = LLVM::LoadOp::create(k.b, k.loc, from.memory(k), pointer,
                               /*alignment=*/2);
    else
      x = block.loadFloat(pointer, from.element);
  }
  if (form == Form::Matrix && x.getType().isF32()) {
    Value narrow = arith::TruncFOp::create(k.b, k.loc, k.bf16Type, x);
    x = arith::BitcastOp::create(k.b, k.loc, k.b.getI16Type(), narrow);
  }
  if (exists) {
    Value none =
        arith::ConstantOp::create(k.b, k.loc, k.b.getZeroAttr(x.getType()));
    x = k.select(exists, x, none);
  }
  return x;
}

Value StagedOperand::countOf(int64_t item, Value term0) {
  bool alongTerms = from.isAlongTerms();
  Value count;
  auto within = [&](Value index, int64_t end) {
    Value left = k.sub(k.i64(end), index);
    left = k.max(k.min(left, k.i64(width)), k.i64(0));
    count = count ? k.min(count, left) : left;
  };
  if (hasTermEdge()) {
    if (alongTerms) {
      within(k.add(term0, first), from.terms);
    } else {
      // All of a row, or none. How many are left is one number in a register,
      // where the rows of all items would be several.
      Value left = k.sub(k.sub(k.i64(from.terms), term0), second);
      count =
          k.select(k.less(k.i64(item * advance), left), k.i64(width), k.i64(0));
    }
  }
  if (hasOuterEdge() && !alongTerms)
    within(k.add(outer0, first), from.outers);
  if (hasOuterEdge() && alongTerms && form == Form::Terms) {
    Value left = k.sub(k.sub(k.i64(from.outers), outer0), second);
    count = k.select(k.less(k.i64(item * advance), left),
                     count ? count : k.i64(width), k.i64(0));
  }
  if (from.outerEnd) {
    Value row = k.add(outer0, k.add(second, item * advance));
    count = k.select(k.less(row, from.outerEnd), count ? count : k.i64(width),
                     k.i64(0));
  }
  return count;
}

SmallVector<Value> StagedOperand::load(Value stage, Value term0) {
  SmallVector<Value> loaded;
  for (int64_t i = 0; i != items; ++i) {
    if (!copies) {
      for (int64_t j = 0; j != width; ++j)
        loaded.push_back(element(i, j, term0));
      continue;
    }
    int64_t bytes = elementBytes(from.element);
    Value count = countOf(i, term0);
    Value source =
        k.at(sources[i], k.mul(term0, from.termStride), from.memory(k));
    block.copyAsync(k.at(stage, itemOffset(i), k.b.getI8Type()), source,
                    width * bytes, count ? k.mul(count, bytes) : Value());
  }
  return loaded;
}

void StagedOperand::store(Value stage, ValueRange loaded) {
  if (copies)
    return;
  Type i32 = k.b.getI32Type();
  for (int64_t i = 0; i != items; ++i) {
    Value to = k.at(stage, itemOffset(i), k.b.getI8Type());
    Value x = loaded[i * width];
    if (form == Form::Matrix) {
      Value low = arith::ExtUIOp::create(k.b, k.loc, i32, x);
      Value high =
          arith::ExtUIOp::create(k.b, k.loc, i32, loaded[i * width + 1]);
      Value half = arith::ConstantIntOp::create(k.b, k.loc, i32, 16);
      high = arith::ShLIOp::create(k.b, k.loc, high, half);
      x = arith::OrIOp::create(k.b, k.loc, low, high);
    }
    LLVM::StoreOp::create(k.b, k.loc, x, to, /*alignment=*/4);
  }
}

void StagedOperand::beginFragments(Value firstOuter, int64_t count, bool isB) {
  // A lane gives the address of a row of one of the four matrices of 8 by 8
  // that a fragment is made of.
  Value matrix = k.div(block.lane(), 8),
        inMatrix = k.rem(block.lane(), k.i64(8));
  Value low = k.rem(matrix, k.i64(2)), high = k.div(matrix, 2);
  Value outerHalf = isB ? high : low, termHalf = isB ? low : high;
  Value change = swizzle(inMatrix);
  fragmentOffsets.clear();
  auto add = [&](Value row, Value piece) {
    piece = block.exclusiveOr(piece, change);
    fragmentOffsets.push_back(
        k.add(k.mul(row, innerSize() * 2), k.mul(piece, 16)));
  };
  if (from.isAlongTerms()) {
    Value row = k.add(firstOuter, k.add(k.mul(outerHalf, 8), inMatrix));
    for (int64_t step = 0; step != std::min(depth / 16, distinct); ++step)
      add(row, k.add(termHalf, 2 * step));
    return;
  }
  Value row = k.add(k.mul(termHalf, 8), inMatrix);
  for (int64_t number = 0; number != std::min(count, distinct); ++number)
    add(row, k.add(k.div(firstOuter, 8), k.add(outerHalf, 2 * number)));
}

SmallVector<Value> StagedOperand::fragment(Value stage, int64_t number,
                                           int64_t step) {
  bool alongTerms = from.isAlongTerms();
  int64_t inRow = alongTerms ? step : number,
          row = (alongTerms ? number : step) * 16;
  Value at = k.at(stage, fragmentOffsets[inRow % distinct], k.b.getI8Type());
  at = k.at(at, row * innerSize() * 2 + inRow / distinct * distinct * 32,
            k.b.getI8Type());
  Type i32 = k.b.getI32Type();
  auto registers = LLVM::LLVMStructType::getLiteral(k.b.getContext(),
                                                    SmallVector<Type>(4, i32));
  auto shape = NVVM::LdStMatrixShapeAttr::get(k.b.getContext(), 8, 8);
  Value loaded = NVVM::LdMatrixOp::create(k.b, k.loc, registers, at, /*num=*/4u,
                                          alongTerms ? NVVM::MMALayout::row
                                                     : NVVM::MMALayout::col,
                                          shape, NVVM::LdStMatrixEltType::B16);
  SmallVector<Value> words;
  for (int64_t i = 0; i != 4; ++i)
    words.push_back(LLVM::ExtractValueOp::create(k.b, k.loc, loaded, i));
  return words;
}
