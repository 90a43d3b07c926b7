//===- VectorHelpers.cpp - functions of vectors that kernels share --------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/emit/VectorHelpers.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/PatternMatch.h"
#include <array>
#include <cmath>
#include <limits>

using namespace mlir;
using namespace tfm;

namespace {

/// Constants and arithmetic on values of one type, scalar or vector.
struct Like {
  OpBuilder &b;
  Location loc;
  Type type;

  Value constant(double value) const {
    return splat(b.getFloatAttr(getElementTypeOrSelf(type), value));
  }
  Value integer(uint64_t value) const {
    auto element = cast<IntegerType>(getElementTypeOrSelf(type));
    return splat(IntegerAttr::get(element, APInt(element.getWidth(), value)));
  }
  Value splat(TypedAttr value) const {
    if (auto vector = dyn_cast<VectorType>(type))
      return arith::ConstantOp::create(b, loc,
                                       DenseElementsAttr::get(vector, value));
    return arith::ConstantOp::create(b, loc, value);
  }
  Value fma(Value x, Value y, Value z) const {
    return LLVM::FMAOp::create(b, loc, type, x, y, z);
  }
};

/// A scalar in every lane of `type`, which may be its own.
Value broadcastTo(OpBuilder &b, Location loc, Type type, Value scalar) {
  if (scalar.getType() == type)
    return scalar;
  return vector::BroadcastOp::create(b, loc, type, scalar);
}

/// The full product of x (i32) with a constant: its upper and lower half.
std::pair<Value, Value> multiplyOne(OpBuilder &b, Location loc, Value x,
                                    uint32_t factor) {
  Type wide = b.getI64Type(), narrow = x.getType();
  Like w{b, loc, wide};
  Value product = arith::MulIOp::create(
      b, loc, arith::ExtUIOp::create(b, loc, wide, x), w.integer(factor));
  Value upper = arith::ShRUIOp::create(b, loc, product, w.integer(32));
  return {arith::TruncIOp::create(b, loc, narrow, upper),
          arith::TruncIOp::create(b, loc, narrow, product)};
}

/// The full products of the lanes of x (vector<lanes x i32>) with a constant:
/// their upper and lower halves. Even and odd lanes are multiplied as 64-bit
/// lanes, which every vector unit has an instruction for.
std::pair<Value, Value> multiply(OpBuilder &b, Location loc, Value x,
                                 uint32_t factor) {
  auto type = dyn_cast<VectorType>(x.getType());
  if (!type)
    return multiplyOne(b, loc, x, factor);
  int64_t lanes = type.getNumElements();
  auto wide = VectorType::get({lanes / 2}, b.getI64Type());
  Like w{b, loc, wide};
  Value both = vector::BitCastOp::create(b, loc, wide, x);
  Value low32 = w.integer(0xffffffffu), factors = w.integer(factor),
        half = w.integer(32);
  Value even = arith::MulIOp::create(
      b, loc, arith::AndIOp::create(b, loc, both, low32), factors);
  Value odd = arith::MulIOp::create(
      b, loc, arith::ShRUIOp::create(b, loc, both, half), factors);
  Value evens = vector::BitCastOp::create(b, loc, type, even);
  Value odds = vector::BitCastOp::create(b, loc, type, odd);
  SmallVector<int64_t> upper, lower;
  for (int64_t i = 0; i < lanes; ++i) {
    int64_t pair = i - i % 2, second = i % 2 ? lanes : 0;
    upper.push_back(second + pair + 1);
    lower.push_back(second + pair);
  }
  return {vector::ShuffleOp::create(b, loc, evens, odds, upper),
          vector::ShuffleOp::create(b, loc, evens, odds, lower)};
}

/// Philox 4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1,
/// 2, 3", section 3.3) of four vectors of counters, or of four counters.
std::array<Value, 4> philox(OpBuilder &b, Location loc,
                            std::array<Value, 4> counter, Value key0,
                            Value key1) {
  Type i32 = b.getI32Type();
  Type type = counter[0].getType();
  Like scalar{b, loc, i32};
  for (int round = 0; round < 10; ++round) {
    auto [high0, low0] = multiply(b, loc, counter[0], 0xD2511F53u);
    auto [high1, low1] = multiply(b, loc, counter[2], 0xCD9E8D57u);
    auto mix = [&](Value high, Value word, Value key) -> Value {
      Value keys = broadcastTo(b, loc, type, key);
      Value mixed = arith::XOrIOp::create(b, loc, high, word);
      return arith::XOrIOp::create(b, loc, mixed, keys);
    };
    counter = {mix(high1, counter[1], key0), low1, mix(high0, counter[3], key1),
               low0};
    key0 = arith::AddIOp::create(b, loc, key0, scalar.integer(0x9E3779B9u));
    key1 = arith::AddIOp::create(b, loc, key1, scalar.integer(0xBB67AE85u));
  }
  return counter;
}

/// The four words of each counter, (column / 64) * 16 + column % 16, of a row.
std::array<Value, 4> wordsOf(OpBuilder &b, Location loc, const RandomKey &key,
                             Value row, Value counter) {
  auto splat = [&](Value scalar) {
    return broadcastTo(b, loc, counter.getType(), scalar);
  };
  return philox(b, loc, {counter, row, splat(key.stream), splat(key.step)},
                key.seedLow, key.seedHigh);
}

/// Which of these words dropout keeps the elements of.
Value keepOf(OpBuilder &b, Location loc, const DropoutKey &key, Value words) {
  Value threshold = Like{b, loc, words.getType()}.integer(key.threshold);
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::uge, words,
                               threshold);
}

} // namespace

