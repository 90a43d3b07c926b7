//===- Packing.cpp - operands in panels -----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/Packing.h"
#include "compiler/target/cpu/Terms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tfm;

/// What distinguishes the functions for different packings.
static std::string suffix(Packing packing) {
  std::string name = packing.fromName();
  if (packing.quads)
    return name + (packing.offset ? ".offset.quads" : ".quads");
  if (packing.pairs)
    return name + ".pairs";
  return packing.rounds && packing.from == Packing::From::F32 ? ".rounded"
                                                              : name;
}

func::FuncOp tfm::packRows(KernelBuilder &kb, int64_t vectors,
                           Packing packing) {
  SmallVector<Type> types{kb.ptrType, kb.i64Type, kb.i64Type, kb.i64Type,
                          kb.ptrType, kb.i64Type, kb.i64Type, kb.i64Type};
  return kb.sharedFunction(
      "tfm.pack.rows" + std::to_string(vectors) + suffix(packing), types,
      [&](KernelBuilder &kb, ValueRange args) {
        Value source = args[0], sourceStride = args[1], k = args[2],
              columns = args[3], panel = args[4], panelStride = args[5],
              panels = args[6], panelLength = args[7];
        Type element = packing.element(kb);
        auto integers = kb.vecType.clone(kb.b.getI32Type());
        auto bits = [&](Value x) -> Value {
          return arith::BitcastOp::create(kb.b, kb.loc, integers, x);
        };
        // The slots of the vector at `at` and of the row below it, if any.
        auto slots = [&](Value at, Value mask, bool below) -> Value {
          auto row = [&](Value at) {
            Value x = kb.load(at, mask, element);
            return packing.rounds ? kb.toF32(kb.toBf16(x)) : x;
          };
          Value x = row(at);
          if (!packing.pairs)
            return x;
          // As f32, a bf16 is the upper half.
          Value half = arith::ConstantOp::create(
              kb.b, kb.loc,
              DenseElementsAttr::get(integers, static_cast<int32_t>(16)));
          Value pair = arith::ShRUIOp::create(kb.b, kb.loc, bits(x), half);
          if (below)
            pair = arith::OrIOp::create(
                kb.b, kb.loc, pair,
                bits(row(kb.at(at, sourceStride, element))));
          return arith::BitcastOp::create(kb.b, kb.loc, kb.vecType, pair);
        };
        auto copy = [&](bool masked) {
          SmallVector<Value> masks(vectors);
          if (masked)
            for (int64_t v = 0; v < vectors; ++v)
              masks[v] = kb.maskOf(kb.sub(columns, kb.i64(v * kb.lanes)));
          auto row = [&](ValueRange row, bool below) {
            kb.loop(kb.i64(0), panels, 1, row, [&](Value, ValueRange at) {
              for (int64_t v = 0; v < vectors; ++v)
                kb.store(
                    slots(kb.at(at[0], v * kb.lanes, element), masks[v], below),
                    kb.at(at[1], v * kb.lanes));
              return SmallVector<Value>{kb.at(at[0], columns, element),
                                        kb.at(at[1], panelLength)};
            });
          };
          int64_t step = packing.perSlot();
          Value rest = kb.rem(k, kb.i64(step));
          Value sourceStep = kb.mul(sourceStride, step);
          auto last = kb.loop(kb.i64(0), kb.sub(k, rest), step, {source, panel},
                              [&](Value, ValueRange at) {
                                row(at, true);
                                return SmallVector<Value>{
                                    kb.at(at[0], sourceStep, element),
                                    kb.at(at[1], panelStride)};
                              });
          if (packing.pairs)
            kb.ifThen(kb.less(kb.i64(0), rest), [&] { row(last, false); });
        };
        kb.ifThen(
            kb.less(columns, kb.i64(vectors * kb.lanes)), [&] { copy(true); },
            [&] { copy(false); });
      });
}

func::FuncOp tfm::packTransposed(KernelBuilder &kb, Packing packing) {
  SmallVector<Type> types{kb.ptrType, kb.i64Type, kb.i64Type,
                          kb.i64Type, kb.ptrType, kb.i64Type};
  return kb.sharedFunction(
      "tfm.pack.transposed" + suffix(packing), types,
      [&](KernelBuilder &kb, ValueRange args) {
        Value source = args[0], sourceStride = args[1], k = args[2],
              rows = args[3], panel = args[4], panelStride = args[5];
        Type element = packing.element(kb);
        SmallVector<Value> offsets;
        Value last = kb.sub(rows, kb.i64(1));
        for (int64_t row = 0; row < kb.lanes; ++row)
          offsets.push_back(kb.mul(kb.min(kb.i64(row), last), sourceStride));
        // `step` elements of a row become `lanes` slots.
        int64_t step = kb.lanes * packing.perSlot();
        auto elements = VectorType::get({step}, element);
        auto slots = [&](Value at, Value mask) -> Value {
          Value x = kb.loadAs(elements, at, mask);
          if (packing.quads) {
            x = LLVM::BitcastOp::create(kb.b, kb.loc, kb.vecType, x);
            return packing.offset ? offsetQuads(kb, x) : x;
          }
          if (packing.pairs)
            return LLVM::BitcastOp::create(kb.b, kb.loc, kb.vecType,
                                           kb.toBf16(x));
          return kb.toF32(packing.rounds ? kb.toBf16(x) : x);
        };
        auto block = [&](Value source, Value panel, Value mask) {
          SmallVector<Value> loaded;
          for (Value offset : offsets)
            loaded.push_back(slots(kb.at(source, offset, element), mask));
          kb.transpose(loaded);
          for (Value column : loaded) {
            kb.store(column, panel);
            panel = kb.at(panel, panelStride);
          }
          return panel;
        };
        Value rest = kb.rem(k, kb.i64(step));
        auto carried = kb.loop(
            kb.i64(0), kb.sub(k, rest), step, {source, panel},
            [&](Value, ValueRange carried) {
              Value next = block(carried[0], carried[1], Value());
              return SmallVector<Value>{kb.at(carried[0], step, element), next};
            });
        kb.ifThen(kb.less(kb.i64(0), rest), [&] {
          block(carried[0], carried[1], kb.maskOf(rest, step));
        });
      });
}

int64_t tfm::packedLength(int64_t k, int64_t stride, int64_t width,
                          int64_t lanes) {
  return llvm::alignTo(llvm::alignTo(k, lanes) * stride + width, lanes);
}
