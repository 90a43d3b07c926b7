//===- Schedule.cpp - views and printing ----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/codegen/schedule/Schedule.h"

#include "compiler/dialect/TfmDialect.h"

using namespace mlir;
using namespace tfm;

int64_t tfm::elementBytes(Type element) {
  return element.isInteger(1) ? 1 : element.getIntOrFloatBitWidth() / 8;
}

View tfm::contiguousView(int buffer, RankedTensorType type) {
  View view;
  view.buffer = buffer;
  view.element = type.getElementType();
  view.shape.assign(type.getShape().begin(), type.getShape().end());
  view.strides.assign(view.shape.size(), 1);
  for (int64_t i = static_cast<int64_t>(view.shape.size()) - 2; i >= 0; --i)
    view.strides[i] = view.strides[i + 1] * view.shape[i + 1];
  return view;
}

int64_t View::numElements() const {
  int64_t n = 1;
  for (int64_t size : shape)
    n *= size;
  return n;
}

bool View::isContiguous() const {
  int64_t expected = 1;
  for (int64_t i = static_cast<int64_t>(shape.size()) - 1; i >= 0; --i) {
    if (shape[i] != 1 && strides[i] != expected)
      return false;
    expected *= shape[i];
  }
  return true;
}

View View::transposed(ArrayRef<int64_t> permutation) const {
  View result = *this;
  for (auto [i, axis] : llvm::enumerate(permutation)) {
    result.shape[i] = shape[axis];
    result.strides[i] = strides[axis];
  }
  return result;
}

View View::sliced(int64_t axis, int64_t start, int64_t size) const {
  View result = *this;
  result.offset += start * strides[axis];
  result.shape[axis] = size;
  return result;
}

View View::dropLeading() const {
  View result = *this;
  result.shape.erase(result.shape.begin());
  result.strides.erase(result.strides.begin());
  return result;
}

View View::perLayer(unsigned depth) const {
  View result = dropLeading();
  result.loopStrides.resize(std::max<size_t>(loopStrides.size(), depth + 1), 0);
  result.loopStrides[depth] += strides.front();
  return result;
}

View View::broadcastTo(ArrayRef<int64_t> to) const {
  View result = *this;
  result.shape.assign(to.begin(), to.end());
  result.strides.assign(to.size(), 0);
  size_t missing = to.size() - shape.size();
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] == to[missing + i])
      result.strides[missing + i] = strides[i];
  return result;
}

View View::reshaped(ArrayRef<int64_t> to) const {
  // Walk both shapes from the back in runs of axes with equal products; the old
  // axes of a run must be mergeable into one, which the new axes then split.
  View result = *this;
  result.shape.assign(to.begin(), to.end());
  result.strides.assign(to.size(), 0);
  int64_t from = static_cast<int64_t>(shape.size()) - 1;
  int64_t out = static_cast<int64_t>(to.size()) - 1;
  auto skipOnes = [&] {
    while (from >= 0 && shape[from] == 1)
      --from;
    while (out >= 0 && to[out] == 1)
      --out;
  };
  for (skipOnes(); from >= 0 && out >= 0; skipOnes()) {
    int64_t step = strides[from];
    int64_t have = shape[from--];
    int64_t first = out;
    int64_t want = to[out--];
    while (have != want) {
      if (have > want) {
        if (out < 0)
          return View();
        want *= to[out--];
        continue;
      }
      while (from >= 0 && shape[from] == 1)
        --from;
      if (from < 0 || strides[from] != step * have)
        return View();
      have *= shape[from--];
    }
    for (int64_t i = first; i > out; --i) {
      result.strides[i] = step;
      step *= to[i];
    }
  }
  if (from >= 0 || out >= 0)
    return View();
  return result;
}

int64_t Schedule::cacheBytes() const {
  int64_t bytes = 0;
  for (int cache : caches)
    bytes += cache < 0 ? 0 : buffers[cache].bytes;
  return bytes;
}

int Schedule::addBuffer(std::string name, BufferKind kind, int64_t bytes) {
  Buffer buffer;
  buffer.name = std::move(name);
  buffer.kind = kind;
  buffer.bytes = bytes;
  buffers.push_back(std::move(buffer));
  return static_cast<int>(buffers.size()) - 1;
}

static StringRef kindName(KernelKind kind) {
  switch (kind) {
  case KernelKind::Row:
    return "row";
  case KernelKind::Matmul:
    return "matmul";
  case KernelKind::Attention:
    return "attention";
  case KernelKind::AttentionBackward:
    return "attention_backward";
  case KernelKind::ScatterAdd:
    return "scatter_add";
  case KernelKind::CacheUpdate:
    return "cache_update";
  }
  return "";
}

static void printView(raw_ostream &os, const Schedule &schedule,
                      const View &view) {
  os << schedule.buffers[view.buffer].name;
  if (view.offset)
    os << '+' << view.offset;
  for (auto [depth, stride] : llvm::enumerate(view.loopStrides))
    if (stride)
      os << "+i" << depth << '*' << stride;
  os << '[';
  llvm::interleave(view.shape, os, "x");
  os << ']';
  if (!view.isContiguous()) {
    os << '{';
    llvm::interleave(view.strides, os, ",");
    os << '}';
  }
}

