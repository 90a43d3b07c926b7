//===- Terms.cpp - what sums of products are made of ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/Terms.h"
#include "compiler/target/cpu/CpuMachine.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace tfm;

static Value bitcast(KernelBuilder &kb, Value x, Type element, int64_t count) {
  return LLVM::BitcastOp::create(kb.b, kb.loc,
                                 VectorType::get({count}, element), x);
}

static Value bytesOf(KernelBuilder &kb, Value quads) {
  return bitcast(kb, quads, kb.b.getI8Type(), 4 * kb.lanes);
}

static Value callIntrinsic(KernelBuilder &kb, Type type, StringRef name,
                           ValueRange arguments) {
  return LLVM::CallIntrinsicOp::create(kb.b, kb.loc, type,
                                       kb.b.getStringAttr(name), arguments)
      .getResult(0);
}

/// VPDPBUSD, of quads in any types: sum + a b, those of `a` without a sign.
static Value addQuads(KernelBuilder &kb, Value a, Value b, Value sum) {
  sum = bitcast(kb, sum, kb.b.getI32Type(), kb.lanes);
  return callIntrinsic(kb, sum.getType(),
                       kb.lanes == 16 ? "llvm.x86.avx512.vpdpbusd.512"
                                      : "llvm.x86.avx512.vpdpbusd.256",
                       {sum, bytesOf(kb, a), bytesOf(kb, b)});
}

/// Sums of two products of bytes each, those of `a` without a sign.
static Value multiplyPairs(KernelBuilder &kb, Value a, Value b) {
  auto shorts = VectorType::get({2 * kb.lanes}, kb.b.getI16Type());
  return callIntrinsic(kb, shorts, "llvm.x86.avx2.pmadd.ub.sw",
                       {bytesOf(kb, a), bytesOf(kb, b)});
}

/// Sums of two of those each.
static Value addPairs(KernelBuilder &kb, Value pairs) {
  Value ones = arith::ConstantOp::create(
      kb.b, kb.loc,
      DenseElementsAttr::get(cast<VectorType>(pairs.getType()),
                             llvm::APInt(16, 1)));
  return callIntrinsic(kb, VectorType::get({kb.lanes}, kb.b.getI32Type()),
                       "llvm.x86.avx2.pmadd.wd", {pairs, ones});
}

/// SDOT, of quads in any types: sum + a b, all with their signs.
static Value addSignedQuads(KernelBuilder &kb, Value a, Value b, Value sum) {
  sum = bitcast(kb, sum, kb.b.getI32Type(), kb.lanes);
  return callIntrinsic(kb, sum.getType(), "llvm.aarch64.neon.sdot",
                       {sum, bytesOf(kb, a), bytesOf(kb, b)});
}

int64_t tfm::elementsPerSlot(Terms terms) {
  return terms == Terms::Bf16Pairs || terms == Terms::Bf16Tiles ? 2
         : areQuads(terms)                                      ? 4
                                                                : 1;
}

Terms tfm::integerTerms(const CpuMachine &target) {
  return target.int8Quads         ? Terms::I8Quads
         : target.int8SignedQuads ? Terms::I8SignedQuads
                                  : Terms::I8Pairs;
}

Value tfm::offsetQuads(KernelBuilder &kb, Value quads) {
  Value integers = bitcast(kb, quads, kb.b.getI32Type(), kb.lanes);
  auto signs = DenseElementsAttr::get(cast<VectorType>(integers.getType()),
                                      llvm::APInt(32, 0x80808080u));
  return bitcast(
      kb,
      arith::XOrIOp::create(kb.b, kb.loc, integers,
                            arith::ConstantOp::create(kb.b, kb.loc, signs)),
      kb.f32Type, kb.lanes);
}

Value tfm::offsetOfRow(KernelBuilder &kb, Value a, Value k) {
  int64_t perVector = 4 * kb.lanes;
  auto bytes = VectorType::get({perVector}, kb.b.getI8Type());
  auto sums = VectorType::get({kb.lanes}, kb.b.getI32Type());
  Value offset = arith::ConstantOp::create(
      kb.b, kb.loc, DenseElementsAttr::get(bytes, llvm::APInt(8, 0x80)));
  Value zero = arith::ConstantOp::create(kb.b, kb.loc, kb.b.getZeroAttr(sums));
  auto add = [&](Value i, Value sum, Value mask) {
    Value x = kb.loadAs(bytes, kb.at(a, i, kb.b.getI8Type()), mask);
    return addQuads(kb, offset, x, sum);
  };
  Value whole = kb.sub(k, kb.rem(k, kb.i64(perVector)));
  SmallVector<Value> sum{zero};
  sum = kb.loop(kb.i64(0), whole, perVector, sum, [&](Value i, ValueRange sum) {
    return SmallVector<Value>{add(i, sum[0], Value())};
  });
  sum = kb.loop(whole, k, perVector, sum, [&](Value i, ValueRange sum) {
    return SmallVector<Value>{
        add(i, sum[0], kb.maskOf(kb.sub(k, i), perVector))};
  });
  return vector::ReductionOp::create(kb.b, kb.loc, vector::CombiningKind::ADD,
                                     sum[0]);
}

