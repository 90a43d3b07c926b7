//===- Philox.cpp - counter-based random bits in kernels ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/codegen/cpu/Philox.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <cmath>

using namespace mlir;
using namespace tfm;

namespace {

/// Vectors of 32-bit words, with the products of 64 bits that Philox needs.
class Words {
public:
  explicit Words(KernelBuilder &k)
      : k(k), narrow(VectorType::get({k.lanes}, k.b.getI32Type())),
        wide(VectorType::get({k.lanes}, k.b.getI64Type())) {}

  Value splat(Value scalar) { return vector::BroadcastOp::create(k.b, k.loc, narrow, scalar); }
  Value constant(uint32_t value) {
    return arith::ConstantOp::create(
        k.b, k.loc, DenseElementsAttr::get(narrow, static_cast<int32_t>(value)));
  }
  Value exclusiveOr(Value a, Value b) { return arith::XOrIOp::create(k.b, k.loc, a, b); }
  Value truncated(Value a) { return arith::TruncIOp::create(k.b, k.loc, narrow, a); }

  /// High and low word of `a * multiplier`.
  std::pair<Value, Value> multiply(Value a, uint64_t multiplier) {
    Value factor =
        arith::ConstantOp::create(k.b, k.loc, DenseElementsAttr::get(wide, static_cast<int64_t>(multiplier)));
    Value product = k.mul(arith::ExtUIOp::create(k.b, k.loc, wide, a), factor);
    Value shift = arith::ConstantOp::create(k.b, k.loc, DenseElementsAttr::get(wide, int64_t{32}));
    Value high = arith::ShRUIOp::create(k.b, k.loc, product, shift);
    return {truncated(high), truncated(product)};
  }

private:
  KernelBuilder &k;
  VectorType narrow, wide;
};

Value narrowed(KernelBuilder &k, Value value) {
  return arith::TruncIOp::create(k.b, k.loc, k.b.getI32Type(), value);
}

} // namespace

Value tfm::philoxKeep(KernelBuilder &k, Value rng, int64_t site, Value layer, Value row,
                      Value column, double rate) {
  Words words(k);
  Value pointer = k.pointer(rng);
  auto argument = [&](int64_t index) -> Value {
    return LLVM::LoadOp::create(k.b, k.loc, k.b.getI32Type(), k.at(pointer, index), /*alignment=*/4);
  };
  auto i32 = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(k.b, k.loc, value, 32);
  };
  // counter = {(c / 64) * 16 + c % 16, row, site * 65536 + layer, update}.
  Value lane = k.add(k.mul(k.div(column, 64), 16), k.rem(column, k.i64(16)));
  SmallVector<int32_t> numbers(k.lanes);
  for (int64_t i = 0; i < k.lanes; ++i)
    numbers[i] = static_cast<int32_t>(i);
  Value iota = arith::ConstantOp::create(
      k.b, k.loc,
      DenseElementsAttr::get(VectorType::get({k.lanes}, k.b.getI32Type()), ArrayRef<int32_t>(numbers)));
  Value where = i32(site << 16);
  if (layer)
    where = arith::OrIOp::create(k.b, k.loc, where, narrowed(k, layer));
  Value counter[4] = {k.add(words.splat(narrowed(k, lane)), iota), words.splat(narrowed(k, row)),
                      words.splat(where), words.splat(argument(2))};
  Value key[2] = {argument(0), argument(1)};
  for (int round = 0; round < 10; ++round) {
    auto [high0, low0] = words.multiply(counter[0], 0xD2511F53);
    auto [high1, low1] = words.multiply(counter[2], 0xCD9E8D57);
    Value next0 = words.exclusiveOr(words.exclusiveOr(high1, counter[1]), words.splat(key[0]));
    Value next2 = words.exclusiveOr(words.exclusiveOr(high0, counter[3]), words.splat(key[1]));
    counter[0] = next0;
    counter[1] = low1;
    counter[2] = next2;
    counter[3] = low0;
    key[0] = arith::AddIOp::create(k.b, k.loc, key[0], i32(static_cast<int32_t>(0x9E3779B9)));
    key[1] = arith::AddIOp::create(k.b, k.loc, key[1], i32(static_cast<int32_t>(0xBB67AE85)));
  }
  // Word (c % 64) / 16; a constant column folds the choice away.
  Value number = k.div(k.rem(column, k.i64(64)), 16);
  Value word = counter[0];
  for (int64_t i = 1; i < 4; ++i)
    word = arith::SelectOp::create(k.b, k.loc, k.equal(number, k.i64(i)), counter[i], word);
  auto threshold = static_cast<uint32_t>(std::floor(rate * 4294967296.0));
  return arith::CmpIOp::create(k.b, k.loc, arith::CmpIPredicate::uge, word,
                               words.constant(threshold));
}
