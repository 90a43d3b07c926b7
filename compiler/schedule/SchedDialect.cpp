//===- SchedDialect.cpp - the sched dialect -------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/schedule/SchedDialect.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

#include "compiler/schedule/SchedDialect.cpp.inc"
#include "compiler/schedule/SchedEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "compiler/schedule/SchedAttrs.cpp.inc"

void tfm::sched::SchedDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "compiler/schedule/SchedAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "compiler/schedule/SchedOps.cpp.inc"
      >();
}

bool tfm::sched::isStridedMemRef(mlir::Type type) {
  auto memref = llvm::dyn_cast<mlir::MemRefType>(type);
  if (!memref || !memref.hasStaticShape() || memref.getMemorySpace())
    return false;
  llvm::SmallVector<int64_t> strides;
  int64_t offset;
  return mlir::succeeded(memref.getStridesAndOffset(strides, offset)) &&
         offset == 0 &&
         !llvm::is_contained(strides, mlir::ShapedType::kDynamic);
}

bool tfm::sched::isBytes(mlir::Type type) {
  auto memref = llvm::dyn_cast<mlir::MemRefType>(type);
  return memref && memref.hasStaticShape() && memref.getRank() == 1 &&
         memref.getElementType().isInteger(8) &&
         memref.getLayout().isIdentity();
}
