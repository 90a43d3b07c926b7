//===- DeviceKernels.cpp - how lowered kernels are launched ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cuda/DeviceKernels.h"

#include "compiler/target/cuda/BlockBuilder.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace tfm;

static tfm_boxed_tensor tensorOf(const cuda::BoxedTensor &tensor) {
  tfm_boxed_tensor record = {};
  record.argument = static_cast<int32_t>(tensor.argument);
  record.rank = static_cast<uint32_t>(tensor.sizes.size());
  constexpr int64_t elementBytes = 2;
  for (size_t axis = 0; axis != tensor.sizes.size(); ++axis) {
    record.sizes[axis] = static_cast<uint64_t>(tensor.sizes[axis]);
    record.strides[axis] =
        static_cast<uint64_t>(tensor.strides[axis] * elementBytes);
    record.box[axis] = static_cast<uint64_t>(tensor.box[axis]);
  }
  return record;
}

std::vector<DeviceKernel> cuda::kernelsOf(ModuleOp kernels) {
  std::vector<DeviceKernel> found;
  for (auto function : kernels.getOps<LLVM::LLVMFuncOp>()) {
    if (!function->hasAttr(NVVM::NVVMDialect::getKernelFuncAttrName()))
      continue;
    DeviceKernel kernel;
    kernel.name = function.getName().str();
    if (auto tensors = function->getAttrOfType<ArrayAttr>(tensorsAttribute))
      for (Attribute tensor : tensors)
        kernel.tensors.push_back(tensorOf(BoxedTensor::from(tensor)));
    kernel.arguments = function.getNumArguments() -
                       static_cast<uint32_t>(kernel.tensors.size());
    if (auto name = function->getAttrOfType<StringAttr>(hopperFormAttribute))
      kernel.formOf = name.str();
    if (auto bytes = function->getAttrOfType<IntegerAttr>(sharedAttribute))
      kernel.sharedBytes = static_cast<uint32_t>(bytes.getInt());
    if (auto blocks = function->getAttrOfType<IntegerAttr>(persistentAttribute))
      kernel.resident = static_cast<uint32_t>(blocks.getInt());
    auto grid = function->getAttrOfType<DenseI64ArrayAttr>(gridAttribute);
    auto block = function->getAttrOfType<DenseI32ArrayAttr>(
        NVVM::NVVMDialect::getReqntidAttrName());
    for (size_t axis = 0; axis != 3; ++axis) {
      kernel.grid[axis] = static_cast<uint32_t>(grid[axis]);
      kernel.block[axis] = static_cast<uint32_t>(block[axis]);
    }
    found.push_back(kernel);
  }
  return found;
}

std::vector<DeviceKernel> cuda::kernelsOf(sched::ProgramOp program) {
  auto schedule = program->getParentOfType<ModuleOp>();
  return kernelsOf(schedule.lookupSymbol<ModuleOp>("kernels"));
}
