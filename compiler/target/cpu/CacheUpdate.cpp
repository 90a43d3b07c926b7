//===- CacheUpdate.cpp - new keys and values into a cache -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/CacheUpdate.h"

#include "compiler/schedule/Launches.h"
#include "compiler/schedule/View.h"
#include "compiler/target/cpu/RowKernel.h"
#include "compiler/target/emit/ElementEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace tfm;
using namespace tfm::sched;

Kernel tfm::emitCacheUpdateKernel(OpBuilder &builder, ModuleOp module,
                                  StringRef name, LaunchOp launch,
                                  int64_t lanes) {
  auto op = cast<CacheUpdateOp>(launch.getFirstOp());
  BegunKernel begun(builder, module, name, bufferTypes(launch), lanes);
  KernelBuilder &k = begun.k;
  const KernelArguments &arguments = begun.arguments;
  auto pointer = [&](BlockArgument argument) {
    return begun.pointers[argument.getArgNumber()];
  };
  auto view = [](BlockArgument argument) {
    return viewOf(cast<MemRefType>(argument.getType()));
  };
  BlockArgument to = launch.getWriteArgs().front();
  BlockArgument of = argumentOf(op.getUpdates()),
                at = argumentOf(op.getPositions());
  Value updates = pointer(of), positions = pointer(at), base = pointer(to);
  View from = view(of), starts = view(at), cache = view(to);
  ArrayRef<int64_t> shape = from.shape;
  if (cache.shape[0] != from.shape[0])
    cache.strides[0] = 0; // that of all sequences
  int64_t heads = shape[1], count = shape[2], width = shape[3],
          capacity = cache.shape[2];
  auto [begin, end] =
      k.share(k.i64(shape[0] * heads), k.toI64(arguments.thread),
              k.toI64(arguments.threads));
  k.loop(begin, end, 1, [&](Value index) {
    Value sequence = k.div(index, heads), head = k.rem(index, k.i64(heads));
    Value start =
        k.loadInteger(k.at(positions, k.mul(sequence, starts.strides[0])));
    // Elements only move: nothing asks what they are.
    Type element = memoryType(from.element);
    auto vector = VectorType::get({lanes}, element);
    auto bytes = static_cast<unsigned>(elementBytes(from.element));
    auto forward = [&](Value pointer, Value offset) -> Value {
      return LLVM::GEPOp::create(k.b, k.loc, k.ptrType, element, pointer,
                                 ValueRange{offset});
    };
    auto rows = [&](Value pointer, const View &view) {
      return forward(pointer, k.add(k.mul(sequence, view.strides[0]),
                                    k.mul(head, view.strides[1])));
    };
    Value source = rows(updates, from), target = rows(base, cache);
    // Rows beyond either end of the cache are left out; a ring has one only.
    Value first = k.max(k.i64(0), k.sub(k.i64(0), start));
    Value last = k.i64(count);
    if (!op.getRing())
      last = k.min(last, k.sub(k.i64(capacity), start));
    k.loop(first, last, 1, [&](Value row) {
      Value in = forward(source, k.mul(row, from.strides[2]));
      Value position = k.add(start, row);
      if (op.getRing())
        position = k.rem(position, k.i64(capacity));
      Value out = forward(target, k.mul(position, cache.strides[2]));
      int64_t whole = width / lanes * lanes;
      if (whole)
        k.loop(k.i64(0), k.i64(whole), lanes, [&](Value column) {
          Value moved = LLVM::LoadOp::create(k.b, k.loc, vector,
                                             forward(in, column), bytes);
          LLVM::StoreOp::create(k.b, k.loc, moved, forward(out, column), bytes);
        });
      if (whole < width) {
        Value mask = k.maskOf(k.i64(width - whole)), rest = k.i64(whole);
        Value zero =
            arith::ConstantOp::create(k.b, k.loc, k.b.getZeroAttr(vector));
        auto alignment = k.b.getI32IntegerAttr(static_cast<int32_t>(bytes));
        Value moved = LLVM::MaskedLoadOp::create(
            k.b, k.loc, vector, forward(in, rest), mask, zero, alignment);
        LLVM::MaskedStoreOp::create(k.b, k.loc, moved, forward(out, rest), mask,
                                    alignment);
      }
    });
  });
  return {begun.func, 0};
}