RandomKey tfm::randomKey(OpBuilder &b, Location loc, Value rng, Value layer,
                         int64_t site, int64_t accumulate) {
  Like i32{b, loc, b.getI32Type()};
  auto word = [&](int64_t i) -> Value {
    Value index = arith::ConstantIndexOp::create(b, loc, i);
    return memref::LoadOp::create(b, loc, rng, ValueRange{index});
  };
  RandomKey key;
  key.seedLow = word(0);
  key.seedHigh = word(1);
  Value step = arith::MulIOp::create(b, loc, word(2), i32.integer(accumulate));
  key.step = arith::AddIOp::create(b, loc, step, word(3));
  Value narrow = arith::IndexCastOp::create(b, loc, b.getI32Type(), layer);
  key.stream = arith::AddIOp::create(b, loc, narrow, i32.integer(site * 65536));
  return key;
}

SmallVector<Value> tfm::randomWordVectors(OpBuilder &b, Location loc,
                                          const RandomKey &key, Value row,
                                          Value column, int64_t lanes) {
  Type i32 = b.getI32Type();
  Like number{b, loc, i32};
  auto type = VectorType::get({lanes}, i32);
  auto splat = [&](Value scalar) -> Value {
    return vector::BroadcastOp::create(b, loc, type, scalar);
  };
  auto narrow = [&](Value x) -> Value {
    return arith::IndexCastOp::create(b, loc, i32, x);
  };
  auto index = [&](int64_t x) -> Value {
    return arith::ConstantIndexOp::create(b, loc, x);
  };
  Value first = arith::MulIOp::create(
      b, loc, narrow(arith::DivUIOp::create(b, loc, column, index(64))),
      number.integer(16));
  // A vector of sixteen begins where they do.
  if (lanes < 16)
    first = arith::AddIOp::create(
        b, loc, first,
        narrow(arith::RemUIOp::create(b, loc, column, index(16))));
  auto numbers = llvm::to_vector(llvm::seq<int32_t>(lanes));
  Value iota = arith::ConstantOp::create(
      b, loc, DenseElementsAttr::get(type, ArrayRef<int32_t>(numbers)));
  return llvm::to_vector(
      wordsOf(b, loc, key, splat(narrow(row)),
              arith::AddIOp::create(b, loc, splat(first), iota)));
}

Value tfm::randomWord(OpBuilder &b, Location loc, const RandomKey &key,
                      Value row, Value column) {
  Type i32 = b.getI32Type();
  Like number{b, loc, i32};
  Value narrow = arith::TruncIOp::create(b, loc, i32, column);
  auto divided = [&](Value x, uint64_t by) -> Value {
    return arith::DivUIOp::create(b, loc, x, number.integer(by));
  };
  auto rest = [&](Value x, uint64_t by) -> Value {
    return arith::RemUIOp::create(b, loc, x, number.integer(by));
  };
  Value counter = arith::AddIOp::create(
      b, loc,
      arith::MulIOp::create(b, loc, divided(narrow, 64), number.integer(16)),
      rest(narrow, 16));
  std::array<Value, 4> words =
      wordsOf(b, loc, key, arith::TruncIOp::create(b, loc, i32, row), counter);
  Value which = divided(rest(narrow, 64), 16);
  Value word = words[0];
  for (uint64_t i = 1; i < 4; ++i) {
    Value isIt = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, which,
                                       number.integer(i));
    word = arith::SelectOp::create(b, loc, isIt, words[i], word);
  }
  return word;
}

