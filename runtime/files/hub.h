//===- hub.h - what folders of the hub call things ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_FILES_HUB_H
#define TFM_RUNTIME_FILES_HUB_H

#include <nlohmann/json_fwd.hpp>

namespace tfm {

/// `hub.json`: what folders of the Hugging Face hub call things, whatever model
/// they hold, and what keys of a config.json say of the facts that a graph
/// shows (docs/families.md, "A model without a family").
const nlohmann::json &hubTable();

} // namespace tfm

#endif // TFM_RUNTIME_FILES_HUB_H
