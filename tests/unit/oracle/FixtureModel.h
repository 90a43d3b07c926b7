//===- FixtureModel.h - models that other frameworks computed ---*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TESTS_UNIT_ORACLE_FIXTUREMODEL_H
#define TFM_TESTS_UNIT_ORACLE_FIXTUREMODEL_H

#include "compiler/dialect/TfmDialect.h"
#include "compiler/oracle/Tensor.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/JSON.h"
#include "gtest/gtest.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tfm {

/// A model of tests/fixtures: its file, its weights, and what PyTorch or Keras
/// computed with them in f64.
struct Fixture {
  const char *name;
  /// What the checkpoint writes before our names.
  const char *prefix;
  int64_t batch, sequence, ignore;
  /// How far logits of the oracle may be off, relative to the largest: 1e-12 is
  /// rounding in f64, 2e-7 that of a constant table to f32.
  double logits;
};

inline const Fixture gpt2Fixture = {"gpt2_tiny", "transformer.", 2,
                                    16,          -100,           1e-12};
inline const Fixture llamaFixture = {"llama_tiny", "", 2, 16, -100, 1e-12};
inline const Fixture labFixture = {"lab_tiny", "", 3, 24, 0, 2e-7};
/// The batch of `lab_tiny` with padding inside of its inputs.
inline const Fixture gapsFixture = {"lab_tiny", "", 2, 24, 0, 2e-7};

inline std::string fixtureName(const testing::TestParamInfo<Fixture> &info) {
  return info.param.name;
}

/// A fixture in the tfm dialect, with what is expected of it.
class FixtureModel : public testing::TestWithParam<Fixture> {
protected:
  /// Compiles the model, `forward` for `rows` sequences and `loss` for
  /// `trainRows`, and reads the rest.
  void open(int64_t rows, int64_t trainRows,
            std::vector<std::pair<std::string, std::string>> defines = {});

  /// The value of every parameter, all layers stacked.
  std::map<std::string, oracle::Tensor> weights();
  /// The tensors of all layers of `param` as one.
  static oracle::Tensor
  stack(ParamOp param, const std::map<std::string, oracle::Tensor> &tensors,
        const std::string &prefix);
  /// The tokens, targets and count of the batch whose names start so.
  std::vector<oracle::Tensor> batch(const std::string &prefix);
  double number(llvm::StringRef name) {
    return *scalars.getAsObject()->getNumber(name);
  }

  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::map<std::string, oracle::Tensor> expected;
  llvm::json::Value scalars = nullptr;
};

} // namespace tfm

#endif // TFM_TESTS_UNIT_ORACLE_FIXTUREMODEL_H
