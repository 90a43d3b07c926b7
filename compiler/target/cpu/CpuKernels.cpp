//===- CpuKernels.cpp - what kernels of a CPU can read and write ----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/CpuKernels.h"

#include "compiler/target/KernelTarget.h"

using namespace mlir;
using namespace tfm;
using sched::KernelKind;
using sched::KernelOp;

namespace {

class CpuKernels final : public KernelTarget {
public:
  int64_t chunksOf(int64_t rows) const override { return rows >= 128 ? 16 : 1; }

  /// What an op reads as it lies in memory: products want one of an operand's
  /// last two axes contiguous, attention and caches the last one, a scatter all
  /// of them. A row kernel reads at any strides.
  bool canRead(KernelOp kernel, unsigned input,
               const View &view) const override {
    if (kernel.getInputAccess()[input] != sched::Access::Memory)
      return true;
    size_t rank = view.strides.size();
    bool rows = rank < 2 || view.strides[rank - 1] == 1;
    switch (kernel.getKind()) {
    case KernelKind::Row:
      return true;
    case KernelKind::Fold:
    case KernelKind::ScatterAdd:
      return view.isContiguous();
    case KernelKind::Matmul:
      return rows || view.strides[rank - 2] == 1;
    case KernelKind::Attention:
    case KernelKind::AttentionBackward:
    case KernelKind::CacheUpdate:
      return rows;
    }
    llvm_unreachable("a kind of kernel that reads nothing");
  }

  /// Products, attention and caches write whole rows, a scatter adds to rows
  /// that follow each other, and sums over rows are vectors. Row kernels, and
  /// what follows a product in its kernel, write at any strides.
  bool canWrite(KernelOp kernel, unsigned result,
                const View &view) const override {
    Operation *def = kernel.getYield()->getOperand(result).getDefiningOp();
    bool rows = view.strides.empty() || view.strides.back() == 1;
    switch (kernel.getKind()) {
    case KernelKind::Row:
      return !isColumnReduction(def) || view.isContiguous();
    case KernelKind::Fold:
      return true;
    case KernelKind::ScatterAdd:
      return view.isContiguous();
    case KernelKind::Matmul:
      return !isa_and_nonnull<MatmulOp>(def) || rows;
    case KernelKind::Attention:
    case KernelKind::AttentionBackward:
    case KernelKind::CacheUpdate:
      return rows;
    }
    llvm_unreachable("a kind of kernel that writes nothing");
  }
};

} // namespace

void tfm::registerCpuKernels() {
  KernelTarget::add("cpu", std::make_unique<CpuKernels>());
}
