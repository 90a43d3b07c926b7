//===- KernelTarget.h - what a schedule asks of a target --------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_KERNELTARGET_H
#define TFM_TARGET_KERNELTARGET_H

#include "compiler/schedule/SchedDialect.h"
#include "compiler/schedule/View.h"

#include <memory>

namespace tfm {

/// A kind of machine that kernels run on: which layouts its kernels take, and
/// how it cuts work up. Whatever depends on the machine stands behind this.
class KernelTarget {
public:
  virtual ~KernelTarget() = default;

  /// Into how many chunks a sum over so many rows is cut: a number that depends
  /// on nothing else, so that neither do the bits of the sum.
  virtual int64_t chunksOf(int64_t rows) const = 0;

  /// Whether the kernel can read its input of that number through `view`.
  virtual bool canRead(sched::KernelOp kernel, unsigned input,
                       const View &view) const = 0;
  /// Whether the kernel can write its result of that number through `view`.
  virtual bool canWrite(sched::KernelOp kernel, unsigned result,
                        const View &view) const = 0;

  /// Makes a target known. Each registers itself once, before passes run.
  static void add(llvm::StringRef name,
                  std::unique_ptr<const KernelTarget> target);
  /// The target of that name; null where there is none.
  static const KernelTarget *named(llvm::StringRef name);
};

} // namespace tfm

#endif // TFM_TARGET_KERNELTARGET_H
