//===- MoveRows.cpp - rows that are added to tables, or written to caches -===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cuda/MoveRows.h"

#include "compiler/dialect/TfmDialect.h"
#include "compiler/schedule/Launches.h"
#include "compiler/schedule/View.h"
#include "compiler/target/cuda/BlockBuilder.h"
#include "compiler/target/emit/ElementEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tfm;
using namespace tfm::cuda;
using namespace tfm::sched;

static constexpr int64_t threads = 256;

static unsigned bufferCount(LaunchOp launch) {
  return launch.getReads().size() + launch.getWrites().size();
}

void cuda::emitScatterAddKernel(ModuleOp module, StringRef name,
                                LaunchOp launch) {
  auto op = cast<ScatterAddOp>(launch.getFirstOp());
  int64_t rows = tensorType(op.getIds()).getNumElements();
  int64_t cols = tensorType(op.getUpdates()).getNumElements() / rows;
  BlockBuilder block(module, name, launch, bufferCount(launch),
                     {{rows, 1, 1}, threads});
  KernelBuilder &k = block.k;
  auto pointerOf = [&](Value operand) {
    return block.pointers[argumentOf(operand).getArgNumber()];
  };
  Value updates = pointerOf(op.getUpdates()), base = block.pointers.back();
  // The ids are a row's scalars in the domain of the updates.
  ElementEmitter ids(k, Domain{rows, cols == 1 ? 2 : cols}, block.arguments);
  if (auto read = op.getIds().getDefiningOp<ReadOp>())
    ids.addRead(op.getIds(), pointerOf(op.getIds()),
                viewOf(read.getFrom().getType()), Access::Row);
  auto idOf = [&](Value row) -> Value {
    ids.beginRow(row);
    return arith::ExtSIOp::create(k.b, k.loc, k.i64Type,
                                  ids.scalar(op.getIds()));
  };
  Value own = block.block(), id = idOf(own);
  // Whether an earlier row has the id: 1 or 0.
  Value earlier =
      k.loop(block.thread(), own, threads, k.splat(0.0),
             [&](Value row, ValueRange before) -> SmallVector<Value> {
               Value same = k.equal(idOf(row), id);
               return {k.select(same, k.splat(1.0), before.front())};
             })
          .front();
  earlier = block.reduceBlock(earlier, 0.0,
                              [&](Value a, Value b) { return k.maxf(a, b); });
  Value isFirst = arith::CmpFOp::create(k.b, k.loc, arith::CmpFPredicate::OEQ,
                                        earlier, k.splat(0.0));
  auto addAll = [&](Value column) {
    Value at = k.at(base, k.add(k.mul(id, cols), column));
    Value total =
        k.loop(own, k.i64(rows), 1, k.loadScalar(at),
               [&](Value row, ValueRange before) -> SmallVector<Value> {
                 Value same = k.equal(idOf(row), id);
                 auto added = scf::IfOp::create(
                     k.b, k.loc, same,
                     [&](OpBuilder &, Location) {
                       Value update = k.loadScalar(
                           k.at(updates, k.add(k.mul(row, cols), column)));
                       scf::YieldOp::create(k.b, k.loc,
                                            k.addf(before.front(), update));
                     },
                     [&](OpBuilder &, Location) {
                       scf::YieldOp::create(k.b, k.loc, before.front());
                     });
                 return {added.getResult(0)};
               })
            .front();
    k.storeScalar(total, at);
  };
  k.ifThen(isFirst,
           [&] { k.loop(block.thread(), k.i64(cols), threads, addAll); });
}

void cuda::emitCacheUpdateKernel(ModuleOp module, StringRef name,
                                 LaunchOp launch) {
  auto op = cast<CacheUpdateOp>(launch.getFirstOp());
  BlockArgument to = launch.getWriteArgs().front(),
                of = argumentOf(op.getUpdates()),
                at = argumentOf(op.getPositions());
  auto view = [](BlockArgument argument) {
    return viewOf(cast<MemRefType>(argument.getType()));
  };
  View from = view(of), starts = view(at), cache = view(to);
  int64_t count = from.numElements();
  BlockBuilder block(
      module, name, launch, bufferCount(launch),
      {{static_cast<int64_t>(llvm::divideCeil(count, threads)), 1, 1},
       threads});
  KernelBuilder &k = block.k;
  auto pointer = [&](BlockArgument argument) {
    return block.pointers[argument.getArgNumber()];
  };
  int64_t capacity = cache.shape[2];
  // Elements only move: nothing asks what they are.
  Type element = memoryType(from.element);
  auto bytes = static_cast<unsigned>(elementBytes(from.element));
  auto move = [&](Value number) {
    Value index[4], rest = number;
    for (size_t axis = 4; axis-- > 0;) {
      index[axis] = axis == 0 ? rest : k.rem(rest, k.i64(from.shape[axis]));
      if (axis != 0)
        rest = k.div(rest, from.shape[axis]);
    }
    Value start = k.loadInteger(k.at(
        pointer(at), k.mul(index[0], starts.strides[0]), k.b.getI32Type()));
    Value position = k.add(start, index[2]);
    auto address = [&](Value base, const View &lies) {
      Value offset = k.i64(0);
      for (size_t axis = 0; axis != 4; ++axis)
        offset = k.add(offset, k.mul(index[axis], lies.strides[axis]));
      return k.at(base, offset, element);
    };
    Value source = address(pointer(of), from);
    auto store = [&] {
      Value moved = LLVM::LoadOp::create(k.b, k.loc, element, source, bytes);
      index[2] = op.getRing() ? k.rem(position, k.i64(capacity)) : position;
      LLVM::StoreOp::create(k.b, k.loc, moved, address(pointer(to), cache),
                            bytes);
    };
    // Rows beyond either end of the cache are left out; a ring has one only.
    Value exists = k.less(k.i64(-1), position);
    if (!op.getRing())
      exists = block.both(exists, k.less(position, k.i64(capacity)));
    k.ifThen(exists, store);
  };
  Value number = block.everyThread();
  if (count % threads == 0)
    move(number);
  else
    k.ifThen(k.less(number, k.i64(count)), [&] { move(number); });
}