Value tfm::unitOf(OpBuilder &b, Location loc, Value words) {
  Like bits{b, loc, words.getType()};
  Value upper = arith::ShRUIOp::create(b, loc, words, bits.integer(8));
  Type f32 = b.getF32Type(), type = f32;
  if (auto vector = dyn_cast<VectorType>(words.getType()))
    type = vector.clone(f32);
  // They fit in 31 bits, and there are instructions for signed ones.
  Value number = arith::SIToFPOp::create(b, loc, type, upper);
  return arith::MulFOp::create(b, loc, number,
                               Like{b, loc, type}.constant(0x1p-24));
}

DropoutKey tfm::dropoutKey(OpBuilder &b, Location loc, Value rng, Value layer,
                           int64_t site, double rate, int64_t accumulate) {
  return {randomKey(b, loc, rng, layer, site, accumulate),
          static_cast<uint32_t>(std::floor(rate * 4294967296.0))};
}

SmallVector<Value> tfm::dropoutKeepWords(OpBuilder &b, Location loc,
                                         const DropoutKey &key, Value row,
                                         Value counter) {
  return llvm::map_to_vector(
      wordsOf(b, loc, key, row, counter),
      [&](Value words) { return keepOf(b, loc, key, words); });
}

SmallVector<Value> tfm::dropoutKeepVectors(OpBuilder &b, Location loc,
                                           const DropoutKey &key, Value row,
                                           Value column, int64_t lanes) {
  return llvm::map_to_vector(
      randomWordVectors(b, loc, key, row, column, lanes),
      [&](Value words) { return keepOf(b, loc, key, words); });
}

Value tfm::dropoutKeep(OpBuilder &b, Location loc, const DropoutKey &key,
                       Value row, Value column) {
  return keepOf(b, loc, key, randomWord(b, loc, key, row, column));
}

/// Half of the 24 bits of an f32, whose lowest counts ones, and the bias of its
/// exponent: n + magic has the bits of 2**n in its lowest eight, for a whole n
/// from -127 (zero) to 128 (infinity).
static constexpr double magic = 12582912.0 + 127.0;

/// p * 2**n of `shifted` = n + magic.
static Value timesPowerOfTwo(OpBuilder &b, Location loc, Value p,
                             Value shifted) {
  Type bits = b.getI32Type();
  if (auto vector = dyn_cast<VectorType>(p.getType()))
    bits = vector.clone(bits);
  Value power = arith::ShLIOp::create(
      b, loc, arith::BitcastOp::create(b, loc, bits, shifted),
      Like{b, loc, bits}.integer(23));
  return arith::MulFOp::create(
      b, loc, p, arith::BitcastOp::create(b, loc, p.getType(), power));
}

/// x, or the end of the range that is nearer; NaN stays NaN. Two instructions
/// on x86, whose maximum and minimum give their second operand then.
static Value clamp(OpBuilder &b, Location loc, Value x, double low,
                   double high) {
  Like f{b, loc, x.getType()};
  auto where = [&](arith::CmpFPredicate predicate, Value end) {
    Value beyond = arith::CmpFOp::create(b, loc, predicate, end, x);
    x = arith::SelectOp::create(b, loc, beyond, end, x);
  };
  where(arith::CmpFPredicate::OGT, f.constant(low));
  where(arith::CmpFPredicate::OLT, f.constant(high));
  return x;
}

Value tfm::emitExp(OpBuilder &b, Location loc, Value x) {
  Like f{b, loc, x.getType()};
  // Where n is -127 and 128.
  x = clamp(b, loc, x, -88.0, 89.0);
  // x = n ln 2 + r with |r| <= ln 2 / 2: adding `magic` rounds to an integer.
  Value shifted = f.fma(x, f.constant(1.44269504088896341), f.constant(magic));
  Value n = arith::SubFOp::create(b, loc, shifted, f.constant(magic));
  Value r = f.fma(n, f.constant(-0.693359375), x);
  r = f.fma(n, f.constant(2.12194440e-4), r);
  // Moshier's expf (Cephes): e**r = 1 + r + r**2 p(r).
  Value p = f.constant(1.9875691500e-4);
  for (double coefficient : {1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2,
                             1.6666665459e-1, 5.0000001201e-1})
    p = f.fma(p, r, f.constant(coefficient));
  Value square = arith::MulFOp::create(b, loc, r, r);
  Value one = f.constant(1.0);
  p = f.fma(p, square, arith::AddFOp::create(b, loc, r, one));
  return timesPowerOfTwo(b, loc, p, shifted);
}

