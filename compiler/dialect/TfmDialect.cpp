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
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
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

mlir::RankedTensorType tfm::stackedType(mlir::RankedTensorType slice,
                                        int64_t count) {
  llvm::SmallVector<int64_t> shape = {count};
  llvm::append_range(shape, slice.getShape());
  return mlir::RankedTensorType::get(shape, slice.getElementType());
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

std::optional<double> tfm::floatSplat(mlir::Value value) {
  mlir::Operation *op = value.getDefiningOp();
  while (llvm::isa_and_nonnull<BroadcastOp, ReshapeOp, CastOp>(op)) {
    // A cast to whole numbers changes the number.
    if (!llvm::isa<mlir::FloatType>(
            mlir::getElementTypeOrSelf(op->getResult(0))) &&
        llvm::isa<CastOp>(op))
      return std::nullopt;
    op = op->getOperand(0).getDefiningOp();
  }
  mlir::DenseElementsAttr elements;
  if (!llvm::isa<mlir::FloatType>(mlir::getElementTypeOrSelf(value)) || !op ||
      !mlir::matchPattern(op, mlir::m_Constant(&elements)) ||
      !elements.isSplat())
    return std::nullopt;
  if (llvm::isa<mlir::FloatType>(elements.getElementType()))
    return elements.getSplatValue<llvm::APFloat>().convertToDouble();
  auto whole = elements.getSplatValue<llvm::APInt>();
  // `true` is 1, not the -1 that its one bit is with a sign.
  return elements.getElementType().isInteger(1)
             ? static_cast<double>(whole.getZExtValue())
             : static_cast<double>(whole.getSExtValue());
}

bool tfm::isFloatConstant(mlir::Value value) {
  return value.getDefiningOp<ConstantOp>() && floatSplat(value);
}
