//===- Pieces.cpp - loads of 16 bytes -------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cuda/Pieces.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace tfm;
using namespace tfm::cuda;

Value cuda::loadPiece(KernelBuilder &k, Value ptr) {
  auto type = VectorType::get({4}, k.b.getI32Type());
  return LLVM::LoadOp::create(k.b, k.loc, type, ptr, pieceBytes);
}

static Value constant(KernelBuilder &k, int64_t value) {
  return arith::ConstantIntOp::create(k.b, k.loc, k.b.getI32Type(), value);
}

static Value fromInteger(KernelBuilder &k, Value integer) {
  return arith::SIToFPOp::create(k.b, k.loc, k.f32Type, integer);
}

static Value word(KernelBuilder &k, Value piece, int64_t i) {
  return LLVM::ExtractElementOp::create(k.b, k.loc, piece, k.i64(i));
}

SmallVector<Value> cuda::floatsOf(KernelBuilder &k, Value piece, Type element) {
  SmallVector<Value> values;
  auto asFloat = [&](Value bits) {
    values.push_back(arith::BitcastOp::create(k.b, k.loc, k.f32Type, bits));
  };
  auto left = [&](Value bits, int64_t by) -> Value {
    return arith::ShLIOp::create(k.b, k.loc, bits, constant(k, by));
  };
  for (int64_t i = 0; i != 4; ++i) {
    Value bits = word(k, piece, i);
    if (element.isBF16()) {
      asFloat(left(bits, 16));
      asFloat(arith::AndIOp::create(
          k.b, k.loc, bits, constant(k, static_cast<int32_t>(0xffff0000u))));
    } else if (element.isInteger(8)) {
      for (int64_t byte = 0; byte != 4; ++byte)
        values.push_back(fromInteger(
            k, arith::ShRSIOp::create(k.b, k.loc, left(bits, 24 - 8 * byte),
                                      constant(k, 24))));
    } else {
      asFloat(bits);
    }
  }
  return values;
}

SmallVector<Value> cuda::halvesOf(KernelBuilder &k, Value piece) {
  SmallVector<Value> values;
  for (int64_t half : {0, 4})
    for (int64_t i = 0; i != 4; ++i)
      for (int64_t byte = 0; byte != 4; ++byte) {
        Value moved = arith::ShRUIOp::create(k.b, k.loc, word(k, piece, i),
                                             constant(k, byte * 8 + half));
        values.push_back(fromInteger(
            k, arith::AndIOp::create(k.b, k.loc, moved, constant(k, 15))));
      }
  return values;
}
