//===- AttentionOps.cpp - attention, rope, and what is random -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/oracle/Frame.h"
#include "compiler/oracle/Philox.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace tfm;
using namespace tfm::oracle;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

int64_t layerOf(Frame &frame, Value layer) {
  return layer ? static_cast<int64_t>(frame.get(layer).data[0]) : 0;
}

/// One query's scores, and what its weights are multiplied by in dropout; for
/// forward and backward, which have the same operands and attributes.
template <typename Op> struct Scores {
  Frame &frame;
  Op op;
  const Tensor &q = frame.get(op.getQ()), &k = frame.get(op.getK());
  int64_t keys = k.shape[2];
  int64_t group = q.shape[1] / k.shape[1];

  /// Where query `t` of row `b` is among the keys.
  int64_t position(int64_t b, int64_t t) {
    if constexpr (std::is_same_v<Op, AttentionOp>)
      if (Value start = op.getStart())
        return static_cast<int64_t>(frame.get(start).at({b})) + t;
    return t;
  }
  /// Where key `s` of row `b` is: in a ring the newest position that has its
  /// row, which is below 0 where none has come to it yet.
  int64_t keyPosition(int64_t b, int64_t s) {
    if constexpr (std::is_same_v<Op, AttentionOp>)
      if (op.getRing()) {
        int64_t newest = position(b, q.shape[2] - 1);
        int64_t before = (newest - s) % keys;
        return newest - (before < 0 ? before + keys : before);
      }
    return s;
  }
  bool sees(int64_t b, int64_t h, int64_t t, int64_t s) {
    int64_t at = position(b, t), key = keyPosition(b, s);
    if (key < 0 || (op.getCausal() && key > at))
      return false;
    if (op.getWindow() && at - key >= static_cast<int64_t>(*op.getWindow()))
      return false;
    Value mask = op.getMask();
    return !mask || !tensorType(mask).getElementType().isInteger(1) ||
           maskAt(b, h, t, s) != 0.0;
  }
  std::vector<int64_t> maskIndex(int64_t b, int64_t h, int64_t t, int64_t s) {
    const Tensor &mask = frame.get(op.getMask());
    return {mask.shape[0] == 1 ? 0 : b, mask.shape[1] == 1 ? 0 : h, t, s};
  }
  double maskAt(int64_t b, int64_t h, int64_t t, int64_t s) {
    return frame.get(op.getMask()).at(maskIndex(b, h, t, s));
  }
  bool hasFloatMask() {
    return op.getMask() &&
           llvm::isa<FloatType>(tensorType(op.getMask()).getElementType());
  }

  /// Where the distance bias of a pair stands; nothing where it has none.
  std::optional<std::vector<int64_t>> biasIndex(int64_t b, int64_t h, int64_t t,
                                                int64_t s) {
    if (!op.getDistanceBias())
      return std::nullopt;
    int64_t columns = frame.get(op.getDistanceBias()).shape[1];
    int64_t column = position(b, t) - keyPosition(b, s) +
                     (op.getCausal() ? 0 : (columns - 1) / 2);
    if (column < 0 || column >= columns)
      return std::nullopt;
    return std::vector<int64_t>{h, column};
  }

  /// What the integers of a row of keys or values count times.
  double scaleOf(Value scale, int64_t b, int64_t h, int64_t s) {
    return scale ? frame.get(scale).at({b, h / group, s, 0}) : 1.0;
  }
  /// scale * q . k
  double product(int64_t b, int64_t h, int64_t t, int64_t s) {
    double sum = 0.0;
    for (int64_t i = 0; i < q.shape[3]; ++i)
      sum += q.at({b, h, t, i}) * k.at({b, h / group, s, i});
    if constexpr (std::is_same_v<Op, AttentionOp>)
      sum *= scaleOf(op.getKeyScale(), b, h, s);
    return sum * op.getScale().convertToDouble();
  }
  /// The score that the softmax sees, minus infinity for unseen keys.
  double score(int64_t b, int64_t h, int64_t t, int64_t s) {
    if (!sees(b, h, t, s))
      return -infinity;
    double value = product(b, h, t, s);
    if (op.getSoftcap()) {
      double cap = op.getSoftcap()->convertToDouble();
      value = cap * std::tanh(value / cap);
    }
    if (auto index = biasIndex(b, h, t, s))
      value += frame.get(op.getDistanceBias()).at(*index);
    if (!hasFloatMask())
      return value;
    double added = maskAt(b, h, t, s);
    return value + (std::isinf(added) ? added : std::max(added, leastMask));
  }
  /// 1 / (1 - rate) where dropout keeps a weight, 0 where it does not.
  double kept(int64_t b, int64_t h, int64_t t, int64_t s) {
    if (!op.getDropout())
      return 1.0;
    double rate = op.getDropout()->convertToDouble();
    int64_t row = (b * q.shape[1] + h) * q.shape[2] + t;
    bool keep = keeps(frame.environment, rate, *op.getSite(),
                      layerOf(frame, op.getLayer()),
                      {q.shape[0], q.shape[1], q.shape[2], keys}, row, s);
    return keep ? 1.0 / (1.0 - rate) : 0.0;
  }
};

