//===- GroupedTerms.cpp - weights of 4 bits as numbers --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/emit/GroupedTerms.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace tfm;

Value tfm::loadBytes(KernelBuilder &kb, Value ptr) {
  Type byte = kb.b.getI8Type();
  Value bytes = LLVM::LoadOp::create(kb.b, kb.loc, kb.registerOf(byte), ptr,
                                     /*alignment=*/1);
  return arith::ExtUIOp::create(kb.b, kb.loc, kb.registerOf(kb.b.getI32Type()),
                                bytes);
}

Value tfm::integersOfHalf(KernelBuilder &kb, Value bytes, Value high) {
  Type i32 = kb.b.getI32Type();
  Value shift = arith::TruncIOp::create(kb.b, kb.loc, i32, kb.mul(high, 4));
  Value shifted =
      arith::ShRUIOp::create(kb.b, kb.loc, bytes, kb.broadcast(shift));
  Value low = arith::ConstantIntOp::create(kb.b, kb.loc, i32, 15);
  Value integers =
      arith::AndIOp::create(kb.b, kb.loc, shifted, kb.broadcast(low));
  return arith::SIToFPOp::create(kb.b, kb.loc, kb.registerOf(kb.f32Type),
                                 integers);
}

Value tfm::loadBf16(KernelBuilder &kb, Value ptr) {
  Value half = LLVM::LoadOp::create(kb.b, kb.loc, kb.b.getIntegerType(16), ptr,
                                    /*alignment=*/2);
  Value word = arith::ExtUIOp::create(kb.b, kb.loc, kb.b.getI32Type(), half);
  Value upper = arith::ConstantIntOp::create(kb.b, kb.loc, word.getType(), 16);
  word = arith::ShLIOp::create(kb.b, kb.loc, word, upper);
  return arith::BitcastOp::create(kb.b, kb.loc, kb.f32Type, word);
}
