//===- TfmDialect.cpp - the tfm dialect -----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/TfmDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

#include "compiler/dialect/TfmDialect.cpp.inc"
#include "compiler/dialect/TfmEnums.cpp.inc"
#include "compiler/dialect/TfmInterfaces.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "compiler/dialect/TfmAttrs.cpp.inc"

void tfm::TfmDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "compiler/dialect/TfmAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "compiler/dialect/TfmOps.cpp.inc"
      >();
}

mlir::Operation *tfm::TfmDialect::materializeConstant(mlir::OpBuilder &builder,
                                                      mlir::Attribute value,
                                                      mlir::Type type,
                                                      mlir::Location loc) {
  auto elements = llvm::dyn_cast<mlir::ElementsAttr>(value);
  if (!elements || elements.getType() != type)
    return nullptr;
  return ConstantOp::create(builder, loc, type, elements);
}

mlir::Value tfm::splat(mlir::OpBuilder &builder, mlir::Location loc,
                       mlir::RankedTensorType type, double value) {
  mlir::Type element = type.getElementType();
  mlir::Attribute attr;
  if (llvm::isa<mlir::FloatType>(element))
    attr = builder.getFloatAttr(element, value);
  else
    attr = builder.getIntegerAttr(element, static_cast<int64_t>(value));
  return ConstantOp::create(builder, loc, type,
                            mlir::DenseElementsAttr::get(type, attr));
}
