//===- Safetensors.h - fixtures as tensors ----------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TESTS_UNIT_ORACLE_SAFETENSORS_H
#define TFM_TESTS_UNIT_ORACLE_SAFETENSORS_H

#include "compiler/oracle/Tensor.h"

#include "llvm/Support/JSON.h"

#include <map>
#include <string>

namespace tfm::oracle {

/// The tensors of a safetensors file below tests/fixtures; a test failure when
/// it cannot be read.
std::map<std::string, Tensor> readFixture(const std::string &path);

/// A JSON file below tests/fixtures.
llvm::json::Value readFixtureJson(const std::string &path);

} // namespace tfm::oracle

#endif // TFM_TESTS_UNIT_ORACLE_SAFETENSORS_H