Value tfm::multiplyAdd(KernelBuilder &kb, Terms terms, Value a, Value b,
                       Value sum) {
  if (terms == Terms::I8Quads)
    return bitcast(kb, addQuads(kb, b, a, sum), kb.f32Type, kb.lanes);
  if (terms == Terms::I8SignedQuads)
    return bitcast(kb, addSignedQuads(kb, offsetQuads(kb, b), a, sum),
                   kb.f32Type, kb.lanes);
  if (terms == Terms::I8Pairs) {
    // Those of B without their signs, which those of A take: two products of
    // 127 and 128 fit into 16 bits.
    Value signs = bytesOf(kb, offsetQuads(kb, b));
    Value magnitudes = LLVM::AbsOp::create(kb.b, kb.loc, signs.getType(), signs,
                                           /*is_int_min_poison=*/false);
    Value factors = callIntrinsic(kb, signs.getType(), "llvm.x86.avx2.psign.b",
                                  {bytesOf(kb, a), signs});
    Value products = addPairs(kb, multiplyPairs(kb, magnitudes, factors));
    sum = kb.add(bitcast(kb, sum, kb.b.getI32Type(), kb.lanes), products);
    return bitcast(kb, sum, kb.f32Type, kb.lanes);
  }
  if (terms != Terms::Bf16Pairs)
    return kb.fma(a, b, sum);
  auto pairs = VectorType::get({2 * kb.lanes}, kb.bf16Type);
  auto cast = [&](Value slots) -> Value {
    return LLVM::BitcastOp::create(kb.b, kb.loc, pairs, slots);
  };
  if (kb.lanes == 16)
    return callIntrinsic(kb, kb.vecType, "llvm.x86.avx512bf16.dpbf16ps.512",
                         {sum, cast(a), cast(b)});
  // The last operand may be one lane of a register.
  return callIntrinsic(kb, kb.vecType, "llvm.aarch64.neon.bfdot",
                       {sum, cast(b), cast(a)});
}

Value tfm::addSums(KernelBuilder &kb, Terms terms, Value x, Value y) {
  if (!areQuads(terms))
    return arith::AddFOp::create(kb.b, kb.loc, x, y);
  auto integers = [&](Value x) {
    return bitcast(kb, x, kb.b.getI32Type(), kb.lanes);
  };
  return bitcast(kb, kb.add(integers(x), integers(y)), kb.f32Type, kb.lanes);
}

Value tfm::lanesToTake(KernelBuilder &kb, Terms terms, Value slots) {
  if (areQuads(terms))
    return bitcast(kb, slots, kb.b.getI32Type(), kb.lanes);
  if (terms != Terms::Bf16Pairs)
    return slots;
  Value pairs = bitcast(kb, slots, kb.bf16Type, 2 * kb.lanes);
  pairs = callIntrinsic(kb, pairs.getType(), "llvm.arithmetic.fence", pairs);
  return bitcast(kb, pairs, kb.f32Type, kb.lanes);
}

Value tfm::noFourBitSums(KernelBuilder &kb, Terms terms) {
  int64_t pairs = terms == Terms::I8Pairs ? 2 : 1;
  auto type =
      VectorType::get({pairs * kb.lanes},
                      kb.b.getIntegerType(static_cast<unsigned>(32 / pairs)));
  return arith::ConstantOp::create(kb.b, kb.loc, kb.b.getZeroAttr(type));
}

Value tfm::multiplyAddFourBits(KernelBuilder &kb, Terms terms, Value a, Value b,
                               Value sum) {
  // Of two products each 3,840 at most, so that 16 bits hold eight sums.
  if (terms == Terms::I8Pairs)
    return kb.add(sum, multiplyPairs(kb, b, a));
  auto add = terms == Terms::I8Quads ? addQuads : addSignedQuads;
  return add(kb, b, a, sum);
}

Value tfm::fourBitSums(KernelBuilder &kb, Terms terms, Value sum) {
  return terms == Terms::I8Pairs ? addPairs(kb, sum) : sum;
}

Value tfm::multiplyFourBits(KernelBuilder &kb, Terms terms, ArrayRef<Value> a,
                            ArrayRef<Value> b) {
  Value sum = noFourBitSums(kb, terms);
  for (auto [x, y] : llvm::zip_equal(a, b))
    sum = multiplyAddFourBits(kb, terms, x, y, sum);
  return fourBitSums(kb, terms, sum);
}