void attention(Frame &frame, AttentionOp op) {
  Scores<AttentionOp> scores{frame, op};
  const Tensor &v = frame.get(op.getV());
  Tensor out = Frame::like(op.getOut()), lse = Frame::like(op.getLse());
  forEachIndex(lse.shape, [&](ArrayRef<int64_t> query) {
    int64_t b = query[0], h = query[1], t = query[2];
    std::vector<double> row;
    row.reserve(scores.keys);
    for (int64_t s = 0; s < scores.keys; ++s)
      row.push_back(scores.score(b, h, t, s));
    LogSum sum(row);
    lse.at(query) = sum.whole();
    if (sum.ofNothing())
      return;
    for (int64_t s = 0; s < scores.keys; ++s) {
      double weight = std::exp(sum.below(row[s]));
      weight *= scores.kept(b, h, t, s);
      weight *= scores.scaleOf(op.getValueScale(), b, h, s);
      for (int64_t i = 0; i < v.shape[3]; ++i)
        out.at({b, h, t, i}) += weight * v.at({b, h / scores.group, s, i});
    }
  });
  frame.set(op.getOut(), std::move(out));
  frame.set(op.getLse(), std::move(lse));
}

// With p the weights before dropout and g = dout . v * kept the cotangents of
// p, the scores' are p * (g - sum(p g)), and sum(p g) = dout . out.
void attentionBackward(Frame &frame, AttentionBackwardOp op) {
  Scores<AttentionBackwardOp> scores{frame, op};
  const Tensor &q = scores.q, &k = scores.k, &v = frame.get(op.getV());
  const Tensor &out = frame.get(op.getOut()), &lse = frame.get(op.getLse());
  const Tensor &dout = frame.get(op.getDout());
  double scale = op.getScale().convertToDouble();
  Tensor dq(q.shape), dk(k.shape), dv(v.shape), dmask, ddistance;
  if (op.getDmask())
    dmask = Frame::like(op.getDmask());
  if (op.getDdistance())
    ddistance = Frame::like(op.getDdistance());
  forEachIndex(lse.shape, [&](ArrayRef<int64_t> query) {
    int64_t b = query[0], h = query[1], t = query[2], kv = h / scores.group;
    if (lse.at(query) == -infinity)
      return;
    double inner = 0.0;
    if (op.getInner())
      inner = frame.get(op.getInner()).at(query);
    else
      for (int64_t i = 0; i < v.shape[3]; ++i)
        inner += dout.at({b, h, t, i}) * out.at({b, h, t, i});
    for (int64_t s = 0; s < scores.keys; ++s) {
      double p = std::exp(scores.score(b, h, t, s) - lse.at(query));
      double kept = scores.kept(b, h, t, s), g = 0.0;
      for (int64_t i = 0; i < v.shape[3]; ++i) {
        g += dout.at({b, h, t, i}) * v.at({b, kv, s, i}) * kept;
        dv.at({b, kv, s, i}) += p * kept * dout.at({b, h, t, i});
      }
      double dscore = p * (g - inner);
      if (op.getDmask())
        dmask.at(scores.maskIndex(b, h, t, s)) += dscore;
      if (op.getDdistance())
        if (auto index = scores.biasIndex(b, h, t, s))
          ddistance.at(*index) += dscore;
      if (op.getSoftcap()) {
        double cap = op.getSoftcap()->convertToDouble();
        double tanh = std::tanh(scores.product(b, h, t, s) / cap);
        dscore *= 1.0 - tanh * tanh;
      }
      for (int64_t i = 0; i < q.shape[3]; ++i) {
        dq.at({b, h, t, i}) += scale * dscore * k.at({b, kv, s, i});
        dk.at({b, kv, s, i}) += scale * dscore * q.at({b, h, t, i});
      }
    }
  });
  frame.set(op.getDq(), std::move(dq));
  frame.set(op.getDk(), std::move(dk));
  frame.set(op.getDv(), std::move(dv));
  if (op.getDmask())
    frame.set(op.getDmask(), std::move(dmask));
  if (op.getDdistance())
    frame.set(op.getDdistance(), std::move(ddistance));
}

