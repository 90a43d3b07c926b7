//===- hub.cpp - what folders of the hub call things ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/files/hub.h"

#include <nlohmann/json.hpp>

const nlohmann::json &tfm::hubTable() {
  static const auto table = nlohmann::json::parse(
#include "runtime/files/hub_table.inc"
  );
  return table;
}
