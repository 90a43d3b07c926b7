//===- BlockBuilder.cpp - a kernel of blocks of threads -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cuda/BlockBuilder.h"

#include "compiler/schedule/View.h"
#include "compiler/target/emit/GroupedTerms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;
using namespace tfm;
using namespace tfm::cuda;

/// Of the address spaces of NVPTX.
static constexpr unsigned sharedSpace = 3;

static func::FuncOp begin(OpBuilder &builder, ModuleOp module, StringRef name,
                          unsigned buffers, const Grid &grid) {
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
  SmallVector<Type> arguments(buffers, pointer);
  arguments.push_back(MemRefType::get({4}, builder.getI32Type()));
  arguments.push_back(builder.getIndexType());
  builder.setInsertionPointToEnd(module.getBody());
  auto func =
      func::FuncOp::create(builder, module.getLoc(), name,
                           builder.getFunctionType(arguments, TypeRange()));
  func->setAttr(
      blockAttribute,
      builder.getDenseI32ArrayAttr({static_cast<int32_t>(grid.threads), 1, 1}));
  func->setAttr(gridAttribute, builder.getDenseI64ArrayAttr(grid.blocks));
  Block *entry = func.addEntryBlock();
  builder.setInsertionPointToStart(entry);
  auto end = func::ReturnOp::create(builder, module.getLoc());
  builder.setInsertionPoint(end);
  return func;
}

BlockBuilder::BlockBuilder(ModuleOp module, StringRef name, Operation *step,
                           unsigned buffers, const Grid &grid)
    : builder(module.getContext()),
      func(begin(builder, module, name, buffers, grid)),
      k(builder, module, /*lanes=*/1),
      arguments(func.getArgument(buffers), func.getArgument(buffers + 1)),
      module(module), grid(grid) {
  // Whoever finds a fault in it tells the line of the model.
  k.loc = step->getLoc();
  for (unsigned i = 0; i != buffers; ++i)
    pointers.push_back(func.getArgument(i));
}

Value BlockBuilder::special(Value number) {
  return arith::ExtUIOp::create(k.b, k.loc, k.i64Type, number);
}

Value BlockBuilder::thread() {
  return special(NVVM::ThreadIdXOp::create(k.b, k.loc, k.b.getI32Type()));
}

Value BlockBuilder::block(unsigned axis) {
  Type i32 = k.b.getI32Type();
  switch (axis) {
  case 0:
    return special(NVVM::BlockIdXOp::create(k.b, k.loc, i32));
  case 1:
    return special(NVVM::BlockIdYOp::create(k.b, k.loc, i32));
  default:
    return special(NVVM::BlockIdZOp::create(k.b, k.loc, i32));
  }
}

Value BlockBuilder::everyThread() {
  if (grid.blocks[0] == 1)
    return thread();
  Type i32 = k.b.getI32Type();
  if (grid.blocks[0] * grid.threads > INT32_MAX)
    return k.add(k.mul(block(), grid.threads), thread());
  // Of 32 bits, so that it is divided in one instruction or two.
  Value first = arith::MulIOp::create(
      k.b, k.loc, NVVM::BlockIdXOp::create(k.b, k.loc, i32),
      arith::ConstantIntOp::create(k.b, k.loc, i32, grid.threads));
  return special(arith::AddIOp::create(
      k.b, k.loc, first, NVVM::ThreadIdXOp::create(k.b, k.loc, i32)));
}

void BlockBuilder::barrier() { NVVM::Barrier0Op::create(k.b, k.loc); }

void BlockBuilder::warpBarrier() {
  NVVM::SyncWarpOp::create(
      k.b, k.loc,
      arith::ConstantIntOp::create(k.b, k.loc, k.b.getI32Type(), -1));
}

Value BlockBuilder::shared(int64_t count) {
  Type byte = k.b.getI8Type();
  auto pointer = LLVM::LLVMPointerType::get(k.b.getContext(), sharedSpace);
  auto type = [&](int64_t bytes) {
    return LLVM::LLVMArrayType::get(byte, bytes);
  };
  LLVM::GlobalOp memory;
  if (sharedMemory) {
    memory = cast<LLVM::GlobalOp>(sharedMemory);
  } else {
    OpBuilder::InsertionGuard guard(k.b);
    k.b.setInsertionPoint(func);
    memory = LLVM::GlobalOp::create(k.b, k.loc, type(0), /*isConstant=*/false,
                                    LLVM::Linkage::Internal,
                                    (func.getName() + "_shared").str(),
                                    Attribute(), /*alignment=*/16, sharedSpace);
    sharedMemory = memory;
  }
  // From a line of banks on.
  int64_t first = static_cast<int64_t>(llvm::alignTo(sharedCount, 32));
  sharedCount = first + count;
  memory.setGlobalType(type(sharedBytes()));
  Value base = LLVM::AddressOfOp::create(k.b, k.loc, pointer, memory.getName());
  return k.at(base, first);
}

Value BlockBuilder::reduceLanes(Value x, int64_t width, Combine combine) {
  Type i32 = k.b.getI32Type();
  auto number = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(k.b, k.loc, i32, value);
  };
  for (int64_t distance = width / 2; distance > 0; distance /= 2) {
    Value other = NVVM::ShflOp::create(k.b, k.loc, x.getType(), number(-1), x,
                                       number(distance), number(warpSize - 1),
                                       NVVM::ShflKind::bfly, UnitAttr());
    x = combine(x, other);
  }
  return x;
}

Value BlockBuilder::reduceBlock(Value x, double neutral, Combine combine) {
  x = reduceLanes(x, warpSize, combine);
  int64_t warps = grid.threads / warpSize;
  if (warps == 1)
    return x;
  Value partial = shared(warps), own = lane();
  k.ifThen(k.equal(own, k.i64(0)),
           [&] { k.storeScalar(x, k.at(partial, warp())); });
  barrier();
  Value clamped = k.min(own, k.i64(warps - 1));
  Value part = orElse(k.less(own, k.i64(warps)),
                      k.loadScalar(k.at(partial, clamped)), neutral);
  return reduceLanes(part, warpSize, combine);
}

Value BlockBuilder::loadFloat(Value ptr, Type element) {
  auto load = [&](Type type) -> Value {
    return LLVM::LoadOp::create(k.b, k.loc, type, ptr,
                                static_cast<unsigned>(elementBytes(element)));
  };
  if (element.isF32())
    return load(element);
  if (element.isBF16())
    return tfm::loadBf16(k, ptr);
  Value number = load(element);
  return arith::SIToFPOp::create(k.b, k.loc, k.f32Type, number);
}

void BlockBuilder::storeFloat(Value x, Value ptr, Type element) {
  if (element.isBF16())
    x = arith::BitcastOp::create(
        k.b, k.loc, k.b.getIntegerType(16),
        arith::TruncFOp::create(k.b, k.loc, k.bf16Type, x));
  LLVM::StoreOp::create(k.b, k.loc, x, ptr,
                        static_cast<unsigned>(elementBytes(element)));
}

Value BlockBuilder::orElse(Value condition, Value x, double other) {
  return k.select(condition, x, k.splat(other));
}

Value BlockBuilder::both(Value x, Value y) {
  if (!x || !y)
    return x ? x : y;
  return arith::AndIOp::create(k.b, k.loc, x, y);
}
