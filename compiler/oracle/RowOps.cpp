//===- RowOps.cpp - the meaning of reductions, norms and losses -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/oracle/Frame.h"

#include <cmath>
#include <limits>
#include <numeric>

using namespace mlir;
using namespace tfm;
using namespace tfm::oracle;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

double sum(ArrayRef<double> row) {
  return std::accumulate(row.begin(), row.end(), 0.0);
}

double mean(ArrayRef<double> row) { return sum(row) / row.size(); }

template <typename Op>
void reduce(Frame &frame, Op op, double start,
            llvm::function_ref<double(double, double)> combine) {
  const Tensor &x = frame.get(op.getX());
  Tensor y(tensorType(op.getY()).getShape(), start);
  forEachIndex(x.shape, [&](ArrayRef<int64_t> index) {
    std::vector<int64_t> to(index.begin(), index.end());
    to[op.getAxis()] = 0;
    y.at(to) = combine(y.at(to), x.at(index));
  });
  frame.set(op.getY(), std::move(y));
}

void reduceSum(Frame &frame, ReduceSumOp op) {
  reduce(frame, op, 0.0, [](double a, double b) { return a + b; });
}

void reduceMax(Frame &frame, ReduceMaxOp op) {
  reduce(frame, op, -infinity, [&](double a, double b) {
    return op.getKeepsNan() ? maximum(a, b) : std::max(a, b);
  });
}

void cumsum(Frame &frame, CumsumOp op) {
  const Tensor &x = frame.get(op.getX());
  Tensor y = Frame::like(op.getY());
  auto axis = static_cast<int64_t>(op.getAxis());
  forEachIndex(x.shape, [&](ArrayRef<int64_t> index) {
    std::vector<int64_t> from(index.begin(), index.end());
    int64_t first = op.getReverse() ? index[axis] : 0,
            last = op.getReverse() ? x.shape[axis] - 1 : index[axis];
    for (from[axis] = first; from[axis] <= last; ++from[axis])
      y.at(index) += x.at(from);
  });
  frame.set(op.getY(), std::move(y));
}

void scan(Frame &frame, ScanOp op) {
  const Tensor &decay = frame.get(op.getDecay()), &x = frame.get(op.getX());
  Tensor y = Frame::like(op.getY());
  auto axis = static_cast<int64_t>(op.getAxis());
  forEachIndex(x.shape, [&](ArrayRef<int64_t> index) {
    // What `x` at each place has become where it gets here.
    std::vector<int64_t> from(index.begin(), index.end());
    double product = 1.0;
    for (; from[axis] >= 0 && from[axis] < x.shape[axis];
         from[axis] += op.getReverse() ? 1 : -1) {
      if (op.getReverse() && from[axis] > index[axis])
        product *= decay.at(from);
      y.at(index) += product * x.at(from);
      if (!op.getReverse())
        product *= decay.at(from);
    }
  });
  frame.set(op.getY(), std::move(y));
}

void shift(Frame &frame, ShiftOp op) {
  const Tensor &x = frame.get(op.getX());
  Tensor y = Frame::like(op.getY());
  auto axis = static_cast<int64_t>(op.getAxis());
  forEachIndex(x.shape, [&](ArrayRef<int64_t> index) {
    std::vector<int64_t> to(index.begin(), index.end());
    to[axis] += static_cast<int64_t>(op.getSteps());
    if (to[axis] >= 0 && to[axis] < x.shape[axis])
      y.at(to) = x.at(index);
  });
  frame.set(op.getY(), std::move(y));
}

void topK(Frame &frame, TopKOp op) {
  const Tensor &x = frame.get(op.getX());
  Tensor values = Frame::like(op.getValues()),
         indices = Frame::like(op.getIndices());
  for (int64_t i = 0; i < x.rows(); ++i) {
    std::vector<int64_t> order(x.rowSize());
    std::iota(order.begin(), order.end(), 0);
    llvm::sort(order, [&](int64_t a, int64_t b) {
      double left = x.row(i)[a], right = x.row(i)[b];
      return left != right ? left > right : a < b;
    });
    for (int64_t j = 0; j < values.rowSize(); ++j) {
      values.row(i)[j] = x.row(i)[order[j]];
      indices.row(i)[j] = static_cast<double>(order[j]);
    }
  }
  frame.set(op.getValues(), std::move(values));
  frame.set(op.getIndices(), std::move(indices));
}

