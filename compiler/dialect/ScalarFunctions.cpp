//===- ScalarFunctions.cpp - the functions of one number ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/ScalarFunctions.h"

#include "compiler/dialect/TfmDialect.h"

using namespace tfm;

namespace {

struct Table {
  llvm::SmallVector<ScalarFunction, 0> functions;

  template <typename... Ops> explicit Table(OpList<Ops...>) {
    (add<Ops>(), ...);
    llvm::sort(functions, [](const ScalarFunction &a, const ScalarFunction &b) {
      return a.name < b.name;
    });
  }

  template <typename OpT> void add() {
    if constexpr (isScalarFunction<OpT>)
      functions.push_back(
          {OpT::getOperationName().split('.').second, &OpT::valueAt});
  }
};

} // namespace

llvm::ArrayRef<ScalarFunction> tfm::scalarFunctions() {
  static const Table table{AllOps()};
  return table.functions;
}

const ScalarFunction *tfm::findScalarFunction(llvm::StringRef name) {
  for (const ScalarFunction &function : scalarFunctions())
    if (function.name == name)
      return &function;
  return nullptr;
}