Value tfm::emitExp2(OpBuilder &b, Location loc, Value x) {
  Like f{b, loc, x.getType()};
  x = clamp(b, loc, x, -127.0, 128.0);
  // x = n + r with |r| <= 1 / 2, as in emitExp.
  Value shifted = arith::AddFOp::create(b, loc, x, f.constant(magic));
  Value n = arith::SubFOp::create(b, loc, shifted, f.constant(magic));
  Value r = arith::SubFOp::create(b, loc, x, n);
  // Moshier's exp2f (Cephes): 2**r = 1 + r p(r).
  Value p = f.constant(1.535336188319500e-4);
  for (double coefficient :
       {1.339887440266574e-3, 9.618437357674640e-3, 5.550332471162809e-2,
        2.402264791363012e-1, 6.931472028550421e-1, 1.0})
    p = f.fma(p, r, f.constant(coefficient));
  return timesPowerOfTwo(b, loc, p, shifted);
}

Value tfm::emitSine(OpBuilder &b, Location loc, Value x, bool cosine) {
  Like f{b, loc, x.getType()};
  Type bits = b.getI32Type();
  if (auto vector = dyn_cast<VectorType>(x.getType()))
    bits = VectorType::get(vector.getShape(), bits);
  Like i{b, loc, bits};
  // x = n pi / 2 + r with |r| <= pi / 4; pi / 2 in three parts (Cody and Waite
  // 1980), each of as many bits as an f32 has: a fused multiply-add loses none.
  // Of more than a million quarters the nearest number is one beside it: a
  // second look takes off what is left of one.
  auto quartersOf = [&](Value x) -> Value {
    return math::RoundEvenOp::create(
        b, loc,
        arith::MulFOp::create(b, loc, x, f.constant(0.63661977236758134)));
  };
  constexpr double parts[] = {-1.57079637050628662109375,
                              4.371139000186241438857289400265e-8,
                              1.7151245100058898e-15};
  auto without = [&](Value x, Value quarters, ArrayRef<double> parts) {
    for (double part : parts)
      x = f.fma(quarters, f.constant(part), x);
    return x;
  };
  Value n = quartersOf(x);
  Value r = without(x, n, parts);
  Value rest = quartersOf(r);
  r = without(r, rest, ArrayRef(parts).drop_back());
  // Not far beyond, also where n has no bits left for its last digits.
  Value most = f.constant(1.0);
  r = arith::MaximumFOp::create(b, loc, r, arith::NegFOp::create(b, loc, most));
  r = arith::MinimumFOp::create(b, loc, r, most);
  auto polynomial = [&](Value z, std::initializer_list<double> coefficients) {
    Value p;
    for (double coefficient : coefficients)
      p = p ? f.fma(p, z, f.constant(coefficient)) : f.constant(coefficient);
    return p;
  };
  // Moshier's sinf and cosf (Cephes).
  Value z = arith::MulFOp::create(b, loc, r, r);
  Value sine =
      polynomial(z, {-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1});
  sine = f.fma(arith::MulFOp::create(b, loc, sine, z), r, r);
  Value other = polynomial(z, {2.443315711809948e-5, -1.388731625493765e-3,
                               4.166664568298827e-2, -0.5, 1.0});
  // Quarter turns: odd ones trade sine and cosine, and two of them the sign.
  Value turns =
      arith::AddIOp::create(b, loc, arith::FPToSIOp::create(b, loc, bits, n),
                            arith::FPToSIOp::create(b, loc, bits, rest));
  if (cosine)
    turns = arith::AddIOp::create(b, loc, turns, i.integer(1));
  auto has = [&](uint64_t bit) -> Value {
    Value masked = arith::AndIOp::create(b, loc, turns, i.integer(bit));
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, masked,
                                 i.integer(0));
  };
  Value result = arith::SelectOp::create(b, loc, has(1), other, sine);
  return arith::SelectOp::create(b, loc, has(2),
                                 arith::NegFOp::create(b, loc, result), result);
}

namespace {

template <typename Op, bool cosine> struct SinePattern : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    if (!getElementTypeOrSelf(op.getType()).isF32())
      return rewriter.notifyMatchFailure(op, "not of f32");
    rewriter.replaceOp(
        op, emitSine(rewriter, op.getLoc(), op.getOperand(), cosine));
    return success();
  }
};

template <typename Op, Value (*emit)(OpBuilder &, Location, Value)>
struct PowerPattern : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    if (!getElementTypeOrSelf(op.getType()).isF32())
      return rewriter.notifyMatchFailure(op, "not of f32");
    rewriter.replaceOp(op, emit(rewriter, op.getLoc(), op.getOperand()));
    return success();
  }
};

} // namespace

void tfm::populateMathPatterns(RewritePatternSet &patterns) {
  patterns.add<PowerPattern<math::ExpOp, emitExp>,
               PowerPattern<math::Exp2Op, emitExp2>,
               SinePattern<math::SinOp, false>, SinePattern<math::CosOp, true>>(
      patterns.getContext(),
      /*benefit=*/2);
}
