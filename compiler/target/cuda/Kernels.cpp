//===- Kernels.cpp - the kernel of a step on a GPU ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cuda/Kernels.h"

#include "compiler/schedule/Launches.h"
#include "compiler/schedule/SchedDialect.h"
#include "compiler/target/cuda/Attention.h"
#include "compiler/target/cuda/BlockBuilder.h"
#include "compiler/target/cuda/Gpu.h"
#include "compiler/target/cuda/GroupKernel.h"
#include "compiler/target/cuda/MoveRows.h"
#include "compiler/target/cuda/Product.h"
#include "compiler/target/cuda/ProductKernel.h"
#include "compiler/target/cuda/RowKernel.h"
#include "compiler/target/cuda/RowProduct.h"
#include "compiler/target/cuda/TopK.h"
#include "compiler/target/emit/VerifyElements.h"

using namespace mlir;
using namespace tfm;
using namespace tfm::sched;

static LogicalResult emitLaunch(LaunchOp launch, StringRef name,
                                ModuleOp kernels) {
  switch (launch.getKind()) {
  case KernelKind::Row:
    cuda::emitRowKernel(kernels, name, launch);
    return success();
  case KernelKind::Fold:
    cuda::emitFoldKernel(kernels, name, launch);
    return success();
  case KernelKind::ScatterAdd:
    cuda::emitScatterAddKernel(kernels, name, launch);
    return success();
  case KernelKind::CacheUpdate:
    cuda::emitCacheUpdateKernel(kernels, name, launch);
    return success();
  case KernelKind::Matmul:
    return cuda::emitProductKernel(kernels, name, launch);
  case KernelKind::TopK:
    return cuda::emitTopKKernel(kernels, name, launch);
  case KernelKind::Attention:
  case KernelKind::AttentionBackward:
    if (std::optional<int64_t> most = cuda::mostWidth(launch))
      return launch.emitError()
             << "a GPU has room for heads of " << *most << " numbers";
    if (launch.getKind() == KernelKind::Attention)
      cuda::emitAttentionKernel(kernels, name, launch);
    else
      cuda::emitAttentionBackwardKernel(kernels, name, launch);
    return success();
  }
  llvm_unreachable("a kind of kernel without an emitter");
}

bool cuda::multipliesOnTensorCores(LaunchOp launch) {
  switch (launch.getKind()) {
  case KernelKind::Matmul: {
    ProductLaunch product(launch);
    return !isRowProduct(product) && product.isOfBf16();
  }
  case KernelKind::Attention:
    return !isOfFewQueries(launch) && isOnTensorCores(launch);
  case KernelKind::AttentionBackward:
    return isOnTensorCores(launch);
  default:
    return false;
  }
}

/// Whether a kernel of that name, if there is one, needs more shared memory
/// than a block can have; then after an error.
static bool takesTooMuchMemory(ModuleOp kernels, StringRef name,
                               int64_t mostDynamic) {
  auto function = kernels.lookupSymbol<func::FuncOp>(name);
  if (!function)
    return false;
  auto dynamic = function->getAttrOfType<IntegerAttr>(cuda::sharedAttribute);
  if (cuda::SharedMemory(function).bytes() <= cuda::maxStaticShared &&
      (!dynamic || dynamic.getInt() <= mostDynamic))
    return false;
  function->emitError()
      << "a kernel of a GPU needs more shared memory than there is";
  return true;
}

LogicalResult cuda::emitKernel(Operation *step, StringRef name,
                               ModuleOp kernels) {
  if (failed(verifyElements(step)))
    return failure();
  if (auto copy = dyn_cast<CopyOp>(step))
    emitCopyKernel(kernels, name, copy);
  else if (auto fill = dyn_cast<FillOp>(step))
    emitFillKernel(kernels, name, fill);
  else if (auto group = dyn_cast<GroupOp>(step))
    emitGroupKernel(kernels, name, group);
  else if (failed(emitLaunch(cast<LaunchOp>(step), name, kernels)))
    return failure();
  Operation *function = kernels.lookupSymbol(name);
  Builder b(kernels.getContext());
  function->setAttr(stepAttribute, b.getStringAttr(describe(step)));
  function->setAttr(workAttribute,
                    b.getDenseI64ArrayAttr({stepFlops(step), stepBytes(step)}));
  return failure(takesTooMuchMemory(kernels, name, maxDynamicShared) ||
                 takesTooMuchMemory(kernels, (name + hopperSuffix).str(),
                                    maxDynamicSharedOf90));
}
