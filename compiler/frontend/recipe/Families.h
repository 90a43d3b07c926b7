//===- Families.h - the tables of families ----------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A family is a table (`llama.json`) and a model file (`llama.tfm`), in the
// compiler (compiler/families) or in a folder of the user's. Nothing throws.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_RECIPE_FAMILIES_H
#define TFM_FRONTEND_RECIPE_FAMILIES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace tfm {

/// The families that are part of the compiler, sorted.
std::vector<std::string> embeddedFamilies();

/// Which of them has a `model_type`, by that: its own, or that of a larger
/// model which it is a part of.
std::map<std::string, std::string> familiesByType();

/// A table with all that it includes. `name` is that of a family of the
/// compiler, or the path of a file, `mine.json`, which may include those beside
/// it and those of the compiler. Fails with the file that is at fault.
/// `files` are those that a family of the user's is made of, its model too.
llvm::Expected<nlohmann::json>
readFamilyTable(llvm::StringRef name,
                std::vector<std::string> *files = nullptr);

/// The model file of a family: what the table of that name says is its `model`,
/// beside it. Fails with the file that cannot be read.
llvm::Expected<std::string> readFamilyModel(llvm::StringRef name,
                                            llvm::StringRef model);

} // namespace tfm

#endif // TFM_FRONTEND_RECIPE_FAMILIES_H