static void printSteps(raw_ostream &os, const Schedule &schedule,
                       const std::vector<tfm::Step> &steps, unsigned indent) {
  for (const tfm::Step &step : steps) {
    os.indent(indent);
    if (step.isLoop()) {
      os << "loop " << step.count << (step.reverse ? " reverse" : "") << " {\n";
      printSteps(os, schedule, step.body, indent + 2);
      os.indent(indent) << "}\n";
      continue;
    }
    const Launch &launch = *step.launch;
    os << describe(launch);
    for (auto &[value, view] : launch.reads) {
      os << " ";
      printView(os, schedule, view);
    }
    os << " ->";
    for (auto &[value, view] : launch.writes) {
      os << " ";
      printView(os, schedule, view);
    }
    os << '\n';
  }
}

std::string tfm::describe(const Launch &launch) {
  std::string text;
  llvm::raw_string_ostream os(text);
  ArrayRef<Operation *> ops = launch.group.ops;
  if (launch.fold)
    os << "fold";
  else if (ops.empty())
    os << (launch.reads.empty() ? "fill" : "copy");
  else
    os << kindName(launch.group.kind);
  if (launch.group.domain.rows)
    os << ' ' << launch.group.domain.rows << 'x' << launch.group.domain.cols;
  if (auto matmul =
          ops.empty() ? MatmulOp() : dyn_cast<MatmulOp>(ops.front())) {
    ArrayRef<int64_t> a = tensorType(matmul.getA()).getShape();
    os << 'x' << a[a.size() - (matmul.getTransposeA() ? 2 : 1)];
  }
  // A kernel of one op says it with its kind.
  if (launch.group.kind != KernelKind::Row)
    ops = ops.drop_front();
  if (!ops.empty())
    os << " (";
  llvm::interleave(
      ops, os, [&](Operation *op) { os << op->getName().stripDialect(); }, " ");
  if (!ops.empty())
    os << ')';
  return text;
}

std::string tfm::pathOf(const Launch &launch) {
  // A derivative has the location of the op that it is of.
  SmallVector<Location> places;
  for (Operation *op : launch.group.ops)
    places.push_back(op->getLoc());
  for (auto &[value, view] : launch.writes)
    places.push_back(value.getLoc());
  for (Location place : places)
    if (auto path = place->findInstanceOf<NameLoc>();
        path && !path.getName().empty())
      return path.getName().str();
  return "";
}

int64_t tfm::productFlopsOf(const Launch &launch) {
  if (launch.group.ops.empty())
    return 0;
  Operation *op = launch.group.ops.front();
  if (auto matmul = dyn_cast<MatmulOp>(op)) {
    ArrayRef<int64_t> a = tensorType(matmul.getA()).getShape();
    return 2 * a[a.size() - (matmul.getTransposeA() ? 2 : 1)] *
           tensorType(matmul.getY()).getNumElements();
  }
  if (isa<AttentionOp, AttentionBackwardOp>(op)) {
    ArrayRef<int64_t> q = tensorType(op->getOperand(0)).getShape();
    ArrayRef<int64_t> v = tensorType(op->getOperand(2)).getShape();
    int64_t products = 2 * q[0] * q[1] * q[2] * v[2] * (q[3] + v[3]);
    return isa<AttentionOp>(op) ? products : 5 * products / 2;
  }
  return 0;
}

int64_t tfm::flopsOf(const Launch &launch) {
  if (int64_t products = productFlopsOf(launch))
    return products;
  return static_cast<int64_t>(launch.group.ops.size()) *
         launch.group.domain.rows * launch.group.domain.cols;
}

int64_t tfm::bytesOf(const Launch &launch) {
  int64_t bytes = 0;
  auto add = [&](const View &view) {
    int64_t n = elementBytes(view.element);
    for (auto [size, stride] : llvm::zip_equal(view.shape, view.strides))
      n *= stride == 0 ? 1 : size;
    bytes += n;
  };
  for (auto &[value, view] : launch.reads)
    add(view);
  for (auto &[value, view] : launch.writes)
    add(view);
  return bytes;
}

void Schedule::print(raw_ostream &os) const {
  os << "arena " << arenaBytes << " bytes, activations " << activationBytes
     << " of at least " << lowerBound << "\n";
  for (const Buffer &buffer : buffers) {
    os << "buffer " << buffer.name << ' ' << buffer.bytes << " at "
       << buffer.offset;
    if (buffer.kind == BufferKind::Activation)
      os << " from " << buffer.begin << " to " << buffer.end;
    os << '\n';
  }
  for (const Program &program : programs) {
    os << "program " << program.name << " {\n";
    printSteps(os, *this, program.steps, 2);
    os << "}\n";
  }
}
