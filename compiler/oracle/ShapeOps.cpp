//===- ShapeOps.cpp - the meaning of shapes, tables and matrices ----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/oracle/Frame.h"

using namespace mlir;
using namespace tfm;
using namespace tfm::oracle;

namespace {

using Index = std::vector<int64_t>;

void constant(Frame &frame, ConstantOp op) {
  Tensor y = Frame::like(op.getY());
  auto values = llvm::cast<DenseElementsAttr>(op.getValue());
  size_t i = 0;
  if (llvm::isa<FloatType>(values.getElementType())) {
    for (const APFloat &value : values.getValues<APFloat>())
      y.data[i++] = value.convertToDouble();
  } else {
    // A true boolean is 1, not the -1 of a signed bit.
    double sign = values.getElementType().isInteger(1) ? -1.0 : 1.0;
    for (const APInt &value : values.getValues<APInt>())
      y.data[i++] = sign * static_cast<double>(value.getSExtValue());
  }
  frame.set(op.getY(), std::move(y));
}

void iota(Frame &frame, IotaOp op) {
  Tensor y = Frame::like(op.getY());
  forEachIndex(y.shape, [&](ArrayRef<int64_t> index) {
    y.at(index) = index[op.getAxis()];
  });
  frame.set(op.getY(), std::move(y));
}

void positions(Frame &frame, PositionsOp op) {
  Tensor y = Frame::like(op.getY());
  forEachIndex(y.shape,
               [&](ArrayRef<int64_t> index) { y.at(index) = index.back(); });
  frame.set(op.getY(), std::move(y));
}

void broadcast(Frame &frame, BroadcastOp op) {
  const Tensor &x = frame.get(op.getX());
  Tensor y = Frame::like(op.getY());
  forEachIndex(y.shape, [&](ArrayRef<int64_t> index) {
    ArrayRef<int64_t> tail = index.take_back(x.rank());
    Index from(tail.begin(), tail.end());
    for (size_t axis = 0; axis < from.size(); ++axis)
      if (x.shape[axis] == 1)
        from[axis] = 0;
    y.at(index) = x.at(from);
  });
  frame.set(op.getY(), std::move(y));
}

void reshape(Frame &frame, ReshapeOp op) {
  frame.set(op.getY(), Tensor(tensorType(op.getY()).getShape(),
                              frame.get(op.getX()).data));
}

void transpose(Frame &frame, TransposeOp op) {
  const Tensor &x = frame.get(op.getX());
  Tensor y = Frame::like(op.getY());
  forEachIndex(y.shape, [&](ArrayRef<int64_t> index) {
    Index from(index.size());
    for (auto [i, axis] : llvm::enumerate(op.getPermutation()))
      from[axis] = index[i];
    y.at(index) = x.at(from);
  });
  frame.set(op.getY(), std::move(y));
}

void slice(Frame &frame, SliceOp op) {
  const Tensor &x = frame.get(op.getX());
  Tensor y = Frame::like(op.getY());
  forEachIndex(y.shape, [&](ArrayRef<int64_t> index) {
    Index from(index.begin(), index.end());
    from[op.getAxis()] += op.getStart();
    y.at(index) = x.at(from);
  });
  frame.set(op.getY(), std::move(y));
}

void pad(Frame &frame, PadOp op) {
  const Tensor &x = frame.get(op.getX());
  Tensor y = Frame::like(op.getY());
  forEachIndex(x.shape, [&](ArrayRef<int64_t> index) {
    Index to(index.begin(), index.end());
    to[op.getAxis()] += op.getLow();
    y.at(to) = x.at(index);
  });
  frame.set(op.getY(), std::move(y));
}

void concat(Frame &frame, ConcatOp op) {
  Tensor y = Frame::like(op.getY());
  int64_t start = 0;
  for (Value operand : op.getXs()) {
    const Tensor &x = frame.get(operand);
    forEachIndex(x.shape, [&](ArrayRef<int64_t> index) {
      Index to(index.begin(), index.end());
      to[op.getAxis()] += start;
      y.at(to) = x.at(index);
    });
    start += x.shape[op.getAxis()];
  }
  frame.set(op.getY(), std::move(y));
}

void matmul(Frame &frame, MatmulOp op) {
  const Tensor &a = frame.get(op.getA()), &b = frame.get(op.getB());
  Tensor y = Frame::like(op.getY());
  int64_t last = y.rank() - 1;
  int64_t inner = a.shape[op.getTransposeA() ? last - 1 : last];
  forEachIndex(y.shape, [&](ArrayRef<int64_t> index) {
    Index ia(index.begin(), index.end()), ib = ia;
    double sum = 0.0;
    for (int64_t k = 0; k < inner; ++k) {
      ia[last - 1] = op.getTransposeA() ? k : index[last - 1];
      ia[last] = op.getTransposeA() ? index[last - 1] : k;
      ib[last - 1] = op.getTransposeB() ? index[last] : k;
      ib[last] = op.getTransposeB() ? k : index[last];
      sum += a.at(ia) * b.at(ib);
    }
    y.at(index) = sum;
  });
  frame.set(op.getY(), std::move(y));
}

void dequantise(Frame &frame, DequantiseOp op) {
  const Tensor &q = frame.get(op.getQ()), &scale = frame.get(op.getScale()),
               &minimum = frame.get(op.getMinimum());
  Tensor y = Frame::like(op.getY());
  for (int64_t row = 0; row < y.rows(); ++row)
    for (int64_t term = 0; term < y.rowSize(); ++term) {
      int64_t group = term / 32, inGroup = term % 32;
      auto byte = static_cast<uint8_t>(
          static_cast<int64_t>(q.row(row)[group * 16 + inGroup % 16]));
      int integer = inGroup < 16 ? byte % 16 : byte / 16;
      y.row(row)[term] =
          minimum.row(row)[group] + scale.row(row)[group] * integer;
    }
  frame.set(op.getY(), std::move(y));
}

void unpack(Frame &frame, UnpackOp op) {
  const Tensor &panels = frame.get(op.getPanels());
  Tensor y = Frame::like(op.getY());
  int64_t outputs = op.getPanelOutputs();
  forEachIndex(y.shape, [&](ArrayRef<int64_t> index) {
    int64_t output = index[index.size() - 2], term = index.back();
    Index from(index.begin(), index.end() - 2);
    from.insert(from.end(),
                {output / outputs, term / 4, output % outputs, term % 4});
    y.at(index) =
        static_cast<uint8_t>(static_cast<int64_t>(panels.at(from))) - 128;
  });
  frame.set(op.getY(), std::move(y));
}

void gather(Frame &frame, GatherOp op) {
  const Tensor &table = frame.get(op.getTable()), &ids = frame.get(op.getIds());
  Tensor y = Frame::like(op.getY());
  int64_t size = table.size() / table.shape[0];
  for (int64_t i = 0; i < ids.size(); ++i)
    for (int64_t j = 0; j < size; ++j)
      y.data[i * size + j] =
          table.data[static_cast<int64_t>(ids.data[i]) * size + j];
  frame.set(op.getY(), std::move(y));
}

void scatterAdd(Frame &frame, ScatterAddOp op) {
  const Tensor &ids = frame.get(op.getIds());
  const Tensor &updates = frame.get(op.getUpdates());
  Tensor y = frame.get(op.getBase());
  int64_t size = y.size() / y.shape[0];
  for (int64_t i = 0; i < ids.size(); ++i)
    for (int64_t j = 0; j < size; ++j)
      y.data[static_cast<int64_t>(ids.data[i]) * size + j] +=
          updates.data[i * size + j];
  frame.set(op.getY(), std::move(y));
}

void cacheUpdate(Frame &frame, CacheUpdateOp op) {
  const Tensor &updates = frame.get(op.getUpdates());
  const Tensor &positions = frame.get(op.getPositions());
  Tensor y = frame.get(op.getBase());
  forEachIndex(updates.shape, [&](ArrayRef<int64_t> index) {
    Index to(index.begin(), index.end());
    to[0] %= y.shape[0];
    to[2] += static_cast<int64_t>(positions.data[index[0]]);
    if (op.getRing())
      to[2] %= y.shape[2];
    if (to[2] >= 0 && to[2] < y.shape[2])
      y.at(to) = updates.at(index);
  });
  frame.set(op.getY(), std::move(y));
}

} // namespace

void tfm::oracle::addShapeRules(Rules &rules) {
  addRule<ConstantOp, constant>(rules);
  addRule<IotaOp, iota>(rules);
  addRule<PositionsOp, positions>(rules);
  addRule<BroadcastOp, broadcast>(rules);
  addRule<ReshapeOp, reshape>(rules);
  addRule<TransposeOp, transpose>(rules);
  addRule<SliceOp, slice>(rules);
  addRule<PadOp, pad>(rules);
  addRule<ConcatOp, concat>(rules);
  addRule<MatmulOp, matmul>(rules);
  addRule<DequantiseOp, dequantise>(rules);
  addRule<UnpackOp, unpack>(rules);
  addRule<GatherOp, gather>(rules);
  addRule<ScatterAddOp, scatterAdd>(rules);
  addRule<CacheUpdateOp, cacheUpdate>(rules);
}