void softmax(Frame &frame, SoftmaxOp op) {
  Tensor y = frame.get(op.getX());
  for (int64_t i = 0; i < y.rows(); ++i) {
    LogSum sum(y.row(i));
    for (double &value : y.row(i))
      value = sum.ofNothing() ? 0.0 : std::exp(sum.below(value));
  }
  frame.set(op.getY(), std::move(y));
}

void logSoftmax(Frame &frame, LogSoftmaxOp op) {
  Tensor y = frame.get(op.getX());
  for (int64_t i = 0; i < y.rows(); ++i) {
    LogSum sum(y.row(i));
    for (double &value : y.row(i))
      value = sum.below(value);
  }
  frame.set(op.getY(), std::move(y));
}

void normalize(Frame &frame, NormalizeOp op) {
  Tensor y = frame.get(op.getX());
  double eps = op.getEps().convertToDouble();
  for (int64_t i = 0; i < y.rows(); ++i) {
    double centre = mean(y.row(i));
    double variance = 0.0;
    for (double x : y.row(i))
      variance += (x - centre) * (x - centre) / y.rowSize();
    for (double &x : y.row(i))
      x = (x - centre) / std::sqrt(variance + eps);
  }
  frame.set(op.getY(), std::move(y));
}

void rmsNormalize(Frame &frame, RmsNormalizeOp op) {
  Tensor y = frame.get(op.getX());
  double eps = op.getEps().convertToDouble();
  for (int64_t i = 0; i < y.rows(); ++i) {
    double square = 0.0;
    for (double x : y.row(i))
      square += x * x / y.rowSize();
    for (double &x : y.row(i))
      x /= std::sqrt(square + eps);
  }
  frame.set(op.getY(), std::move(y));
}

void crossEntropy(Frame &frame, CrossEntropyOp op) {
  const Tensor &logits = frame.get(op.getLogits());
  const Tensor &targets = frame.get(op.getTargets());
  double smoothing = op.getLabelSmoothing().convertToDouble();
  Tensor losses = Frame::like(op.getLosses()), lse = Frame::like(op.getLse());
  for (int64_t i = 0; i < logits.rows(); ++i) {
    ArrayRef<double> row = logits.row(i);
    auto target = static_cast<int64_t>(targets.data[i]);
    lse.data[i] = LogSum(row).whole();
    if (target == op.getIgnore())
      continue;
    losses.data[i] = lse.data[i] - (1.0 - smoothing) * row[target];
    // Without a share of the others one of minus infinity is not NaN.
    if (smoothing != 0.0)
      losses.data[i] -= smoothing * mean(row);
  }
  frame.set(op.getLosses(), std::move(losses));
  frame.set(op.getLse(), std::move(lse));
}

void crossEntropyBackward(Frame &frame, CrossEntropyBackwardOp op) {
  const Tensor &logits = frame.get(op.getLogits());
  const Tensor &targets = frame.get(op.getTargets());
  const Tensor &lse = frame.get(op.getLse());
  const Tensor &dlosses = frame.get(op.getDlosses());
  double smoothing = op.getLabelSmoothing().convertToDouble();
  Tensor dlogits = Frame::like(op.getDlogits());
  int64_t classes = logits.rowSize();
  for (int64_t i = 0; i < logits.rows(); ++i) {
    auto target = static_cast<int64_t>(targets.data[i]);
    if (target == op.getIgnore())
      continue;
    for (int64_t j = 0; j < classes; ++j) {
      double wanted = smoothing / classes + (j == target ? 1.0 - smoothing : 0);
      double softmax = std::exp(logits.row(i)[j] - lse.data[i]);
      dlogits.row(i)[j] = (softmax - wanted) * dlosses.data[i];
    }
  }
  frame.set(op.getDlogits(), std::move(dlogits));
}

} // namespace

void tfm::oracle::addRowRules(Rules &rules) {
  addRule<ReduceSumOp, reduceSum>(rules);
  addRule<ReduceMaxOp, reduceMax>(rules);
  addRule<CumsumOp, cumsum>(rules);
  addRule<ScanOp, scan>(rules);
  addRule<ShiftOp, shift>(rules);
  addRule<TopKOp, topK>(rules);
  addRule<SoftmaxOp, softmax>(rules);
  addRule<LogSoftmaxOp, logSoftmax>(rules);
  addRule<NormalizeOp, normalize>(rules);
  addRule<RmsNormalizeOp, rmsNormalize>(rules);
  addRule<CrossEntropyOp, crossEntropy>(rules);
  addRule<CrossEntropyBackwardOp, crossEntropyBackward>(rules);
}
