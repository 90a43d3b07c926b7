//===- Tied.h - the report of a small model, for tests --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TESTS_UNIT_REPORT_TIED_H
#define TFM_TESTS_UNIT_REPORT_TIED_H

#include "compiler/dialect/TfmDialect.h"
#include "compiler/report/ModelReport.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/MemoryBuffer.h"

#include <gtest/gtest.h>

namespace tfm::test {

/// The report of a module given as text; fails the test where it has none.
inline ModelReport reportOf(llvm::StringRef text) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<TfmDialect, mlir::func::FuncDialect>();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  EXPECT_TRUE(module) << text.str();
  if (!module)
    return {};
  llvm::Expected<ModelReport> report = makeReport(*module);
  if (!report) {
    ADD_FAILURE() << llvm::toString(report.takeError());
    return {};
  }
  return std::move(*report);
}

/// The report of tests/fixtures/report/tied.mlir.
inline ModelReport tiedReport() {
  auto buffer = llvm::MemoryBuffer::getFile(TFM_FIXTURES "/report/tied.mlir");
  EXPECT_TRUE(static_cast<bool>(buffer));
  return buffer ? reportOf((*buffer)->getBuffer()) : ModelReport();
}

} // namespace tfm::test

#endif // TFM_TESTS_UNIT_REPORT_TIED_H