void rope(Frame &frame, RopeOp op) {
  const Tensor &x = frame.get(op.getX());
  const Tensor &positions = frame.get(op.getPositions());
  auto dims = static_cast<int64_t>(op.getDims());
  double base = op.getBase().convertToDouble();
  double amplitude =
      op.getAmplitude() ? op.getAmplitude()->convertToDouble() : 1.0;
  auto frequency = [&](int64_t i) {
    return op.getFrequencies() ? (*op.getFrequencies())[i]
                               : std::pow(base, -2.0 * i / dims);
  };
  Tensor y = x;
  for (int64_t b = 0; b < x.shape[0]; ++b)
    for (int64_t h = 0; h < x.shape[1]; ++h)
      for (int64_t t = 0; t < x.shape[2]; ++t)
        for (int64_t i = 0; i < dims / 2; ++i) {
          double angle = positions.at({b, t}) * frequency(i);
          if (op.getInverse())
            angle = -angle;
          int64_t first = op.getInterleaved() ? 2 * i : i;
          int64_t second = op.getInterleaved() ? 2 * i + 1 : i + dims / 2;
          double u = x.at({b, h, t, first}), w = x.at({b, h, t, second});
          double c = amplitude * std::cos(angle),
                 s = amplitude * std::sin(angle);
          y.at({b, h, t, first}) = u * c - w * s;
          y.at({b, h, t, second}) = w * c + u * s;
        }
  frame.set(op.getY(), std::move(y));
}

void dropout(Frame &frame, DropoutOp op) {
  Tensor y = frame.get(op.getX());
  double rate = op.getRate().convertToDouble();
  int64_t layer = layerOf(frame, op.getLayer());
  for (int64_t row = 0; row < y.rows(); ++row)
    for (int64_t column = 0; column < y.rowSize(); ++column) {
      bool keep = keeps(frame.environment, rate, op.getSite(), layer, y.shape,
                        row, column);
      double &value = y.row(row)[column];
      value = keep ? value / (1.0 - rate) : 0.0;
    }
  frame.set(op.getY(), std::move(y));
}

/// The random word at (`row`, `column`); docs/design.md, "Random numbers".
uint32_t randomWord(const Environment &environment, int64_t site, int64_t layer,
                    int64_t row, int64_t column) {
  auto word = [](int64_t value) { return static_cast<uint32_t>(value); };
  auto words = philox({word(column / 64 * 16 + column % 16), word(row),
                       word(site * 65536 + layer), environment.counter},
                      {environment.seedLow, environment.seedHigh});
  return words[column % 64 / 16];
}

void uniform(Frame &frame, UniformOp op) {
  Tensor y = Frame::like(op.getY());
  int64_t layer = layerOf(frame, op.getLayer());
  for (int64_t row = 0; row < y.rows(); ++row)
    for (int64_t column = 0; column < y.rowSize(); ++column)
      y.row(row)[column] = std::ldexp(
          randomWord(frame.environment, op.getSite(), layer, row, column) >> 8,
          -24);
  frame.set(op.getY(), std::move(y));
}

} // namespace

bool tfm::oracle::keeps(const Environment &environment, double rate,
                        int64_t site, int64_t layer, ArrayRef<int64_t> shape,
                        int64_t row, int64_t column) {
  auto mask = environment.masks.find(site);
  if (mask != environment.masks.end()) {
    bool perLayer = mask->second.rank() > static_cast<int64_t>(shape.size());
    int64_t base = perLayer ? layer * numElements(shape) : 0;
    int64_t rowSize = shape.empty() ? 1 : shape.back();
    return mask->second.data[base + row * rowSize + column] != 0.0;
  }
  auto threshold = static_cast<uint64_t>(std::floor(std::ldexp(rate, 32)));
  return randomWord(environment, site, layer, row, column) >= threshold;
}

void tfm::oracle::addAttentionRules(Rules &rules) {
  addRule<AttentionOp, attention>(rules);
  addRule<AttentionBackwardOp, attentionBackward>(rules);
  addRule<RopeOp, rope>(rules);
  addRule<DropoutOp, dropout>(rules);
  addRule<UniformOp, uniform>(rules);
}
