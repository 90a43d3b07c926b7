//===- Import.h - a model file for a folder of the hub ----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TOOLS_TFMC_IMPORT_H
#define TFM_TOOLS_TFMC_IMPORT_H

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
} // namespace CLI

namespace tfm {

struct ImportOptions {
  /// A Hugging Face folder: config.json, weights, tokenizer.
  std::string folder;
  /// Where the file will lie; empty: in this folder. Paths in it are relative
  /// to that place where they can be, unless they are to be whole.
  std::string output;
  bool wholePaths = false;
  /// A folder with families of the user's; may be empty.
  std::string families;
  /// Keys of config.json that no table has, and the model does not need.
  std::vector<std::string> ignored;
};

/// The `.tfm` file of the family that a folder is of, with the values of its
/// config.json, in the one formatting; checked against the weights, where the
/// folder has some. Nothing after messages that name the file and the key.
std::optional<std::string> importModel(const ImportOptions &options);

/// Adds the options of importing, `--families` and `--ignore-key`, to a
/// command.
void addImportOptions(CLI::App &command, ImportOptions &options);

} // namespace tfm

#endif // TFM_TOOLS_TFMC_IMPORT_H
